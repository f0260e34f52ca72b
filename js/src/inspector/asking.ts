// What an inspector asks of the kernel: one request of a kind on its way, the latest waiting.

import type { Channel } from "../lib/channel.ts";
import type { Scale } from "../lib/colormap.ts";
import { Pacer } from "../lib/pacer.ts";
import type { Choice } from "./choices.ts";
import type { Pooled, What } from "./data.ts";
import type { Format } from "./saving.ts";
import type { Brush, Kind } from "./store.ts";

type Meta = Record<string, unknown>;

export class Asking {
  private channel: Channel | null = null;
  private readonly slices = new Pacer<Meta>((r) => this.send("slice", r));
  private readonly elements = new Pacer<{ kind: string; meta: Meta }>((r) => this.send(r.kind, r.meta));
  private readonly counts = new Pacer<Meta>((r) => this.send("count", r));
  private readonly windows = new Pacer<Meta>((r) => this.send("cells", r));
  private readonly spreads = new Set<Kind>();
  private readonly ranges = new Map<Kind, string>();

  connect(channel: Channel): void {
    this.channel = channel;
  }

  private send(kind: string, meta: Meta = {}): void {
    this.channel?.send(kind, meta);
  }

  get alive(): boolean {
    return this.channel?.alive() === true;
  }

  /** Milliseconds that a slice is waited for. */
  get pending(): number {
    return this.slices.pending;
  }

  /** Say that a view has opened, and which picture it has already. */
  ready(take?: unknown): void {
    this.channel?.ready({ take });
  }

  slice(index: number[], pooled: Pooled | null, window?: number[]): void {
    this.slices.ask({ index, pooled, window: window ?? null });
  }

  element(index: number[]): void {
    this.elements.ask({ kind: "element", meta: { index } });
  }

  find(index: number[], step: 1 | -1, inclusive: boolean): void {
    this.elements.ask({ kind: "find", meta: { index, step, inclusive } });
  }

  cells(index: number[], pooled: Pooled | null, window: number[]): void {
    this.windows.ask({ index, pooled, window });
  }

  count(brush: Brush): void {
    this.counts.ask({ picture: brush.kind, lo: end(brush.lo), hi: end(brush.hi) });
  }

  /** How the numbers of a picture are spread; once until they change. */
  spread(picture: Kind): void {
    if (this.spreads.has(picture)) return;
    this.spreads.add(picture);
    this.send("spread", { picture });
  }

  /** The histogram of a part of the range, where that of all of it is too coarse. */
  histogram(picture: Kind, scale: Scale): void {
    const { kind, lo, hi } = scale;
    if (this.ranges.get(picture) === `${kind} ${lo} ${hi}`) return;
    this.ranges.set(picture, `${kind} ${lo} ${hi}`);
    this.send("histogram", { picture, scale: kind, lo, hi });
  }

  changed(): void {
    this.spreads.clear();
    this.ranges.clear();
  }

  /** Tell what is on the screen: no answer comes. */
  state(window: number[] | null, choices: Record<Kind, Choice>): void {
    this.send("state", { window, ...choices });
  }

  /** Draw other axes down and across. */
  axes(down: number, across: number): void {
    this.send("axes", { axes: [down, across] });
  }

  pin(): void {
    this.send("pin");
  }

  show(what: What | null): void {
    this.send("show", { what });
  }

  save(format: Format, overlaid: boolean): void {
    this.send("save", { format, overlaid });
  }

  /** An answer of a kind came, or none will. */
  done(...kinds: ("slice" | "element" | "count" | "cells")[]): void {
    if (kinds.includes("slice")) this.slices.done();
    if (kinds.includes("element")) this.elements.done();
    if (kinds.includes("count")) this.counts.done();
    if (kinds.includes("cells")) this.windows.done();
  }
}

/** An end of a range for the wire, where there are no infinities. */
export const end = (x: number): number | null => (Number.isFinite(x) ? x : null);
