// Where a cell of a two-dimensional array is on the screen, and which cell is under a pixel. Indices are those of the
// array; the window may begin and end inside a cell.

export interface Size {
  rows: number;
  cols: number;
}

/** The part of an array that is shown: its upper left corner and its extent, in cells. */
export interface Window {
  row: number;
  col: number;
  rows: number;
  cols: number;
}

export interface Cell {
  row: number;
  col: number;
}

export const clamp = (x: number, lo: number, hi: number): number => Math.min(hi, Math.max(lo, x));

export const whole = (size: Size): Window => ({ row: 0, col: 0, rows: size.rows, cols: size.cols });

export const isWhole = (w: Window, size: Size): boolean => w.rows >= size.rows && w.cols >= size.cols;

/** Pixels of the picture that shows `w` at the given width, no higher than `tallest`; cells are squares where that fits. */
export function fit(
  w: Window,
  width: number,
  tallest: number,
  least = 24,
): { width: number; height: number } {
  const height = (width * w.rows) / w.cols;
  if (height <= tallest && height >= least) return { width, height: Math.round(height) };
  if (height < least) return { width, height: least };
  // A tall array keeps square cells by being narrower, down to a third of the width; beyond that its cells are flattened.
  return { width: Math.max(Math.round((tallest * w.cols) / w.rows), Math.round(width / 3)), height: tallest };
}

export interface Geometry {
  /** Pixels a cell is wide and high. */
  dx: number;
  dy: number;
}

export const geometry = (w: Window, width: number, height: number): Geometry => ({
  dx: width / w.cols,
  dy: height / w.rows,
});

/** The cell under a pixel of the picture, or null outside the array. */
export function cellAt(x: number, y: number, w: Window, g: Geometry, size: Size): Cell | null {
  const col = Math.floor(w.col + x / g.dx);
  const row = Math.floor(w.row + y / g.dy);
  return row >= 0 && col >= 0 && row < size.rows && col < size.cols ? { row, col } : null;
}

/** The pixel at the centre of a cell. */
export function centre(cell: Cell, w: Window, g: Geometry): { x: number; y: number } {
  return { x: (cell.col - w.col + 0.5) * g.dx, y: (cell.row - w.row + 0.5) * g.dy };
}

/** The window after a zoom by `factor` (under 1 goes in) that keeps the array position (row, col) under its pixel. */
export function zoom(
  w: Window,
  factor: number,
  at: { row: number; col: number },
  size: Size,
  least = 4,
): Window {
  const cols = clamp(w.cols * factor, Math.min(least, size.cols), size.cols);
  const rows = clamp(w.rows * factor, Math.min(least, size.rows), size.rows);
  return within(
    {
      row: at.row - ((at.row - w.row) * rows) / w.rows,
      col: at.col - ((at.col - w.col) * cols) / w.cols,
      rows,
      cols,
    },
    size,
  );
}

/** The window moved, never out of the array. */
export function within(w: Window, size: Size): Window {
  return { ...w, row: clamp(w.row, 0, size.rows - w.rows), col: clamp(w.col, 0, size.cols - w.cols) };
}

/** The window moved just as far as it takes for the cell to be inside. */
export function reveal(w: Window, cell: Cell, size: Size): Window {
  const row = cell.row < w.row ? cell.row : cell.row + 1 > w.row + w.rows ? cell.row + 1 - w.rows : w.row;
  const col = cell.col < w.col ? cell.col : cell.col + 1 > w.col + w.cols ? cell.col + 1 - w.cols : w.col;
  return row === w.row && col === w.col ? w : within({ ...w, row, col }, size);
}

/** Where a card of the given size stands beside a point: 12 px off, flipped at the edges, never outside the picture. */
export function cardPlace(
  point: { x: number; y: number },
  card: { width: number; height: number },
  area: { width: number; height: number },
  off = 12,
): { left: number; top: number } {
  const right = point.x + off + card.width <= area.width;
  const below = point.y + off + card.height <= area.height;
  return {
    left: clamp(right ? point.x + off : point.x - off - card.width, 0, Math.max(0, area.width - card.width)),
    top: clamp(
      below ? point.y + off : point.y - off - card.height,
      0,
      Math.max(0, area.height - card.height),
    ),
  };
}
