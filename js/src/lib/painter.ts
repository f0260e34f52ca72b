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
  private waiting = false;
  private readonly took: number[] = [];

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

  /** Draw at the page's next frame, once however often it is asked for. */
  soon(): void {
    if (this.waiting) return;
    this.waiting = true;
    this.frames.next(() => {
      // Drawn meanwhile, or gone.
      if (!this.waiting) return;
      this.waiting = false;
      const began = this.frames.now();
      this.draw();
      this.frames.painted(() => {
        this.took.push(this.frames.now() - began);
        if (this.took.length > KEPT) this.took.shift();
      });
    });
  }

  /** Draw now. */
  now(): void {
    this.waiting = false;
    this.draw();
  }

  /** Forget what waits. */
  stop(): void {
    this.waiting = false;
  }
}
