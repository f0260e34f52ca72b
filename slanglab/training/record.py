"""What everybody may read of a run, and ask of it, while it goes on and afterwards."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from slanglab.errors import ArgumentError, SlangLabError
from slanglab.training import moments, pictures, states
from slanglab.training.controls import Controls
from slanglab.training.flags import Flag, flag
from slanglab.training.history import History
from slanglab.training.measuring import Measure
from slanglab.training.parameters import Optimizer
from slanglab.training.states import Kept, State
from slanglab.training.trouble import Trouble

__all__ = ["Ending", "Phase", "Record"]

Ending = Literal["done", "stopped", "interrupted", "nan", "error", "left"]
Phase = Literal["starting", "running", "paused", "ended"]


class Record(ABC):
    """The outside of a run; `slanglab.training.run.Recorder` describes what it holds."""

    name: str
    params: dict[str, Any]
    total: int
    done: int
    phase: Phase
    stopped: Ending | None
    trouble: Trouble | None
    error: BaseException | None
    optimizer: Optimizer | None
    controls: Controls
    columns: History
    states: Kept
    measures: dict[str, Measure]
    shots: list[pictures.Shot]
    _draw: Callable[[Any], Any] | None

    @abstractmethod
    def _take_rate(self, rate: float | None) -> None: ...

    # ----- what people read -----

    @property
    def history(self) -> dict[str, np.ndarray[Any, Any]]:
        """Everything that was recorded, as numpy arrays: see `History.as_dict`."""
        return self.columns.as_dict()

    def to_pandas(self) -> Any:
        """Return the history as a pandas.DataFrame with a row a step; pandas has to be installed."""
        return self.columns.to_pandas()

    @property
    def loss(self) -> float:
        """The last known loss; NaN where there is none."""
        known = self.columns.loss.view()
        return float(known[-1]) if len(known) else float("nan")

    @property
    def lr(self) -> float | None:
        """The optimizer's learning rate; None without an optimizer. Setting it counts from the next step on."""
        return None if self.optimizer is None else float(self.optimizer.lr)

    @lr.setter
    def lr(self, rate: float) -> None:
        if self.optimizer is None:
            raise SlangLabError("This run has no optimizer whose learning rate could be set.")
        if not self.controls.rate(rate):
            raise ArgumentError("A learning rate is a finite number from 0.", argument="lr", given=repr(rate))
        if self.phase == "ended":
            self._take_rate(self.controls.new_rate())

    def figure(self) -> Any:
        """Return losses, norms of gradients and their spread as a matplotlib figure; matplotlib has to be installed."""
        if self._draw is None:
            raise SlangLabError(
                "This run cannot be drawn: it was not made by slanglab.train or slanglab.steps."
            )
        return self._draw(self)

    def speed(self) -> float:
        """Return steps a second over the last two seconds of running."""
        known = self.columns.time.view()
        if not len(known):
            return 0.0
        first = int(np.searchsorted(known, known[-1] - 2.0))
        if first == len(known) - 1 or first == 0:
            return len(known) / known[-1] if known[-1] > 0 else 0.0
        return float((len(known) - 1 - first) / (known[-1] - known[first]))

    def left(self) -> float | None:
        """Return the seconds that the rest will take at this speed; None while that is unknown or there is no rest."""
        speed = self.speed()
        return (self.total - self.done) / speed if speed > 0 and self.phase != "ended" else None

    def flags(self) -> dict[str, Flag]:
        """Return what is wrong with gradients, by parameter."""
        count = self.columns.measured.count
        steps = self.columns.measured.view()
        found = {}
        for name, column in self.columns.gradients.items():
            measure = self.measures.get(name)
            one = flag(steps[:count], column.view()[:count], measure.bad if measure else 0)
            if one is not None:
                found[name] = one
        return found

    # ----- what people do -----

    def play(self) -> None:
        """Go on after a pause."""
        self.controls.play()

    def pause(self) -> None:
        """Wait before the next step."""
        self.controls.pause()

    def step(self, count: int = 1) -> None:
        """Do so many steps, then wait."""
        self.controls.step(count)

    def stop(self) -> None:
        """End before the next step."""
        self.controls.stop()

    def restore(self, i: int = -1) -> State:
        """Write a kept state into the parameters, their gradients, and the optimizer.

        Parameters
        ----------
        i : int
            Its place in `states`; the last one, which is known to be good, if not said.

        Returns
        -------
        State
            Its `moments` is None where the optimizer has no `state_dict` and `load_state_dict`: then the optimizer's own state stays what
            it is. Learning rates are never put back.

        Raises
        ------
        SlangLabError
            If no such state was kept, or the run goes on.
        """
        if self.phase in ("starting", "running"):
            raise SlangLabError(
                "The run goes on: its parameters change at each step.", hint="pause or stop it first"
            )
        try:
            state: State = self.states[i]
        except IndexError:
            raise SlangLabError(
                f"There is no kept state {i}: {len(self.states)} were kept.",
                hint="train(..., keep=20) keeps up to 20 of them",
            ) from None
        states.put_back(state, self.params)
        if state.moments is not None and self.optimizer is not None:
            moments.put_back(state.moments, self.optimizer)
        return state
