// What the parts of an inspector share: the tensor, its pictures, and where the reader is.

import type { Message } from "../lib/channel.ts";
import type { Lut, Scale, Spread } from "../lib/colormap.ts";
import { figures, shortest32, shortest64 } from "../lib/numbers.ts";
import type { Theme } from "../lib/theme.ts";
import { greys, poles, tide } from "../lib/tokens.ts";
import { type Cell, isWhole, type Size, type Window, whole } from "../lib/view.ts";
import { type Choice, needsSpread, scaleOf, standard } from "./choices.ts";
import {
  type Facts,
  type Histogram,
  type Info,
  type Layer,
  type Pooled,
  readHistogram,
  sliceSize,
  isWhole as wholeNumbers,
} from "./data.ts";
import type { Look } from "./picture.ts";

export type Kind = "value" | "gradient";
export const KINDS: readonly Kind[] = ["value", "gradient"];

/** A number that the kernel wrote: as a number, or as text where JavaScript's numbers are too short for it. */
export type Exact = number | string;

export interface Reading {
  /** Components of the element; one for a scalar. */
  values: Exact[];
  /** False where this is the mean of a block. */
  exact: boolean;
  minimum: number;
  maximum: number;
}

/** A range of numbers of one picture, whose elements are marked in both; the ends may be infinite. */
export interface Brush {
  kind: Kind;
  lo: number;
  hi: number;
}

export class Store {
  readonly size: Size;
  readonly layers: Record<Kind, Layer[]> = { value: [], gradient: [] };
  readonly histograms: Record<Kind, Histogram | null> = { value: null, gradient: null };
  /** How the numbers are spread, where the kernel was asked for it. */
  readonly spreads: Record<Kind, Spread | null> = { value: null, gradient: null };
  choices: Record<Kind, Choice>;
  brush: Brush | null = null;
  /** The gradient lies over the value, in one picture. */
  overlaid = false;
  /** How many elements of the whole tensor the brush marks; null until the kernel has counted. */
  marked: number | null = null;
  /** For each axis the index of the slice that is drawn; 0 on the axes that are drawn. */
  index: number[];
  /** The axes that are reduced. */
  pooled: Pooled | null = null;
  cursor: Cell | null = null;
  pinned = false;
  window: Window;
  taken: Date | null = null;
  private known = new Map<string, Record<Kind, Exact[] | null>>();

  constructor(
    public info: Info,
    readonly root: HTMLElement,
  ) {
    this.size = sliceSize(info);
    this.index = info.shape.map(() => 0);
    this.window = whole(this.size);
    const curve = info.form === "line";
    this.choices = { value: standard(this.centred("value"), curve), gradient: standard(true, curve) };
  }

  /** Take what is said about the tensor, with the facts that go with the picture; true where these are of another reading. */
  describe(info: Info, { reading, image, value, gradient, limit }: Facts): boolean {
    const anew = reading !== this.info.reading;
    this.info = { ...info, reading, image, value, gradient, limit };
    if (anew) this.spreads.value = this.spreads.gradient = null;
    return anew;
  }

  /** Go on where a view of the same tensor, or of what it is compared with, was. */
  follow(before: Store): void {
    for (const kind of KINDS)
      if (before.centred(kind) === this.centred(kind)) this.choices[kind] = before.choices[kind];
    this.overlaid = before.overlaid && this.has("gradient");
    const { size } = before;
    if (size.rows !== this.size.rows || size.cols !== this.size.cols) return;
    this.window = before.window;
    this.cursor = before.cursor;
  }

  get theme(): Theme {
    return this.root.dataset.theme === "dark" ? "dark" : "light";
  }

  has(kind: Kind): boolean {
    return this.info[kind] !== null;
  }

  /** What a picture shows of elements that have several components. */
  shown(kind: Kind): string {
    const { components: n, compared, what } = this.info;
    if (what === "difference") return `minus that of ${compared}`;
    if (what === "other") return `of ${compared}`;
    if (n === 1) return "";
    return kind === "value" && this.info.image ? "as sRGB" : `mean of ${n} components`;
  }

  /** Whether a picture's colours have zero in the middle. */
  centred(kind: Kind): boolean {
    return kind === "gradient" || this.info.signed;
  }

  /** Whether a scale waits for the kernel to say how the numbers are spread. */
  waits(kind: Kind): boolean {
    return this.has(kind) && !this.spreads[kind] && needsSpread(this.choices[kind], this.centred(kind));
  }

