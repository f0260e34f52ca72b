// From numbers to colours: look-up tables of 256 colours and the scales that lead into them.

/** 256 colours, three bytes each. */
export type Lut = Uint8ClampedArray;

/** A table from hexadecimal stops at equal distances, interpolated linearly in sRGB. */
export function lut(stops: readonly string[], size = 256): Lut {
  const rgb = stops.map((stop) => {
    const n = Number.parseInt(stop.slice(1), 16);
    return [n >> 16, (n >> 8) & 255, n & 255] as const;
  });
  const out = new Uint8ClampedArray(size * 3);
  for (let i = 0; i < size; i++) {
    const at = (i / (size - 1)) * (rgb.length - 1);
    const k = Math.min(rgb.length - 2, Math.floor(at));
    const a = rgb[k];
    const b = rgb[k + 1];
    if (!a || !b) throw new RangeError("a colour map needs two stops or more");
    for (const c of [0, 1, 2] as const) out[i * 3 + c] = Math.round(a[c] + (b[c] - a[c]) * (at - k));
  }
  return out;
}

export const css = (map: Lut, i: number): string => `rgb(${map[i * 3]},${map[i * 3 + 1]},${map[i * 3 + 2]})`;

/** Relative luminance of an sRGB colour, 0 to 1 (WCAG 2). */
export function luminance(r: number, g: number, b: number): number {
  const f = (v: number): number => {
    const s = v / 255;
    return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b);
}

/** A monotone map of numbers to 0…1 and back. `to` does not clamp: what is under 0 or over 1 is out of range. */
export interface Scale {
  kind: "linear" | "symlog" | "rank";
  lo: number;
  hi: number;
  /** The half width of the part that is linear; 0 for a linear scale. */
  threshold: number;
  to(x: number): number;
  from(t: number): number;
}

export function linear(lo: number, hi: number): Scale {
  // One value only: it lands in the middle instead of dividing by zero.
  if (!(hi > lo))
    return { kind: "linear", lo, hi, threshold: 0, to: (x) => 0.5 + Math.sign(x - lo), from: () => lo };
  const span = hi - lo;
  // Halves first, so that a range wider than the largest number does not overflow.
  if (!Number.isFinite(span)) {
    const half = hi / 2 - lo / 2;
    return {
      kind: "linear",
      lo,
      hi,
      threshold: 0,
      to: (x) => (x / 2 - lo / 2) / half,
      from: (t) => lo * (1 - t) + hi * t,
    };
  }
  return { kind: "linear", lo, hi, threshold: 0, to: (x) => (x - lo) / span, from: (t) => lo + t * span };
}

/** Symmetric about zero: linear within ±threshold, logarithmic beyond (inverse hyperbolic sine). */
export function symlog(limit: number, threshold = limit * 0.01): Scale {
  const hi = limit > 0 && Number.isFinite(limit) ? limit : 1;
  return symlogBetween(-hi, hi, threshold > 0 && Number.isFinite(threshold) ? threshold : hi * 0.01);
}

/** The same between any two numbers. */
export function symlogBetween(
  lo: number,
  hi: number,
  threshold = Math.max(Math.abs(lo), Math.abs(hi)) * 0.01,
): Scale {
  if (!(hi > lo) || !(threshold > 0)) return linear(lo, hi);
  // No more decades than a double has on one side of 1.
  const unit = Math.max(threshold, Math.max(Math.abs(lo), Math.abs(hi)) * 1e-300);
  const bottom = Math.asinh(lo / unit);
  const span = Math.asinh(hi / unit) - bottom;
  return {
    kind: "symlog",
    lo,
    hi,
    threshold: unit,
    to: (x) => (Math.asinh(x / unit) - bottom) / span,
    from: (t) => unit * Math.sinh(bottom + t * span),
  };
}

/** How some numbers are spread: at each share of them (ascending from 0 to 1) the number that so many are not above. */
export interface Spread {
  share: ArrayLike<number>;
  at: ArrayLike<number>;
}

/** Linear between the points (x, y); both ascend. Where several points have one x, the middle of their y. */
export function interpolate(x: ArrayLike<number>, y: ArrayLike<number>, v: number): number {
  const n = x.length;
  const X = (i: number): number => x[i] ?? 0;
  const Y = (i: number): number => y[i] ?? 0;
  // The first and one past the last point that is not below, not above v.
  const search = (before: (i: number) => boolean): number => {
    let lo = 0;
    let hi = n;
    while (lo < hi) {
      const mid = (lo + hi) >> 1;
      if (before(mid)) lo = mid + 1;
      else hi = mid;
    }
    return lo;
  };
  const first = search((i) => X(i) < v);
  const last = search((i) => X(i) <= v) - 1;
  if (first <= last) return Y(first) / 2 + Y(last) / 2;
  if (first === 0) return Y(0);
  if (first === n) return Y(n - 1);
  // By weights: the difference of two numbers may be more than the largest there is.
  const weight = (v - X(last)) / (X(first) - X(last));
  return Y(last) * (1 - weight) + Y(first) * weight;
}

/** By rank of the magnitude, with the sign: zero in the middle, half of the numbers within a quarter of each end. */
export function ranked(spread: Spread): Scale {
  const { share, at } = spread;
  const hi = at[at.length - 1] ?? 0;
  return {
    kind: "rank",
    lo: -hi,
    hi,
    threshold: 0,
    to: (x) => 0.5 + (x === 0 ? 0 : Math.sign(x) * interpolate(at, share, Math.abs(x))) / 2,
    from: (t) => Math.sign(t - 0.5) * interpolate(share, at, Math.abs(2 * t - 1)),
  };
}

/** A linear scale centred at zero. */
export function centred(limit: number): Scale {
  const hi = limit > 0 && Number.isFinite(limit) ? limit : 1;
  return linear(-hi, hi);
}

/** Labelled positions of a symlog scale: powers of ten outside the linear part, and zero. */
export function symlogTicks(scale: Scale): number[] {
  const top = Math.floor(Math.log10(Math.max(Math.abs(scale.lo), Math.abs(scale.hi))) + 1e-9);
  const bottom = Math.ceil(Math.log10(scale.threshold) - 1e-9);
  const positive: number[] = [];
  for (let e = bottom; e <= top && positive.length < 40; e++) positive.push(10 ** e);
  const inside = (v: number): boolean => v >= scale.lo && v <= scale.hi;
  return [...positive.map((v) => -v).reverse(), 0, ...positive].filter(inside);
}

/** The index into a table of 256 colours; out of range goes to the nearer end. */
export const lutIndex = (t: number): number => (t <= 0 ? 0 : t >= 1 ? 255 : Math.round(t * 255));
