// What the kernel says about a tensor, checked: saved notebooks and other programs can put anything into a trait.

import type { Message, NumberArray } from "../lib/channel.ts";
import type { Spread } from "../lib/colormap.ts";
import type { Cell, Size, Window } from "../lib/view.ts";

export interface Statistics {
  count: number;
  zeros: number;
  nan: number;
  posinf: number;
  neginf: number;
  minimum: number;
  maximum: number;
  mean: number;
  std: number;
}

export const WHATS = ["tensor", "other", "difference"] as const;
/** Which numbers are shown where two tensors are compared. */
export type What = (typeof WHATS)[number];

/** Axes that are reduced, and how. */
export interface Pooled {
  axes: number[];
  by: "mean" | "max";
}

export type Form = "picture" | "line" | "scalar" | "empty" | "other";

/** What the kernel found when it read the tensor. A picture brings it along: facts of one reading never stand with a picture of another. */
export interface Facts {
  /** The kernel's number of the reading. */
  reading: number;
  /** The components are colours between 0 and 1. */
  image: boolean;
  value: Statistics | null;
  gradient: Statistics | null;
  /** The gradient is shown from -limit to limit. */
  limit: number;
}

export interface Info extends Facts {
  /** What the kernel calls this view. */
  token: string;
  name: string;
  shape: number[];
  dtype: string;
  device: string;
  bytes: number;
  /** The device with its adapter's name. */
  adapter: string;
  form: Form;
  /** The axes that are drawn down, across, and as channels; null where there is none. */
  axes: { row: number | null; col: number | null; channel: number | null };
  /** Numbers an element has: 1 for a scalar, 3 for a float3 or where an axis is drawn as channels. */
  components: number;
  /** Every element is a float32, so that an exact picture's numbers are the tensor's own. */
  single: boolean;
  /** The values are differences: zero is the middle of their colours. */
  signed: boolean;
  /** What is sliced, as Python, and what has to stand behind it to make a NumPy array. */
  code: string;
  toNumpy: string;
  /** The name of the tensor that is compared with, "" where there is none, and which of the two is shown. */
  compared: string;
  what: What;
  /** A sentence under the head, and the code that changes what it says. */
  note: string;
  noteCode: string;
  /** Statistics of the fields, where elements are structs. */
  fields: { name: string; dtype: string; statistics: Statistics | null }[];
}

/** The version of `info` that this file reads. */
const VERSION = 1;
const FORMS: readonly Form[] = ["picture", "line", "scalar", "empty", "other"];

const isRecord = (x: unknown): x is Record<string, unknown> =>
  typeof x === "object" && x !== null && !Array.isArray(x);
const text = (x: unknown, most = 200): string => (typeof x === "string" ? x.slice(0, most) : "");

/** JSON has no NaN and no infinities: they travel as words. */
export function number(x: unknown): number {
  if (typeof x === "number") return x;
  if (x === "inf") return Number.POSITIVE_INFINITY;
  if (x === "-inf") return Number.NEGATIVE_INFINITY;
  return Number.NaN;
}

const natural = (x: unknown): x is number => typeof x === "number" && Number.isInteger(x) && x >= 0;

function statistics(x: unknown): Statistics | null {
  if (!isRecord(x)) return null;
  const counts = ["count", "zeros", "nan", "posinf", "neginf"] as const;
  if (!counts.every((key) => natural(x[key]))) return null;
  const n = (key: string): number => number(x[key]);
  return {
    count: n("count"),
    zeros: n("zeros"),
    nan: n("nan"),
    posinf: n("posinf"),
    neginf: n("neginf"),
    minimum: n("minimum"),
    maximum: n("maximum"),
    mean: n("mean"),
    std: n("std"),
  };
}

