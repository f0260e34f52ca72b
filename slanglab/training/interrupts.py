"""Interrupt that ends a run between two steps, where parameters and optimizer agree with each other."""

from __future__ import annotations

import _thread
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = ["PATIENCE", "Deferred"]

PATIENCE = 1.0
"""Seconds that a step may go on after the first interrupt before it is interrupted itself."""


class Deferred:
    """Notes the first SIGINT instead of raising; the second one, or a step that does not end soon, raises KeyboardInterrupt.

    As a context manager. Outside of the main thread nothing changes: signals do not arrive there.

    Parameters
    ----------
    patience : float
        Seconds.
    told : callable, optional
        Is called, in the handler, when it is noted.

    Attributes
    ----------
    asked : bool
        Whether there was an interrupt.
    """

    def __init__(self, patience: float = PATIENCE, told: Callable[[], object] | None = None) -> None:
        self.asked = False
        self._told = told
        self._patience = patience
        self._before: Any = None
        self._installed = False
        self._timer: threading.Timer | None = None

    def __enter__(self) -> Deferred:
        # Where nobody would raise on an interrupt, nobody wants one.
        if threading.current_thread() is threading.main_thread() and callable(
            before := signal.getsignal(signal.SIGINT)
        ):
            self._before = before
            signal.signal(signal.SIGINT, self._handle)
            self._installed = True
        return self

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            self._put_back()
            self._before(number, frame)
            return
        self._ask()
        # A run inside a step of another one: both are to end.
        outer = getattr(self._before, "__self__", None)
        if isinstance(outer, Deferred):
            outer._ask()
        # A handler may run in the middle of anything: no lock is taken here but that of a new thread.
        self._timer = threading.Timer(self._patience, self._insist)
        self._timer.daemon = True
        self._timer.start()

    def _ask(self) -> None:
        self.asked = True
        if self._told is not None:
            self._told()

    def _insist(self) -> None:
        if self._installed:
            _thread.interrupt_main()

    def _put_back(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._installed:
            self._installed = False
            signal.signal(signal.SIGINT, self._before)

    def __exit__(self, *_: object) -> None:
        self._put_back()
