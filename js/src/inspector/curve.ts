// One axis: the value as a curve, the gradient under it with the area to zero split into blue and orange. Both share x.

import type { Scale } from "../lib/colormap.ts";
import { prepare } from "../lib/dom.ts";
import { ticks, tickText } from "../lib/numbers.ts";
import { clamp } from "../lib/view.ts";
import { type Layer, type Texel, worst } from "./data.ts";
import { labels } from "./histogram.ts";
import { mark, Thinner } from "./marks.ts";
import { FADED } from "./texels.ts";

/** Room for the numbers of the y axis. */
export const LEFT = 40;
const RIGHT = 6;
const VALUE = 112;
const GRADIENT = 84;
const GAP = 14;
const BOTTOM = 18;

type Token = (name: string) => string;

export interface Pane {
  top: number;
  height: number;
  y(v: number): number;
  /** What the reader chose; null where the pane goes from the least to the greatest number. */
  scale: Scale | null;
}

/** Room above and below the numbers, of the height. */
const PAD = 0.06;

export interface Curve {
  width: number;
  height: number;
  n: number;
  value: Pane;
  gradient: Pane | null;
  x(i: number): number;
}

function pane(layer: Layer, top: number, height: number, centredAtZero: boolean, scale: Scale | null): Pane {
  if (!scale) return fitted(layer, top, height, centredAtZero);
  return { top, height, scale, y: (v) => top + height * (1 - PAD - scale.to(v) * (1 - 2 * PAD)) };
}

/** A pane from the least to the greatest number of a layer. */
function fitted(layer: Layer, top: number, height: number, centredAtZero: boolean): Pane {
  let lo = Number.POSITIVE_INFINITY;
  let hi = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < layer.cols; i++) {
    const t = layer.at(layer.cell(i));
    if (t && Number.isFinite(t.minimum)) lo = Math.min(lo, t.minimum);
    if (t && Number.isFinite(t.maximum)) hi = Math.max(hi, t.maximum);
  }
  if (!(lo <= hi)) [lo, hi] = [-1, 1];
  if (centredAtZero) {
    hi = Math.max(Math.abs(lo), Math.abs(hi));
    lo = -hi;
  }
  if (lo === hi) {
    const room = Math.abs(lo) || 1;
    [lo, hi] = [lo - room / 2, hi + room / 2];
  }
  // Scaled down before the difference, so that values near the largest number do not overflow.
  const unit = Math.max(Math.abs(lo), Math.abs(hi));
  const span = (hi / unit - lo / unit) * (1 + 2 * PAD);
  const base = lo / unit - (hi / unit - lo / unit) * PAD;
  return { top, height, scale: null, y: (v) => top + height - ((v / unit - base) / span) * height };
}

export function layout(
  width: number,
  n: number,
  value: Layer,
  gradient: Layer | null,
  scale: (kind: "value" | "gradient") => Scale | null,
): Curve {
  const inner = Math.max(1, width - LEFT - RIGHT);
  const height = 4 + VALUE + (gradient ? GAP + GRADIENT : 0) + BOTTOM;
  return {
    width,
    height,
    n,
    value: pane(value, 4, VALUE, false, scale("value")),
    gradient: gradient ? pane(gradient, 4 + VALUE + GAP, GRADIENT, true, scale("gradient")) : null,
    x: (i) => (n > 1 ? LEFT + (i / (n - 1)) * inner : LEFT + inner / 2),
  };
}

/** The index under a pixel. */
export function indexAt(curve: Curve, x: number): number {
  const inner = Math.max(1, curve.width - LEFT - RIGHT);
  return clamp(Math.round(((x - LEFT) / inner) * (curve.n - 1)), 0, curve.n - 1);
}

