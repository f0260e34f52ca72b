// The numbers at the point that is looked at, as a table.

import { chip, h } from "../lib/dom.ts";
import { figures, shortest32 } from "../lib/numbers.ts";

const sign = (v: number): string => (Number.isNaN(v) ? "nan" : v < 0 ? "neg" : v > 0 ? "pos" : "");

/** Numbers in brackets where there are several. */
function several(numbers: HTMLElement[]): (HTMLElement | string)[] {
  if (numbers.length === 1) return numbers;
  return ["(", ...numbers.flatMap((n, i) => (i ? [", ", n] : [n])), ")"];
}

export function hereTable(
  names: string[],
  at: readonly number[],
  value: readonly number[],
  gradient: readonly number[],
): HTMLElement {
  const row = (head: (Node | string)[], cells: (HTMLElement | string)[], name: string): HTMLElement =>
    h("tr", {}, h("th", { scope: "row" }, ...head), h("td", { class: "num", "data-here": name }, ...cells));
  const number = (v: number, kind: string): HTMLElement => h("span", { class: kind }, figures(v));
  const point = at.map((v) => h("span", {}, shortest32(Number(v.toPrecision(5)))));
  const rows = [
    row([names.length > 1 ? `(${names.join(", ")})` : (names[0] ?? "")], several(point), "point"),
    row([chip("value"), "value"], several(value.map((v) => number(v, "value"))), "value"),
  ];
  if (gradient.length) {
    rows.push(
      row([chip("gradient"), "gradient"], several(gradient.map((v) => number(v, sign(v)))), "gradient"),
    );
    if (gradient.length > 1) rows.push(row(["length"], [number(Math.hypot(...gradient), "")], "length"));
  }
  return h("table", { class: "here" }, ...rows);
}
