import assert from "node:assert/strict";
import test from "node:test";
import { connect, type Message } from "../src/lib/channel.ts";
import { AGAIN, Greeting, LOOK } from "../src/lib/greeting.ts";
import { Hand } from "./hand.ts";

test("a greeting is said until it is heard", () => {
  const time = new Hand();
  const greeting = new Greeting(time);
  const said: string[] = [];
  const send = (name: string): boolean => said.push(name) > 0;
  greeting.say(send);
  assert.equal(said.length, 1);
  time.advance(99);
  assert.equal(said.length, 1);
  time.advance(1);
  assert.equal(said.length, 2);
  assert.equal(said[0], said[1]);
  for (const other of ["", `${said[0]}x`, null, undefined, 3]) greeting.heard(other);
  time.advance(200);
  assert.equal(said.length, 3);
  greeting.heard(said[0]);
  assert.ok(time.idle);
  time.advance(10_000);
  assert.equal(said.length, 3);
});

test("a greeting that nobody hears ends", () => {
  const time = new Hand();
  let said = 0;
  new Greeting(time).say(() => ++said > 0);
  for (const wait of [...AGAIN, 10_000]) time.advance(wait);
  assert.equal(said, 1 + AGAIN.length);
  assert.ok(time.idle);
  // Nor is it said to a kernel that is gone, or for a view that is.
  new Greeting(time).say(() => false);
  assert.ok(time.idle);
  const greeting = new Greeting(time);
  greeting.say(() => true);
  greeting.end();
  assert.ok(time.idle);
});

/** A greeting that has been said as often as it is, to a kernel whose state `idle` tells. */
function unanswered(idle: () => boolean | null): {
  time: Hand;
  said: string[];
  deaf: () => number;
  greeting: Greeting;
} {
  const time = new Hand();
  const greeting = new Greeting(time);
  const said: string[] = [];
  let deaf = 0;
  greeting.say((name) => said.push(name) > 0, { idle, deaf: () => void deaf++ });
  for (const wait of AGAIN) time.advance(wait);
  assert.equal(said.length, 1 + AGAIN.length);
  return { time, said, deaf: () => deaf, greeting };
}

test("a view that an idle kernel does not answer is told so, once", () => {
  const { time, said, deaf } = unanswered(() => true);
  time.advance(LOOK);
  // Asked once more: it may have become idle just now.
  assert.equal(said.length, 2 + AGAIN.length);
  assert.equal(deaf(), 0);
  time.advance(LOOK);
  assert.equal(deaf(), 1);
  assert.ok(time.idle);
});

test("a busy kernel is waited for, and not sent more", () => {
  let idle = false;
  const { time, said, deaf, greeting } = unanswered(() => idle);
  for (let k = 0; k < 100; k++) time.advance(LOOK);
  assert.equal(said.length, 1 + AGAIN.length);
  idle = true;
  time.advance(LOOK);
  idle = false;
  time.advance(LOOK);
  idle = true;
  time.advance(LOOK);
  assert.equal(said.length, 3 + AGAIN.length);
  assert.equal(deaf(), 0);
  greeting.heard(said[0]);
  assert.ok(time.idle);
});

test("a host that does not tell what its kernel does is told nothing either", () => {
  const { time, said, deaf } = unanswered(() => null);
  time.advance(LOOK);
  assert.equal(said.length, 1 + AGAIN.length);
  assert.equal(deaf(), 0);
  assert.ok(time.idle);
});

test("another greeting takes the place of the one before", () => {
  const time = new Hand();
  const greeting = new Greeting(time);
  const said: string[] = [];
  const send = (name: string): boolean => said.push(name) > 0;
  greeting.say(send);
  greeting.say(send);
  assert.notEqual(said[0], said[1]);
  greeting.heard(said[0]);
  time.advance(100);
  assert.deepEqual(said.slice(1), [said[1], said[1]]);
  greeting.heard(said[1]);
  assert.ok(time.idle);
});

test("what the kernel has heard is no message to the view", () => {
  const sent: Record<string, unknown>[] = [];
  let receive = (_content: unknown): void => undefined;
  const model = {
    send: (content: Record<string, unknown>) => sent.push(content),
    on: (event: string, f: (content: unknown) => void) => {
      if (event === "msg:custom") receive = f;
    },
    off: () => undefined,
  };
  const element = { closest: () => null, addEventListener: () => undefined, parentElement: null };
  globalThis.MutationObserver ??= class {
    observe(): void {}
    disconnect(): void {}
  } as unknown as typeof MutationObserver;
  const got: string[] = [];
  const life = new AbortController();
  const channel = connect(
    model as unknown as Parameters<typeof connect>[0],
    element as unknown as HTMLElement,
    { message: (m: Message) => void got.push(m.kind), lost: () => undefined },
    life.signal,
  );
  channel.ready({ take: 4 });
  const [first] = sent;
  assert.equal(first?.kind, "ready");
  assert.equal(first?.take, 4);
  const say = (kind: string, meta: unknown): void => receive({ kind, meta, arrays: [] });
  say("heard", { call: first?.call });
  say("picture", {});
  assert.deepEqual(got, ["picture"]);
  life.abort();
});
