// The numbers at the point of a curve, beside it and for a screen reader.

import { chip, h } from "../lib/dom.ts";
import { figures } from "../lib/numbers.ts";
import type { Point } from "./curve.ts";
import type { Axis } from "./data.ts";

export function showReadout(el: HTMLElement, canvas: HTMLElement, axis: Axis, point: Point | null): void {
  if (!point) return;
  const item = (label: (Node | string)[], kind: string, value: number, name: string): HTMLElement[] => [
    h("span", { class: "dim" }, ...label),
    h("span", { class: `num ${kind}`, "data-read": name }, figures(value, 4)),
  ];
  const { slope } = point;
  const sign = slope === undefined ? "" : slope < 0 ? "neg" : "pos";
  el.replaceChildren(
    ...item([axis.path], "", point.x, "x"),
    ...item([chip("value"), "value"], "value", point.value, "value"),
    ...(slope === undefined ? [] : item(["slope"], sign, slope, "slope")),
  );
  const words = [`${axis.path} ${figures(point.x, 3)}`, `value ${figures(point.value, 4)}`];
  if (slope !== undefined) words.push(`slope ${figures(slope, 3)}`);
  canvas.setAttribute("aria-valuetext", words.join(", "));
  canvas.setAttribute("aria-valuenow", String(point.x));
  canvas.setAttribute("aria-valuemin", String(axis.low));
  canvas.setAttribute("aria-valuemax", String(axis.high));
}
