"""Long work shows itself: what is being done and for how long, once it has taken longer than a blink.

Work says what it is with `work`. In a terminal a line on stderr shows it, and is erased again; a notebook installs its own way with
`show_with`; elsewhere nothing is shown. Work that ends within `DELAY` shows nothing and pays next to nothing.

A thread of our own looks at the work going on, so that native code which lets go of the interpreter's lock is seen too; Python code
that waits calls `Work.tick`. slangpy's front end and the opening of a device hold the lock from beginning to end (longest pause of
another thread: 0.7 s of a 0.7 s opening): such work, where it is known to be long, is shown `at_once`.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from time import perf_counter, sleep
from types import TracebackType
from typing import Protocol

__all__ = ["DELAY", "PERIOD", "Shower", "TerminalLine", "Work", "end_all", "show_with", "work"]

DELAY = 0.15
"""Seconds that work may take before it is shown."""

PERIOD = 0.2
"""Seconds between two states of what is shown."""

_LOOK = 0.05  # seconds between two looks of the thread
_RESTLESS = 2.0  # seconds without work after which the thread looks less often
_LOOK_IDLE = 0.5  # seconds between its looks then; work that begins has nobody to wake


class Shower(Protocol):
    """Shows one line of work. Calls come one at a time, from any thread."""

    def show(self, work: Work) -> None:
        """Show a work, in place of what was shown before."""

    def hide(self) -> None:
        """Take away what is shown, leaving nothing."""


class TerminalLine:
    """Shows work behind the cursor of a terminal, which stays where it is, so that what the user printed there stays too."""

    def show(self, work: Work) -> None:
        """Write the line, cut at the terminal's edge."""
        width = shutil.get_terminal_size().columns
        self._write(f"\x1b7\x1b[?7l\x1b[K{work.line[:width]}\x1b[?7h\x1b8")

    def hide(self) -> None:
        """Erase the line."""
        self._write("\x1b[K")

    @staticmethod
    def usable() -> bool:
        """Tell whether stderr is a terminal that knows the sequences."""
        if os.name == "nt" and "WT_SESSION" not in os.environ:
            return False
        try:
            return sys.stderr.isatty() and os.environ.get("TERM", "") != "dumb"
        except (AttributeError, ValueError):  # no stderr, or a closed one
            return False

    @staticmethod
    def _write(text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


class Work:
    """Something that may take long; a context manager, made by `work`.

    Attributes
    ----------
    title : str
        What is being done, as shown; may be changed while it goes on.
    stoppable : bool
        Whether Interrupt ends it, which the line then says.
    at_once : bool
        Whether it was shown from the beginning, since it may not get to say how long it takes.
    """

    __slots__ = ("_began", "at_once", "stoppable", "title")

    def __init__(self, title: str, stoppable: bool, at_once: bool) -> None:
        self.title = title
        self.stoppable = stoppable
        self.at_once = at_once
        self._began = 0.0

    @property
    def seconds(self) -> float:
        """How long it has been going on."""
        return perf_counter() - self._began

    @property
    def line(self) -> str:
        """The work in words: "compiling poly.f backward · 3.2 s · interrupt to stop"."""
        seconds = self.seconds
        parts = [self.title]
        if seconds >= DELAY:
            parts.append(f"{seconds:.1f} s")
        if self.stoppable:
            parts.append("interrupt to stop")
        return " · ".join(parts)

    def __enter__(self) -> Work:
        self._began = perf_counter()
        _works.append(self)
        if _display.unwatched:
            _display.watch()
        if self.at_once:
            _display.settle()
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
        self.shower: Shower | None = TerminalLine() if TerminalLine.usable() else None
        self.shown: Work | None = None
        self.busy = False
        """Whether something is shown, or about to be; set before the works are read, so that one that ends cannot be missed."""
        self.due = 0.0
        """When the next state may be shown, on perf_counter's clock."""
        self.unwatched = self.shower is not None
        """Whether the thread has to be begun, which the first work does."""
        self._lock = threading.RLock()
        self._thread: threading.Thread | None = None

    def install(self, shower: Shower | None) -> None:
        with self._lock:
            self._take_away()
            self.shower = shower
        self.watch()

    def watch(self) -> None:
        """Begin the thread that looks at the works."""
        with self._lock:
            self.unwatched = False
            if self._thread is None and self.shower is not None:
                self._thread = threading.Thread(target=self._watch, name="slanglab progress", daemon=True)
                self._thread.start()

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
        current = next((w for w in reversed(_works) if w.at_once or now - w._began >= DELAY), None)
        if self.shower is None or current is None:
            self._take_away()
            return
        if current is self.shown and now < self.due:
            return
        self.shown = current
        self.due = now + PERIOD
        try:
            self.shower.show(current)
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
        last = perf_counter()
        while True:
            if _works or self.busy:
                last = perf_counter()
                self.look()
            sleep(_LOOK if perf_counter() - last < _RESTLESS else _LOOK_IDLE)

    def forget(self) -> None:
        """Begin anew in a forked child, which has neither the thread nor a claim on what is shown."""
        self.__init__()  # type: ignore[misc]
        self.shower, self.unwatched = None, False
        _works.clear()


_works: list[Work] = []
_display = _Display()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_display.forget)


def work(title: str, *, stoppable: bool = True, at_once: bool = False) -> Work:
    """Say that something begins that may take long.

    Parameters
    ----------
    title : str
        What is being done, in the present continuous: "compiling poly.f backward".
    stoppable : bool
        Whether Interrupt ends it.
    at_once : bool
        Whether to show it from the beginning: for native code that holds the interpreter's lock and is known to be long.

    Returns
    -------
    Work
        A context manager. Of works within works the innermost is shown. On leaving, what was shown is gone.
    """
    return Work(title, stoppable, at_once)


def show_with(shower: Shower | None) -> None:
    """Install what shows long work from now on; None shows nothing."""
    _display.install(shower)


def end_all() -> None:
    """Take away what is shown, and forget work whose end was lost (to an interrupt at the wrong moment)."""
    _works.clear()
    _display.settle()
