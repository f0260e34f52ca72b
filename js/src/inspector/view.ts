// What the inspector asks of a view, and what a view may ask of the inspector.

import type { KeyActions } from "./keys.ts";
import type { Brush } from "./store.ts";

export interface View {
  el: HTMLElement;
  /** Lay out and draw everything for a width in pixels. */
  draw(width: number): void;
  /** Draw new data where nothing else has changed. */
  paint?(): void;
  /** Draw what depends on the cursor alone. */
  drawCursor(): void;
  /** Show choices that did not come from the controls. */
  showChoices?(): void;
}

export interface Actions extends KeyActions {
  /** The window of the picture was changed: redraw, and fetch a finer picture when it has settled. */
  windowed(): void;
  /** The scale or the range of a picture was chosen. */
  rescaled(): void;
  /** Mark a range of numbers, or nothing. */
  brush(brush: Brush | null): void;
  /** Numbers of a window (row, column, rows, columns) are wanted for the table. */
  cells(window: number[]): void;
  /** The brush was moved. */
  brushed(): void;
}
