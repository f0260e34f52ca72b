// One two-dimensional picture on two canvases: the data below (drawn when data, window or theme change) and the axes with
// the crosshair above (drawn with every move of the pointer).

import { type Lut, luminance, lutIndex, type Scale } from "../lib/colormap.ts";
import { prepare } from "../lib/dom.ts";
import { figures, shortest32, ticks } from "../lib/numbers.ts";
import { type Cell, centre, clamp, type Geometry, geometry, type Size, type Window } from "../lib/view.ts";
import { type Layer, worst } from "./data.ts";
import { mark, Thinner } from "./marks.ts";
import { type How, texels } from "./texels.ts";

export interface Look {
  token(name: string): string;
  map: Lut;
  scale: Scale;
  /** Figures of the numbers inside cells. */
  sig: number;
  /** Elements are whole numbers, written in full. */
  whole: boolean;
  /** Paint the channels as colours, where the layer has them. */
  image: boolean;
}

export interface Frame {
  /** The area of the data, right of the row labels and above the column labels. */
  left: number;
  width: number;
  height: number;
  window: Window;
  size: Size;
}

const BOTTOM = 18;
const NUMBERS_FROM = 46;
const OUTLINE_FROM = 20;

export const frameGeometry = (f: Frame): Geometry => geometry(f.window, f.width, f.height);

/** A second picture of the same cells, through which the first one is seen where it is near zero. */
export interface Over {
  layers: readonly Layer[];
  look: Look;
}

/** Draw the data: the coarse layers first, finer ones over them. */
export function drawData(
  canvas: HTMLCanvasElement,
  f: Frame,
  layers: readonly Layer[],
  look: Look,
  faded: (depth: number) => ((texel: number) => boolean) | null,
  over: Over | null = null,
): void {
  const c = prepare(canvas, f.left + f.width, f.height + BOTTOM);
  const g = frameGeometry(f);
  c.save();
  c.beginPath();
  c.rect(f.left, 0, f.width, f.height);
  c.clip();
  c.translate(f.left, 0);
  c.imageSmoothingEnabled = false;
  for (const [depth, layer] of layers.entries()) paint(c, layer, f, g, look, { faded: faded(depth) });
  for (const layer of over?.layers.slice(-1) ?? [])
    if (over) paint(c, layer, f, g, over.look, { clear: true });
  const finest = layers[layers.length - 1];
  if (!over && finest?.exact && !look.image && g.dx >= NUMBERS_FROM && g.dy >= 16)
    numbers(c, finest, f, g, look);
  const thin = new Thinner();
  for (const [depth, layer] of layers.entries()) marks(c, layer, layers.slice(depth + 1), f, g, look, thin);
  for (const layer of over?.layers.slice(-1) ?? []) marks(c, layer, [], f, g, look, thin);
  c.restore();
}

function paint(c: CanvasRenderingContext2D, layer: Layer, f: Frame, g: Geometry, look: Look, how: How): void {
  if (layer.rows === 0 || layer.cols === 0) return;
  const { map, scale, image } = look;
  const [wash, paper] = [rgb(c, look.token("wash2")), rgb(c, look.token("halo"))];
  const w = layer.window;
  const [br, bc] = layer.block;
  // The last block may reach over the edge of the window it covers: only its part inside is drawn.
  c.drawImage(
    texels(layer, { map, scale, image, wash, paper }, how),
    0,
    0,
    w.cols / bc,
    w.rows / br,
    (w.col - f.window.col) * g.dx,
    (w.row - f.window.row) * g.dy,
    w.cols * g.dx,
    w.rows * g.dy,
  );
}

/** Any CSS colour as bytes: the canvas is the only parser that knows them all. */
export function rgb(c: CanvasRenderingContext2D, colour: string): [number, number, number] {
  const before = c.fillStyle;
  c.fillStyle = "#808080";
  c.fillStyle = colour;
  const text = String(c.fillStyle);
  c.fillStyle = before;
  const n = Number.parseInt(text.slice(1, 7), 16);
  return text.startsWith("#") ? [n >> 16, (n >> 8) & 255, n & 255] : [128, 128, 128];
}

function* visible(layer: Layer, f: Frame): Generator<number> {
  const { row, col } = layer.window;
  const [br, bc] = layer.block;
  const r0 = clamp(Math.floor((f.window.row - row) / br), 0, layer.rows);
  const r1 = clamp(Math.ceil((f.window.row + f.window.rows - row) / br), 0, layer.rows);
  const c0 = clamp(Math.floor((f.window.col - col) / bc), 0, layer.cols);
  const c1 = clamp(Math.ceil((f.window.col + f.window.cols - col) / bc), 0, layer.cols);
  for (let r = r0; r < r1; r++) for (let k = c0; k < c1; k++) yield r * layer.cols + k;
}

/** Marks of one layer, without those that a finer layer shows more exactly. */
function marks(
  c: CanvasRenderingContext2D,
  layer: Layer,
  over: readonly Layer[],
  f: Frame,
  g: Geometry,
  look: Look,
  thin: Thinner,
): void {
  if (layer.finite) return;
  const cell = Math.min(layer.block[0] * g.dy, layer.block[1] * g.dx);
  for (const i of visible(layer, f)) {
    const flags = layer.flags[i] ?? 0;
    const at = layer.cell(i);
    if (flags === 0 || over.some((finer) => finer.at(at))) continue;
    const { x, y } = centre(at, f.window, g);
    if (thin.admit(x, y)) mark(c, look.token, worst(flags), x, y, cell);
  }
}

