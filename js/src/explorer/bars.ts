// Which knob matters here: for each input its gradient at the point, as a bar of what a turn over its whole range would do.

import { h } from "../lib/dom.ts";
import { figures } from "../lib/numbers.ts";
import type { Info } from "./data.ts";

export interface Row {
  path: string;
  gradient: number;
  /** More about it, for the pointer. */
  title: string;
}

const sign = (v: number): string => (Number.isNaN(v) ? "nan" : v < 0 ? "neg" : v > 0 ? "pos" : "dim");

export class Bars {
  readonly el = h("div", { class: "bars" });
  private readonly spans = new Map<string, number>();
  private readonly rows = new Map<string, { row: HTMLElement; bar: HTMLElement; text: HTMLElement }>();

  constructor(
    info: Info,
    /** Which strips are drawn, where there are some: a press on a name adds or takes away one. */
    private readonly shown: Set<string> | null,
    private readonly changed: () => void,
  ) {
    for (const part of [...info.axes, ...info.knobs]) this.spans.set(part.path, part.high - part.low);
  }

  show(rows: Row[]): void {
    const weight = (row: Row): number => Math.abs(row.gradient) * (this.spans.get(row.path) ?? 1);
    const most = Math.max(...rows.map(weight).filter(Number.isFinite), 0);
    for (const row of rows) {
      const parts = this.rows.get(row.path) ?? this.add(row.path);
      const share = most > 0 && Number.isFinite(row.gradient) ? weight(row) / most : 0;
      const negative = row.gradient < 0;
      parts.bar.style.cssText = `width:${(share * 50).toFixed(2)}%;${negative ? "right" : "left"}:50%`;
      parts.bar.className = negative ? "under" : "over";
      parts.text.textContent = figures(row.gradient, 4);
      parts.text.className = `num ${sign(row.gradient)}`;
      parts.row.title = row.title;
    }
    for (const [path, { row }] of this.rows) row.hidden = !rows.some((r) => r.path === path);
  }

  private add(path: string): { row: HTMLElement; bar: HTMLElement; text: HTMLElement } {
    const bar = h("i");
    const text = h("span", { class: "num", "data-path": path });
    const name = this.shown ? this.toggle(path, this.shown) : h("span", { class: "nm" }, `∂${path}`);
    const row = h(
      "div",
      { class: "bar" },
      name,
      h("span", { class: "track", "aria-hidden": "true" }, bar),
      text,
    );
    this.el.append(row);
    const parts = { row, bar, text };
    this.rows.set(path, parts);
    return parts;
  }

  private toggle(path: string, shown: Set<string>): HTMLElement {
    const button = h(
      "button",
      { type: "button", class: "nm", "aria-pressed": shown.has(path), title: "Draw its curve, or not" },
      `∂${path}`,
    );
    button.setAttribute("aria-pressed", String(shown.has(path)));
    button.addEventListener("click", () => {
      if (!shown.delete(path)) shown.add(path);
      button.setAttribute("aria-pressed", String(shown.has(path)));
      this.changed();
    });
    return button;
  }
}
