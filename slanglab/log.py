"""What slangpy logs, kept so that each message can be shown where it belongs.

slangpy writes warnings of a compile, and errors of the driver, to its logger and from there to the C stdout, where a notebook
cannot place them. While a `LogCapture` is installed they are records instead; whoever starts an operation takes them.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

import slangpy as spy

__all__ = ["LogCapture", "Record"]

_KEPT = 1000  # records; a program that logs in a loop must not fill the memory


@dataclass(frozen=True)
class Record:
    """One message of slangpy's logger."""

    level: str
    """"debug", "info", "warn", "error" or "fatal"."""
    text: str


class _Output(spy.LoggerOutput):  # type: ignore[misc]
    def __init__(self, capture: LogCapture) -> None:
        super().__init__()
        self._capture = capture

    def write(self, level: spy.LogLevel, name: str, msg: str) -> None:
        """Keep a record; called by slangpy, on any thread."""
        self._capture._append(Record(level.name, msg))


class LogCapture:
    """Takes the place of slangpy's console output between `install` and `remove`."""

    def __init__(self) -> None:
        self._records: list[Record] = []
        self._lock = threading.Lock()
        self._output: _Output | None = None

    def install(self) -> None:
        """Send slangpy's messages here instead of to the console; a second call changes nothing."""
        if self._output is None:
            logger = spy.Logger.get()
            logger.remove_all_outputs()
            self._output = _Output(self)
            logger.add_output(self._output)

    def remove(self) -> None:
        """Give slangpy its console back."""
        if self._output is not None:
            logger = spy.Logger.get()
            logger.remove_output(self._output)
            logger.add_console_output()
            self._output = None

    def _append(self, record: Record) -> None:
        with self._lock:
            self._records.append(record)
            del self._records[:-_KEPT]

    def take(self) -> list[Record]:
        """Return what came since the last call, oldest first, and forget it."""
        with self._lock:
            records, self._records = self._records, []
        return records

    def put_back(self, records: list[Record]) -> None:
        """Return records that belong to somebody else to the front of the line."""
        with self._lock:
            self._records[:0] = records
