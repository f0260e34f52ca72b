import assert from "node:assert/strict";
import test from "node:test";
import {
  type Choice,
  needsSpread,
  rangeOf,
  readChoice,
  scaleOf,
  standard,
} from "../src/inspector/choices.ts";
import { Cells, readPooled, readSpread, type Statistics } from "../src/inspector/data.ts";
import { typedNumber } from "../src/inspector/scales.ts";
import { visible } from "../src/inspector/table_view.ts";
import { decode, type Message } from "../src/lib/channel.ts";
import { interpolate, ranked, symlogBetween } from "../src/lib/colormap.ts";
import { seeded } from "./random.ts";

const known: Statistics = {
  count: 100,
  zeros: 20,
  nan: 0,
  posinf: 0,
  neginf: 0,
  minimum: -4,
  maximum: 10,
  mean: 1,
  std: 2,
};
const spread = { share: [0, 0.005, 0.5, 0.99, 0.995, 1], at: [0, 0.01, 1, 5, 6, 10] };
const choice = (part: Partial<Choice>): Choice => ({ ...standard(false), ...part });

test("ranges: of the data, by percentage, by deviation, typed", () => {
  const range = (part: Partial<Choice>, centred = false): [number, number] =>
    rangeOf(choice(part), { statistics: known, limit: 7, spread }, centred);
  assert.deepEqual(range({ range: "data" }), [-4, 10]);
  const [low, high] = range({ range: "99" });
  assert.ok(Math.abs(low - 0.01) < 1e-9 && Math.abs(high - 6) < 1e-9);
  assert.deepEqual(range({ range: "3 sigma" }), [-4, 7]);
  assert.deepEqual(range({ range: "typed", lo: 1, hi: 2 }), [1, 2]);
  assert.deepEqual(range({ range: "typed", lo: 2, hi: 1 }), [-4, 10]);
  assert.deepEqual(range({ range: "data" }, true), [-10, 10]);
  assert.deepEqual(range({ range: "99.9" }, true), [-7, 7]);
  assert.deepEqual(range({ range: "typed", hi: 3 }, true), [-3, 3]);
  // A fifth is zero: 99 % of all are 98.75 % of what is not.
  const [, limit] = range({ range: "99" }, true);
  assert.ok(Math.abs(limit - interpolate(spread.share, spread.at, 0.9875)) < 1e-12);
});

test("without what a scale needs there is one all the same", () => {
  const nothing = { statistics: null, limit: 0, spread: null };
  for (const centred of [false, true])
    for (const scale of ["linear", "symlog", "rank"] as const)
      for (const range of ["data", "99.9", "99", "3 sigma", "typed"] as const) {
        const made = scaleOf(choice({ scale, range, lo: 0, hi: 0 }), nothing, centred);
        assert.ok(Number.isFinite(made.to(0.3)), `${scale} ${range}`);
      }
  assert.ok(needsSpread(choice({ scale: "rank" }), true));
  assert.ok(needsSpread(choice({ range: "99.9" }), false));
  assert.ok(!needsSpread(standard(true), true));
});

test("a rank has zero in the middle, and keeps order and sign", () => {
  const scale = ranked(spread);
  assert.equal(scale.to(0), 0.5);
  assert.equal(scale.to(1), 0.75);
  assert.equal(scale.to(-1), 0.25);
  assert.equal(scale.to(10), 1);
  assert.equal(scale.to(-100), 0);
  const { seed, random } = seeded();
  for (let i = 0; i < 300; i++) {
    const [a = 0, b = 0] = [random() * 20 - 10, random() * 20 - 10].sort((x, y) => x - y);
    assert.ok(scale.to(a) <= scale.to(b), `seed ${seed}`);
    assert.ok(Math.abs(scale.to(scale.from(scale.to(a))) - scale.to(a)) < 1e-9);
  }
});

test("many numbers alike have the middle of their ranks", () => {
  const scale = ranked({ share: [0, 0.2, 0.8, 1], at: [1, 2, 2, 3] });
  assert.equal(scale.to(2), 0.75);
  assert.equal(interpolate([], [], 1), 0);
  assert.equal(interpolate([1], [5], 9), 5);
});

test("a logarithm between any two numbers", () => {
  for (const [lo, hi] of [
    [-1, 5],
    [0, 1e9],
    [3, 4],
    [-9, -2],
  ] as const) {
    const scale = symlogBetween(lo, hi);
    assert.ok(Math.abs(scale.to(lo)) < 1e-12 && Math.abs(scale.to(hi) - 1) < 1e-12);
    for (const t of [0, 0.2, 0.7, 1]) assert.ok(Math.abs(scale.to(scale.from(t)) - t) < 1e-9);
  }
});

