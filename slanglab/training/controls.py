"""What a person asks of a run while it goes on: play, pause, one step, stop, another learning rate.

Requests come on any thread (a kernel's subshell, while a cell is busy), so they only set fields here; the loop looks between steps.
"""

from __future__ import annotations

import math
import threading

__all__ = ["Controls"]


class Controls:
    """Wishes for the loop.

    Attributes
    ----------
    pending : bool
        Whether the loop has something to look at: the one field that is read at each step.
    """

    def __init__(self) -> None:
        self.pending = False
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stop = False
        self._paused = False
        self._steps = 0
        self._rate: float | None = None

    def play(self) -> None:
        """Go on."""
        with self._lock:
            self._paused, self._steps = False, 0
            self._changed()

    def pause(self) -> None:
        """Wait before the next step."""
        with self._lock:
            self._paused = True
            self._changed()

    def step(self, count: int = 1) -> None:
        """Do so many steps, then wait."""
        with self._lock:
            self._paused = True
            self._steps += count
            self._changed()

    def stop(self) -> None:
        """End the run before the next step."""
        with self._lock:
            self._stop = True
            self._changed()

    def rate(self, rate: float) -> bool:
        """Use another learning rate from the next step on; tell whether it can be one."""
        if not (math.isfinite(rate) and rate >= 0):
            return False
        with self._lock:
            self._rate = rate
            self._changed()
        return True

    def hurry(self) -> None:
        """Make the loop look up before the next step; takes no lock, for handlers of signals."""
        self.pending = True

    def _changed(self) -> None:
        self.pending = True
        self._wake.set()

    # ----- the loop's side -----

    @property
    def stopping(self) -> bool:
        """Whether the run is to end."""
        return self._stop

    @property
    def paused(self) -> bool:
        """Whether the next step has to wait."""
        return self.waiting and not self._steps

    @property
    def waiting(self) -> bool:
        """Whether the loop waits, now or once the steps that were asked for are done."""
        return self._paused and not self._stop

    def take(self) -> float | None:
        """Take note of all wishes before a step: one of the asked steps is used up, a new learning rate is returned once."""
        with self._lock:
            rate, self._rate = self._rate, None
            if self._paused and self._steps:
                self._steps -= 1
            self._wake.clear()
            # While paused each step has to ask.
            self.pending = self._paused or self._stop
        return rate

    def new_rate(self) -> float | None:
        """Return a new learning rate once, without starting a step."""
        with self._lock:
            rate, self._rate = self._rate, None
        return rate

    def wait(self, seconds: float) -> None:
        """Wait for a wish, at most so long."""
        self._wake.wait(seconds)
        self._wake.clear()
