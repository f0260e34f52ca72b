// Tensors as pictures: the first one large, the others and the gradients small under it.

import type { NumberArray } from "../lib/channel.ts";
import type { Lut } from "../lib/colormap.ts";
import { chip, h, prepare } from "../lib/dom.ts";
import { figures } from "../lib/numbers.ts";
import { parseColour, type Theme } from "../lib/theme.ts";
import { poles, tide } from "../lib/tokens.ts";
import type { Shot } from "./data.ts";

export class Pictures {
  readonly el = h("div", { class: "pics" });
  private key = "";
  private shown: readonly Shot[] = [];
  private canvases: { value: HTMLCanvasElement; gradient: HTMLCanvasElement | null; caption: HTMLElement }[] =
    [];

  /** `anew`: the pictures that are there already too. */
  draw(
    shots: readonly Shot[],
    step: string,
    theme: Theme,
    colour: (name: string) => string,
    anew: boolean,
  ): void {
    const fresh = anew || shots !== this.shown;
    this.shown = shots;
    const key = JSON.stringify(shots.map((s) => [s.name, s.kind, s.gradient !== null && s.kind !== "line"]));
    if (key !== this.key) {
      this.key = key;
      this.build(shots);
    }
    for (const [i, shot] of shots.entries()) {
      const at = this.canvases[i];
      if (!at) continue;
      const caption = i === 0 ? `${shot.name} ${step}` : shot.name;
      if (at.caption.textContent !== caption) at.caption.textContent = caption;
      if (!fresh) continue;
      const range =
        shot.low === null || shot.high === null
          ? "nothing finite"
          : shot.low === shot.high
            ? figures(shot.low, 3)
            : `${figures(shot.low, 3)} to ${figures(shot.high, 3)}`;
      at.value.setAttribute("aria-label", `${shot.name}, ${shot.shape.join(" by ")}, ${range}`);
      at.caption.title = range;
      if (shot.kind === "line") line(at.value, shot, colour, i === 0 ? 236 : 112);
      else texels(at.value, shot.value, tide(), shot.flags, colour);
      if (at.gradient && shot.gradient)
        texels(at.gradient, shot.gradient, poles(theme), shot.gradientFlags, colour);
    }
  }

  private build(shots: readonly Shot[]): void {
    this.canvases = [];
    const kids: Node[] = [];
    for (const [i, shot] of shots.entries()) {
      const value = h("canvas", { role: "img", class: shot.kind === "line" ? "line" : "" });
      const caption = h("span", {});
      kids.push(
        h(
          "figure",
          { class: i === 0 ? "main" : "" },
          value,
          h("figcaption", { class: "dim" }, chip("value"), caption),
        ),
      );
      let gradient: HTMLCanvasElement | null = null;
      if (shot.gradient && shot.kind !== "line") {
        gradient = h("canvas", { role: "img", "aria-label": `gradient of ${shot.name}` });
        kids.push(
          h(
            "figure",
            {},
            gradient,
            h("figcaption", { class: "dim" }, chip("gradient"), `∂loss/∂${shot.name}`),
          ),
        );
      }
      this.canvases.push({ value, gradient, caption });
    }
    this.el.replaceChildren(...kids);
  }
}

function texels(
  canvas: HTMLCanvasElement,
  array: NumberArray,
  map: Lut,
  flags: NumberArray | null,
  colour: (name: string) => string,
): void {
  const [rows = 1, columns = 1, channels = 1] = array.shape;
  if (canvas.width !== columns || canvas.height !== rows) {
    canvas.width = columns;
    canvas.height = rows;
  }
  const c = canvas.getContext("2d");
  if (!c) return;
  const image = c.createImageData(columns, rows);
  const nan = rgb(colour("nan"));
  const inf = rgb(colour("inf"));
  for (let i = 0; i < rows * columns; i++) {
    const flag = flags?.data[i] ?? 0;
    const level = (array.data[i] ?? 0) * 3;
    for (let k = 0; k < 3; k++) {
      const plain = channels === 3 ? array.data[3 * i + k] : map[level + k];
      image.data[4 * i + k] = (flag & 1 ? nan[k] : flag ? inf[k] : plain) ?? 0;
    }
    image.data[4 * i + 3] = 255;
  }
  c.putImageData(image, 0, 0);
}

function rgb(hex: string): number[] {
  const parsed = parseColour(hex);
  if (parsed) return [...parsed];
  const n = Number.parseInt(hex.slice(1), 16);
  return [n >> 16, (n >> 8) & 255, n & 255];
}

function line(canvas: HTMLCanvasElement, shot: Shot, colour: (name: string) => string, width: number): void {
  const height = Math.round(width * 0.62);
  const c = prepare(canvas, width, height);
  const { data } = shot.value;
  const low = shot.low ?? 0;
  const high = shot.high ?? 1;
  const room = (high - low) * 0.08 || Math.abs(high) || 1;
  const y = (v: number): number => height - ((v - low + room) / (high - low + 2 * room)) * height;
  const x = (i: number): number => (data.length > 1 ? (i / (data.length - 1)) * (width - 4) + 2 : width / 2);
  if (low < 0 && high > 0) {
    c.fillStyle = colour("edge");
    c.fillRect(0, Math.round(y(0)), width, 1);
  }
  c.strokeStyle = colour("value");
  c.lineWidth = 2;
  c.lineJoin = "round";
  c.beginPath();
  let on = false;
  for (const [i, v] of data.entries()) {
    if (!Number.isFinite(v)) {
      on = false;
      continue;
    }
    if (on) c.lineTo(x(i), y(v));
    else c.moveTo(x(i), y(v));
    on = true;
  }
  c.stroke();
}
