import assert from "node:assert/strict";
import test from "node:test";
import {
  ascii,
  bytesText,
  count,
  figures,
  shapeText,
  shortest32,
  shortest64,
  ticks,
  tickText,
} from "../src/lib/numbers.ts";
import { floats, rounds, seeded } from "./random.ts";

test("figures of tables", () => {
  const cases: [number, string][] = [
    [0, "0"],
    [-0, "0"],
    [1.75, "1.750"],
    [0.45051, "0.4505"],
    [-0.004291, "−0.004291"],
    [1.23449e-7, "1.234e−7"],
    [-2.3974e-7, "−2.397e−7"],
    [9999.4, "9999"],
    [9999.6, "1.000e4"],
    [10000, "1.000e4"],
    [0.001, "0.001000"],
    [0.00099, "9.900e−4"],
    [Number.NaN, "NaN"],
    [Number.POSITIVE_INFINITY, "+Inf"],
    [Number.NEGATIVE_INFINITY, "−Inf"],
  ];
  for (const [x, text] of cases) assert.equal(figures(x), text);
});

test("shortest text of a float32 reads back as the same float32 and no shorter text does", () => {
  const { random, seed } = seeded();
  for (const x of floats(random, 3000)) {
    const text = ascii(shortest32(x));
    assert.equal(Math.fround(Number(text)), x, `seed ${seed}: ${x} as ${text}`);
    const digits = text
      .replace(/e.*$/, "")
      .replace(/[-.]/g, "")
      .replace(/^0+|0+$/g, "").length;
    if (digits > 1) assert.ok(!rounds(x, digits - 1), `seed ${seed}: ${x} has a shorter text than ${text}`);
  }
});

test("shortest texts as people know them", () => {
  assert.equal(shortest32(Math.fround(0.1)), "0.1");
  assert.equal(shortest32(Math.fround(0.9760017)), "0.9760017");
  assert.equal(shortest32(Math.fround(-1.9479317e-4)), "−1.9479317e−4");
  assert.equal(shortest32(16777216), "1.6777216e7");
  assert.equal(shortest32(23), "23");
  assert.equal(shortest64(0.1), "0.1");
  assert.equal(shortest64(1 / 3), String(1 / 3));
  assert.equal(shortest64(Number.NaN), "NaN");
});

test("counts, shapes and bytes", () => {
  assert.equal(count(12288), "12\u202f288");
  assert.equal(count(999), "999");
  assert.equal(ascii(count(-1234567)), "-1234567");
  assert.equal(shapeText([8, 96, 128]), "(8, 96, 128)");
  assert.equal(shapeText([400]), "(400,)");
  assert.equal(shapeText([]), "()");
  assert.equal(bytesText(393216), "393 kB");
  assert.equal(bytesText(1600), "1.60 kB");
  assert.equal(bytesText(999_950), "1.00 MB");
  assert.equal(bytesText(16), "16 B");
});

test("ticks lie inside, ascend, are few and round", () => {
  const { random, seed } = seeded();
  for (let k = 0; k < 2000; k++) {
    const scale = 10 ** (random() * 40 - 20);
    const lo = (random() - 0.5) * scale;
    const hi = lo + random() * scale;
    const { values, step } = ticks(lo, hi, 5);
    const slack = step * 1e-6;
    assert.ok(values.length <= 12, `seed ${seed}: ${values.length} ticks in ${lo}…${hi}`);
    for (const [i, v] of values.entries()) {
      assert.ok(v >= lo - slack && v <= hi + slack, `seed ${seed}: ${v} outside ${lo}…${hi}`);
      if (i) assert.ok(v > (values[i - 1] ?? 0));
    }
    const mantissa = Number((step / 10 ** Math.floor(Math.log10(step) + 1e-9)).toPrecision(6));
    assert.ok([1, 2, 5, 10].includes(mantissa), `seed ${seed}: step ${step}`);
  }
});

test("ticks of degenerate ranges do not hang", () => {
  assert.deepEqual(ticks(2, 2).values, [2]);
  assert.deepEqual(ticks(Number.NaN, 1).values, []);
  assert.deepEqual(ticks(-Number.MAX_VALUE, Number.MAX_VALUE).values.length, 1);
  assert.ok(ticks(1e16, 1e16 + 4).values.length <= 50);
});

test("tick labels have the decimals of the step", () => {
  assert.equal(tickText(0.2, 0.2), "0.2");
  assert.equal(tickText(-0.25, 0.05), "−0.25");
  assert.equal(tickText(40, 20), "40");
  assert.equal(tickText(1e-17, 0.1), "0");
  assert.equal(tickText(2e-4, 1e-4), "2e−4");
});
