// The inspector: head, pictures or curves, sliders, statistics, list of what is not finite, code line; and what it asks
// of the kernel.

import type { Channel, Message } from "../lib/channel.ts";
import { afterPaint, h, iconButton, onceSoon } from "../lib/dom.ts";
import { ascii } from "../lib/numbers.ts";
import { type Cell, isWhole } from "../lib/view.ts";
import { Asking } from "./asking.ts";
import { readChoice } from "./choices.ts";
import { CurveView } from "./curve_view.ts";
import { Cells, factsOf, type Info, Layer, number, readPooled } from "./data.ts";
import { Finder } from "./finder.ts";
import { Fineness } from "./fineness.ts";
import { head } from "./head.ts";
import { Marking } from "./marking.ts";
import { Moves } from "./moves.ts";
import { NARROW } from "./pair.ts";
import { PictureView } from "./picture_view.ts";
import { Saving } from "./saving.ts";
import { Sliders } from "./sliders.ts";
import { statisticsTable } from "./statistics.ts";
import { Status } from "./status.ts";
import { type Brush, type Exact, KINDS, Store } from "./store.ts";
import { TableView } from "./table_view.ts";
import type { Actions, View } from "./view.ts";

export class Inspector implements Actions {
  private readonly store: Store;
  private readonly picture: View | null;
  private table: TableView | null = null;
  /** The table is shown in the picture's place. */
  private listing = false;
  private readonly tables = h("div");
  private readonly code = h("code");
  private readonly spoken = h("output", { class: "spoken", "aria-live": "polite" });
  private readonly sliders: Sliders;
  private readonly ask = new Asking();
  private readonly status: Status;
  private readonly fineness: Fineness;
  private readonly views = h("div");
  private readonly marking: Marking;
  private readonly moves: Moves;
  private readonly finder: Finder;
  private width = 0;
  /** The picture that is shown, by the kernel's number; the kernel knows whether that is still the one to show. */
  private take: unknown = null;
  /** Says that the view is open, once what it has is on the screen. */
  private greeting: (() => void) | null = null;
  private readonly saving: Saving;
  private gone = false;

  constructor(
    private info: Info,
    private readonly root: HTMLElement,
    private readonly signal: AbortSignal,
    before: Inspector | null = null,
  ) {
    this.store = new Store(info, root);
    if (before) this.store.follow(before.store);
    this.status = new Status(this.ask, this.signal);
    this.fineness = new Fineness(this.store, this.ask);
    this.saving = new Saving(this.ask, {
      done: () => this.announce("saved"),
      failed: (text) => this.status.complain(text),
    });
    this.picture = this.makeView();
    this.marking = new Marking(this.store, this.ask, () => this.brush(null));
    this.moves = new Moves(this.store, this.ask, this.signal, {
      draw: () => {
        this.view?.draw(this.width);
        this.code.textContent = this.store.code;
      },
      drawCursor: () => {
        this.view?.drawCursor();
        this.finder.mark();
      },
      speak: (text) => this.announce(text),
      asked: () => this.status.waiting(),
    });
    this.finder = new Finder(this.store, this.ask, {
      move: (cell) => this.move(cell),
      windowed: () => this.windowed(),
      elsewhere: (place, index) => {
        this.sliders.show(place, null);
        this.ask.slice(index, null);
      },
    });
    this.sliders = new Sliders(info, {
      moved: (index, pooled) => {
        this.finder.forget();
        this.ask.slice(index, pooled);
        this.status.waiting();
      },
      turned: (down, across) => this.ask.axes(down, across),
    });
    root.append(this.makeHead(), this.status.el);
    if (this.picture) {
      this.views.append(this.picture.el);
      root.append(
        this.views,
        this.marking.el,
        this.sliders.el,
        this.tables,
        this.finder.el,
        this.codeLine(),
        this.spoken,
      );
      this.views.hidden = true;
    } else if (info.form === "other") root.append(this.tables);
    this.status.note(info);
  }

  private makeView(): View | null {
    if (this.info.form === "picture") return new PictureView(this.store, this, this.signal);
    if (this.info.form === "line") return new CurveView(this.store, this, this.signal);
    return null;
  }

  private get view(): View | null {
    return this.listing ? this.table : this.picture;
  }

  private makeHead(): HTMLElement {
    return head(this.store, this.status.wait, {
      table: this.listing,
      setTable: (table) => this.list(table),
      whole: () => this.whole(),
      overlay: () => this.overlay(),
      swap: () => this.swap(),
      pin: () => this.pin(),
      compare: (what) => this.ask.show(what),
      save: (format) => this.saving.begin(format, this.store.overlaid),
    });
  }

