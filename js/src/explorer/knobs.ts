// The controls: a slider with a number beside it, a switch, a choice, a colour.

import { h } from "../lib/dom.ts";
import { ascii, shortest64 } from "../lib/numbers.ts";
import { clamp } from "../lib/view.ts";
import type { Info, Knob } from "./data.ts";

interface Control {
  show(value: number): void;
  /** The reader has hold of it: what comes from the kernel is older. */
  held(): boolean;
}

const encode = (v: number): number => (v <= 0.0031308 ? 12.92 * v : 1.055 * v ** (1 / 2.4) - 0.055);
const decode = (v: number): number => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);

/** A number as short as its step allows. */
export function stepped(value: number, knob: Knob): number {
  const inside = clamp(value, knob.low, knob.high);
  const on = knob.low + Math.round((inside - knob.low) / knob.step) * knob.step;
  return Number(clamp(on, knob.low, knob.high).toPrecision(10));
}

export class Knobs {
  readonly el = h("div", { class: "knobs" });
  private readonly controls = new Map<string, Control>();
  readonly values = new Map<string, number>();
  private readonly colours: { paths: string[]; input: HTMLInputElement }[] = [];

  constructor(
    info: Info,
    /** A knob was turned, from a value; `values` has all. A colour turns three, and says none. */
    private readonly turned: (path?: string, from?: number) => void,
  ) {
    const grouped = new Map<string, Knob[]>();
    for (const knob of info.knobs) {
      this.values.set(knob.path, knob.start);
      const channels = grouped.get(knob.group) ?? [];
      if (knob.color) grouped.set(knob.group, [...channels, knob]);
    }
    const done = new Set<string>();
    for (const knob of info.knobs) {
      if (knob.color && !done.has(knob.group)) {
        done.add(knob.group);
        this.el.append(this.colour(knob.group, (grouped.get(knob.group) ?? []).slice(0, 3)));
      }
      this.el.append(this.make(knob));
    }
    const longest = Math.max(2, ...info.knobs.map((k) => k.path.length));
    this.el.style.setProperty("--name", `${Math.min(112, Math.round(longest * 7.9) + 4)}px`);
    // The host has keys of its own for arrows and digits.
    this.el.addEventListener("keydown", (e) => e.key !== "Tab" && e.stopPropagation());
  }

  /** Take the kernel's settings, but for what the reader has hold of. */
  show(values: Map<string, number>): void {
    for (const [path, value] of values) {
      const control = this.controls.get(path);
      if (!control || control.held()) continue;
      this.values.set(path, value);
      control.show(value);
    }
    this.showColours();
  }

  private showColours(): void {
    for (const { paths, input } of this.colours) {
      const hex = paths.map((p) => {
        const level = Math.round(encode(clamp(this.values.get(p) ?? 0, 0, 1)) * 255);
        return level.toString(16).padStart(2, "0");
      });
      input.value = `#${hex.join("")}`;
    }
  }

  private set(path: string, value: number): void {
    const from = this.values.get(path);
    if (from === value) return;
    this.values.set(path, value);
    this.showColours();
    this.turned(path, from);
  }

  private make(knob: Knob): HTMLElement {
    const name = h("span", { class: "nm", title: knob.path }, knob.path);
    if (knob.kind === "bool") return h("div", { class: "knob" }, name, this.switch(knob));
    if (knob.kind === "choice") return h("div", { class: "knob" }, name, this.choice(knob));
    return this.slider(knob, name);
  }

