// The histogram under a picture, and the brush on it: a range of numbers whose elements are marked in both pictures.

import type { Scale } from "../lib/colormap.ts";
import { h, onceAFrame } from "../lib/dom.ts";
import { clamp } from "../lib/view.ts";
import { drawHistogram, HISTOGRAM_HEIGHT } from "./histogram.ts";
import type { Look } from "./picture.ts";
import type { Brush, Kind, Store } from "./store.ts";
import type { Actions } from "./view.ts";

/** Fewer elements than this make no histogram. */
const SAMPLE = 50;
const STEP = 0.01;
/** A brush reaches to here and beyond: what is out of range is drawn at the ends. */
const EDGE = 0.002;

type End = "lo" | "hi";

export class Bars {
  readonly el: HTMLElement;
  private readonly canvas: HTMLCanvasElement;
  private readonly handles: Record<End, HTMLElement>;
  private drag: { from: number; before: Brush | null } | null = null;
  private scale: Scale | null = null;
  private left = 0;
  private width = 1;
  private readonly told = onceAFrame(() => this.act.brushed());

  constructor(
    private readonly kind: Kind,
    private readonly store: Store,
    private readonly act: Actions,
    signal: AbortSignal,
  ) {
    this.canvas = h("canvas", {
      role: "img",
      tabindex: 0,
      "aria-label": `histogram of the ${kind}, whole tensor. Enter marks a range.`,
      title: "Drag to mark elements",
      "data-lm-suppress-shortcuts": "true",
    });
    this.handles = { lo: this.handle("lo", signal), hi: this.handle("hi", signal) };
    this.el = h("div", { class: "hist" }, this.canvas, this.handles.lo, this.handles.hi);
    const { canvas } = this;
    const on = <K extends keyof HTMLElementEventMap>(type: K, f: (e: HTMLElementEventMap[K]) => void): void =>
      canvas.addEventListener(type, f, { signal });
    on("pointerdown", (e) => {
      if (e.button !== 0 || !this.usable) return;
      canvas.setPointerCapture(e.pointerId);
      this.drag = { from: this.at(e), before: store.brush };
    });
    on("pointermove", (e) => {
      if (this.drag && Math.abs(this.at(e) - this.drag.from) * this.width > 2)
        this.set(this.drag.from, this.at(e));
    });
    on("pointerup", (e) => {
      // A press without a drag ends the marking.
      if (this.drag && Math.abs(this.at(e) - this.drag.from) * this.width <= 2) act.brush(null);
      this.drag = null;
    });
    on("pointercancel", () => this.cancel());
    on("keydown", (e) => {
      if (e.key === "Escape" && (this.cancel() || store.brush)) act.brush(null);
      else if ((e.key === "Enter" || e.key === " ") && this.usable) {
        this.set(0.25, 0.75);
        this.handles.lo.focus();
      } else return;
      e.preventDefault();
      e.stopPropagation();
    });
  }

  private get usable(): boolean {
    return this.scale !== null && this.histogram !== null;
  }

  /** Whether there are too few elements for a histogram. */
  get few(): boolean {
    return (this.store.info[this.kind]?.count ?? 0) < SAMPLE;
  }

  private get histogram() {
    return this.few ? null : this.store.histograms[this.kind];
  }

  private handle(end: End, signal: AbortSignal): HTMLElement {
    const el = h("span", {
      class: "grip",
      role: "slider",
      tabindex: 0,
      hidden: true,
      "aria-label": end === "lo" ? "marked from" : "marked to",
      "data-lm-suppress-shortcuts": "true",
    });
    let held = false;
    el.addEventListener(
      "pointerdown",
      (e) => {
        held = e.button === 0;
        el.setPointerCapture(e.pointerId);
        e.stopPropagation();
      },
      { signal },
    );
    el.addEventListener("pointermove", (e) => held && this.move(end, this.at(e)), { signal });
    for (const type of ["pointerup", "pointercancel"] as const)
      el.addEventListener(
        type,
        () => {
          held = false;
        },
        { signal },
      );
    el.addEventListener(
      "keydown",
      (e) => {
        const steps: Record<string, number> = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 };
        const step = steps[e.key];
        const [lo, hi] = this.ends();
        const now = end === "lo" ? lo : hi;
        if (step) this.move(end, now + step * STEP * (e.shiftKey ? 10 : 1));
        else if (e.key === "Home") this.move(end, 0);
        else if (e.key === "End") this.move(end, 1);
        else if (e.key === "Escape") {
          this.act.brush(null);
          this.canvas.focus();
        } else return;
        e.preventDefault();
        e.stopPropagation();
      },
      { signal },
    );
    return el;
  }

  /** The position on the scale of a pointer, 0 to 1. */
  private at(e: PointerEvent): number {
    return clamp((e.clientX - this.canvas.getBoundingClientRect().left - this.left) / this.width, 0, 1);
  }

  private ends(): [number, number] {
    const { brush } = this.store;
    const { scale } = this;
    if (!brush || brush.kind !== this.kind || !scale) return [0, 1];
    const to = (x: number, far: number): number => (Number.isFinite(x) ? clamp(scale.to(x), 0, 1) : far);
    return [to(brush.lo, 0), to(brush.hi, 1)];
  }

  private move(end: End, t: number): void {
    const [lo, hi] = this.ends();
    if (end === "lo") this.set(Math.min(t, hi), hi);
    else this.set(lo, Math.max(t, lo));
  }

  private set(a: number, b: number): void {
    const { scale, kind, store } = this;
    if (!scale) return;
    const lo = Math.min(a, b);
    const hi = Math.max(a, b);
    store.brush = {
      kind,
      lo: lo <= EDGE ? Number.NEGATIVE_INFINITY : scale.from(lo),
      hi: hi >= 1 - EDGE ? Number.POSITIVE_INFINITY : scale.from(hi),
    };
    this.told();
  }

  /** Put back what was marked before the drag that is going on; false where there is none. */
  private cancel(): boolean {
    if (!this.drag) return false;
    this.store.brush = this.drag.before;
    this.drag = null;
    this.told();
    return true;
  }

  draw(width: number, left: number, look: Look, here: number | null): void {
    const { store, kind, histogram } = this;
    this.scale = look.scale;
    this.left = left;
    this.width = Math.max(1, width - left);
    const marked = histogram && store.brush?.kind === kind ? this.ends() : null;
    // Room for it before it has come: nothing below moves when it does.
    drawHistogram(this.canvas, width, left, histogram, look, here, marked, !this.few);
    this.canvas.classList.toggle("brushable", histogram !== null);
    for (const [end, t] of [
      ["lo", marked?.[0] ?? 0],
      ["hi", marked?.[1] ?? 0],
    ] as const) {
      const el = this.handles[end];
      el.hidden = marked === null;
      el.style.left = `${left + t * this.width}px`;
      el.style.height = `${HISTOGRAM_HEIGHT}px`;
      el.setAttribute("aria-valuenow", String(Math.round(t * 100)));
      if (store.brush) el.setAttribute("aria-valuetext", store.bound(store.brush[end]));
    }
  }
}