export function drawCurves(
  canvas: HTMLCanvasElement,
  curve: Curve,
  value: Layer,
  gradient: Layer | null,
  range: (kind: "value" | "gradient") => [number, number],
  token: Token,
  faded: ((texel: number) => boolean) | null,
): void {
  const c = prepare(canvas, curve.width, curve.height);
  grid(c, curve, curve.value, range("value"), 3, token);
  brushed(c, curve, value, faded, (alpha) =>
    within(c, curve, curve.value.top, curve.value.height, () =>
      trace(c, curve, curve.value, value, token("value"), 2, token, null, alpha),
    ),
  );
  const thin = new Thinner();
  marks(c, curve, curve.value, value, token, thin);
  if (gradient && curve.gradient) {
    const p = curve.gradient;
    grid(c, curve, p, range("gradient"), 3, token);
    const zero = Math.round(p.y(0));
    c.fillStyle = token("edge");
    c.fillRect(LEFT, zero, curve.width - LEFT - RIGHT, 1);
    brushed(c, curve, gradient, faded, (alpha) => {
      for (const [key, top, bottom] of [
        ["pos", p.top, p.y(0)],
        ["neg", p.y(0), p.top + p.height],
      ] as const)
        within(c, curve, top, bottom - top, () =>
          trace(c, curve, p, gradient, token(key), 1.5, token, 0, alpha),
        );
    });
    marks(c, curve, p, gradient, token, thin);
  }
  // Words on the marks, on a halo so that a curve behind them does not cut them.
  c.textAlign = "left";
  c.textBaseline = "top";
  c.font = `600 12px ${token("ui")}`;
  c.lineWidth = 4;
  c.lineJoin = "round";
  c.strokeStyle = token("halo");
  const names: [string, number, string][] = [["value", curve.value.top, token("value")]];
  if (curve.gradient) names.push(["gradient", curve.gradient.top, token("ink2")]);
  for (const [name, top, colour] of names) {
    c.strokeText(name, LEFT + 6, top + 1);
    c.fillStyle = colour;
    c.fillText(name, LEFT + 6, top + 1);
  }
}

/** Draw a curve; with a brush pale, and in full where texels are marked. */
function brushed(
  c: CanvasRenderingContext2D,
  curve: Curve,
  layer: Layer,
  faded: ((texel: number) => boolean) | null,
  draw: (alpha: number) => void,
): void {
  if (!faded) {
    draw(1);
    return;
  }
  const half = curve.n > 1 ? (curve.x(1) - curve.x(0)) / 2 : curve.width;
  const marked = new Path2D();
  for (let i = 0; i < layer.cols; i++) {
    if (faded(i)) continue;
    const first = layer.window.col + i * layer.block[1];
    const last = Math.min(first + layer.block[1], layer.window.col + layer.window.cols) - 1;
    const left = curve.x(first) - half;
    marked.rect(left, 0, curve.x(last) + half - left, curve.height);
  }
  draw(FADED);
  c.save();
  c.clip(marked);
  draw(1);
  c.restore();
}

/** Draw in a strip only: numbers out of range leave the pane. */
function within(
  c: CanvasRenderingContext2D,
  curve: Curve,
  top: number,
  height: number,
  draw: () => void,
): void {
  c.save();
  c.beginPath();
  c.rect(0, top, curve.width, height);
  c.clip();
  draw();
  c.restore();
}

function grid(
  c: CanvasRenderingContext2D,
  curve: Curve,
  p: Pane,
  [lo, hi]: [number, number],
  n: number,
  token: Token,
): void {
  const fit = ticks(lo, hi, n);
  const marked = p.scale
    ? labels(p.scale, n)
    : fit.values.map((v): [number, string] => [v, tickText(v, fit.step)]);
  let last = Number.POSITIVE_INFINITY;
  c.font = `11px ${token("ui")}`;
  c.textAlign = "right";
  c.textBaseline = "middle";
  for (const [v, text] of marked) {
    const y = p.y(v);
    if (!(y >= p.top - 1 && y <= p.top + p.height + 1) || Math.abs(last - y) < 14) continue;
    last = y;
    c.fillStyle = token("line");
    c.fillRect(LEFT, Math.round(y), curve.width - LEFT - RIGHT, 1);
    c.fillStyle = token("ink2");
    c.fillText(text, LEFT - 6, y, LEFT - 6);
  }
}

