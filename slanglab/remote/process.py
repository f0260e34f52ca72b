"""One worker process, as the notebook sees it: requests go out, answers come back, and its end is told from its silence."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any

from slanglab import children
from slanglab.remote import frames
from slanglab.remote.frames import Bytes, FrameError, Segment

__all__ = ["Ended", "Process"]

_MODULE = "slanglab.remote.worker"
_LOOK = 0.05  # seconds that a wait for an answer is not to be interrupted for at most
_SPARE = 4  # times the size that was wanted: arguments and results lie beside each other


class Ended(Exception):  # noqa: N818  (an event, caught where it is raised)
    """The process is gone; `str` says how."""


class Process:
    """A worker, from its start on.

    Parameters
    ----------
    options : dict
        What `slanglab.remote.worker.main` is given.

    Raises
    ------
    OSError
        When no process can be started.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        self.child = children.start(_MODULE, options)
        self.segment: Segment | None = None
        self._wanted = 0
        self._told = False
        self._data = bytearray()
        self.ended = False
        """Whether it was seen to end."""
        threading.Thread(target=_bury, args=(self,), name="slanglab worker", daemon=True).start()
        self._number = 0

    @property
    def pid(self) -> int:
        """The process's id."""
        return self.child.pid

    def room(self, size: int) -> Segment | None:
        """Return memory that both sides map, with room for so many bytes; None while they are too few for it."""
        size = max(size, self._wanted)
        if size >= frames.SMALL and (self.segment is None or self.segment.size < size):
            self.segment, self._told = Segment.make(size * _SPARE), False
        return self.segment

    def send(self, message: dict[str, Any], buffers: Sequence[Bytes]) -> int:
        """Send a request; return its number."""
        self._number += 1
        message["id"] = self._number
        if self.segment is not None and not self._told:
            message["segment"] = self.segment.place
            self._told = True
        self.child.write(frames.pack(message, buffers))
        return self._number

    def receive(self, number: int, tick: Callable[[], None]) -> tuple[dict[str, Any], list[bytearray]]:
        """Wait for the answer to a request. Answers to earlier ones, which nobody waited for to the end, are dropped.

        Parameters
        ----------
        number : int
        tick : callable
            Called again and again while there is no answer; may raise.

        Raises
        ------
        Ended
            When the process is gone, or says what is no answer.
        """
        while True:
            try:
                found = frames.parse(self._data)
            except FrameError as error:
                self.child.kill()
                raise Ended(f"gave an answer that is none ({error})") from None
            if found is not None:
                message, buffers, length = found
                del self._data[:length]
                if message.get("id") == number:
                    wanted = message.get("wanted", 0)
                    self._wanted = max(self._wanted, wanted if isinstance(wanted, int) else 0)
                    return message, buffers
                continue
            part = self.child.available(_LOOK)
            if part is None:
                self.child.flush()
                tick()
            elif part:
                self._data += part
            else:
                raise Ended(self._how())

    def gone(self) -> str:
        """Say how the process ended; empty while it is there."""
        return self._how() if self.ended else ""

    def _how(self) -> str:
        status = self.child.wait(2.0)
        self.child.end_of_output()
        if status is None:
            return "closed its output"
        if status < 0:
            try:
                name = signal.Signals(-status).name
            except ValueError:
                name = f"signal {-status}"
            return "was killed (SIGKILL)" if name == "SIGKILL" else f"crashed ({name})"
        return f"ended with status {status}"

    def kill(self) -> None:
        """End it, at once, wherever it is."""
        self.child.end_of_output()


def _bury(process: Process) -> None:
    """Take a process that ended off the table of processes at once: Jupyter ends the kernel's children, and waits until they are gone."""
    process.child.wait(None)
    process.ended = True
    process.child.kill()
