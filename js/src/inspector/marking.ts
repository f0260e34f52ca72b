// The line that says what the brush marks.

import type { Message } from "../lib/channel.ts";
import { h } from "../lib/dom.ts";
import { count } from "../lib/numbers.ts";
import { type Asking, end } from "./asking.ts";
import type { Brush, Store } from "./store.ts";

export class Marking {
  readonly el = h("div", { class: "marking", hidden: true });

  constructor(
    private readonly store: Store,
    private readonly ask: Asking,
    private readonly clear: () => void,
  ) {}

  /** The brush is another one: ask how many it marks. */
  changed(): void {
    const { store } = this;
    store.marked = null;
    if (store.brush) this.ask.count(store.brush);
    this.show();
  }

  /** The kernel has counted. */
  counted(message: Message): void {
    const { count: n, picture, lo, hi } = message.meta;
    const { brush } = this.store;
    // An answer to a range that is not marked any more counts for nothing.
    if (typeof n !== "number" || !brush || brush.kind !== picture) return;
    if (end(brush.lo) !== lo || end(brush.hi) !== hi) return;
    this.store.marked = n;
    this.show();
  }

  show(): void {
    const { brush } = this.store;
    this.el.hidden = brush === null;
    if (!brush) return;
    this.el.replaceChildren(
      h("span", { role: "status" }, this.words(brush)),
      h("button", { type: "button", class: "link", onclick: () => this.clear() }, "clear"),
    );
  }

  private words(brush: Brush): string {
    const { marked, info } = this.store;
    const of = count(info[brush.kind]?.count ?? 0);
    // Without an answer only the range is said: the picture shows blocks, which cannot be counted.
    const found = marked === null ? "" : `${count(marked)} of ${of} elements with `;
    return `marked: ${found}${brush.kind} from ${this.store.bound(brush.lo)} to ${this.store.bound(brush.hi)}`;
  }
}
