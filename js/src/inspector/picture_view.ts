// Two pictures of one slice, value and gradient, under one window and one crosshair.

import { chip, h, onceAFrame } from "../lib/dom.ts";
import { palette } from "../lib/theme.ts";
import { type Cell, cellAt, centre, clamp, fit, isWhole, type Window, within, zoom } from "../lib/view.ts";
import { Bars } from "./bars.ts";
import { Card, colourClass, readingText } from "./card.ts";
import { leadAxes } from "./data.ts";
import { handleKey } from "./keys.ts";
import { areBeside, share } from "./pair.ts";
import { drawAxes, drawData, type Frame, frameGeometry, type Look, labelRoom } from "./picture.ts";
import { Scales } from "./scales.ts";
import { KINDS, type Kind, type Store } from "./store.ts";
import type { Actions, View } from "./view.ts";

const TALLEST = 420;
/** Cells of a tiny tensor grow no wider than this, as long as the picture is wide enough to be one. */
const CELL = 64;
const LEAST = 220;

interface Pane {
  kind: Kind;
  el: HTMLElement;
  pic: HTMLElement;
  data: HTMLCanvasElement;
  axes: HTMLCanvasElement;
  bars: Bars;
  scales: Scales;
  shown: HTMLElement;
  reading: HTMLElement;
  frame: Frame | null;
}

export class PictureView implements View {
  readonly el: HTMLElement;
  private readonly panes: Pane[];
  private readonly card: Card;
  private under: Kind | null = null;
  private drag: { x: number; y: number; from: Window; moved: boolean } | null = null;
  private token: Look["token"];
  private readonly moved = onceAFrame(() => this.drawCursor());

  constructor(
    private readonly store: Store,
    private readonly act: Actions,
    signal: AbortSignal,
  ) {
    this.card = new Card(store);
    this.token = palette(store.root);
    this.panes = KINDS.filter((kind) => store.has(kind)).map((kind) => this.pane(kind, signal));
    this.el = h("div", { class: "pair" }, ...this.panes.map((p) => p.el));
  }

  private pane(kind: Kind, signal: AbortSignal): Pane {
    const data = h("canvas", { "aria-hidden": "true" });
    const axes = h("canvas", { tabindex: 0, role: "img", "data-lm-suppress-shortcuts": "true" });
    const bars = new Bars(kind, this.store, this.act, signal);
    const scales = new Scales(kind, this.store, () => this.act.rescaled());
    const shown = h("span", { class: "dim" });
    const reading = h("span", { class: "num" });
    const pic = h("div", { class: "pic" }, data, axes);
    const title = h("div", { class: "title" }, h("b", {}, chip(kind), kind), shown, reading);
    const pane: Pane = {
      kind,
      el: h("div", { class: "pane" }, title, pic, bars.el, scales.el),
      pic,
      data,
      axes,
      bars,
      scales,
      shown,
      reading,
      frame: null,
    };
    const on = <K extends keyof HTMLElementEventMap>(
      type: K,
      f: (e: HTMLElementEventMap[K]) => void,
      o?: object,
    ): void => axes.addEventListener(type, f, { signal, ...o });
    on("pointermove", (e) => this.pointer(pane, e));
    on("pointerdown", (e) => this.press(pane, e));
    on("pointerup", (e) => this.release(pane, e));
    on("pointercancel", () => {
      this.drag = null;
    });
    on("pointerleave", () => this.leave());
    on("wheel", (e) => this.wheel(pane, e), { passive: false });
    on("dblclick", (e) => this.zoomAt(pane, e, 0.4));
    on("focus", () => {
      this.under = kind;
      this.moved();
    });
    on("blur", () => this.leave());
    on("keydown", (e) => {
      this.under = kind;
      handleKey(e, this.store.cursor, this.store.size, this.act, () => this.cancel());
    });
    return pane;
  }

  draw(width: number): void {
    const { store } = this;
    this.token = palette(store.root);
    const beside = areBeside(this.panes.length, width);
    this.el.classList.toggle("one", !beside);
    const most = this.panes.length === 2 && !beside ? width : share(beside, width);
    for (const pane of this.panes) {
      const left = labelRoom(pane.axes, store.size, `600 11px ${this.token("ui")}`);
      const area = fit(
        store.window,
        Math.min(most - left, Math.max(LEAST, store.window.cols * CELL)),
        TALLEST,
      );
      pane.frame = { left, ...area, window: store.window, size: store.size };
      pane.el.style.maxWidth = `${left + area.width}px`;
      const look = store.look(pane.kind, this.token);
      const grey = store.overlaid && pane.kind === "value";
      pane.shown.textContent = grey ? "in grey, under its gradient" : store.shown(pane.kind);
      pane.pic.hidden = store.overlaid && pane.kind === "gradient";
      // Colours have no scale to read.
      pane.bars.el.hidden = look.image;
      pane.scales.el.hidden = look.image;
      this.drawPane(pane, pane.frame, look);
      pane.axes.classList.toggle("zoomed", !isWhole(store.window, store.size));
      pane.axes.setAttribute("aria-label", this.label(pane.kind));
    }
    this.drawCursor();
  }

  paint(): void {
    for (const pane of this.panes)
      if (pane.frame) this.drawPane(pane, pane.frame, this.store.look(pane.kind, this.token));
    if (this.store.cursor) this.moved();
  }

