// A table of exact numbers: only the rows and columns in view exist, and only their numbers are asked for.

import { h, onceAFrame } from "../lib/dom.ts";
import { type Cell, clamp } from "../lib/view.ts";
import { colourClass } from "./card.ts";
import type { Cells, Info } from "./data.ts";
import { handleKey } from "./keys.ts";
import { type Exact, KINDS, type Kind, type Store } from "./store.ts";
import type { Actions, View } from "./view.ts";

const HEAD = 22;
const LINE = 18;
const ROW_NAME = 72;
const COLUMN = 104;
const TALLEST = 330;
/** Browsers lay out nothing higher or wider: beyond, one pixel of the scroll bar is several rows. */
const MOST = 8e6;
/** Components that a cell has room for. */
const COMPONENTS = 4;
/** Numbers asked for at once, at most. */
const ASK = 4096;

interface Span {
  first: number;
  count: number;
}

/** What of a length of `total` is in view: the first and how many, for a scroller at `scroll` of `room`. */
export function visible(scroll: number, room: number, view: number, size: number, total: number): Span {
  const fits = Math.max(1, Math.floor(view / size));
  const last = Math.max(0, total - fits);
  const real = total * size;
  const first = real <= MOST ? Math.round(scroll / size) : Math.round((scroll / Math.max(1, room)) * last);
  return { first: clamp(first, 0, last), count: Math.min(fits + 1, total) };
}

export class TableView implements View {
  readonly el: HTMLElement;
  private readonly table = h("table", { role: "grid" });
  private readonly space = h("div", { class: "space" }, this.table);
  private readonly scroller: HTMLElement;
  private readonly caption = h("div", { class: "dim caption" });
  private cells: Cells | null = null;
  private width = 0;
  private readonly scrolled = onceAFrame(() => this.render());

  constructor(
    private readonly store: Store,
    private readonly act: Actions,
    signal: AbortSignal,
  ) {
    this.scroller = h(
      "div",
      { class: "vt", tabindex: 0, "data-lm-suppress-shortcuts": "true", "aria-label": "exact numbers" },
      this.space,
    );
    this.el = h("div", {}, this.scroller, this.caption);
    this.scroller.addEventListener("scroll", () => this.scrolled(), { signal });
    this.scroller.addEventListener(
      "keydown",
      (e) => handleKey(e, this.flip(store.cursor), this.extent, this.keys(act)),
      { signal },
    );
    this.table.addEventListener(
      "click",
      (e) => {
        const at = (e.target as Element).closest("td");
        if (at?.dataset.row) act.move(this.cell(Number(at.dataset.row), Number(at.dataset.col)));
      },
      { signal },
    );
  }

  /** A tensor of one axis stands upright: its elements are rows. */
  private get upright(): boolean {
    return this.store.info.form === "line";
  }

  private get extent(): { rows: number; cols: number } {
    const { rows, cols } = this.store.size;
    return this.upright ? { rows: cols, cols: 1 } : { rows, cols };
  }

  private cell(row: number, col: number): Cell {
    return this.upright ? { row: 0, col: row } : { row, col };
  }

  private flip(cell: Cell | null): Cell | null {
    return cell && this.upright ? { row: cell.col, col: 0 } : cell;
  }

  private keys(act: Actions): Actions {
    return Object.assign(Object.create(act) as Actions, {
      move: (at: Cell) => {
        act.move(this.cell(at.row, at.col));
        this.reveal(at);
      },
    });
  }

  private get kinds(): Kind[] {
    return KINDS.filter((kind) => this.store.has(kind));
  }

  private get rowHeight(): number {
    return this.kinds.length * LINE + 5;
  }

  private get columnWidth(): number {
    const n = this.store.pooled ? 1 : this.store.info.components;
    return COLUMN * Math.min(n, COMPONENTS);
  }

  private get view(): { width: number; height: number } {
    const { rows } = this.extent;
    const height = Math.min(Math.floor((TALLEST - HEAD) / this.rowHeight), rows) * this.rowHeight;
    return { width: Math.max(this.columnWidth, this.width - ROW_NAME - 12), height };
  }

  draw(width: number): void {
    this.width = width;
    const { rows, cols } = this.extent;
    const { height } = this.view;
    const wide = Math.min(MOST, cols * this.columnWidth) + ROW_NAME;
    this.space.style.width = `${wide}px`;
    this.space.style.height = `${Math.min(MOST, rows * this.rowHeight) + HEAD}px`;
    // Room for the borders, and for the scroll bar that a wide table has where scroll bars take any.
    const bar = wide > width - 2 ? this.scroller.offsetHeight - this.scroller.clientHeight : 2;
    this.scroller.style.height = `${height + HEAD + Math.max(2, bar)}px`;
    this.render();
  }

  drawCursor(): void {
    const { cursor } = this.store;
    const at = this.flip(cursor);
    for (const td of this.table.querySelectorAll("td"))
      td.setAttribute(
        "aria-selected",
        String(at !== null && Number(td.dataset.row) === at.row && Number(td.dataset.col) === at.col),
      );
  }

  /** Scroll until a cell is in view. */
  private reveal(at: Cell): void {
    const [rows, cols] = this.spans();
    const { scroller } = this;
    const { extent } = this;
    const to = (k: number, span: Span, size: number, total: number, room: number): number | null => {
      const fits = Math.max(1, span.count - 1);
      if (k >= span.first && k < span.first + fits) return null;
      const first = clamp(k < span.first ? k : k - fits + 1, 0, Math.max(0, total - fits));
      return total * size <= MOST ? first * size : (first / Math.max(1, total - fits)) * room;
    };
    const top = to(at.row, rows, this.rowHeight, extent.rows, scroller.scrollHeight - scroller.clientHeight);
    const left = to(at.col, cols, this.columnWidth, extent.cols, scroller.scrollWidth - scroller.clientWidth);
    if (top !== null) scroller.scrollTop = top;
    if (left !== null) scroller.scrollLeft = left;
    this.scrolled();
  }

