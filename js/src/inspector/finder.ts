// The way to what is not finite: the list of the slice shown, and the next one wherever it is.

import type { Message } from "../lib/channel.ts";
import { h } from "../lib/dom.ts";
import { type Cell, reveal } from "../lib/view.ts";
import type { Asking } from "./asking.ts";
import { jumpList, type Place, places } from "./jump.ts";
import type { Store } from "./store.ts";

interface Moves {
  move(cell: Cell): void;
  windowed(): void;
  /** Show the slice of a place. */
  elsewhere(place: readonly number[], index: number[]): void;
}

export class Finder {
  readonly el = h("div");
  private places: Place[] = [];
  /** Where to put the cursor when the slice of that place arrives. */
  private heading: number[] | null = null;

  constructor(
    private readonly store: Store,
    private readonly ask: Asking,
    private readonly on: Moves,
  ) {}

  get any(): boolean {
    return this.places.length > 0;
  }

  /** Another slice was chosen: the way leads nowhere any more. */
  forget(): void {
    this.heading = null;
  }

  /** New pictures are here. */
  read(): void {
    this.places = places(this.store.layers);
  }

  /** Put the cursor to the place that a slice was asked for; false where there is none, or the slice is another. */
  arrive(): boolean {
    const there = this.heading && this.store.cell(this.heading);
    if (!there) return false;
    this.heading = null;
    this.on.move(there);
    return true;
  }

  draw(): void {
    this.el.replaceChildren(jumpList(this.store, this.places, (place) => this.go(place)));
  }

  /** Mark the button of the place where the cursor is. */
  mark(): void {
    const { cursor } = this.store;
    for (const [i, button] of [...this.el.querySelectorAll("button")].entries()) {
      const cell = this.places[i]?.cell;
      const here = cell !== undefined && cell.row === cursor?.row && cell.col === cursor.col;
      button.setAttribute("aria-current", String(here));
    }
  }

  /** Go to the next one, or the one before; the kernel is asked where the pictures at hand are not exact. */
  jump(direction: 1 | -1): void {
    const { store } = this;
    const order = (c: Cell): number => c.row * store.size.cols + c.col;
    const here = store.cursor ? order(store.cursor) : -1;
    const exact = store.layers.value.every((layer) => layer.exact);
    const next =
      direction > 0
        ? this.places.find((p) => order(p.cell) > here)
        : [...this.places].reverse().find((p) => order(p.cell) < here);
    if (next && exact) this.go(next);
    else if (this.ask.alive) {
      // Without a cursor the search begins at the slice's first element, which counts too.
      const index = store.place(store.cursor ?? { row: 0, col: 0 });
      this.ask.find(index, direction, store.cursor === null);
    } else {
      const around = next ?? (direction > 0 ? this.places[0] : this.places[this.places.length - 1]);
      if (around) this.go(around);
    }
  }

  /** The kernel found the next one, perhaps in another slice. */
  found(message: Message): void {
    const { store } = this;
    const { shape, axes } = store.info;
    const { place } = message.meta;
    if (!Array.isArray(place) || place.length !== shape.length) return;
    if (!place.every((k, axis) => Number.isInteger(k) && k >= 0 && k < (shape[axis] ?? 0))) return;
    const { channel, row, col } = axes;
    const at = channel === null ? place : place.slice(0, -1);
    const here = store.cell(at);
    if (here) {
      const known = this.places.find((p) => p.block[0] * p.block[1] > 1 && store.covered(p, here));
      this.go(known ? { ...known, cell: here } : { cell: here, flags: {}, block: [1, 1] });
      return;
    }
    this.heading = at;
    const index = place.map((k, axis) => (axis === row || axis === col || axis === channel ? 0 : k));
    this.on.elsewhere(place, index);
  }

  /** Move the cursor to a place; where a texel there is a block, zoom in until it is elements. */
  private go(place: Place): void {
    const { store } = this;
    const [rows, cols] = place.block;
    if (rows * cols > 1) {
      const extent = { rows: Math.min(store.size.rows, 2 * rows), cols: Math.min(store.size.cols, 2 * cols) };
      const row = place.cell.row - extent.rows / 2;
      const col = place.cell.col - extent.cols / 2;
      store.window = reveal({ ...extent, row, col }, place.cell, store.size);
      this.on.windowed();
    }
    this.on.move(place.cell);
  }
}
