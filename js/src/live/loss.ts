// The loss: every step thin, its running mean on top, the last number beside its point; the run before in grey.

import uPlot from "uplot";
import { figures, count as grouped, tickText } from "../lib/numbers.ts";
import { type Frame, stepX } from "./axis.ts";
import { type Curve, smooth } from "./curve.ts";

const HEIGHT = 202;
const AXIS = 26;

export interface LossLook {
  curve: Curve;
  before: Curve | null;
  frame: Frame;
  log: boolean;
  /** Where a kept state is looked at, or a run stopped. */
  rule: number | null;
  bad: number | null;
  colour(name: string): string;
}

export class LossPlot {
  private plot: uPlot | null = null;
  private key = "";
  private look: LossLook | null = null;

  constructor(
    private readonly el: HTMLElement,
    /** The step under the pointer and its loss; null when the pointer has left. */
    private readonly hovered: (at: { step: number; loss: number } | null) => void,
  ) {}

  draw(look: LossLook): void {
    this.look = look;
    const { curve, frame, log } = look;
    // What makes another plot: uPlot fixes its scales and axes when it is made.
    const key = [frame.left, log, look.colour("ink2"), look.colour("halo")].join();
    const mean = smooth(curve.y, log);
    const raw = curve.y.map((v) => (Number.isFinite(v) && (!log || v > 0) ? v : null));
    const data: uPlot.AlignedData = [curve.x, raw, mean];
    if (!this.plot || key !== this.key) {
      this.plot?.destroy();
      this.key = key;
      this.plot = new uPlot(this.options(look), data, this.el);
    } else {
      if (this.plot.width !== frame.width) this.plot.setSize({ width: frame.width, height: HEIGHT });
      this.plot.setData(data);
    }
  }

  destroy(): void {
    this.plot?.destroy();
    this.plot = null;
  }

  private options(look: LossLook): uPlot.Options {
    const { colour, frame, log } = look;
    const font = `11px ${colour("ui") || "system-ui, sans-serif"}`;
    const axis = { stroke: colour("ink2"), font, ticks: { stroke: colour("ink2"), width: 1, size: 4 } };
    return {
      width: frame.width,
      height: HEIGHT,
      padding: [8, frame.right, 0, 0],
      legend: { show: false },
      cursor: {
        drag: { x: false, y: false, setScale: false },
        points: { show: false },
        y: false,
      },
      scales: {
        x: { time: false, range: () => [0, this.look?.frame.last ?? 1] },
        y: {
          distr: log ? 3 : 1,
          range: (_u, lo, hi) => span(lo, hi, log),
        },
      },
      axes: [
        {
          ...axis,
          size: AXIS,
          gap: 4,
          grid: { show: false },
          values: (_u, found) => found.map((v) => grouped(v)),
          space: 90,
        },
        {
          ...axis,
          size: frame.left,
          gap: 6,
          ticks: { show: false },
          grid: { stroke: colour("line"), width: 1 },
          // By itself uPlot labels powers of ten alone.
          filter: (_u: uPlot, found: number[]) => found,
          splits: log ? (_u, _i, lo, hi) => logTicks(lo, hi) : null,
          values: (_u, found) => {
            const step = Math.abs((found[1] ?? 1) - (found[0] ?? 0));
            return found.map((v) => (v === null ? "" : log ? logText(v) : tickText(v, step)));
          },
          space: 30,
        } as uPlot.Axis,
      ],
      series: [
        {},
        { stroke: colour("value"), width: 1, alpha: 0.35, points: { show: false } },
        { stroke: colour("value"), width: 2, points: { show: false } },
      ],
      hooks: {
        drawClear: [(u) => this.under(u)],
        draw: [(u) => this.over(u)],
        setCursor: [
          (u) => {
            const i = u.cursor.idx;
            const at = this.look?.curve;
            if (i === null || i === undefined || !at || (u.cursor.left ?? -1) < 0) this.hovered(null);
            else this.hovered({ step: at.x[i] ?? 0, loss: at.y[i] ?? Number.NaN });
          },
        ],
      },
    } as uPlot.Options;
  }

  /** The curve of the run before. */
  private under(u: uPlot): void {
    const before = this.look?.before;
    if (!before?.length) return;
    const { ctx } = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
    ctx.clip();
    ctx.strokeStyle = this.look?.colour("ink3") ?? "";
    ctx.globalAlpha = 0.5;
    ctx.lineWidth = uPlot.pxRatio;
    ctx.beginPath();
    let on = false;
    for (const [i, x] of before.x.entries()) {
      const y = before.y[i] ?? Number.NaN;
      if (!Number.isFinite(y) || (this.look?.log && y <= 0)) {
        on = false;
        continue;
      }
      const px = u.valToPos(x, "x", true);
      const py = u.valToPos(y, "y", true);
      if (on) ctx.lineTo(px, py);
      else ctx.moveTo(px, py);
      on = true;
    }
    ctx.stroke();
    ctx.restore();
  }

