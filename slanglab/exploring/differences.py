"""The gradient of a call measured without differentiating: central differences, element by element, and what they can resolve.

Two steps, h and h/2, in the function's own float32. Their difference tells the truncation, the size of the values the rounding (Press et
al., Numerical Recipes, 3rd ed., section 5.7). An element where the slopes on both sides differ by as much at both steps has a kink, and
says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Quotients", "compare", "step"]

Floats = NDArray[np.float64]

_UNIT = 2.0**-24
_TOLERANCE = 1e-3
"""Of the largest gradient: what approximate intrinsics of a GPU may take."""
_STEP = 2.0**-7
"""Of the size of the number: near the cube root of the rounding, so that both errors are alike."""


@dataclass(frozen=True)
class Quotients:
    """What differences say about one gradient.

    Attributes
    ----------
    measured : ndarray of float64
        The derivative of each element; NaN where a value is not finite.
    off : ndarray of bool
        Elements whose gradient differs by more than the differences can be wrong.
    verdict : {"agrees", "differs", "cannot tell"}
    worst : float
        The largest deviation of an element that was judged.
    reason : str
        For "cannot tell".
    scale : float
        The largest gradient, which `worst` can be seen against.
    judged : int
        Elements that could be judged.
    """

    measured: Floats
    off: NDArray[np.bool_]
    verdict: str
    worst: float = 0.0
    reason: str = ""
    scale: float = 0.0
    judged: int = 0


def step(size: float) -> float:
    """Return a step for numbers of a size: a power of two, so that a shift by it is exact but for the rounding of the sum."""
    size = abs(size) if np.isfinite(size) and size != 0 else 1.0
    return float(2.0 ** np.round(np.log2(size * _STEP)))


def compare(
    value: Callable[[Mapping[str, float]], Floats],
    path: str,
    at: Floats,
    gradient: Floats | None,
    size: float,
) -> Quotients:
    """Measure the derivative with respect to one number, and compare it.

    Parameters
    ----------
    value : callable
        Returns the elements, with the number at `path` shifted.
    path : str
    at : ndarray of float64
        The number itself, for each element, or one for all.
    gradient : ndarray of float64 or None
        What the backward call gave; None measures only.
    size : float
        How large the number is, for the step.
    """
    h = step(size)
    centre = value({})

    def pair(by: float) -> tuple[Floats, Floats]:
        """Return the slopes on both sides, over the steps that float32 really took."""
        up = (at + by).astype(np.float32).astype(np.float64) - at
        down = at - (at - by).astype(np.float32).astype(np.float64)
        with np.errstate(all="ignore"):
            return (value({path: by}) - centre) / up, (centre - value({path: -by})) / down

    with np.errstate(all="ignore"):
        right, left = pair(h)
        near_right, near_left = pair(h / 2)
        coarse, measured = (right + left) / 2, (near_right + near_left) / 2
        rounding = 8 * _UNIT * np.maximum(np.abs(centre), _largest(centre) * 0.1) / h
        kink = (np.abs(near_right - near_left) > 0.75 * np.abs(right - left)) & (
            np.abs(near_right - near_left) > 16 * rounding + 1e-2 * np.abs(measured)
        )
    known = np.isfinite(measured) & np.isfinite(coarse)
    if gradient is None:
        return Quotients(
            measured, np.zeros(measured.shape, bool), "cannot tell", reason="there is no gradient to compare"
        )
    judged = known & ~kink & np.isfinite(gradient)
    with np.errstate(all="ignore"):
        distance = np.abs(gradient - measured)
        bound = 2 * np.abs(coarse - measured) + 4 * rounding + _TOLERANCE * _largest(gradient)
        # A finite derivative whose gradient is not finite is wrong too.
        off = (judged & (distance > bound)) | (known & ~kink & ~np.isfinite(gradient))
    if not judged.any() and not off.any():
        return Quotients(
            measured, off, "cannot tell", reason="no element has finite values on both sides, without a kink"
        )
    worst = float(distance[judged].max()) if judged.any() else float("inf")
    return Quotients(
        measured, off, "differs" if off.any() else "agrees", worst, "", _largest(gradient), int(judged.sum())
    )


def _largest(x: Floats) -> float:
    finite = np.abs(x[np.isfinite(x)])
    return float(finite.max()) if finite.size else 0.0
