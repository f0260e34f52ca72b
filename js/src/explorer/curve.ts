// One axis: the value as a curve with its tangent, and under it a strip for each gradient, all on one x.

import { prepare } from "../lib/dom.ts";
import { ticks, tickText } from "../lib/numbers.ts";
import { clamp } from "../lib/view.ts";
import { styleOf } from "./compared.ts";
import type { Axis, CurveData } from "./data.ts";
import { dot, extent, nearest, type Token, tickFont, ticksAcross, word } from "./drawing.ts";

const LEFT = 44;
const RIGHT = 10;
/** Room for the readout over the curve. */
const HEAD = 18;
const TOP = 206;
const STRIP = 50;
const GAP = 14;
const BOTTOM = 20;
const PAD = 0.1;

/** One point of the curve: what the readout says. */
export interface Point {
  index: number;
  x: number;
  value: number;
  slope: number | undefined;
}

interface Strip {
  path: string;
  top: number;
  gradient: ArrayLike<number>;
  y(v: number): number;
}

export class CurvePlot {
  private data: CurveData | null = null;
  private index = 0;
  private width = 0;
  private frame = { lo: 0, hi: 1, y: (_: number): number => 0 };

  constructor(
    readonly canvas: HTMLCanvasElement,
    private readonly name: string,
    private readonly axis: Axis,
    private readonly moved: (at: number) => void,
    signal: AbortSignal,
  ) {
    canvas.style.cursor = "ew-resize";
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "slider");
    canvas.setAttribute("aria-label", `${axis.path}, the point that is looked at`);
    let held = false;
    const at = (e: PointerEvent): void => {
      this.to(this.from(e.clientX - canvas.getBoundingClientRect().left));
    };
    canvas.addEventListener(
      "pointerdown",
      (e) => {
        if (e.button !== 0) return;
        held = true;
        canvas.setPointerCapture(e.pointerId);
        at(e);
      },
      { signal },
    );
    canvas.addEventListener("pointermove", (e) => held && at(e), { signal });
    for (const type of ["pointerup", "pointercancel"] as const)
      canvas.addEventListener(type, () => (held = false), { signal });
    canvas.addEventListener("keydown", (e) => this.key(e), { signal });
  }

  get point(): Point | null {
    const { data, index } = this;
    if (!data) return null;
    const get = (a: ArrayLike<number> | undefined): number => a?.[index] ?? Number.NaN;
    const slope = data.gradients.get(this.axis.path);
    return { index, x: get(data.x), value: get(data.value), slope: slope && get(slope) };
  }

  /** The gradient with respect to `path` at the point. */
  gradient(path: string): number | undefined {
    return this.data?.gradients.get(path)?.[this.index];
  }

  /** Values of the compared functions at the point. */
  get compared(): number[] {
    return (this.data?.others ?? []).map((v) => v[this.index] ?? Number.NaN);
  }

  /** The mean over the curve of a gradient's size. */
  mean(path: string): number {
    const g = this.data?.gradients.get(path);
    if (!g) return Number.NaN;
    let sum = 0;
    for (const v of g) sum += Math.abs(v);
    return sum / g.length;
  }

  show(data: CurveData, at: number): void {
    this.data = data;
    this.index = nearest(data.x, at);
  }

  /** Look at the point nearest to a number. */
  to(x: number): void {
    const { data } = this;
    if (!data || !Number.isFinite(x)) return;
    const index = nearest(data.x, x);
    if (index === this.index) return;
    this.index = index;
    this.moved(data.x[index] ?? 0);
  }

  private key(e: KeyboardEvent): void {
    const { data } = this;
    if (!data) return;
    const last = data.x.length - 1;
    const page = Math.max(1, Math.round(last / 10));
    const by = e.shiftKey ? 10 : 1;
    const next = {
      ArrowLeft: this.index - by,
      ArrowDown: this.index - by,
      ArrowRight: this.index + by,
      ArrowUp: this.index + by,
      PageDown: this.index - page,
      PageUp: this.index + page,
      Home: 0,
      End: last,
    }[e.key];
    if (next === undefined) return;
    e.preventDefault();
    e.stopPropagation();
    this.to(data.x[clamp(next, 0, last)] ?? 0);
  }

  private place(x: number): number {
    const { lo, hi } = this.frame;
    return LEFT + ((x - lo) / (hi - lo || 1)) * (this.width - LEFT - RIGHT);
  }

  private from(px: number): number {
    const { lo, hi } = this.frame;
    return lo + ((px - LEFT) / (this.width - LEFT - RIGHT)) * (hi - lo);
  }

  draw(width: number, shown: string[], token: Token): void {
    const { data } = this;
    if (!data || width < 100) return;
    this.width = width;
    const strips = shown.filter((path) => data.gradients.has(path) || data.measured.has(path));
    const height = TOP + strips.length * (STRIP + GAP) + BOTTOM;
    const c = prepare(this.canvas, width, height);
    this.frame = { ...this.scale(data), lo: data.x[0] ?? 0, hi: data.x[data.x.length - 1] ?? 1 };
    this.drawValue(c, data, token);
    const drawn = strips.map((path, i) =>
      this.drawStrip(c, data, path, TOP + GAP + i * (STRIP + GAP), token),
    );
    this.drawPoint(c, drawn, height, token);
    const right = width - RIGHT;
    const across = ticks(this.frame.lo, this.frame.hi, Math.max(2, Math.floor((width - LEFT) / 90)));
    ticksAcross(c, across, (v) => this.place(v), height - BOTTOM, [LEFT, right], token);
    // Where it is narrow the readout has the place.
    if (width >= 470 && !data.others.length)
      word(c, `${this.name}(${this.axis.path})`, LEFT + 6, 10, token("value"), token);
  }

  /** The values that are shown: all of the function's own, and of the others what is not further off than these span. */
  private span(data: CurveData): [number, number] {
    const all = extent([data.value, ...data.others]);
    const own = extent([data.value]);
    if (!all || !own || own[0] === own[1]) return all ?? [-1, 1];
    const room = own[1] - own[0];
    return [Math.max(all[0], own[0] - room), Math.min(all[1], own[1] + room)];
  }

  private scale(data: CurveData): { y(v: number): number } {
    let [lo, hi] = this.span(data);
    // Zero is shown where it is near.
    if (lo > 0 && lo < (hi - lo) / 2) lo = 0;
    if (hi < 0 && -hi < (hi - lo) / 2) hi = 0;
    if (lo === hi) {
      const room = Math.abs(lo) || 1;
      [lo, hi] = [lo - room / 2, hi + room / 2];
    }
    // Halves, so that the span of the largest numbers is finite.
    const half = (hi / 2 - lo / 2) * (1 + 2 * PAD);
    const middle = hi / 2 + lo / 2;
    return { y: (v) => HEAD + (TOP - HEAD - 4) * (0.5 - (v / 2 - middle / 2) / half) };
  }

  private drawValue(c: CanvasRenderingContext2D, data: CurveData, token: Token): void {
    const { y } = this.frame;
    const inner = this.width - LEFT - RIGHT;
    const found = this.span(data);
    const scale = ticks(Math.min(found[0], 0), Math.max(found[1], 0), 4);
    for (const v of scale.values.length > 1 ? scale.values : ticks(found[0], found[1], 4).values) {
      const at = y(v);
      if (at < HEAD || at > TOP - 2) continue;
      c.fillStyle = token("line");
      c.fillRect(LEFT, Math.round(at), inner, 1);
      tickFont(c, token);
      c.textAlign = "right";
      c.textBaseline = "middle";
      c.fillText(tickText(v, scale.step), LEFT - 7, at);
    }
    c.save();
    c.beginPath();
    c.rect(LEFT - 1, HEAD - 2, inner + 2, TOP - HEAD + 2);
    c.clip();
    this.trace(c, data.x, data.value, y, token("value"), 2);
    // Over it, so that the dashes are seen where both agree.
    for (const [i, other] of data.others.entries()) {
      const { colour, dash } = styleOf(i);
      c.setLineDash(dash);
      this.trace(c, data.x, other, y, token(colour), 1.5);
    }
    c.setLineDash([]);
    c.restore();
    this.marks(c, data, token);
  }

  private trace(
    c: CanvasRenderingContext2D,
    x: ArrayLike<number>,
    v: ArrayLike<number>,
    y: (v: number) => number,
    colour: string,
    width: number,
  ): void {
    c.strokeStyle = colour;
    c.lineWidth = width;
    c.lineJoin = "round";
    c.beginPath();
    let drawing = false;
    for (let i = 0; i < x.length; i++) {
      const value = v[i] ?? Number.NaN;
      // What is not finite is a gap.
      if (Number.isFinite(value)) {
        const [px, py] = [this.place(x[i] ?? 0), clamp(y(value), -1e4, 1e4)];
        if (drawing) c.lineTo(px, py);
        else c.moveTo(px, py);
      }
      drawing = Number.isFinite(value);
    }
    c.stroke();
  }

  /** × where the value is NaN, ∧ and ∨ where it is infinite, at most one in 9 pixels. */
  private marks(c: CanvasRenderingContext2D, data: CurveData, token: Token): void {
    // NaN stands below, the infinities elsewhere: each has its own room.
    const free = new Map<number, number>();
    for (let i = 0; i < data.x.length; i++) {
      const v = data.value[i] ?? 0;
      if (Number.isFinite(v)) continue;
      const px = this.place(data.x[i] ?? 0);
      const row = Number.isNaN(v) ? 0 : Math.sign(v);
      if (px < (free.get(row) ?? px)) continue;
      free.set(row, px + 9);
      const py = Number.isNaN(v) ? TOP - 8 : v > 0 ? 24 : TOP - 8;
      const up = v > 0 ? -1 : 1;
      c.beginPath();
      if (Number.isNaN(v)) {
        c.moveTo(px - 3.5, py - 3.5);
        c.lineTo(px + 3.5, py + 3.5);
        c.moveTo(px + 3.5, py - 3.5);
        c.lineTo(px - 3.5, py + 3.5);
      } else {
        c.moveTo(px - 3.5, py - 2 * up);
        c.lineTo(px, py + 2 * up);
        c.lineTo(px + 3.5, py - 2 * up);
      }
      c.lineWidth = 4;
      c.strokeStyle = token("halo");
      c.stroke();
      c.lineWidth = 2;
      c.strokeStyle = token(Number.isNaN(v) ? "nan" : "inf");
      c.stroke();
    }
  }

  private drawStrip(
    c: CanvasRenderingContext2D,
    data: CurveData,
    path: string,
    top: number,
    token: Token,
  ): Strip {
    const gradient = data.gradients.get(path) ?? new Float32Array(data.x.length).fill(Number.NaN);
    const measured = data.measured.get(path);
    const ends = extent([gradient, ...(measured && !data.gradients.has(path) ? [measured.value] : [])]);
    const most = ends ? Math.max(Math.abs(ends[0]), Math.abs(ends[1])) : 0;
    const limit = (most || 1) * 1.12;
    const y = (v: number): number => top + STRIP / 2 - (v / limit) * (STRIP / 2);
    const zero = y(0);
    const [left, right] = [this.place(data.x[0] ?? 0), this.place(data.x[data.x.length - 1] ?? 0)];
    for (const [key, from, high] of [
      ["pos", top - 2, zero - top + 2],
      ["neg", zero, STRIP / 2 + 2],
    ] as const) {
      c.save();
      c.beginPath();
      c.rect(LEFT - 1, from, this.width - LEFT - RIGHT + 2, high);
      c.clip();
      c.beginPath();
      c.moveTo(left, zero);
      for (let i = 0; i < data.x.length; i++) {
        const v = gradient[i] ?? 0;
        c.lineTo(this.place(data.x[i] ?? 0), Number.isFinite(v) ? y(v) : zero);
      }
      c.lineTo(right, zero);
      c.fillStyle = token(key);
      c.globalAlpha = 0.17;
      c.fill();
      c.globalAlpha = 1;
      this.trace(c, data.x, gradient, y, token(key), 1.5);
      c.restore();
    }
    c.fillStyle = token("edge");
    c.fillRect(LEFT, Math.round(zero), this.width - LEFT - RIGHT, 1);
    tickFont(c, token);
    c.textAlign = "right";
    c.textBaseline = "middle";
    const scale = ticks(0, most || 1, 1.2);
    const tick = scale.values[scale.values.length - 1] || most || 1;
    for (const v of [tick, -tick])
      c.fillText(tickText(v, scale.step), LEFT - 7, clamp(y(v), top + 5, top + STRIP - 5));
    if (measured) this.drawMeasured(c, data.x, measured, y, top, token);
    word(c, `∂${this.name}/∂${path}`, LEFT + 6, top - 3, token("ink2"), token);
    return { path, top, gradient, y };
  }

  /** Hollow dots of central differences, one in 16 pixels; the worst of those that are off is drawn in any case. */
  private drawMeasured(
    c: CanvasRenderingContext2D,
    x: ArrayLike<number>,
    measured: { value: ArrayLike<number>; off: ArrayLike<number> },
    y: (v: number) => number,
    top: number,
    token: Token,
  ): void {
    let free = LEFT;
    for (let i = 0; i < x.length; i++) {
      const v = measured.value[i] ?? Number.NaN;
      const px = this.place(x[i] ?? 0);
      const off = (measured.off[i] ?? 0) > 0;
      if (!Number.isFinite(v) || px < free - (off ? 10 : 0)) continue;
      free = px + 16;
      dot(c, px, clamp(y(v), top - 4, top + STRIP + 4), 2.2, token("halo"), token(off ? "err" : "ink2"), 1);
    }
  }

  private drawPoint(c: CanvasRenderingContext2D, strips: Strip[], height: number, token: Token): void {
    const { point } = this;
    if (!point) return;
    const px = this.place(point.x);
    const py = this.frame.y(point.value);
    if (point.slope !== undefined && Number.isFinite(point.slope) && Number.isFinite(point.value)) {
      // 92 pixels to each side at most, whatever the slope.
      const dx = this.place(point.x + (this.frame.hi - this.frame.lo)) - px;
      const dy = this.frame.y(point.value + point.slope * (this.frame.hi - this.frame.lo)) - py;
      const size = Math.hypot(dx, dy) || 1;
      const length = Math.min(92, this.width * 0.2);
      c.save();
      c.beginPath();
      c.rect(LEFT, 0, this.width - LEFT - RIGHT, TOP);
      c.clip();
      c.beginPath();
      c.moveTo(px - (dx / size) * length, py - (dy / size) * length);
      c.lineTo(px + (dx / size) * length, py + (dy / size) * length);
      c.strokeStyle = token(point.slope < 0 ? "neg" : "pos");
      c.lineWidth = 1.5;
      c.stroke();
      c.restore();
    }
    c.globalAlpha = 0.55;
    c.fillStyle = token("ink");
    c.fillRect(Math.round(px), 20, 1, height - BOTTOM - 20);
    c.globalAlpha = 1;
    for (const strip of strips) {
      const v = strip.gradient[point.index] ?? Number.NaN;
      if (Number.isFinite(v)) dot(c, px, strip.y(v), 4, token(v < 0 ? "neg" : "pos"), token("halo"), 2);
    }
    if (Number.isFinite(point.value)) dot(c, px, py, 6, token("halo"), token("value"), 2.5);
  }
}
