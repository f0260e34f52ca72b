// For each axis that is not drawn a slider, or one number of all along it: the mean or the greatest.

import { h } from "../lib/dom.ts";
import { type Info, leadAxes, type Pooled } from "./data.ts";
import { type Segments, segments } from "./segments.ts";

const WAYS = ["one", "mean", "max"] as const;
type Way = (typeof WAYS)[number];

interface Slider {
  axis: number;
  input: HTMLInputElement;
  way: Way;
  ways: Segments<Way>;
  say(): void;
}

export class Sliders {
  readonly el = h("div", { class: "axes" });
  private readonly sliders: Slider[] = [];
  private readonly rank: number;

  /** `moved` gets an index of all axes, 0 on those that are drawn, and the axes that are reduced. */
  constructor(
    info: Info,
    private readonly moved: (index: number[], pooled: Pooled | null) => void,
  ) {
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
      const ways = segments(`axis ${axis} shows`, WAYS, (way) => this.reduce(slider, way));
      const say = (): void => {
        input.style.setProperty("--p", `${(Number(input.value) / (n - 1)) * 100}%`);
        text.textContent = slider.way === "one" ? `${input.value} of 0–${n - 1}` : `${slider.way} of ${n}`;
        input.disabled = slider.way !== "one" || this.lost;
        ways.show(slider.way);
      };
      const slider: Slider = { axis, input, way: "one", ways, say };
      input.addEventListener("input", () => {
        say();
        this.tell();
      });
      say();
      this.sliders.push(slider);
      this.el.append(h("label", {}, `axis ${axis}`), input, text, ways.el);
    }
    this.el.hidden = this.sliders.length === 0;
  }

  private lost = false;

  private reduce(slider: Slider, way: Way): void {
    slider.way = way;
    // All axes that are reduced are reduced together, so in one way.
    for (const other of this.sliders) {
      if (way !== "one" && other.way !== "one") other.way = way;
      other.say();
    }
    this.tell();
  }

  private tell(): void {
    const index = Array<number>(this.rank).fill(0);
    for (const { axis, input, way } of this.sliders) index[axis] = way === "one" ? Number(input.value) : 0;
    const axes = this.sliders.filter((s) => s.way !== "one").map((s) => s.axis);
    const by = this.sliders.find((s) => s.way !== "one")?.way;
    this.moved(index, by && by !== "one" ? { axes, by } : null);
  }

  /** Put the sliders to the slice of a place, without telling anyone. */
  show(place: readonly number[], pooled: Pooled | null): void {
    for (const slider of this.sliders) {
      const reduced = pooled?.axes.includes(slider.axis) ?? false;
      slider.way = pooled && reduced ? pooled.by : "one";
      if (!reduced) slider.input.value = String(place[slider.axis] ?? 0);
      slider.say();
    }
  }

  disable(): void {
    this.lost = true;
    for (const { say, ways } of this.sliders) {
      say();
      ways.disable();
    }
  }
}
