"""Frames on their way to a view: one at a time, and of those that wait only the latest.

`send` of a comm never blocks, so without a gate frames would pile up without end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["GATE_SECONDS", "Frame", "FrameGate", "pack"]

GATE_SECONDS = 2.0
"""After so long without an acknowledgement the gate opens again: the view may have been closed."""

_IN_A_ROW = 10
"""Frames that go out in a row without asking for an acknowledgement, at most: so far may a view that has become slow be behind."""

_WIRE_TYPES = ("float32", "float64", "uint8")


class Frame(NamedTuple):
    """A message that is ready to go: its arrays are copies that nobody else writes to."""

    content: dict[str, Any]
    buffers: list[memoryview]


def pack(kind: str, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]] | None = None) -> Frame:
    """Make a message of plain data and arrays.

    Parameters
    ----------
    kind : str
        What it is; the browser side goes by it.
    meta : mapping
        JSON data without NaN and infinities.
    arrays : mapping of str to ndarray, optional
        float32, float64 or uint8. They are copied: sending only queues the memory, and a caller may write to its
        array before it is read.

    Raises
    ------
    TypeError
        For an array of another type.
    """
    entries: list[dict[str, Any]] = []
    buffers: list[memoryview] = []
    for name, array in (arrays or {}).items():
        if array.dtype.name not in _WIRE_TYPES:
            raise TypeError(f"array {name!r} is {array.dtype}: views take {', '.join(_WIRE_TYPES)}")
        copied = np.array(array, dtype=array.dtype.newbyteorder("<"), order="C", copy=True)
        entries.append({"name": name, "dtype": array.dtype.name, "shape": list(array.shape)})
        # An array without elements has no memory to cast.
        buffers.append(copied.data.cast("B") if copied.size else memoryview(b""))
    return Frame({"kind": kind, "meta": dict(meta), "arrays": entries}, buffers)


class FrameGate:
    """Lets one frame at a time through and keeps only the latest of each kind behind it.

    Safe to call from several threads.

    Parameters
    ----------
    send : callable
        Sends a frame; called without a lock held.
    clock : callable
        Seconds, monotonic.
    trust : float
        Seconds after a frame that asked for an acknowledgement, and got it, for which others go out without asking, ten at most. An
        acknowledgement is the dearest part of a small frame: the kernel says "busy" and "idle" for each, and JupyterLab draws both,
        with the icon of the page. For frames that their sender paces, and of which none can be left out.
    """

    def __init__(
        self,
        send: Callable[[Frame], None],
        clock: Callable[[], float] = time.monotonic,
        *,
        trust: float = 0.0,
    ) -> None:
        self._send = send
        self._clock = clock
        self._trust = trust
        self._unasked = 0
        self._lock = threading.Lock()
        self._waiting: dict[str, Frame] = {}
        self._in_flight: int | None = None
        self._sent_at = float("-inf")
        self._seq = 0
        self.sent = 0
        """Frames sent so far."""
        self.dropped = 0
        """Frames that a later one replaced before they were sent."""

    @property
    def open(self) -> bool:
        """Whether a frame pushed now would go out at once."""
        with self._lock:
            return self._is_open()

    def _is_open(self) -> bool:
        return self._in_flight is None or self._clock() - self._sent_at >= GATE_SECONDS

    @property
    def asked_at(self) -> float:
        """When the last frame went out that asked for an acknowledgement, on the gate's clock."""
        return self._sent_at

    def push(self, frame: Frame) -> bool:
        """Send a frame now, or keep it as the latest of its kind; tell which."""
        with self._lock:
            kind = frame.content["kind"]
            self.dropped += self._waiting.pop(kind, None) is not None
            # At the end of the line: kinds take turns.
            self._waiting[kind] = frame
            out = self._next() if self._is_open() else None
        return self._go(out)

    def acknowledge(self, seq: int) -> None:
        """Note that the browser has drawn frame `seq`; what waits goes out."""
        with self._lock:
            if seq != self._in_flight:
                return
            self._in_flight = None
            out = self._next()
        self._go(out)

    def flush(self) -> None:
        """Send all that waits, acknowledged or not: the last frame of a run must not be lost."""
        while True:
            with self._lock:
                out = self._next()
            if not self._go(out):
                return

    def reopen(self) -> None:
        """Forget the frame in flight: a view has just opened, the one that should acknowledge may be gone."""
        with self._lock:
            self._in_flight = None
            self._unasked = _IN_A_ROW
            out = self._next()
        self._go(out)

    def clear(self, kind: str | None = None) -> None:
        """Forget what waits, or what waits of one kind."""
        with self._lock:
            if kind is None:
                self._waiting.clear()
            else:
                self.dropped += self._waiting.pop(kind, None) is not None

    def _next(self) -> Frame | None:
        if not self._waiting:
            return None
        frame = self._waiting.pop(next(iter(self._waiting)))
        self.sent += 1
        now = self._clock()
        if self._in_flight is None and self._unasked < _IN_A_ROW and now - self._sent_at < self._trust:
            self._unasked += 1
            return frame
        self._unasked = 0
        self._seq += 1
        self._in_flight = self._seq
        self._sent_at = now
        return Frame({**frame.content, "seq": self._seq}, frame.buffers)

    def _go(self, frame: Frame | None) -> bool:
        if frame is None:
            return False
        self._send(frame)
        return True
