// Where the reader is: the cursor, and the window of the slice that is on the screen; and what has to be asked for then.

import { type Cell, isWhole, reveal, type Window, whole, zoom } from "../lib/view.ts";
import type { Asking } from "./asking.ts";
import { readingText } from "./card.ts";
import { KINDS, type Store } from "./store.ts";

/** A window has settled when it did not change for so long. */
const SETTLED = 120;
/** A place is spoken when the cursor stood there for so long. */
const SPOKEN = 400;

export interface Moved {
  /** The window is another one. */
  draw(): void;
  /** The cursor is elsewhere. */
  drawCursor(): void;
  speak(text: string): void;
  /** A finer picture was asked for. */
  asked(): void;
}

export class Moves {
  private settle: ReturnType<typeof setTimeout> | undefined;
  private speaking: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly store: Store,
    private readonly ask: Asking,
    private readonly signal: AbortSignal,
    private readonly on: Moved,
  ) {}

  move(cell: Cell): void {
    const { store } = this;
    const before = store.window;
    store.cursor = cell;
    store.window = reveal(store.window, cell, store.size);
    if (store.window !== before) this.windowed();
    const known = KINDS.every((kind) => !store.has(kind) || store.read(kind, cell)?.exact);
    if (!known && !store.pooled) this.ask.element(store.place(cell));
    this.on.drawCursor();
    this.say();
  }

  /** Speak the place of the cursor and what is there. */
  say(): void {
    clearTimeout(this.speaking);
    this.speaking = setTimeout(() => {
      const { store } = this;
      const { cursor } = store;
      if (!cursor || this.signal.aborted) return;
      const parts = KINDS.flatMap((kind) => {
        const r = store.has(kind) ? store.read(kind, cursor) : null;
        return r ? [`${kind} ${readingText(store, r).replace("≈", "about")}`] : [];
      });
      const where =
        store.info.form === "picture" ? `row ${cursor.row}, column ${cursor.col}` : `element ${cursor.col}`;
      this.on.speak(`${where}: ${parts.join(", ")}`);
    }, SPOKEN);
  }

  zoom(factor: number): void {
    const { store } = this;
    if (store.info.form !== "picture") return;
    const at = store.cursor ?? {
      row: store.window.row + store.window.rows / 2,
      col: store.window.col + store.window.cols / 2,
    };
    store.window = zoom(store.window, factor, { row: at.row + 0.5, col: at.col + 0.5 }, store.size);
    this.windowed();
  }

  whole(): void {
    this.store.window = whole(this.store.size);
    this.windowed();
  }

  windowed(): void {
    this.on.draw();
    this.settled();
  }

  settled(): void {
    clearTimeout(this.settle);
    this.settle = setTimeout(() => {
      this.tell();
      this.finer();
    }, SETTLED);
  }

  /** The window in whole elements: row, column, rows, columns. */
  private elements(): number[] {
    const { size, window: w } = this.store;
    const row = Math.floor(w.row);
    const col = Math.floor(w.col);
    const rows = Math.min(size.rows, Math.ceil(w.row + w.rows)) - row;
    return [row, col, rows, Math.min(size.cols, Math.ceil(w.col + w.cols)) - col];
  }

  /** Tell the kernel what is on the screen. */
  tell(): void {
    const { store } = this;
    if (this.signal.aborted) return;
    this.ask.state(isWhole(store.window, store.size) ? null : this.elements(), store.choices);
  }

  /** Ask for a finer picture of the window, where the picture at hand is coarser than the screen. */
  private finer(): void {
    const { store } = this;
    const w = store.window;
    if (isWhole(w, store.size) || this.signal.aborted) return;
    const best = store.layers.value[store.layers.value.length - 1];
    if (!best || (best.exact && covers(best.window, w))) return;
    this.ask.slice(store.index, store.pooled, this.elements());
    this.on.asked();
  }
}

const covers = (outer: Window, inner: Window): boolean =>
  outer.row <= inner.row &&
  outer.col <= inner.col &&
  outer.row + outer.rows >= inner.row + inner.rows &&
  outer.col + outer.cols >= inner.col + inner.cols;
