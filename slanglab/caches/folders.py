"""Which folder the caches are in: the user's own, as long as nobody else can change it, else one for this process alone.

Compiled code is run, so a folder that others can write to would let them run code here: it must be the user's, a folder and no link
to one, and closed to everybody else. A folder that cannot be used is not mended where it is somebody else's; the process then has a
private one, which its helper processes share and which goes with it.
"""

from __future__ import annotations

import os
import shutil
import stat
import struct
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from slanglab.private import PrivateFolder

if sys.platform != "win32":
    import fcntl

__all__ = [
    "InUse",
    "Unusable",
    "free_readers",
    "make",
    "make_private",
    "owner",
    "remove",
    "room",
    "unusable",
]

_LEAST_ROOM = 48_000_000  # bytes: the compiled slangpy module and a first transaction, with some to spare
_LOCK_MAGIC = b"\xde\xc0\xef\xbe"
_READERS_AT, _READER, _PROCESS_AT = 128, 64, 8  # of LMDB's table of readers, in bytes
_PROCESS = struct.Struct("<I")
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class Unusable(Exception):  # noqa: N818 - no error of the user's; it says why another folder is taken
    """A folder cannot hold the caches; the text says why."""


class InUse:
    """A lock on a folder: shared by all processes that use it, held alone by one that sets it up or cleans it.

    It ends with the process, however that ends. Where the system has no such locks nobody is ever alone.

    Parameters
    ----------
    path : Path
        A file for it, made if need be.

    Raises
    ------
    OSError
        When the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
        self._file: IO[bytes] = os.fdopen(os.open(path, flags, 0o600), "r+b", buffering=0)
        self.alone = False

    def take_alone(self) -> bool:
        """Hold the folder alone, if nobody else uses it."""
        self.alone = self._lock(exclusive=True)
        return self.alone

    def share(self) -> bool:
        """Use the folder along with others; False while somebody holds it alone."""
        self.alone = False
        return self._lock(exclusive=False)

    def _lock(self, exclusive: bool) -> bool:
        if sys.platform == "win32":
            return not exclusive
        kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
        try:
            fcntl.flock(self._file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks
            return not exclusive
        return True

    def close(self) -> None:
        """Let go of the folder."""
        self._file.close()


def owner(path: Path) -> str:
    """Return the name of a file's owner."""
    try:
        return path.owner()
    except (KeyError, NotImplementedError, OSError):
        return "another user"


def room(folder: Path) -> bool:
    """Tell whether the caches would fit where a folder is."""
    try:
        return shutil.disk_usage(folder).free >= _LEAST_ROOM
    except OSError:
        return False


def make(folder: Path) -> str:
    """Make sure of a folder that is the user's and closed to others, made if need be.

    Returns
    -------
    str
        Why what stood in it was thrown away; empty where it was not.

    Raises
    ------
    Unusable
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            pass
        found = folder.lstat()
    except OSError as error:
        raise Unusable(f"{folder} cannot be made ({error.strerror})") from None
    if reason := unusable(folder, found):
        raise Unusable(reason)
    discarded = ""
    try:
        if os.name == "posix" and stat.S_IMODE(found.st_mode) & 0o077:
            folder.chmod(0o700)
            if found.st_mode & _OTHERS_WRITE:
                _empty(folder)
                discarded = f"others could write to {folder}"
        _try_writing(folder)
    except OSError as error:
        raise Unusable(f"{folder} cannot be written ({error.strerror})") from None
    return discarded


def unusable(folder: Path, found: os.stat_result) -> str:
    """Return why a folder that is there cannot hold the caches; empty where it can."""
    if stat.S_ISLNK(found.st_mode):
        return f"{folder} is a link to another place"
    if not stat.S_ISDIR(found.st_mode):
        return f"{folder} is no folder"
    if hasattr(os, "geteuid") and found.st_uid != os.geteuid():
        return f"{folder} belongs to {owner(folder)}"
    return ""


def _empty(folder: Path) -> None:
    for name in os.listdir(folder):
        remove(folder / name)


def remove(path: Path) -> None:
    """Remove a file, a link or a folder with all that is in it.

    Raises
    ------
    OSError
    """
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _try_writing(folder: Path) -> None:
    """Write a file, since permissions do not tell all: a read-only file system, a quota, a network that went away."""
    handle, name = tempfile.mkstemp(prefix="try-", dir=folder)
    try:
        os.write(handle, b"slanglab")
    finally:
        os.close(handle)
        os.unlink(name)


def make_private() -> PrivateFolder | None:
    """Make a folder for this process alone; None where there is no place for it."""
    try:
        folder = PrivateFolder("caches")
    except OSError:
        return None
    if room(folder.path):
        return folder
    folder.remove()
    return None


def free_readers(lock: Path) -> None:
    """Take processes that ended out of LMDB's table of readers, which is full otherwise after 126 that were killed.

    LMDB looks for them only when told to. A living process holds a lock on the byte of its number, which is how LMDB itself tells. Not
    after LMDB has opened the file in this process: closing it here would end LMDB's own locks.
    """
    if sys.platform == "win32" or not lock.is_file():
        return
    with _ignored(), lock.open("r+b", buffering=0) as file:
        table = file.read()
        if len(table) < _READERS_AT or not table.startswith(_LOCK_MAGIC):
            return
        for at in range(_READERS_AT, len(table) - _READER + 1, _READER):
            (process,) = _PROCESS.unpack_from(table, at + _PROCESS_AT)
            if process == 0 or process == os.getpid():
                continue
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, process)
            except OSError:
                continue
            file.seek(at + _PROCESS_AT)
            file.write(_PROCESS.pack(0))
            fcntl.lockf(file, fcntl.LOCK_UN, 1, process)


@contextmanager
def _ignored() -> Iterator[None]:
    try:
        yield
    except (OSError, AttributeError):  # AttributeError: a system without user ids
        pass
