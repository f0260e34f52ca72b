"""What state the caches are in, told without touching them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from slanglab.caches import folders, seals
from slanglab.caches.lmdb import BrokenDatabaseError, Database
from slanglab.caches.seals import Seal

__all__ = ["State", "examine"]


@dataclass(frozen=True)
class State:
    """One of the caches.

    Attributes
    ----------
    name : str
        "modules" or "kernels".
    right : bool
        Whether it can be used as it is; what cannot is made anew, or done without, when the next device is opened.
    what : str
        In words.
    """

    name: str
    right: bool
    what: str


def examine(folder: Path) -> tuple[State, ...]:
    """Look at the caches of a version of slangpy; nothing where none were made yet.

    Parameters
    ----------
    folder : Path
        As `slanglab.caches.usual` says.
    """
    try:
        found = folder.lstat()
    except OSError:
        return ()
    if reason := folders.unusable(folder, found):
        return (State("modules", False, f"{reason}; done without"), State("kernels", False, "done without"))
    known = seals.load(folder / "seal")
    seal = known or Seal()
    return _modules(folder / "modules", seal), _kernels(folder / "shaders", seal, known is not None)


def _modules(folder: Path, seal: Seal) -> State:
    found = list(folder.rglob("*.slang-module"))
    broken = seals.broken_modules(folder, seal)
    reason = next(filter(None, broken.values()), "")
    if reason:
        return State("modules", False, f"broken ({reason}); made anew at the next start")
    what = f"{len(found)} compiled, {_megabytes(found)}"
    if broken:
        what += f", {len(broken)} of them not sealed, which the next start makes anew"
    return State("modules", True, what)


def _kernels(folder: Path, seal: Seal, sealed: bool) -> State:
    file = folder / "rhi" / "data.mdb"
    if not file.exists():
        return State("kernels", True, "none yet")
    if not sealed:
        return State("kernels", True, "not sealed, which the next start makes anew")
    if reason := seals.broken_shaders(folder, seal):
        return State("kernels", False, f"broken ({reason}); made anew at the next start")
    try:
        with Database(file) as database:
            count = len(database.walk().get("data", ()))
    except (OSError, BrokenDatabaseError):  # changed by a process that uses it, just now
        return State("kernels", True, f"in use, {_megabytes([file])}")
    return State("kernels", True, f"{count} compiled, {_megabytes([file])}")


def _megabytes(files: list[Path]) -> str:
    total = 0
    for file in files:
        try:
            total += file.lstat().st_size
        except OSError:
            continue
    return f"{total / 1e6:.1f} MB"
