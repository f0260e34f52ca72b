// How magnitudes of all gradients are spread, over the steps: one column a look, darker where more elements are.

import { prepare } from "../lib/dom.ts";
import { MINUS } from "../lib/numbers.ts";
import { parseColour } from "../lib/theme.ts";
import { type Frame, stepX } from "./axis.ts";

const HEIGHT = 104;
const LOWEST = -10;
const PER_DECADE = 4;

/** The decades that any column has elements in, three at least. */
export function occupied(spreads: readonly Uint8Array[], bins: number): [number, number] {
  let low = bins;
  let high = 0;
  for (const column of spreads)
    for (let k = 0; k < column.length; k++)
      if (column[k]) {
        low = Math.min(low, k);
        high = Math.max(high, k + 1);
      }
  if (low >= high) return [4 * PER_DECADE, 10 * PER_DECADE];
  low = Math.floor(low / PER_DECADE) * PER_DECADE;
  high = Math.ceil(high / PER_DECADE) * PER_DECADE;
  while (high - low < 3 * PER_DECADE) {
    low = Math.max(0, low - PER_DECADE);
    high = Math.min(bins, high + PER_DECADE);
  }
  return [low, high];
}

const own = document.createElement("canvas");

export function drawStrip(
  canvas: HTMLCanvasElement,
  steps: readonly number[],
  spreads: readonly Uint8Array[],
  frame: Frame,
  rule: number | null,
  done: number,
  colour: (name: string) => string,
): void {
  const c = prepare(canvas, frame.width, HEIGHT);
  const bins = spreads[0]?.length ?? 60;
  const [low, high] = occupied(spreads, bins);
  const rows = high - low;
  const left = Math.round(frame.left);
  const wide = Math.max(1, Math.round(frame.width - frame.left - frame.right));
  own.width = wide;
  own.height = rows;
  const o = own.getContext("2d");
  if (o && spreads.length) {
    const image = o.createImageData(wide, rows);
    const [r, g, b] = parseColour(toRgb(colour("ink-strip"))) ?? [24, 30, 38, 1];
    let k = -1;
    for (let x = 0; x < wide; x++) {
      const step = (x / wide) * frame.last;
      while (k + 1 < steps.length && (steps[k + 1] ?? 0) <= step) k++;
      const column = spreads[k];
      if (!column || step > Math.max(done, 1)) continue;
      for (let y = 0; y < rows; y++) {
        const at = 4 * ((rows - 1 - y) * wide + x);
        image.data[at] = r;
        image.data[at + 1] = g;
        image.data[at + 2] = b;
        image.data[at + 3] = column[low + y] ?? 0;
      }
    }
    o.putImageData(image, 0, 0);
    c.imageSmoothingEnabled = false;
    c.drawImage(own, left, 0, wide, HEIGHT);
  }
  c.font = `11px ${colour("ui") || "sans-serif"}`;
  c.textAlign = "right";
  c.textBaseline = "middle";
  c.fillStyle = colour("ink2");
  const decades = rows / PER_DECADE;
  const every = Math.ceil(decades / 5);
  for (let d = 0; d <= decades; d += every) {
    const y = HEIGHT - (d / decades) * HEIGHT;
    const e = LOWEST + low / PER_DECADE + d;
    const text = e === 0 ? "1" : `1e${String(e).replace("-", MINUS)}`;
    c.fillText(text, left - 6, Math.min(HEIGHT - 6, Math.max(6, y)));
    c.globalAlpha = 0.2;
    c.fillRect(left, Math.min(HEIGHT - 1, Math.round(y)), wide, 1);
    c.globalAlpha = 1;
  }
  if (rule !== null) {
    c.fillStyle = colour("ink");
    c.fillRect(Math.round(stepX(frame, rule)), 0, 1, HEIGHT);
  }
}

/** `#rrggbb` as rgb(). */
function toRgb(hex: string): string {
  const n = Number.parseInt(hex.slice(1), 16);
  return Number.isNaN(n) ? hex : `rgb(${n >> 16},${(n >> 8) & 255},${n & 255})`;
}
