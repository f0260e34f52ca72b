// A row for each parameter: the norm of its gradient over the steps, the last one, the last update, what is wrong.

import { chip, h, icon, prepare } from "../lib/dom.ts";
import { count, figures, shapeText } from "../lib/numbers.ts";
import { type Frame, stepX } from "./axis.ts";
import type { Flag, Param, ParamNow } from "./data.ts";
import { cross } from "./loss.ts";

const HEIGHT = 30;

export function flagText(flag: Flag): string {
  if (flag.kind === "dead") return `dead ${count(flag.number)} ${flag.number === 1 ? "step" : "steps"}`;
  if (flag.kind === "not finite") return `${count(flag.number)} not finite`;
  return `${flag.kind} ×${figures(flag.number, 2)}`;
}

export class ParamTable {
  readonly el: HTMLElement;
  private readonly rows: {
    canvas: HTMLCanvasElement;
    now: HTMLElement;
    update: HTMLElement;
    flag: HTMLElement;
  }[];

  constructor(private readonly params: readonly Param[]) {
    this.rows = params.map((p) => ({
      canvas: h("canvas", { role: "img", "aria-label": `gradient norm of ${p.name}` }),
      now: h("td", { class: "num" }),
      update: h("td", { class: "num update" }),
      flag: h("td", { class: "flag" }),
    }));
    this.el = h(
      "div",
      { class: "params" },
      h(
        "table",
        {},
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th", { scope: "col" }, "parameter"),
            h("th", { scope: "col" }, chip("gradient"), "gradient norm, log, one scale"),
            h("th", { scope: "col" }, "now"),
            h("th", { scope: "col", class: "update" }, "update"),
            h("th", { scope: "col" }, h("span", { class: "spoken" }, "state")),
          ),
        ),
        h(
          "tbody",
          {},
          ...params.map((p, i) => {
            const row = this.rows[i];
            return h(
              "tr",
              {},
              h(
                "th",
                { scope: "row", title: `${p.name} ${shapeText(p.shape)} ${p.dtype}` },
                h("b", { class: "mono" }, p.name),
                h("div", { class: "mono dim small" }, `${shapeText(p.shape)} ${p.dtype}`),
              ),
              h("td", {}, row?.canvas),
              row?.now,
              row?.update,
              row?.flag,
            );
          }),
        ),
      ),
    );
  }

  draw(
    frame: Frame,
    steps: readonly number[],
    norms: readonly (readonly number[])[],
    now: Record<string, ParamNow>,
    rule: number | null,
    shown: Record<string, number | null> | null,
    colour: (name: string) => string,
  ): void {
    let low = Number.POSITIVE_INFINITY;
    let high = 0;
    for (const list of norms)
      for (const v of list)
        if (Number.isFinite(v) && v > 0) {
          low = Math.min(low, v);
          high = Math.max(high, v);
        }
    const [a, b] = low <= high ? [Math.log10(low), Math.log10(high)] : [0, 1];
    // The strip's place is that of the plots above.
    const area = { ...frame, left: 0, width: frame.width - frame.left };
    for (const [i, param] of this.params.entries()) {
      const row = this.rows[i];
      if (!row) continue;
      const list = norms[i] ?? [];
      const one = now[param.name];
      const c = prepare(row.canvas, Math.max(40, area.width), HEIGHT);
      c.fillStyle = colour("line");
      c.fillRect(0, HEIGHT - 1, area.width - area.right, 1);
      c.strokeStyle = colour(one?.flag?.kind === "dead" ? "warn" : "ink2");
      c.lineWidth = 1.25;
      c.beginPath();
      let on = false;
      for (const [k, step] of steps.entries()) {
        const v = list[k] ?? Number.NaN;
        if (Number.isNaN(v)) {
          on = false;
          continue;
        }
        const t = v > 0 ? (Math.log10(v) - a) / (b - a || 1) : 0;
        const y = v > 0 ? 26 - Math.min(1, t) * 23 : 28;
        const x = stepX(area, step);
        if (on) c.lineTo(x, y);
        else c.moveTo(x, y);
        on = true;
      }
      c.stroke();
      const last = steps[steps.length - 1];
      if (one?.bad && last !== undefined) cross(c, stepX(area, last), 14, 5, colour);
      const at = rule ?? last;
      if (at !== undefined) {
        c.fillStyle = colour("ink");
        c.fillRect(Math.round(stepX(area, at)), 0, 1, HEIGHT);
      }
      const norm = shown ? (shown[param.name] ?? null) : (one?.norm ?? null);
      row.now.textContent = norm === null ? "no gradient" : figures(norm, 3);
      row.now.className = `num${norm !== null && !Number.isFinite(norm) ? " nan" : norm === null ? " dim" : ""}`;
      const update = one?.update ?? null;
      row.update.textContent = shown || update === null ? "" : figures(update, 2);
      const flag = shown ? null : (one?.flag ?? null);
      const bad = flag?.kind === "not finite";
      row.flag.replaceChildren(
        ...(flag
          ? [h("span", { class: bad ? "nan" : "warn" }, bad ? "×" : icon("warn"), ` ${flagText(flag)}`)]
          : []),
      );
    }
  }
}
