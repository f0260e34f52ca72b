import type { Clock } from "../src/lib/clock.ts";

/** A clock that tests move by hand. */
export class Hand implements Clock {
  time = 0;
  private queue: { at: number; f: () => void }[] = [];

  get idle(): boolean {
    return this.queue.length === 0;
  }

  now(): number {
    return this.time;
  }

  later(f: () => void, ms: number): () => void {
    const one = { at: this.time + ms, f };
    this.queue.push(one);
    return () => {
      this.queue = this.queue.filter((q) => q !== one);
    };
  }

  advance(ms: number): void {
    this.time += ms;
    const due = this.queue.filter((q) => q.at <= this.time);
    this.queue = this.queue.filter((q) => q.at > this.time);
    for (const { f } of due) f();
  }
}
