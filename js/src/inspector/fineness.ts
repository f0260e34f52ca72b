// What the scales need of the kernel: how the numbers are spread, and histograms that are as fine as the range that is shown.

import type { Message } from "../lib/channel.ts";
import type { Asking } from "./asking.ts";
import { readHistogram, readSpread } from "./data.ts";
import { KINDS, type Kind, type Store } from "./store.ts";

export class Fineness {
  constructor(
    private readonly store: Store,
    private readonly ask: Asking,
  ) {}

  /** Ask for what is lacking. */
  want(): void {
    const { store, ask } = this;
    for (const kind of KINDS) {
      if (store.waits(kind)) ask.spread(kind);
      else if (store.coarse(kind)) ask.histogram(kind, store.scale(kind));
    }
  }

  /** Take the histograms of the whole range, where they come after the picture: they take longer to make. */
  whole(message: Message): void {
    this.store.count(message);
    this.want();
  }

  /** Take the histogram of a part of the range; false where the message is none. */
  part(message: Message): boolean {
    const kind = kindOf(message);
    const found = kind && readHistogram(message, kind);
    if (!kind || !found) return false;
    this.store.histograms[kind] = found;
    return true;
  }

  /** Take how the numbers are spread; false where the message says nothing about that. */
  spread(message: Message): boolean {
    const kind = kindOf(message);
    if (!kind) return false;
    this.store.spreads[kind] = readSpread(message);
    return true;
  }
}

const kindOf = (message: Message): Kind | undefined => KINDS.find((k) => k === message.meta.picture);
