"""Folders of one process alone, gone when it is, however it ends.

A process holds a lock on each of its folders, which the system lets go of when the process ends. Whoever makes such a folder next
removes those that nobody holds; numbers of processes would not do, since containers that share a folder do not see each other's.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
import threading
import time
from pathlib import Path

if sys.platform != "win32":
    import fcntl

__all__ = ["PREFIX", "PrivateFolder", "sweep"]

PREFIX = "slanglab-private-"
"""How their names begin, in the folder for temporary files."""

_YOUNG = 1.0  # seconds in which a folder may not have its lock yet


class PrivateFolder:
    """A new folder that only this user can look into.

    Parameters
    ----------
    purpose : str
        A word for its name.

    Raises
    ------
    OSError
        When there is no place for it.
    """

    def __init__(self, purpose: str) -> None:
        sweep()
        self.path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{purpose}-"))
        self._process = os.getpid()
        self._held = _hold(self.path, exclusive=False)
        self._lock = threading.Lock()

    def remove(self) -> None:
        """Remove it with all that is in it; in a forked child, whose it is not, nothing happens."""
        if os.getpid() != self._process:
            return
        with self._lock:  # the thread that buries a process and the end of this one may both come here
            held, self._held = self._held, None
        shutil.rmtree(self.path, ignore_errors=True)
        if held is not None:
            os.close(held)


def _hold(folder: Path, exclusive: bool) -> int | None:
    """Lock a folder; None where that is not to be had."""
    if sys.platform == "win32":
        return None
    try:
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(held, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except OSError:
        os.close(held)
        return None
    return held


def sweep() -> None:
    """Remove the private folders of processes that ended without doing so."""
    if sys.platform == "win32":
        return
    try:
        found = [entry for entry in os.scandir(tempfile.gettempdir()) if entry.name.startswith(PREFIX)]
    except OSError:
        return
    for entry in found:
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        mine = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
        if not mine or time.time() - status.st_ctime < _YOUNG:
            continue
        held = _hold(Path(entry.path), exclusive=True)
        if held is not None:
            shutil.rmtree(entry.path, ignore_errors=True)
            os.close(held)