  private slider(knob: Knob, name: HTMLElement): HTMLElement {
    let held = false;
    const range = h("input", {
      type: "range",
      min: knob.low,
      max: knob.high,
      step: knob.step,
      "aria-label": knob.path,
    });
    const field = h("input", {
      class: "number",
      inputmode: "decimal",
      "aria-label": `${knob.path}, the number`,
    });
    const place = (value: number): void => {
      range.value = String(value);
      range.style.setProperty("--p", `${((value - knob.low) / (knob.high - knob.low)) * 100}%`);
    };
    const show = (value: number): void => {
      place(value);
      field.value = shortest64(value);
      field.removeAttribute("aria-invalid");
    };
    const take = (value: number): void => {
      show(value);
      this.set(knob.path, value);
    };
    range.addEventListener("input", () => take(stepped(Number(range.value), knob)));
    range.addEventListener("pointerdown", () => (held = true));
    for (const type of ["pointerup", "pointercancel", "blur"])
      range.addEventListener(type, () => (held = false));
    range.addEventListener("dblclick", () => take(knob.start));
    range.addEventListener("keydown", (e) => {
      const now = this.values.get(knob.path) ?? knob.start;
      const one = knob.step * (e.shiftKey ? 10 : 1);
      const page = Math.max(knob.step, (knob.high - knob.low) / 10);
      const next = {
        ArrowLeft: now - one,
        ArrowDown: now - one,
        ArrowRight: now + one,
        ArrowUp: now + one,
        PageDown: now - page,
        PageUp: now + page,
        Home: knob.low,
        End: knob.high,
      }[e.key];
      if (next === undefined) return;
      e.preventDefault();
      take(stepped(next, knob));
    });
    const read = (): void => {
      const value = Number(ascii(field.value).trim() || Number.NaN);
      const fits = Number.isFinite(value) && value >= knob.low && value <= knob.high;
      field.setAttribute("aria-invalid", String(!fits));
      if (!fits) return;
      const whole = knob.kind === "int" ? Math.round(value) : value;
      place(whole);
      this.set(knob.path, whole);
    };
    field.addEventListener("input", read);
    field.addEventListener("keydown", (e) => {
      if (e.key === "Enter") show(this.values.get(knob.path) ?? knob.start);
    });
    field.addEventListener("blur", () => show(this.values.get(knob.path) ?? knob.start));
    const root = (): Document | ShadowRoot => field.getRootNode() as Document | ShadowRoot;
    this.controls.set(knob.path, { show, held: () => held || root().activeElement === field });
    show(knob.start);
    const ends = h(
      "span",
      { class: "ends", "aria-hidden": "true" },
      h("span", {}, shortest64(knob.low)),
      h("span", {}, shortest64(knob.high)),
    );
    return h("div", { class: "knob" }, name, range, field, ends);
  }

  private switch(knob: Knob): HTMLElement {
    const box = h("input", { type: "checkbox", "aria-label": knob.path });
    box.addEventListener("change", () => this.set(knob.path, box.checked ? 1 : 0));
    const show = (value: number): void => {
      box.checked = value !== 0;
    };
    this.controls.set(knob.path, { show, held: () => false });
    show(knob.start);
    return box;
  }

  private choice(knob: Knob): HTMLElement {
    const options = knob.choices.map((word, i) => h("option", { value: i }, word));
    const select = h("select", { "aria-label": knob.path }, ...options);
    select.addEventListener("change", () => this.set(knob.path, select.selectedIndex));
    const show = (value: number): void => {
      select.selectedIndex = value;
    };
    this.controls.set(knob.path, { show, held: () => false });
    show(knob.start);
    return select;
  }

  private colour(group: string, channels: Knob[]): HTMLElement {
    const input = h("input", { type: "color", "aria-label": `${group}, as a colour` });
    const paths = channels.map((k) => k.path);
    this.colours.push({ paths, input });
    input.addEventListener("input", () => {
      for (const [i, path] of paths.entries()) {
        const level = Number.parseInt(input.value.slice(1 + 2 * i, 3 + 2 * i), 16) / 255;
        const value = Number(decode(level).toPrecision(4));
        this.values.set(path, value);
        this.controls.get(path)?.show(value);
      }
      this.turned();
    });
    return h("div", { class: "knob" }, h("span", { class: "nm", title: group }, group), input);
  }
}
