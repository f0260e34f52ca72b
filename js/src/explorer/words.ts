// What is said in words: what central differences say about the gradients, what is wrong, how long a change took.

import { h, icon } from "../lib/dom.ts";
import { figures } from "../lib/numbers.ts";
import type { Info, Look, Verdict } from "./data.ts";

/** A deviation as a share of the largest gradient, to two figures: the nearest, or, for a bound, the next above. */
export function share(worst: number, scale: number, bound = false): string {
  if (!(scale > 0) || !Number.isFinite(worst)) return figures(worst, 2);
  const percent = (100 * worst) / scale;
  if (percent >= 1000) return `${figures(worst / scale, 2)} times`;
  const least = Math.max(percent, 0.001);
  const unit = 10 ** (Math.floor(Math.log10(least)) - 1);
  const steps = least / unit;
  return `${Number(((bound ? Math.ceil(steps - 1e-9) : Math.round(steps)) * unit).toPrecision(2))} %`;
}

function where(all: Verdict[]): string {
  const most = all.reduce((a, b) => (b.judged < a.judged ? b : a));
  return most.judged < most.elements ? ` at ${most.judged} of ${most.elements} points` : "";
}

export function verdictLines(quotients: Map<string, Verdict>): HTMLElement[] {
  const lines: HTMLElement[] = [];
  const line = (colour: string, name: "check" | "cross" | "unsure", text: string): void => {
    const title = "Relative to the largest gradient of its kind";
    lines.push(h("div", { class: colour, title }, icon(name), ` ${text}`));
  };
  const all = [...quotients];
  const agreed = all.filter(([, q]) => q.verdict === "agrees");
  for (const [path, q] of all) {
    if (q.verdict === "differs") {
      const many = q.elements > 1 ? ` at ${q.count} of ${q.elements} points` : "";
      line("err", "cross", `∂${path} differs by up to ${share(q.worst, q.scale)}${many}`);
    } else if (q.verdict !== "agrees") {
      const measured = Number.isFinite(q.measured) ? `, measured ${figures(q.measured, 3)}` : "";
      line("dim", "unsure", `∂${path} cannot tell: ${q.reason}${measured}`);
    }
  }
  if (agreed.length) {
    const worst = agreed
      .map(([, q]) => q)
      .reduce((a, b) => (b.worst / (b.scale || 1) > a.worst / (a.scale || 1) ? b : a));
    const who =
      agreed.length === all.length && all.length > 1
        ? `${all.length > 2 ? `all ${all.length}` : "both"} agree`
        : agreed.map(([p]) => `∂${p}`).join(", ") + (agreed.length > 1 ? " agree" : " agrees");
    line(
      "ok",
      "check",
      `${who} within ${share(worst.worst, worst.scale, true)}${where(agreed.map(([, q]) => q))}`,
    );
  }
  return lines;
}

/** How long something took, to the figures that mean something; "" for what nobody waits for. */
export function duration(ms: number): string {
  if (!(ms >= 100)) return "";
  return ms < 995 ? `${Math.round(ms / 10) * 10} ms` : `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
}

/** What is wrong, and what the kernel warns of. */
export function noteLines(info: Info, look: Look | null, gone: boolean): HTMLElement[] {
  const notes: HTMLElement[] = [];
  const add = (name: "cross" | "warn" | "unsure" | "lost", colour: string, text: string): void => {
    const role = colour === "err" ? { role: "alert" } : {};
    notes.push(
      h("div", { class: "note", ...role }, h("span", { class: colour }, icon(name)), h("span", {}, text)),
    );
  };
  if (gone) add("lost", "dim", "The kernel has gone. This is the last picture; run the cell again.");
  if (info.trouble) add("cross", "err", info.trouble);
  if (info.refused) add("unsure", "dim", `Values only: ${info.refused}`);
  for (const note of look?.notes ?? []) add("warn", "warn", note);
  const { nan = 0, inf = 0 } = look?.missing ?? {};
  if (nan + inf > 0) {
    const parts = [nan ? `${nan} NaN` : "", inf ? `${inf} infinite` : ""];
    add("warn", "nan", `${parts.filter(Boolean).join(" and ")} among the values.`);
  }
  return notes;
}
