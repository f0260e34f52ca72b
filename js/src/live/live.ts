// A run on the page: everything shares one x, the steps.

import type { Channel, Message } from "../lib/channel.ts";
import { chip, h } from "../lib/dom.ts";
import { count, figures } from "../lib/numbers.ts";
import { Pacer } from "../lib/pacer.ts";
import { Painter } from "../lib/painter.ts";
import { palette, type Theme } from "../lib/theme.ts";
import type { Frame } from "./axis.ts";
import { Bar } from "./bar.ts";
import type { Curve } from "./curve.ts";
import { type Info, type Now, RunData, readShots, type Shot } from "./data.ts";
import { LossPlot } from "./loss.ts";
import { Notes } from "./notes.ts";
import { ParamTable } from "./params.ts";
import { Pictures } from "./pictures.ts";
import { drawStrip } from "./strip.ts";

const NARROW = 620;
const SIDE = 236;
const GAP = 24;
/** Frames a second where motion is to be reduced. */
const CALM = 4;

/** What a reader chose, which outlives the view: hosts make a new one when an output is updated. */
export interface Choices {
  log: boolean | null;
  before: Curve | null;
  last: RunData | null;
}

interface Kept {
  at: number;
  step: number;
  loss: number | null;
  norms: Record<string, number | null>;
  shots: Shot[];
}

export class Live {
  private readonly data: RunData;
  private readonly bar: Bar;
  private readonly table: ParamTable | null;
  private readonly pictures = new Pictures();
  private readonly plot: LossPlot;
  private readonly state = h("b", { class: "state", "aria-live": "polite" });
  private readonly notes = new Notes((state) => this.channel?.send("restore", { state }));
  private readonly read = h("span", { class: "under num" });
  private readonly log: HTMLButtonElement;
  private readonly linear: HTMLButtonElement;
  private readonly strip: HTMLCanvasElement | null;
  private readonly lossEl = h("div", { class: "loss", role: "img" });
  private readonly scrub: HTMLElement;
  private readonly slider: HTMLInputElement;
  private readonly at = h("span", { class: "num" });
  private readonly empty = h("p", { class: "dim first" }, "The first point appears after step 1.");
  private channel: Channel | null = null;
  private kept: Kept | null = null;
  private drawnAt = 0;
  /** What does not change from a frame to the next: where the reader, the theme or the width did, all is drawn anew. */
  private drawn = "";
  readonly painter = new Painter(() => this.paint());
  private dead = false;
  private readonly pacer: Pacer<number>;

  constructor(
    private readonly info: Info,
    private readonly root: HTMLElement,
    private readonly choices: Choices,
  ) {
    this.data = new RunData(info);
    // A run that follows another one on the same plot leaves that in grey.
    if (choices.last && choices.last.info.run !== info.run) choices.before = choices.last.loss;
    choices.last = this.data;
    this.pacer = new Pacer<number>((state) => this.channel?.send("look", { state }));
    this.bar = new Bar(info, {
      control: (what) => {
        this.channel?.send("control", { do: what, run: info.run });
        this.showState();
      },
      rate: (rate) => this.channel?.send("rate", { rate }),
    });
    const scale = (name: string, log: boolean): HTMLButtonElement =>
      h("button", { type: "button", onclick: () => this.choose(log) }, name);
    this.linear = scale("linear", false);
    this.log = scale("log", true);
    this.plot = new LossPlot(this.lossEl, (at) => {
      this.read.textContent = at ? `step ${count(at.step)}: ${figures(at.loss, 4)}` : "";
    });
    const graded = info.params.length > 0;
    this.strip = graded
      ? h("canvas", { role: "img", "aria-label": "spread of gradient magnitudes over the steps" })
      : null;
    this.table = graded ? new ParamTable(info.params) : null;
    this.slider = h("input", {
      type: "range",
      min: 0,
      max: 1,
      step: 1,
      value: 1,
      "aria-label": "kept states",
      "data-lm-suppress-shortcuts": "true",
      oninput: () => this.look(),
    });
    this.scrub = h(
      "div",
      { class: "scrub" },
      h("span", { class: "dim" }, "kept states"),
      this.slider,
      this.at,
    );
    this.scrub.hidden = true;
    const elements = info.params.reduce((n, p) => n + p.numbers, 0);
    const facts = [
      info.optimizer,
      graded ? `${count(info.params.length)} parameter${info.params.length === 1 ? "" : "s"}` : "",
      graded ? `${count(elements)} number${elements === 1 ? "" : "s"}` : "",
    ].filter(Boolean);
    root.append(
      h(
        "div",
        { class: "head" },
        info.name ? h("span", { class: "name" }, info.name) : null,
        this.state,
        h("span", { class: "dim" }, facts.join(", ")),
      ),
      this.notes.el,
      this.bar.el,
      h(
        "div",
        { class: "body" },
        h(
          "div",
          { class: "plots" },
          h(
            "h4",
            {},
            "loss",
            this.read,
            h(
              "span",
              { class: "seg", role: "group", "aria-label": "scale of the loss" },
              this.linear,
              this.log,
            ),
          ),
          this.empty,
          this.lossEl,
          this.strip
            ? h(
                "div",
                { class: "measured" },
                h(
                  "h4",
                  {},
                  chip("gradient"),
                  "|gradient|, all parameters",
                  h("span", { class: "dim" }, "share of elements at each look"),
                ),
                this.strip,
              )
            : null,
          this.scrub,
        ),
        this.pictures.el,
      ),
      this.table?.el ?? "",
    );
    root.onkeydown = (e) => this.key(e);
    this.showState();
  }