  private drawPane(pane: Pane, frame: Frame, look: Look): void {
    const { store } = this;
    const { overlaid } = store;
    if (overlaid && pane.kind === "gradient") return;
    const over = overlaid
      ? { layers: store.layers.gradient, look: store.look("gradient", this.token) }
      : null;
    const under = overlaid ? store.under(this.token) : look;
    drawData(pane.data, frame, store.layers[pane.kind], under, (depth) => store.faded(depth), over);
  }

  showChoices(): void {
    for (const pane of this.panes) pane.scales.show();
  }

  private label(kind: Kind): string {
    const { info, size, index } = this.store;
    const s = info[kind];
    const slice = leadAxes(info)
      .map((axis) => `, axis ${axis} at ${index[axis]}`)
      .join("");
    const bad = s?.nan ? `, ${s.nan} NaN` : "";
    const range = s ? `, ${this.store.text(s.minimum)} to ${this.store.text(s.maximum)}${bad}` : "";
    return `${kind} of ${info.name || "the tensor"}${slice}, ${size.rows} by ${size.cols}${range}. Arrow keys move, plus and minus zoom.`;
  }

  drawCursor(): void {
    const { store, token } = this;
    const { cursor } = store;
    for (const pane of this.panes) {
      const { frame } = pane;
      if (!frame) continue;
      drawAxes(pane.axes, frame, cursor, token);
      const r = cursor && store.read(pane.kind, cursor);
      const here = r ? Number(r.values[0]) : null;
      const grey = store.overlaid && pane.kind === "value";
      const look = grey ? store.under(token) : store.look(pane.kind, token);
      pane.bars.draw(frame.left + frame.width, frame.left, look, here);
      pane.reading.textContent = r ? readingText(store, r) : "";
      pane.reading.className =
        r && !Number.isFinite(here) ? `num ${colourClass(pane.kind, r.values[0] ?? 0)}` : "num";
    }
    this.placeCard();
  }

  private placeCard(): void {
    const { cursor } = this.store;
    const pane =
      this.panes.find((p) => p.kind === this.under) ?? (this.store.pinned ? this.panes[0] : undefined);
    if (!cursor || !pane?.frame) {
      this.card.hide();
      return;
    }
    const { left, width, height, window } = pane.frame;
    const g = frameGeometry(pane.frame);
    const at = centre(cursor, window, g);
    // Beside the cell, not beside its middle, where cells are wide.
    const off = Math.min(Math.max(g.dx, g.dy) / 2, 40);
    const point = {
      x: left + clamp(at.x, 0, width) + (at.x < width / 2 ? off : -off),
      y: clamp(at.y, 0, height),
    };
    this.card.show(pane.pic, cursor, point, { width: left + width, height });
  }

  private at(pane: Pane, e: MouseEvent): { cell: Cell | null; row: number; col: number } | null {
    if (!pane.frame) return null;
    const box = pane.axes.getBoundingClientRect();
    const { left, window, size } = pane.frame;
    const g = frameGeometry(pane.frame);
    const x = e.clientX - box.left - left;
    const y = e.clientY - box.top;
    const inside = x >= 0 && x < pane.frame.width && y >= 0 && y < pane.frame.height;
    return {
      cell: inside ? cellAt(x, y, window, g, size) : null,
      row: window.row + y / g.dy,
      col: window.col + x / g.dx,
    };
  }

  private pointer(pane: Pane, e: PointerEvent): void {
    const { store } = this;
    if (this.drag && pane.frame) {
      const g = frameGeometry(pane.frame);
      const [dx, dy] = [e.clientX - this.drag.x, e.clientY - this.drag.y];
      this.drag.moved ||= Math.hypot(dx, dy) > 3;
      if (this.drag.moved && !isWhole(store.window, store.size)) {
        const { from } = this.drag;
        store.window = within({ ...from, row: from.row - dy / g.dy, col: from.col - dx / g.dx }, store.size);
        this.act.windowed();
        return;
      }
    }
    this.under = pane.kind;
    const cell = this.at(pane, e)?.cell;
    if (cell && !store.pinned) this.act.move(cell);
    else this.moved();
  }

  private press(pane: Pane, e: PointerEvent): void {
    if (e.button !== 0) return;
    this.drag = { x: e.clientX, y: e.clientY, from: this.store.window, moved: false };
    pane.axes.setPointerCapture(e.pointerId);
  }

  private release(pane: Pane, e: PointerEvent): void {
    const { drag } = this;
    this.drag = null;
    const cell = this.at(pane, e)?.cell;
    if (!drag || drag.moved || !cell) return;
    // A click pins the card at its cell, a second one lets go.
    this.store.pinned = !this.store.pinned;
    this.act.move(cell);
  }

  private leave(): void {
    if (this.drag) return;
    this.under = null;
    this.moved();
  }

  private cancel(): boolean {
    if (this.drag) {
      this.store.window = this.drag.from;
      this.drag = null;
      this.act.windowed();
      return true;
    }
    return false;
  }

  private wheel(pane: Pane, e: WheelEvent): void {
    const root = pane.axes.getRootNode() as Document | ShadowRoot;
    if (!(e.ctrlKey || e.metaKey || root.activeElement === pane.axes)) return;
    e.preventDefault();
    this.zoomAt(pane, e, e.deltaY > 0 ? 1.25 : 0.8);
  }

  private zoomAt(pane: Pane, e: MouseEvent, factor: number): void {
    const at = this.at(pane, e);
    if (!at) return;
    this.store.window = zoom(this.store.window, factor, at, this.store.size);
    this.act.windowed();
  }
}