  /** Whether the histogram has too few bins in the range that is shown, or none outside the range it was made for. */
  coarse(kind: Kind): boolean {
    const histogram = this.histograms[kind];
    const { kind: name, lo, hi } = this.scale(kind);
    if (!histogram || name === "rank" || !(hi > lo)) return false;
    const first = histogram.edges[0] ?? 0;
    const last = histogram.edges[histogram.edges.length - 1] ?? 0;
    const s = this.info[kind];
    const covers = first <= Math.max(lo, s?.minimum ?? lo) && last >= Math.min(hi, s?.maximum ?? hi);
    const most = Math.max(Math.abs(lo), Math.abs(hi));
    // A bin is finer than a hundredth of the range, near zero too where the scale is a logarithm.
    const fine = name === "symlog" ? most / 50 : (hi - lo) / 50;
    let widest = 0;
    for (let i = 0; i < histogram.counts.length; i++) {
      const [a, b] = [histogram.edges[i] ?? 0, histogram.edges[i + 1] ?? 0];
      // Far from zero a bin of a logarithm is as wide as its numbers ask for.
      const near = name === "linear" || (a < fine && b > -fine);
      if (b >= lo && a <= hi && near) widest = Math.max(widest, b - a);
    }
    return !covers || widest > fine;
  }

  look(kind: Kind, token: Look["token"]): Look {
    return {
      token,
      map: this.map(kind),
      scale: this.scale(kind),
      sig: kind === "value" ? 3 : 2,
      whole: wholeNumbers(this.info.dtype),
      image: kind === "value" && this.info.image,
    };
  }

  /** The value as greys, under the colours of the gradient. */
  under(token: Look["token"]): Look {
    return { ...this.look("value", token), map: greys(this.theme), image: false };
  }

  private map(kind: Kind): Lut {
    return this.centred(kind) ? poles(this.theme) : tide();
  }

  scale(kind: Kind): Scale {
    const { info } = this;
    const limit = kind === "gradient" ? info.limit : 0;
    const known = { statistics: info[kind], limit, spread: this.spreads[kind] };
    return scaleOf(this.choices[kind], known, this.centred(kind));
  }

  /** For a layer of either picture, by its depth: which of its texels the brush does not mark. */
  faded(depth: number): ((texel: number) => boolean) | null {
    const { brush } = this;
    const layer = brush && this.layers[brush.kind][depth];
    if (!layer) return null;
    // A block is marked where it may hold an element in the range; what is not finite keeps its mark, not its place.
    return (i) =>
      !((layer.minimum[i] ?? Number.NaN) <= brush.hi && (layer.maximum[i] ?? Number.NaN) >= brush.lo);
  }

  /** An end of the brush as text. */
  bound(x: number): string {
    return Number.isFinite(x) ? figures(x, 3) : x < 0 ? "the least" : "the greatest";
  }

  /** Whether this is the slice that is shown. */
  at(index: readonly number[], pooled: Pooled | null): boolean {
    return index.join() === this.index.join() && JSON.stringify(pooled) === JSON.stringify(this.pooled);
  }

  /** New pictures: whole ones start over, the picture of a window lies over the whole one. */
  show(layers: Record<Kind, Layer | null>, index: number[], pooled: Pooled | null): void {
    const same = this.at(index, pooled);
    const fresh = layers.value === null || isWhole(layers.value.window, this.size);
    this.index = index;
    this.pooled = pooled;
    if (fresh || !same) this.known.clear();
    for (const kind of KINDS) {
      const layer = layers[kind];
      const base = fresh || !same ? null : (this.layers[kind][0] ?? null);
      this.layers[kind] = [base, layer].filter((l) => l !== null);
    }
  }

  /** Take the histograms that a message brings. */
  count(message: Message): void {
    for (const kind of KINDS) this.histograms[kind] = readHistogram(message, kind) ?? this.histograms[kind];
  }

  /** Remember what the kernel read at a cell. */
  learn(cell: Cell, value: Exact[] | null, gradient: Exact[] | null): void {
    if (this.known.size > 4096) this.known.clear();
    this.known.set(`${cell.row},${cell.col}`, { value, gradient });
  }

