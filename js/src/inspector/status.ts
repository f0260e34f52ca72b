// What the inspector says in words: under its head what the tensor lacks and what went wrong, in the head that the kernel is waited for.

import { h, icon } from "../lib/dom.ts";
import type { Asking } from "./asking.ts";
import type { Info } from "./data.ts";

/** A slower answer than this is said. */
const SLOW = 400;

export class Status {
  readonly el = h("div", { role: "status" });
  readonly wait = h("span", { class: "dim" });

  constructor(
    private readonly ask: Asking,
    private readonly signal: AbortSignal,
  ) {}

  /** What there is to know about the tensor. */
  note(info: Info): void {
    if (info.form === "empty") this.say("Empty: no elements to show.");
    else if (info.note)
      this.say(
        h("span", {}, info.note, info.noteCode ? " " : "", info.noteCode ? h("code", {}, info.noteCode) : ""),
      );
    else this.el.replaceChildren();
  }

  complain(text: string): void {
    this.say(h("span", { class: "err" }, icon("cross")), h("span", {}, text));
  }

  /** The kernel is gone; `taken` is when the picture on the screen came. */
  lost(taken: Date | null): void {
    const text = taken
      ? `The kernel is gone. This is the last picture, taken ${taken.toLocaleTimeString("en-GB")}; numbers under the pointer are those of the picture.`
      : "The kernel is gone, and the picture went with it. Run the cell again to see it.";
    this.say(h("span", { class: "dim" }, icon("lost")), h("span", {}, text));
    this.waiting();
  }

  /** Say that the kernel is waited for, where it is and takes long. */
  waiting(): void {
    const { pending } = this.ask;
    const waits = pending > 0 && this.ask.alive;
    this.wait.textContent = waits && pending >= SLOW ? "waiting for the kernel" : "";
    if (waits) setTimeout(() => this.signal.aborted || this.waiting(), SLOW);
  }

  private say(...parts: (Node | string)[]): void {
    this.el.replaceChildren(h("div", { class: "note" }, ...parts));
  }
}
