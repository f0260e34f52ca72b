// The head of an inspector: name, shape, facts, the number itself where there is only one, tools.

import { h, iconButton } from "../lib/dom.ts";
import { bytesText, shapeText } from "../lib/numbers.ts";
import { colourClass } from "./card.ts";
import { KINDS, type Store } from "./store.ts";

export function head(store: Store, wait: HTMLElement, whole: () => void): HTMLElement {
  const { info } = store;
  const fact = (text: string, title?: string): HTMLElement | null =>
    text ? h("span", { class: "dim", title }, text) : null;
  const bytes = info.bytes ? bytesText(info.bytes) + (info.gradient ? " + gradient" : "") : "";
  const tools = h(
    "span",
    { class: "tools" },
    iconButton("whole", "whole slice", "Show the whole slice (0)", whole),
  );
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
    info.form === "picture" ? tools : null,
  );
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
