// A view's first message, said until the kernel has heard it.
//
// JupyterLab gives a widget's messages to the kernel's subshell only when that has been made, which takes a moment for the first widget
// of a page; what is sent before waits for the running cell. The kernel answers a greeting once, by its name, and ignores it from then on.

import { browserClock, type Clock } from "./clock.ts";

/** Milliseconds from one time to the next. */
export const AGAIN: readonly number[] = [100, 200, 400, 800, 1600];

/** Milliseconds from one look at a kernel that has not answered to the next. */
export const LOOK = 2000;

/** For a greeting that nobody has heard. */
export interface Unheard {
  /** Whether the kernel has nothing to do; null where the host does not tell. */
  idle(): boolean | null;
  /** It had nothing to do, was greeted, and has not answered. */
  deaf(): void;
}

export class Greeting {
  private name = "";
  private cancel: () => void = () => undefined;

  constructor(private readonly clock: Clock = browserClock) {}

  /** Say it now, and again until it is heard or `send` tells that nobody can. */
  say(send: (name: string) => boolean, unheard?: Unheard): void {
    this.end();
    // Several pages may show one widget: each has its own name for what it says.
    this.name = Math.random().toString(36).slice(2);
    const { name } = this;
    const times = [...AGAIN];
    let asked = false;
    // A busy kernel is not sent more; an idle one answers at once.
    const look = (): void => {
      const idle = unheard?.idle() ?? null;
      if (idle && asked) unheard?.deaf();
      else if (idle !== null && (!idle || send(name))) {
        asked = idle;
        this.cancel = this.clock.later(look, LOOK);
      }
    };
    const go = (): void => {
      if (!send(name)) return;
      const wait = times.shift();
      if (wait !== undefined) this.cancel = this.clock.later(go, wait);
      else if (unheard) this.cancel = this.clock.later(look, LOOK);
    };
    go();
  }

  /** The kernel says what it heard. */
  heard(name: unknown): void {
    if (name === this.name) this.end();
  }

  end(): void {
    this.cancel();
    this.cancel = () => undefined;
    this.name = "";
  }
}
