// The anywidget module of slanglab.widgets.live.LivePlot.

import type { RenderProps } from "@anywidget/types";
import plots from "uplot/dist/uPlot.min.css";
import base from "./lib/base.css";
import { type Channel, connect, type Message } from "./lib/channel.ts";
import { h, onSight, onWidth } from "./lib/dom.ts";
import { follow } from "./lib/theme.ts";
import { tokenSheet } from "./lib/tokens.ts";
import { readInfo } from "./live/data.ts";
import sheet from "./live/live.css";
import { type Choices, Live } from "./live/live.ts";

const chosen = new WeakMap<object, Choices>();

function render({ model, el }: RenderProps): () => void {
  // Not every anywidget that may load this passes a signal, but all call what is returned.
  const life = new AbortController();
  const root = h("div", { class: "sl live", tabindex: -1, "data-lm-suppress-shortcuts": "true" });
  el.replaceChildren(h("style", {}, plots + tokenSheet() + base + sheet), root);
  let live: Live | null = null;
  let shown = -1;
  let seen = true;
  let channel: Channel | null = null;
  let choices = chosen.get(model);
  if (!choices) {
    choices = { log: null, before: null, last: null };
    chosen.set(model, choices);
  }
  const mine = choices;
  const build = (): void => {
    const info = readInfo(model.get("info"));
    if (info && info.run === shown) return;
    live?.destroy();
    live = null;
    root.replaceChildren();
    shown = info?.run ?? -1;
    if (!info)
      root.append(h("div", { class: "note" }, "This saved plot cannot be read. Run the cell again."));
    else if (info.run === 0)
      root.append(
        h(
          "div",
          { class: "note dim" },
          "No run yet: ",
          h("code", {}, "sl.train(step, …, plot=plot)"),
          " shows one here.",
        ),
      );
    else {
      live = new Live(info, root, mine);
      live.painter.sight(seen);
      live.draw();
      if (channel) live.start(channel);
    }
  };
  build();
  follow(root, () => live?.draw(), life.signal);
  onWidth(root, () => live?.draw(), life.signal);
  onSight(
    root,
    (now) => {
      seen = now;
      live?.painter.sight(now);
    },
    life.signal,
  );
  channel = connect(
    model,
    el,
    {
      message: (m: Message) => live?.receive(m),
      lost: () => live?.lost(),
      cost: () => live?.painter.cost ?? null,
    },
    life.signal,
  );
  (live as Live | null)?.start(channel);
  model.on("change:info", build);
  life.signal.addEventListener("abort", () => {
    model.off("change:info", build);
    live?.destroy();
  });
  return () => life.abort();
}

export default { render };