/** A curve with gaps at what is not finite, and the band from least to greatest where a texel is a block. */
function trace(
  c: CanvasRenderingContext2D,
  curve: Curve,
  p: Pane,
  layer: Layer,
  colour: string,
  width: number,
  token: Token,
  fillTo: number | null,
  alpha: number,
): void {
  const line = new Path2D();
  const area = new Path2D();
  let run: { x: number; t: Texel }[] = [];
  const finish = (): void => {
    const first = run[0];
    const last = run[run.length - 1];
    if (!first || !last) return;
    for (const [i, { x, t }] of run.entries()) i ? line.lineTo(x, p.y(t.mean)) : line.moveTo(x, p.y(t.mean));
    if (fillTo !== null) {
      area.moveTo(first.x, p.y(fillTo));
      for (const { x, t } of run) area.lineTo(x, p.y(t.mean));
      area.lineTo(last.x, p.y(fillTo));
    } else if (!layer.exact) {
      for (const [i, { x, t }] of run.entries())
        i ? area.lineTo(x, p.y(t.maximum)) : area.moveTo(x, p.y(t.maximum));
      for (const { x, t } of [...run].reverse()) area.lineTo(x, p.y(t.minimum));
    }
    if (run.length === 1) line.arc(first.x, p.y(first.t.mean), width / 2, 0, 2 * Math.PI);
    run = [];
  };
  for (let i = 0; i < layer.cols; i++) {
    const cell = layer.cell(i);
    const t = layer.at(cell);
    if (t && Number.isFinite(t.mean)) run.push({ x: curve.x(cell.col), t });
    else finish();
  }
  finish();
  c.fillStyle = colour;
  c.globalAlpha = 0.2 * alpha;
  c.fill(area);
  c.globalAlpha = alpha;
  c.strokeStyle = colour;
  c.lineWidth = width;
  c.lineJoin = "round";
  c.lineCap = "round";
  c.stroke(line);
  // Few elements: each is a point of its own.
  if (layer.exact && layer.cols <= 40 && fillTo === null) {
    c.fillStyle = token("value");
    for (let i = 0; i < layer.cols; i++) {
      const t = layer.at({ row: 0, col: i });
      if (!t || !Number.isFinite(t.mean)) continue;
      c.beginPath();
      c.arc(curve.x(i), p.y(t.mean), 2.5, 0, 2 * Math.PI);
      c.fill();
    }
  }
  c.globalAlpha = 1;
}

function marks(
  c: CanvasRenderingContext2D,
  curve: Curve,
  p: Pane,
  layer: Layer,
  token: Token,
  thin: Thinner,
): void {
  for (const i of layer.notFinite()) {
    const x = curve.x(layer.cell(i).col);
    const y = clamp(p.y(0), p.top + 6, p.top + p.height - 6);
    if (thin.admit(x, y)) mark(c, token, worst(layer.flags[i] ?? 0), x, y, 12);
  }
}

/** The x axis and, where there is a cursor, its line and its points on both curves. */
export function drawCursor(
  canvas: HTMLCanvasElement,
  curve: Curve,
  i: number | null,
  here: { value: number; gradient: number },
  token: Token,
): void {
  const c = prepare(canvas, curve.width, curve.height);
  const bottom = curve.height - BOTTOM;
  c.font = `11px ${token("ui")}`;
  c.fillStyle = token("ink2");
  c.textAlign = "center";
  c.textBaseline = "top";
  const wanted = Math.max(1, Math.min(curve.n - 1, curve.width > 600 ? 8 : 4));
  for (const t of new Set(ticks(0, curve.n - 1, wanted).values.map(Math.round))) {
    if (i !== null && Math.abs(curve.x(t) - curve.x(i)) <= 22) continue;
    const half = c.measureText(String(t)).width / 2;
    c.fillText(String(t), clamp(curve.x(t), LEFT, curve.width - half), bottom + 6);
  }
  if (i === null) return;
  const x = Math.round(curve.x(i)) + 0.5;
  c.strokeStyle = token("ink");
  c.lineWidth = 1;
  c.globalAlpha = 0.6;
  c.beginPath();
  c.moveTo(x, 0);
  c.lineTo(x, bottom);
  c.stroke();
  c.globalAlpha = 1;
  const points: [Pane | null, number, string][] = [
    [curve.value, here.value, "value"],
    [curve.gradient, here.gradient, here.gradient > 0 ? "pos" : "neg"],
  ];
  for (const [p, v, key] of points) {
    if (!p || !Number.isFinite(v)) continue;
    c.beginPath();
    c.arc(x, p.y(v), 4.5, 0, 2 * Math.PI);
    c.fillStyle = token(key);
    c.fill();
    c.lineWidth = 2;
    c.strokeStyle = token("halo");
    c.stroke();
  }
  c.fillStyle = token("ink");
  c.font = `600 11px ${token("ui")}`;
  const half = c.measureText(String(i)).width / 2;
  c.fillText(String(i), clamp(x, half, curve.width - half), bottom + 6);
}
