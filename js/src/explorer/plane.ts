// Two axes: a heat map with contour lines and arrows downhill, or an image; the point that is looked at, and the path downhill.

import { css, linear, lutIndex } from "../lib/colormap.ts";
import { prepare } from "../lib/dom.ts";
import { ticks, tickText } from "../lib/numbers.ts";
import { tide } from "../lib/tokens.ts";
import { clamp } from "../lib/view.ts";
import { lineStyle } from "./compared.ts";
import { contour, levels } from "./contours.ts";
import type { Info, Path, PlaneData } from "./data.ts";
import { dot, extent, nearest, type Token, tickFont, ticksAcross, word } from "./drawing.ts";

/** Room for the labels at the left, at least. */
const LEFT = 34;
const BOTTOM = 22;
const BAR = 32;
const TOP = 16;
const RIGHT = 12;
/** Half map, half page, so that marks hold on it. */
const MIX = { light: 0.5, dark: 0.62 };

const encode = (v: number): number => (v <= 0.0031308 ? 12.92 * v : 1.055 * v ** (1 / 2.4) - 0.055);

export class Plane {
  data: PlaneData | null = null;
  at: [number, number] = [0, 0];
  path: Path | null = null;
  arrows = true;
  private left = LEFT;
  private size = { width: 0, height: 0 };
  private readonly texels = document.createElement("canvas");
  private lines: { strong: boolean; segments: Path2D }[] = [];
  /** Of each compared function its lines at the same levels. */
  private otherLines: Path2D[] = [];
  private shown = { lo: 0, hi: 1 };
  private made = "";

