// What the plots have in common: words on a halo, ticks, the point that is looked at.

import { type Ticks, tickText } from "../lib/numbers.ts";

export type Token = (name: string) => string;

/** A word over whatever is drawn, on a halo of the page. */
export function word(
  c: CanvasRenderingContext2D,
  text: string,
  x: number,
  y: number,
  colour: string,
  token: Token,
  align: CanvasTextAlign = "left",
): void {
  c.font = `600 12px ${token("ui")}`;
  c.textAlign = align;
  c.textBaseline = "middle";
  c.lineWidth = 4;
  c.lineJoin = "round";
  c.strokeStyle = token("halo");
  c.strokeText(text, x, y);
  c.fillStyle = colour;
  c.fillText(text, x, y);
}

export function tickFont(c: CanvasRenderingContext2D, token: Token): void {
  c.font = `11px ${token("ui")}`;
  c.fillStyle = token("ink2");
}

/** Labels under a horizontal axis; those that would run into each other or over an end are left out. */
export function ticksAcross(
  c: CanvasRenderingContext2D,
  ticks: Ticks,
  place: (v: number) => number,
  top: number,
  ends: [number, number],
  token: Token,
): void {
  tickFont(c, token);
  c.textAlign = "center";
  c.textBaseline = "top";
  let free = Number.NEGATIVE_INFINITY;
  for (const v of ticks.values) {
    const label = tickText(v, ticks.step);
    const half = c.measureText(label).width / 2;
    const x = place(v);
    c.fillRect(Math.round(x), top, 1, 4);
    if (x - half < free || x + half > ends[1] + 12 || x - half < ends[0] - 30) continue;
    c.fillText(label, x, top + 7);
    free = x + half + 6;
  }
}

/** A point with a halo. */
export function dot(
  c: CanvasRenderingContext2D,
  x: number,
  y: number,
  radius: number,
  fill: string,
  stroke: string,
  width: number,
): void {
  c.beginPath();
  c.arc(x, y, radius, 0, 2 * Math.PI);
  c.fillStyle = fill;
  c.fill();
  c.strokeStyle = stroke;
  c.lineWidth = width;
  c.stroke();
}

/** The finite ends of some numbers, or null where there are none. */
export function extent(arrays: Iterable<ArrayLike<number>>): [number, number] | null {
  let lo = Number.POSITIVE_INFINITY;
  let hi = Number.NEGATIVE_INFINITY;
  for (const array of arrays)
    for (let i = 0; i < array.length; i++) {
      const v = array[i] ?? Number.NaN;
      if (!Number.isFinite(v)) continue;
      if (v < lo) lo = v;
      if (v > hi) hi = v;
    }
  return lo <= hi ? [lo, hi] : null;
}

/** The index of the number nearest to `v` in an ascending array. */
export function nearest(array: ArrayLike<number>, v: number): number {
  let lo = 0;
  let hi = array.length - 1;
  while (hi - lo > 1) {
    const mid = (lo + hi) >> 1;
    if ((array[mid] ?? 0) <= v) lo = mid;
    else hi = mid;
  }
  return Math.abs((array[lo] ?? 0) - v) <= Math.abs((array[hi] ?? 0) - v) ? lo : hi;
}
