"""slangpy's two caches on disk: the compiled slangpy module, and the target code of kernels.

Whatever is wrong with them ends here, before slangpy opens them: a folder that is not the user's, a full or read-only disk, files cut
off, changed or left unfinished. What is broken is made anew, what cannot be used is done without, and one warning says so.

The cache of kernels is made anew as well when it is full and nobody else has it, without a word. slangpy makes room by itself, kernel by
kernel, but what it frees lies in pieces in which larger kernels find no place (LMDB wants theirs in one), and "least recently used" goes
by the time since the machine was started, so that after a restart the newest kernels go first.

`prepare` is called before a device is opened, `settle` when it is open. In between the first process on a machine has the caches alone,
so that a second notebook waits for the first set-up instead of repeating it.
"""

from __future__ import annotations

import atexit
import importlib.metadata
import os
import re
import shutil
import threading
import warnings
from dataclasses import dataclass
from pathlib import Path
from time import sleep

from slanglab import paths, progress
from slanglab.caches import folders, seals
from slanglab.caches.lmdb import BrokenDatabaseError, Database
from slanglab.caches.seals import Seal

__all__ = [
    "SHADERS_SIZE",
    "CacheWarning",
    "Caches",
    "current",
    "heard",
    "place",
    "prepare",
    "report",
    "settle",
    "usual",
]

SHADERS_SIZE = 256 << 20
"""Bytes that the cache of kernels may take, on disk and of addresses; thousands of kernels, one of which has 10 to 100 kB."""
_FULL = 0.8  # of it: where slangpy begins to throw kernels out
_LONGEST_WAIT = 20.0  # seconds for another process to set the caches up
_SEAL = "seal"
_ABOUT_A_CACHE = re.compile(
    r"Failed to (?:write to cache|read from cache|write cached slang module|rename cached slang module"
    r"|delete cache|open cache)[^\n]*"
)
_MAP_FULL = "MDB_MAP_FULL"


class CacheWarning(UserWarning):
    """A cache was made anew, or is done without; results are the same, only later."""


@dataclass(frozen=True)
class Caches:
    """The folders to give to slangpy.

    Attributes
    ----------
    modules, shaders : Path or None
        None where there is no place for them.
    cold : bool
        True where slangpy's own module has to be compiled first, which takes seconds.
    """

    modules: Path | None
    shaders: Path | None
    cold: bool = False


