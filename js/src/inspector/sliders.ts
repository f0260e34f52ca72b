// A slider for each axis that is not drawn.

import { h } from "../lib/dom.ts";
import { type Info, leadAxes } from "./data.ts";

interface Slider {
  axis: number;
  input: HTMLInputElement;
  say(): void;
}

export class Sliders {
  readonly el = h("div", { class: "axes" });
  private readonly sliders: Slider[] = [];
  private readonly rank: number;

  /** `moved` gets an index of all axes, 0 on those that are drawn. */
  constructor(info: Info, moved: (index: number[]) => void) {
    this.rank = info.shape.length;
    for (const axis of leadAxes(info)) {
      const n = info.shape[axis] ?? 1;
      if (n <= 1) continue;
      const input = h("input", {
        type: "range",
        min: 0,
        max: n - 1,
        step: 1,
        value: 0,
        "aria-label": `axis ${axis}`,
        "data-lm-suppress-shortcuts": "true",
      });
      const text = h("span", { class: "num" });
      const say = (): void => {
        input.style.setProperty("--p", `${(Number(input.value) / (n - 1)) * 100}%`);
        text.textContent = `${input.value} of 0–${n - 1}`;
      };
      input.addEventListener("input", () => {
        say();
        moved(this.index());
      });
      say();
      this.sliders.push({ axis, input, say });
      this.el.append(h("label", {}, `axis ${axis}`), input, text);
    }
    this.el.hidden = this.sliders.length === 0;
  }

  private index(): number[] {
    const index = Array<number>(this.rank).fill(0);
    for (const { axis, input } of this.sliders) index[axis] = Number(input.value);
    return index;
  }

  /** Put the sliders to the slice of a place, without telling anyone. */
  show(place: readonly number[]): void {
    for (const { axis, input, say } of this.sliders) {
      input.value = String(place[axis] ?? 0);
      say();
    }
  }

  disable(): void {
    for (const { input } of this.sliders) input.disabled = true;
  }
}
