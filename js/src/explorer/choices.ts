// One of a few, as a row of buttons.

import { h } from "../lib/dom.ts";

/** Buttons of which one is pressed. */
export function choices(
  label: string,
  names: readonly string[],
  pressed: number,
  chosen: (index: number, group: HTMLElement) => void,
): HTMLElement {
  const group = h("span", { class: "seg", role: "group", "aria-label": label });
  for (const [i, name] of names.entries()) {
    const button = h("button", { type: "button" }, name);
    button.addEventListener("click", () => chosen(i, group));
    group.append(button);
  }
  press(group, pressed);
  return group;
}

export function press(group: HTMLElement, index: number): void {
  for (const [i, button] of [...group.children].entries())
    button.setAttribute("aria-pressed", String(i === index));
}
