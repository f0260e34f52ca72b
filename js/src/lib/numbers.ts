// Numbers as people read them. Screen text has U+2212 for minus; `ascii` makes it text that can be pasted.

export const MINUS = "\u2212";
const THIN = "\u202f";

const signed = (text: string): string => text.replaceAll("-", MINUS);

/** Text for the clipboard and for code: the minus sign of a keyboard. */
export const ascii = (text: string): string => text.replaceAll(MINUS, "-").replaceAll(THIN, "");

function notFinite(x: number): string | undefined {
  if (Number.isNaN(x)) return "NaN";
  if (x === Number.POSITIVE_INFINITY) return "+Inf";
  if (x === Number.NEGATIVE_INFINITY) return `${MINUS}Inf`;
  return undefined;
}

/** A number of a table: `sig` figures, trailing zeros kept, an exponent from 10^sig and under 10^-3. */
export function figures(x: number, sig = 4): string {
  const word = notFinite(x);
  if (word !== undefined) return word;
  if (x === 0) return "0";
  const [mantissa = "", exponent = "0"] = x.toExponential(sig - 1).split("e");
  const e = Number(exponent);
  // The exponent after rounding decides: 9999.6 to four figures is 1.000e4.
  return signed(e >= sig || e < -3 ? `${mantissa}e${e}` : x.toPrecision(sig));
}

/** The shortest decimal text that reads back as the same float32. */
export function shortest32(x: number): string {
  const word = notFinite(x);
  if (word !== undefined) return word;
  const single = Math.fround(x);
  for (let p = 1; p <= 9; p++) {
    const value = Number(single.toPrecision(p));
    if (Math.fround(value) === single) return plain(value);
  }
  return plain(single);
}

/** The shortest decimal text that reads back as the same float64. */
export function shortest64(x: number): string {
  return notFinite(x) ?? plain(x);
}

function plain(x: number): string {
  if (x === 0) return "0";
  const a = Math.abs(x);
  return signed(a >= 1e6 || a < 1e-3 ? x.toExponential().replace("e+", "e") : String(x));
}

/** A whole number with thin spaces between groups of three. */
export function count(n: number): string {
  return signed(String(n)).replace(/\B(?=(\d{3})+$)/g, THIN);
}

/** A shape as Python writes it: `(8, 96)`, `(400,)`, `()`. */
export function shapeText(shape: readonly number[]): string {
  return `(${shape.join(", ")}${shape.length === 1 ? "," : ""})`;
}

/** Decimal bytes with three figures: `393 kB`. */
export function bytesText(n: number): string {
  const units = ["kB", "MB", "GB", "TB"];
  if (n < 1000) return `${n} B`;
  let value = n;
  for (const unit of units) {
    value /= 1000;
    const last = unit === units[units.length - 1];
    if (value < 999.5 || last) return `${value < 999.5 ? value.toPrecision(3) : Math.round(value)} ${unit}`;
  }
  return `${n} B`;
}

export interface Ticks {
  values: number[];
  step: number;
}

/** Round positions from lo to hi, about `n` of them, at a step of 1, 2 or 5 times a power of ten. */
export function ticks(lo: number, hi: number, n = 5): Ticks {
  if (!(hi > lo) || !Number.isFinite(hi - lo)) return { values: Number.isFinite(lo) ? [lo] : [], step: 1 };
  const raw = (hi - lo) / Math.max(1, n);
  const power = 10 ** Math.floor(Math.log10(raw));
  const f = raw / power;
  const step = (f < 1.5 ? 1 : f < 3.5 ? 2 : f < 7.5 ? 5 : 10) * power;
  const values: number[] = [];
  const first = Math.ceil(lo / step - 1e-9);
  const last = Math.floor(hi / step + 1e-9);
  // A range narrow beside its own size can leave first and last thousands apart by rounding; ten times n is enough.
  for (let k = first; k <= last && values.length < 10 * n; k++) values.push(k === 0 ? 0 : k * step);
  return { values, step };
}

/** The label of a tick: as many decimals as the step needs. */
export function tickText(v: number, step: number): string {
  const a = Math.abs(v);
  if (a === 0 || a < Math.abs(step) * 1e-9) return "0";
  if (a >= 1e5 || a < 1e-3) return signed(Number(v.toPrecision(3)).toExponential().replace("e+", "e"));
  const decimals = Math.min(12, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
  return signed(v.toFixed(decimals));
}
