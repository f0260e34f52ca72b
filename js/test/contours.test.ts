import assert from "node:assert/strict";
import { test } from "node:test";
import { contour, levels } from "../src/explorer/contours.ts";
import { nearest } from "../src/explorer/drawing.ts";
import { seeded } from "./random.ts";

test("every end of a contour line has the level", () => {
  const { seed, random } = seeded();
  const [columns, rows] = [9, 7];
  const values = Array.from({ length: columns * rows }, () => random() * 2 - 1);
  const at = (x: number, y: number): number => values[y * columns + x] ?? Number.NaN;
  const value = (x: number, y: number): number => {
    const [x0, y0] = [Math.floor(x), Math.floor(y)];
    const [fx, fy] = [x - x0, y - y0];
    if (fx) return at(x0, y0) + fx * (at(x0 + 1, y0) - at(x0, y0));
    return fy ? at(x0, y0) + fy * (at(x0, y0 + 1) - at(x0, y0)) : at(x0, y0);
  };
  const found = contour(values, columns, rows, 0.1);
  assert.ok(found.length > 10);
  for (const [x0, y0, x1, y1] of found) {
    assert.ok(Math.abs(value(x0, y0) - 0.1) < 1e-9, `seed ${seed}`);
    assert.ok(Math.abs(value(x1, y1) - 0.1) < 1e-9, `seed ${seed}`);
  }
});

test("the circle of a cone has its length, and what is not finite has no line", () => {
  const n = 101;
  const values = Array.from({ length: n * n }, (_, i) => Math.hypot((i % n) - 50, Math.floor(i / n) - 50));
  const length = contour(values, n, n, 30).reduce((s, [a, b, c, d]) => s + Math.hypot(c - a, d - b), 0);
  assert.ok(Math.abs(length / (2 * Math.PI * 30) - 1) < 0.01);
  assert.equal(
    contour(
      values.map(() => Number.NaN),
      n,
      n,
      30,
    ).length,
    0,
  );
});

test("levels lie inside the range", () => {
  const found = levels([0, 2, 4], -1.5, 5.5);
  assert.deepEqual(found, [-1, 0, 1, 2, 3, 4, 5]);
});

test("the nearest number of an ascending array", () => {
  const { seed, random } = seeded();
  const array = Float32Array.from({ length: 50 }, () => random() * 10).sort();
  for (let k = 0; k < 200; k++) {
    const v = random() * 14 - 2;
    const best = Math.min(...Array.from(array, (x) => Math.abs(x - v)));
    assert.equal(Math.abs((array[nearest(array, v)] ?? 0) - v), best, `seed ${seed}`);
  }
});
