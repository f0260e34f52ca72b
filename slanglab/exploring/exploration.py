"""One function under exploration: its settings, what it gives there, and what follows when its cell is edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from slanglab.cells.function import SlangFunction, source_of
from slanglab.errors import SlangLabError
from slanglab.exploring.arrangement import Arrangement
from slanglab.exploring.descent import Descent, Point
from slanglab.exploring.differences import Quotients, compare
from slanglab.exploring.evaluate import Floats, Outcome, Sheet
from slanglab.exploring.knobs import Axis, ExploreError, Knob
from slanglab.exploring.reading import arrange
from slanglab.exploring.saying import call_code

__all__ = ["Exploration", "Form", "Looked"]

Form = Literal["curve", "field", "image", "dial"]


@dataclass
class Looked:
    """What a function gives at one setting.

    Attributes
    ----------
    value : ndarray
        Over the axes; the first axis of a plane runs along the last dimension of it.
    gradients : dict of str to ndarray
        Over the axes, by path: for a curve with respect to the axis and every knob, for a plane with respect to its axes.
    here : Outcome
        At the point that is looked at, with respect to everything: arrays of one element.
    others : list of (str, ndarray)
        Names and values of the functions that are compared.
    quotients : dict of str to Quotients
        Central differences, where they were asked for: over a curve, else at the point.
    seconds : float
    notes : list of str
    """

    value: Floats
    gradients: dict[str, Floats]
    here: Outcome
    others: list[tuple[str, Floats]] = field(default_factory=list)
    quotients: dict[str, Quotients] = field(default_factory=dict)
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)


class Exploration:
    """A function, its knobs and axes.

    Parameters
    ----------
    function : SlangFunction
    given : mapping
        What the user gave, by parameter.
    compared : sequence of SlangFunction
        Others with the same parameters, drawn beside it.

    Raises
    ------
    ExploreError
    """

    def __init__(
        self, function: SlangFunction, given: Mapping[str, Any], compared: Sequence[SlangFunction] = ()
    ) -> None:
        for one in (function, *compared):
            if not isinstance(one, SlangFunction):
                raise ExploreError(
                    getattr(one, "__name__", type(one).__name__),
                    f"this is {type(one).__name__}, not a Slang function of a cell",
                    hint="write it in a %%slang cell, and explore that",
                )
        self.function = function
        self.compared = list(compared)
        self._given = dict(given)
        self.component: int | None = None
        self.differences = False
        self.names: dict[str, str] = {}
        """By axis: the user's variable that holds it."""
        self._adopt(arrange(function, given))
        if self.compared and self.form == "image":
            raise ExploreError(
                self.made.name,
                "images are not drawn over one another",
                hint="explore each of them, and link their knobs: e.link(other, name)",
            )

    def _adopt(self, made: Arrangement) -> None:
        self.made = made
        self._seen = source_of(self.function).version()
        self._compared_seen = [source_of(f).version() for f in self.compared]
        self._grid: Sheet | None = None
        self._point: Sheet | None = None
        self._others: list[Sheet] | None = None
        count = made.components
        if self.component is not None and self.component >= count:
            self.component = None
        if self.component is None and self.form == "curve" and count > 1:
            self.component = 0
        self.descent = Descent(self._look_down)
        self.refused = "" if made.differentiable else _why_not(made)

    # ----- what it is -----

    @property
    def knobs(self) -> dict[str, Knob]:
        """By path."""
        return self.made.knobs

    @property
    def axes(self) -> list[Axis]:
        """What is drawn along: none, one or two."""
        return self.made.axes

    @property
    def form(self) -> Form:
        """The picture that fits the result."""
        if len(self.axes) == 2:
            return "image" if self.made.components in (3, 4) else "field"
        return "curve" if self.axes else "dial"

    @property
    def values(self) -> dict[str, Any]:
        """The settings by path; of an axis the number at the point that is looked at."""
        found: dict[str, Any] = {axis.path: axis.value for axis in self.axes}
        found.update({path: knob.passed for path, knob in self.knobs.items()})
        return found

    @property
    def code(self) -> str:
        """Python that gives what is on the screen."""
        return call_code(self.made, self.names)

    @property
    def prints(self) -> bool:
        """Whether a call may print something."""
        return any(target.after is not None for target in self.function.targets())

    @property
    def settings(self) -> object:
        """All that a look depends on: two that are equal are of the same picture."""
        return (
            id(self.made),
            tuple(knob.value for knob in self.knobs.values()),
            tuple(axis.at for axis in self.axes),
            self.component,
            self.differences,
        )

    # ----- turning -----

    def set(self, path: str, value: Any) -> None:
        """Turn a knob, or look at the point of an axis nearest to a number.

        Raises
        ------
        KeyError
            When nothing is called `path`.
        ValueError
            For a value that it cannot take.
        """
        for axis in self.axes:
            if axis.path == path:
                axis.at = axis.nearest(float(value))
                return
        knob = self.knobs[path]
        knob.value = knob.taken(value)

    # ----- running -----

    def look(self) -> Looked:
        """Run forward and backward at the setting.

        Raises
        ------
        SlangLabError
            When a call is refused.
        """
        curve = self.form == "curve"
        if self._grid is None:
            self._grid = Sheet(self.made, self.axes, knobs=curve or not self.axes)
        component = self.component if curve else self._shown_component
        whole = self._grid.run(component)
        looked = Looked(whole.value, whole.gradients, whole)
        if curve:
            self.look_here(looked)
        elif self.axes:
            looked.here = self._here(component)
        looked.notes = list(dict.fromkeys([*whole.notes, *looked.here.notes]))
        looked.seconds = whole.seconds + (looked.here.seconds if looked.here is not whole else 0.0)
        looked.others = self._compare()
        if self.differences:
            looked.quotients = self._measure(looked)
        return looked

    def look_here(self, looked: Looked) -> None:
        """Run at the point that is looked at alone, and put that in the place of what was known there.

        Raises
        ------
        SlangLabError
            When a call is refused.
        """
        if self.form == "curve":
            at = self.axes[0].at
            gradients = {path: g[at : at + 1] for path, g in looked.gradients.items()}
            looked.here = Outcome(looked.value[at : at + 1], gradients)
            return
        looked.here = self._here(self._shown_component)
        looked.seconds = looked.here.seconds
        if self.differences:
            looked.quotients = self._measure(looked)

    @property
    def _shown_component(self) -> int | None:
        """Of a field of vectors the component that is drawn; an image has the gradient of the sum of its channels."""
        if self.form == "image" or self.made.components == 1:
            return None
        return self.component or 0

    def _here(self, component: int | None) -> Outcome:
        if self._point is None:
            self._point = Sheet(self.made, [])
        return self._point.run(component)

    def _compare(self) -> list[tuple[str, Floats]]:
        if not self.compared:
            return []
        if self._others is None:
            self._others = []
            for function in self.compared:
                # Their own parameters may lie in another order, or have other types: each is arranged for itself.
                made = arrange(function, {k: v for k, v in self._given.items()})
                if made.components != self.made.components:
                    raise ExploreError(
                        self.made.name,
                        f"{made.name} returns {made.result.type}, and {self.made.name} returns {self.made.result.type}",
                        hint="compare functions with results of one type",
                    )
                self._others.append(Sheet(made, made.axes, knobs=False))
        found = []
        for sheet in self._others:
            for path, knob in sheet.made.knobs.items():
                if path in self.knobs:
                    knob.value = self.knobs[path].value
            found.append((sheet.made.name, sheet.value()))
        return found

    def others_here(self, looked: Looked) -> list[float]:
        """Return the values of the compared functions at the point that is looked at: of vectors the component that is drawn."""
        at = tuple(axis.at for axis in reversed(self.axes)) or (0,)
        found = []
        for _, value in looked.others:
            there = np.ravel(value[at])
            found.append(float(there[(self.component or 0) if there.size > 1 else 0]))
        return found

    # ----- differences -----

    def _measure(self, looked: Looked) -> dict[str, Quotients]:
        """Return central differences with respect to everything that may have a gradient."""
        curve = self.form == "curve"
        if curve or not self.axes:
            sheet = self._grid
        else:
            self._here(self._shown_component)
            sheet = self._point
        assert sheet is not None
        gradients = looked.gradients if curve else looked.here.gradients
        component = self.component if curve else self._shown_component

        def value(shifts: Mapping[str, float]) -> Floats:
            found = sheet.value(shifts)
            if self.made.components == 1:
                return found
            return found.sum(axis=-1) if component is None else found[..., component]

        found: dict[str, Quotients] = {}
        parts: list[Axis | Knob] = [*self.axes, *self.knobs.values()]
        for part in parts:
            wanted = part.differentiable or (not self.made.differentiable and _is_real(part))
            if not wanted or (isinstance(part, Knob) and part.uniform):
                continue
            if isinstance(part, Axis):
                at = part.points if curve else np.array([part.value])
                span = float(part.points[-1] - part.points[0])
                # A number is shifted in float32, so the step has to be seen at the largest of them.
                size = max(min(float(np.abs(at).max()), span), span / 16)
            else:
                at = np.array([part.value])
                size = max(abs(part.value), (part.high - part.low) / 16)
            if not self._can_shift(part.path, sheet):
                continue
            found[part.path] = compare(value, part.path, at, gradients.get(part.path), size)
        return found

    @staticmethod
    def _can_shift(path: str, sheet: Sheet) -> bool:
        """Tell whether the number is passed in a tensor, which can be shifted."""
        return path in sheet.shiftable

    # ----- downhill -----

    def _look_down(self, point: Point) -> tuple[float, Point]:
        """Return value and gradient at any point of the axes."""
        before = [(axis, axis.points, axis.at) for axis in self.axes]
        try:
            for axis, number in zip(self.axes, point, strict=True):
                axis.points, axis.at = np.array([number]), 0
            found = self._here(self._shown_component)
        finally:
            for axis, points, at in before:
                axis.points, axis.at = points, at
        value = found.value.reshape(-1)
        chosen = self._shown_component
        number = float(value.sum() if chosen is None else value[chosen])
        return number, tuple(float(found.gradients[a.path][0]) for a in self.axes)

    def begin_descent(self, point: Sequence[float]) -> None:
        """Choose a start.

        Raises
        ------
        ExploreError
            Where the function has no gradient, or not one axis for each number.
        """
        if not self.axes or self.refused or not all(a.differentiable for a in self.axes):
            raise ExploreError(
                self.made.name,
                f"there is no way downhill: {self.refused or 'an axis has no gradient' if self.axes else 'nothing is an axis'}",
                hint="give the parameters to descend over as axes, and let the function be [Differentiable]",
            )
        if len(point) != len(self.axes):
            raise ExploreError(
                self.made.name, f"the start has {len(point)} numbers, and there are {len(self.axes)} axes"
            )
        self.descent.start(tuple(float(p) for p in point))

    # ----- following the cell -----

    @property
    def is_behind(self) -> bool:
        """Whether the cell runs another version now."""
        try:
            now = [source_of(f).version() for f in (self.function, *self.compared)]
        except SlangLabError:
            return True
        return any(a is not b for a, b in zip(now, [self._seen, *self._compared_seen], strict=True))

    def follow(self) -> None:
        """Take over the version that runs now; the settings of knobs that still exist stay.

        Raises
        ------
        SlangLabError
            Where the new code does not fit what was given; everything stays as it was.
        """
        given = self._given
        made = arrange(self.function, given)
        before = self.made
        for path, knob in made.knobs.items():
            old = before.knobs.get(path)
            if old is not None and old.kind == knob.kind and knob.low <= old.value <= knob.high:
                knob.value = old.value
        for axis in made.axes:
            same = next((a for a in before.axes if a.path == axis.path), None)
            if same is not None:
                axis.at = axis.nearest(same.value)
        walked = self.descent.path
        optimizer, rate = self.descent.optimizer, self.descent.rate
        self._adopt(made)
        self.descent.optimizer, self.descent.rate = optimizer, rate
        if walked and len(walked[0]) == len(made.axes) and not self.refused:
            self.descent.start(walked[0])
            for _ in range(len(walked) - 1):
                if not self.descent.step():
                    break


def _is_real(part: Axis | Knob) -> bool:
    return isinstance(part, Axis) or part.kind == "float"


def _why_not(made: Arrangement) -> str:
    """Return why there are values only."""
    if not made.target.slang_function.differentiable:
        return f"{made.name} is not differentiable: write [Differentiable] before it, and before every function that it calls"
    return f"{made.name} returns {made.result.type}, which has no gradient"
