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
  kind: "linear" | "symlog";
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
  const k = threshold > 0 && Number.isFinite(threshold) ? threshold : hi * 0.01;
  const top = Math.asinh(hi / k);
  return {
    kind: "symlog",
    lo: -hi,
    hi,
    threshold: k,
    to: (x) => (Math.asinh(x / k) / top + 1) / 2,
    from: (t) => k * Math.sinh((2 * t - 1) * top),
  };
}

/** A linear scale centred at zero. */
export function centred(limit: number): Scale {
  const hi = limit > 0 && Number.isFinite(limit) ? limit : 1;
  return linear(-hi, hi);
}

/** Labelled positions of a symlog scale: powers of ten outside the linear part, and zero. */
export function symlogTicks(scale: Scale): number[] {
  const top = Math.floor(Math.log10(scale.hi) + 1e-9);
  const bottom = Math.ceil(Math.log10(scale.threshold) - 1e-9);
  const positive: number[] = [];
  for (let e = bottom; e <= top && positive.length < 40; e++) positive.push(10 ** e);
  return [...positive.map((v) => -v).reverse(), 0, ...positive];
}

/** The index into a table of 256 colours; out of range goes to the nearer end. */
export const lutIndex = (t: number): number => (t <= 0 ? 0 : t >= 1 ? 255 : Math.round(t * 255));
