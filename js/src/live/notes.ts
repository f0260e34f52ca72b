// What is said over the plot in words: what went wrong, what was done, and that the kernel is gone.

import { h, icon } from "../lib/dom.ts";
import { count } from "../lib/numbers.ts";
import type { Now } from "./data.ts";

export class Notes {
  readonly el = h("div", { class: "notes" });
  /** What the kernel said last. */
  said = "";

  constructor(private readonly restore: (state: number) => void) {}

  show(now: Now | null, dead: boolean): void {
    const kids: Node[] = [];
    const trouble = now?.trouble;
    if (trouble) {
      const last = (now?.states.length ?? 0) - 1;
      const back =
        trouble.kept !== null && last >= 0 && !dead
          ? h(
              "button",
              {
                type: "button",
                class: "solid",
                title: "Write the last good state into the parameters",
                onclick: () => this.restore(last),
              },
              icon("undo"),
              `go back to step ${count(trouble.kept)}`,
            )
          : null;
      kids.push(
        h(
          "div",
          { class: "alert bad", role: "alert" },
          h("div", {}, h("b", { class: "nan" }, "× "), h("b", { class: "mono" }, trouble.title)),
          h("div", { class: "dim" }, trouble.text),
          back,
        ),
      );
    }
    if (now?.error)
      kids.push(
        h(
          "div",
          { class: "alert wrong", role: "alert" },
          h("b", { class: "err" }, icon("cross"), " a step raised "),
          h("code", {}, now.error),
        ),
      );
    if (this.said) kids.push(h("div", { class: "note dim", role: "status" }, icon("check"), this.said));
    if (dead)
      kids.push(
        h(
          "div",
          { class: "note dim" },
          icon("lost"),
          "The kernel of this plot is gone; what it showed last stays. Run the cell again for a new run.",
        ),
      );
    const key = kids.map((k) => k.textContent).join("\n");
    // Nothing is said twice by a screen reader, and a button keeps its focus.
    if (key !== this.el.dataset.key) {
      this.el.dataset.key = key;
      this.el.replaceChildren(...kids);
    }
  }
}
