// A painter draws once for many requests, keeps its promise when that is painted, and knows what a draw costs.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type Frames, Painter } from "../src/lib/painter.ts";
import { seeded } from "./random.ts";

class Page implements Frames {
  time = 0;
  private frames: (() => void)[] = [];
  private tasks: (() => void)[] = [];
  now(): number {
    return this.time;
  }
  next(f: () => void): void {
    this.frames.push(f);
  }
  painted(f: () => void): void {
    this.tasks.push(f);
  }
  /** A frame, whose layout and paint take so long. */
  frame(paint = 0): void {
    for (const f of this.frames.splice(0)) f();
    this.time += paint;
    for (const f of this.tasks.splice(0)) f();
  }
}

const settled = async (p: Promise<void>): Promise<boolean> =>
  Promise.race([p.then(() => true), new Promise<boolean>((r) => setTimeout(r, 0, false))]);

test("many requests are one draw, at the page's next frame", async () => {
  const page = new Page();
  let drawn = 0;
  const painter = new Painter(() => drawn++, page);
  const asked = [painter.soon(), painter.soon(), painter.soon()];
  assert.equal(drawn, 0);
  for (const p of asked) assert.equal(await settled(p), false);
  page.frame();
  assert.equal(drawn, 1);
  for (const p of asked) assert.equal(await settled(p), true);
  page.frame();
  assert.equal(drawn, 1);
});

test("drawing at once draws what waits too, and that is not drawn again", async () => {
  const page = new Page();
  let drawn = 0;
  const painter = new Painter(() => drawn++, page);
  const first = painter.soon();
  painter.now();
  assert.equal(drawn, 1);
  assert.equal(await settled(first), true);
  const second = painter.soon();
  page.frame();
  assert.equal(drawn, 2);
  assert.equal(await settled(second), true);
});

test("what waits is forgotten at the end, and nobody waits for it", async () => {
  const page = new Page();
  let drawn = 0;
  const painter = new Painter(() => drawn++, page);
  const asked = painter.soon();
  painter.stop();
  assert.equal(await settled(asked), true);
  page.frame();
  assert.equal(drawn, 0);
});

test("out of sight nothing is drawn, nobody waits, and it is made up for once", async () => {
  const page = new Page();
  let drawn = 0;
  const painter = new Painter(() => drawn++, page);
  painter.sight(false);
  for (let i = 0; i < 5; i++) assert.equal(await settled(painter.soon()), true);
  page.frame();
  assert.equal(drawn, 0);
  assert.equal(painter.cost, null);
  painter.sight(true);
  page.frame();
  page.frame();
  assert.equal(drawn, 1);
  // What is drawn at once is drawn out of sight too, and is up to date when it comes back.
  painter.sight(false);
  void painter.soon();
  painter.now();
  assert.equal(drawn, 2);
  painter.sight(true);
  page.frame();
  assert.equal(drawn, 2);
});

test("the cost is the middle one of the last three, with layout and paint", async () => {
  const { seed, random } = seeded();
  const page = new Page();
  let script = 0;
  const painter = new Painter(() => {
    page.time += script;
  }, page);
  assert.equal(painter.cost, null);
  const costs: number[] = [];
  for (let i = 0; i < 20; i++) {
    script = Math.round(100 * random()) / 10;
    const paint = Math.round(100 * random()) / 10;
    const asked = painter.soon();
    page.frame(paint);
    await asked;
    costs.push(script + paint);
    const last = costs.slice(-3).sort((a, b) => a - b);
    const middle = last[(last.length - 1) >> 1] ?? Number.NaN;
    assert.ok(Math.abs((painter.cost ?? Number.NaN) - middle) < 0.06, `seed ${seed}, draw ${i}`);
  }
});

test("a draw that throws does not leave anybody waiting", async () => {
  const page = new Page();
  const painter = new Painter(() => {
    throw new Error("not drawn");
  }, page);
  const asked = painter.soon();
  assert.throws(() => page.frame(), /not drawn/);
  page.frame();
  assert.equal(await settled(asked), true);
});