  private spans(): [Span, Span] {
    const { scroller: s, extent, view } = this;
    return [
      visible(s.scrollTop, s.scrollHeight - s.clientHeight, view.height, this.rowHeight, extent.rows),
      visible(s.scrollLeft, s.scrollWidth - s.clientWidth, view.width, this.columnWidth, extent.cols),
    ];
  }

  /** Take numbers that the kernel sent. */
  learn(cells: Cells): void {
    this.cells = cells;
    this.render();
  }

  /** The numbers are not those of the slice any more. */
  forget(): void {
    this.cells = null;
    if (this.width) this.render();
  }

  private render(): void {
    const [rows, cols] = this.spans();
    const { store } = this;
    const list = (s: Span): number[] => Array.from({ length: s.count }, (_, i) => s.first + i);
    const { info } = store;
    const down = this.upright ? info.axes.col : info.axes.row;
    const names = this.upright ? "" : `${down} \\ ${info.axes.col}`;
    const { extent } = this;
    this.table.setAttribute("aria-rowcount", String(extent.rows + 1));
    this.table.setAttribute("aria-colcount", String(extent.cols + 1));
    const inside = (k: number, total: number): boolean => k < total;
    const head = h(
      "tr",
      {},
      h("th", { scope: "col", title: names ? `axis ${down} down, axis ${info.axes.col} across` : "" }, names),
      ...list(cols)
        .filter((k) => inside(k, extent.cols))
        .map((k) =>
          h("th", { scope: "col", style: `width:${this.columnWidth}px` }, this.upright ? store.baseName : k),
        ),
    );
    const body = list(rows)
      .filter((k) => inside(k, extent.rows))
      .map((r) =>
        h(
          "tr",
          { "aria-rowindex": r + 2 },
          h("th", { scope: "row" }, r),
          ...list(cols)
            .filter((k) => inside(k, extent.cols))
            .map((c) => this.element(r, c)),
        ),
      );
    this.table.replaceChildren(h("thead", {}, head), h("tbody", {}, ...body));
    const words = this.kinds.length > 1 ? "value above, gradient below; " : "";
    const part = (s: Span, total: number, view: number, size: number): string => {
      const shown = Math.min(total, s.first + Math.max(1, Math.floor(view / size)));
      return shown - s.first >= total ? `all ${total}` : `${s.first}–${shown - 1} of ${total}`;
    };
    const { view } = this;
    this.caption.textContent = this.upright
      ? `${words}elements ${part(rows, extent.rows, view.height, this.rowHeight)}`
      : `${words}rows ${part(rows, extent.rows, view.height, this.rowHeight)}, columns ${part(cols, extent.cols, view.width, this.columnWidth)}`;
    this.drawCursor();
    this.ask(rows, cols);
  }

  private element(row: number, col: number): Element {
    const cell = this.cell(row, col);
    const lines = this.kinds.map((kind) => {
      const known = this.cells?.read(kind, cell) ?? null;
      return h("span", { class: known ? this.colour(kind, known) : "dim" }, known ? this.text(known) : "·");
    });
    return h("td", { role: "gridcell", "data-row": row, "data-col": col }, ...lines);
  }

  private colour(kind: Kind, values: readonly Exact[]): string {
    const bad = values.find((x) => !Number.isFinite(Number(x)));
    if (bad !== undefined) return colourClass(kind, bad);
    return kind === "value" ? "" : colourClass(kind, values[0] ?? 0);
  }

  private text(values: readonly Exact[]): string {
    const sign = (x: Exact): string => (Number.isNaN(Number(x)) ? "× " : Number(x) > 0 ? "∧ " : "∨ ");
    const words = values
      .slice(0, COMPONENTS)
      .map((x) => (Number.isFinite(Number(x)) ? "" : sign(x)) + this.store.text(x));
    return words.join(", ") + (values.length > COMPONENTS ? ", …" : "");
  }

  private ask(rows: Span, cols: Span): void {
    const { extent } = this;
    const first = this.cell(rows.first, cols.first);
    const lastRow = Math.min(extent.rows, rows.first + rows.count) - 1;
    const lastCol = Math.min(extent.cols, cols.first + cols.count) - 1;
    const last = this.cell(lastRow, lastCol);
    if (this.cells?.covers(first, last)) return;
    // Half a page more on each side, so that a slow scroll finds them here.
    const grow = (s: Span, total: number, most: number): Span => {
      const more = Math.max(0, Math.min(Math.ceil(s.count / 2), Math.floor((most - s.count) / 2)));
      const from = Math.max(0, s.first - more);
      return { first: from, count: Math.min(total, s.first + s.count + more) - from };
    };
    const wide = grow(cols, extent.cols, ASK / Math.max(1, rows.count));
    const high = grow(rows, extent.rows, Math.floor(ASK / Math.max(1, wide.count)));
    const window = this.upright
      ? [0, high.first, 1, high.count]
      : [high.first, wide.first, high.count, wide.count];
    this.act.cells(window);
  }
}

/** Whether a form has numbers to list. */
export const hasTable = ({ form }: Pick<Info, "form">): boolean => form === "picture" || form === "line";