/** Read the `info` trait; null where it cannot be trusted. */
export function readInfo(x: unknown): Info | null {
  if (!isRecord(x) || x.version !== VERSION) return null;
  const { shape, form } = x;
  if (!Array.isArray(shape) || shape.length > 32 || !shape.every(natural)) return null;
  if (!FORMS.includes(form as Form)) return null;
  const axes = readAxes(x.axes, shape.length);
  if (
    !axes ||
    (form === "picture" && axes.row === null) ||
    (axes.col === null && (form === "picture" || form === "line"))
  )
    return null;
  return {
    token: text(x.token),
    name: text(x.name),
    shape: [...shape],
    dtype: text(x.dtype),
    device: text(x.device),
    adapter: text(x.adapter),
    bytes: natural(x.bytes) ? x.bytes : 0,
    form: form as Form,
    axes,
    components: natural(x.components) ? x.components : 1,
    single: x.single === true,
    signed: x.signed === true,
    code: text(x.code, 500),
    toNumpy: text(x.to_numpy),
    compared: text(x.compared),
    what: WHATS.find((what) => what === x.what) ?? "tensor",
    ...readFacts(x),
    note: text(x.note, 1000),
    noteCode: text(x.note_code, 1000),
    fields: readFields(x.fields),
  };
}

function readFacts(x: Record<string, unknown>): Facts {
  return {
    reading: natural(x.reading) ? x.reading : -1,
    image: x.image === true,
    value: statistics(x.value),
    gradient: statistics(x.gradient),
    limit: number(x.limit),
  };
}

/** What a picture brings along; what is known where it brings nothing, or facts about something else. */
export function factsOf(message: Message, known: Facts): Facts {
  const { facts } = message.meta;
  const found = isRecord(facts) ? readFacts(facts) : known;
  const same = (a: unknown, b: unknown): boolean => (a === null) === (b === null);
  return same(found.value, known.value) && same(found.gradient, known.gradient) ? found : known;
}

function readAxes(x: unknown, rank: number): Info["axes"] | null {
  if (!isRecord(x)) return null;
  const axis = (v: unknown): number | null | undefined =>
    v === null ? null : natural(v) && v < rank ? v : undefined;
  const [row, col, channel] = [axis(x.row), axis(x.col), axis(x.channel)];
  if (row === undefined || col === undefined || channel === undefined) return null;
  const used = [row, col, channel].filter((a) => a !== null);
  return new Set(used).size === used.length ? { row, col, channel } : null;
}

function readFields(x: unknown): Info["fields"] {
  if (!Array.isArray(x)) return [];
  return x
    .slice(0, 256)
    .flatMap((f) =>
      isRecord(f) ? [{ name: text(f.name), dtype: text(f.dtype), statistics: statistics(f.statistics) }] : [],
    );
}

/** Rows and columns of the slice that is shown; one row where only one axis is. */
export function sliceSize({ shape, axes }: Pick<Info, "shape" | "axes">): Size {
  const size = (axis: number | null): number => (axis === null ? 1 : (shape[axis] ?? 1));
  return { rows: size(axes.row), cols: size(axes.col) };
}

/** The axes that are not drawn, which sliders move along. */
export function leadAxes({ shape, axes }: Pick<Info, "shape" | "axes">): number[] {
  return [...shape.keys()].filter((axis) => axis !== axes.row && axis !== axes.col && axis !== axes.channel);
}

/** Whole numbers are written in full: their figures are not a measurement. */
export const isWhole = (dtype: string): boolean => /^(u?int|bool)/.test(dtype);

export const NAN = 1;
export const POSINF = 2;
export const NEGINF = 4;

/** What a mark stands for: the worst of what a block holds. */
export const worst = (flags: number): number =>
  flags & NAN ? Number.NaN : flags & POSINF ? Number.POSITIVE_INFINITY : Number.NEGATIVE_INFINITY;

export interface Texel {
  mean: number;
  minimum: number;
  maximum: number;
  flags: number;
}

/** One reduced picture: block means with their range and flags, over a window of the slice. */
export class Layer {
  readonly rows: number;
  readonly cols: number;

