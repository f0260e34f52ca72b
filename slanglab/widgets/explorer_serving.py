"""How an explorer serves its views: one frame for the latest request, knobs that turn together, and what follows an edited cell."""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import traitlets

from slanglab.cells import following
from slanglab.cells.function import source_of
from slanglab.errors import SlangLabError
from slanglab.exploring.descent import OPTIMIZERS
from slanglab.exploring.exploration import Exploration
from slanglab.exploring.saying import number
from slanglab.widgets import explorer_frames, outputs
from slanglab.widgets.explorer_ahead import Ahead
from slanglab.widgets.transport import SlangWidget

__all__ = ["ServedExplorer", "turning"]

_log = logging.getLogger(__name__)
_views: weakref.WeakSet[ServedExplorer] = weakref.WeakSet()
_MOST_STEPS = 100_000

turning = threading.RLock()
"""Held while an explorer is turned: several threads may call its methods, and linked ones turn each other."""


class ServedExplorer(SlangWidget):
    """The part of an explorer that talks to the browser and to the lab.

    Parameters
    ----------
    explored : Exploration
    """

    _bundle = "explorer"
    _requests: Mapping[str, str] = {
        "set": "_serve_set",
        "point": "_serve_point",
        "choose": "_serve_choose",
        "descend": "_serve_descend",
    }

    info = traitlets.Dict().tag(sync=True)

    def __init__(self, explored: Exploration) -> None:
        self._explored = explored
        self._links: list[tuple[weakref.ref[ServedExplorer], str, str]] = []
        self._trouble = ""
        self._behind = False
        self._notes: list[str] = []
        self._ahead = Ahead()
        self._took = 0.0
        self._looked = self._explored.look()
        self._notes = list(self._looked.notes)
        outputs.sweep(_views)
        super().__init__(info=explorer_frames.describe(self._explored))
        _views.add(self)
        following.follow(self._cell_was_run)

    # ----- frames -----

    def _ready(self, known: object = None) -> None:
        self._push(None)
        if self._explored.descent.path:
            self._push_path(None)

    def _push(self, ask: int | None) -> None:
        meta, arrays = explorer_frames.frame(self._explored, self._looked, ask)
        self._out(ask)("look", self._noted(meta), arrays)

    def _out(self, ask: int | None) -> Callable[..., object]:
        """Return what sends a frame: an answer at once, any other as the browser keeps up."""
        return self.push if ask is None else self.answer

    def _noted(self, meta: dict[str, Any]) -> dict[str, Any]:
        # The engine warns once of each kind of call; what it said stays until the code changes.
        return {**meta, "notes": self._notes}

    def _forget_twins(self) -> None:
        self.__dict__.pop("png", None)
        self.__dict__.pop("text", None)

    def _push_path(self, ask: int | None) -> None:
        self._out(ask)("path", *explorer_frames.path_frame(self._explored, ask, self._path_code()))

    def _path_code(self) -> str:
        descent = self._explored.descent
        if not descent.path:
            return ""
        start = ", ".join(number(p) for p in descent.path[0])
        rate = number(float(np.float32(descent.rate)))
        return (
            f'e.descend(({start}), steps={len(descent.path) - 1}, optimizer="{descent.optimizer}", lr={rate})'
        )

    def _again(self, ask: int | None, *, raises: bool = False, told: ServedExplorer | None = None) -> None:
        """Run at the setting as it is, and show that."""
        # An interrupt may come before the end: then it is made up for when the result is asked for.
        self._behind = True
        started = time.perf_counter()
        try:
            self._looked = self._explored.look()
            self._behind = False
            self._took = time.perf_counter() - started
        except SlangLabError as error:
            self._behind = False
            if raises:
                raise
            self._say(f"The call was refused: {error.message}")
            self.tell("refused", {"ask": ask})
            return
        self._settled()
        self._push(ask)
        self._pass_on(told)

    def _settled(self) -> None:
        """Keep up with a new look."""
        for note in self._looked.notes:
            if note not in self._notes:
                self._notes.append(note)
        self._forget_twins()
        self._shorten_path()
        if self._trouble:
            self._say("")

    def _shorten_path(self) -> None:
        """Keep of a path its start alone: where another knob stands, the steps would be others."""
        descent = self._explored.descent
        if len(descent.path) > 1:
            try:
                self._explored.begin_descent(descent.path[0])
            except SlangLabError:
                descent.path.clear()
            self._push_path(None)

    def _say(self, trouble: str) -> None:
        self._trouble = trouble
        self.info = explorer_frames.describe(self._explored, trouble)

    # ----- requests -----

    def _work(self) -> None:
        with turning:
            super()._work()

    @staticmethod
    def _ask(content: Mapping[str, Any]) -> int | None:
        ask = content.get("ask")
        return ask if type(ask) is int else None

    def _serve_set(self, content: Mapping[str, Any]) -> None:
        """Turn knobs; unknown names and values that cannot be taken are left out."""
        if content.get("reset") is True:
            for knob in self._explored.knobs.values():
                knob.value = knob.start
        self._take_values(content.get("values"))
        self._keep_up()
        ask = self._ask(content)
        found = self._ahead.taken(self._explored) if content.get("known") is True else None
        if found is None:
            self._again(ask)
            ask = None
        else:  # the view has drawn it
            self._looked = found
            self._settled()
            self._pass_on(None)
        self._look_ahead(content.get("ahead"), ask)

    def _look_ahead(self, guess: object, answers: int | None) -> None:
        """Send the frame of a setting that may be asked for next; where it has to, this answers a request too."""
        frame = None
        if isinstance(guess, Mapping) and not self._inbox:
            frame = self._ahead.look(self._explored, guess, self._took)
        if frame is not None:
            meta, arrays = frame
            self.tell("ahead", {**self._noted(meta), "answers": answers}, arrays)
        elif answers is not None:
            self.tell("ahead", {"answers": answers})

    def _take_values(self, values: object) -> None:
        if not isinstance(values, Mapping):
            return
        for path, value in values.items():
            try:
                self._explored.set(path, value)
            except (KeyError, TypeError, ValueError):
                _log.debug("%r cannot be set to %r", path, value)

    def _serve_point(self, content: Mapping[str, Any]) -> None:
        """Look at another point of the axes; a curve is not run again for it."""
        self._take_values(content.get("values"))
        ask = self._ask(content)
        try:
            self._explored.look_here(self._looked)
        except SlangLabError as error:
            self._say(f"The call was refused: {error.message}")
            self.tell("refused", {"ask": ask})
            return
        self._forget_twins()
        if content.get("answer") is not False:
            self._out(ask)("here", self._noted(explorer_frames.facts(self._explored, self._looked, ask)))

    def _serve_choose(self, content: Mapping[str, Any]) -> None:
        """Choose a component, or whether differences are shown."""
        component, differences = content.get("component"), content.get("differences")
        if type(component) is int and 0 <= component < self._explored.made.components:
            self._explored.component = component
        if type(differences) is bool:
            self._explored.differences = differences
        self._again(self._ask(content))

    def _serve_descend(self, content: Mapping[str, Any]) -> None:
        """Begin, go on, or choose another optimizer or rate."""
        explored, descent = self._explored, self._explored.descent
        optimizer, rate = content.get("optimizer"), content.get("rate")
        chosen = optimizer if optimizer in OPTIMIZERS else descent.optimizer
        speed = float(rate) if isinstance(rate, (int, float)) and 0 < rate < 1e6 else descent.rate
        try:
            descent.choose(chosen, speed)
            point = content.get("point")
            if isinstance(point, list) and all(isinstance(p, (int, float)) for p in point):
                explored.begin_descent(point)
            steps = content.get("steps")
            if type(steps) is int and not descent.path and steps > 0:
                explored.begin_descent([a.value for a in explored.axes])
            for _ in range(min(steps, _MOST_STEPS) if type(steps) is int else 0):
                if not descent.step():
                    break
        except SlangLabError as error:
            self._say(f"The descent stopped: {error.message}")
        self._forget_twins()
        self._push_path(self._ask(content))

    # ----- linked explorers -----

    def _pass_on(self, told: ServedExplorer | None) -> None:
        for reference, mine, theirs in self._links:
            other = reference()
            if other is not None and other is not told and mine in self._explored.knobs:
                other._turned_by(self, theirs, self._explored.knobs[mine].value)

    def _turned_by(self, other: ServedExplorer, path: str, value: float) -> None:
        knob = self._explored.knobs.get(path)
        if knob is None or self.comm is None:
            return
        taken = knob.taken(value)
        if taken != knob.value:
            knob.value = taken
            self._again(None, told=other)

    # ----- following the cell -----

    def _cell_was_run(self) -> None:
        """Look at the new code when the cell has ended; without a loop, when something is asked for."""
        if self.comm is None or self._loop is None or self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._after_the_cell)

    def _after_the_cell(self) -> None:
        if self.comm is None:
            return
        with turning:
            if self._keep_up():
                self._push(None)
                if self._explored.descent.path:
                    self._push_path(None)

    def _keep_up(self) -> bool:
        """Follow the cell where it runs another version now; tell whether anything changed that is shown."""
        explored = self._explored
        try:
            if explored.is_behind or self._behind:
                if explored.is_behind:
                    explored.follow()
                self._behind = False
                self._looked = explored.look()
                self._notes = list(self._looked.notes)
                self._forget_twins()
                self._say(self._why_behind())
                return True
            if (why := self._why_behind()) != self._trouble:
                self._say(why)
        except SlangLabError as error:
            # Once is enough: nothing of it changes until the cell is run again.
            why = error.message.rstrip(".") + (f"; {error.hint}" if error.hint else "")
            self._say(f"The new code does not fit: {why}. The picture is that of the code before.")
        return False

    def _why_behind(self) -> str:
        """Return why the newest text is not what runs; "" where it is."""
        cell: Any = source_of(self._explored.function).cell
        if not getattr(cell, "failure", ()) or cell.standing is None:
            return ""
        return f"The cell does not compile now. This is its code of {cell.standing.description}."
