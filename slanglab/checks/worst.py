"""Which elements of an input have a gradient that differs: one number each, once the whole is known to differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slanglab.checks.problem import Array, Line, Problem

__all__ = ["Element", "worst"]

_FOURTH = (2 / 3, -1 / 12)
_STEP = 2.0**-7
_HALF_STEP = 2.0**-4
_SINGLY = 64
"""Inputs of up to so many elements are gone through one by one."""

_COMPONENTS = 16


@dataclass(frozen=True)
class Element:
    """One element of an input.

    Attributes
    ----------
    index : tuple of int
        In the input's array.
    value : float
    given : float
        Its gradient from the backward call.
    measured : float
        The same from differences.
    """

    index: tuple[int, ...]
    value: float
    given: float
    measured: float

    @property
    def off(self) -> float:
        """How far the two are apart."""
        return abs(self.given - self.measured)


def worst(problem: Problem, gradient: Array, rng: np.random.Generator, count: int = 3) -> list[Element]:
    """Return the elements that differ most, worst first; fewer where the input has fewer.

    For an elementwise call all elements are measured at once; a small input is measured element by element; in a large one a single
    element is found by halving, along random directions.

    Parameters
    ----------
    problem : Problem
        With one input.
    gradient : numpy.ndarray
        Of that input's shape.
    rng : numpy.random.Generator
    count : int
    """
    (x,) = problem.point
    if problem.elements is not None and x.size // problem.elements <= _COMPONENTS:
        measured = _all_at_once(problem)
        flat: Sequence[int] = range(x.size)
    else:
        flat = range(x.size) if x.size <= _SINGLY else [_by_halving(problem, gradient, rng)]
        measured = {i: _alone(problem, i) for i in flat}
    found = [
        Element(
            tuple(int(n) for n in np.unravel_index(i, x.shape)),
            float(x.reshape(-1)[i]),
            float(gradient.reshape(-1)[i]),
            measured[i],
        )
        for i in flat
        if np.isfinite(measured[i])
    ]
    found.sort(key=lambda e: e.off if np.isfinite(e.given) else np.inf, reverse=True)
    return found[:count]


def _sizes(x: Array) -> Array:
    size = np.abs(np.nan_to_num(x.astype(np.float64)))
    rms = float(np.sqrt(np.mean(size**2))) if size.size else 0.0
    return np.maximum(size, rms) if rms > 0 else np.ones(x.shape)


def _difference(problem: Problem, direction: Array) -> tuple[Array, Array]:
    """Return a central difference by element, and the steps in its place, by number."""
    line = Line(problem, [direction])
    step = line.nearest(_HALF_STEP if line.grain else _STEP)
    total = np.zeros(problem.elements or 1)
    for k, weight in enumerate(_FOURTH, 1):
        rows = problem.weight * (line.value(k * step) - line.value(-k * step))
        total += weight / step * rows.sum(axis=1)
    return total, line.displacement(step, _FOURTH)[0]


def _all_at_once(problem: Problem) -> dict[int, float]:
    (x,) = problem.point
    count = problem.elements or 1
    each = x.size // count
    sizes = _sizes(x).reshape(count, each)
    found = np.full((count, each), np.nan)
    for k in range(each):
        direction = np.zeros((count, each))
        direction[:, k] = sizes[:, k]
        total, moved = _difference(problem, direction.reshape(x.shape))
        with np.errstate(all="ignore"):
            found[:, k] = total / moved.reshape(count, each)[:, k]
    return dict(enumerate(found.reshape(-1).tolist()))


def _alone(problem: Problem, index: int) -> float:
    """Return the derivative by one element."""
    (x,) = problem.point
    direction = np.zeros(x.size)
    direction[index] = _sizes(x).reshape(-1)[index]
    total, moved = _difference(problem, direction.reshape(x.shape))
    taken = float(moved.reshape(-1)[index])
    return float(total.sum()) / taken if taken else float("nan")


def _by_halving(problem: Problem, gradient: Array, rng: np.random.Generator) -> int:
    """Return an element whose gradient differs: of each two halves, go on in the one that differs more."""
    (x,) = problem.point
    exact = np.asarray(gradient, dtype=np.float64).reshape(-1)
    broken = np.flatnonzero(~np.isfinite(exact))
    if broken.size:
        return int(broken[0])
    direction = _sizes(x).reshape(-1) * rng.uniform(0.5, 1, x.size) * rng.choice((-1.0, 1.0), x.size)
    low, high = 0, x.size
    while high - low > 1:
        middle = (low + high) // 2
        left, right = (_residual(problem, exact, direction, a, b) for a, b in ((low, middle), (middle, high)))
        low, high = (low, middle) if left >= right else (middle, high)
    return low


def _residual(problem: Problem, gradient: Array, direction: Array, low: int, high: int) -> float:
    (x,) = problem.point
    part = np.zeros(x.size)
    part[low:high] = direction[low:high]
    total, moved = _difference(problem, part.reshape(x.shape))
    off = abs(float(total.sum()) - float((gradient * moved.reshape(-1)).sum()))
    return off if np.isfinite(off) else np.inf
