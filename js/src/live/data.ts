// What the kernel says of a run, checked; and what a view knows of it so far.

import type { Message, NumberArray } from "../lib/channel.ts";
import { Curve } from "./curve.ts";

/** Of the `info` trait; `_VERSION` in slanglab/widgets/live.py says the same. */
export const VERSION = 1;

const MOST_MEASURED = 4000;

export interface Param {
  name: string;
  shape: number[];
  dtype: string;
  /** A float3 counts as three. */
  numbers: number;
}

export interface Info {
  run: number;
  name: string;
  total: number;
  optimizer: string;
  rate: boolean;
  keep: boolean;
  params: Param[];
}

export interface Flag {
  kind: string;
  number: number;
}

export interface ParamNow {
  norm: number | null;
  update: number | null;
  bad: number;
  flag: Flag | null;
}

export interface Trouble {
  title: string;
  text: string;
  kept: number | null;
  step: number;
}

export interface Now {
  done: number;
  phase: string;
  /** Whether the loop waits, now or once the steps that were asked for are done: then it can be told to go on. */
  waits: boolean;
  stopped: string | null;
  lr: number | null;
  speed: number;
  left: number | null;
  took: number;
  params: Record<string, ParamNow>;
  scalars: Record<string, number | null>;
  states: number[];
  trouble: Trouble | null;
  error: string;
}

export interface Shot {
  name: string;
  shape: number[];
  kind: "map" | "colors" | "line";
  low: number | null;
  high: number | null;
  limit: number | null;
  value: NumberArray;
  gradient: NumberArray | null;
  flags: NumberArray | null;
  gradientFlags: NumberArray | null;
}

type Fields = Record<string, unknown>;
const isFields = (x: unknown): x is Fields => typeof x === "object" && x !== null && !Array.isArray(x);
const text = (x: unknown): string => (typeof x === "string" ? x : "");
const numeral = (x: unknown, otherwise = 0): number => (typeof x === "number" ? x : otherwise);
const naturals = (x: unknown): number[] =>
  Array.isArray(x) ? x.filter((n): n is number => Number.isInteger(n) && n >= 0) : [];

/** A number as slanglab.widgets.wire writes it. */
function wired(x: unknown): number | null {
  if (typeof x === "number") return x;
  if (x === "nan") return Number.NaN;
  return x === "inf" ? Number.POSITIVE_INFINITY : x === "-inf" ? Number.NEGATIVE_INFINITY : null;
}

/** Read the `info` trait; null for anything else, and before the first run `run` is 0. */
export function readInfo(x: unknown): Info | null {
  if (!isFields(x) || x.version !== VERSION) return null;
  const params = (Array.isArray(x.params) ? x.params : []).filter(isFields).map((p) => ({
    name: text(p.name),
    shape: naturals(p.shape),
    dtype: text(p.dtype),
    numbers: numeral(p.numbers),
  }));
  return {
    run: numeral(x.run),
    name: text(x.name),
    total: numeral(x.total),
    optimizer: text(x.optimizer),
    rate: x.rate === true,
    keep: x.keep === true,
    params,
  };
}

function readNow(m: Fields): Now {
  const params: Record<string, ParamNow> = Object.create(null);
  for (const [name, p] of Object.entries(isFields(m.params) ? m.params : {})) {
    if (!isFields(p)) continue;
    const flag = isFields(p.flag) ? { kind: text(p.flag.kind), number: numeral(p.flag.number) } : null;
    params[name] = { norm: wired(p.norm), update: wired(p.update), bad: numeral(p.bad), flag };
  }
  const scalars: Record<string, number | null> = Object.create(null);
  for (const [name, x] of Object.entries(isFields(m.scalars) ? m.scalars : {})) scalars[name] = wired(x);
  const t = m.trouble;
  return {
    done: numeral(m.done),
    phase: text(m.phase),
    waits: m.waits === true,
    stopped: typeof m.stopped === "string" ? m.stopped : null,
    lr: wired(m.lr),
    speed: wired(m.speed) ?? 0,
    left: wired(m.left),
    took: wired(m.took) ?? 0,
    params,
    scalars,
    states: naturals(m.states),
    trouble: isFields(t)
      ? {
          title: text(t.title),
          text: text(t.text),
          kept: typeof t.kept === "number" ? t.kept : null,
          step: numeral(t.step),
        }
      : null,
    error: text(m.error),
  };
}

