"""From numbers to positions on a colour map, by the scale and the range that a reader chose; as `choices.ts` does it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slanglab.tensors.records import Statistics
from slanglab.tensors.spread import Spread
from slanglab.widgets.shown import Choice

__all__ = ["THRESHOLD", "Scale", "centred_limit", "linear", "scale"]

THRESHOLD = 0.01
"""Linear threshold of a symlog scale, as a part of the largest magnitude in its range."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Scale:
    """A monotone map of numbers to 0…1; what is out of range is under 0 or over 1, NaN stays.

    Attributes
    ----------
    low, high : float
        What lies at 0 and at 1.
    to : callable
        From numbers to positions.
    ticks : tuple of float
        Numbers to label.
    """

    low: float
    high: float
    to: Callable[[Any], Floats]
    ticks: tuple[float, ...]


def centred_limit(choice: Choice, known: Statistics | None, limit: float, spread: Spread | None) -> float:
    """Return the limit of a range that is centred at zero.

    Parameters
    ----------
    choice : Choice
    known : Statistics or None
    limit : float
        The 99.9 % quantile of the magnitudes, 0 where it is not known.
    spread : Spread or None
        Of the magnitudes that are not zero.
    """
    if known is None or known.minimum is None or known.maximum is None:
        return 1.0
    most = float(max(abs(known.minimum), abs(known.maximum)))
    if choice.range == "typed" and choice.hi > 0:
        return choice.hi
    if choice.range == "3 sigma" and known.std:
        return min(most, 3 * math.hypot(known.mean or 0.0, known.std))
    if choice.range == "99.9" and limit > 0:
        return limit
    if choice.range == "99" and spread is not None:
        zero = known.zeros / known.finite
        found = float(spread.numbers((0.99 - zero) / (1 - zero))) if zero < 0.99 else 0.0
        if found > 0:
            return found
    return most or 1.0


def _range(choice: Choice, known: Statistics | None, spread: Spread | None) -> tuple[float, float]:
    if known is None or known.minimum is None or known.maximum is None:
        return 0.0, 1.0
    low, high = float(known.minimum), float(known.maximum)
    if choice.range == "typed" and choice.lo < choice.hi:
        return choice.lo, choice.hi
    if choice.range == "3 sigma" and known.std and known.mean is not None:
        return max(low, known.mean - 3 * known.std), min(high, known.mean + 3 * known.std)
    if choice.range in ("99", "99.9") and spread is not None:
        out = (1 - float(choice.range) / 100) / 2
        first, last = spread.numbers([out, 1 - out]).tolist()
        if first < last:
            return first, last
    return low, high


def scale(
    choice: Choice,
    known: Statistics | None,
    limit: float,
    spread: Spread | None,
    centred: bool,
    *,
    curve: bool = False,
) -> Scale:
    """Return the scale of a choice; the parameters are those of `centred_limit`, `spread` of the numbers themselves if not centred.

    Of a curve whose numbers are all positive a symlog scale shows every decade.
    """
    if choice.scale == "rank" and centred and spread is not None:
        return _ranked(spread)
    if centred:
        high = centred_limit(choice, known, limit, spread)
        low = -high
    else:
        low, high = _range(choice, known, spread)
    if choice.scale == "linear":
        return Scale(low, high, lambda x: linear(x, low, high), (low, low / 2 + high / 2, high))
    # The decades of a curve end where their number would leave what a double holds.
    threshold = max(low, high * 1e-300) if curve and low > 0 else max(abs(low), abs(high)) * THRESHOLD
    if not (high > low and threshold > 0):
        return Scale(low, high, lambda x: linear(x, low, high), (low,))
    bottom, top = math.asinh(low / threshold), math.asinh(high / threshold)
    ticks = sorted({low, 0.0, high} if centred else {low, max(low, high / 10), high})

    def to(x: Any) -> Floats:
        with np.errstate(over="ignore"):  # of what is far out of the range
            found: Floats = (np.arcsinh(np.asarray(x, np.float64) / threshold) - bottom) / (top - bottom)
        return found

    return Scale(low, high, to, tuple(t for t in ticks if low <= t <= high))


def _ranked(spread: Spread) -> Scale:
    most = float(spread.at[-1])

    def to(x: Any) -> Floats:
        wide = np.asarray(x, np.float64)
        found: Floats = 0.5 + np.sign(wide) * spread.shares(np.abs(wide)) / 2
        return np.where(np.isnan(wide), np.nan, found)

    half = float(spread.numbers(0.5))
    return Scale(-most, most, to, (-most, -half, 0.0, half, most))


def linear(x: Any, low: float, high: float) -> Floats:
    """Map numbers to 0…1 of a range; where that is a single number, all to the middle."""
    # Halves keep the difference of the largest numbers finite.
    half = high / 2 - low / 2
    wide = np.asarray(x, np.float64)
    with np.errstate(over="ignore"):  # of what is far out of the range
        return (wide / 2 - low / 2) / half if half > 0 else np.where(np.isnan(wide), np.nan, 0.5)
