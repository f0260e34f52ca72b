"""What slangpy logs, kept so that each message can be shown where it belongs.

slangpy writes warnings of a compile, and errors of the driver, to its logger and from there to the C stdout, where a notebook
cannot place them. While a `LogCapture` is installed they go to a private file instead; whoever starts an operation takes what came.

Not to a `LoggerOutput` written in Python, which looks like the way to do it: threads of the driver log too, holding the logger's lock
while they wait for Python's, and a call holds Python's while it waits for the logger's. The process then stands still for ever.
"""

from __future__ import annotations

import os
import re
import tempfile
import threading
from dataclasses import dataclass
from typing import IO

import slangpy as spy

__all__ = ["LogCapture", "Record"]

_KEPT = 1000  # records; a program that logs in a loop must not fill the memory
_LARGEST = 4 * 1024 * 1024  # bytes of the file before another one is begun
_START = re.compile(r"^\[(DEBUG|INFO|WARN|ERROR|FATAL)\] ", re.MULTILINE)
_RETRIED = re.compile(r"\(rhi\) layer: Total push constant size \(\d+\) exceeds the maximum allowed")
"""What slangpy logs of arguments that do not fit among the push constants; it takes a buffer for them then."""


@dataclass(frozen=True)
class Record:
    """One message of slangpy's logger."""

    level: str
    """"debug", "info", "warn", "error" or "fatal"."""
    text: str


class LogCapture:
    """Takes the place of slangpy's console output between `install` and `remove`."""

    def __init__(self) -> None:
        self._records: list[Record] = []
        self._lock = threading.Lock()
        self._output: spy.FileLoggerOutput | None = None
        self._file: IO[str] | None = None

    def install(self) -> None:
        """Send slangpy's messages here instead of to the console; a second call changes nothing."""
        if self._output is None:
            spy.Logger.get().remove_all_outputs()
            self._begin()

    def _begin(self) -> None:
        handle, path = tempfile.mkstemp(prefix="slanglab-log-")
        os.close(handle)
        self._output = spy.Logger.get().add_file_output(path)
        self._file = open(path, encoding="utf-8", errors="replace")  # noqa: SIM115 - read for as long as it is written
        if os.name == "posix":
            os.unlink(path)  # both sides keep it open; nothing is left behind, however the process ends

    def remove(self) -> None:
        """Give slangpy its console back."""
        if self._output is not None:
            self._end()
            spy.Logger.get().add_console_output()

    def _end(self) -> None:
        spy.Logger.get().remove_output(self._output)
        self._output = None
        if self._file is not None:
            self._file.close()
            self._file = None

    def _read(self) -> None:
        """Read what was written since the last time."""
        if self._file is None:
            return
        text = self._file.read()
        if text:
            parts = _START.split(text)
            for level, message in zip(parts[1::2], parts[2::2], strict=True):
                if not _RETRIED.match(message):
                    self._records.append(Record(level.lower(), message.removesuffix("\n")))
            del self._records[:-_KEPT]
        if self._file.tell() > _LARGEST:
            self._end()
            self._begin()

    def take(self) -> list[Record]:
        """Return what came since the last call, oldest first, and forget it."""
        with self._lock:
            self._read()
            records, self._records = self._records, []
        return records

    def put_back(self, records: list[Record]) -> None:
        """Return records that belong to somebody else to the front of the line."""
        with self._lock:
            self._records[:0] = records
