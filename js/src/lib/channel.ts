// What goes between the kernel and a view: frames (acknowledged, the last one wins), small notes, and requests.
//
// Controls are messages, not traits: ipywidgets holds traits back while the kernel is busy, messages pass.

import type { AnyModel } from "@anywidget/types";
import { h, icon } from "./dom.ts";
import { Greeting } from "./greeting.ts";

export interface Message {
  kind: string;
  seq: number | null;
  meta: Record<string, unknown>;
  arrays: Map<string, NumberArray>;
}

export type Numbers = Float32Array | Float64Array | Uint8Array;

export interface NumberArray {
  shape: number[];
  data: Numbers;
}

const BYTES = { float32: 4, float64: 8, uint8: 1 } as const;
const MOST_BYTES = 64e6;
const MOST_ARRAYS = 32;

const isRecord = (x: unknown): x is Record<string, unknown> =>
  typeof x === "object" && x !== null && !Array.isArray(x);

/** Check and unpack one message of the kernel; null for anything that is not one. */
export function decode(content: unknown, buffers: readonly DataView[]): Message | null {
  if (!isRecord(content) || typeof content.kind !== "string") return null;
  const { kind, seq, arrays = [], meta = {} } = content;
  if (
    !isRecord(meta) ||
    !Array.isArray(arrays) ||
    arrays.length > MOST_ARRAYS ||
    arrays.length > buffers.length
  )
    return null;
  const unpacked = new Map<string, NumberArray>();
  for (const [i, entry] of arrays.entries()) {
    const view = buffers[i];
    if (!isRecord(entry) || typeof entry.name !== "string" || !view) return null;
    const array = unpack(entry.dtype, entry.shape, view);
    if (!array) return null;
    unpacked.set(entry.name, array);
  }
  return { kind, seq: typeof seq === "number" ? seq : null, meta, arrays: unpacked };
}

function unpack(dtype: unknown, shape: unknown, view: DataView): NumberArray | null {
  if (dtype !== "float32" && dtype !== "float64" && dtype !== "uint8") return null;
  if (!Array.isArray(shape) || shape.length > 8) return null;
  const sizes: number[] = [];
  for (const n of shape) {
    if (!Number.isInteger(n) || n < 0) return null;
    sizes.push(n);
  }
  const length = sizes.reduce((a, b) => a * b, 1);
  const bytes = length * BYTES[dtype];
  if (bytes > MOST_BYTES || view.byteLength !== bytes) return null;
  // A typed array needs an aligned start, which the wire does not promise.
  const aligned = view.byteOffset % BYTES[dtype] === 0;
  const buffer = aligned ? view.buffer : view.buffer.slice(view.byteOffset, view.byteOffset + bytes);
  const offset = aligned ? view.byteOffset : 0;
  const make = { float32: Float32Array, float64: Float64Array, uint8: Uint8Array }[dtype];
  return { shape: sizes, data: new make(buffer as ArrayBuffer, offset, length) };
}

export interface Channel {
  send(kind: string, meta?: Record<string, unknown>): boolean;
  /** Say that a view is open, until the kernel has heard it. */
  ready(meta?: Record<string, unknown>): void;
  alive(): boolean;
}

interface Listeners {
  /** A promise puts the acknowledgement off until it is kept: for views that draw later. */
  message(message: Message): void | Promise<void>;
  lost(): void;
  /** Milliseconds that drawing a frame took lately, for the acknowledgement: the kernel paces its frames by it. */
  cost?(): number | null;
}

/** Listen to a model until `signal` aborts. Frames are acknowledged when they are drawn, so that drawing sets the pace. */
export function connect(model: AnyModel, el: HTMLElement, on: Listeners, signal: AbortSignal): Channel {
  let lost = false;
  const greeting = new Greeting();
  let silence: Element | null = null;
  const unheard = {
    idle: () => kernelIdle(model),
    // anywidget 0.11 hands a model no message if its module took longer than two seconds to load: the view stays as it is.
    deaf(): void {
      const text = "This view hears nothing from the kernel. Run the cell again.";
      silence = h("div", { class: "note", role: "status" }, icon("lost"), h("span", {}, text));
      el.querySelector(".sl")?.prepend(silence);
    },
  };
  const channel: Channel = {
    ready(meta = {}) {
      greeting.say((call) => channel.send("ready", { ...meta, call }), unheard);
    },
    send(kind, meta = {}) {
      if (lost || signal.aborted) return false;
      try {
        model.send({ kind, ...meta });
        return true;
      } catch {
        // The comm is closed: the host may not have told us yet.
        lose();
        return false;
      }
    },
    alive: () => !lost,
  };
  const lose = (): void => {
    if (lost) return;
    lost = true;
    greeting.end();
    on.lost();
  };
  const receive = (content: unknown, buffers: DataView[] = []): void => {
    const message = decode(content, buffers);
    if (!message) return;
    silence?.remove();
    if (message.kind === "heard") {
      greeting.heard(message.meta.call);
      return;
    }
    const acknowledge = (): void => {
      if (message.seq === null) return;
      const cost = on.cost?.() ?? null;
      channel.send("ack", cost === null ? { seq: message.seq } : { seq: message.seq, cost });
    };
    let drawn: Promise<void> | null = null;
    try {
      drawn = on.message(message) ?? null;
    } finally {
      if (drawn) drawn.then(acknowledge);
      else acknowledge();
    }
  };
  // A kernel can go in ways that hosts report differently: by a class on the view, by an event of the model (JupyterLab on
  // a restart), or not at all (JupyterLab on a shutdown), where the manager's kernel is looked at when the reader comes.
  const check = (): void => {
    if (el.closest(".jupyter-widgets-disconnected") || kernelGone(model)) lose();
  };
  const probe = (): void => {
    check();
    channel.send("alive");
  };
  const observer = new MutationObserver(check);
  for (let at: HTMLElement | null = el, k = 0; at && k < 3; at = at.parentElement, k++)
    observer.observe(at, { attributes: true, attributeFilter: ["class"] });
  for (const type of ["pointerenter", "focusin"]) el.addEventListener(type, check, { signal });
  model.on("msg:custom", receive);
  model.on("comm_live_update", probe);
  signal.addEventListener("abort", () => {
    greeting.end();
    model.off("msg:custom", receive);
    model.off("comm_live_update", probe);
    observer.disconnect();
  });
  check();
  return channel;
}

/** The host's connection to the kernel, as its widget manager has it; undefined where it tells nothing. */
function kernelOf(model: AnyModel): unknown {
  const manager: unknown = model.widget_manager;
  if (typeof manager !== "object" || manager === null || !("kernel" in manager)) return undefined;
  return manager.kernel;
}

/** Whether the host has no kernel, or a dead one; false where it tells nothing. */
function kernelGone(model: AnyModel): boolean {
  const kernel = kernelOf(model);
  if (kernel === null) return true;
  return isRecord(kernel) && (kernel.isDisposed === true || kernel.status === "dead");
}

/** Whether the kernel has nothing to do; null where the host does not tell. */
function kernelIdle(model: AnyModel): boolean | null {
  const kernel = kernelOf(model);
  return isRecord(kernel) && typeof kernel.status === "string" ? kernel.status === "idle" : null;
}
