// The anywidget module of slanglab.widgets.inspector.TensorInspector.

import type { InitializeProps, RenderProps } from "@anywidget/types";
import { readInfo } from "./inspector/data.ts";
import sheet from "./inspector/inspector.css";
import { Inspector } from "./inspector/inspector.ts";
import base from "./lib/base.css";
import { type Channel, connect, type Message } from "./lib/channel.ts";
import { h, onWidth } from "./lib/dom.ts";
import { keepEarly, takeEarly } from "./lib/early.ts";
import { follow } from "./lib/theme.ts";
import { tokenSheet } from "./lib/tokens.ts";

function initialize({ model }: InitializeProps): (() => void) | undefined {
  const token = readInfo(model.get("info"))?.token;
  return token ? keepEarly(model, token, "picture") : undefined;
}

function render({ model, el }: RenderProps): () => void {
  // Not every anywidget that may load this passes a signal, but all call what is returned.
  const life = new AbortController();
  const root = h("div", { class: "sl inspector" });
  el.replaceChildren(h("style", {}, tokenSheet() + base + sheet), root);
  let inspector: Inspector | null = null;
  let channel: Channel | null = null;
  const build = (): void => {
    const info = readInfo(model.get("info"));
    if (info && inspector?.update(info)) return;
    const focused = (root.getRootNode() as Document | ShadowRoot).activeElement;
    const label = focused && root.contains(focused) ? focused.getAttribute("aria-label") : null;
    root.replaceChildren();
    inspector = info && new Inspector(info, root, life.signal, inspector);
    if (!inspector)
      root.append(h("div", { class: "note" }, "This saved view cannot be read. Run the cell again."));
    else if (channel) {
      inspector.draw(Math.floor(root.clientWidth));
      inspector.start(channel);
    }
    // The focus stays on the control that asked for another layout.
    if (label) root.querySelector<HTMLElement>(`[aria-label="${CSS.escape(label)}"]`)?.focus();
  };
  build();
  follow(root, () => inspector?.draw(Math.floor(root.clientWidth)), life.signal);
  onWidth(root, (width) => inspector?.fit(width), life.signal);
  const listeners = {
    message: (m: Message) => inspector?.receive(m),
    lost: () => inspector?.lost(),
  };
  const early = takeEarly(readInfo(model.get("info"))?.token ?? "");
  channel = connect(model, el, listeners, life.signal);
  (inspector as Inspector | null)?.start(channel, early);
  model.on("change:info", build);
  life.signal.addEventListener("abort", () => model.off("change:info", build));
  return () => life.abort();
}

export default { initialize, render };