  private showHead(): void {
    this.root.querySelector(".head")?.replaceWith(this.makeHead());
    if (!this.ask.alive && this.gone) this.disable();
  }

  /** Show the table in the picture's place, or the picture again. */
  private list(table: boolean): void {
    if (table) this.table ??= new TableView(this.store, this, this.signal);
    this.listing = table;
    const { view } = this;
    if (view) this.views.replaceChildren(view.el);
    this.showHead();
    this.redraw();
  }

  /** Ask for the picture, once the messages of `channel` are listened to; `early`: one that came before. */
  start(channel: Channel, early: Message | null = null): void {
    this.ask.connect(channel);
    if (early) this.receive(early);
    if (!channel.alive()) this.lost();
    else if (this.store.taken) {
      // What the kernel does when it hears of it would take the processor from drawing.
      this.greeting = onceSoon(() => this.ask.ready(this.take), this.signal);
    } else if (this.picture || this.info.form === "scalar") this.ask.ready();
  }

  /** Take new facts about the same tensor; false where they need another layout. */
  update(info: Info): boolean {
    const layout = ({ form, shape, axes, components, value, gradient, fields, what }: Info): string =>
      JSON.stringify([form, shape, axes, components, value !== null, gradient !== null, fields.length, what]);
    if (layout(info) !== layout(this.info) || info.form === "scalar") return false;
    const said = ({ name, compared, bytes, dtype }: Info): string =>
      JSON.stringify([name, compared, bytes, dtype]);
    const changed = said(info) !== said(this.info);
    this.info = info;
    // A picture on the screen stays with what was found when it was taken; the next one, which follows, brings its own.
    this.store.describe(info, this.picture ? this.store.info : info);
    if (changed) this.showHead();
    this.status.note(info);
    if (!this.picture) this.redraw();
    return true;
  }

  // ----- parts -----

  private codeLine(): HTMLElement {
    const button = iconButton("copy", "copy", "Copy (C)", () => this.copy());
    const line = h("div", { class: "codeline" }, this.code, button);
    line.hidden = !this.info.name;
    return line;
  }

  // ----- the kernel -----

  /** One message of the kernel. */
  receive(message: Message): void {
    if (message.kind === "picture") this.pictured(message);
    else if (message.kind === "ranges" || message.kind === "finer ranges") this.ranges(message);
    else if (message.kind === "element") this.element(message);
    else if (message.kind === "found") {
      this.ask.done("element");
      this.finder.found(message);
    } else if (message.kind === "spread") {
      if (this.fineness.spread(message)) this.redraw();
    } else if (message.kind === "histograms") {
      this.fineness.whole(message);
      this.view?.drawCursor();
    } else if (message.kind === "histogram") {
      if (this.fineness.part(message)) this.view?.drawCursor();
    } else if (message.kind === "count") {
      this.ask.done("count");
      this.marking.counted(message);
    } else if (message.kind === "cells") this.listed(message);
    else if (message.kind === "saved") this.saving.end(message, this.info.name);
    else if (message.kind === "trouble") this.trouble(message);
  }

  private pictured(message: Message): void {
    const { store, info } = this;
    const index = message.meta.index;
    if (!Array.isArray(index) || index.length !== info.shape.length) return;
    if (!index.every((k, axis) => Number.isInteger(k) && k >= 0 && k < (info.shape[axis] ?? 0))) return;
    const layers = { value: Layer.read(message, "value"), gradient: Layer.read(message, "gradient") };
    if (!layers.value) return;
    const pooled = readPooled(message.meta.pooled, info.shape.length);
    if (store.describe(info, factsOf(message, store.info))) this.ask.changed();
    const follows = message.meta.live === true && store.taken !== null && store.at(index, pooled);
    store.show(layers, index, pooled);
    this.take = message.meta.take;
    if (follows && this.view?.paint) {
      store.taken = new Date();
      this.view.paint();
      return;
    }
    if (!store.taken) this.begin(message);
    store.taken = new Date();
    this.table?.forget();
    this.sliders.show(index, store.pooled);
    store.count(message);
    this.ask.done("slice");
    this.status.waiting();
    this.finder.read();
    this.views.hidden = false;
    this.redraw();
    if (!this.finder.arrive() && store.cursor) this.move(store.cursor);
    // The whole came anew: what is zoomed into wants its finer picture again.
    if (isWhole(layers.value.window, store.size) && !isWhole(store.window, store.size)) this.moves.settled();
  }