  constructor(
    readonly canvas: HTMLCanvasElement,
    private readonly info: Info,
    private readonly moved: (at: [number, number], done: boolean) => void,
    signal: AbortSignal,
  ) {
    const names = info.axes.map((a) => a.path).join(" and ");
    canvas.style.cursor = "crosshair";
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `${info.name} over ${names}; arrow keys move the point`);
    let held = false;
    const to = (e: PointerEvent, done: boolean): void => {
      const box = canvas.getBoundingClientRect();
      this.to(this.from(e.clientX - box.left, e.clientY - box.top), done);
    };
    canvas.addEventListener(
      "pointerdown",
      (e) => {
        if (e.button !== 0) return;
        held = true;
        canvas.setPointerCapture(e.pointerId);
        to(e, false);
      },
      { signal },
    );
    canvas.addEventListener("pointermove", (e) => held && to(e, false), { signal });
    canvas.addEventListener(
      "pointerup",
      (e) => {
        if (held) to(e, true);
        held = false;
      },
      { signal },
    );
    canvas.addEventListener("pointercancel", () => (held = false), { signal });
    canvas.addEventListener("keydown", (e) => this.key(e), { signal });
  }

  private key(e: KeyboardEvent): void {
    const { data } = this;
    const by = e.shiftKey ? 10 : 1;
    const step = { ArrowLeft: [-by, 0], ArrowRight: [by, 0], ArrowUp: [0, by], ArrowDown: [0, -by] }[e.key];
    if (!data || !step) return;
    e.preventDefault();
    e.stopPropagation();
    const one = (array: ArrayLike<number>, v: number, k: number): number =>
      array[clamp(nearest(array, v) + k, 0, array.length - 1)] ?? v;
    this.to([one(data.x, this.at[0], step[0] ?? 0), one(data.y, this.at[1], step[1] ?? 0)], true);
  }

  private to(at: [number, number], done: boolean): void {
    const { data } = this;
    if (!data || !at.every(Number.isFinite)) return;
    this.at = [data.x[nearest(data.x, at[0])] ?? 0, data.y[nearest(data.y, at[1])] ?? 0];
    this.moved(this.at, done);
  }

  show(data: PlaneData): void {
    this.data = data;
    this.made = "";
  }

  private ends(axis: "x" | "y"): [number, number] {
    const a = this.data?.[axis];
    return a ? [a[0] ?? 0, a[a.length - 1] ?? 1] : [0, 1];
  }

  private px(x: number): number {
    const [lo, hi] = this.ends("x");
    return this.left + ((x - lo) / (hi - lo || 1)) * this.size.width;
  }

  private py(y: number): number {
    const [lo, hi] = this.ends("y");
    return TOP + ((hi - y) / (hi - lo || 1)) * this.size.height;
  }

  private from(px: number, py: number): [number, number] {
    const [x0, x1] = this.ends("x");
    const [y0, y1] = this.ends("y");
    return [
      x0 + ((px - this.left) / this.size.width) * (x1 - x0),
      y1 - ((py - TOP) / this.size.height) * (y1 - y0),
    ];
  }

  draw(width: number, token: Token, theme: "light" | "dark"): void {
    const { data } = this;
    if (!data || width < 100) return;
    const image = data.channels > 1;
    this.left = this.room(token);
    const inner = width - this.left - RIGHT;
    const square = image ? data.y.length / data.x.length : 0.74;
    this.size = { width: inner, height: Math.round(Math.min(inner * square, 560)) };
    const { height } = this.size;
    const c = prepare(this.canvas, width, TOP + height + BOTTOM + (image ? 0 : BAR));
    this.prepareTexels(data, theme, token);
    c.imageSmoothingEnabled = !image && data.x.length > 24;
    c.imageSmoothingQuality = "high";
    c.drawImage(this.texels, this.left, TOP, inner, height);
    c.save();
    c.beginPath();
    c.rect(this.left, TOP, inner, height);
    c.clip();
    if (!image) {
      this.drawLines(c, token);
      if (this.arrows && data.arrows) this.drawArrows(c, data.arrows, token);
    }
    this.drawMissing(c, data, token);
    this.drawPath(c, token);
    c.restore();
    this.drawAxes(c, width, token);
    if (!image) this.drawBar(c, TOP + height + BOTTOM, inner, theme, token);
  }

  /** How wide the labels of the second axis are. */
  private room(token: Token): number {
    const c = this.canvas.getContext("2d");
    if (!c) return LEFT;
    tickFont(c, token);
    const { values, step } = ticks(...this.ends("y"), 6);
    return Math.max(LEFT, ...values.map((v) => Math.ceil(c.measureText(tickText(v, step)).width) + 11));
  }

  /** Paint the grid, one pixel for each point, and find the lines; kept until the numbers or the theme change. */
  private prepareTexels(data: PlaneData, theme: "light" | "dark", token: Token): void {
    const key = `${theme} ${token("halo")} ${this.size.width}`;
    if (this.made === key) return;
    this.made = key;
    const [w, h] = [data.x.length, data.y.length];
    this.texels.width = w;
    this.texels.height = h;
    const c = this.texels.getContext("2d");
    if (!c) return;
    const pixels = c.createImageData(w, h);
    const ends = extent([data.value]) ?? [0, 1];
    this.shown = { lo: ends[0], hi: ends[1] };
    const image = data.channels > 1;
    const scale = linear(ends[0], ends[1]);
    const map = tide();
    const paper = theme === "dark" ? 17 : 255;
    const mix = MIX[theme];
    for (let y = 0; y < h; y++)
      for (let x = 0; x < w; x++) {
        // The second axis grows upward.
        const from = ((h - 1 - y) * w + x) * data.channels;
        const to = (y * w + x) * 4;
        const v = data.value[from] ?? Number.NaN;
        for (let k = 0; k < 3; k++) {
          const channel = image ? (data.value[from + k] ?? 0) : 0;
          pixels.data[to + k] = image
            ? Math.round(encode(clamp(Number.isFinite(channel) ? channel : 0, 0, 1)) * 255)
            : (map[lutIndex(scale.to(v)) * 3 + k] ?? 0) * mix + paper * (1 - mix);
        }
        pixels.data[to + 3] = Number.isFinite(v) ? 255 : 40;
      }
    c.putImageData(pixels, 0, 0);
    this.lines = [];
    if (image || ends[0] === ends[1]) return;
    const round = ticks(ends[0], ends[1], 6);
    const { width, height } = this.size;
    const add = (path: Path2D, value: ArrayLike<number>, level: number): void => {
      for (const [x0, y0, x1, y1] of contour(value, w, h, level)) {
        path.moveTo(this.left + (x0 / (w - 1)) * width, TOP + height - (y0 / (h - 1)) * height);
        path.lineTo(this.left + (x1 / (w - 1)) * width, TOP + height - (y1 / (h - 1)) * height);
      }
    };
    this.otherLines = data.others.map(() => new Path2D());
    for (const level of levels(round.values, ends[0], ends[1])) {
      const segments = new Path2D();
      add(segments, data.value, level);
      const strong = Math.abs(level / round.step - Math.round(level / round.step)) < 1e-6;
      this.lines.push({ strong, segments });
      if (strong) for (const [i, path] of this.otherLines.entries()) add(path, data.others[i] ?? [], level);
    }
  }

  private drawLines(c: CanvasRenderingContext2D, token: Token): void {
    c.strokeStyle = token("ink");
    c.lineWidth = 1;
    for (const line of this.lines) {
      c.globalAlpha = line.strong ? 0.5 : 0.25;
      c.stroke(line.segments);
    }
    for (const [i, path] of this.otherLines.entries()) {
      const { colour } = lineStyle(i);
      c.globalAlpha = 0.7;
      c.strokeStyle = token("halo");
      c.lineWidth = 3.5;
      c.stroke(path);
      c.globalAlpha = 1;
      c.strokeStyle = token(colour);
      c.lineWidth = 1.75;
      c.stroke(path);
    }
    c.globalAlpha = 1;
  }

  /** Arrows where a step downhill would lead; their length is logarithmic. */
  private drawArrows(
    c: CanvasRenderingContext2D,
    field: NonNullable<PlaneData["arrows"]>,
    token: Token,
  ): void {
    const { width, height } = this.size;
    const pitch = width < 450 ? 30 : 34;
    const ends = extent([field.dx, field.dy]);
    const most = ends ? Math.max(Math.abs(ends[0]), Math.abs(ends[1])) : 0;
    if (!(most > 0)) return;
    // Of pixels: a direction on the screen, where the axes have scales of their own.
    const [x0, x1] = this.ends("x");
    const [y0, y1] = this.ends("y");
    const path = new Path2D();
    // Every so many points of the grid, so that the arrows stand at equal distances.
    const stride = (n: number, room: number): number => Math.max(1, Math.ceil((pitch * (n - 1)) / room));
    const [sx, sy] = [stride(field.x.length, width), stride(field.y.length, height)];
    for (let row = sy >> 1; row < field.y.length; row += sy)
      for (let column = sx >> 1; column < field.x.length; column += sx) {
        const i = row * field.x.length + column;
        const [gx, gy] = [field.dx[i] ?? 0, field.dy[i] ?? 0];
        const size = Math.hypot(gx, gy);
        if (!(size > most * 1e-4)) continue;
        const [toX, toY] = [(-gx * width) / (x1 - x0), (gy * height) / (y1 - y0)];
        const long = clamp(5 + 5 * Math.log10(1 + (99 * size) / most), 4, 15) / (Math.hypot(toX, toY) || 1);
        const [ux, uy] = [toX * long, toY * long];
        const [px, py] = [this.px(field.x[column] ?? 0), this.py(field.y[row] ?? 0)];
        // Whole arrows only.
        if (px < this.left + 10 || px > this.left + width - 10 || py < TOP + 10 || py > TOP + height - 10)
          continue;
        const angle = Math.atan2(uy, ux);
        path.moveTo(px - ux / 2, py - uy / 2);
        path.lineTo(px + ux / 2, py + uy / 2);
        for (const turn of [2.6, -2.6]) {
          path.moveTo(px + ux / 2, py + uy / 2);
          path.lineTo(px + ux / 2 + 4 * Math.cos(angle + turn), py + uy / 2 + 4 * Math.sin(angle + turn));
        }
      }
    for (const [lineWidth, colour, alpha] of [
      [3, "halo", 0.5],
      [1, "ink", 0.6],
    ] as const) {
      c.lineWidth = lineWidth;
      c.strokeStyle = token(colour);
      c.globalAlpha = alpha;
      c.stroke(path);
    }
    c.globalAlpha = 1;
  }

  /** × over what is NaN, ∧ and ∨ over the infinities, at most one in 12 pixels. */
  private drawMissing(c: CanvasRenderingContext2D, data: PlaneData, token: Token): void {
    const taken = new Set<string>();
    for (let y = 0; y < data.y.length; y++)
      for (let x = 0; x < data.x.length; x++) {
        const v = data.value[(y * data.x.length + x) * data.channels] ?? 0;
        if (Number.isFinite(v)) continue;
        const [px, py] = [this.px(data.x[x] ?? 0), this.py(data.y[y] ?? 0)];
        const key = `${Math.floor(px / 12)} ${Math.floor(py / 12)}`;
        if (taken.has(key)) continue;
        taken.add(key);
        const nan = Number.isNaN(v);
        word(c, nan ? "×" : v > 0 ? "∧" : "∨", px, py, token(nan ? "nan" : "inf"), token, "center");
      }
  }

  private drawPath(c: CanvasRenderingContext2D, token: Token): void {
    const points = this.path && this.path.points.length > 1 ? this.path.points : [this.at];
    const screen = points.map(([x, y]) => [this.px(x), this.py(y)] as const);
    const [first, last] = [screen[0], screen[screen.length - 1]];
    if (!first || !last) return;
    c.lineJoin = "round";
    for (const [width, key] of [
      [5.5, "halo"],
      [2.25, "ink"],
    ] as const) {
      c.lineWidth = width;
      c.strokeStyle = token(key);
      c.beginPath();
      for (const [i, [x, y]] of screen.entries()) i ? c.lineTo(x, y) : c.moveTo(x, y);
      c.stroke();
    }
    c.fillStyle = token("ink");
    let near = first;
    for (const point of screen.slice(1, -1)) {
      if (Math.hypot(point[0] - near[0], point[1] - near[1]) < 5) continue;
      near = point;
      c.beginPath();
      c.arc(point[0], point[1], 2.8, 0, 7);
      c.fill();
    }
    dot(c, first[0], first[1], 5, token("halo"), token("ink"), 2);
    if (screen.length < 2) return;
    dot(c, last[0], last[1], 6, token("ink"), token("halo"), 2);
    word(c, "start", first[0] + 10, first[1] - 2, token("ink"), token);
    const end =
      last[0] > this.left + this.size.width - 70 ? ([-10, "right"] as const) : ([10, "left"] as const);
    word(c, `step ${screen.length - 1}`, last[0] + end[0], last[1] + 12, token("ink"), token, end[1]);
  }

  private drawAxes(c: CanvasRenderingContext2D, width: number, token: Token): void {
    const { height } = this.size;
    const [x0, x1] = this.ends("x");
    const [y0, y1] = this.ends("y");
    const across = ticks(x0, x1, Math.max(2, Math.floor(this.size.width / 90)));
    const names = this.info.axes.map((axis) => axis.path);
    tickFont(c, token);
    // The names stand outside like the labels: one over the field, one at the end of the labels below, which give way to it.
    c.textBaseline = "middle";
    c.textAlign = "left";
    c.fillText(names[1] ?? "", 0, 7);
    c.textBaseline = "top";
    c.textAlign = "right";
    c.fillText(names[0] ?? "", width, TOP + height + 7);
    const end = width - c.measureText(names[0] ?? "").width - 8;
    ticksAcross(c, across, (v) => this.px(v), TOP + height, [this.left, end - 12], token);
    const down = ticks(y0, y1, Math.max(2, Math.floor(height / 80)));
    tickFont(c, token);
    c.textAlign = "right";
    c.textBaseline = "middle";
    for (const v of down.values) {
      const y = this.py(v);
      c.fillRect(this.left - 3, Math.round(y), 3, 1);
      if (y > TOP + 5 && y < TOP + height - 5) c.fillText(tickText(v, down.step), this.left - 7, y);
    }
  }

  /** The colours, and what they stand for. */
  private drawBar(
    c: CanvasRenderingContext2D,
    top: number,
    width: number,
    theme: "light" | "dark",
    token: Token,
  ): void {
    const { lo, hi } = this.shown;
    const map = tide();
    const gradient = c.createLinearGradient(this.left, 0, this.left + width, 0);
    for (let i = 0; i <= 32; i++) gradient.addColorStop(i / 32, css(map, Math.round((i / 32) * 255)));
    c.globalAlpha = MIX[theme];
    c.fillStyle = gradient;
    c.fillRect(this.left, top + 2, width, 7);
    c.globalAlpha = 1;
    const scale = ticks(lo, hi, 5);
    const place = (v: number): number => this.left + (hi > lo ? (v - lo) / (hi - lo) : 0.5) * width;
    tickFont(c, token);
    c.textAlign = "right";
    c.textBaseline = "top";
    const name = this.info.name.split(".").pop() ?? "";
    const free = this.left + width - c.measureText(name).width - 16;
    c.fillText(name, this.left + width, top + 16);
    c.textAlign = "center";
    for (const v of scale.values) {
      const x = place(v);
      c.fillRect(Math.round(x), top + 9, 1, 3);
      const label = tickText(v, scale.step);
      if (x + c.measureText(label).width / 2 < free) c.fillText(label, x, top + 16);
    }
  }
}
