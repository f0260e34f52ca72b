"""Long work shows itself: what is being done and for how long, once it has taken longer than a blink.

Work says what it is with `work`; what shows it (a line in the cell, a line in the terminal, nothing) is installed from above with
`show_with`. Work that ends within `DELAY` shows nothing and pays next to nothing.

A thread of our own looks at the work going on, so that native code which lets go of the interpreter's lock is seen too; Python code
that waits calls `Work.tick`. Either comes to the same line.
"""

from __future__ import annotations

import os
import threading
from time import perf_counter, sleep
from types import TracebackType
from typing import Protocol

__all__ = ["DELAY", "PERIOD", "Shower", "Work", "end_all", "show_with", "work"]

DELAY = 0.15
"""Seconds that work may take before it is shown."""

PERIOD = 0.2
"""Seconds between two states of what is shown."""

_LOOK = 0.05  # seconds between two looks of the thread
_RESTLESS = 2.0  # seconds without work after which the thread sleeps until it is woken


class Shower(Protocol):
    """Shows one line of work. Calls come one at a time, from any thread."""

    def show(self, title: str, seconds: float, stoppable: bool) -> None:
        """Show that `title` has been going on for so many seconds, in place of what was shown before."""

    def hide(self) -> None:
        """Take away what is shown, leaving nothing."""


class Work:
    """Something that may take long; a context manager, made by `work`.

    Attributes
    ----------
    title : str
        What is being done, as shown; may be changed while it goes on.
    stoppable : bool
        Whether Interrupt ends it, which the line then says.
    """

    __slots__ = ("_began", "stoppable", "title")

    def __init__(self, title: str, stoppable: bool) -> None:
        self.title = title
        self.stoppable = stoppable
        self._began = 0.0

    @property
    def seconds(self) -> float:
        """How long it has been going on."""
        return perf_counter() - self._began

    def __enter__(self) -> Work:
        self._began = perf_counter()
        _works.append(self)
        if _display.sleeping:
            _display.wake()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self in _works:
            _works.remove(self)
        if _display.busy:
            _display.settle()

    def tick(self) -> None:
        """Show the work if it is time to; call it as often as is convenient."""
        if perf_counter() >= _display.due:
            _display.look()


class _Display:
    """What is shown of the work going on: the innermost, through the installed shower."""

    def __init__(self) -> None:
        self.shower: Shower | None = None
        self.shown: Work | None = None
        self.busy = False
        """Whether something is shown, or about to be; set before the works are read, so that one that ends cannot be missed."""
        self.due = 0.0
        """When the next state may be shown, on perf_counter's clock."""
        self.sleeping = False
        """Whether the thread has to be woken when work begins; false too where nothing is installed."""
        self._lock = threading.RLock()
        self._woken = threading.Event()
        self._thread: threading.Thread | None = None

    def install(self, shower: Shower | None) -> None:
        with self._lock:
            self._take_away()
            self.shower = shower
            if shower is not None and (self._thread is None):
                self._thread = threading.Thread(target=self._watch, name="slanglab progress", daemon=True)
                self._thread.start()
        self._woken.set()

    def wake(self) -> None:
        self.sleeping = False
        self._woken.set()

    def look(self) -> None:
        """Show the work going on, unless another thread is at it."""
        if self._lock.acquire(blocking=False):
            try:
                self._update()
            finally:
                self._lock.release()

    def settle(self) -> None:
        """Bring what is shown up to date; what has ended is gone when this returns."""
        with self._lock:
            self._update()

    def _update(self) -> None:
        self.busy = True
        now = perf_counter()
        # The innermost that has taken long: a long one goes on being shown while short ones come and go in it.
        current = next((w for w in reversed(_works) if now - w._began >= DELAY), None)
        if self.shower is None or current is None:
            self._take_away()
            return
        if current is self.shown and now < self.due:
            return
        self.shown = current
        self.due = now + PERIOD
        try:
            self.shower.show(current.title, now - current._began, current.stoppable)
        except (
            Exception
        ):  # what shows it may be gone (a closed socket or terminal); the work is not to suffer
            self.shower = None
            self._take_away()

    def _take_away(self) -> None:
        shown, self.shown = self.shown, None
        self.due = 0.0
        try:
            if shown is not None and self.shower is not None:
                self.shower.hide()
        except Exception:
            self.shower = None
        self.busy = False

    def _watch(self) -> None:
        idle_since = perf_counter()
        while True:
            if self.shower is None:
                self._woken.clear()
                if self.shower is None:
                    self._woken.wait()
            elif _works or self.busy:
                idle_since = perf_counter()
                self.look()
            elif perf_counter() - idle_since > _RESTLESS:
                self._woken.clear()
                self.sleeping = True
                if (
                    not _works and self.shower is not None
                ):  # what came before `sleeping` was true wakes nobody
                    self._woken.wait()
                self.sleeping = False
                idle_since = perf_counter()
            sleep(_LOOK)

    def forget(self) -> None:
        """Begin anew in a forked child, which has neither the thread nor a claim on what is shown."""
        self.__init__()  # type: ignore[misc]
        _works.clear()


_works: list[Work] = []
_display = _Display()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_display.forget)


def work(title: str, *, stoppable: bool = True) -> Work:
    """Say that something begins that may take long.

    Parameters
    ----------
    title : str
        What is being done, in the present continuous: "compiling poly.f backward".
    stoppable : bool
        Whether Interrupt ends it.

    Returns
    -------
    Work
        A context manager. Of works within works the innermost is shown. On leaving, what was shown is gone.
    """
    return Work(title, stoppable)


def show_with(shower: Shower | None) -> None:
    """Install what shows long work from now on; None shows nothing."""
    _display.install(shower)


def end_all() -> None:
    """Take away what is shown, and forget work whose end was lost (to an interrupt at the wrong moment)."""
    _works.clear()
    _display.settle()