  /** How far the numbers of each block go: what the card says under the pointer, and which blocks a brush marks. */
  private ranges(message: Message): void {
    const { store } = this;
    const known = KINDS.flatMap((kind) => store.layers[kind].map((layer) => layer.learn(message, kind)));
    if (!known.includes(true)) return;
    if (store.brush) this.view?.draw(this.width);
    else this.view?.drawCursor();
  }

  /** The first picture brings the choices that were made in another view of the same tensor. */
  private begin(message: Message): void {
    const kept = message.meta.choices;
    if (typeof kept !== "object" || kept === null) return;
    for (const kind of KINDS) {
      const choice = readChoice((kept as Record<string, unknown>)[kind], this.store.centred(kind));
      if (choice) this.store.choices[kind] = choice;
    }
    this.picture?.showChoices?.();
  }

  private element(message: Message): void {
    const { place, value, gradient } = message.meta;
    const { store } = this;
    this.ask.done("element");
    if (!Array.isArray(place) || !place.every(Number.isInteger)) return;
    const cell = store.cell(place);
    if (!cell) return;
    const list = (x: unknown): Exact[] | null =>
      Array.isArray(x)
        ? x.map((v) => (typeof v === "string" && /^-?\d+$/.test(v) ? v.slice(0, 40) : number(v)))
        : null;
    store.learn(cell, list(value), list(gradient));
    this.view?.drawCursor();
    this.moves.say();
  }

  private listed(message: Message): void {
    this.ask.done("cells");
    const cells = Cells.read(message);
    if (cells && cells.index.join() === this.store.index.join()) this.table?.learn(cells);
  }

  private trouble(message: Message): void {
    this.ask.done("slice", "element", "count", "cells");
    this.status.complain(
      typeof message.meta.text === "string" ? message.meta.text : "The tensor cannot be read.",
    );
  }

  /** The kernel is gone: what is on the screen stays, what needs a kernel is switched off. */
  lost(): void {
    this.gone = true;
    this.disable();
    this.status.lost(this.store.taken);
  }

  /** Switch off what needs a kernel. */
  private disable(): void {
    this.sliders.disable();
    for (const button of this.root.querySelectorAll<HTMLButtonElement>(".tools button"))
      button.disabled = button.getAttribute("aria-label") !== "whole slice";
  }

  // ----- drawing -----

  draw(width: number): void {
    this.width = width;
    this.redraw();
    if (width === 0 || !this.greeting) return;
    afterPaint(this.greeting);
    this.greeting = null;
  }

  /** Draw for another width. */
  fit(width: number): void {
    if (width !== this.width) this.draw(width);
  }

  private redraw(): void {
    if (this.width === 0) return;
    const { store } = this;
    this.fineness.want();
    if (store.layers.value.length) this.view?.draw(this.width);
    this.marking.show();
    const jump = (): void => this.jump(1);
    const reachable = this.view && this.ask.alive ? jump : this.finder.any ? jump : null;
    this.tables.replaceChildren(statisticsTable(store, this.width < NARROW, reachable));
    this.finder.draw();
    this.code.textContent = store.code;
  }

  // ----- actions -----

  rescaled(): void {
    this.fineness.want();
    this.view?.draw(this.width);
    this.moves.tell();
  }

  cells(window: number[]): void {
    this.ask.cells(this.store.index, this.store.pooled, window);
  }

  brush(brush: Brush | null): void {
    this.store.brush = brush;
    this.brushed();
  }

  brushed(): void {
    this.marking.changed();
    this.view?.draw(this.width);
  }

  move(cell: Cell): void {
    this.moves.move(cell);
  }

  zoom(factor: number): void {
    this.moves.zoom(factor);
  }

  whole(): void {
    this.moves.whole();
  }

  windowed(): void {
    this.moves.windowed();
  }

  jump(direction: 1 | -1): void {
    this.finder.jump(direction);
  }

  copy(): void {
    navigator.clipboard?.writeText(ascii(this.store.code)).then(
      () => this.announce("copied"),
      () => this.announce("the browser does not allow copying"),
    );
  }

  private announce(text: string): void {
    this.spoken.textContent = text;
  }

  overlay(): void {
    if (this.info.form !== "picture" || !this.info.gradient) return;
    this.store.overlaid = !this.store.overlaid;
    this.showHead();
    this.view?.draw(this.width);
  }

  swap(): void {
    const { row, col } = this.info.axes;
    if (row !== null && col !== null) this.ask.axes(col, row);
  }

  pin(): void {
    this.ask.pin();
  }

  cancel(): boolean {
    const { store } = this;
    if (!store.pinned && store.brush) {
      this.brush(null);
      return true;
    }
    if (!store.pinned) return false;
    store.pinned = false;
    this.view?.drawCursor();
    return true;
  }
}