  /** What is known of a cell now: exact where possible, else the block that covers it. */
  read(kind: Kind, cell: Cell): Reading | null {
    const known = this.known.get(`${cell.row},${cell.col}`)?.[kind];
    for (const layer of [...this.layers[kind]].reverse()) {
      const t = layer.at(cell);
      if (!t) continue;
      const { minimum, maximum } = t;
      if (known) return { values: known, exact: true, minimum, maximum };
      // A single element that is not finite: its flag says which, whatever the mean holds.
      const word =
        layer.exact && t.flags ? (t.flags & 1 ? Number.NaN : t.flags & 2 ? Infinity : -Infinity) : t.mean;
      return {
        values: [word],
        // What is reduced is what it is: there is no element behind it.
        exact: layer.exact && (this.pooled !== null || (this.info.single && this.info.components === 1)),
        minimum,
        maximum,
      };
    }
    return known ? { values: known, exact: true, minimum: Number.NaN, maximum: Number.NaN } : null;
  }

  /** One number as text, the shortest that reads back as the same element. */
  text(x: Exact): string {
    if (typeof x === "string") return x;
    return this.info.dtype === "float64" ? shortest64(x) : shortest32(x);
  }

  /** Indices of a cell along the axes, without that of the channels (which is the last). */
  place(cell: Cell): number[] {
    const { axes, shape } = this.info;
    const at = [...this.index];
    if (axes.row !== null) at[axes.row] = cell.row;
    if (axes.col !== null) at[axes.col] = cell.col;
    return axes.channel === null ? at : at.slice(0, shape.length - 1);
  }

  /** Whether a cell lies in the block around a place. */
  covered(place: { cell: Cell; block: readonly [number, number] }, cell: Cell): boolean {
    const part = (k: number, size: number): number => Math.floor(k / size);
    const [rows, cols] = place.block;
    return (
      part(place.cell.row, rows) === part(cell.row, rows) &&
      part(place.cell.col, cols) === part(cell.col, cols)
    );
  }

  /** The cell at a place, or null where the place is in another slice. */
  cell(place: readonly number[]): Cell | null {
    const { axes } = this.info;
    const at = (axis: number | null): number => (axis === null ? 0 : (place[axis] ?? -1));
    const cell = { row: at(axes.row), col: at(axes.col) };
    const here = this.place(cell);
    const same = here.every((k, axis) => k === place[axis] || this.pooled?.axes.includes(axis));
    return same && here.length === place.length ? cell : null;
  }

  /** `[3, 64, 70]`; a colon for an axis that is reduced. */
  placeText(cell: Cell): string {
    const parts = this.place(cell).map((k, axis) => (this.pooled?.axes.includes(axis) ? ":" : k));
    return `[${parts.join(", ")}]`;
  }

  /** `features[3, 64, 70]`. */
  element(cell: Cell): string {
    return `${this.pooled ? `${this.pooled.by} of ` : ""}${this.baseName}${this.placeText(cell)}`;
  }

  /** What the numbers are those of, in a word. */
  get baseName(): string {
    const { name, compared, what } = this.info;
    if (what === "other") return compared;
    return what === "difference" ? `${name || "tensor"} − ${compared}` : name;
  }

  /** What is on the screen, as Python: `features[3, :, 10:40]`. */
  get code(): string {
    const part = (from: number, extent: number, total: number): string => {
      const first = Math.floor(from);
      const last = Math.min(total, Math.ceil(from + extent));
      return first === 0 && last >= total ? ":" : `${first}:${last}`;
    };
    const w = this.window;
    const { axes } = this.info;
    const parts = this.index.map((k, axis) => {
      if (axis === axes.row) return part(w.row, w.rows, this.size.rows);
      if (axis === axes.col) return part(w.col, w.cols, this.size.cols);
      return axis === axes.channel || this.pooled?.axes.includes(axis) ? ":" : k;
    });
    const { code, name, toNumpy } = this.info;
    const base = code || name || "t";
    const slice = `[${parts.join(", ")}]`;
    const turned =
      axes.row !== null && axes.col !== null && axes.row > axes.col
        ? axes.channel === null
          ? ".T"
          : ".swapaxes(0, 1)"
        : "";
    if (!this.pooled) return base + (turned && toNumpy) + slice + turned;
    // An index takes its axis away: what is reduced counts without it.
    const kept = [...parts.keys()].filter((axis) => String(parts[axis]).includes(":"));
    const over = this.pooled.axes.map((axis) => kept.indexOf(axis));
    const which = over.length === 1 ? String(over[0]) : `(${over.join(", ")})`;
    return `${base}${toNumpy}${slice}.${this.pooled.by}(axis=${which})${turned}`;
  }
}
