import assert from "node:assert/strict";
import test from "node:test";
import type { AnyModel } from "@anywidget/types";
import { keepEarly, takeEarly } from "../src/lib/early.ts";

type Listener = (content: unknown, buffers?: DataView[]) => void;

/** As much of a model as listens. */
class Model {
  readonly listeners = new Set<Listener>();
  on(_: string, f: Listener): void {
    this.listeners.add(f);
  }
  off(_: string, f: Listener): void {
    this.listeners.delete(f);
  }
  say(content: unknown): void {
    for (const f of [...this.listeners]) f(content, []);
  }
  get any(): AnyModel {
    return this as unknown as AnyModel;
  }
}

test("the last picture that comes before a view is kept for the first one", () => {
  const model = new Model();
  keepEarly(model.any, "a", "picture");
  for (const take of [1, 2]) model.say({ kind: "picture", meta: { take } });
  model.say({ kind: "ranges", meta: { take: 2 } });
  model.say({ kind: "picture", meta: "no" });
  model.say(null);
  assert.deepEqual(takeEarly("a")?.meta, { take: 2 });
  // The view listens itself from here on; a second one asks the kernel.
  assert.equal(model.listeners.size, 0);
  assert.equal(takeEarly("a"), null);
});

test("models that share the module keep their own", () => {
  const [a, b] = [new Model(), new Model()];
  keepEarly(a.any, "a", "picture");
  const end = keepEarly(b.any, "b", "picture");
  a.say({ kind: "picture", meta: { take: 1 } });
  b.say({ kind: "picture", meta: { take: 5 } });
  end();
  assert.equal(b.listeners.size, 0);
  assert.equal(takeEarly("b"), null);
  assert.deepEqual(takeEarly("a")?.meta, { take: 1 });
  assert.equal(takeEarly(""), null);
});

test("a module that is loaded anew for a model takes the place of the one before", () => {
  const [old, young] = [new Model(), new Model()];
  const end = keepEarly(old.any, "c", "picture");
  keepEarly(young.any, "c", "picture");
  assert.equal(old.listeners.size, 0);
  end();
  young.say({ kind: "picture", meta: { take: 3 } });
  assert.deepEqual(takeEarly("c")?.meta, { take: 3 });
});
