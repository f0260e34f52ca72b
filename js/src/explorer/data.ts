// What the kernel says about a function and one setting of it, checked: saved notebooks can put anything into a trait.

import type { Message, Numbers } from "../lib/channel.ts";

export const FORMS = ["curve", "field", "image", "dial"] as const;
export type Form = (typeof FORMS)[number];
export type KnobKind = "float" | "int" | "bool" | "choice";

export interface Knob {
  path: string;
  kind: KnobKind;
  low: number;
  high: number;
  step: number;
  start: number;
  choices: string[];
  group: string;
  color: boolean;
  differentiable: boolean;
}

export interface Axis {
  path: string;
  low: number;
  high: number;
  count: number;
  differentiable: boolean;
}

export interface Info {
  name: string;
  signature: string;
  form: Form;
  components: number;
  refused: string;
  trouble: string;
  compared: string[];
  axes: Axis[];
  knobs: Knob[];
  descends: boolean;
}

export interface Verdict {
  verdict: string;
  worst: number;
  /** The largest gradient. */
  scale: number;
  reason: string;
  /** Elements that differ, that could be judged, and all. */
  count: number;
  judged: number;
  elements: number;
  /** At a point: what the differences give. */
  measured: number;
}

/** What is known at the point that is looked at. */
export interface Here {
  value: number[];
  gradients: Map<string, number>;
  /** Values of the functions that are compared. */
  others: number[];
}

export interface Look {
  ask: number | null;
  values: Map<string, number>;
  at: Map<string, number>;
  component: number;
  code: string;
  ms: number;
  notes: string[];
  here: Here;
  differences: boolean;
  quotients: Map<string, Verdict>;
  missing: { nan: number; inf: number };
}

export interface CurveData {
  x: Numbers;
  value: Numbers;
  order: string[];
  gradients: Map<string, Numbers>;
  others: Numbers[];
  measured: Map<string, { value: Numbers; off: Numbers }>;
}

export interface PlaneData {
  x: Numbers;
  y: Numbers;
  value: Numbers;
  channels: number;
  /** Of the functions that are compared. */
  others: Numbers[];
  arrows: { x: Numbers; y: Numbers; dx: Numbers; dy: Numbers } | null;
}

export interface Path {
  ask: number | null;
  optimizer: string;
  rate: number;
  stopped: string;
  code: string;
  points: [number, number][];
  values: Numbers;
  gradient: number[];
}

/** The version of `info` that this file reads. */
const VERSION = 1;

type Plain = Record<string, unknown>;
const isRecord = (x: unknown): x is Plain => typeof x === "object" && x !== null && !Array.isArray(x);
const text = (x: unknown, most = 2000): string => (typeof x === "string" ? x.slice(0, most) : "");
const list = (x: unknown): unknown[] => (Array.isArray(x) ? x : []);
const whole = (x: unknown): number | null => (typeof x === "number" && Number.isInteger(x) ? x : null);

/** A number, or the word that stands for NaN or an infinity in JSON. */
export function number(x: unknown): number {
  if (typeof x === "number") return x;
  return x === "Infinity" || x === "-Infinity" ? Number(x) : Number.NaN;
}

function readKnob(x: unknown): Knob | null {
  if (!isRecord(x) || !text(x.path)) return null;
  const kind = (["float", "int", "bool", "choice"] as const).find((k) => k === x.kind);
  const [low, high, step, start] = [x.low, x.high, x.step, x.start].map(number) as [
    number,
    number,
    number,
    number,
  ];
  if (!kind || ![low, high, step, start].every(Number.isFinite)) return null;
  return {
    path: text(x.path, 200),
    kind,
    low,
    high,
    step,
    start,
    choices: list(x.choices).map((c) => text(c, 80)),
    group: text(x.group, 200),
    color: x.color === true,
    differentiable: x.differentiable === true,
  };
}

function readAxis(x: unknown): Axis | null {
  if (!isRecord(x) || !text(x.path)) return null;
  const [low, high, count] = [x.low, x.high, x.count].map(number) as [number, number, number];
  if (![low, high, count].every(Number.isFinite)) return null;
  return { path: text(x.path, 200), low, high, count, differentiable: x.differentiable === true };
}

export function readInfo(x: unknown): Info | null {
  if (!isRecord(x) || x.version !== VERSION) return null;
  const form = FORMS.find((f) => f === x.form);
  const knobs = list(x.knobs).map(readKnob);
  const axes = list(x.axes).map(readAxis);
  const components = whole(x.components) ?? 1;
  const wanted = { curve: 1, field: 2, image: 2, dial: 0 };
  if (!form || knobs.includes(null) || axes.includes(null) || axes.length !== wanted[form]) return null;
  return {
    name: text(x.name, 200),
    signature: text(x.signature),
    form,
    components,
    refused: text(x.refused),
    trouble: text(x.trouble),
    compared: list(x.compared).map((n) => text(n, 200)),
    axes: axes as Axis[],
    knobs: knobs as Knob[],
    descends: x.descends === true,
  };
}

