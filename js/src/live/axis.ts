// One x for all plots of a run: steps to pixels.

export interface Frame {
  /** Pixels left of the first step and right of the last. */
  left: number;
  right: number;
  width: number;
  /** The last step's number, at least 1. */
  last: number;
}

export const stepX = (f: Frame, step: number): number =>
  f.left + (step / f.last) * (f.width - f.left - f.right);

export const stepAt = (f: Frame, x: number): number =>
  Math.round(Math.min(1, Math.max(0, (x - f.left) / (f.width - f.left - f.right))) * f.last);
