// A tensor of one axis: curves of value and gradient under one crosshair.

import { lut, type Scale, symlogBetween } from "../lib/colormap.ts";
import { chip, h, onceAFrame } from "../lib/dom.ts";
import { palette } from "../lib/theme.ts";
import { clamp } from "../lib/view.ts";
import { Bars } from "./bars.ts";
import { Card } from "./card.ts";
import { type Curve, drawCursor, drawCurves, indexAt, LEFT, layout } from "./curve.ts";
import { handleKey } from "./keys.ts";
import { areBeside, share } from "./pair.ts";
import type { Look } from "./picture.ts";
import { Scales } from "./scales.ts";
import { KINDS, type Kind, type Store } from "./store.ts";
import type { Actions, View } from "./view.ts";

/** What stands under the curves for each of them. */
interface Part {
  kind: Kind;
  bars: Bars;
  scales: Scales;
  el: HTMLElement;
}

export class CurveView implements View {
  readonly el: HTMLElement;
  private readonly data = h("canvas", { "aria-hidden": "true" });
  private readonly axes = h("canvas", { tabindex: 0, role: "img", "data-lm-suppress-shortcuts": "true" });
  private readonly pic = h("div", { class: "pic" }, this.data, this.axes);
  private readonly card: Card;
  private readonly parts: readonly Part[];
  private readonly under: HTMLElement;
  private curve: Curve | null = null;
  /** Width of a histogram. */
  private wide = 1;
  private looks: Record<Kind, Look> | null = null;
  private here = false;
  private token: Look["token"];
  private readonly moved = onceAFrame(() => this.drawCursor());

  constructor(
    private readonly store: Store,
    act: Actions,
    signal: AbortSignal,
  ) {
    this.card = new Card(store);
    this.token = palette(store.root);
    this.parts = KINDS.filter((kind) => store.has(kind)).map((kind) => {
      const bars = new Bars(kind, store, act, signal);
      const scales = new Scales(kind, store, () => act.rescaled());
      const title = h("div", { class: "title" }, h("b", {}, chip(kind), kind));
      return { kind, bars, scales, el: h("div", { class: "pane" }, title, bars.el, scales.el) };
    });
    this.under = h("div", { class: "pair curves" }, ...this.parts.map(({ el }) => el));
    this.el = h("div", {}, this.pic, this.under);
    const { axes } = this;
    const move = (e: PointerEvent): void => {
      this.here = true;
      const x = e.clientX - axes.getBoundingClientRect().left;
      if (this.curve && !store.pinned) act.move({ row: 0, col: indexAt(this.curve, x) });
      else this.moved();
    };
    const leave = (): void => {
      this.here = false;
      this.moved();
    };
    axes.addEventListener("pointermove", move, { signal });
    axes.addEventListener("pointerleave", leave, { signal });
    axes.addEventListener("blur", leave, { signal });
    axes.addEventListener(
      "focus",
      () => {
        this.here = true;
        this.moved();
      },
      { signal },
    );
    axes.addEventListener(
      "click",
      (e) => {
        store.pinned = false;
        move(e as PointerEvent);
        store.pinned = true;
      },
      { signal },
    );
    axes.addEventListener(
      "keydown",
      (e) => {
        this.here = true;
        handleKey(e, store.cursor, store.size, act);
      },
      { signal },
    );
  }

  draw(width: number): void {
    const { store } = this;
    const value = store.layers.value[0];
    if (!value) return;
    const gradient = store.layers.gradient[0] ?? null;
    this.token = palette(store.root);
    const chosen = (kind: Kind): Scale | null => {
      const { scale, range } = store.choices[kind];
      if (scale === "linear" && range === "data") return null;
      const found = store.scale(kind);
      // Of numbers that are all positive every decade is seen.
      return found.kind === "symlog" && found.lo > 0 ? symlogBetween(found.lo, found.hi, found.lo) : found;
    };
    this.curve = layout(width, store.size.cols, value, gradient, chosen);
    const range = (kind: Kind): [number, number] => {
      const s = store.info[kind];
      const lo = s?.minimum ?? 0;
      const hi = s?.maximum ?? 0;
      if (kind === "value")
        return lo < hi ? [lo, hi] : [lo - (Math.abs(lo) || 1) / 2, lo + (Math.abs(lo) || 1) / 2];
      const most = Math.max(Math.abs(lo), Math.abs(hi)) || 1;
      return [-most, most];
    };
    drawCurves(this.data, this.curve, value, gradient, range, this.token, store.faded(0));
    const beside = areBeside(this.parts.length, width);
    this.under.classList.toggle("one", !beside);
    this.wide = share(beside, width);
    // A curve of values has one colour, so its scale has too.
    const colour = this.token("value");
    this.looks = {
      value: { ...store.look("value", this.token), map: lut([colour, colour]) },
      gradient: store.look("gradient", this.token),
    };
    const bad = [store.info.value?.nan, store.info.gradient?.nan].map((n) => n ?? 0);
    this.axes.setAttribute(
      "aria-label",
      `${store.info.name || "the tensor"}, ${store.size.cols} elements, value${gradient ? " above, gradient below" : ""}, ` +
        `${(bad[0] ?? 0) + (bad[1] ?? 0)} NaN. Arrow keys move.`,
    );
    this.drawCursor();
  }

  showChoices(): void {
    for (const { scales } of this.parts) scales.show();
  }

  drawCursor(): void {
    const { curve, looks, store } = this;
    if (!curve || !looks) return;
    const { cursor } = store;
    const read = (kind: Kind): number => {
      const r = cursor && store.has(kind) ? store.read(kind, cursor) : null;
      return r ? Number(r.values[0]) : Number.NaN;
    };
    const here = { value: read("value"), gradient: read("gradient") };
    drawCursor(this.axes, curve, cursor?.col ?? null, here, this.token);
    for (const { kind, bars } of this.parts) {
      // Without a histogram its axis says nothing that the curve's doesn't.
      bars.el.hidden = bars.few;
      bars.draw(this.wide, LEFT, looks[kind], cursor ? here[kind] : null);
    }
    if (!cursor || !(this.here || store.pinned)) {
      this.card.hide();
      return;
    }
    const y = Number.isFinite(here.value) ? curve.value.y(here.value) : curve.value.top;
    const point = { x: curve.x(cursor.col), y: clamp(y, 0, curve.height) };
    this.card.show(this.pic, cursor, point, { width: curve.width, height: curve.height - 18 });
  }
}
