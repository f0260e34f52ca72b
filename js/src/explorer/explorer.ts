// The explorer: knobs, the picture that fits the result, what matters at the point, and what is asked of the kernel.

import type { Channel, Message } from "../lib/channel.ts";
import { h, iconButton, onceAFrame } from "../lib/dom.ts";
import { figures, shortest32 } from "../lib/numbers.ts";
import { palette } from "../lib/theme.ts";
import { Ahead } from "./ahead.ts";
import { Asking } from "./asking.ts";
import { Bars, type Row } from "./bars.ts";
import { choices, press } from "./choices.ts";
import { CodeLine } from "./code.ts";
import { apart, Legend, short } from "./compared.ts";
import { CurvePlot } from "./curve.ts";
import { type Info, type Look, readCurve, readLook, readPath, readPlane } from "./data.ts";
import { Descent } from "./descent.ts";
import { Dial } from "./dial.ts";
import { hereTable } from "./here.ts";
import { Knobs } from "./knobs.ts";
import { Plane } from "./plane.ts";
import { showReadout } from "./readout.ts";
import { duration, noteLines, verdictLines } from "./words.ts";

const NARROW = 620;
const SIDE = 272;
const GAP = 24;
/** Strips that are drawn at first. */
const STRIPS = 4;

export class Explorer {
  private readonly asking = new Asking();
  private look: Look | null = null;
  private width = 0;
  private readonly knobs: Knobs;
  private readonly ahead: Ahead;
  /** The last request whose picture was here before it was made. */
  private known = 0;
  private readonly bars: Bars;
  private readonly shown = new Set<string>();
  private readonly curve: CurvePlot | null = null;
  private readonly plane: Plane | null = null;
  private readonly dial: Dial | null = null;
  private readonly descent: Descent | null = null;
  private readonly canvas = h("canvas");
  private readonly time = h("span", { class: "dim mono small" });
  private readonly status = h("div", {});
  private readonly read = h("div", { class: "read" });
  private readonly here = h("div", {});
  private readonly verdict = h("div", { class: "verdict", role: "status" });
  private readonly code = new CodeLine("copy");
  private readonly pathCode = new CodeLine("copy the descent");
  private readonly legend: Legend | null = null;
  private readonly body = h("div", { class: "body" });
  private readonly check = h("input", { type: "checkbox" });
  private readonly component: HTMLElement | null = null;
  private readonly redrawSoon = onceAFrame(() => this.draw(this.width));

  constructor(
    private info: Info,
    private readonly root: HTMLElement,
    private readonly signal: AbortSignal,
    before: Explorer | null = null,
  ) {
    for (const part of [...info.axes, ...info.knobs])
      if (part.differentiable && this.shown.size < STRIPS) this.shown.add(part.path);
    if (before && before.info.form === "curve")
      for (const path of before.shown) if (info.knobs.some((k) => k.path === path)) this.shown.add(path);
    this.knobs = new Knobs(info, (path, from) => this.turned(path, from));
    this.ahead = new Ahead(info);
    const curve = info.form === "curve";
    this.bars = new Bars(info, curve ? this.shown : null, () => this.draw(this.width));
    const [axis] = info.axes;
    if (curve && axis)
      this.curve = new CurvePlot(this.canvas, this.short, axis, (at) => this.looked(at), signal);
    else if (info.form === "dial") this.dial = new Dial(this.canvas, this.short);
    else this.plane = new Plane(this.canvas, info, (at, done) => this.pointed(at, done), signal);
    if (info.descends)
      this.descent = new Descent(
        (request) => this.asking.walk({ ...request }),
        () => this.startAt(this.plane?.path?.points[0] ?? this.plane?.at ?? [0, 0]),
      );
    if (info.components > 1 && info.form !== "image" && info.form !== "dial")
      this.component = this.components();
    if (info.compared.length)
      this.legend = new Legend(apart([info.name, ...info.compared]), info.form === "field");
    this.build();
    root.addEventListener("keydown", (e) => this.key(e), { signal });
  }

  /** The name without its module's: what labels say. */
  private get short(): string {
    return short(this.info.name);
  }

  // ----- layout -----

