"""A line search for the strong Wolfe conditions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Point", "search"]

_ARMIJO, _CURVATURE = 1e-4, 0.9
_EDGE = 0.1


@dataclass(frozen=True, eq=False)
class Point:
    """What is known at one length of step.

    Attributes
    ----------
    at : float
        The length.
    loss : float
    slope : float
        The loss's derivative along the direction.
    gradient : ndarray
    """

    at: float
    loss: float
    slope: float
    gradient: NDArray[np.float64]


def _lowest(a: Point, b: Point, low: float, high: float) -> float:
    """Return where the cubic through two points and their slopes is lowest, kept between two bounds; else their middle."""
    if a.at > b.at:
        a, b = b, a
    mixed = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.at - b.at) if a.at != b.at else math.nan
    square = mixed * mixed - a.slope * b.slope
    if not (math.isfinite(square) and square >= 0):
        return (low + high) / 2
    root = math.sqrt(square)
    divisor = b.slope - a.slope + 2 * root
    if divisor == 0:
        return (low + high) / 2
    return min(max(b.at - (b.at - a.at) * (b.slope + root - mixed) / divisor, low), high)


def search(
    evaluate: Callable[[float], Point], start: Point, first: float, size: float, tolerance: float, most: int
) -> tuple[Point, int]:
    """Find a step whose loss falls enough and whose slope is flat enough: first a bracket, then inside it.

    Parameters
    ----------
    evaluate : callable
        Returns the point of a length.
    start : Point
        At length 0; its slope is negative.
    first : float
        The length to try first.
    size : float
        The largest component of the direction.
    tolerance : float
        Change of a parameter below which the bracket is not divided further.
    most : int
        Evaluations after the first.

    Returns
    -------
    (Point, int)
        The lowest point found, and how often the loss was evaluated.

    References
    ----------
    J. Nocedal, S. J. Wright: Numerical Optimization, 2nd edition, 2006; algorithms 3.5 and 3.6. How far a trial may go beyond the
    last one (1 % to tenfold) and how near the ends of a bracket (a tenth) is as in M. Schmidt's minFunc and torch.optim.LBFGS.
    """

    def is_too_high(point: Point) -> bool:
        return not point.loss <= start.loss + _ARMIJO * point.at * start.slope

    def is_flat(point: Point) -> bool:
        return abs(point.slope) <= -_CURVATURE * start.slope

    before, here = start, evaluate(first)
    tries = 0
    bracket: tuple[Point, Point] | None = None
    while tries < most:
        if is_too_high(here) or (tries > 1 and here.loss >= before.loss):
            bracket = before, here
            break
        if is_flat(here):
            return here, tries + 1
        if here.slope >= 0:
            bracket = before, here
            break
        further = _lowest(before, here, here.at + 0.01 * (here.at - before.at), 10 * here.at)
        before, here = here, evaluate(further)
        tries += 1
    if bracket is None:
        bracket = start, here
    low, high = bracket if bracket[0].loss <= bracket[1].loss else bracket[::-1]
    if math.isnan(low.loss):
        low, high = high, low
    was_near = False
    while tries < most:
        left, right = sorted((low.at, high.at))
        if (right - left) * size < tolerance:
            break
        at = _lowest(low, high, left, right)
        edge = _EDGE * (right - left)
        near = min(right - at, at - left) < edge
        if near and (was_near or at >= right or at <= left):
            at = right - edge if right - at < at - left else left + edge
            near = False
        was_near = near
        here = evaluate(at)
        tries += 1
        if is_too_high(here) or here.loss >= low.loss:
            high = here
            if high.loss < low.loss:
                low, high = high, low
            continue
        if is_flat(here):
            return here, tries + 1
        if here.slope * (high.at - low.at) >= 0:
            high = low
        low = here
    return low, tries + 1