/** The pictures of a message; an entry that is none is left out. */
export function readShots(m: Message): Shot[] {
  const listed = Array.isArray(m.meta.shots) ? m.meta.shots : [];
  const out: Shot[] = [];
  for (const [i, s] of listed.entries()) {
    const value = m.arrays.get(`s${i}.value`);
    if (!isFields(s) || !value || value.shape.length < 2) continue;
    const kind = text(s.kind);
    if (kind !== "map" && kind !== "colors" && kind !== "line") continue;
    out.push({
      name: text(s.name),
      shape: naturals(s.shape),
      kind,
      low: wired(s.low),
      high: wired(s.high),
      limit: wired(s.limit),
      value,
      gradient: m.arrays.get(`s${i}.gradient`) ?? null,
      flags: m.arrays.get(`s${i}.flags`) ?? null,
      gradientFlags: m.arrays.get(`s${i}.gradient.flags`) ?? null,
    });
  }
  return out;
}

/** A run as far as it has arrived. */
export class RunData {
  readonly loss = new Curve();
  /** Measured steps; norms by parameter; columns of the spread, one byte a bin. */
  steps: number[] = [];
  norms: number[][];
  spreads: Uint8Array[] = [];
  shots: Shot[] = [];
  now: Now | null = null;
  /** Looks at gradients that have arrived. */
  measured = 0;
  private upto = 0;

  constructor(readonly info: Info) {
    this.norms = info.params.map(() => []);
  }

  /** Take a frame in; false where one is missing before it. */
  receive(m: Message): boolean {
    const from = numeral(m.meta.from, -1);
    const to = numeral(m.meta.to, -1);
    const [first = 0, last = 0] = naturals(m.meta.measured);
    if (from === 0 && first === 0) this.clear();
    if (from > this.upto || first > this.measured) return false;
    // An older frame than what is known: nothing in it is new.
    if (from < this.upto || first < this.measured) return true;
    const y = m.arrays.get("y")?.data ?? [];
    const x = m.arrays.get("x")?.data ?? Float64Array.from({ length: y.length }, (_, i) => from + i);
    this.loss.append(x, y);
    this.upto = to;
    this.measure(m);
    this.measured = last;
    this.now = readNow(m.meta);
    if (Array.isArray(m.meta.shots)) this.shots = readShots(m);
    return true;
  }

  private clear(): void {
    this.loss.x = [];
    this.loss.y = [];
    this.steps = [];
    this.norms = this.info.params.map(() => []);
    this.spreads = [];
    this.upto = this.measured = 0;
  }

  private measure(m: Message): void {
    const steps = m.arrays.get("m.step");
    if (!steps) return;
    const n = steps.data.length;
    const norms = m.arrays.get("m.norm");
    const spread = m.arrays.get("m.spread");
    const bins = spread?.shape[1] ?? 0;
    for (let i = 0; i < n; i++) {
      this.steps.push(steps.data[i] ?? 0);
      for (const [p, list] of this.norms.entries()) list.push(norms?.data[p * n + i] ?? Number.NaN);
      this.spreads.push(Uint8Array.from(spread?.data.slice(i * bins, (i + 1) * bins) ?? []));
    }
    if (this.steps.length > MOST_MEASURED) {
      // From the end: the latest stays.
      const parity = (this.steps.length - 1) % 2;
      const half = <T>(list: T[]): T[] => list.filter((_, i) => i % 2 === parity);
      this.steps = half(this.steps);
      this.norms = this.norms.map(half);
      this.spreads = half(this.spreads);
    }
  }
}
