// Fresh random numbers for each run; the seed is in the message of a test that fails.

export interface Seeded {
  seed: number;
  random(): number;
}

/** mulberry32 with a seed from the clock, or from SLANGLAB_SEED to repeat a run. */
export function seeded(): Seeded {
  const seed = Number(process.env.SLANGLAB_SEED ?? Math.floor(Math.random() * 2 ** 32)) >>> 0;
  let s = seed;
  const random = (): number => {
    s = (s + 0x6d2b79f5) | 0;
    let t = Math.imul(s ^ (s >>> 15), 1 | s);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  return { seed, random };
}

/** Finite float32 numbers with uniformly random bits: all exponents, subnormals too. */
export function* floats(random: () => number, n: number): Generator<number> {
  const bits = new Uint32Array(1);
  const as = new Float32Array(bits.buffer);
  for (let k = 0; k < n; ) {
    bits[0] = Math.floor(random() * 2 ** 32);
    const x = as[0] ?? 0;
    if (!Number.isFinite(x)) continue;
    k++;
    yield x;
  }
}

/** Does rounding to so many digits still read back as the same float32? */
export const rounds = (x: number, digits: number): boolean =>
  Math.fround(Number(x.toPrecision(digits))) === x;