function numbers(c: CanvasRenderingContext2D, layer: Layer, f: Frame, g: Geometry, look: Look): void {
  c.font = `${g.dx >= 62 ? 12 : 11}px ${look.token("mono")}`;
  c.textAlign = "center";
  c.textBaseline = "middle";
  for (const i of visible(layer, f)) {
    const x = layer.mean[i] ?? Number.NaN;
    if (!Number.isFinite(x)) continue;
    const k = lutIndex(look.scale.to(x)) * 3;
    const light = luminance(look.map[k] ?? 0, look.map[k + 1] ?? 0, look.map[k + 2] ?? 0) > 0.18;
    c.fillStyle = light ? "#0c0e10" : "#fff";
    const at = centre(layer.cell(i), f.window, g);
    c.fillText(look.whole ? shortest32(x) : figures(x, look.sig), at.x, at.y, g.dx - 4);
  }
}

/** Room for the row labels, 26 to 40 px. */
export function labelRoom(canvas: HTMLCanvasElement, size: Size, font: string): number {
  const c = canvas.getContext("2d");
  if (!c) return 26;
  c.font = font;
  return clamp(Math.ceil(c.measureText(String(Math.max(0, size.rows - 1))).width) + 9, 26, 40);
}

/** Draw the axes and, where there is a cursor, the crosshair with its own indices. */
export function drawAxes(
  canvas: HTMLCanvasElement,
  f: Frame,
  cursor: Cell | null,
  token: Look["token"],
): void {
  const c = prepare(canvas, f.left + f.width, f.height + BOTTOM);
  const g = frameGeometry(f);
  const at = cursor ? centre(cursor, f.window, g) : null;
  const inside = at && at.x >= 0 && at.y >= 0 && at.x <= f.width && at.y <= f.height ? at : null;
  const font = `11px ${token("ui")}`;
  c.font = font;
  c.fillStyle = token("ink2");
  c.textAlign = "center";
  c.textBaseline = "top";
  const room = c.measureText(String(Math.ceil(f.window.col + f.window.cols))).width + 12;
  for (const t of positions(f.window.col, f.window.cols, f.size.cols, g.dx, 5, room)) {
    const x = (t - f.window.col + 0.5) * g.dx;
    if (x < 0 || x > f.width) continue;
    c.fillRect(Math.round(f.left + x), f.height, 1, 3);
    const half = c.measureText(String(t)).width / 2;
    if (x + half > f.width + 2 || (inside && Math.abs(x - inside.x) <= Math.min(22, room))) continue;
    c.fillText(String(t), f.left + x, f.height + 5);
  }
  c.textAlign = "right";
  c.textBaseline = "middle";
  for (const t of positions(f.window.row, f.window.rows, f.size.rows, g.dy, 4, 14)) {
    const y = (t - f.window.row + 0.5) * g.dy;
    if (y < 0 || y > f.height) continue;
    c.fillRect(f.left - 3, Math.round(y), 3, 1);
    if (y > f.height - 3 || (inside && Math.abs(y - inside.y) <= 14)) continue;
    c.fillText(String(t), f.left - 6, Math.max(6, y));
  }
  if (!inside || !cursor) return;
  crosshair(c, f, g, inside, token);
  c.font = `600 ${font}`;
  c.fillStyle = token("ink");
  c.textAlign = "center";
  c.textBaseline = "top";
  const half = c.measureText(String(cursor.col)).width / 2;
  c.fillText(String(cursor.col), clamp(f.left + inside.x, half, f.left + f.width - half), f.height + 5);
  c.textAlign = "right";
  c.textBaseline = "middle";
  c.fillText(String(cursor.row), f.left - 6, clamp(inside.y, 6, Math.max(6, f.height - 4)));
}

/** Every index where a cell is wide enough for its label, round ones otherwise. */
function positions(
  start: number,
  extent: number,
  total: number,
  pixels: number,
  about: number,
  room: number,
): number[] {
  const first = Math.max(0, Math.floor(start));
  const last = Math.min(total - 1, Math.ceil(start + extent) - 1);
  if (pixels >= room) return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => first + i);
  const { values, step } = ticks(
    first,
    last,
    Math.max(1, Math.min(about, Math.floor((extent * pixels) / room))),
  );
  return step >= 1 ? values : [...new Set(values.map(Math.round))];
}

function crosshair(
  c: CanvasRenderingContext2D,
  f: Frame,
  g: Geometry,
  at: { x: number; y: number },
  token: Look["token"],
): void {
  const lines = Math.min(g.dx, g.dy) < OUTLINE_FROM;
  const half = (d: number): number => (lines ? Math.max(d / 2, 4) + 1 : d / 2);
  const [rx, ry] = [half(g.dx), half(g.dy)];
  const x = f.left + at.x;
  const path = new Path2D();
  if (lines) {
    const [px, py] = [Math.round(x) + 0.5, Math.round(at.y) + 0.5];
    path.moveTo(f.left, py);
    path.lineTo(x - rx, py);
    path.moveTo(x + rx, py);
    path.lineTo(f.left + f.width, py);
    path.moveTo(px, 0);
    path.lineTo(px, at.y - ry);
    path.moveTo(px, at.y + ry);
    path.lineTo(px, f.height);
  }
  path.rect(x - rx, at.y - ry, 2 * rx, 2 * ry);
  c.save();
  c.beginPath();
  c.rect(f.left, 0, f.width, f.height);
  c.clip();
  c.globalAlpha = 0.5;
  c.lineWidth = lines ? 3 : 4;
  c.strokeStyle = token("halo");
  c.stroke(path);
  c.globalAlpha = 1;
  c.lineWidth = lines ? 1 : 2;
  c.strokeStyle = token("ink");
  c.stroke(path);
  c.restore();
}
