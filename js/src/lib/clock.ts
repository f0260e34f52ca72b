// Time, which tests move by hand.

export interface Clock {
  now(): number;
  /** Call `f` after so many milliseconds, unless what is returned is called before. */
  later(f: () => void, ms: number): () => void;
}

export const browserClock: Clock = {
  now: () => performance.now(),
  later: (f, ms) => {
    const id = setTimeout(f, ms);
    return () => clearTimeout(id);
  },
};
