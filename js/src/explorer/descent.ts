// Walking downhill: run, step, start again, optimizer and learning rate, what is here, and the value along the path.

import { h, icon, prepare } from "../lib/dom.ts";
import { figures, ticks, tickText } from "../lib/numbers.ts";
import type { Path } from "./data.ts";
import { dot, extent, type Token, tickFont } from "./drawing.ts";

const OPTIMIZERS = ["Adam", "momentum", "GD"];
/** Between two steps of a run, milliseconds. */
const PACE = 60;
const MOST = 500;

export interface DescentRequest {
  steps?: number;
  optimizer?: string;
  rate?: number;
}

export class Descent {
  readonly el: HTMLElement;
  private running = false;
  private steps = 0;
  private path: Path | null = null;
  private timer = 0;
  private readonly play = h("button", { type: "button", class: "solid" });
  private readonly step = h(
    "button",
    { type: "button", class: "solid", title: "One step (S)" },
    icon("step"),
    "step",
  );
  private readonly again = h(
    "button",
    { type: "button", title: "Back to the start" },
    icon("undo"),
    "restart",
  );
  private readonly optimizer = h(
    "select",
    { "aria-label": "optimizer" },
    ...OPTIMIZERS.map((o) => h("option", {}, o)),
  );
  private readonly rate = h("input", {
    type: "range",
    min: -4,
    max: 0.5,
    step: 0.05,
    "aria-label": "learning rate, logarithmic",
  });
  private readonly rateText = h("span", { class: "num" });
  private readonly said = h("div", { class: "dim small", role: "status" });
  private readonly loss = h("canvas", { role: "img", "aria-label": "value along the path" });

  constructor(
    private readonly ask: (request: DescentRequest) => void,
    private readonly restart: () => void,
  ) {
    const field = (name: string, ...kids: Node[]): HTMLElement =>
      h("div", { class: "field" }, h("span", { class: "dim" }, name), ...kids);
    this.play.addEventListener("click", () => this.run(!this.running));
    this.step.addEventListener("click", () => this.once());
    this.again.addEventListener("click", () => {
      this.run(false);
      this.restart();
    });
    this.optimizer.addEventListener("change", () => this.ask({ optimizer: this.optimizer.value }));
    this.rate.addEventListener("input", () => {
      this.showRate(10 ** Number(this.rate.value));
      this.ask({ rate: this.chosenRate });
    });
    this.rate.addEventListener("keydown", (e) => e.key !== "Tab" && e.stopPropagation());
    this.optimizer.addEventListener("keydown", (e) => e.key !== "Tab" && e.stopPropagation());
    this.rate.value = "-1";
    this.showRate(0.1);
    this.paint();
    this.el = h(
      "div",
      { class: "descent" },
      h("h4", {}, "Descent"),
      h("div", { class: "run" }, this.play, this.step, this.again),
      field("optimizer", this.optimizer),
      field("learning rate", this.rate, this.rateText),
      this.said,
    );
  }

  /** The value along the path, with its head: it stands under what is here. */
  readonly curve = h("div", { hidden: true }, h("h4", {}, "Value along the path"), this.loss);

  private get chosenRate(): number {
    return Number((10 ** Number(this.rate.value)).toPrecision(3));
  }

  private showRate(rate: number): void {
    this.rateText.textContent = figures(rate, 2);
    const share = (Math.log10(rate) + 4) / 4.5;
    this.rate.style.setProperty("--p", `${Math.min(1, Math.max(0, share)) * 100}%`);
  }

  private paint(): void {
    this.play.replaceChildren(icon(this.running ? "pause" : "play"), this.running ? "pause" : "run");
    this.play.setAttribute("aria-label", this.running ? "pause" : "run");
  }

  once(): void {
    this.ask({ steps: 1, rate: this.chosenRate, optimizer: this.optimizer.value });
  }

  run(on: boolean): void {
    this.running = on;
    clearTimeout(this.timer);
    if (on) this.once();
    this.paint();
  }

  disable(): void {
    this.run(false);
    for (const el of this.el.querySelectorAll<HTMLButtonElement>("button, input, select")) el.disabled = true;
  }

  show(path: Path): void {
    this.path = path;
    this.steps = Math.max(0, path.points.length - 1);
    if (OPTIMIZERS.includes(path.optimizer)) this.optimizer.value = path.optimizer;
    if (path.rate > 0 && (this.rate.getRootNode() as Document | ShadowRoot).activeElement !== this.rate) {
      this.rate.value = String(Math.log10(path.rate));
      this.showRate(path.rate);
    }
    const done = path.stopped || (this.running && this.steps >= MOST ? `${MOST} steps: paused` : "");
    this.said.textContent = done;
    this.curve.hidden = this.steps < 1;
    if (done) this.run(false);
    else if (this.running) this.timer = window.setTimeout(() => this.running && this.once(), PACE);
  }

  draw(width: number, token: Token): void {
    const values = this.path?.values;
    if (!values || this.curve.hidden) return;
    const c = prepare(this.loss, width, 84);
    const ends = extent([values]) ?? [0, 1];
    const lo = Math.min(0, ends[0]);
    const hi = ends[1] === lo ? lo + 1 : ends[1];
    const left = 40;
    const x = (i: number): number => left + (i / Math.max(1, values.length - 1)) * (width - left - 6);
    const y = (v: number): number => 5 + (1 - (v - lo) / (hi - lo)) * 58;
    const scale = ticks(lo, hi, 2);
    tickFont(c, token);
    c.textAlign = "right";
    c.textBaseline = "middle";
    for (const v of scale.values) {
      c.fillStyle = token("line");
      c.fillRect(left, Math.round(y(v)), width - left - 6, 1);
      c.fillStyle = token("ink2");
      c.fillText(tickText(v, scale.step), left - 7, y(v));
    }
    c.strokeStyle = token("value");
    c.lineWidth = 1.75;
    c.beginPath();
    for (let i = 0; i < values.length; i++) {
      const v = values[i] ?? Number.NaN;
      if (Number.isFinite(v)) c.lineTo(x(i), y(v));
    }
    c.stroke();
    const last = values.length - 1;
    if (Number.isFinite(values[last]))
      dot(c, x(last), y(values[last] ?? 0), 3, token("value"), token("value"), 0);
    c.fillStyle = token("ink2");
    c.textBaseline = "top";
    c.textAlign = "left";
    c.fillText("0", left, 69);
    c.textAlign = "right";
    c.fillText(`step ${last}`, width - 6, 69);
  }
}
