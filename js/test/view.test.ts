import assert from "node:assert/strict";
import test from "node:test";
import { cardPlace, cellAt, centre, fit, geometry, reveal, whole, within, zoom } from "../src/lib/view.ts";
import { seeded } from "./random.ts";

test("the cell at a cell's centre is that cell, in any window", () => {
  const { random, seed } = seeded();
  for (let k = 0; k < 2000; k++) {
    const size = { rows: 1 + Math.floor(random() * 300), cols: 1 + Math.floor(random() * 300) };
    let w = whole(size);
    for (let i = 0; i < 3; i++)
      w = zoom(w, 0.3 + random() * 1.5, { row: random() * size.rows, col: random() * size.cols }, size);
    const width = 50 + random() * 500;
    const g = geometry(w, width, 40 + random() * 400);
    const cell = {
      row: Math.min(size.rows - 1, Math.floor(w.row + random() * w.rows)),
      col: Math.min(size.cols - 1, Math.floor(w.col + random() * w.cols)),
    };
    const { x, y } = centre(cell, w, g);
    assert.deepEqual(cellAt(x, y, w, g, size), cell, `seed ${seed}`);
  }
});

test("nothing is under a pixel outside the array", () => {
  const size = { rows: 4, cols: 6 };
  const g = geometry(whole(size), 60, 40);
  assert.equal(cellAt(-0.1, 5, whole(size), g, size), null);
  assert.equal(cellAt(60, 5, whole(size), g, size), null);
  assert.equal(cellAt(5, 40, whole(size), g, size), null);
  assert.deepEqual(cellAt(59.9, 39.9, whole(size), g, size), { row: 3, col: 5 });
});

test("zoom keeps the point under the pointer, and stays inside", () => {
  const size = { rows: 96, cols: 128 };
  const w = zoom(whole(size), 0.5, { row: 30, col: 40 }, size);
  assert.deepEqual(w, { row: 15, col: 20, rows: 48, cols: 64 });
  const share = (30 - w.row) / w.rows;
  assert.equal(share, 30 / 96);
  assert.deepEqual(zoom(w, 100, { row: 30, col: 40 }, size), whole(size));
  const { random, seed } = seeded();
  for (let k = 0; k < 1000; k++) {
    const z = zoom(w, random() * 3, { row: random() * 96, col: random() * 128 }, size);
    assert.ok(
      z.row >= 0 && z.col >= 0 && z.row + z.rows <= 96 + 1e-9 && z.col + z.cols <= 128 + 1e-9,
      `seed ${seed}`,
    );
    assert.ok(z.rows >= 4 && z.cols >= 4, `seed ${seed}`);
  }
});

test("a window moves just as far as a cell needs", () => {
  const size = { rows: 100, cols: 100 };
  const w = { row: 10, col: 10, rows: 20, cols: 20 };
  assert.equal(reveal(w, { row: 10, col: 29 }, size), w);
  assert.deepEqual(reveal(w, { row: 30, col: 10 }, size), { ...w, row: 11 });
  assert.deepEqual(reveal(w, { row: 15, col: 3 }, size), { ...w, col: 3 });
  assert.deepEqual(within({ ...w, row: -5, col: 95 }, size), { ...w, row: 0, col: 80 });
});

test("pictures fit their room", () => {
  assert.deepEqual(fit(whole({ rows: 96, cols: 128 }), 400, 420), { width: 400, height: 300 });
  assert.deepEqual(fit(whole({ rows: 400, cols: 200 }), 400, 420), { width: 210, height: 420 });
  assert.equal(fit(whole({ rows: 1, cols: 1000 }), 400, 420).height, 24);
  assert.equal(fit(whole({ rows: 1000, cols: 1 }), 400, 420).width, 133);
});

test("the card flips at the edges and never leaves its picture", () => {
  const area = { width: 400, height: 300 };
  const card = { width: 120, height: 60 };
  assert.deepEqual(cardPlace({ x: 50, y: 50 }, card, area), { left: 62, top: 62 });
  assert.deepEqual(cardPlace({ x: 350, y: 280 }, card, area), { left: 218, top: 208 });
  const { random, seed } = seeded();
  for (let k = 0; k < 1000; k++) {
    const { left, top } = cardPlace({ x: random() * 400, y: random() * 300 }, card, area);
    assert.ok(left >= 0 && top >= 0 && left + 120 <= 400 && top + 60 <= 300, `seed ${seed}`);
  }
});
