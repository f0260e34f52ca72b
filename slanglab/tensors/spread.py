"""How the numbers of a tensor are spread: its quantiles, from a few histograms that each look closer.

A single histogram over the range says nothing where one element is a million times the others. So the bins that hold many
elements are divided again, until no bin holds more than a small share of all or is narrower than what can be told apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slanglab.tensors import summary as summaries

__all__ = ["SHARES", "Spread", "spread"]

SHARES: NDArray[np.float64] = np.unique(
    np.concatenate([np.arange(129) / 128, [0.0005, 0.001, 0.005, 0.01, 0.99, 0.995, 0.999, 0.9995]])
)
"""Where the quantiles are told: evenly, and closer at both ends."""

_BINS = 256
"""Of each histogram: as many as are counted quickest on a processor."""

_FINE = 1 / 32
"""A bin that holds a larger share of the elements is divided."""

_NARROW = 1e-4
"""A bin whose width is a smaller part of its numbers is not."""

_PASSES = 16
"""Histograms at most."""

_FAR = 900
"""Exponents of two beyond which interpolation scales its numbers."""


@dataclass(frozen=True, eq=False)
class Spread:
    """Quantiles of some numbers.

    Attributes
    ----------
    share : ndarray of float64
        Ascending from 0 to 1.
    at : ndarray of float64
        The numbers that so many are not above, to about 1e-4 of their size.
    """

    share: NDArray[np.float64]
    at: NDArray[np.float64]

    def numbers(self, shares: ArrayLike) -> NDArray[np.float64]:
        """Return the numbers that such shares are not above."""
        return _interpolated(shares, self.share, self.at)

    def shares(self, numbers: ArrayLike) -> NDArray[np.float64]:
        """Return the shares that are not above some numbers; 0 and 1 outside of what there is, NaN for NaN."""
        shift = _shift(self.at)
        with np.errstate(over="ignore"):  # of what is far above all of them
            wide = np.ldexp(np.asarray(numbers, np.float64), -shift)
        return np.asarray(np.interp(wide, np.ldexp(self.at, -shift), self.share))


def _shift(numbers: NDArray[np.float64]) -> int:
    """Return the power of two that numbers are divided by, where differences and slopes of them would leave what a double holds."""
    exponent = math.frexp(float(np.abs(numbers).max()))[1]
    return exponent if abs(exponent) > _FAR else 0


def _interpolated(
    x: ArrayLike, places: NDArray[np.float64], numbers: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Interpolate linearly, as `numpy.interp`, numbers that may be as large as there are."""
    shift = _shift(numbers)
    near = np.ldexp(numbers, -shift)
    return np.asarray(
        np.ldexp(np.clip(np.interp(np.asarray(x, np.float64), places, near), near.min(), near.max()), shift)
    )


def spread(tensor: Any, *, gradient: bool = False, magnitude: bool = False) -> Spread | None:
    """Return how the finite elements of a tensor are spread.

    Parameters
    ----------
    tensor : slangpy.Tensor or ndarray
    gradient : bool
        Of its gradient instead.
    magnitude : bool
        Of the magnitudes of the elements that are not zero.

    Returns
    -------
    Spread or None
        None where there is no element to count.
    """
    known = summaries.statistics(tensor, gradient=gradient)
    if known.minimum is None or known.maximum is None:
        return None
    least, most = float(known.minimum), float(known.maximum)

    def counted(low: float, high: float) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        found = summaries.histogram(tensor, _BINS, (low, high), gradient=gradient)
        if not magnitude:
            return found.edges, found.counts
        # What lies below zero is counted from zero on; a range that holds zero is its own mirror.
        mirrored = summaries.histogram(tensor, _BINS, (-high, -low), gradient=gradient).counts[::-1]
        counts = found.counts + mirrored
        if low == 0.0:
            counts[0] = max(counts[0] - 2 * known.zeros, 0)  # both histograms counted the zeros
        return found.edges, counts

    if magnitude:
        least, most = 0.0, max(abs(least), abs(most))
        if known.zeros == known.finite:
            return None
    if least == most:
        return Spread(SHARES, np.full(len(SHARES), least))
    bounds, counts = counted(least, most)
    for _ in range(_PASSES):
        half = np.diff(bounds / 2)  # of the width, which may be more than the largest double
        size = np.maximum(np.abs(bounds[:-1]), np.abs(bounds[1:]))
        wanted = (counts > counts.sum() * _FINE) & (half > size / 2 * _NARROW)
        # Next to zero a bin is as wide as its numbers for ever: there is an end where they are nothing beside the rest.
        wanted &= size > _most(bounds) * (1e-30 if magnitude else 1e-9)
        if not wanted.any():
            break
        k = int(np.argmax(np.where(wanted, counts, -1)))
        edges, inside = counted(float(bounds[k]), float(bounds[k + 1]))
        # An element on an edge is counted by both bins that meet there; the total stays what it was.
        inside = _adjusted(inside, int(counts[k]))
        used = np.concatenate([inside[:1] >= 0, (inside[1:] > 0) | (inside[:-1] > 0)])
        bounds = np.concatenate([bounds[:k], edges[:-1][used], bounds[k + 1 :]])
        counts = np.concatenate([counts[:k], np.add.reduceat(inside, np.flatnonzero(used)), counts[k + 1 :]])
    reached = np.concatenate([[0], np.cumsum(counts)]) / max(int(counts.sum()), 1)
    filled = np.flatnonzero(counts)
    # Only the bins that hold something: between two of them a quantile is at the edge of one.
    points = np.unique(np.concatenate([filled, filled + 1]))
    at = _interpolated(SHARES, reached[points], bounds[points])
    at[-1] = most
    if not magnitude:
        at[0] = least
    return Spread(SHARES, np.maximum.accumulate(at))


def _most(bounds: NDArray[np.float64]) -> float:
    """Return the greatest magnitude in a range."""
    return float(max(abs(bounds[0]), abs(bounds[-1])))


def _adjusted(counts: NDArray[np.int64], total: int) -> NDArray[np.int64]:
    """Take what is counted too much (elements on the upper edge) out of the last bins."""
    result = counts.copy()
    over = int(result.sum()) - total
    k = len(result) - 1
    while over > 0 and k >= 0:
        taken = min(over, int(result[k]))
        result[k] -= taken
        over -= taken
        k -= 1
    if over < 0:
        result[-1] -= over
    return result
