// The controls under a histogram: the scale, and where its range comes from.

import { h } from "../lib/dom.ts";
import { ascii, figures } from "../lib/numbers.ts";
import { type Choice, type RangeName, rangeNames, type ScaleName, scaleNames } from "./choices.ts";
import { segments } from "./segments.ts";
import type { Kind, Store } from "./store.ts";

const WORDS: Record<RangeName, [string, string]> = {
  data: ["min to max", "max"],
  "99.9": ["99.9 %", "99.9 %"],
  "99": ["99 %", "99 %"],
  "3 sigma": ["3 σ", "3 σ"],
  typed: ["typed", "typed"],
};

/** A number as people type it, with either minus sign; null where it is none. */
export function typedNumber(text: string): number | null {
  const plain = ascii(text).trim();
  const x = Number(plain);
  return plain !== "" && Number.isFinite(x) ? x : null;
}

export class Scales {
  readonly el: HTMLElement;
  private readonly scale: ReturnType<typeof segments<ScaleName>>;
  private readonly range: HTMLSelectElement;
  private readonly inputs: { lo: HTMLInputElement; hi: HTMLInputElement };
  private readonly typed: HTMLElement;
  private readonly zero = h("span", { class: "dim" }, "centred at 0");
  private readonly centred: boolean;

  constructor(
    private readonly kind: Kind,
    private readonly store: Store,
    private readonly changed: () => void,
  ) {
    this.centred = store.centred(kind);
    const names = scaleNames(this.centred);
    this.scale = segments(`scale of the ${kind}`, names, (scale) => this.choose({ scale }));
    this.range = h(
      "select",
      { "aria-label": `range of the ${kind}`, onchange: () => this.pick() },
      ...rangeNames().map((name) => h("option", { value: name }, WORDS[name][this.centred ? 1 : 0])),
    );
    const field = (end: "lo" | "hi", label: string): HTMLInputElement =>
      h("input", {
        type: "text",
        inputmode: "decimal",
        class: "number",
        "aria-label": label,
        "data-lm-suppress-shortcuts": "true",
        onchange: () => this.type(end),
        onkeydown: (e: KeyboardEvent) => e.stopPropagation(),
      });
    this.inputs = { lo: field("lo", "range from"), hi: field("hi", this.centred ? "limit" : "range to") };
    this.typed = this.centred
      ? h("span", { class: "typed" }, "±", this.inputs.hi)
      : h("span", { class: "typed" }, this.inputs.lo, "to", this.inputs.hi);
    this.el = h(
      "div",
      { class: "scale" },
      this.scale.el,
      h("label", { class: "dim" }, "range ", this.range),
      this.typed,
      this.zero,
    );
    this.show();
  }

  private choose(part: Partial<Choice>): void {
    this.store.choices[this.kind] = { ...this.store.choices[this.kind], ...part };
    this.show();
    this.changed();
  }

  private pick(): void {
    const range = this.range.value as RangeName;
    if (range !== "typed") {
      this.choose({ range });
      return;
    }
    // What is on the screen is where typing begins.
    const { lo, hi } = this.store.scale(this.kind);
    this.choose({ range, lo, hi });
    const { lo: first, hi: second } = this.inputs;
    (this.centred ? second : first).focus();
  }

  private type(end: "lo" | "hi"): void {
    const x = typedNumber(this.inputs[end].value);
    const before = this.store.choices[this.kind];
    const lo = end === "lo" ? (x ?? before.lo) : before.lo;
    const hi = end === "hi" ? (x ?? before.hi) : before.hi;
    const good = x !== null && (this.centred ? hi > 0 : lo < hi);
    this.inputs[end].setAttribute("aria-invalid", String(!good));
    if (good) this.choose({ lo, hi });
  }

  /** Show what is chosen. */
  show(): void {
    const choice = this.store.choices[this.kind];
    this.scale.show(choice.scale);
    this.range.value = choice.range;
    // A rank has no range.
    this.range.disabled = choice.scale === "rank";
    this.zero.hidden = !this.centred || choice.range === "typed";
    this.typed.hidden = choice.range !== "typed" || choice.scale === "rank";
    for (const end of ["lo", "hi"] as const) {
      const input = this.inputs[end];
      if (input.getRootNode() instanceof Node && input.matches(":focus")) continue;
      input.value = figures(choice[end], 5);
      input.setAttribute("aria-invalid", "false");
    }
  }
}
