// The picture of the setting that comes next, which the kernel makes before it is asked for.

import type { Message } from "../lib/channel.ts";
import type { Info } from "./data.ts";
import { stepped } from "./knobs.ts";

type Values = ReadonlyMap<string, number>;

const same = (a: Values, b: Values): boolean =>
  a.size === b.size && [...a].every(([path, value]) => b.get(path) === value);

export class Ahead {
  private values: Values | null = null;
  private message: Message | null = null;

  constructor(private readonly info: Info) {}

  /** The values that follow where a knob goes on as it went, or null: it turned round at an end, or made no step. */
  guess(values: Values, path: string, from: number): Values | null {
    const knob = this.info.knobs.find((k) => k.path === path);
    const now = values.get(path);
    if (!knob || now === undefined || (knob.kind !== "float" && knob.kind !== "int")) return null;
    const next = stepped(now + (now - from), knob);
    return next === now ? null : new Map(values).set(path, next);
  }

  /** Keep a frame until the values it is for are asked for, or others. */
  keep(message: Message, values: Values): void {
    this.values = values;
    this.message = message;
  }

  forget(): void {
    this.values = null;
    this.message = null;
  }

  /** The frame for these values, where it is here. */
  take(values: Values): Message | null {
    const found = this.values && same(this.values, values) ? this.message : null;
    this.forget();
    return found;
  }
}