  start(channel: Channel): void {
    this.channel = channel;
    if (channel.alive()) channel.ready();
    else this.lost();
  }

  /** Take a message; the promise is kept when it has been drawn. */
  receive(m: Message): void | Promise<void> {
    if (m.kind === "points") {
      if (m.meta.run !== this.info.run) return undefined;
      if (!this.data.receive(m)) {
        this.channel?.send("ready");
        return undefined;
      }
      const now = this.data.now;
      if (now) this.bar.update(now);
      // A pause and the end show at once; frames of a run at the page's next one, however many came.
      if (now?.phase !== "running") {
        this.draw();
        return undefined;
      }
      const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
      if (calm && performance.now() - this.drawnAt < 1000 / CALM) return undefined;
      return this.painter.soon();
    } else if (m.kind === "state") {
      this.pacer.done();
      const { state, step, loss, norms } = m.meta;
      // The reader may be back at the end by now.
      if (typeof state === "number" && this.slider.value === String(state) && typeof step === "number")
        this.kept = {
          at: state,
          step,
          loss: typeof loss === "number" ? loss : null,
          norms: (norms ?? {}) as Record<string, number | null>,
          shots: readShots(m),
        };
      this.draw();
    } else if (m.kind === "note" && typeof m.meta.text === "string") {
      this.notes.said = m.meta.text;
      this.draw();
    }
    return undefined;
  }

  lost(): void {
    this.dead = true;
    this.bar.lost();
    this.slider.disabled = true;
    this.draw();
  }

  destroy(): void {
    this.painter.stop();
    this.plot.destroy();
  }

  private choose(log: boolean): void {
    this.choices.log = log;
    this.draw();
  }

  private key(e: KeyboardEvent): void {
    if (e.ctrlKey || e.metaKey || e.altKey || e.target instanceof HTMLInputElement || this.bar.ended) return;
    // A button's own key presses it.
    if (e.key === " " && e.target instanceof HTMLButtonElement) return;
    if (e.key === " ") this.bar.toggle();
    else if (e.key === "s") this.bar.ask("step");
    else if (e.key === "Escape") this.bar.ask("stop");
    else return;
    e.preventDefault();
    e.stopPropagation();
  }

  private look(): void {
    const at = Number(this.slider.value);
    const states = this.data.now?.states ?? [];
    if (at >= states.length - 1) {
      this.kept = null;
      this.draw();
    } else this.pacer.ask(at);
  }

  /** Logarithmic where the losses are positive and go over more than one and a half decades, unless somebody chose. */
  private isLog(): boolean {
    if (this.choices.log !== null) return this.choices.log;
    let low = Number.POSITIVE_INFINITY;
    let high = 0;
    for (const v of this.data.loss.y) {
      if (!Number.isFinite(v)) continue;
      if (v <= 0) return false;
      low = Math.min(low, v);
      high = Math.max(high, v);
    }
    return high / low > 30;
  }

  private showState(): void {
    const [word, kind] = this.dead && !this.bar.ended ? ["kernel gone", "dim"] : this.bar.state();
    const said = this.dead && this.data.now?.phase !== "ended" ? "kernel gone" : word;
    if (this.state.textContent !== said) this.state.textContent = said;
    this.state.className = `state ${kind}`;
  }

