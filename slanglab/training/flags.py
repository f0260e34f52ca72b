"""What is wrong with a parameter's gradient, from the norms that were measured: dead, jumped, exploding, not finite."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["Flag", "flag"]

_SPAN = 20
_JUMP, _EXPLODED = 5.0, 100.0


@dataclass(frozen=True)
class Flag:
    """A finding.

    Attributes
    ----------
    kind : {'dead', 'jumped', 'exploding', 'not finite'}
    number : float
        Steps without a gradient; how many times the usual norm; elements that are not finite.
    """

    kind: Literal["dead", "jumped", "exploding", "not finite"]
    number: float

    def text(self) -> str:
        """Return it in words, plain text."""
        n = int(self.number)
        if self.kind == "dead":
            return f"dead {n} {'step' if n == 1 else 'steps'}"
        if self.kind == "not finite":
            return f"{n} not finite"
        return f"{self.kind} x{self.number:.3g}"


def flag(steps: NDArray[np.float64], norms: NDArray[np.float64], bad: int = 0) -> Flag | None:
    """Judge the last of some norms by those before it.

    Parameters
    ----------
    steps, norms : ndarray of float64, shape (n,)
        Where a gradient was measured, and its norm.
    bad : int
        Elements of the latest gradient that are not finite.

    Returns
    -------
    Flag or None
        'dead' from the second measured zero in a row on; 'jumped' and 'exploding' from 5 and 100 times the median of up to 20 norms
        before, once there are five.
    """
    if bad:
        return Flag("not finite", bad)
    if not len(norms) or math.isnan(norms[-1]):
        return None
    if norms[-1] == 0:
        alive = np.flatnonzero(norms != 0)
        first = int(alive[-1]) + 1 if len(alive) else 0
        return Flag("dead", float(steps[-1] - steps[first])) if len(norms) - first > 1 else None
    before = norms[-1 - _SPAN : -1]
    before = before[np.isfinite(before) & (before > 0)]
    if len(before) < 5:
        return None
    times = float(norms[-1] / np.median(before))
    if times >= _EXPLODED:
        return Flag("exploding", times)
    return Flag("jumped", times) if times >= _JUMP else None
