// A few words of which one is chosen.

import { h } from "../lib/dom.ts";

export interface Segments<T extends string> {
  el: HTMLElement;
  show(chosen: T): void;
  disable(): void;
}

export function segments<T extends string>(
  label: string,
  names: readonly T[],
  choose: (name: T) => void,
): Segments<T> {
  const buttons = names.map((name) => h("button", { type: "button", onclick: () => choose(name) }, name));
  return {
    el: h("span", { class: "seg", role: "group", "aria-label": label }, ...buttons),
    show: (chosen) => {
      for (const [i, button] of buttons.entries())
        button.setAttribute("aria-pressed", String(names[i] === chosen));
    },
    disable: () => {
      for (const button of buttons) button.disabled = true;
    },
  };
}
