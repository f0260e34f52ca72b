import assert from "node:assert/strict";
import test from "node:test";
import {
  factsOf,
  Layer,
  leadAxes,
  number,
  readHistogram,
  readInfo,
  sliceSize,
  worst,
} from "../src/inspector/data.ts";
import { rebin } from "../src/inspector/histogram.ts";
import { places } from "../src/inspector/jump.ts";
import { step } from "../src/inspector/keys.ts";
import { Store } from "../src/inspector/store.ts";
import { decode, type Message } from "../src/lib/channel.ts";
import { linear, symlog } from "../src/lib/colormap.ts";
import { Pacer } from "../src/lib/pacer.ts";
import { Hand } from "./hand.ts";
import { seeded } from "./random.ts";

const statistics = {
  count: 6,
  zeros: 1,
  nan: 1,
  posinf: 0,
  neginf: 0,
  minimum: -1,
  maximum: 4,
  mean: 1.5,
  std: "inf",
};
const info = {
  version: 1,
  token: "0123456789abcdef",
  name: "x",
  shape: [2, 3],
  dtype: "float",
  device: "Vulkan",
  bytes: 24,
  form: "picture",
  axes: { row: 0, col: 1, channel: null },
  components: 1,
  image: false,
  single: true,
  value: statistics,
  gradient: null,
  limit: 0,
  note: "",
  note_code: "",
};

test("info is read, and its words for numbers too", () => {
  const read = readInfo(info);
  assert.equal(read?.value?.std, Number.POSITIVE_INFINITY);
  assert.equal(read?.gradient, null);
  assert.deepEqual(read?.shape, [2, 3]);
  assert.ok(Number.isNaN(number("nan")) && Number.isNaN(number(null)) && Number.isNaN(number({})));
});

test("info that cannot be trusted is refused", () => {
  for (const bad of [
    null,
    3,
    "x",
    [],
    { ...info, version: 2 },
    { ...info, shape: [-1, 3] },
    { ...info, shape: [1.5, 3] },
    { ...info, shape: "23" },
    { ...info, shape: Array(33).fill(1) },
    { ...info, shape: [3] },
    { ...info, form: "<script>" },
    { ...info, axes: null },
    { ...info, axes: { row: 0, col: 2, channel: null } },
    { ...info, axes: { row: 1, col: 1, channel: null } },
    { ...info, axes: { row: 0, col: null, channel: null } },
    { ...info, form: "line", axes: { row: null, col: null, channel: null } },
  ])
    assert.equal(readInfo(bad), null, JSON.stringify(bad));
  assert.equal(readInfo({ ...info, value: { ...statistics, nan: -1 } })?.value, null);
  assert.equal(readInfo({ ...info, name: "y".repeat(5000) })?.name.length, 200);
  assert.equal(readInfo({ ...info, name: { toString: "x" } })?.name, "");
});

function message(overrides: object = {}, bytes?: DataView[]): Message | null {
  const mean = new Float32Array([0, 1, 2, 3, 4, 5]);
  const flags = new Uint8Array([0, 0, 0, 1, 6, 0]);
  const views = [mean, flags].map((a) => new DataView(a.buffer));
  return decode(
    {
      kind: "picture",
      seq: 3,
      meta: { index: [], value: { block: [2, 4], window: [0, 0, 4, 11] } },
      arrays: [
        { name: "value.mean", dtype: "float32", shape: [2, 3] },
        { name: "value.flags", dtype: "uint8", shape: [2, 3] },
      ],
      ...overrides,
    },
    bytes ?? views,
  );
}

test("a frame is unpacked, from an unaligned buffer too", () => {
  const layer = Layer.read(message() as Message, "value");
  assert.ok(layer);
  assert.equal(layer.exact, false);
  assert.equal(layer.at({ row: 3, col: 9 })?.mean, 5);
  assert.equal(layer.at({ row: 1, col: 4 })?.mean, 1);
  assert.equal(layer.at({ row: 4, col: 0 }), null);
  assert.deepEqual(layer.notFinite(), [3, 4]);
  assert.deepEqual(layer.cell(5), { row: 2, col: 9 });
  const shifted = new Uint8Array(1 + 24);
  shifted.set(new Uint8Array(new Float32Array([0, 1, 2, 3, 4, 7]).buffer), 1);
  const again = message({}, [new DataView(shifted.buffer, 1), new DataView(new Uint8Array(6).buffer)]);
  assert.equal(Layer.read(again as Message, "value")?.at({ row: 3, col: 9 })?.mean, 7);
});

