// Not-finite elements have shapes of their own: a cross for NaN, an upward hook for +Inf, a downward one for -Inf.

type Token = (name: string) => string;

/** Draw a mark around (x, y), at least 7 px across, on a halo of paper so that it holds on any colour. */
export function mark(
  c: CanvasRenderingContext2D,
  token: Token,
  what: number,
  x: number,
  y: number,
  cell: number,
): void {
  const m = Math.max(3.5, Math.min(7, cell * 0.32));
  const path = new Path2D();
  if (Number.isNaN(what)) {
    path.moveTo(x - m, y - m);
    path.lineTo(x + m, y + m);
    path.moveTo(x + m, y - m);
    path.lineTo(x - m, y + m);
  } else {
    const up = what > 0 ? -1 : 1;
    path.moveTo(x - m, y - up * m * 0.6);
    path.lineTo(x, y + up * m * 0.7);
    path.lineTo(x + m, y - up * m * 0.6);
  }
  c.save();
  c.lineCap = "round";
  c.lineWidth = 4;
  c.strokeStyle = token("halo");
  c.stroke(path);
  c.lineWidth = 2;
  c.strokeStyle = token(Number.isNaN(what) ? "nan" : "inf");
  c.stroke(path);
  c.restore();
}

/** Lets at most one mark into each square of `pitch` pixels, so that a picture full of NaN stays quick and readable. */
export class Thinner {
  private readonly taken = new Set<number>();
  constructor(private readonly pitch = 9) {}

  admit(x: number, y: number): boolean {
    const key = Math.floor(y / this.pitch) * 65536 + Math.floor(x / this.pitch);
    if (this.taken.has(key)) return false;
    this.taken.add(key);
    return true;
  }
}
