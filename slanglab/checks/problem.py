"""The function whose gradient is checked, and how it is evaluated along a line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from slanglab.checks.differences import Quotient

__all__ = ["Array", "Function", "Line", "Problem", "random_cotangent", "random_direction"]

Array = np.ndarray[Any, Any]
Function = Callable[[Sequence[Array]], Sequence[Array]]

_LEAST_SHARE = 2.0**-6
"""Of a step; halves have too few digits for less than a whole one."""


@dataclass(eq=False)
class Problem:
    """A function of float arrays at one point, with the cotangent that its gradient belongs to.

    Sums are in float64 on the host; only the function itself runs in the arrays' own type.

    Parameters
    ----------
    function : callable
        Takes a list of arrays shaped and typed like `point` and returns a list of arrays. It must not keep or change them.
    point : sequence of numpy.ndarray
        Where the gradient was taken: float16, float32 or float64.
    value : sequence of numpy.ndarray
        What the function returned there.
    cotangent : sequence of numpy.ndarray
        One for each output, of its shape.
    elements : int or None
        For an elementwise call the number of its elements: element i of each output depends on element i of each input and on
        nothing else. Every array then splits evenly into so many parts, in order. None for any other function.
    """

    function: Function
    point: Sequence[Array]
    value: Sequence[Array]
    cotangent: Sequence[Array]
    elements: int | None = None
    weight: Array = field(init=False)
    """The cotangent as float64, shape (elements, outputs of one element), or (1, all outputs)."""

    def __post_init__(self) -> None:
        self.weight = self.rows(self.cotangent)

    def rows(self, arrays: Sequence[Array]) -> Array:
        """Return arrays side by side as float64, one row for each element of the call; all in one row where it is not elementwise."""
        count = self.elements or 1
        parts = [np.asarray(a, dtype=np.float64).reshape(count, -1) for a in arrays]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


def random_direction(point: Sequence[Array], rng: np.random.Generator) -> list[Array]:
    """Draw a direction as large as the point is: ±U[0.5, 1]·max(|x|, rms(x)) for each array.

    Magnitudes are random so that equal errors of opposite sign do not cancel, as they do half the time for ±1; none is near zero, so
    that every single element counts.

    Among inputs of different sizes a small one takes a small step, by the root of the ratio. What n elements add to the gradient of one
    shared parameter adds up to n, what they add along n random signs to √n: with equal steps the shared one would drown the others, and an
    error of theirs would not be seen.
    """
    direction = []
    largest = max((x.size for x in point), default=1)
    for x in point:
        size = np.abs(x.astype(np.float64))
        finite = np.isfinite(size)
        size = np.where(finite, size, 0.0)
        rms = float(np.sqrt(np.mean(size**2))) if size.size else 0.0
        scale = np.maximum(size, rms) if rms > 0 else np.ones(x.shape)
        signed = rng.choice((-1.0, 1.0), x.shape) * rng.uniform(0.5, 1.0, x.shape)
        share = max(_LEAST_SHARE, np.sqrt(x.size / largest)) if x.dtype != np.float16 and x.size else 1.0
        direction.append(np.where(finite, share * signed * scale, 0.0))
    return direction


def random_cotangent(value: Sequence[Array], rng: np.random.Generator, positive: float = 0.5) -> list[Array]:
    """Draw ±U[0.5, 1] for each output: no output is left out, and equal outputs do not cancel.

    Parameters
    ----------
    value : sequence of numpy.ndarray
        The outputs.
    rng : numpy.random.Generator
    positive : float
        How many are positive. With more than half, what all elements of a call add to the gradient of a shared parameter does not
        cancel, and an error in it stays as large as it is.
    """
    found = []
    for y in value:
        signs = np.where(rng.random(y.shape) < positive, 1.0, -1.0)
        found.append((signs * rng.uniform(0.5, 1.0, y.shape)).astype(y.dtype))
    return found


_GRAIN = 2.0**-7
_REACH = 0.2
"""How far steps usually go, in lengths of the direction: numbers are that much larger there, and their spacing with them."""


def _representable(direction: Array, x: Array) -> Array:
    """Return a direction of which a grain, added to halves, gives halves; others are left as they are."""
    exact = np.asarray(direction, dtype=np.float64)
    if x.dtype != np.float16:
        return exact
    far = np.minimum(np.abs(x.astype(np.float64)) + _REACH * np.abs(exact), float(np.finfo(np.float16).max))
    unit = np.spacing(np.where(np.isfinite(far), far, 1.0).astype(np.float16)).astype(np.float64) / _GRAIN
    whole = np.maximum(np.round(np.abs(exact) / unit), 1.0) * unit
    return np.where(exact == 0, 0.0, np.copysign(whole, exact))


class Line:
    """A problem's function along a direction, evaluated where it is asked for and once for each place.

    Parameters
    ----------
    problem : Problem
    direction : sequence of numpy.ndarray
        One for each input, of its shape.

    Attributes
    ----------
    calls : int
        How often the function was called.
    quotients : dict of float to Quotient or None
        What was measured on this line, by step (`slanglab.checks.differences`).
    grain : float
        Steps are multiples of this: a half has so few bits that only some steps lead to numbers that are halves again. 0 for any step.
    """

    def __init__(self, problem: Problem, direction: Sequence[Array]) -> None:
        self.problem = problem
        self.grain = _GRAIN if any(x.dtype == np.float16 for x in problem.point) else 0.0
        self.direction = [_representable(d, x) for d, x in zip(direction, problem.point, strict=True)]
        self.calls = 0
        self.quotients: dict[float, Quotient | None] = {}
        self._start = problem.rows(problem.value)
        self._known: dict[float, tuple[Array, list[Array]]] = {}
        self._displacements: dict[tuple[float, tuple[float, ...]], list[Array]] = {}

    def nearest(self, step: float) -> float:
        """Return the step nearest to the one wanted."""
        return max(1, round(step / self.grain)) * self.grain if self.grain else step

    def _at(self, t: float) -> tuple[Array, list[Array]]:
        if t not in self._known:
            point = self.problem.point
            moved = [
                (x.astype(np.float64) + t * d).astype(x.dtype)
                for x, d in zip(point, self.direction, strict=True)
            ]
            value = self.problem.rows(self.problem.function(moved))
            self.calls += 1
            # The step that rounding left, exactly: comparing with it takes the rounding of the inputs out of the difference quotient.
            steps = [m.astype(np.float64) - x for m, x in zip(moved, point, strict=True)]
            self._known[t] = value, steps
        return self._known[t]

    def value(self, t: float) -> Array:
        """Return the outputs at `t`, in rows as `Problem.rows` makes them."""
        return self._start if t == 0 else self._at(t)[0]

    def displacement(self, step: float, coefficients: Sequence[float]) -> list[Array]:
        """Return what takes the place of the direction in a central difference: the steps that were really taken, added up as it does.

        Parameters
        ----------
        step : float
        coefficients : sequence of float
            Of the differences over ±step, ±2·step, ….

        Returns
        -------
        list of numpy.ndarray
            One for each input; its product with the gradient is what the gradient says of the difference quotient.
        """
        key = (step, tuple(coefficients))
        if key not in self._displacements:
            sums = [np.zeros(x.shape) for x in self.problem.point]
            for k, weight in enumerate(coefficients, 1):
                ahead, behind = self._at(k * step)[1], self._at(-k * step)[1]
                for total, a, b in zip(sums, ahead, behind, strict=True):
                    total += weight / step * (a - b)
            self._displacements[key] = sums
        return self._displacements[key]

    def unevenness(self, step: float) -> Array:
        """Return how far the steps taken by each element are from equal ones, relative to a step; shape (elements,) or (1,).

        Only halves show it, where a number lies so close to a power of two that the spacing changes on the way.
        """
        count = self.problem.elements or 1
        found = np.zeros(count)
        if not self.grain:
            return found
        for k in (-3, -2, -1, 1, 2, 3):
            for taken, d in zip(self._at(k * step)[1], self.direction, strict=True):
                off = np.abs(taken - k * step * d) / np.maximum(np.abs(step * d), 1e-30)
                found = np.maximum(found, off.reshape(count, -1).max(axis=1, initial=0.0))
        return found

    def slope(self, gradient: Sequence[Array], step: float, coefficients: Sequence[float]) -> Array:
        """Return what a gradient (float64, one array for each input) says of a central difference, by element or in all.

        Returns
        -------
        numpy.ndarray
            Shape (elements,), or (1,) where the call is not elementwise.
        """
        count = self.problem.elements or 1
        total = np.zeros(count)
        for g, d in zip(gradient, self.displacement(step, coefficients), strict=True):
            total += (g * d).reshape(count, -1).sum(axis=1)
        return total
