// How numbers become colours, as the reader chose it: the scale, and where its range comes from.

import {
  interpolate,
  linear,
  ranked,
  type Scale,
  type Spread,
  symlog,
  symlogBetween,
} from "../lib/colormap.ts";
import type { Statistics } from "./data.ts";

export type ScaleName = "linear" | "symlog" | "rank";
export type RangeName = "data" | "99.9" | "99" | "3 sigma" | "typed";

export interface Choice {
  scale: ScaleName;
  range: RangeName;
  /** What was typed; of a scale centred at zero `hi` alone counts. */
  lo: number;
  hi: number;
}

const SCALES: readonly ScaleName[] = ["linear", "symlog", "rank"];
const RANGES: readonly RangeName[] = ["data", "99.9", "99", "3 sigma", "typed"];

/** The scales there are: by rank only where zero is the middle. */
export const scaleNames = (centred: boolean): readonly ScaleName[] => (centred ? SCALES : SCALES.slice(0, 2));
export const rangeNames = (): readonly RangeName[] => RANGES;

/** What is chosen first: a curve shows all, as it is; colours of what is centred at zero show the small beside the large. */
export const standard = (centred: boolean, curve = false): Choice => ({
  scale: centred && !curve ? "symlog" : "linear",
  range: centred && !curve ? "99.9" : "data",
  lo: 0,
  hi: 1,
});

/** Read a choice that was kept; null where it is none. */
export function readChoice(x: unknown, centred: boolean): Choice | null {
  if (typeof x !== "object" || x === null) return null;
  const { scale, range, lo, hi } = x as Record<string, unknown>;
  if (!scaleNames(centred).includes(scale as ScaleName) || !RANGES.includes(range as RangeName)) return null;
  if (typeof lo !== "number" || typeof hi !== "number" || !(Number.isFinite(lo) && Number.isFinite(hi)))
    return null;
  return { scale: scale as ScaleName, range: range as RangeName, lo, hi };
}

/** What a scale is made from. */
export interface Known {
  statistics: Statistics | null;
  /** The 99.9 % quantile of the magnitude. */
  limit: number;
  /** How the numbers are spread, of a centred scale the magnitudes that are not zero; null until the kernel has said it. */
  spread: Spread | null;
}

/** Whether a choice needs to know how the numbers are spread. */
export const needsSpread = ({ scale, range }: Choice, centred: boolean): boolean =>
  scale === "rank" || range === "99" || (range === "99.9" && !centred);

/** The range of a choice: of a centred scale from minus the limit to the limit. */
export function rangeOf(choice: Choice, known: Known, centred: boolean): [number, number] {
  const s = known.statistics;
  const lo = s && Number.isFinite(s.minimum) ? s.minimum : 0;
  const hi = s && Number.isFinite(s.maximum) ? s.maximum : 1;
  if (centred) {
    const limit = centredLimit(choice, known, Math.max(Math.abs(lo), Math.abs(hi)));
    return [-limit, limit];
  }
  const { spread } = known;
  if (choice.range === "typed" && choice.lo < choice.hi) return [choice.lo, choice.hi];
  if (choice.range === "3 sigma" && s && s.std > 0)
    return [Math.max(lo, s.mean - 3 * s.std), Math.min(hi, s.mean + 3 * s.std)];
  if ((choice.range === "99" || choice.range === "99.9") && spread) {
    const out = (1 - Number(choice.range) / 100) / 2;
    const found = [out, 1 - out].map((p) => interpolate(spread.share, spread.at, p));
    const [from = lo, to = hi] = found;
    if (from < to) return [from, to];
  }
  return [lo, hi];
}

function centredLimit(choice: Choice, { statistics: s, limit, spread }: Known, most: number): number {
  if (choice.range === "typed" && choice.hi > 0) return choice.hi;
  if (choice.range === "3 sigma" && s && s.std > 0) return Math.min(most, 3 * Math.hypot(s.mean, s.std));
  if (choice.range === "99.9" && limit > 0) return limit;
  if (choice.range === "99" && spread && s) {
    // The spread is that of what is not zero; the percentage counts all.
    const finite = s.count - s.nan - s.posinf - s.neginf;
    const zero = finite > 0 ? s.zeros / finite : 0;
    const found = zero < 0.99 ? interpolate(spread.share, spread.at, (0.99 - zero) / (1 - zero)) : 0;
    if (found > 0) return found;
  }
  return most || 1;
}

export function scaleOf(choice: Choice, known: Known, centred: boolean): Scale {
  const { spread } = known;
  if (choice.scale === "rank" && centred && spread && spread.share.length > 1) return ranked(spread);
  const [lo, hi] = rangeOf(choice, known, centred);
  if (choice.scale === "linear") return linear(lo, hi);
  return centred ? symlog(hi) : symlogBetween(lo, hi);
}
