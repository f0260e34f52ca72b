"""What a check of a gradient finds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["Outcome", "Verdict", "overall"]

Verdict = Literal["agrees", "differs", "cannot tell"]

_ORDER: tuple[Verdict, ...] = ("agrees", "cannot tell", "differs")


@dataclass(frozen=True)
class Outcome:
    """What the check along one or more directions found.

    Attributes
    ----------
    verdict : {"agrees", "differs", "cannot tell"}
    error : float
        The difference between gradient and difference quotient, relative to the larger of them.
    resolution : float
        Errors below this, relative, would not have been seen; NaN where nothing could be measured.
    reason : str
        For "cannot tell", and for a gradient that is not finite: why.
    calls : int
        How often the function was called.
    step : float
        The step that decided, in units of the direction (which is as long as the inputs are large).
    kinks : int
        How many elements of the call were left out, because the function has a kink or jump there.
    measured, given : float
        The derivative along the direction from differences, and from the gradient.
    worst : tuple of int
        For an elementwise call the elements that differ most, worst first.
    """

    verdict: Verdict
    error: float = 0.0
    resolution: float = float("nan")
    reason: str = ""
    calls: int = 0
    step: float = float("nan")
    kinks: int = 0
    measured: float = float("nan")
    given: float = float("nan")
    worst: tuple[int, ...] = field(default=())


def overall(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict of several: one that differs decides, then one that cannot be told."""
    return max(verdicts, key=_ORDER.index, default="cannot tell")
