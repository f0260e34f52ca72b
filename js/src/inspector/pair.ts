// Value and gradient stand beside each other where there is room, else one under the other.

/** A page of fewer pixels has no room for two. */
export const NARROW = 620;
const GAP = 20;
/** One alone does not need the whole page. */
const WIDEST = 560;

export const areBeside = (count: number, width: number): boolean => count === 2 && width >= NARROW;

/** Pixels for each of two beside each other, or for one alone. */
export const share = (beside: boolean, width: number): number =>
  beside ? Math.floor((width - GAP) / 2) : Math.min(width, WIDEST);
