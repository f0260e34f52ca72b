// What comes before its view. A model can listen as soon as its module is loaded, a view only when the host has laid out its output:
// a frame that the kernel sends meanwhile need not wait for the view to ask for it.

import type { AnyModel } from "@anywidget/types";
import { decode, type Message } from "./channel.ts";

interface Early {
  message: Message | null;
  stop(): void;
}

/** By what the kernel calls the model: hosts give model and view objects of their own, and may share this module among models. */
const known = new Map<string, Early>();

/** Keep the last message of a kind that comes before the first view; returns what ends that. */
export function keepEarly(model: AnyModel, token: string, kind: string): () => void {
  const early: Early = {
    message: null,
    stop() {
      model.off("msg:custom", receive);
      if (known.get(token) === early) known.delete(token);
    },
  };
  const receive = (content: unknown, buffers: DataView[] = []): void => {
    const message = decode(content, buffers);
    if (message?.kind === kind) early.message = message;
  };
  known.get(token)?.stop();
  known.set(token, early);
  model.on("msg:custom", receive);
  return () => early.stop();
}

/** The message that was kept, for the first view that asks; nothing is kept from here on. */
export function takeEarly(token: string): Message | null {
  const early = known.get(token);
  early?.stop();
  return early?.message ?? null;
}