function numbers(x: unknown): Map<string, number> {
  return new Map(isRecord(x) ? Object.entries(x).map(([k, v]) => [k, number(v)]) : []);
}

export function readLook({ meta }: Message): Look {
  const here = isRecord(meta.here) ? meta.here : {};
  const missing = numbers(meta.missing);
  const quotients = isRecord(meta.quotients) ? Object.entries(meta.quotients) : [];
  return {
    ask: whole(meta.ask),
    values: numbers(meta.values),
    at: numbers(meta.at),
    component: whole(meta.component) ?? 0,
    code: text(meta.code, 4000),
    ms: number(meta.ms),
    notes: list(meta.notes).map((n) => text(n, 4000)),
    here: {
      value: list(here.value).map(number),
      gradients: numbers(here.gradients),
      others: list(here.others).map(number),
    },
    differences: meta.differences === true,
    quotients: new Map(
      quotients
        .filter(([, q]) => isRecord(q))
        .map(([path, q]) => {
          const v = q as Plain;
          const verdict = {
            verdict: text(v.verdict, 40),
            worst: number(v.worst),
            reason: text(v.reason),
            scale: number(v.scale),
            count: number(v.count),
            judged: number(v.judged),
            elements: number(v.elements),
            measured: number(v.measured),
          };
          return [path, verdict];
        }),
    ),
    missing: { nan: missing.get("nan") ?? 0, inf: missing.get("inf") ?? 0 },
  };
}

/** The rows of an array of two axes. */
function rows(message: Message, name: string, length: number): Numbers[] {
  const array = message.arrays.get(name);
  if (array?.shape.length !== 2 || array.shape[1] !== length) return [];
  const out: Numbers[] = [];
  for (let i = 0; i < (array.shape[0] ?? 0); i++) out.push(array.data.subarray(i * length, (i + 1) * length));
  return out;
}

export function readCurve(message: Message): CurveData | null {
  const x = message.arrays.get("x")?.data;
  const value = message.arrays.get("value")?.data;
  if (!x || !value || x.length !== value.length || x.length < 2) return null;
  const order = list(message.meta.order).map((p) => text(p, 200));
  const gradients = rows(message, "gradients", x.length);
  const measured = list(message.meta.measured).map((p) => text(p, 200));
  const quotients = rows(message, "measured", x.length);
  const off = rows(message, "off", x.length);
  const found: CurveData = { x, value, order, gradients: new Map(), others: [], measured: new Map() };
  for (const [i, path] of order.entries()) {
    const gradient = gradients[i];
    if (gradient) found.gradients.set(path, gradient);
  }
  found.others = rows(message, "others", x.length);
  for (const [i, path] of measured.entries()) {
    const [q, o] = [quotients[i], off[i]];
    if (q && o) found.measured.set(path, { value: q, off: o });
  }
  return found;
}

export function readPlane(message: Message): PlaneData | null {
  const get = (name: string): Numbers | undefined => message.arrays.get(name)?.data;
  const [x, y, value] = [get("x"), get("y"), message.arrays.get("value")];
  if (!x || !y || !value || value.shape[0] !== y.length || value.shape[1] !== x.length) return null;
  const channels = value.shape[2] ?? 1;
  const [ax, ay, both] = [get("arrows.x"), get("arrows.y"), get("arrows")];
  const n = (ax?.length ?? 0) * (ay?.length ?? 0);
  const arrows =
    ax && ay && both && both.length === 2 * n
      ? { x: ax, y: ay, dx: both.subarray(0, n), dy: both.subarray(n) }
      : null;
  const size = x.length * y.length;
  const compared = message.arrays.get("others")?.data;
  const others: Numbers[] = [];
  for (let at = 0; channels === 1 && compared && at + size <= compared.length; at += size)
    others.push(compared.subarray(at, at + size));
  return { x, y, value: value.data, channels, others, arrows };
}

export function readPath({ meta, arrays }: Message): Path | null {
  const path = arrays.get("path");
  const values = arrays.get("values");
  if (!path || !values) return null;
  const points: [number, number][] = [];
  if (path.shape[1] === 2)
    for (let i = 0; i + 1 < path.data.length; i += 2)
      points.push([path.data[i] ?? Number.NaN, path.data[i + 1] ?? Number.NaN]);
  return {
    ask: whole(meta.ask),
    optimizer: text(meta.optimizer, 40),
    rate: number(meta.rate),
    stopped: text(meta.stopped),
    code: text(meta.code),
    points,
    values: values.data,
    gradient: [...(arrays.get("gradient")?.data ?? [])],
  };
}
