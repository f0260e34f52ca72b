import assert from "node:assert/strict";
import test from "node:test";
import { maps } from "../../slanglab/look/tokens.json";
import { type Colours, colour, FADED, type How } from "../src/inspector/texels.ts";
import { linear, lut, lutIndex, type Scale, symlog } from "../src/lib/colormap.ts";
import { seeded } from "./random.ts";

const WASH = [1, 20, 255] as const;
const PAPER = [250, 251, 252] as const;
const map = lut(maps.tide);
const look = (scale: Scale, image = false): Colours => ({ map, scale, image, wash: WASH, paper: PAPER });

/** Numbers of many sizes, some beyond any scale, some not finite. */
function numbers(random: () => number, count: number): Float32Array {
  const odd = [NaN, Infinity, -Infinity, 0, -0, 3.4e38, -3.4e38, 1e-45, 1, -1];
  return Float32Array.from({ length: count }, () =>
    random() < 0.2 ? (odd[Math.floor(random() * odd.length)] ?? 0) : 4 * random() - 2,
  );
}

function painted(mean: Float32Array, colors: Float32Array | null, given: Colours, how: How = {}): number[] {
  // A pixel that is not written keeps what nobody would paint.
  const pixels = new Uint8ClampedArray(4 * mean.length).fill(77);
  colour(pixels, { rows: 1, cols: mean.length, mean, colors }, given, how);
  return [...pixels];
}

/** What one number looks like, from the definition. */
function expected(x: number, { scale }: Colours): number[] {
  if (!Number.isFinite(x)) return [...WASH, 255];
  const k = lutIndex(scale.to(x)) * 3;
  return [...map.subarray(k, k + 3), 255];
}

test("every number has the colour that its scale gives it", () => {
  const { random, seed } = seeded();
  const scales = [
    linear(-1, 1),
    linear(0.3, 0.3 + 1e-7),
    linear(1, 1),
    linear(-3.4e38, 3.4e38),
    linear(-Number.MAX_VALUE, Number.MAX_VALUE),
    symlog(1),
  ];
  for (const scale of scales) {
    const mean = numbers(random, 500);
    const want = [...mean].flatMap((x) => expected(x, look(scale)));
    assert.deepEqual(painted(mean, null, look(scale)), want, `${scale.kind} ${scale.lo}, seed ${seed}`);
  }
});

test("the middle between two colours goes to the upper one, as everywhere", () => {
  const mean = Float32Array.from({ length: 255 }, (_, k) => k + 0.5);
  const scale = linear(0, 255);
  assert.deepEqual(
    painted(mean, null, look(scale)),
    [...mean].flatMap((x) => expected(x, look(scale))),
  );
});

test("what the brush does not mark goes towards the paper", () => {
  const { random, seed } = seeded();
  const mean = numbers(random, 300);
  const given = look(linear(-1, 1));
  const found = painted(mean, null, given, { faded: (i) => i % 3 === 0 });
  for (const [i, x] of mean.entries()) {
    const full = expected(x, given);
    const rest = (c: number, k: number) => Math.round(FADED * c + (1 - FADED) * (PAPER[k] ?? 0));
    const want = i % 3 === 0 ? [...full.slice(0, 3).map(rest), 255] : full;
    const off = want.map((c, k) => Math.abs(c - (found[4 * i + k] ?? 0)));
    assert.ok(Math.max(...off) <= 1, `${x}: ${found.slice(4 * i, 4 * i + 4)}, not ${want}; seed ${seed}`);
  }
});

test("a picture over another one is clear in the middle of its scale and where nothing is finite", () => {
  const mean = Float32Array.of(0, 1, -1, Number.NaN, Infinity, 0.4, -0.4, 5);
  const alphas = painted(mean, null, look(linear(-1, 1)), { clear: true }).filter((_, k) => k % 4 === 3);
  assert.deepEqual(
    alphas,
    [0, 255, 255, 0, 0, 127, 127, 255].map((a, k) => (k === 5 || k === 6 ? Math.round(255 * 0.5) : a)),
  );
});

test("channels are light, encoded for the screen; three or four of them", () => {
  for (const channels of [3, 4]) {
    const colors = new Float32Array(3 * channels);
    colors.set([0, 0.5, 1], 0);
    colors.set([-1, 2, Number.NaN], channels);
    const mean = Float32Array.of(0.5, 0.5, Number.NaN);
    const found = painted(mean, colors, look(linear(0, 1), true));
    // IEC 61966-2-1: 0.5 of the light is byte 188.
    assert.deepEqual(found, [0, 188, 255, 255, 0, 255, 0, 255, ...WASH, 255]);
  }
});

test("channels are numbers where the picture is none of light", () => {
  const mean = Float32Array.of(0, 0.5, 1);
  const scale = linear(0, 1);
  const found = painted(mean, new Float32Array(9), look(scale));
  assert.deepEqual(
    found,
    [...mean].flatMap((x) => expected(x, look(scale))),
  );
});
