"""What `slanglab.gradcheck` found, as data and as text."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from slanglab.checks.results import Outcome, Verdict
from slanglab.checks.worst import Element

__all__ = ["GradCheck", "InputCheck", "number", "percent"]


@dataclass(frozen=True)
class InputCheck:
    """One input.

    Attributes
    ----------
    name : str
        "x", "s.k", "this.weights".
    shape : tuple of int
    verdict : {"agrees", "differs", "cannot tell"}
    reason : str
        Where that is not "agrees": "kink", "noise", "curvature", "flat: …".
    error : float
        Of the gradient, relative to the larger of it and the difference quotient.
    resolution : float
        Errors below this would not have been seen; NaN where nothing could be measured.
    differences : Outcome
        Against difference quotients.
    forward : Outcome or None
        Against `fwd_diff`, where the function has one.
    no_forward : str
        Why there is none.
    worst : tuple of Element
        For an input that differs, elements that do, worst first.
    """

    name: str
    shape: tuple[int, ...]
    verdict: Verdict
    reason: str
    error: float
    resolution: float
    differences: Outcome
    forward: Outcome | None = None
    no_forward: str = ""
    worst: tuple[Element, ...] = ()


@dataclass(frozen=True)
class GradCheck:
    """The report of a gradient check.

    Attributes
    ----------
    function : str
    verdict : {"agrees", "differs", "cannot tell"}
        Of all inputs together.
    inputs : tuple of InputCheck
    notes : tuple of str
        What else was seen: gradients that overwrite instead of adding, results that do not repeat, derivatives of the user's own.
    custom : tuple of str
        Functions with a derivative of their own that took part.
    directions, seed, calls : int
        How many random directions for each input, what they were drawn from, and the forward calls made.
    """

    function: str
    verdict: Verdict
    inputs: tuple[InputCheck, ...]
    notes: tuple[str, ...]
    custom: tuple[str, ...]
    directions: int
    seed: int
    calls: int

    drawer: ClassVar[Callable[[GradCheck], str] | None] = None
    """Draws a report as HTML; set by whoever shows reports in a notebook."""

    @property
    def ok(self) -> bool:
        """True when every gradient agrees."""
        return self.verdict == "agrees"

    @property
    def summary(self) -> str:
        """The verdict in a sentence."""
        if self.verdict == "agrees":
            return f"the gradients of {self.function} agree with {self._what()}"
        names = ", ".join(i.name for i in self.inputs if i.verdict == self.verdict)
        if not names:
            return f"the gradients of {self.function}: {self.verdict}, see the notes"
        if self.verdict == "differs":
            return f"the gradient of {self.function} by {names} differs from {self._what()}"
        return f"whether the gradient of {self.function} by {names} agrees cannot be told"

    def _what(self) -> str:
        return "difference quotients" + (
            " and forward mode" if all(i.forward is not None for i in self.inputs) else ""
        )

    def rows(self) -> list[tuple[str, ...]]:
        """Return the table of inputs: name, shape, verdict, error, resolution, and what each comparison says."""
        return [
            (
                i.name,
                str(i.shape),
                i.verdict,
                percent(i.error),
                percent(i.resolution),
                _told(i.differences),
                _told(i.forward) if i.forward is not None else "no forward mode",
            )
            for i in self.inputs
        ]

    HEADER: ClassVar[tuple[str, ...]] = (
        "input",
        "shape",
        "verdict",
        "error",
        "checked to",
        "differences",
        "forward mode",
    )

    def __str__(self) -> str:
        count = f"{self.directions} direction{'s' if self.directions > 1 else ''}"
        lines = [
            f"gradcheck of {self.function}: {self.verdict} ({count}, {self.calls} calls, seed {self.seed})"
        ]
        rows = self.rows()
        widths = [max(len(row[k]) for row in (self.HEADER, *rows)) for k in range(len(self.HEADER))]
        lines.append(_line(self.HEADER, widths))
        for row, found in zip(rows, self.inputs, strict=True):
            lines.append(_line(row, widths))
            lines += [f"      {place(found.name, e)}" for e in found.worst]
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str | None:
        drawer = type(self).drawer
        return drawer(self) if drawer is not None else None


def place(name: str, element: Element) -> str:
    """Say what the two derivatives of an element are."""
    index = ", ".join(str(n) for n in element.index)
    return (
        f"{name}[{index}] = {number(element.value)}: bwds gives {number(element.given)}, "
        f"differences {number(element.measured)}"
    )


def number(value: float) -> str:
    """Return a number with the digits that a check can be sure of."""
    return f"{value:.4g}"


def percent(value: float) -> str:
    """Return a relative size in words that fit into a sentence."""
    if math.isnan(value):
        return "-"
    if math.isinf(value):
        return "infinite"
    if value < 1e-4:
        return "< 0.01 %"
    if value >= 10:
        return f"{value:.0f} times"
    return f"{100 * value:.2g} %" if value < 0.995 else f"{100 * value:.0f} %"


def _told(outcome: Outcome) -> str:
    return outcome.verdict + (f" ({outcome.reason.split(':')[0]})" if outcome.reason else "")


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    return "  " + "  ".join(c.ljust(w) for c, w in zip(cells, widths, strict=True)).rstrip()