  private constructor(
    /** The kernel's number of the message that brought it, by which `ranges` find it. */
    private readonly take: unknown,
    readonly mean: Float32Array,
    public minimum: Float32Array,
    public maximum: Float32Array,
    readonly flags: Uint8Array,
    shape: readonly [number, number],
    readonly block: readonly [number, number],
    readonly window: Window,
    /** Means of three or four channels a texel, where the picture is an image. */
    readonly colors: Float32Array | null,
    /** Whether all elements are finite. */
    readonly finite: boolean,
  ) {
    [this.rows, this.cols] = shape;
  }

  /** True where a texel is one element, so that its mean is the exact value. */
  get exact(): boolean {
    return this.block[0] === 1 && this.block[1] === 1;
  }

  static read(message: Message, name: "value" | "gradient"): Layer | null {
    const meta = message.meta[name];
    if (!isRecord(meta)) return null;
    const { block, window } = meta;
    const get = (part: string): NumberArray | undefined => message.arrays.get(`${name}.${part}`);
    const mean = get("mean");
    // No flags: everything is finite.
    const flags = get("flags") ?? (mean && { shape: mean.shape, data: new Uint8Array(mean.data.length) });
    const minimum = get("minimum") ?? mean;
    const maximum = get("maximum") ?? mean;
    const parts = [mean, minimum, maximum];
    if (!parts.every((a) => a?.data instanceof Float32Array && a.shape.length === 2)) return null;
    if (!mean || !flags || !(flags.data instanceof Uint8Array)) return null;
    const [rows = 0, cols = 0] = mean.shape;
    if (![...parts, flags].every((a) => a?.shape[0] === rows && a.shape[1] === cols)) return null;
    if (!Array.isArray(block) || block.length !== 2 || !block.every((b) => natural(b) && b > 0)) return null;
    if (!Array.isArray(window) || window.length !== 4 || !window.every(natural)) return null;
    const [row, col, height, width] = window as [number, number, number, number];
    return new Layer(
      message.meta.take,
      mean.data as Float32Array,
      minimum?.data as Float32Array,
      maximum?.data as Float32Array,
      flags.data,
      [rows, cols],
      block as [number, number],
      { row, col, rows: height, cols: width },
      colours(get("colors"), rows, cols),
      get("flags") === undefined,
    );
  }

  /** Take the ranges of the blocks, which come after what is drawn; false where they belong to another picture. */
  learn(message: Message, name: "value" | "gradient"): boolean {
    const [minimum, maximum] = [`${name}.minimum`, `${name}.maximum`].map(
      (part) => message.arrays.get(part)?.data,
    );
    if (typeof this.take !== "number" || message.meta.take !== this.take) return false;
    if (!(minimum instanceof Float32Array && maximum instanceof Float32Array)) return false;
    if (minimum.length !== this.mean.length || maximum.length !== this.mean.length) return false;
    this.minimum = minimum;
    this.maximum = maximum;
    return true;
  }

  /** The texel that covers a cell, or null outside this layer's window. */
  at(cell: Cell): Texel | null {
    const r = Math.floor((cell.row - this.window.row) / this.block[0]);
    const c = Math.floor((cell.col - this.window.col) / this.block[1]);
    if (r < 0 || c < 0 || r >= this.rows || c >= this.cols) return null;
    const i = r * this.cols + c;
    return {
      mean: this.mean[i] ?? Number.NaN,
      minimum: this.minimum[i] ?? Number.NaN,
      maximum: this.maximum[i] ?? Number.NaN,
      flags: this.flags[i] ?? 0,
    };
  }

  /** The cell in the middle of a texel. */
  cell(i: number): Cell {
    const middle = (k: number, block: number, start: number, extent: number): number =>
      start + Math.min(extent - 1, k * block + Math.floor((block - 1) / 2));
    return {
      row: middle(Math.floor(i / this.cols), this.block[0], this.window.row, this.window.rows),
      col: middle(i % this.cols, this.block[1], this.window.col, this.window.cols),
    };
  }

