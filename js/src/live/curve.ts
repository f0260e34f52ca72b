// Points of a curve that arrive in order: as many as a plot needs, however many steps a run has.

/** Points kept at most; when there are more, each run of four becomes its least and its greatest. */
export const MOST = 8000;

export class Curve {
  x: number[] = [];
  y: number[] = [];

  append(xs: ArrayLike<number>, ys: ArrayLike<number>): void {
    for (let i = 0; i < ys.length; i++) {
      this.x.push(xs[i] ?? 0);
      this.y.push(ys[i] ?? Number.NaN);
    }
    while (this.x.length > MOST) this.thin();
  }

  get length(): number {
    return this.x.length;
  }

  /** The ends are never merged with others: the last point is the one that is read. */
  private thin(): void {
    const { x, y } = this;
    const keptX: number[] = [];
    const keptY: number[] = [];
    const keep = (i: number): void => {
      keptX.push(x[i] ?? 0);
      keptY.push(y[i] ?? Number.NaN);
    };
    const last = x.length - 1;
    keep(0);
    for (let start = 1; start < last; start += 4) {
      const end = Math.min(start + 4, last);
      let low = -1;
      let high = -1;
      for (let i = start; i < end; i++) {
        const v = y[i] ?? Number.NaN;
        if (!Number.isFinite(v)) continue;
        if (low < 0 || v < (y[low] ?? 0)) low = i;
        if (high < 0 || v > (y[high] ?? 0)) high = i;
      }
      if (low < 0) keep(start);
      else {
        keep(Math.min(low, high));
        if (low !== high) keep(Math.max(low, high));
      }
    }
    keep(last);
    this.x = keptX;
    this.y = keptY;
  }
}

/** The mean of the points around each one, of logarithms where `log`; gaps stay gaps. */
export function smooth(y: readonly number[], log: boolean, share = 1 / 60): (number | null)[] {
  const half = Math.floor((y.length * share) / 2);
  const to = (v: number): number => (log ? (v > 0 ? Math.log(v) : Number.NaN) : v);
  const sums = new Float64Array(y.length + 1);
  const counts = new Uint32Array(y.length + 1);
  for (let i = 0; i < y.length; i++) {
    const v = to(y[i] ?? Number.NaN);
    const good = Number.isFinite(v);
    sums[i + 1] = (sums[i] ?? 0) + (good ? v : 0);
    counts[i + 1] = (counts[i] ?? 0) + (good ? 1 : 0);
  }
  return y.map((v, i) => {
    if (!Number.isFinite(to(v))) return null;
    // The same number of points on both sides, so that a slope stays one; at the end a few before at least, or the mean
    // would run into the noise of the last point.
    const right = Math.min(half, y.length - 1 - i);
    const left = Math.min(half, i, Math.max(right, Math.floor(half / 3)));
    const reach = Math.min(left, right);
    const first = right < Math.floor(half / 3) ? i - left : i - reach;
    const last = i + Math.min(reach, right);
    const n = (counts[last + 1] ?? 0) - (counts[first] ?? 0);
    const mean = ((sums[last + 1] ?? 0) - (sums[first] ?? 0)) / n;
    return log ? Math.exp(mean) : mean;
  });
}