  /** Draw now, all of it. */
  draw(): void {
    this.drawn = "";
    this.painter.now();
  }

  private paint(): void {
    // What is read of the page is read before anything is written: each read after a write is a layout of its own.
    const full = Math.floor(this.root.clientWidth);
    if (full <= 0) return;
    const style = getComputedStyle(this.root);
    const [ui, ink] = [style.fontFamily, style.color];
    const read = palette(this.root);
    const theme = (this.root.dataset.theme ?? "light") as Theme;
    this.drawnAt = performance.now();
    const { data, info } = this;
    const now = data.now;
    this.bar.show();
    this.showState();
    this.notes.show(now, this.dead);
    const narrow = full < NARROW;
    const shots = this.kept?.shots.length ? this.kept.shots : data.shots;
    const side = shots.length > 0 && !narrow;
    this.root.classList.toggle("with-pictures", side);
    const width = side ? full - SIDE - GAP : full;
    const frame: Frame = { left: narrow ? 44 : 92, right: 10, width, last: Math.max(1, info.total - 1) };
    // Of the host's own variables only the computed ones are colours and fonts.
    const colour = (name: string): string =>
      name === "ui"
        ? ui
        : name === "ink"
          ? ink
          : name === "ink-strip"
            ? theme === "dark"
              ? "#eceef1"
              : "#181e26"
            : read(name);
    const rule = this.kept ? this.kept.step : null;
    const log = this.isLog();
    this.log.setAttribute("aria-pressed", String(log));
    this.linear.setAttribute("aria-pressed", String(!log));
    const some = data.loss.y.some((v) => Number.isFinite(v));
    this.empty.hidden = data.loss.length > 0;
    this.root.classList.toggle("unmeasured", data.steps.length === 0);
    this.lossEl.hidden = data.loss.length === 0;
    if (now && now.done > 0 && data.loss.length > 0 && !some) {
      this.empty.hidden = false;
      this.empty.textContent = "No loss was logged: run.log(loss) in the loop says it.";
    } else if (now?.phase === "ended" && data.loss.length === 0) this.empty.textContent = "No step was done.";
    if (data.loss.length) {
      const bad = now?.trouble ? now.trouble.step : null;
      this.plot.draw({ curve: data.loss, before: this.choices.before, frame, log, rule, bad, colour });
      const [first, last] = [data.loss.y[0], data.loss.y[data.loss.length - 1]];
      this.lossEl.setAttribute(
        "aria-label",
        `loss, ${now?.done ?? 0} steps, from ${figures(first ?? 0, 3)} to ${figures(last ?? 0, 3)}, ${log ? "logarithmic" : "linear"} scale`,
      );
    }
    const drawn = [full, side, theme, rule, data.measured].join();
    const anew = drawn !== this.drawn;
    this.drawn = drawn;
    if (anew) {
      if (this.strip) drawStrip(this.strip, data.steps, data.spreads, frame, rule, now?.done ?? 0, colour);
      if (now && this.table)
        this.table.draw(frame, data.steps, data.norms, now.params, rule, this.kept?.norms ?? null, colour);
    }
    const step = this.kept
      ? `at step ${count(this.kept.step)}, kept`
      : now
        ? `at step ${count(now.done)}`
        : "";
    this.pictures.draw(shots, step, theme, colour, anew);
    this.showScrub(now);
  }

  private showScrub(now: Now | null): void {
    const states = now?.states ?? [];
    // Only a kernel that has time can answer.
    this.scrub.hidden = states.length < 2 || (now?.phase !== "ended" && now?.phase !== "paused");
    const top = states.length - 1;
    if (this.slider.max !== String(top)) {
      const atEnd = this.kept === null;
      this.slider.max = String(top);
      if (atEnd) this.slider.value = String(top);
    }
    if (this.kept === null && document.activeElement !== this.slider) this.slider.value = String(top);
    const at = this.kept ? this.kept.step : states[Number(this.slider.value)];
    this.at.textContent = at === undefined ? "" : count(at);
    this.slider.style.setProperty("--p", `${top > 0 ? (100 * Number(this.slider.value)) / top : 100}%`);
    this.slider.setAttribute("aria-valuetext", `step ${at ?? 0}`);
  }
}