  private build(): void {
    const { info } = this;
    this.check.addEventListener("change", () => this.ask("choose", { differences: this.check.checked }));
    const gradients = !info.refused && [...info.axes, ...info.knobs].some((p) => p.differentiable);
    const reset = iconButton("undo", "reset", "Every knob back to its start", () =>
      this.ask("set", { reset: true }),
    );
    const head = h(
      "div",
      { class: "head" },
      h("span", { class: "name" }, info.name),
      h("span", { class: "mono dim signature", title: info.signature }, info.signature),
      this.asking.el,
      h(
        "span",
        { class: "tools" },
        this.time,
        this.component,
        this.plane && info.form === "field" && gradients ? this.arrowSwitch() : null,
        info.knobs.length ? reset : null,
      ),
    );
    const differences = h(
      "div",
      { class: "differences" },
      h("label", { class: "chk" }, this.check, "finite differences"),
      this.verdict,
    );
    const where = info.axes.length
      ? ` at this ${info.axes.length > 1 ? "point" : (info.axes[0]?.path ?? "x")}`
      : "";
    const sensitivity =
      gradients && (info.form !== "field" || info.knobs.some((k) => k.differentiable))
        ? [
            h(
              "h4",
              { title: "The bar is the gradient times the range of the knob" },
              "Sensitivity ",
              h("small", {}, `${where.trim() ? `${where.trim()}: ` : ""}which knob matters`),
            ),
            this.bars.el,
          ]
        : [];
    const side = h(
      "div",
      { class: "side" },
      this.descent?.el ?? null,
      this.knobs.el,
      this.plane ? [h("h4", {}, "Here"), this.here] : null,
      sensitivity,
      gradients || info.form !== "image" ? differences : null,
      this.descent?.curve ?? null,
    );
    const plot = h(
      "div",
      { class: "plot" },
      this.legend?.el ?? null,
      h("div", { class: "over" }, this.curve ? this.read : null, this.canvas),
    );
    this.body.classList.toggle("plane", this.plane !== null);
    this.body.hidden = true;
    this.body.append(side, plot);
    this.pathCode.el.hidden = true;
    this.root.append(head, this.status, this.body, this.code.el, this.pathCode.el);
    // Jupyter takes arrow keys of what is no text field for headings, before they reach it; this keeps them here. It has to stand on
    // the element itself.
    for (const el of this.root.querySelectorAll("input, select, canvas"))
      el.setAttribute("data-lm-suppress-shortcuts", "true");
    this.say();
  }

  private components(): HTMLElement {
    const letters = "xyzw".slice(0, this.info.components).split("");
    return choices("component of the result", letters, -1, (component) => this.ask("choose", { component }));
  }

  private arrowSwitch(): HTMLElement {
    return choices("arrows", ["arrows", "no arrows"], 0, (i, group) => {
      press(group, i);
      if (this.plane) this.plane.arrows = i === 0;
      this.draw(this.width);
    });
  }

  /** Take new facts about the same function; false where they need another layout. */
  update(info: Info): boolean {
    const layout = ({ trouble: _, signature: __, ...rest }: Info): string => JSON.stringify(rest);
    if (layout(info) !== layout(this.info)) return false;
    this.info = info;
    const signature = this.root.querySelector(".signature");
    if (signature) signature.textContent = info.signature;
    this.say();
    return true;
  }

  private say(): void {
    this.status.replaceChildren(...noteLines(this.info, this.look, this.asking.gone));
  }

  // ----- the kernel -----

  start(channel: Channel): void {
    this.asking.channel = channel;
    if (!channel.alive()) this.lost();
    else channel.ready();
  }

  lost(): void {
    this.asking.lose();
    for (const el of this.root.querySelectorAll<HTMLInputElement>(".side input, .side select, .tools button"))
      if (!el.closest(".bars")) el.disabled = true;
    this.descent?.disable();
    this.say();
  }

  /** Ask for the setting of the knobs; where its picture is here already, show it, and tell the kernel. */
  private turned(path = "", from = 0): void {
    if (this.asking.gone) return;
    const { values } = this.knobs;
    const found = this.ahead.take(values);
    const next = this.ahead.guess(values, path, from);
    this.ask("set", {
      values: Object.fromEntries(values),
      ...(found ? { known: true } : {}),
      ...(next ? { ahead: Object.fromEntries(next) } : {}),
    });
    if (!found) return;
    this.known = this.asking.last;
    this.showLook(found, readLook(found));
  }

  private receiveAhead(message: Message): void {
    if (typeof message.meta.answers === "number") this.asking.answered();
    const look = readLook(message);
    if (message.arrays.size && look.values.size) this.ahead.keep(message, look.values);
  }

  private ask(kind: string, meta: Record<string, unknown>): void {
    if (this.asking.gone) return;
    this.ahead.forget();
    this.asking.ask(kind, meta);
  }

  receive(message: Message): void {
    if (message.kind === "look" || message.kind === "here") this.receiveLook(message);
    else if (message.kind === "path") this.receivePath(message);
    else if (message.kind === "ahead") this.receiveAhead(message);
    else if (message.kind === "refused") this.asking.answered();
  }

  private receiveLook(message: Message): void {
    const look = readLook(message);
    if (look.ask !== null) this.asking.answered();
    this.ahead.forget();
    // What was shown since is newer.
    if (look.ask === null || look.ask > this.known) this.showLook(message, look);
  }

  private showLook(message: Message, look: Look): void {
    this.asking.sayWaiting();
    const changed = JSON.stringify([this.look?.notes, this.look?.missing]);
    this.look = look;
    if (message.kind !== "here") {
      if (this.curve) {
        const data = readCurve(message);
        if (!data) return;
        this.curve.show(data, look.at.get(this.info.axes[0]?.path ?? "") ?? 0);
      }
      if (this.plane) {
        const data = readPlane(message);
        if (!data) return;
        this.plane.show(data);
        this.plane.at = this.atPoint();
      }
    }
    this.dial?.show(look.here.value[0] ?? Number.NaN);
    // A later request is on its way: its settings are newer than these.
    if (look.ask === null || look.ask === this.asking.last) {
      this.knobs.show(look.values);
      this.check.checked = look.differences;
    }
    if (changed !== JSON.stringify([look.notes, look.missing])) this.say();
    this.body.hidden = false;
    if (!this.width) this.width = Math.floor(this.root.clientWidth);
    this.draw(this.width);
  }

