"""A run: steps, one after the other, that are recorded, shown, and end when somebody wants it or a number is not finite."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from slanglab.errors import ArgumentError
from slanglab.training import measuring, moments, pictures, states
from slanglab.training.controls import Controls
from slanglab.training.history import History
from slanglab.training.interrupts import Deferred
from slanglab.training.looking import Look
from slanglab.training.losses import Losses
from slanglab.training.measuring import Measure
from slanglab.training.parameters import Optimizer
from slanglab.training.record import Ending, Phase, Record
from slanglab.training.states import Kept, State
from slanglab.training.trouble import Trouble, located
from slanglab.training.watching import Silent, Watcher

__all__ = ["FRAME", "LOOK_SHARE", "Ending", "Recorder"]

FRAME = 0.05
"""Seconds between two frames at least: 20 a second."""

_MEASURE = 0.2
_LONGEST = 10.0
LOOK_SHARE, _UNWATCHED = 0.012, 0.002
"""Shares of a run's time that measuring may take, with and without somebody who looks."""

_FRAMES = 0.01
"""Share of a run's time that frames may take."""

_END = 0.015
"""Seconds set aside for the last look and the final picture."""

clock = time.perf_counter


class Recorder(Record):
    """What all runs have: history, kept states, controls, and what is done around each step.

    Attributes
    ----------
    name : str
    params : dict of str to tensor
    total : int
        Steps wanted.
    done : int
        Steps done.
    phase : {'starting', 'running', 'paused', 'ended'}
    stopped : str or None
        How it ended: 'done' (all steps), 'stopped' (somebody stopped it), 'interrupted', 'nan', 'error', 'left' (the loop was left
        early, by `break`); None as long as it goes on.
    trouble : Trouble or None
        What is not finite, where it ended for that.
    error : BaseException or None
        What a step raised.
    states : sequence of State
        The kept states, each verified to be finite.
    """

    def __init__(
        self,
        *,
        name: str,
        params: Mapping[str, Any],
        steps: int,
        optimizer: Optimizer | None = None,
        show: Mapping[str, Any] | None = None,
        keep: int = 20,
        check_every: int | None = None,
        look_share: float = LOOK_SHARE,
        watcher: Watcher | None = None,
        draw: Callable[[Any], Any] | None = None,
    ) -> None:
        if steps < 0:
            raise ArgumentError(
                f"A run has 0 steps or more, not {steps}.", argument="steps", given=str(steps)
            )
        if keep < 0:
            raise ArgumentError(
                f"A run keeps 0 states or more, not {keep}.", argument="keep", given=str(keep)
            )
        if check_every is not None and check_every < 1:
            raise ArgumentError(
                f"Gradients are checked every step or less often, not every {check_every}.",
                argument="check_every",
            )
        if not 0 < look_share <= 1:
            raise ArgumentError(
                f"The share of a run's time for looking is above 0 and at most 1, not {look_share}.",
                argument="look_share",
            )
        self.name = name
        self.params = dict(params)
        self.total = steps
        self.optimizer = optimizer
        self.show = dict(show or {})
        self.controls = Controls()
        self.states: Kept = Kept(keep)
        self.done = 0
        self.phase: Phase = "starting"
        self.stopped: Ending | None = None
        self.trouble: Trouble | None = None
        self.error: BaseException | None = None
        self.measures: dict[str, Measure] = {}
        self.shots: list[pictures.Shot] = []
        self.watcher: Watcher = watcher or Silent()
        self._draw = draw
        self.columns = History(tuple(self.params))
        self._check_every = check_every
        self._look_share = look_share
        self._losses = Losses()
        self._started = self._due = self._measure_due = 0.0
        self._framing = self._measuring = self._measured = False
        self._old: dict[str, Any] = {}
        self._looked: Look | None = None
        self._candidate: State | None = None
        self._spent = self._ours = 0.0
        self._costs: list[float] = []
        self._interrupt: Deferred | None = None

    # ----- around a step -----

    def _begin(self) -> None:
        self.watcher.begin(self)
        if self.params:
            self.measures = measuring.gradient(self.params)
            self._complain(before=True)
        if self.show and self.watcher.watched:
            self.shots = pictures.shots(self.show)
        if self.params and self.states.wants:
            self.states.add(replace(self._state(float("nan")), measures=self.measures))
        self._started = clock()
        self._due = self._started
        self._measure_due = self._started + (0.0 if self.watcher.watched else 0.5)
        self.phase = "running"

    def _complain(self, before: bool = False) -> None:
        """Refuse parameters that are not finite before anything was done."""
        if before and any(measure.bad_value for measure in self.measures.values()):
            found = measuring.first_not_finite(self.params, values=True)
            name = next(n for n, m in self.measures.items() if m.bad_value)
            place = found.place() if found is not None else name
            raise ArgumentError(
                f"Not every parameter is finite before the first step: {place}.",
                argument="params",
                hint=f"look at {name} with sl.inspect({name})",
            )

    def _pauses(self) -> Generator[float, None, bool]:
        """Do what was asked; yield seconds to wait while paused. Return whether a step is to follow."""
        began = clock()
        told = False
        while True:
            self._take_rate(self.controls.new_rate())
            if not self.controls.paused:
                break
            if not told:
                told = True
                self.phase = "paused"
                self._show_all()
            yield FRAME
        if told:
            # Time is that of running.
            self._started += clock() - began
            self.phase = "running"
            self.watcher.state(self)
        self._take_rate(self.controls.take())
        if self.controls.pending:
            # Single steps are looked at closely.
            self._due = self._measure_due = 0.0
        return not self.controls.stopping and self.trouble is None

    def _take_rate(self, rate: float | None) -> None:
        if rate is not None and self.optimizer is not None:
            self.optimizer.lr = rate
            self.watcher.state(self)

    def _before(self) -> None:
        """Get ready to look at a step, if it is time."""
        now = clock()
        self._framing = now >= self._due
        self._measured = False
        self._spent = 0.0
        self._measuring = self._framing and bool(self.params or self.show) and now >= self._measure_due
        if self._measuring:
            self._old = states.copied(self.params, gradients=False)[0]
            self._spent = clock() - now

    @property
    def _plain(self) -> bool:
        """Whether a step's loss, as a number, is all there is to note."""
        return not (self._framing or self._check_every or self._losses.waiting)

    def _record(self, loss: Any, known: bool = True) -> bool:
        """Note the loss of a step; tell whether all is finite as far as it is known."""
        x = self._losses.take(loss) if known else float("nan")
        columns = self.columns
        if x is not None:
            columns.loss.append(x)
        columns.time.append(clock() - self._started)
        if self.optimizer is not None:
            columns.rate.append(self.optimizer.lr)
        if x is not None:
            # NaN for NaN and for the infinities.
            if known and x - x != 0:
                self._not_finite(self.columns.loss.count - 1, x)
                return False
        elif (self._framing or self._losses.full) and not self._flush():
            return False
        return True

    def _flush(self) -> bool:
        """Read the losses that wait on the device; tell whether they are finite."""
        found = self._losses.flush()
        first = self.columns.loss.count
        self.columns.loss.extend(found)
        bad = np.flatnonzero(~np.isfinite(found))
        if len(bad):
            self._not_finite(first + int(bad[0]), float(found[bad[0]]))
            return False
        return True

    def _look(self) -> bool:
        """Measure before the update, if it is time; tell whether gradients are finite as far as that is known at once."""
        due = self._measuring and not self._measured
        check = bool(self._check_every and (self.done + 1) % self._check_every == 0)
        if not due and not check:
            return True
        began = clock()
        if due:
            if not self._look_back():
                return False
            self._measured = True
            self._looked = Look(self.params, self._old, self.done)
            self._spent += clock() - began
        if check or not (self._looked is not None and self._looked.waits):
            self.measures = measuring.gradient(self.params)
            if any(m.bad or m.bad_value for m in self.measures.values()):
                self._looked = None
                self._not_finite(self.done, None)
                return False
        return True

    def _look_back(self, judge: bool = True) -> bool:
        """Read what was measured some steps ago; tell whether it is finite."""
        look, candidate = self._looked, self._candidate
        self._looked = self._candidate = None
        if look is None:
            return True
        measures, spread = look.read()
        if any(m.bad or m.bad_value for m in measures.values()):
            if judge:
                self.measures = measures
                self._not_finite(look.step, None)
            return False
        self.measures = measures
        self.columns.measure(look.step, measures, spread)
        # A ratio that is not finite: the update has spoiled the values that the state would keep.
        if candidate is not None and all(np.isfinite(m.update or 0.0) for m in measures.values()):
            self.states.add(replace(candidate, measures=measures))
        return True

    def _not_finite(self, step: int, loss: float | None) -> None:
        """Find out what is not finite first."""
        if loss is not None:
            self._look_back(judge=False)
        if self.params and loss is not None:
            self.measures = measuring.gradient(self.params)
        late = self.done - step
        intact = late == 0 and not any(m.bad_value for m in self.measures.values())
        found = located(self.params, self.measures, loss)
        kept = self.states[-1].step if len(self.states) else None
        self.trouble = Trouble(step, found, intact, kept, late, loss is not None)

    def _after(self) -> bool:
        """Show a step that is done, if it is time; tell whether what was measured is finite."""
        if not self._framing:
            return True
        began = clock()
        watched = self.watcher.watched
        fine = self._look_back() if not self._measuring else True
        if self._measuring:
            fine = self._note()
        looked = clock()
        # Where nobody looks there is no frame but now and then, to find out whether somebody does.
        if fine:
            self.watcher.frame(self)
        now = clock()
        if self._measuring:
            self._old = {}
            # The first look compiles kernels, and must not put the third one off; a single one may have had to
            # wait for the machine. So it is the middle one of three, and of two the smaller.
            spent = self._spent + looked - began
            self._costs = [*self._costs[-2:], spent]
            cost = sorted(self._costs)[(len(self._costs) - 1) // 2] if len(self._costs) > 1 else 0.0
            self._ours += min(spent, 4 * cost)
            share = self._look_share if watched else _UNWATCHED
            due = self._started + (self._ours + cost + (_END if watched else 0.0)) / share
            self._measure_due = min(max(now + _MEASURE, due), now + _LONGEST)
        self._due = now + max(FRAME, (now - looked) / _FRAMES, self.watcher.spacing)
        if not watched:
            self._due = min(max(self._due, now + 10 * FRAME), max(self._measure_due, now + FRAME))
        self._framing = self._measuring = False
        return fine

    def _note(self) -> bool:
        """Finish what is measured, as far as that takes no waiting, and take the pictures; tell whether all is finite."""
        # What was measured before and not read since.
        look, self._looked = self._looked, None
        if look is not None:
            look.updated()
            self._looked = look
        if self.show and (self.watcher.watched or self.states.wants):
            self.shots = pictures.shots(self.show)
        self._propose(self.loss)
        return look is None or look.waits or self._look_back()

    def _propose(self, loss: float) -> None:
        """Copy the state: it is kept when it is known to be finite."""
        # No loss may wait to be read.
        if self.params and self.states.wants and self._losses.waiting == 0:
            self._candidate = self._state(loss)

    def _state(self, loss: float) -> State:
        """Copy everything as it is now."""
        own = moments.kept(self.optimizer, states.twin)
        return State(self.done, loss, *states.copied(self.params), {}, tuple(self.shots), own)

    def _show_all(self) -> None:
        """Show everything as it is now: before a pause, and at the end."""
        self._flush()
        self._look_back()
        self._framing = False
        self.watcher.frame(self)

    def _end(self, how: Ending) -> None:
        """Note how it ended, with the last numbers and pictures, as far as the device still gives them."""
        if self.phase == "ended":
            return
        try:
            if self._losses.waiting and not self._flush() and how != "error":
                how = "nan"
            if self.trouble is None and how != "error" and not self._look_back():
                how = "nan"
            last = self.columns.measured.view()
            if how not in ("nan", "error") and self.done and (not len(last) or last[-1] != self.done - 1):
                self._last_look()
            elif how == "nan":
                self.columns.measure(self.done, self.measures, measuring.spread(self.params))
                self.shots = pictures.shots(self.show)
        except Exception as error:
            # The device may be gone; what is on the host is kept and shown.
            if how not in ("error", "interrupted"):
                self.error, how = error, "error"
        except KeyboardInterrupt:
            how = "interrupted"
        self.stopped = how
        self.phase = "ended"
        self._old = {}
        self.watcher.finish(self)

    def _last_look(self) -> None:
        self._old = {}
        known = self.measures
        if self.params:
            look = Look(self.params, {}, self.done - 1)
            self._looked = look
        if self.show and (self.watcher.watched or self.states.wants):
            self.shots = pictures.shots(self.show)
        self._propose(self.loss)
        if not self._look_back(judge=False):
            return
        # The update of the last step was not looked at: the one before stays, in the view alone.
        self.measures = {
            name: replace(m, update=known[name].update) if name in known else m
            for name, m in self.measures.items()
        }
