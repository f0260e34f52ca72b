// Drawing what arrives: once for all that arrived since the last time, and how long that takes.

/** Of the last draws, the middle one of so many is what a draw costs. */
const KEPT = 3;

export interface Frames {
  now(): number;
  /** Call at the page's next frame; never while it is hidden. */
  next(f: () => void): void;
  /** Call when what was drawn has been laid out and painted. */
  painted(f: () => void): void;
}

const browserFrames: Frames = {
  now: () => performance.now(),
  next: (f) => {
    requestAnimationFrame(f);
  },
  painted: (f) => {
    // A message is the first task after the frame, however busy its timers.
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      f();
    };
    port2.postMessage(null);
  },
};

export class Painter {
  private waiting: Promise<void> | null = null;
  private kept: () => void = () => undefined;
  private readonly took: number[] = [];
  private seen = true;
  private stale = false;

  constructor(
    private readonly draw: () => void,
    private readonly frames: Frames = browserFrames,
  ) {}

  /** Milliseconds that a draw keeps the page busy, with layout and paint; null before the first. */
  get cost(): number | null {
    const sorted = [...this.took].sort((a, b) => a - b);
    const middle = sorted[(sorted.length - 1) >> 1];
    return middle === undefined ? null : Math.round(middle * 10) / 10;
  }

  /** Say whether the view is on the screen. Out of sight nothing is drawn that can wait, and all of that once it is seen. */
  sight(seen: boolean): void {
    this.seen = seen;
    if (!seen || !this.stale) return;
    this.stale = false;
    void this.soon();
  }

  /** Draw at the page's next frame, once however often it is asked for; the promise is kept when that has been painted. */
  soon(): Promise<void> {
    if (this.waiting) return this.waiting;
    if (!this.seen) {
      this.stale = true;
      return Promise.resolve();
    }
    const promise = new Promise<void>((kept) => {
      this.kept = kept;
    });
    const { kept } = this;
    this.waiting = promise;
    this.frames.next(() => {
      // Drawn meanwhile, or gone.
      if (this.waiting !== promise) return;
      this.waiting = null;
      const began = this.frames.now();
      try {
        this.draw();
      } finally {
        this.frames.painted(() => {
          this.took.push(this.frames.now() - began);
          if (this.took.length > KEPT) this.took.shift();
          kept();
        });
      }
    });
    return promise;
  }

  /** Draw now, and with it what waits. */
  now(): void {
    const waited = this.waiting !== null;
    this.waiting = null;
    this.stale = false;
    try {
      this.draw();
    } finally {
      if (waited) this.kept();
    }
  }

  /** Forget what waits. */
  stop(): void {
    if (this.waiting !== null) this.kept();
    this.waiting = null;
    this.stale = false;
  }
}