  private receivePath(message: Message): void {
    const path = readPath(message);
    if (!path || !this.plane) return;
    this.asking.walked();
    this.plane.path = path;
    this.descent?.show(path);
    this.pathCode.show(path.code);
    this.pathCode.el.hidden = !path.code || path.points.length < 2;
    this.draw(this.width);
  }

  private atPoint(): [number, number] {
    const [a, b] = this.info.axes.map((axis) => this.look?.at.get(axis.path) ?? axis.low);
    return [a ?? 0, b ?? 0];
  }

  // ----- what the reader does -----

  private looked(at: number): void {
    const path = this.info.axes[0]?.path;
    this.ahead.forget();
    if (path && !this.asking.gone) this.tellSoon({ [path]: at });
    this.redrawSoon();
  }

  private telling: Record<string, number> = {};
  private readonly tell = onceAFrame(() =>
    this.asking.send("point", { values: this.telling, answer: false }),
  );

  private tellSoon(values: Record<string, number>): void {
    this.telling = values;
    this.tell();
  }

  private pointed(at: [number, number], done: boolean): void {
    const [a, b] = this.info.axes;
    if (!a || !b || this.asking.gone) return;
    this.descent?.run(false);
    if (this.plane) this.plane.path = null;
    this.ask("point", { values: { [a.path]: at[0], [b.path]: at[1] } });
    if (done && this.descent) this.startAt(at);
    this.redrawSoon();
  }

  private startAt(at: [number, number]): void {
    this.asking.walk({ point: at });
  }

  private key(e: KeyboardEvent): void {
    if (e.ctrlKey || e.metaKey || e.altKey || !this.descent || this.asking.gone) return;
    const typing = e.target instanceof HTMLInputElement || e.target instanceof HTMLSelectElement;
    if (e.key.toLowerCase() !== "s" || typing) return;
    e.preventDefault();
    e.stopPropagation();
    this.descent.once();
  }

  // ----- drawing -----

  draw(width: number): void {
    this.width = width;
    const { look, info } = this;
    if (!look || width < 60 || this.signal.aborted) return;
    const side = width < NARROW ? width : SIDE;
    const room = width < NARROW ? width : width - SIDE - GAP;
    const token = palette(this.root);
    const theme = this.root.dataset.theme === "dark" ? "dark" : "light";
    if (this.curve)
      this.curve.draw(
        room,
        [...info.axes, ...info.knobs].map((p) => p.path).filter((p) => this.shown.has(p)),
        token,
      );
    this.plane?.draw(room, token, theme);
    this.dial?.draw(Math.min(room, 420), token);
    this.descent?.draw(side, token);
    this.showNumbers(look);
    if (this.curve) this.legend?.show(this.curve.point?.value, this.curve.compared, token);
    else
      this.legend?.show(look.here.value[info.form === "field" ? look.component : 0], look.here.others, token);
    this.code.show(look.code);
    // The first call of a kind compiles its kernels: that is no change's time.
    const ms = look.ask === null ? Number.NaN : look.ms;
    const took = duration(ms);
    this.time.textContent = took && `${took} a change`;
    if (this.component) press(this.component, look.component);
  }

  private showNumbers(look: Look): void {
    const { info, curve } = this;
    const rows: Row[] = [];
    for (const part of [...info.axes, ...info.knobs]) {
      const gradient = curve ? curve.gradient(part.path) : look.here.gradients.get(part.path);
      if (gradient === undefined || (info.form === "field" && info.axes.some((a) => a.path === part.path)))
        continue;
      const mean = curve ? `; mean size over the curve ${figures(curve.mean(part.path), 3)}` : "";
      rows.push({
        path: part.path,
        gradient,
        title: `∂${this.short}/∂${part.path} = ${shortest32(gradient)}${mean}`,
      });
    }
    this.bars.show(rows);
    if (curve && info.axes[0]) showReadout(this.read, this.canvas, info.axes[0], curve.point);
    if (this.plane) this.showHere(look);
    this.verdict.replaceChildren(...(look.differences ? verdictLines(look.quotients) : []));
  }

  private showHere(look: Look): void {
    const names = this.info.axes.map((a) => a.path);
    const path = this.plane?.path;
    const walked = path && path.points.length > 1;
    const end = walked ? path.points[path.points.length - 1] : undefined;
    const gradient = walked
      ? path.gradient
      : names.map((p) => look.here.gradients.get(p)).filter((g): g is number => g !== undefined);
    const value = walked ? [path.values[path.values.length - 1] ?? Number.NaN] : look.here.value;
    this.here.replaceChildren(hereTable(names, end ?? this.plane?.at ?? [], value, gradient));
  }
}