test("a picture stands with the facts that it brings", () => {
  const read = readInfo({ ...info, reading: 3 });
  assert.ok(read?.value);
  const bring = (facts: unknown): Message => message({ meta: { index: [], facts } }) as Message;
  const older = { reading: 2, value: { ...statistics, maximum: 9 }, gradient: null, limit: 0 };
  assert.equal(factsOf(bring(older), read).value?.maximum, 9);
  // None, nonsense, or of a tensor with another layout.
  for (const other of [undefined, null, 3, [], {}, { ...older, gradient: statistics }])
    assert.equal(factsOf(bring(other), read), read);
  const store = new Store(read, {} as HTMLElement);
  store.spreads.value = { lower: [], upper: [] } as unknown as Store["spreads"]["value"];
  // Renamed, with the picture that is there: what is known of its numbers stays.
  assert.equal(store.describe({ ...read, name: "y", reading: 4, limit: 8 }, store.info), false);
  assert.deepEqual([store.info.name, store.info.reading, store.info.limit], ["y", 3, 0]);
  assert.ok(store.spreads.value);
  assert.equal(store.describe(read, factsOf(bring(older), read)), true);
  assert.deepEqual([store.info.reading, store.info.value?.maximum, store.spreads.value], [2, 9, null]);
});

test("the ranges of the blocks go to the picture that they belong to", () => {
  const meta = { index: [], value: { block: [2, 4], window: [0, 0, 4, 11] } };
  const layer = Layer.read(message({ meta: { ...meta, take: 7 } }) as Message, "value");
  assert.ok(layer);
  const ranges = (take: unknown, count = 6, names = ["value.minimum", "value.maximum"]): Message => {
    const arrays = names.map((name) => ({ name, dtype: "float32", shape: [count] }));
    const views = names.map(
      (_, k) => new DataView(Float32Array.from({ length: count }, (_, i) => i + k).buffer),
    );
    return decode({ kind: "ranges", meta: { take }, arrays }, views) as Message;
  };
  for (const other of [
    ranges(6),
    ranges("7"),
    ranges(7, 5),
    ranges(7, 6, ["value.minimum"]),
    ranges(undefined),
  ])
    assert.equal(layer.learn(other, "value"), false);
  assert.deepEqual({ ...layer.at({ row: 3, col: 9 }) }, { mean: 5, minimum: 5, maximum: 5, flags: 0 });
  assert.equal(layer.learn(ranges(7), "value"), true);
  assert.deepEqual({ ...layer.at({ row: 3, col: 9 }) }, { mean: 5, minimum: 5, maximum: 6, flags: 0 });
  const nameless = Layer.read(message() as Message, "value");
  assert.equal(nameless?.learn(ranges(undefined), "value"), false);
});

test("frames whose sizes do not fit are refused", () => {
  const entry = { name: "value.mean", dtype: "float32", shape: [2, 3] };
  const one = [new DataView(new ArrayBuffer(24))];
  for (const bad of [
    { arrays: [{ ...entry, shape: [2, 4] }] },
    { arrays: [{ ...entry, shape: [-2, -3] }] },
    { arrays: [{ ...entry, shape: [1e9, 1e9] }] },
    { arrays: [{ ...entry, dtype: "float16" }] },
    { arrays: [{ ...entry, dtype: "constructor" }] },
    { arrays: [entry, entry] },
    { arrays: "no" },
    { kind: 4 },
    { meta: [] },
  ])
    assert.equal(message(bad, one), null, JSON.stringify(bad));
  assert.equal(decode(null, []), null);
  for (const value of [
    { block: [0, 1], window: [0, 0, 2, 3] },
    { block: [1], window: [0, 0, 2, 3] },
    { block: [1, 1], window: [0, 0, 2] },
    null,
  ])
    assert.equal(Layer.read(message({ meta: { value } }) as Message, "value"), null);
});

