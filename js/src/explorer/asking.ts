// What the view asks of the kernel: numbered, one request on its way, and a word where the kernel takes long.

import type { Channel } from "../lib/channel.ts";
import { h } from "../lib/dom.ts";
import { Pacer } from "../lib/pacer.ts";

/** A slower answer than this is said: the kernel runs a cell. */
const SLOW = 300;
/** Milliseconds after which an answer is no longer waited for. */
const PATIENCE = 5000;

type Meta = Record<string, unknown>;

interface Asked {
  kind: string;
  meta: Meta;
}

export class Asking {
  /** Says that the kernel is busy. */
  readonly el = h("span", { class: "dim", role: "status" });
  channel: Channel | null = null;
  /** The number of the last request. */
  last = 0;
  gone = false;
  private serial = 0;
  private readonly pacer: Pacer<Asked>;
  private readonly walks: Pacer<Asked>;

  constructor() {
    const send = ({ kind, meta }: Asked): void => this.send(kind, meta);
    this.pacer = new Pacer(send, PATIENCE);
    this.walks = new Pacer(send, PATIENCE);
  }

  send(kind: string, meta: Meta): void {
    this.channel?.send(kind, meta);
  }

  /** Ask for a picture; the latest request is served. */
  ask(kind: string, meta: Meta): void {
    const asked = this.numbered(kind, meta);
    this.last = this.serial;
    this.pacer.ask(asked);
    setTimeout(() => this.sayWaiting(), SLOW + 20);
  }

  /** Ask for steps downhill, which are requests in a line of their own. */
  walk(meta: Meta): void {
    this.walks.ask(this.numbered("descend", meta));
  }

  answered(): void {
    this.pacer.done();
  }

  walked(): void {
    this.walks.done();
  }

  lose(): void {
    this.gone = true;
    this.el.textContent = "";
  }

  sayWaiting(): void {
    const slow = !this.gone && this.pacer.pending > SLOW;
    const text = slow ? "waiting: the kernel is busy" : "";
    if (this.el.textContent !== text) this.el.textContent = text;
    if (slow) setTimeout(() => this.sayWaiting(), 200);
  }

  private numbered(kind: string, meta: Meta): Asked {
    this.serial += 1;
    return { kind, meta: { ...meta, ask: this.serial } };
  }
}
