// Light or dark is measured, not asked: hosts name their themes in different ways, and some do not name them at all.

import { luminance } from "./colormap.ts";

export type Theme = "light" | "dark";

/** Red, green, blue (0 to 255) and opacity (0 to 1) of a computed colour, or null where it is not an rgb() one. */
export function parseColour(text: string): [number, number, number, number] | null {
  const match = /^rgba?\(([^)]*)\)$/.exec(text.trim());
  if (!match?.[1]) return null;
  const parts = match[1].split(/[\s,/]+/).filter(Boolean);
  const numbers = parts.map((p) => (p.endsWith("%") ? Number.parseFloat(p) / 100 : Number.parseFloat(p)));
  const [r, g, b, a = 1] = numbers;
  if (r === undefined || g === undefined || b === undefined || numbers.some(Number.isNaN)) return null;
  return [r, g, b, a];
}

/** A background darker than this is a dark theme. */
const DARK_UNDER = 0.4;

export const themeOf = (rgb: readonly [number, number, number, number]): Theme =>
  luminance(rgb[0], rgb[1], rgb[2]) < DARK_UNDER ? "dark" : "light";

function parent(el: Element): Element | null {
  if (el.parentElement) return el.parentElement;
  const root = el.getRootNode();
  return root instanceof ShadowRoot ? root.host : null;
}

export interface Ground {
  theme: Theme;
  /** The colour that marks get a halo of: the page behind the widget. */
  paper: string;
}

/** The nearest opaque background; the browser's preference where everything is transparent. */
export function measure(el: Element): Ground {
  for (let at: Element | null = el; at; at = parent(at)) {
    const colour = parseColour(getComputedStyle(at).backgroundColor);
    if (colour && colour[3] > 0.5) {
      const [r, g, b] = colour;
      return { theme: themeOf(colour), paper: `rgb(${r},${g},${b})` };
    }
  }
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  return dark ? { theme: "dark", paper: "#111" } : { theme: "light", paper: "#fff" };
}

/** Keep `data-theme` of `root` true to what is behind it; `changed` is called after each change and once at the start. */
export function follow(root: HTMLElement, changed: () => void, signal: AbortSignal): void {
  let known = "";
  const update = (): void => {
    if (signal.aborted || !root.isConnected) return;
    const { theme, paper } = measure(root);
    if (theme + paper === known) return;
    known = theme + paper;
    root.dataset.theme = theme;
    root.style.setProperty("--halo", paper);
    changed();
  };
  // A host swaps its style sheet some time after its attribute, so look again when that has had time to load.
  const soon = (): void => {
    requestAnimationFrame(update);
    for (const wait of [150, 600, 2000]) setTimeout(update, wait);
  };
  const observer = new MutationObserver(soon);
  const attributeFilter = [
    "class",
    "style",
    "data-theme",
    "data-jp-theme-light",
    "data-jp-theme-name",
    "data-vscode-theme-kind",
  ];
  for (const el of [document.documentElement, document.body])
    observer.observe(el, { attributes: true, attributeFilter });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", soon, { signal });
  signal.addEventListener("abort", () => observer.disconnect());
  soon();
}

/** Read custom properties of an element, each once; canvases inherit nothing. */
export function palette(root: Element): (name: string) => string {
  const style = getComputedStyle(root);
  const known = new Map<string, string>();
  return (name) => {
    let value = known.get(name);
    if (value === undefined) {
      value = style.getPropertyValue(`--${name}`).trim();
      known.set(name, value);
    }
    return value;
  };
}