  /** The last point with its number, and where the run met what is not finite. */
  private over(u: uPlot): void {
    const look = this.look;
    if (!look) return;
    const { ctx } = u;
    const r = uPlot.pxRatio;
    const { curve, colour } = look;
    ctx.save();
    for (const [at, ink] of [
      [look.rule, "ink"],
      [look.bad, "nan"],
    ] as const) {
      if (at === null) continue;
      ctx.fillStyle = colour(ink);
      ctx.fillRect(Math.round(stepX(look.frame, at) * r), u.bbox.top, Math.max(1, r), u.bbox.height);
    }
    if (look.bad !== null) cross(ctx, stepX(look.frame, look.bad) * r, u.bbox.top + 10 * r, 6 * r, colour);
    let i = curve.length - 1;
    while (i >= 0 && !(Number.isFinite(curve.y[i]) && (!look.log || (curve.y[i] ?? 0) > 0))) i--;
    if (i >= 0) {
      const x = u.valToPos(curve.x[i] ?? 0, "x", true);
      const y = u.valToPos(curve.y[i] ?? 0, "y", true);
      ctx.beginPath();
      ctx.arc(x, y, 4 * r, 0, 7);
      ctx.fillStyle = colour("value");
      ctx.fill();
      ctx.lineWidth = 2 * r;
      ctx.strokeStyle = colour("halo");
      ctx.stroke();
      const text = figures(curve.y[i] ?? 0, 3);
      ctx.font = `600 ${12 * r}px ${colour("ui") || "sans-serif"}`;
      const right = x + (ctx.measureText(text).width + 12 * r) < u.bbox.left + u.bbox.width;
      ctx.textAlign = right ? "left" : "right";
      ctx.textBaseline = "middle";
      ctx.lineWidth = 4 * r;
      const tx = x + (right ? 9 : -9) * r;
      const ty = right ? y : this.clear(u, i, x - ctx.measureText(text).width - 12 * r);
      ctx.strokeText(text, tx, ty);
      ctx.fillText(text, tx, ty);
    }
    ctx.restore();
  }

  /** Where the number beside the last point stands clear of the curve from `left` on: above it, or below where there is no room. */
  private clear(u: uPlot, last: number, left: number): number {
    const { curve, log } = this.look as LossLook;
    const r = uPlot.pxRatio;
    let top = Infinity;
    let bottom = -Infinity;
    for (let i = last; i >= 0; i--) {
      const value = curve.y[i] ?? NaN;
      if (Number.isFinite(value) && (!log || value > 0)) {
        const y = u.valToPos(value, "y", true);
        top = Math.min(top, y);
        bottom = Math.max(bottom, y);
      }
      if (u.valToPos(curve.x[i] ?? 0, "x", true) < left) break;
    }
    const above = top - 13 * r;
    const below = bottom + 15 * r;
    if (above >= u.bbox.top + 8 * r) return above;
    return below <= u.bbox.top + u.bbox.height - 8 * r ? below : u.bbox.top + 8 * r;
  }
}

/** The mark of NaN. */
export function cross(
  c: CanvasRenderingContext2D,
  x: number,
  y: number,
  half: number,
  colour: (name: string) => string,
): void {
  for (const [ink, width] of [
    ["halo", half * 0.9],
    ["nan", half * 0.36],
  ] as const) {
    c.strokeStyle = colour(ink);
    c.lineWidth = width;
    c.lineCap = "round";
    c.beginPath();
    c.moveTo(x - half, y - half);
    c.lineTo(x + half, y + half);
    c.moveTo(x + half, y - half);
    c.lineTo(x - half, y + half);
    c.stroke();
  }
}

/** The range of the y scale: with room above and below, and some even where all numbers are the same. */
export function span(lo: number | null, hi: number | null, log: boolean): [number, number] {
  if (lo === null || hi === null || !Number.isFinite(lo) || !Number.isFinite(hi))
    return log ? [0.1, 1] : [0, 1];
  if (log) {
    const [a, b] = [Math.log10(lo), Math.log10(hi)];
    const pad = Math.max((b - a) * 0.06, 0.08);
    return [10 ** (a - pad), 10 ** (b + pad)];
  }
  const pad = (hi - lo) * 0.06 || Math.abs(hi) * 0.5 || 1;
  return [lo - pad, hi + pad];
}

/** Four to seven labelled positions: 1, 2 and 5 times powers of ten, powers alone where these are many. */
export function logTicks(lo: number, hi: number): number[] {
  const first = Math.floor(Math.log10(lo));
  const last = Math.ceil(Math.log10(hi));
  const of = (factors: number[], every: number): number[] => {
    const out: number[] = [];
    for (let e = Math.ceil(first / every) * every; e <= last; e += every)
      for (const m of factors) {
        const v = m * 10 ** e;
        if (v >= lo && v <= hi) out.push(v);
      }
    return out;
  };
  for (const factors of [[1, 1.5, 2, 3, 4, 5, 6, 8], [1, 2, 5], [1, 3], [1]]) {
    const found = of(factors, 1);
    if (found.length <= 7) return found;
  }
  return of([1], Math.ceil((last - first) / 6));
}

function logText(v: number): string {
  return v >= 1e-3 && v < 1e4 ? String(Number(v.toPrecision(2))) : tickText(Number(v.toPrecision(2)), v);
}
