// A single number as a dial: where it stands among all that were seen.

import { prepare } from "../lib/dom.ts";
import { figures, ticks, tickText } from "../lib/numbers.ts";
import { type Token, tickFont, word } from "./drawing.ts";

const HEIGHT = 168;
const FROM = Math.PI * 0.9;
const TO = Math.PI * 2.1;

export class Dial {
  private value = Number.NaN;
  private lo = Number.POSITIVE_INFINITY;
  private hi = Number.NEGATIVE_INFINITY;

  constructor(
    readonly canvas: HTMLCanvasElement,
    private readonly name: string,
  ) {
    canvas.setAttribute("role", "img");
  }

  show(value: number): void {
    this.value = value;
    if (Number.isFinite(value)) {
      this.lo = Math.min(this.lo, value);
      this.hi = Math.max(this.hi, value);
    }
    this.canvas.setAttribute("aria-label", `${this.name} is ${figures(value)}`);
  }

  /** The ends of the scale: round numbers around what was seen. */
  private ends(): [number, number] {
    const [lo, hi] = this.lo <= this.hi ? [this.lo, this.hi] : [0, 1];
    const size = Math.max(hi - lo, Math.abs(this.value) * 0.5, 1e-30);
    const middle = Number.isFinite(this.value) ? (lo + hi) / 2 : 0;
    const { step } = ticks(middle - size, middle + size, 6);
    return [Math.floor((middle - size) / step) * step, Math.ceil((middle + size) / step) * step];
  }

  draw(width: number, token: Token): void {
    const c = prepare(this.canvas, width, HEIGHT);
    const [x, y, radius] = [width / 2, HEIGHT - 48, Math.min(104, width / 2 - 40)];
    const [lo, hi] = this.ends();
    const angle = (v: number): number => FROM + ((v - lo) / (hi - lo)) * (TO - FROM);
    const ring = (from: number, to: number, colour: string, thick: number): void => {
      c.beginPath();
      c.arc(x, y, radius, from, to);
      c.strokeStyle = colour;
      c.lineWidth = thick;
      c.stroke();
    };
    ring(FROM, TO, token("wash2"), 8);
    if (this.lo < this.hi) ring(angle(this.lo), angle(this.hi), token("line"), 8);
    const scale = ticks(lo, hi, 6);
    tickFont(c, token);
    c.textBaseline = "middle";
    for (const v of scale.values) {
      const a = angle(v);
      const [ux, uy] = [Math.cos(a), Math.sin(a)];
      c.textAlign = Math.abs(ux) < 0.3 ? "center" : ux < 0 ? "right" : "left";
      c.fillText(tickText(v, scale.step), x + ux * (radius + 12), y + uy * (radius + 12));
      c.beginPath();
      c.moveTo(x + ux * (radius - 4), y + uy * (radius - 4));
      c.lineTo(x + ux * (radius + 4), y + uy * (radius + 4));
      c.strokeStyle = token("edge");
      c.lineWidth = 1;
      c.stroke();
    }
    if (Number.isFinite(this.value)) {
      const a = angle(this.value);
      c.beginPath();
      c.moveTo(x + Math.cos(a) * 14, y + Math.sin(a) * 14);
      c.lineTo(x + Math.cos(a) * (radius - 7), y + Math.sin(a) * (radius - 7));
      c.strokeStyle = token("value");
      c.lineWidth = 2.5;
      c.lineCap = "round";
      c.stroke();
      c.beginPath();
      c.arc(x, y, 4, 0, 7);
      c.fillStyle = token("value");
      c.fill();
    }
    const colour = Number.isNaN(this.value) ? "nan" : Number.isFinite(this.value) ? "value" : "inf";
    word(c, figures(this.value, 6), x, y + 28, token(colour), token, "center");
  }
}
