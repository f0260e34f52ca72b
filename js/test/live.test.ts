// The points of a live plot: what arrives, what is kept, what is missing.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Message } from "../src/lib/channel.ts";
import { stepAt, stepX } from "../src/live/axis.ts";
import { seconds } from "../src/live/bar.ts";
import { Curve, MOST, smooth } from "../src/live/curve.ts";
import { type Info, RunData, readInfo } from "../src/live/data.ts";
import { logTicks, span } from "../src/live/loss.ts";
import { seeded } from "./random.ts";

const info: Info = {
  run: 1,
  name: "",
  total: 1e6,
  optimizer: "",
  rate: false,
  keep: true,
  params: [{ name: "w", shape: [2], dtype: "float", numbers: 1 }],
};

function frame(from: number, y: number[], measured: [number, number] = [0, 0], more = {}): Message {
  const arrays = new Map([["y", { shape: [y.length], data: Float64Array.from(y) }]]);
  return {
    kind: "points",
    seq: null,
    meta: { from, to: from + y.length, measured, phase: "running", ...more },
    arrays,
  };
}

test("a curve keeps its extremes, its ends and few points", () => {
  const { seed, random: next } = seeded();
  const curve = new Curve();
  let least = Number.POSITIVE_INFINITY;
  let greatest = Number.NEGATIVE_INFINITY;
  let last = 0;
  const n = 200_000;
  for (let i = 0; i < n; i += 1000) {
    const y = Array.from({ length: 1000 }, () => next() * 1e3 - 500);
    y[3] = Number.NaN;
    for (const v of y) {
      if (Number.isNaN(v)) continue;
      least = Math.min(least, v);
      greatest = Math.max(greatest, v);
    }
    last = y[999] ?? 0;
    curve.append(
      y.map((_, k) => i + k),
      y,
    );
    assert.ok(curve.length <= MOST, `seed ${seed}`);
    assert.equal(curve.y[curve.length - 1], last);
  }
  const finite = curve.y.filter((v) => Number.isFinite(v));
  assert.equal(Math.min(...finite), least);
  assert.equal(Math.max(...finite), greatest);
  assert.equal(curve.x[0], 0);
  assert.ok(curve.x.every((v, i) => i === 0 || v > (curve.x[i - 1] ?? 0)));
});

test("frames in order are appended, older ones ignored, a gap is told", () => {
  const data = new RunData(info);
  assert.equal(data.receive(frame(0, [5, 4])), true);
  assert.equal(data.receive(frame(2, [3])), true);
  assert.deepEqual(data.loss.y, [5, 4, 3]);
  assert.deepEqual(data.loss.x, [0, 1, 2]);
  assert.equal(data.receive(frame(2, [9])), true);
  assert.deepEqual(data.loss.y, [5, 4, 3]);
  assert.equal(data.receive(frame(4, [1])), false);
  assert.deepEqual(data.loss.y, [5, 4, 3]);
  // The whole replaces what is there.
  assert.equal(data.receive(frame(0, [5, 4, 3, 2, 1])), true);
  assert.deepEqual(data.loss.y, [5, 4, 3, 2, 1]);
});

test("numbers that JSON does not have", () => {
  const data = new RunData(info);
  const params = { w: { norm: "nan", update: "inf", bad: 2, flag: { kind: "dead", number: 3 } } };
  data.receive(frame(0, [1], [0, 0], { params, lr: 0.5, states: [1, -2, "x", 7] }));
  assert.equal(data.now?.params.w?.norm, Number.NaN);
  assert.equal(data.now?.params.w?.update, Number.POSITIVE_INFINITY);
  assert.deepEqual(data.now?.states, [1, 7]);
});

test("info of something else is none", () => {
  assert.equal(readInfo(null), null);
  assert.equal(readInfo({ version: 99 }), null);
  assert.equal(readInfo({ version: 1, run: 0 })?.run, 0);
  assert.deepEqual(readInfo({ version: 1, run: 2, params: [{ name: 3 }, 4] })?.params, [
    { name: "", shape: [], dtype: "", numbers: 0 },
  ]);
});

test("a mean of a straight line is the line", () => {
  const y = Array.from({ length: 600 }, (_, i) => 3 * i + 1);
  // But for the last point, which is a mean with those before it.
  for (const [i, v] of smooth(y, false).slice(0, -1).entries())
    assert.ok(Math.abs((v ?? 0) - (y[i] ?? 0)) < 1e-6);
  const e = y.map((v) => Math.exp(-v / 100));
  for (const [i, v] of smooth(e, true).slice(0, -1).entries())
    assert.ok(Math.abs((v ?? 0) / (e[i] ?? 0) - 1) < 1e-9);
  assert.deepEqual(smooth([1, Number.NaN, -1], true), [1, null, null]);
});

test("scales", () => {
  assert.deepEqual(span(null, null, false), [0, 1]);
  assert.ok(span(2, 2, false)[0] < 2 && span(2, 2, false)[1] > 2);
  assert.ok(span(1e-3, 1e-3, true)[0] > 0);
  for (const [lo, hi] of [
    [0.9, 1.1],
    [1e-3, 1],
    [1e-12, 1e9],
    [0.02, 0.3],
  ] as const) {
    const found = logTicks(lo, hi);
    assert.ok(found.length >= 1 && found.length <= 8, `${lo} to ${hi}: ${found}`);
    assert.ok(found.every((v) => v >= lo && v <= hi));
  }
  const at = { left: 92, right: 10, width: 700, last: 1999 };
  for (const step of [0, 1, 1000, 1999]) assert.equal(stepAt(at, stepX(at, step)), step);
});

test("times", () => {
  assert.equal(seconds(0.000_02), "20 µs");
  assert.equal(seconds(0.0042), "4.2 ms");
  assert.equal(seconds(0.13), "130 ms");
  assert.equal(seconds(4.92), "4.9 s");
  assert.equal(seconds(90), "1 min 30 s");
  assert.equal(seconds(3720), "1 h 2 min");
});