test("numbers as large and as small as there are", () => {
  const [most, least] = [Number.MAX_VALUE, Number.MIN_VALUE];
  assert.ok(Math.abs(interpolate([0, 1], [-most, most], 0.75) / most - 0.5) < 1e-15);
  assert.equal(interpolate([0, 0, 1], [most, most, most], 0), most);
  const scale = symlogBetween(least, most, least);
  for (const x of [least, 1, 1e100, most]) assert.ok(Number.isFinite(scale.to(x)), `${x}`);
  assert.ok(scale.to(1) < scale.to(1e100) && Math.abs(scale.to(most) - 1) < 1e-12);
});

test("choices that were kept are read with care", () => {
  const good = { scale: "rank", range: "99", lo: -1, hi: 1 };
  assert.deepEqual(readChoice(good, true), good);
  assert.equal(readChoice(good, false), null);
  for (const bad of [null, 3, {}, { ...good, lo: "0" }, { ...good, hi: Number.NaN }, { ...good, range: "x" }])
    assert.equal(readChoice(bad, true), null);
});

test("numbers as people type them", () => {
  assert.equal(typedNumber(" −2.5e−3 "), -0.0025);
  assert.equal(typedNumber("1e5"), 1e5);
  for (const bad of ["", "  ", "x", "1,5", "Infinity", "NaN"]) assert.equal(typedNumber(bad), null, bad);
});

test("the rows in view, of a few and of more than a browser can lay out", () => {
  assert.deepEqual(visible(0, 100, 95, 20, 30), { first: 0, count: 5 });
  assert.deepEqual(visible(200, 500, 95, 20, 30), { first: 10, count: 5 });
  assert.deepEqual(visible(1e9, 500, 95, 20, 30), { first: 26, count: 5 });
  const many = 1e8;
  assert.equal(visible(0, 8e6, 100, 20, many).first, 0);
  assert.equal(visible(8e6, 8e6, 100, 20, many).first, many - 5);
  assert.deepEqual(visible(0, 0, 100, 20, 2), { first: 0, count: 2 });
});

function message(meta: object, arrays: Record<string, [number[], number[]]>): Message | null {
  const entries = Object.entries(arrays);
  const content = {
    kind: "cells",
    meta,
    arrays: entries.map(([name, [shape]]) => ({ name, dtype: "float64", shape })),
  };
  return decode(
    content,
    entries.map(([, [, data]]) => new DataView(new Float64Array(data).buffer)),
  );
}

test("cells of a table", () => {
  const meta = { index: [3, 0, 0], window: [5, 6, 1, 2] };
  const sent = message(meta, {
    value: [
      [1, 2, 2],
      [1, 2, 3, 4],
    ],
  });
  const cells = sent && Cells.read(sent);
  assert.deepEqual(cells?.read("value", { row: 5, col: 7 }), [3, 4]);
  assert.equal(cells?.read("value", { row: 4, col: 7 }), null);
  assert.equal(cells?.read("gradient", { row: 5, col: 7 }), null);
  assert.ok(cells?.covers({ row: 5, col: 6 }, { row: 5, col: 7 }));
  assert.ok(!cells?.covers({ row: 5, col: 6 }, { row: 5, col: 8 }));
  const long = message(
    { ...meta, value: ["9007199254740993", "<b>"] },
    {
      value: [
        [1, 2, 1],
        [1, 2],
      ],
    },
  );
  const read = long && Cells.read(long);
  assert.deepEqual(read?.read("value", { row: 5, col: 6 }), ["9007199254740993"]);
  assert.deepEqual(read?.read("value", { row: 5, col: 7 }), [""]);
  for (const bad of [{ ...meta, window: [1] }, { ...meta, index: ["0"] }, {}]) {
    const m = message(bad, {
      value: [
        [1, 2, 1],
        [1, 2],
      ],
    });
    assert.equal(m && Cells.read(m), null);
  }
});

test("what is reduced, and how numbers are spread, is checked", () => {
  assert.deepEqual(readPooled({ axes: [0, 2], by: "max" }, 3), { axes: [0, 2], by: "max" });
  for (const bad of [null, { axes: [0], by: "sum" }, { axes: [], by: "max" }, { axes: [9], by: "max" }])
    assert.equal(readPooled(bad, 3), null);
  const good = message({}, { share: [[3], [0, 0.5, 1]], at: [[3], [1, 2, 2]] });
  assert.ok(good && readSpread(good));
  const bad = message({}, { share: [[3], [0, 0.5, 1]], at: [[3], [1, Number.NaN, 2]] });
  assert.equal(bad && readSpread(bad), null);
});
