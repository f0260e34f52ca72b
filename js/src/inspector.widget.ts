// The anywidget module of slanglab.widgets.inspector.TensorInspector.

import type { RenderProps } from "@anywidget/types";
import { readInfo } from "./inspector/data.ts";
import sheet from "./inspector/inspector.css";
import { Inspector } from "./inspector/inspector.ts";
import base from "./lib/base.css";
import { connect } from "./lib/channel.ts";
import { h, onWidth } from "./lib/dom.ts";
import { follow } from "./lib/theme.ts";
import { tokenSheet } from "./lib/tokens.ts";

function render({ model, el }: RenderProps): () => void {
  // Not every anywidget that may load this passes a signal, but all call what is returned.
  const life = new AbortController();
  const root = h("div", { class: "sl inspector" });
  el.replaceChildren(h("style", {}, tokenSheet() + base + sheet), root);
  const build = (): Inspector | null => {
    const info = readInfo(model.get("info"));
    if (!info)
      root.append(h("div", { class: "note" }, "This saved view cannot be read. Run the cell again."));
    return info && new Inspector(info, root, life.signal);
  };
  const inspector = build();
  if (inspector) {
    const listeners = {
      message: (m: Parameters<Inspector["receive"]>[0]) => inspector.receive(m),
      lost: () => inspector.lost(),
    };
    follow(root, () => inspector.draw(Math.floor(root.clientWidth)), life.signal);
    onWidth(root, (width) => inspector.draw(width), life.signal);
    inspector.start(connect(model, el, listeners, life.signal));
  }
  return () => life.abort();
}

export default { render };
