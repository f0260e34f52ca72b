// The anywidget module of slanglab.widgets.explorer.Explorer.

import type { RenderProps } from "@anywidget/types";
import { readInfo } from "./explorer/data.ts";
import sheet from "./explorer/explorer.css";
import { Explorer } from "./explorer/explorer.ts";
import base from "./lib/base.css";
import { type Channel, connect, type Message } from "./lib/channel.ts";
import { h, onWidth } from "./lib/dom.ts";
import { follow } from "./lib/theme.ts";
import { tokenSheet } from "./lib/tokens.ts";

function render({ model, el }: RenderProps): () => void {
  // Not every anywidget that may load this passes a signal, but all call what is returned.
  const life = new AbortController();
  const root = h("div", { class: "sl explorer" });
  el.replaceChildren(h("style", {}, tokenSheet() + base + sheet), root);
  let explorer: Explorer | null = null;
  let channel: Channel | null = null;
  // What one layout listens to ends with it.
  let layout = new AbortController();
  const build = (): void => {
    const info = readInfo(model.get("info"));
    if (info && explorer?.update(info)) return;
    const before = explorer;
    layout.abort();
    layout = new AbortController();
    root.replaceChildren();
    explorer = info && new Explorer(info, root, layout.signal, before);
    if (!explorer)
      root.append(h("div", { class: "note" }, "This saved view cannot be read. Run the cell again."));
    else if (channel) explorer.start(channel);
  };
  build();
  follow(root, () => explorer?.draw(Math.floor(root.clientWidth)), life.signal);
  onWidth(root, (width) => explorer?.draw(width), life.signal);
  const listeners = {
    message: (m: Message) => explorer?.receive(m),
    lost: () => explorer?.lost(),
  };
  channel = connect(model, el, listeners, life.signal);
  (explorer as Explorer | null)?.start(channel);
  model.on("change:info", build);
  life.signal.addEventListener("abort", () => {
    model.off("change:info", build);
    layout.abort();
  });
  return () => life.abort();
}

export default { render };
