// Making elements. Text always goes in as text: nothing here parses markup.

import { icons as shared } from "../../../slanglab/look/tokens.json";

type Child = Node | string | number | null | undefined | false | Child[];
type Handler = (event: never) => void;
export type Props = Record<string, string | number | boolean | null | undefined | Handler>;

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "path", "rect"]);

/** Make an element; `on…` properties become listeners, false and null leave the attribute out. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  props?: Props | null,
  ...kids: Child[]
): HTMLElementTagNameMap[K];
export function h(tag: string, props?: Props | null, ...kids: Child[]): Element;
export function h(tag: string, props?: Props | null, ...kids: Child[]): Element {
  const el = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") el.addEventListener(key.slice(2), value as EventListener);
    else el.setAttribute(key, value === true ? "" : String(value));
  }
  append(el, kids);
  return el;
}

function append(el: Element, kids: Child[]): void {
  for (const kid of kids) {
    if (Array.isArray(kid)) append(el, kid);
    else if (kid !== null && kid !== undefined && kid !== false)
      el.append(typeof kid === "number" ? String(kid) : kid);
  }
}

// 16 px, stroke 1.5. States have the icons of the tokens; tools have their own here.
const ICONS = {
  whole: "M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10",
  swap: "M2.5 5.5h9M9 3l2.5 2.5L9 8M13.5 10.5h-9M7 8l-2.5 2.5L7 13",
  overlay: "M2.5 2.5h8v8h-8zM5.5 5.5h8v8h-8z",
  pin: "M6 2.5h4M7 2.5v4L4.5 9.5h7L9 6.5v-4M8 9.5v4",
  save: "M8 2.5v7.5M5 7l3 3 3-3M2.5 11v2.5h11V11",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  play: "M5 3.2v9.6L12.6 8z",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  step: "M4 3.5v9l6-4.5zM12 3.5v9",
  stop: "M4 4h8v8H4z",
  undo: "M3 6.5h6.5a3.5 3.5 0 0 1 0 7H6M3 6.5l3-3M3 6.5l3 3",
  ...shared,
  lost: "M2.5 2.5l11 11M5 5.2C3.2 5.4 2 6.6 2 8.2 2 10 3.4 11 5 11h5.5M7 4.2c3-.8 4.8.8 5 2.9 1.3.2 2 1 2 2.1 0 .4-.1.8-.4 1.1",
} as const;

export type IconName = keyof typeof ICONS;

export function icon(name: IconName): Element {
  return h("svg", { class: "i", viewBox: "0 0 16 16", "aria-hidden": "true" }, h("path", { d: ICONS[name] }));
}

/** The square before a name: teal is a value, half blue and half orange is a gradient. */
export function chip(kind: "value" | "gradient"): Element {
  const kids =
    kind === "value"
      ? [h("rect", { width: 10, height: 10, rx: 1.5, style: "fill:var(--value)" })]
      : [
          h("path", {
            d: "M5 0v10H1.5A1.5 1.5 0 0 1 0 8.5v-7A1.5 1.5 0 0 1 1.5 0z",
            style: "fill:var(--neg)",
          }),
          h("path", {
            d: "M5 0h3.5A1.5 1.5 0 0 1 10 1.5v7A1.5 1.5 0 0 1 8.5 10H5z",
            style: "fill:var(--pos)",
          }),
        ];
  return h("svg", { class: "chip", viewBox: "0 0 10 10", "aria-hidden": "true" }, ...kids);
}

export function iconButton(
  name: IconName,
  label: string,
  title: string,
  press: () => void,
): HTMLButtonElement {
  return h(
    "button",
    { type: "button", class: "icon", "aria-label": label, title, onclick: press },
    icon(name),
  );
}

/** Size a canvas in CSS pixels for the screen's own resolution, clear it, and return a context in CSS pixels. */
export function prepare(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  const ratio = Math.max(1, window.devicePixelRatio || 1);
  const c = canvas.getContext("2d");
  if (!c) throw new Error("this browser gives no 2-D canvas");
  const [w, h] = [width, height].map((x) => Math.max(1, Math.round(x * ratio))) as [number, number];
  // Another size clears a canvas as well, and costs it its memory.
  if (canvas.width === w && canvas.height === h && "reset" in c) c.reset();
  else {
    canvas.width = w;
    canvas.height = h;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  return c;
}

/** Call `draw` with the width of an element now and whenever it changes, at most once a frame. */
export function onWidth(el: HTMLElement, draw: (width: number) => void, signal: AbortSignal): void {
  let known = 0;
  const observer = new ResizeObserver(() => {
    const width = Math.floor(el.clientWidth);
    if (width > 0 && width !== known) {
      known = width;
      requestAnimationFrame(() => {
        if (!signal.aborted) draw(width);
      });
    }
  });
  observer.observe(el);
  signal.addEventListener("abort", () => observer.disconnect());
}

/** Tell whether an element is on the screen or near it, first soon after it was added. */
export function onSight(el: HTMLElement, tell: (seen: boolean) => void, signal: AbortSignal): void {
  const observer = new IntersectionObserver(
    (entries) => tell(entries[entries.length - 1]?.isIntersecting ?? true),
    { rootMargin: "100px" },
  );
  observer.observe(el);
  signal.addEventListener("abort", () => observer.disconnect());
}

/** A function that runs `f` at the next frame, however often it is called before. */
export function onceAFrame(f: () => void): () => void {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      f();
    });
  };
}

/** Call `f` when what was drawn just now is on the screen. */
export function afterPaint(f: () => void): void {
  requestAnimationFrame(() => setTimeout(f));
}

/** A function that runs `f` once; if nobody calls it, `f` runs after half a second: a page that is not looked at draws nothing. */
export function onceSoon(f: () => void, signal: AbortSignal): () => void {
  let done = false;
  const run = (): void => {
    if (!done && !signal.aborted) f();
    done = true;
  };
  setTimeout(run, 500);
  return run;
}
