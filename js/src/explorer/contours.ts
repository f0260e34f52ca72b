// Contour lines of a grid by marching squares.

/** A segment in cells of the grid: x0, y0, x1, y1. */
export type Segment = readonly [number, number, number, number];

/**
 * The segments where the linear interpolation along the cells' edges is `level`.
 * A cell with a number that is not finite has none.
 */
export function contour(values: ArrayLike<number>, columns: number, rows: number, level: number): Segment[] {
  const out: Segment[] = [];
  const at = (x: number, y: number): number => values[y * columns + x] ?? Number.NaN;
  for (let y = 0; y + 1 < rows; y++)
    for (let x = 0; x + 1 < columns; x++) {
      const [a, b, c, d] = [at(x, y), at(x + 1, y), at(x + 1, y + 1), at(x, y + 1)];
      const under = a < level;
      // Most cells have no line through them.
      if (under === b < level && under === c < level && under === d < level) continue;
      if (!Number.isFinite(a + b + c + d)) continue;
      const cut = (v: number, w: number): number | null =>
        v < level !== w < level ? (level - v) / (w - v) : null;
      const [top, right, bottom, left] = [cut(a, b), cut(b, c), cut(d, c), cut(a, d)];
      const points: [number, number][] = [];
      if (top !== null) points.push([x + top, y]);
      if (right !== null) points.push([x + 1, y + right]);
      if (bottom !== null) points.push([x + bottom, y + 1]);
      if (left !== null) points.push([x, y + left]);
      const [p, q, r, s] = points;
      if (p && q && r && s) {
        // A saddle: the middle decides which corners belong together.
        const middle = (a + b + c + d) / 4 < level;
        const joined = middle === under;
        const pairs = joined ? [p, q, r, s] : [p, s, q, r];
        out.push([...(pairs[0] as [number, number]), ...(pairs[1] as [number, number])]);
        out.push([...(pairs[2] as [number, number]), ...(pairs[3] as [number, number])]);
      } else if (p && q) out.push([...p, ...q]);
    }
  return out;
}

/** Levels at which to draw: those of `ticks`, and halves between them where there are few. */
export function levels(values: readonly number[], lo: number, hi: number): number[] {
  if (values.length > 8 || values.length < 2) return [...values];
  const step = (values[1] ?? 0) - (values[0] ?? 0);
  const out: number[] = [];
  for (let v = (values[0] ?? 0) - step; v <= hi; v += step / 2) if (v > lo) out.push(v);
  return out;
}
