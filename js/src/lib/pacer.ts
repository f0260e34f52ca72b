// Requests to a kernel that may be busy: one on its way, the latest waiting, the ones between dropped.

import { browserClock, type Clock } from "./clock.ts";

export class Pacer<T> {
  private waiting: T | null = null;
  private sentAt: number | null = null;

  constructor(
    private readonly send: (request: T) => void,
    /** After so many milliseconds without an answer the next request may go: the answer may never come. */
    private readonly patience = 2000,
    private readonly clock: Clock = browserClock,
  ) {}

  /** Milliseconds since the request that is on its way, or 0. */
  get pending(): number {
    return this.sentAt === null ? 0 : this.clock.now() - this.sentAt;
  }

  ask(request: T): void {
    if (this.sentAt !== null && this.pending < this.patience) {
      if (this.waiting === null) this.clock.later(() => this.expire(), this.patience - this.pending + 1);
      this.waiting = request;
    } else this.go(request);
  }

  /** The answer came: send what waits. */
  done(): void {
    this.sentAt = null;
    if (this.waiting !== null) this.go(this.waiting);
  }

  private expire(): void {
    if (this.waiting !== null && this.pending >= this.patience) this.go(this.waiting);
  }

  private go(request: T): void {
    this.waiting = null;
    this.sentAt = this.clock.now();
    this.send(request);
  }
}