test("places are in reading order and join value and gradient", () => {
  const value = Layer.read(message() as Message, "value") as Layer;
  const found = places({ value: [value], gradient: [value] });
  assert.deepEqual(
    found.map((p) => p.cell),
    [value.cell(3), value.cell(4)],
  );
  assert.deepEqual(found[1]?.flags, { value: 6, gradient: 6 });
  const finer = Layer.read(
    message({ meta: { index: [], value: { block: [1, 1], window: [2, 0, 2, 3] } } }) as Message,
    "value",
  ) as Layer;
  // Texel 3 of the coarse layer lies under the finer one, texel 4 beside it.
  assert.deepEqual(
    places({ value: [value, finer] }).map((p) => [p.cell, p.block]),
    [
      [finer.cell(3), [1, 1]],
      [finer.cell(4), [1, 1]],
      [value.cell(4), [2, 4]],
    ].sort((a, b) => (a[0] as { row: number }).row - (b[0] as { row: number }).row),
  );
  assert.ok(Number.isNaN(worst(7)));
  assert.equal(worst(6), Number.POSITIVE_INFINITY);
  assert.equal(worst(4), Number.NEGATIVE_INFINITY);
});

test("rebinning keeps the number of elements", () => {
  const { random, seed } = seeded();
  for (let k = 0; k < 300; k++) {
    const limit = 10 ** (random() * 8 - 4);
    const edges = Float64Array.from({ length: 65 }, () => (random() * 2 - 1) * 1.3 * limit).sort();
    const counts = Float64Array.from({ length: 64 }, () => Math.floor(random() * 1000));
    const total = counts.reduce((a, b) => a + b, 0);
    for (const scale of [symlog(limit), linear(-limit, limit)])
      for (const bins of [1, 7, 96, 300]) {
        const got = rebin({ edges, counts }, scale, bins).reduce((a, b) => a + b, 0);
        assert.ok(Math.abs(got - total) < 1e-6 * total, `seed ${seed}: ${got} of ${total}`);
      }
  }
});

test("a histogram without its last edge is refused", () => {
  const m = (edges: number, counts: number): Message => ({
    kind: "picture",
    seq: null,
    meta: {},
    arrays: new Map([
      ["value.edges", { shape: [edges], data: new Float64Array(edges) }],
      ["value.counts", { shape: [counts], data: new Float64Array(counts) }],
    ]),
  });
  assert.ok(readHistogram(m(5, 4), "value"));
  assert.equal(readHistogram(m(4, 4), "value"), null);
  assert.equal(readHistogram(m(1, 0), "value"), null);
  assert.equal(readHistogram(m(5, 4), "gradient"), null);
});

test("slices have the axes that are drawn, sliders the others", () => {
  const a = { shape: [8, 96, 128], axes: { row: 1, col: 2, channel: null } };
  assert.deepEqual(sliceSize(a), { rows: 96, cols: 128 });
  assert.deepEqual(leadAxes(a), [0]);
  const image = { shape: [2, 64, 32, 3], axes: { row: 1, col: 2, channel: 3 } };
  assert.deepEqual(sliceSize(image), { rows: 64, cols: 32 });
  assert.deepEqual(leadAxes(image), [0]);
  assert.deepEqual(sliceSize({ shape: [400], axes: { row: null, col: 0, channel: null } }), {
    rows: 1,
    cols: 400,
  });
});

test("a place and its cell belong together", () => {
  const read = readInfo({ ...info, shape: [2, 64, 32, 3], axes: { row: 1, col: 2, channel: 3 } });
  assert.ok(read);
  const store = new Store({ ...read, name: "img" }, {} as HTMLElement);
  store.index = [1, 0, 0, 0];
  assert.deepEqual(store.place({ row: 5, col: 7 }), [1, 5, 7]);
  assert.deepEqual(store.cell([1, 5, 7]), { row: 5, col: 7 });
  assert.equal(store.cell([0, 5, 7]), null);
  assert.equal(store.element({ row: 5, col: 7 }), "img[1, 5, 7]");
  assert.equal(store.code, "img[1, :, :, :]");
  store.window = { row: 3.5, col: 0, rows: 10, cols: 32 };
  assert.equal(store.code, "img[1, 3:14, :, :]");
});

