// The buttons, the learning rate, the progress bar and the facts under it.

import { h, type IconName, icon } from "../lib/dom.ts";
import { count, figures } from "../lib/numbers.ts";
import type { Info, Now } from "./data.ts";

/** Decades that the learning rate's slider goes to each side. */
const DECADES = 3;

/** Words, a number, words. */
type Fact = [string, string, string];

export interface Wishes {
  control(what: "play" | "pause" | "step" | "stop"): void;
  rate(rate: number): void;
}

/** Seconds as people read them. */
export function seconds(s: number): string {
  if (s < 0.9995e-3) return s < 5e-7 ? "<1 µs" : `${Math.round(s * 1e6)} µs`;
  if (s < 0.0995) return `${(s * 1e3).toPrecision(2)} ms`;
  if (s < 0.9995) return `${Math.round(s * 1e3)} ms`;
  if (s < 60) return `${s.toFixed(1)} s`;
  const minutes = Math.floor(s / 60);
  return minutes < 60
    ? `${minutes} min ${Math.round(s - 60 * minutes)} s`
    : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export class Bar {
  readonly el: HTMLElement;
  private readonly play: HTMLButtonElement;
  private readonly step: HTMLButtonElement;
  private readonly stop: HTMLButtonElement;
  private readonly slider: HTMLInputElement | null = null;
  private readonly rate = h("span", { class: "num" });
  private readonly fill = h("i");
  private readonly track: HTMLElement;
  private readonly facts = h("div", { class: "facts" });
  private asked = "";
  private middle: number | null = null;
  private dragged = 0;
  private now: Now | null = null;
  private dead = false;
  private label = "";
  private shownFacts: string[] = [];
  private numbers: HTMLElement[] = [];
  private shownRate: number | null = null;

  constructor(
    private readonly info: Info,
    private readonly wishes: Wishes,
  ) {
    const button = (name: IconName, label: string, title: string, press: () => void): HTMLButtonElement =>
      h("button", { type: "button", class: `solid ${name}`, title, onclick: press }, icon(name), label);
    this.play = button("pause", "pause", "Pause before the next step (Space)", () => this.toggle());
    this.step = button("step", "step", "Do one step, then wait (S)", () => this.ask("step"));
    this.stop = button("stop", "stop", "Stop, and keep everything (Esc)", () => this.ask("stop"));
    this.track = h(
      "div",
      {
        class: "track",
        role: "progressbar",
        "aria-label": "steps",
        "aria-valuemin": 0,
        "aria-valuemax": info.total,
      },
      this.fill,
    );
    let rate: HTMLElement | null = null;
    if (info.rate) {
      this.slider = h("input", {
        type: "range",
        min: -DECADES,
        max: DECADES,
        step: 0.01,
        value: 0,
        "aria-label": "learning rate, logarithmic",
        "data-lm-suppress-shortcuts": "true",
        oninput: () => this.slide(),
        ondblclick: () => this.slide(0),
      });
      rate = h(
        "label",
        { class: "rate" },
        h("span", { class: "dim" }, "learning rate"),
        this.slider,
        this.rate,
      );
    }
    this.el = h(
      "div",
      {},
      h("div", { class: "controls" }, this.play, this.step, this.stop, rate),
      h("div", { class: "progress" }, this.track),
      this.facts,
    );
  }

  /** Whether the loop waits, or will as soon as what was asked is done. A step that is being done counts: after it the loop waits. */
  get waits(): boolean {
    if (this.asked === "play") return false;
    return this.asked === "pause" || this.asked === "step" || this.now?.waits === true;
  }

  get ended(): boolean {
    return this.dead || this.now?.phase === "ended";
  }

  toggle(): void {
    this.ask(this.waits ? "play" : "pause");
  }

  /** Show at once what was asked; the kernel's next frame says what came of it. */
  ask(what: "play" | "pause" | "step" | "stop"): void {
    if (this.ended) return;
    this.asked = what;
    this.wishes.control(what);
    this.show();
  }

  private slide(to?: number): void {
    if (!this.slider || this.middle === null) return;
    if (to !== undefined) this.slider.value = String(to);
    const rate = this.middle * 10 ** Number(this.slider.value);
    this.dragged = performance.now();
    this.showRate(rate);
    this.wishes.rate(Number(rate.toPrecision(3)));
  }

  private showRate(rate: number): void {
    this.shownRate = rate;
    this.rate.textContent = figures(rate, 3);
    if (!this.slider) return;
    const t = (Number(this.slider.value) + DECADES) / (2 * DECADES);
    this.slider.style.setProperty("--p", `${100 * t}%`);
    this.slider.setAttribute("aria-valuetext", figures(rate, 3));
  }

  /** The word for the state, and its class. */
  state(): [string, string] {
    const now = this.now;
    if (!now) return ["starting", ""];
    if (now.phase === "ended") {
      if (now.stopped === "nan") return ["stopped", "nan"];
      if (now.stopped === "error") return ["ended by an error", "err"];
      if (now.stopped === "interrupted") return [`interrupted at step ${count(now.done)}`, "warn"];
      return [
        now.stopped === "left" ? "left early" : (now.stopped ?? "done"),
        now.stopped === "done" ? "ok" : "",
      ];
    }
    if (this.asked === "stop") return ["stopping", ""];
    if (this.asked === "pause" && now.phase !== "paused") return ["pausing", ""];
    return [now.phase, now.phase === "running" ? "ok" : ""];
  }

  /** Take note of what the kernel says; `show` draws it. */
  update(now: Now): void {
    const before = this.now?.phase;
    this.now = now;
    // What was asked has come, or the run has ended.
    if (
      now.phase === "ended" ||
      (this.asked === "pause" && now.phase === "paused") ||
      (this.asked === "play" && !now.waits) ||
      (this.asked === "step" && (now.phase === "paused" || before === "paused"))
    )
      this.asked = "";
    if (now.lr !== null && this.slider) {
      this.middle ??= now.lr > 0 ? now.lr : 1e-3;
      // Not under the finger.
      if (now.lr !== this.shownRate && performance.now() - this.dragged > 700) {
        const at = now.lr > 0 ? Math.log10(now.lr / this.middle) : -DECADES;
        this.slider.value = String(Math.max(-DECADES, Math.min(DECADES, at)));
        this.showRate(now.lr);
      }
    }
  }

  lost(): void {
    this.dead = true;
    this.show();
  }

  /** Write what has changed since the last time, and nothing else: the page lays out what is written. */
  show(): void {
    const now = this.now;
    const goes = !this.ended && this.waits;
    const [name, label]: [IconName, string] = goes ? ["play", "play"] : ["pause", "pause"];
    const title = goes ? "Go on (Space)" : "Pause before the next step (Space)";
    if (label !== this.label) {
      this.label = label;
      this.play.replaceChildren(icon(name), label);
      this.play.className = `solid ${name}`;
      this.play.title = title;
    }
    for (const one of [this.play, this.step, this.stop]) one.disabled = this.ended || this.asked === "stop";
    if (this.slider) this.slider.disabled = this.ended;
    if (!now) return;
    const { total } = this.info;
    // Moved, not stretched: that takes no layout.
    this.fill.style.transform = `translateX(${total ? (100 * now.done) / total - 100 : 0}%)`;
    this.track.classList.toggle("bad", now.trouble !== null);
    this.track.setAttribute("aria-valuenow", String(now.done));
    const timed = now.phase === "ended" || now.left === null;
    this.showFacts([
      ["step ", count(now.done), ` of ${count(total)}`],
      ["", now.speed >= 100 ? count(Math.round(now.speed)) : figures(now.speed, 3), " steps/s"],
      timed ? ["took ", seconds(now.took), ""] : ["", seconds(now.left ?? 0), " left"],
      ...Object.entries(now.scalars).map(
        ([key, x]): Fact => [`${key} `, x === null ? "" : figures(x, 3), ""],
      ),
    ]);
  }

  /** The numbers of the same facts as before are written into the same places. */
  private showFacts(facts: Fact[]): void {
    const words = facts.map(([before, , after]) => `${before}|${after}`);
    if (words.join("\n") !== this.shownFacts.join("\n")) {
      this.shownFacts = words;
      this.numbers = facts.map(() => h("span", { class: "num" }));
      this.facts.replaceChildren(
        ...facts.map(([before, , after], i) => h("span", {}, before, this.numbers[i], after)),
      );
    }
    for (const [i, [, text]] of facts.entries()) {
      const place = this.numbers[i];
      if (place && place.textContent !== text) place.textContent = text;
    }
  }
}
