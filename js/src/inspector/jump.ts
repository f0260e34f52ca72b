// The list of what is not finite in the slice shown: a press goes there.

import { chip, h } from "../lib/dom.ts";
import { count } from "../lib/numbers.ts";
import type { Cell } from "../lib/view.ts";
import { type Layer, leadAxes, worst } from "./data.ts";
import { KINDS, type Kind, type Store } from "./store.ts";

const CHIPS = 10;

export interface Place {
  cell: Cell;
  /** What the texels at this place hold, by picture. */
  flags: Partial<Record<Kind, number>>;
  /** The block around the cell, in cells; 1 by 1 where the place is exact. */
  block: readonly [number, number];
}

/**
 * Places that hold an element that is not finite, in reading order, value and gradient of one place together. Where a
 * finer layer lies over a coarser one, its places are taken.
 */
export function places(layers: Partial<Record<Kind, readonly Layer[]>>): Place[] {
  const found = new Map<string, Place>();
  for (const kind of KINDS) {
    const all = layers[kind] ?? [];
    for (const [depth, layer] of all.entries()) {
      const over = all.slice(depth + 1);
      for (const i of layer.notFinite()) {
        const cell = layer.cell(i);
        if (over.some((finer) => finer.at(cell))) continue;
        const key = `${cell.row},${cell.col}`;
        const place = found.get(key) ?? { cell, flags: {}, block: layer.block };
        place.flags[kind] = layer.flags[i] ?? 0;
        found.set(key, place);
      }
    }
  }
  return [...found.values()].sort((a, b) => a.cell.row - b.cell.row || a.cell.col - b.cell.col);
}

const glyph = (flags: number): Element => {
  const what = worst(flags);
  const name = Number.isNaN(what) ? "NaN" : what > 0 ? "+Inf" : "−Inf";
  const sign = Number.isNaN(what) ? "×" : what > 0 ? "∧" : "∨";
  return h("b", { class: Number.isNaN(what) ? "nan" : "inf", title: name, "aria-label": name }, sign);
};

export function jumpList(store: Store, all: readonly Place[], go: (place: Place) => void): HTMLElement {
  const list = h("div", { class: "jump", role: "group", "aria-label": "elements that are not finite" });
  if (all.length === 0) return list;
  const lead = leadAxes(store.info);
  const slice = lead.length
    ? ` at ${lead.map((axis) => `axis ${axis} = ${store.pooled?.axes.includes(axis) ? "any" : store.index[axis]}`).join(", ")}`
    : "";
  list.append(h("span", { class: "dim" }, `not finite${slice}:`));
  for (const place of all.slice(0, CHIPS)) {
    const { cell, flags } = place;
    const here = store.cursor?.row === cell.row && store.cursor.col === cell.col;
    const marks = KINDS.flatMap((kind) => (flags[kind] ? [chip(kind), glyph(flags[kind])] : []));
    // A block is named by its middle element until a finer picture says which one it is.
    const near = place.block[0] * place.block[1] > 1 ? "near " : "";
    list.append(
      h(
        "button",
        { type: "button", "aria-current": here ? "true" : "false", onclick: () => go(place) },
        near + store.placeText(cell),
        ...marks,
      ),
    );
  }
  if (all.length > CHIPS)
    list.append(h("span", { class: "dim" }, `and ${count(all.length - CHIPS)} more places (N)`));
  return list;
}
