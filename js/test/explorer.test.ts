import assert from "node:assert/strict";
import test from "node:test";
import { Ahead } from "../src/explorer/ahead.ts";
import { apart, lineStyle, styleOf } from "../src/explorer/compared.ts";
import { readInfo } from "../src/explorer/data.ts";
import { duration, share } from "../src/explorer/words.ts";

test("a deviation is a share of the largest gradient", () => {
  assert.equal(share(0.003, 1), "0.3 %");
  assert.equal(share(2.1, 200), "1.1 %");
  assert.equal(share(1.02, 100), "1 %");
  assert.equal(share(1.02, 100, true), "1.1 %");
  assert.equal(share(0.003, 1, true), "0.3 %");
  assert.equal(share(3, 9), "33 %");
  assert.equal(share(1e-9, 1), "0.001 %");
  assert.equal(share(50, 1), "50 times");
  // Nothing to compare with: the number itself.
  assert.equal(share(2, 0), "2.0");
  assert.equal(share(Number.POSITIVE_INFINITY, 1), "+Inf");
});

test("a duration is said where somebody waits", () => {
  for (const quick of [0, 4.2, 99.9, Number.NaN]) assert.equal(duration(quick), "");
  assert.equal(duration(104), "100 ms");
  assert.equal(duration(698), "700 ms");
  assert.equal(duration(996), "1.0 s");
  assert.equal(duration(1500), "1.5 s");
  assert.equal(duration(12_345), "12 s");
});

test("names are as long as tells them apart", () => {
  assert.deepEqual(apart(["w.f", "w.g"]), ["f", "g"]);
  assert.deepEqual(apart(["w.f", "v.f", "v.g"]), ["w.f", "v.f", "g"]);
});

test("compared functions look different, and contour lines differ from the function's own", () => {
  const styles = [0, 1, 2, 3].map((i) => JSON.stringify(styleOf(i)));
  assert.equal(new Set(styles).size, 4);
  assert.equal(new Set([0, 1, 2].map((i) => lineStyle(i).colour)).size, 3);
  for (const i of [0, 1, 2, 5]) assert.notEqual(lineStyle(i).colour, "ink");
});

test("the next setting goes on as a knob went, and its frame is for these values alone", () => {
  const knob = { path: "a", kind: "float", low: 0, high: 1, step: 0.1, start: 0.5 };
  const info = readInfo({
    version: 1,
    name: "f",
    form: "dial",
    axes: [],
    knobs: [
      knob,
      { ...knob, path: "b", kind: "int", high: 9, step: 1, start: 3 },
      { ...knob, path: "c", kind: "bool" },
    ],
  });
  assert.ok(info);
  const ahead = new Ahead(info);
  const at = (a: number, b: number, c = 0): Map<string, number> =>
    new Map([
      ["a", a],
      ["b", b],
      ["c", c],
    ]);
  assert.deepEqual(ahead.guess(at(0.6, 3), "a", 0.5), at(0.7, 3));
  assert.deepEqual(ahead.guess(at(0.5, 3), "a", 0.6), at(0.4, 3));
  assert.deepEqual(ahead.guess(at(0.5, 4), "b", 2), at(0.5, 6));
  assert.deepEqual(ahead.guess(at(0.95, 3), "a", 0.85), at(1, 3));
  for (const nothing of [
    ahead.guess(at(1, 3), "a", 0.9), // at its end
    ahead.guess(at(0.5, 3, 1), "c", 0),
    ahead.guess(at(0.5, 3), "", 0),
  ])
    assert.equal(nothing, null);
  const message = { kind: "ahead", seq: null, meta: {}, arrays: new Map() };
  ahead.keep(message, at(0.7, 3));
  assert.equal(ahead.take(at(0.7, 3)), message);
  assert.equal(ahead.take(at(0.7, 3)), null);
  ahead.keep(message, at(0.7, 3));
  assert.equal(ahead.take(at(0.7, 4)), null);
  assert.equal(ahead.take(at(0.7, 3)), null);
});
