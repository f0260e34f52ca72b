// Keys on a picture. A key that is used stops here; Tab, and Esc with nothing to cancel, pass on.

import { type Cell, clamp, type Size } from "../lib/view.ts";

export interface KeyActions {
  move(cell: Cell): void;
  /** Zoom about the cursor by a factor; under 1 goes in. */
  zoom(factor: number): void;
  whole(): void;
  /** Go to the next (1) or previous (-1) element that is not finite. */
  jump(step: 1 | -1): void;
  copy(): void;
  /** Draw what is drawn down across, and the other way round. */
  swap(): void;
  /** Lay the gradient over the value, or beside it again. */
  overlay(): void;
  /** Keep a copy to compare with. */
  pin(): void;
  /** Undo what can be undone; false where there is nothing. */
  cancel(): boolean;
}

const ARROWS: Record<string, [number, number]> = {
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
};

/** Where an arrow, Home or End takes the cursor; null for other keys. */
export function step(key: string, shift: boolean, from: Cell | null, size: Size): Cell | null {
  const at = from ?? { row: Math.floor((size.rows - 1) / 2), col: Math.floor((size.cols - 1) / 2) };
  if (key === "Home") return { ...at, col: 0 };
  if (key === "End") return { ...at, col: size.cols - 1 };
  const arrow = ARROWS[key];
  if (!arrow) return null;
  if (!from) return at;
  const far = shift ? 10 : 1;
  return {
    row: clamp(at.row + arrow[0] * far, 0, size.rows - 1),
    col: clamp(at.col + arrow[1] * far, 0, size.cols - 1),
  };
}

/** Act on a key; `cancelFirst` undoes what only the view knows of, before anything else is cancelled. */
export function handleKey(
  e: KeyboardEvent,
  cursor: Cell | null,
  size: Size,
  on: KeyActions,
  cancelFirst: () => boolean = () => false,
): void {
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  const cell = step(e.key, e.shiftKey, cursor, size);
  if (cell) on.move(cell);
  else if (e.key === "+" || e.key === "=") on.zoom(0.6);
  else if (e.key === "-") on.zoom(1 / 0.6);
  else if (e.key === "0") on.whole();
  else if (e.key === "n" || e.key === "N") on.jump(e.shiftKey ? -1 : 1);
  else if (e.key === "c") on.copy();
  else if (e.key === "x") on.swap();
  else if (e.key === "o") on.overlay();
  else if (e.key === "p") on.pin();
  else if (!(e.key === "Escape" && (cancelFirst() || on.cancel()))) return;
  e.preventDefault();
  e.stopPropagation();
}
