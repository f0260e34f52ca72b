// For each axis that is not drawn a slider, or one number of all along it: the mean or the greatest.

import { h } from "../lib/dom.ts";
import { type Info, leadAxes, type Pooled } from "./data.ts";
import { type Segments, segments } from "./segments.ts";

const WAYS = ["one", "mean", "max"] as const;
type Way = (typeof WAYS)[number];

export interface Turns {
  /** Gets an index of all axes, 0 on those that are drawn, and the axes that are reduced. */
  moved(index: number[], pooled: Pooled | null): void;
  /** Gets the axes that are to be drawn down and across. */
  turned(down: number, across: number): void;
}

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

  private readonly selects: HTMLSelectElement[] = [];

  constructor(
    info: Info,
    private readonly on: Turns,
  ) {
    this.rank = info.shape.length;
    if (info.form === "picture" && this.rank > 2) this.el.append(this.turns(info));
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
    this.el.hidden = this.el.childElementCount === 0;
  }

  /** Two menus: the axes that are drawn. An axis that is chosen for one and was the other's swaps the two. */
  private turns({ shape, axes: { row, col } }: Info): HTMLElement {
    const drawn = [row ?? 0, col ?? 0];
    const menu = (place: 0 | 1, label: string): HTMLElement => {
      const choose = (): void => {
        const chosen = Number(select.value);
        const other = drawn[1 - place] ?? 0;
        const pair = [chosen, chosen === other ? (drawn[place] ?? 0) : other];
        this.on.turned(pair[place] ?? 0, pair[1 - place] ?? 0);
      };
      const select = h(
        "select",
        { "aria-label": `axis drawn ${label}`, onchange: choose },
        ...shape.map((n, axis) =>
          h("option", { value: axis, selected: axis === drawn[place] }, `axis ${axis} (${n})`),
        ),
      );
      this.selects.push(select);
      return h("span", {}, `${label} `, select);
    };
    return h("div", { class: "turns" }, menu(0, "down"), menu(1, "across"));
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
    this.on.moved(index, by && by !== "one" ? { axes, by } : null);
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
    for (const select of this.selects) select.disabled = true;
    for (const { say, ways } of this.sliders) {
      say();
      ways.disable();
    }
  }
}
