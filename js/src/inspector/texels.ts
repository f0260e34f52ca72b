// The texels of a layer as an image: a number to a colour, a block to a pixel.

import { type Lut, lutIndex, type Scale } from "../lib/colormap.ts";
import { clamp } from "../lib/view.ts";

/** What is left of the colour of an element that the brush does not mark. */
export const FADED = 0.16;

type Rgb = readonly [number, number, number];

export interface Numbers {
  rows: number;
  cols: number;
  mean: Float32Array;
  /** Channels a texel, one texel after another, where the picture is an image. */
  colors: Float32Array | null;
}

export interface Colours {
  map: Lut;
  scale: Scale;
  /** Paint the channels as colours, where there are any. */
  image: boolean;
  /** Of texels without a finite element. */
  wash: Rgb;
  /** What lies under the picture: the colour of faded texels goes towards it. */
  paper: Rgb;
}

export interface How {
  /** Tells which texels are faded. */
  faded?: ((texel: number) => boolean) | null;
  /** The nearer to the middle of the scale, the less is seen of a texel: for a picture that lies over another. */
  clear?: boolean;
}

const tables = new WeakMap<Lut, Uint32Array>();

/** The colours of a map as whole pixels, in the byte order of this machine. */
function pixelsOf(map: Lut): Uint32Array {
  let table = tables.get(map);
  if (!table) {
    const bytes = new Uint8ClampedArray((map.length / 3) * 4);
    for (let k = 0; k * 3 < map.length; k++) {
      bytes.set(map.subarray(k * 3, k * 3 + 3), k * 4);
      bytes[k * 4 + 3] = 255;
    }
    table = new Uint32Array(bytes.buffer);
    tables.set(map, table);
  }
  return table;
}

const pixel = ([r, g, b]: Rgb): number => new Uint32Array(new Uint8Array([r, g, b, 255]).buffer)[0] ?? 0;

/** Write the pixels of a picture, four bytes each; every one is written. */
export function colour(
  pixels: Uint8ClampedArray,
  numbers: Numbers,
  look: Colours,
  { faded = null, clear = false }: How = {},
): void {
  const colors = look.image ? numbers.colors : null;
  if (colors) light(pixels, numbers, colors, look);
  else plain(pixels, numbers.mean, look);
  if (faded) fade(pixels, numbers.mean.length, faded, look.paper);
  if (clear) uncover(pixels, numbers.mean, look.scale);
}

/** A number, a colour: what a live view paints thirty times a second. */
function plain(pixels: Uint8ClampedArray, mean: Float32Array, look: Colours): void {
  const words = new Uint32Array(pixels.buffer, pixels.byteOffset, mean.length);
  const table = pixelsOf(look.map);
  const wash = pixel(look.wash);
  const { scale } = look;
  const { lo, hi } = scale;
  const span = hi - lo;
  if (scale.kind !== "linear" || !(span > 0 && span < Number.POSITIVE_INFINITY)) {
    for (let i = 0; i < mean.length; i++) {
      const x = mean[i] ?? Number.NaN;
      words[i] = Number.isFinite(x) ? (table[lutIndex(scale.to(x))] ?? 0) : wash;
    }
    return;
  }
  // The same as above without the calls, which cost five times as much as the rest.
  for (let i = 0; i < mean.length; i++) {
    const x = mean[i] as number;
    const t = (x - lo) / span;
    const k = t <= 0 ? 0 : t >= 1 ? 255 : (t * 255 + 0.5) | 0;
    words[i] = x - x === 0 ? (table[k] as number) : wash;
  }
}

function light(pixels: Uint8ClampedArray, numbers: Numbers, colors: Float32Array, look: Colours): void {
  const { mean } = numbers;
  const channels = colors.length / mean.length;
  for (let i = 0, o = 0; i < mean.length; i++, o += 4) {
    if (Number.isFinite(mean[i]))
      for (let k = 0; k < 3; k++) pixels[o + k] = srgb(colors[i * channels + k] ?? 0);
    else pixels.set(look.wash, o);
    pixels[o + 3] = 255;
  }
}

function fade(pixels: Uint8ClampedArray, count: number, faded: (texel: number) => boolean, paper: Rgb): void {
  for (let i = 0, o = 0; i < count; i++, o += 4)
    if (faded(i))
      for (const k of [0, 1, 2] as const)
        pixels[o + k] = FADED * (pixels[o + k] ?? 0) + (1 - FADED) * paper[k];
}

function uncover(pixels: Uint8ClampedArray, mean: Float32Array, scale: Scale): void {
  for (let i = 0; i < mean.length; i++) {
    const x = mean[i] ?? Number.NaN;
    pixels[4 * i + 3] = Number.isFinite(x) ? 255 * clamp(Math.abs(2 * scale.to(x) - 1) * 1.25, 0, 1) : 0;
  }
}

/** A linear light value as a byte of sRGB; what is not finite is black, its mark says more. */
function srgb(x: number): number {
  const v = clamp(x, 0, 1) || 0;
  return 255 * (v <= 0.0031308 ? 12.92 * v : 1.055 * v ** (1 / 2.4) - 0.055);
}

let canvas: HTMLCanvasElement | null = null;
let image: ImageData | null = null;

/** The same canvas again and again, with the colours of these numbers: live views draw many, and each of its own would be garbage. */
export function texels(numbers: Numbers, look: Colours, how: How = {}): HTMLCanvasElement {
  const { rows, cols } = numbers;
  canvas ??= document.createElement("canvas");
  if (canvas.width !== cols) canvas.width = cols;
  if (canvas.height !== rows) canvas.height = rows;
  if (image?.width !== cols || image.height !== rows) image = new ImageData(cols, rows);
  colour(image.data, numbers, look, how);
  canvas.getContext("2d")?.putImageData(image, 0, 0);
  return canvas;
}
