// Functions that are compared: each has a colour and a dash of its own, and a line in the legend with its value at the point.

import { h } from "../lib/dom.ts";
import { figures } from "../lib/numbers.ts";
import type { Token } from "./drawing.ts";

const STYLES: readonly (readonly [string, readonly number[]])[] = [
  ["ink", [6, 4]],
  ["inf", [2, 3]],
  ["cost", [9, 3, 2, 3]],
  ["ok", [4, 2]],
];

/** The colour and the dash of a curve at a place among those that are compared. */
export function styleOf(index: number): { colour: string; dash: number[] } {
  const [colour, dash] = STYLES[index % STYLES.length] ?? (["ink", [6, 4]] as const);
  return { colour, dash: [...dash] };
}

/** The same of contour lines: those of the function itself have the colour of ink. */
export function lineStyle(index: number): { colour: string; dash: number[] } {
  return { colour: styleOf(1 + (index % (STYLES.length - 1))).colour, dash: [] };
}

/** A name without its module's. */
export const short = (name: string): string => name.split(".").pop() || name;

function swatch(colour: string, dash: number[]): SVGElement {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  for (const [key, value] of Object.entries({ width: "26", height: "8", "aria-hidden": "true" }))
    svg.setAttribute(key, value);
  const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
  const attributes = { x1: 0, y1: 4, x2: 26, y2: 4, stroke: colour, "stroke-width": 2 };
  for (const [key, value] of Object.entries(attributes)) line.setAttribute(key, String(value));
  line.setAttribute("stroke-dasharray", dash.join(" "));
  svg.append(line);
  return svg;
}

/** Names that tell functions apart: without the module's where that is enough. */
export function apart(names: string[]): string[] {
  const cut = names.map(short);
  return cut.map((name, i) => (cut.indexOf(name) === cut.lastIndexOf(name) ? name : (names[i] ?? name)));
}

export class Legend {
  readonly el = h("div", { class: "legend" });

  constructor(
    private readonly names: string[],
    private readonly lines: boolean,
  ) {}

  /** Show the function's own value at the point, and how far off the others are. */
  show(value: number | undefined, others: number[], token: Token): void {
    const here = value ?? Number.NaN;
    this.el.replaceChildren(
      ...this.names.map((name, i) => {
        const other = others[i - 1] ?? Number.NaN;
        const own = { colour: this.lines ? "ink2" : "value", dash: [] };
        const { colour, dash } = i ? (this.lines ? lineStyle : styleOf)(i - 1) : own;
        const off = other - here;
        return h(
          "span",
          { class: "entry" },
          swatch(token(colour), dash),
          h("span", { class: "mono" }, name),
          h("span", { class: "num", "data-compared": name }, figures(i ? other : here, 4)),
          i && Number.isFinite(off)
            ? h("span", { class: "dim" }, `${off < 0 ? "" : "+"}${figures(off, 3)}`)
            : null,
        );
      }),
    );
  }
}
