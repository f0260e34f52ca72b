// A histogram that stands on its colour bar, with the cursor's own value marked on it.

import { css, type Scale, symlogTicks } from "../lib/colormap.ts";
import { prepare } from "../lib/dom.ts";
import { figures, MINUS, ticks, tickText } from "../lib/numbers.ts";
import { clamp } from "../lib/view.ts";
import type { Histogram } from "./data.ts";
import type { Look } from "./picture.ts";

const BARS = 44;
const BAR = 7;

/** Pixels from the top of the bars to the end of the colour bar. */
export const HISTOGRAM_HEIGHT = BARS + 1 + BAR;

/** Counts per pixel column of the colour scale, from bins that lie anywhere on it. */
export function rebin(histogram: Histogram, scale: Scale, bins: number): Float64Array {
  const out = new Float64Array(bins);
  const { edges, counts } = histogram;
  for (let i = 0; i < counts.length; i++) {
    const n = counts[i] ?? 0;
    if (n === 0) continue;
    const a = clamp(scale.to(edges[i] ?? 0), 0, 1) * bins;
    const b = clamp(scale.to(edges[i + 1] ?? 0), 0, 1) * bins;
    const first = clamp(Math.floor(a), 0, bins - 1);
    const last = clamp(Math.ceil(b) - 1, first, bins - 1);
    // A bin wider than a column spreads evenly over what it covers; a narrower one goes where its lower edge is.
    for (let k = first; k <= last; k++) {
      const share = b > a && last > first ? (Math.min(b, k + 1) - Math.max(a, k)) / (b - a) : 1;
      out[k] = (out[k] ?? 0) + n * share;
    }
  }
  return out;
}

/** Draw the histogram (if there is one, in the room kept for it), the colour bar under it and the ticks. */
export function drawHistogram(
  canvas: HTMLCanvasElement,
  width: number,
  left: number,
  histogram: Histogram | null,
  look: Look,
  here: number | null,
  marked: readonly [number, number] | null,
  room: boolean,
): void {
  const H = room ? BARS : 8;
  const c = prepare(canvas, width, H + 8 + 17);
  const { scale, map, token } = look;
  const w = width - left;
  if (histogram) {
    const bins = Math.max(1, Math.min(96, Math.floor(w / 4)));
    const counts = rebin(histogram, scale, bins);
    const most = Math.log1p(counts.reduce((a, b) => Math.max(a, b), 0));
    for (const [i, n] of counts.entries()) {
      if (n <= 0 || most <= 0) continue;
      const inside = !marked || ((i + 1) / bins > marked[0] && i / bins < marked[1]);
      c.fillStyle = token(inside ? "ink2" : "wash2");
      const height = Math.max(1, (Math.log1p(n) / most) * (H - 4));
      c.fillRect(left + (i * w) / bins, H - height, Math.max(1, w / bins - 1), height);
    }
  }
  for (let i = 0; i < w; i++) {
    c.fillStyle = css(map, Math.round((i / Math.max(1, w - 1)) * 255));
    c.fillRect(left + i, H + 1, 1.5, BAR);
  }
  c.strokeStyle = token("line");
  c.strokeRect(left + 0.5, H + 1.5, w - 1, BAR - 1);
  c.font = `11px ${token("ui")}`;
  c.fillStyle = token("ink2");
  c.textBaseline = "top";
  let last = Number.NEGATIVE_INFINITY;
  for (const [v, label] of labels(scale)) {
    const x = left + scale.to(v) * w;
    const size = c.measureText(label).width;
    const at = clamp(x - size / 2, left - 4, width - size);
    if (!Number.isFinite(x) || at < last + 8) continue;
    last = at + size;
    c.fillText(label, at, H + 13);
    c.fillRect(Math.round(clamp(x, left, width - 1)), H + 8, 1, 3);
  }
  if (here !== null && Number.isFinite(here)) {
    const x = left + clamp(scale.to(here), 0, 1) * w;
    c.fillStyle = token("ink");
    c.strokeStyle = token("halo");
    c.lineWidth = 1;
    c.beginPath();
    c.moveTo(x, H + 1);
    c.lineTo(x - 4, H - 5);
    c.lineTo(x + 4, H - 5);
    c.closePath();
    c.fill();
    c.stroke();
  }
  if (marked) {
    const [from, to] = marked.map((t) => Math.round(left + t * w));
    c.strokeStyle = token("ink");
    c.lineWidth = 1;
    c.strokeRect((from ?? 0) + 0.5, 0.5, Math.max(1, (to ?? 0) - (from ?? 0) - 1), HISTOGRAM_HEIGHT - 1);
  }
}

/** Labelled positions of a scale; about so many of a linear one. */
export function labels(scale: Scale, about = 5): [number, string][] {
  if (scale.kind === "linear") {
    const { values, step } = ticks(scale.lo, scale.hi, about);
    return values.map((v) => [v, tickText(v, step)]);
  }
  if (scale.kind === "rank")
    return [0, 0.25, 0.5, 0.75, 1].map((t) => [scale.from(t), figures(scale.from(t), 2)]);
  return symlogTicks(scale).map((v) => [v, powerText(v)]);
}

/** A power of ten, or zero, as an axis labels it: `0.1`, `1e−3`. */
function powerText(v: number): string {
  const a = Math.abs(v);
  if (a === 0) return "0";
  const e = Math.round(Math.log10(a));
  const text = e < -2 || e > 3 ? `1e${e}` : String(Number(a.toPrecision(1)));
  return (v < 0 ? MINUS : "") + text.replace("-", MINUS);
}
