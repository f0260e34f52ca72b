// The head of an inspector: name, shape, facts, the number itself where there is only one, tools.

import { h, iconButton } from "../lib/dom.ts";
import { bytesText, shapeText } from "../lib/numbers.ts";
import { colourClass } from "./card.ts";
import { WHATS, type What } from "./data.ts";
import { type Format, saveMenu } from "./saving.ts";
import { segments } from "./segments.ts";
import { KINDS, type Store } from "./store.ts";
import { hasTable } from "./table_view.ts";

export interface Tools {
  /** Picture or table. */
  table: boolean;
  setTable(table: boolean): void;
  whole(): void;
  overlay(): void;
  /** Draw what is drawn down across, and the other way round. */
  swap(): void;
  pin(): void;
  /** Show one of two tensors that are compared, or their difference; null ends the comparison. */
  compare(what: What | null): void;
  save(format: Format): void;
}

export function head(store: Store, wait: HTMLElement, tools: Tools): HTMLElement {
  const { info } = store;
  const fact = (text: string, title?: string): HTMLElement | null =>
    text ? h("span", { class: "dim", title }, text) : null;
  const bytes = info.bytes ? bytesText(info.bytes) + (info.gradient ? " + gradient" : "") : "";
  return h(
    "div",
    { class: "head" },
    info.name ? h("span", { class: "name" }, info.name) : null,
    h("span", { class: "mono" }, shapeText(info.shape)),
    fact(info.dtype),
    fact(bytes),
    fact(info.device, info.adapter),
    scalar(store),
    wait,
    hasTable(info) ? toolbar(store, tools) : null,
  );
}

function toolbar(store: Store, tools: Tools): HTMLElement {
  const { info } = store;
  const picture = info.form === "line" ? "line" : "picture";
  const views = segments("view", [picture, "table"], (name) => tools.setTable(name === "table"));
  views.show(tools.table ? "table" : picture);
  const buttons = h(
    "span",
    { class: "buttons" },
    views.el,
    info.form === "picture" && !tools.table
      ? iconButton("whole", "whole slice", "Show the whole slice (0)", () => tools.whole())
      : null,
    info.form === "picture" && info.gradient && !tools.table ? overlay(store, tools) : null,
    info.form === "picture" && !tools.table
      ? iconButton("swap", "swap axes", "Swap rows and columns (X)", () => tools.swap())
      : null,
    iconButton("pin", "pin", "Keep a copy to compare with (P)", () => tools.pin()),
    saveMenu((format) => tools.save(format)),
  );
  const compared = info.compared ? comparison(info.name || "tensor", info.compared, info.what, tools) : null;
  return h("span", { class: "tools" }, compared, buttons);
}

function overlay(store: Store, tools: Tools): HTMLElement {
  const title = "Lay the gradient over the value (O)";
  const button = iconButton("overlay", "overlaid", title, () => tools.overlay());
  button.setAttribute("aria-pressed", String(store.overlaid));
  return button;
}

function comparison(name: string, other: string, what: What, tools: Tools): HTMLElement {
  const short = (text: string): string => (text.length > 16 ? `${text.slice(0, 15)}…` : text);
  const words = [short(name), other === name ? "other" : short(other), "difference"];
  const seg = segments("shown", words, (word) => tools.compare(WHATS[words.indexOf(word)] ?? "tensor"));
  seg.show(words[WHATS.indexOf(what)] ?? "");
  const end = iconButton("cross", "compare no more", "Compare no more", () => tools.compare(null));
  return h("span", { class: "comparison" }, seg.el, end);
}

/** A single number needs no picture: it stands in the head. */
function scalar(store: Store): Node[] {
  const { info } = store;
  if (info.form !== "scalar") return [];
  const out: Node[] = [];
  for (const kind of KINDS) {
    const s = info[kind];
    if (!s) continue;
    const inf = s.posinf ? Number.POSITIVE_INFINITY : Number.NEGATIVE_INFINITY;
    const x = s.nan ? Number.NaN : s.posinf + s.neginf ? inf : s.minimum;
    if (kind === "gradient") out.push(h("span", { "aria-label": "gradient" }, "∂"));
    out.push(h("b", { class: `num ${colourClass(kind, x)}` }, store.text(x)));
  }
  return out;
}