  /** Texels that hold an element that is not finite, in reading order. */
  notFinite(): number[] {
    const found: number[] = [];
    if (this.finite) return found;
    for (let i = 0; i < this.flags.length; i++) if (this.flags[i]) found.push(i);
    return found;
  }
}

function colours(array: NumberArray | undefined, rows: number, cols: number): Float32Array | null {
  if (!(array?.data instanceof Float32Array)) return null;
  const [h, w, n = 0] = array.shape;
  return h === rows && w === cols && (n === 3 || n === 4) && array.shape.length === 3 ? array.data : null;
}

export interface Histogram {
  edges: Numbers;
  counts: Numbers;
}
type Numbers = ArrayLike<number>;

export function readHistogram(message: Message, name: "value" | "gradient"): Histogram | null {
  const edges = message.arrays.get(`${name}.edges`)?.data;
  const counts = message.arrays.get(`${name}.counts`)?.data;
  return edges && counts && edges.length === counts.length + 1 && counts.length > 0
    ? { edges, counts }
    : null;
}

/** How the numbers of a picture are spread: shares from 0 to 1, and the numbers at them. */
export function readSpread(message: Message): Spread | null {
  const share = message.arrays.get("share")?.data;
  const at = message.arrays.get("at")?.data;
  if (!share || !at || share.length !== at.length || share.length < 2) return null;
  const ascends = (x: Numbers): boolean => {
    for (let i = 1; i < x.length; i++) if (!((x[i] ?? Number.NaN) >= (x[i - 1] ?? Number.NaN))) return false;
    return true;
  };
  return ascends(share) && ascends(at) ? { share, at } : null;
}

/** The axes that a picture reduces; null where it reduces none. */
export function readPooled(x: unknown, rank: number): Pooled | null {
  if (!isRecord(x) || (x.by !== "mean" && x.by !== "max") || !Array.isArray(x.axes)) return null;
  const axes = x.axes.filter((a): a is number => natural(a) && a < rank);
  return axes.length ? { axes, by: x.by } : null;
}

/** Exact numbers of a window of a slice. */
export class Cells {
  private constructor(
    readonly index: readonly number[],
    private readonly window: Window,
    private readonly numbers: Record<"value" | "gradient", Numbers | readonly string[] | null>,
    private readonly components: number,
  ) {}

  static read(message: Message): Cells | null {
    const { index, window } = message.meta;
    if (!Array.isArray(index) || !index.every(natural)) return null;
    if (!Array.isArray(window) || window.length !== 4 || !window.every(natural)) return null;
    const [row, col] = window as [number, number];
    const value = message.arrays.get("value");
    if (value?.shape.length !== 3) return null;
    const [rows = 0, cols = 0, components = 1] = value.shape;
    const part = (kind: "value" | "gradient"): Numbers | readonly string[] | null => {
      const array = message.arrays.get(kind);
      if (!array || array.shape.join() !== value.shape.join()) return null;
      const words = message.meta[kind];
      const whole = Array.isArray(words) && words.length === array.data.length;
      return whole ? words.map((w) => (/^-?\d{1,20}$/.test(String(w)) ? String(w) : "")) : array.data;
    };
    const numbers = { value: part("value"), gradient: part("gradient") };
    return new Cells([...index], { row, col, rows, cols }, numbers, components);
  }

  /** The numbers of an element; null outside the window. */
  read(kind: "value" | "gradient", cell: Cell): (number | string)[] | null {
    const numbers = this.numbers[kind];
    const { row, col, rows, cols } = this.window;
    const [r, c] = [cell.row - row, cell.col - col];
    if (!numbers || r < 0 || c < 0 || r >= rows || c >= cols) return null;
    const from = (r * cols + c) * this.components;
    return Array.from({ length: this.components }, (_, k) => numbers[from + k] ?? Number.NaN);
  }

  covers(first: Cell, last: Cell): boolean {
    const { row, col, rows, cols } = this.window;
    return first.row >= row && first.col >= col && last.row < row + rows && last.col < col + cols;
  }
}