test("arrow keys stay inside", () => {
  const size = { rows: 3, cols: 20 };
  assert.deepEqual(step("ArrowLeft", false, { row: 0, col: 0 }, size), { row: 0, col: 0 });
  assert.deepEqual(step("ArrowRight", true, { row: 0, col: 15 }, size), { row: 0, col: 19 });
  assert.deepEqual(step("ArrowDown", false, { row: 0, col: 5 }, size), { row: 1, col: 5 });
  assert.deepEqual(step("End", false, { row: 2, col: 5 }, size), { row: 2, col: 19 });
  assert.deepEqual(step("ArrowDown", false, null, size), { row: 1, col: 9 });
  assert.equal(step("x", false, null, size), null);
});

test("one request is on its way, the latest waits, those between are dropped", () => {
  const sent: number[] = [];
  const clock = new Hand();
  const pacer = new Pacer<number>((n) => sent.push(n), 2000, clock);
  for (const n of [1, 2, 3]) pacer.ask(n);
  assert.deepEqual(sent, [1]);
  clock.advance(100);
  assert.equal(pacer.pending, 100);
  pacer.done();
  assert.deepEqual(sent, [1, 3]);
  pacer.done();
  assert.equal(pacer.pending, 0);
  pacer.ask(4);
  assert.deepEqual(sent, [1, 3, 4]);
});

test("an answer that never comes holds nothing up for good", () => {
  const sent: number[] = [];
  const clock = new Hand();
  const pacer = new Pacer<number>((n) => sent.push(n), 2000, clock);
  pacer.ask(1);
  clock.advance(500);
  pacer.ask(2);
  pacer.ask(3);
  clock.advance(1000);
  assert.deepEqual(sent, [1]);
  clock.advance(501);
  assert.deepEqual(sent, [1, 3]);
});

test("the code of axes that are drawn the other way round", () => {
  const drawn = (shape: number[], row: number, col: number, channel: number | null): Store => {
    const read = readInfo({
      ...info,
      shape,
      axes: { row, col, channel },
      to_numpy: ".to_numpy()",
      components: 1,
    });
    assert.ok(read);
    return new Store({ ...read, name: "t" }, {} as HTMLElement);
  };
  const turned = drawn([2, 3, 4], 2, 0, null);
  assert.deepEqual(turned.size, { rows: 4, cols: 2 });
  assert.equal(turned.code, "t.to_numpy()[:, 0, :].T");
  turned.pooled = { axes: [1], by: "max" };
  assert.equal(turned.code, "t.to_numpy()[:, :, :].max(axis=1).T");
  assert.equal(drawn([2, 3, 4], 0, 2, null).code, "t[:, 0, :]");
  assert.equal(drawn([5, 6, 3], 1, 0, 2).code, "t.to_numpy()[:, :, :].swapaxes(0, 1)");
  assert.deepEqual(turned.place({ row: 3, col: 1 }), [1, 0, 3]);
  assert.deepEqual(turned.cell([1, 0, 3]), { row: 3, col: 1 });
});

test("curves begin on a linear scale, and what is finite needs no flags", () => {
  const read = readInfo({
    ...info,
    shape: [6],
    form: "line",
    axes: { row: null, col: 0, channel: null },
    gradient: statistics,
  });
  assert.ok(read);
  const { choices } = new Store(read, {} as HTMLElement);
  assert.deepEqual(
    [choices.value.scale, choices.gradient.scale, choices.gradient.range],
    ["linear", "linear", "data"],
  );
  const mean = new Float32Array([1, 2, 3]);
  const message = decode(
    {
      kind: "picture",
      meta: { value: { block: [1, 1], window: [0, 0, 1, 3] } },
      arrays: [{ name: "value.mean", dtype: "float32", shape: [1, 3] }],
    },
    [new DataView(mean.buffer)],
  );
  assert.ok(message);
  const layer = Layer.read(message, "value");
  assert.ok(layer?.finite);
  assert.deepEqual(layer.notFinite(), []);
  assert.deepEqual([...layer.flags], [0, 0, 0]);
});
