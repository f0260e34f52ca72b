import assert from "node:assert/strict";
import test from "node:test";
import { maps } from "../../slanglab/look/tokens.json";
import { centred, css, linear, luminance, lut, lutIndex, symlog, symlogTicks } from "../src/lib/colormap.ts";
import { parseColour, themeOf } from "../src/lib/theme.ts";
import { seeded } from "./random.ts";

test("a table begins and ends with its stops and is linear between them", () => {
  const table = lut(["#000000", "#102030", "#ffffff"], 5);
  assert.deepEqual([...table], [0, 0, 0, 8, 16, 24, 16, 32, 48, 136, 144, 152, 255, 255, 255]);
  assert.equal(css(lut(maps.tide), 0), "rgb(21,12,45)");
  assert.equal(css(lut(maps.tide), 255), "rgb(255,240,193)");
});

test("zero of the diverging maps is near the page", () => {
  const l = lut(maps.poles);
  const d = lut(maps["poles-dark"]);
  const at = (t: Uint8ClampedArray, i: number) =>
    luminance(t[i * 3] ?? 0, t[i * 3 + 1] ?? 0, t[i * 3 + 2] ?? 0);
  assert.ok(at(l, 127) > 0.85 && at(l, 0) < 0.15 && at(l, 255) < 0.15);
  assert.ok(at(d, 127) < 0.03 && at(d, 0) > 0.4 && at(d, 255) > 0.4);
});

test("scales go there and back, ascend, and hit their ends", () => {
  const { random, seed } = seeded();
  for (let k = 0; k < 500; k++) {
    const limit = 10 ** (random() * 60 - 30);
    for (const scale of [linear(-limit, 2 * limit), symlog(limit), centred(limit)]) {
      assert.ok(
        Math.abs(scale.to(scale.lo)) < 1e-12 && Math.abs(scale.to(scale.hi) - 1) < 1e-12,
        `seed ${seed}`,
      );
      const t = random();
      assert.ok(Math.abs(scale.to(scale.from(t)) - t) < 1e-9, `seed ${seed}: ${scale.kind}, limit ${limit}`);
      assert.ok(scale.to(scale.from(t)) < scale.to(scale.from(t + 0.01)), `seed ${seed}`);
    }
    assert.equal(symlog(limit).to(0), 0.5);
    const x = random() * limit;
    assert.ok(Math.abs(symlog(limit).to(x) + symlog(limit).to(-x) - 1) < 1e-12, `seed ${seed}`);
  }
});

test("degenerate ranges give a colour", () => {
  assert.equal(linear(3, 3).to(3), 0.5);
  assert.equal(symlog(0).to(0), 0.5);
  assert.equal(symlog(Number.NaN).to(0), 0.5);
  const big = linear(-Number.MAX_VALUE, Number.MAX_VALUE);
  assert.equal(big.to(0), 0.5);
  assert.equal(big.to(Number.MAX_VALUE), 1);
  assert.equal(lutIndex(-1), 0);
  assert.equal(lutIndex(2), 255);
  assert.equal(lutIndex(Number.POSITIVE_INFINITY), 255);
});

test("ticks of a symlog scale are zero and powers of ten outside the linear part", () => {
  assert.deepEqual(
    symlogTicks(symlog(2e-3)).map((v) => Number(v.toPrecision(3))),
    [-1e-3, -1e-4, 0, 1e-4, 1e-3],
  );
});

test("a theme is dark under relative luminance 0.4", () => {
  const theme = (text: string) => {
    const colour = parseColour(text);
    assert.ok(colour);
    return themeOf(colour);
  };
  assert.equal(theme("rgb(255, 255, 255)"), "light");
  assert.equal(theme("rgb(17, 17, 17)"), "dark");
  assert.equal(theme("rgba(33, 33, 33, 1)"), "dark");
  assert.equal(theme("rgb(160 160 160)"), "dark");
  assert.equal(theme("rgb(180 180 180)"), "light");
  assert.deepEqual(parseColour("rgba(0, 0, 0, 0)"), [0, 0, 0, 0]);
  assert.equal(parseColour("color(srgb 1 0 0)"), null);
});
