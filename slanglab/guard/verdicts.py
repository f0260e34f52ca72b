"""What is known of kernels: those that compile, kept between sessions, and those that do not, for this one."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import tempfile
from pathlib import Path

__all__ = ["Verdicts"]

_MOST = 8192  # kernels in the file before the older half is let go
_LINE = re.compile(rb"[0-9a-f]{64}")
_WIDTH = 65  # bytes of a line


class Verdicts:
    """The kernels that the compiler is known to survive, or not to.

    Several notebooks add to one file, a line at a time. It only saves time: what is missing from it is compiled by the worker again, and
    lines that are no hashes are passed over.

    Parameters
    ----------
    file : Path, optional
        Where good kernels are kept between sessions; nowhere unless given.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._good: set[str] = set()
        self._bad: dict[str, str] = {}
        self._read()

    def is_good(self, key: str) -> bool:
        """Tell whether a kernel has compiled before."""
        return key in self._good

    def why_bad(self, key: str) -> str | None:
        """Return what happened to the compiler, for a kernel that it did not survive in this session; else None."""
        return self._bad.get(key)

    def bad(self, key: str, why: str) -> None:
        """Note that the compiler did not survive a kernel."""
        self._bad[key] = why

    def good(self, key: str) -> None:
        """Note that a kernel compiles."""
        if key in self._good:
            return
        self._good.add(key)
        if self._file is None:
            return
        with contextlib.suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle = os.open(self._file, _flags(os.O_WRONLY | os.O_APPEND | os.O_CREAT), 0o600)
            try:
                os.write(handle, f"{key}\n".encode())  # one write: lines of two notebooks do not mix
            finally:
                os.close(handle)

    def _read(self) -> None:
        if self._file is None:
            return
        try:
            handle = os.open(self._file, _flags(os.O_RDONLY))
        except OSError:
            return
        with os.fdopen(handle, "rb") as file:
            status = os.fstat(file.fileno())
            own = not hasattr(os, "getuid") or status.st_uid == os.getuid()
            if not stat.S_ISREG(status.st_mode) or not own:
                return
            file.seek(max(0, status.st_size - 4 * _MOST * _WIDTH))
            lines = [line.strip() for line in file.read().split(b"\n")]
        found = list(dict.fromkeys(line.decode() for line in lines if _LINE.fullmatch(line)))
        self._good.update(found)
        if len(lines) > _MOST:
            self._shorten(found[-_MOST // 2 :])

    def _shorten(self, kept: list[str]) -> None:
        assert self._file is not None
        with contextlib.suppress(OSError):
            handle, temporary = tempfile.mkstemp(dir=self._file.parent, prefix=".compiled-")
            with os.fdopen(handle, "w", encoding="ascii") as file:
                file.writelines(f"{key}\n" for key in kept)
            Path(temporary).replace(self._file)


def _flags(flags: int) -> int:
    """Add what is asked for where the system knows it: not to follow a link that somebody put there."""
    return flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