class _Place:
    """The folder that this process has its caches in, chosen once."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.folder: Path | None = None
        self.private = False
        self.lock: folders.InUse | None = None
        self.seal = Seal()
        self.found = Caches(None, None)
        self.notes: list[str] = []
        self.failing = self.crowded = False
        """Whether slangpy said that it could not use them, or found no place for a kernel."""
        self._choose(usual())

    def _choose(self, wanted: Path) -> None:
        try:
            if discarded := folders.make(wanted):
                self.note(f"{discarded}, so that the caches in it were thrown away")
            if not folders.room(wanted):
                raise folders.Unusable(f"there is no room for {wanted}")
            self.lock = folders.InUse(wanted / "in-use")
            self.folder = wanted
            folders.free_readers(wanted / "shaders" / "rhi" / "lock.mdb")
        except (folders.Unusable, OSError) as why:
            private = folders.make_private()
            self.folder = private.path if private is not None else None
            self.private = private is not None
            instead = "this session has private ones" if self.private else "this session goes without"
            self.note(f"the caches cannot be used: {why}; {instead}", hint=True)
            if private is not None:
                self.lock = folders.InUse(private.path / "in-use")
                atexit.register(private.remove)

    def note(self, text: str, hint: bool = False) -> None:
        """Warn of something, and keep it for `report`."""
        self.notes.append(text)
        if hint:
            text += ", and compiles what others have ready; `export SLANGLAB_CACHE=FOLDER` names a folder of yours"
        # Where in the program a device happens to be opened says nothing about the cache.
        warnings.warn_explicit(text, CacheWarning, "slanglab", 0, source=None)

    def begin(self) -> None:
        """Have the folder, alone where nobody else uses it; wait for one that is setting it up."""
        if self.lock is None or self.lock.take_alone() or self.lock.share():
            return
        with progress.work("waiting for another notebook, which sets up the caches") as work:
            while not self.lock.share() and work.seconds < _LONGEST_WAIT:
                work.tick()
                sleep(0.05)

    def check(self) -> Caches:
        """Mend what is in the folder."""
        if self.folder is None:
            return Caches(None, None)
        modules, shaders = self.folder / "modules", self.folder / "shaders"
        known = seals.load(self.folder / _SEAL)
        self.seal = known or Seal()
        try:
            for inside in (modules, shaders, shaders / "rhi"):
                self._folder(inside)
            self._check_modules(modules)
            usable = self._check_shaders(shaders, fresh=known is None)
        except OSError as error:
            self.note(
                f"the caches in {self.folder} cannot be mended ({error.strerror}); this session goes without"
            )
            return Caches(None, None)
        cold = not any(modules.rglob("slangpy.slang-module"))
        return Caches(modules, shaders if usable else None, cold)

    def _folder(self, path: Path) -> None:
        if path.is_symlink() or (path.exists() and not path.is_dir()):
            path.unlink()
            self.note(f"{path} was no folder, and is made anew")
        path.mkdir(mode=0o700, exist_ok=True)

    def _check_modules(self, modules: Path) -> None:
        if self.lock is not None and self.lock.alone:
            for path in seals.unfinished(modules):
                folders.remove(path)
        reasons = []
        for path, reason in seals.broken_modules(modules, self.seal).items():
            folders.remove(path)
            reasons += [reason] if reason else []
        if reasons:
            self.note(f"the cache of compiled modules was broken ({reasons[0]}), and is made anew")

    def _check_shaders(self, shaders: Path, fresh: bool) -> bool:
        database = shaders / "rhi"
        file = database / "data.mdb"
        if (fresh and file.exists()) or (self._may_empty() and _filled(file)):
            # Of an earlier version of SlangLab, or the seal was lost, so that nothing is known of it; or full, which is no fault to tell.
            reason = ""
        elif not (reason := seals.broken_shaders(shaders, self.seal)):
            return True
        aside = shaders / f"rhi.broken-{os.getpid()}"
        try:
            # Set aside at once, so that another process that has it open goes on with what it has.
            os.replace(database, aside)
            database.mkdir(mode=0o700)
        except OSError:  # where open files cannot be moved
            self.note(f"the cache of kernels is broken ({reason}) and in use; this session goes without")
            return False
        shutil.rmtree(aside, ignore_errors=True)
        if reason:
            self.note(f"the cache of kernels was broken ({reason}), and is made anew")
        return True

    def _may_empty(self) -> bool:
        """Tell whether nobody has the cache of kernels open: no other process, and no device of this one."""
        return self.lock is not None and self.lock.alone and self.found.shaders is None

    def finish(self) -> None:
        """Seal the caches as they are, and let others use them."""
        if self.folder is None:
            return
        if not self.private:
            sealed = seals.make(self.folder / "modules", self.folder / "shaders", self.seal)
            if sealed != self.seal and seals.save(sealed, self.folder / _SEAL):
                self.seal = sealed
        if self.lock is not None and self.lock.alone:
            self.lock.share()


def _filled(file: Path) -> bool:
    """Tell whether slangpy has begun to throw kernels out of its cache, or is about to."""
    try:
        with Database(file) as database:
            return database.reach() >= _FULL * SHADERS_SIZE
    except (OSError, BrokenDatabaseError):
        return False  # there is none, or `_check_shaders` looks into it


_lock = threading.RLock()
_place: _Place | None = None


def usual() -> Path:
    """Return the folder of both caches, one for each version of slangpy."""
    try:
        version = importlib.metadata.version("slangpy")
    except importlib.metadata.PackageNotFoundError:  # the doctor asks on machines that lack it
        version = "none"
    return paths.cache() / f"slangpy-{version}"


def prepare() -> Caches:
    """Return caches that slangpy can open; what is wrong with them is mended or done without, with a warning.

    A few milliseconds where nothing happened to them since they were sealed; else they are read, 0.1 s for 100 MB.
    """
    global _place
    with _lock:
        if _place is None or _place.process != os.getpid():
            _place = _Place()
        _place.begin()
        _place.found = _place.check()
        return _place.found


def current() -> tuple[Path | None, Path | None]:
    """Return the folders of modules and shaders that this process uses, prepared at the first call."""
    with _lock:
        if _place is None or _place.process != os.getpid():
            prepare()
            settle()
        assert _place is not None
        return _place.found.modules, _place.found.shaders


def place() -> Path | None:
    """Return the folder that this process's caches are in, checked to be the user's alone; None where there is none to be had."""
    current()
    return _place.folder if _place is not None else None


def settle() -> None:
    """Seal the caches after something was added to them, and let other processes use them.

    At the end of the process this happens by itself.
    """
    with _lock:
        if _place is not None and _place.process == os.getpid():
            _place.finish()


def heard(message: str) -> bool:
    """Tell whether a message that slangpy logged is about a cache it could not use; the first is a warning, the others are the same.

    slangpy says so for each kernel: on a disk that is full by now, at every first call. That a kernel found no place among others is no
    warning, as nothing is lost but the time to compile it again and nothing is to be done; `report` has it.
    """
    found = _ABOUT_A_CACHE.search(message)
    if found is None:
        return False
    with _lock:
        if _place is None:
            return True
        if _MAP_FULL in found[0]:
            if not _place.crowded:
                _place.crowded = True
                _place.notes.append(
                    "the cache of kernels is full, and large ones are not kept any more; it is made anew by the next notebook that has "
                    "it alone"
                )
        elif not _place.failing:
            _place.failing = True
            why = found[0].rpartition(": ")[2].strip()
            _place.note(
                f"the caches cannot be written any more ({why}); what is compiled from now on is not kept"
            )
    return True


def report() -> tuple[str, ...]:
    """Return what was wrong with the caches in this process, in sentences."""
    return tuple(_place.notes) if _place is not None else ()


atexit.register(settle)
