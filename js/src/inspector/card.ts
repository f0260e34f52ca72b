// The hover card: where, value, gradient and their ratio, beside the cell under the pointer.

import { h } from "../lib/dom.ts";
import { figures } from "../lib/numbers.ts";
import { type Cell, cardPlace } from "../lib/view.ts";
import type { Exact, Kind, Reading, Store } from "./store.ts";

/** The class that colours a number: teal for values, the sign's colour for gradients, the marks' colours otherwise. */
export function colourClass(kind: Kind, x: Exact): string {
  const n = Number(x);
  if (Number.isNaN(n)) return typeof x === "string" ? "value" : "nan";
  if (!Number.isFinite(n)) return "inf";
  if (kind === "value") return "value";
  return n > 0 ? "pos" : n < 0 ? "neg" : "dim";
}

export function readingText(store: Store, r: Reading): string {
  const words = r.values.map((x) => store.text(x)).join(", ");
  const all = r.values.length > 1 ? `(${words})` : words;
  return r.exact ? all : `≈ ${figures(Number(r.values[0]))}`;
}

export class Card {
  readonly el = h("div", { class: "sl-card", hidden: true });
  private hiding: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly store: Store) {}

  /** Show the card in `host` (a positioned element of the given size) beside a point. */
  show(
    host: HTMLElement,
    cell: Cell,
    point: { x: number; y: number },
    area: { width: number; height: number },
  ): void {
    clearTimeout(this.hiding);
    if (this.el.parentElement !== host) host.append(this.el);
    this.fill(cell);
    this.el.hidden = false;
    const size = { width: this.el.offsetWidth, height: this.el.offsetHeight };
    const { left, top } = cardPlace(point, size, area);
    this.el.style.left = `${left}px`;
    this.el.style.top = `${top}px`;
  }

  hide(): void {
    clearTimeout(this.hiding);
    this.hiding = setTimeout(() => {
      this.el.hidden = true;
    }, 80);
  }

  private fill(cell: Cell): void {
    const { store } = this;
    const rows: Node[] = [h("div", { class: "where" }, store.element(cell))];
    const row = (label: string, text: string, cls: string): void => {
      rows.push(h("span", { class: "label" }, label), h("span", { class: `number ${cls}` }, text));
    };
    const readings = { value: store.read("value", cell), gradient: store.read("gradient", cell) };
    for (const kind of ["value", "gradient"] as const) {
      const r = readings[kind];
      if (!r) continue;
      row(kind, readingText(store, r), colourClass(kind, r.values[0] ?? 0));
      if (!r.exact && r.minimum < r.maximum)
        row("", `${figures(r.minimum, 3)} to ${figures(r.maximum, 3)} in its block`, "dim");
    }
    const { value: v, gradient: g } = readings;
    if (v?.exact && g?.exact && v.values.length === 1 && g.values.length === 1 && !store.pooled) {
      const ratio = Math.abs(Number(g.values[0]) / Number(v.values[0]));
      row("|grad| / |value|", Number.isFinite(ratio) ? figures(ratio, 3) : "–", "");
    }
    this.el.replaceChildren(...rows);
  }
}
