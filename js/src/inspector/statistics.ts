// The same numbers as a real table: one row for the value, one for the gradient; turned on its side where it is narrow.

import { chip, h } from "../lib/dom.ts";
import { count, figures } from "../lib/numbers.ts";
import { isWhole, type Statistics } from "./data.ts";
import { KINDS, type Store } from "./store.ts";

const HEADS = ["min", "max", "mean", "std", "zero", "NaN", "Inf"];

function cells(s: Statistics, whole: boolean, jump: (() => void) | null): (Node | string)[] {
  // Without a finite element there is nothing to take a minimum of.
  const some = s.count > s.nan + s.posinf + s.neginf;
  const number = (x: number): string => (some ? figures(x) : "–");
  const extreme = (x: number): string => (some && whole ? count(x) : number(x));
  const nan = jump
    ? h("button", { type: "button", title: "Go to the next one (N)", onclick: jump }, `${count(s.nan)} NaN`)
    : h("b", { class: "nan" }, `× ${count(s.nan)}`);
  const infinities = [
    s.posinf && `∧ ${count(s.posinf)} +Inf`,
    s.neginf && `∨ ${count(s.neginf)} −Inf`,
  ].filter(Boolean);
  return [
    extreme(s.minimum),
    extreme(s.maximum),
    number(s.mean),
    number(s.std),
    count(s.zeros),
    s.nan ? nan : "0",
    infinities.length ? h("b", { class: "inf" }, infinities.join(", ")) : "0",
  ];
}

export function statisticsTable(store: Store, narrow: boolean, jump: (() => void) | null): HTMLElement {
  const columns: (Node | string)[][] = [];
  const names: (Element | string)[][] = [];
  for (const kind of KINDS) {
    const s = store.info[kind];
    if (!s) continue;
    columns.push(cells(s, isWhole(store.info.dtype), jump));
    names.push([chip(kind), kind]);
  }
  for (const { name, dtype, statistics } of store.info.fields) {
    columns.push(statistics ? cells(statistics, isWhole(dtype), null) : HEADS.map(() => "–"));
    names.push([h("code", {}, name), ` ${dtype}`]);
  }
  if (columns.length === 0) return h("div");
  const th = (scope: string, ...kids: Parameters<typeof h>[2][]): Element => h("th", { scope }, ...kids);
  const td = (kid: Node | string | undefined): Element => h("td", { class: "num" }, kid);
  const caption = th("col", "whole tensor");
  const table = narrow
    ? h(
        "table",
        {},
        h("thead", {}, h("tr", {}, caption, ...names.map((name) => th("col", ...name)))),
        h(
          "tbody",
          {},
          ...HEADS.map((head, i) => h("tr", {}, th("row", head), ...columns.map((c) => td(c[i])))),
        ),
      )
    : h(
        "table",
        {},
        h("thead", {}, h("tr", {}, caption, ...HEADS.map((head) => th("col", head)))),
        h("tbody", {}, ...columns.map((c, i) => h("tr", {}, th("row", ...(names[i] ?? [])), ...c.map(td)))),
      );
  return h("div", { class: narrow ? "statistics sideways" : "statistics" }, table);
}
