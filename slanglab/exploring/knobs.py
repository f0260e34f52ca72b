"""What can be turned: one knob for each number that a function takes, and the axes that it is drawn over."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from slanglab.errors import ArgumentError

__all__ = ["Axis", "ExploreError", "Knob", "KnobKind", "guessed", "nice_step", "ranged"]

KnobKind = Literal["float", "int", "bool", "choice"]

_STEPS = 500
"""Positions of a slider that names no step, at least."""


class ExploreError(ArgumentError):
    """A function that cannot be explored as asked: a parameter without a value, a range that is none."""

    def __init__(self, function: str, message: str, *, argument: str = "", hint: str | None = None) -> None:
        super().__init__(
            f"explore({function}): {message}", function=function, argument=argument or None, hint=hint
        )


@dataclass
class Knob:
    """One number that can be turned.

    Attributes
    ----------
    path : str
        `a`; of a vector `p.x`; of a struct `material.roughness`.
    kind : {"float", "int", "bool", "choice"}
    low, high, step, start : float
        Of the slider; `start` is what a double click goes back to.
    choices : tuple of (str, object)
        The words of a choice, and what is passed.
    group : str
        What it is a component of, or empty.
    color : bool
        One of the channels of a colour.
    differentiable : bool
        Whether there may be a gradient with respect to it.
    uniform : bool
        A global of the module, not a parameter.
    value : float
        The setting; for a choice its index.
    """

    path: str
    kind: KnobKind = "float"
    low: float = 0.0
    high: float = 1.0
    step: float = 0.01
    start: float = 0.0
    choices: tuple[tuple[str, Any], ...] = ()
    group: str = ""
    color: bool = False
    differentiable: bool = False
    uniform: bool = False
    value: float = field(default=0.0)

    def __post_init__(self) -> None:
        self.value = self.start

    def taken(self, value: Any) -> float:
        """Return the setting that a request asks for, inside the range and on the step.

        Raises
        ------
        ValueError
            For what is no finite number.
        """
        if self.kind == "choice" and isinstance(value, str):
            names = [name for name, _ in self.choices]
            if value not in names:
                raise ValueError(f"{self.path} is one of {', '.join(names)}, not {value!r}")
            return float(names.index(value))
        number = float(value)
        if not math.isfinite(number):
            raise ValueError(f"{self.path} takes a finite number, not {number}")
        if self.kind != "float":
            number = float(round(number))
        return min(max(number, self.low), self.high)

    @property
    def passed(self) -> Any:
        """What a call is given."""
        if self.kind == "choice":
            return self.choices[int(self.value)][1]
        return {"float": float, "int": int, "bool": bool}[self.kind](self.value)


@dataclass
class Axis:
    """The numbers that a parameter, or a component of it, runs over.

    Attributes
    ----------
    path : str
    points : ndarray of float64, shape (n,)
        As float32 has them.
    differentiable : bool
    written : str
        The code that makes them.
    at : int
        The point that is looked at.
    """

    path: str
    points: NDArray[np.float64]
    differentiable: bool = False
    written: str = ""
    at: int = 0

    @property
    def value(self) -> float:
        """The number at the point that is looked at."""
        return float(self.points[self.at])

    def nearest(self, value: float) -> int:
        """Return the index of the point nearest to a number."""
        return int(np.argmin(np.abs(self.points - value)))


def nice_step(span: float) -> float:
    """Return 1, 2 or 5 times a power of ten, such that a span has some hundreds of them."""
    if not span > 0 or not math.isfinite(span):
        return 0.01
    raw = span / _STEPS
    power = 10.0 ** math.floor(math.log10(raw))
    factor = next((f for f in (1, 2, 5) if f * power >= raw * 0.999), 10)
    return float(f"{factor * power:.1g}")


def guessed(value: float, whole: bool = False) -> tuple[float, float]:
    """Return a range round a value: to twice its size on both sides of zero; for a whole number from 0, where it is not negative."""
    size = 2 * abs(value)
    if whole:
        high = max(10.0, size)
        return (0.0 if value >= 0 else -high), high
    if size == 0 or not math.isfinite(size):
        return -1.0, 1.0
    return -size, size


def ranged(
    function: str, path: str, given: Sequence[Any], whole: bool = False
) -> tuple[float, float, float, float]:
    """Return low, high, start and step of `(lo, hi)`, `(lo, hi, start)` or `(lo, hi, start, step)`.

    Raises
    ------
    ExploreError
        Where that is no range.
    """

    def refuse(what: str) -> ExploreError:
        shown = f"{path}={tuple(given)!r}"
        return ExploreError(
            function,
            f"{shown} is no range: {what}",
            argument=path,
            hint=f"give {path}=(lowest, highest), and perhaps a start and a step, for example {path}=(-5, 5, 1.0)",
        )

    try:
        numbers = [float(n) for n in given]
    except (TypeError, ValueError):
        raise refuse("it holds something that is no number") from None
    if not 2 <= len(numbers) <= 4:
        raise refuse(f"it holds {len(numbers)} numbers")
    if not all(math.isfinite(n) for n in numbers):
        raise refuse("NaN and infinities are no ends of a slider")
    low, high = numbers[:2]
    if low == high:
        raise refuse("both ends are the same, so that there is nothing to turn")
    if low > high:
        raise refuse(f"it runs backward, from {low:g} down to {high:g}")
    start = numbers[2] if len(numbers) > 2 else (low + high) / 2
    if not low <= start <= high:
        raise refuse(f"the start, {start:g}, lies outside")
    step = numbers[3] if len(numbers) > 3 else (1.0 if whole else nice_step(high - low))
    if not 0 < step <= high - low:
        raise refuse(f"the step, {step:g}, has to be above 0 and not above {high - low:g}")
    if whole:
        low, high, start, step = math.ceil(low), math.floor(high), round(start), max(1.0, round(step))
    elif len(numbers) < 3:
        start = min(max(low + round((start - low) / step) * step, low), high)
        start = float(f"{start:.10g}")
    return low, high, start, step
