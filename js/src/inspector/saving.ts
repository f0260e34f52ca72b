// Saving what is on the screen: the kernel draws it as SVG; of that the browser makes a PNG.

import type { Message } from "../lib/channel.ts";
import { h, iconButton } from "../lib/dom.ts";
import type { Asking } from "./asking.ts";

export type Format = "png" | "svg";

/** Pixels of a PNG for each of the drawing. */
const SCALE = 2;

/** A button that opens the choice between the formats. */
export function saveMenu(save: (format: Format) => void): HTMLElement {
  const list = h(
    "span",
    { class: "menu", role: "group", "aria-label": "save as", hidden: true },
    ...(["png", "svg"] as const).map((format) =>
      h("button", { type: "button", onclick: () => choose(format) }, format.toUpperCase()),
    ),
  );
  const button = iconButton("save", "save", "Save as PNG or SVG", () => open(list.hidden !== false));
  const menu = h("span", { class: "menus" }, button, list);
  const open = (yes: boolean): void => {
    list.hidden = !yes;
    button.setAttribute("aria-expanded", String(yes));
  };
  const choose = (format: Format): void => {
    open(false);
    button.focus();
    save(format);
  };
  open(false);
  menu.addEventListener("keydown", (e) => {
    if (e.key !== "Escape" || list.hidden) return;
    open(false);
    button.focus();
    e.stopPropagation();
  });
  menu.addEventListener("focusout", (e) => {
    if (!menu.contains(e.relatedTarget as Node | null)) open(false);
  });
  return menu;
}

/** Let the reader keep a drawing. */
async function keep(svg: string, format: Format, name: string): Promise<void> {
  const drawing = new Blob([svg], { type: "image/svg+xml" });
  download(format === "svg" ? drawing : await painted(drawing), `${name}.${format}`);
}

async function painted(drawing: Blob): Promise<Blob> {
  const url = URL.createObjectURL(drawing);
  try {
    const image = new Image();
    image.src = url;
    await image.decode();
    const canvas = h("canvas");
    canvas.width = image.naturalWidth * SCALE;
    canvas.height = image.naturalHeight * SCALE;
    canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
    const blob = await new Promise<Blob | null>((done) => canvas.toBlob(done, "image/png"));
    if (!blob) throw new Error("this browser makes no PNG");
    return blob;
  } finally {
    URL.revokeObjectURL(url);
  }
}

function download(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

interface Listeners {
  done(): void;
  failed(text: string): void;
}

/** The picture on the screen as a file: asked of the kernel as SVG, of which a PNG is made here. */
export class Saving {
  private format: Format | null = null;

  constructor(
    private readonly ask: Asking,
    private readonly on: Listeners,
  ) {}

  begin(format: Format, overlaid: boolean): void {
    this.format = format;
    this.ask.save(format, overlaid);
  }

  /** Take the kernel's answer; `name` is the tensor's. */
  end(message: Message, name: string): void {
    const { svg } = message.meta;
    const { format } = this;
    this.format = null;
    if (typeof svg !== "string" || !format) return;
    keep(svg, format, name.replace(/[^\w.-]+/g, "_") || "tensor").then(
      () => this.on.done(),
      (error) => this.on.failed(`The picture could not be saved: ${error}`),
    );
  }
}
