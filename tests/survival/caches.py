"""What can be wrong with the caches on disk, done to a real one, and what a fresh process then makes of it.

Each situation ends in: the right results, in a process of its own that neither crashes nor hangs; at most one warning, and one where
something was lost; and a next process that finds everything warm again.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from cache_rig import SECONDS, Rig
from rows import Row

from slanglab.caches.lmdb import Database

__all__ = ["AROUND", "DAMAGES", "Damage", "Rig", "damaged", "runs"]

_NOBODY = 65534

# ----- damages -----


@dataclass(frozen=True)
class Damage:
    """Something done to the caches.

    Attributes
    ----------
    name : str
    do : callable
        Does it to a rig.
    warns : bool or None
        Whether the next process has to warn of it; None where it may, since what was hit may be in nobody's use.
    mends : bool
        Whether the process after that is warm again.
    random : bool
        Whether its place is another one each time.
    """

    name: str
    do: Callable[[Rig, random.Random], None]
    warns: bool | None = True
    mends: bool = True
    random: bool = False


def _truncated(file: str, part: float) -> Callable[[Rig, random.Random], None]:
    def do(rig: Rig, _: random.Random) -> None:
        path: Path = getattr(rig, file)
        os.truncate(path, int(part * path.stat().st_size))

    return do


def _flipped(file: str, count: int) -> Callable[[Rig, random.Random], None]:
    def do(rig: Rig, rng: random.Random) -> None:
        path: Path = getattr(rig, file)
        content = bytearray(path.read_bytes())
        start = rng.randrange(len(content) - count)
        for i in range(start, start + count):
            content[i] ^= rng.randrange(1, 256)
        path.write_bytes(content)

    return do


def _one_bit_of_a_kernel(rig: Rig, rng: random.Random) -> None:
    with Database(rig.data) as database:
        entry = rng.choice(database.walk()["data"])
    with rig.data.open("r+b") as file:
        at = entry.place + rng.randrange(entry.length)
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ 1 << rng.randrange(8)]))


def _random(file: str, size: int) -> Callable[[Rig, random.Random], None]:
    def do(rig: Rig, rng: random.Random) -> None:
        getattr(rig, file).write_bytes(rng.randbytes(size))

    return do


def _folder_instead(file: str) -> Callable[[Rig, random.Random], None]:
    def do(rig: Rig, _: random.Random) -> None:
        path: Path = getattr(rig, file)
        path.unlink()
        path.mkdir()

    return do


def _link_instead(path_of: Callable[[Rig], Path]) -> Callable[[Rig, random.Random], None]:
    def do(rig: Rig, _: random.Random) -> None:
        path = path_of(rig)
        elsewhere = Path(tempfile.mkdtemp(dir=rig.folder)) / path.name
        shutil.move(path, elsewhere)
        path.symlink_to(elsewhere)

    return do


def _file_instead(rig: Rig, _: random.Random) -> None:
    shutil.rmtree(rig.versioned)
    rig.versioned.write_text("no folder")


def _open_to_others(rig: Rig, _: random.Random) -> None:
    rig.versioned.chmod(0o777)


def _seal_gone(rig: Rig, _: random.Random) -> None:
    rig.seal.unlink()


def _left_unfinished(rig: Rig, _: random.Random) -> None:
    rig.module.with_name(f"{rig.module.name}-9ef8ebff00000000").write_bytes(rig.module.read_bytes()[:70_000])


def _strange_kernel_module(rig: Rig, rng: random.Random) -> None:
    rig.module.with_name("strange.slang-module").write_bytes(rng.randbytes(10_000))


_PARTS = (0.0, 0.00001, 0.001, 0.1, 0.25, 0.4, 0.5, 0.75, 0.9, 0.99999)
_PAGES = (0.0, 0.01, 0.06, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9)

DAMAGES = (
    Damage("nothing", lambda rig, rng: None, warns=False),
    *(Damage(f"modules cut off at {p:g}", _truncated("module", p)) for p in _PARTS),
    *(Damage(f"kernels cut off at {p:g}", _truncated("data", p), warns=None) for p in _PAGES),
    Damage("modules changed", _flipped("module", 64), random=True),
    Damage("modules changed in one byte", _flipped("module", 1), random=True),
    Damage("kernels changed", _flipped("data", 4096), warns=None, random=True),
    Damage("kernels changed in one byte", _flipped("data", 1), warns=None, random=True),
    Damage("one bit of a kernel changed", _one_bit_of_a_kernel, random=True),
    Damage("modules something else", _random("module", 13_381_588)),
    Damage("kernels something else", _random("data", 65_536)),
    Damage("table of readers something else", _random("lock", 8192), warns=False),
    Damage("table of readers cut off", _truncated("lock", 0.5), warns=False),
    Damage("modules a folder", _folder_instead("module")),
    Damage("kernels a folder", _folder_instead("data")),
    Damage("kernels a link", _link_instead(lambda rig: rig.data)),
    Damage("folder of kernels a link", _link_instead(lambda rig: rig.versioned / "shaders")),
    Damage("folder open to others", _open_to_others),
    Damage("folder a link", _link_instead(lambda rig: rig.versioned), mends=False),
    Damage("folder a file", _file_instead, mends=False),
    Damage("seal lost", _seal_gone, warns=False),
    Damage("seal changed", _flipped("seal", 8), warns=False),
    Damage("seal cut off", _truncated("seal", 0.7), warns=False),
    Damage("a module left unfinished", _left_unfinished, warns=False),
    Damage("a module that nobody sealed", _strange_kernel_module, warns=False),
)


def damaged(rig: Rig, damage: Damage, rng: random.Random) -> Row:
    """Do a damage, and run two processes."""
    rig.restore()
    damage.do(rig, rng)
    first = rig.run()
    second = rig.run()
    problems = []
    if not first.right:
        problems.append(f"first: {first}")
    elif len(first.warnings) > 1 or (damage.warns is not None and damage.warns != bool(first.warnings)):
        problems.append(f"warned of {first.warnings}")
    if damage.mends and not second.warm:
        problems.append(f"then: {second}")
    elif damage.mends and second.warnings:
        problems.append(f"then warned of {second.warnings}")
    elif not second.right:
        problems.append(f"then: {second}")
    if left := rig.left():
        problems.append(f"left {left}")
    detail = "; ".join(problems) or f"{first.said['prepare_ms']} ms {first.warnings}"
    return Row(f"caches: {damage.name}", not problems, detail)


# ----- what goes on around them -----


def two_at_once(rig: Rig, rng: random.Random, cold: bool) -> Row:
    """Two notebooks that start together, with different kernels; each finds later what the other made."""
    rig.restore()
    if cold:
        shutil.rmtree(rig.versioned)
    both = [rig.start(0, first, 3) for first in (10, 13)]
    ends = [rig.end(process) for process in both]
    after = [rig.run(0, first, 3) for first in (10, 13)]
    ok = all(run.right and not run.warnings for run in (*ends, *after))
    ok &= all(run.said["hits"] == 6 and not run.said["cold"] for run in after if run.right)
    detail = "" if ok else "; ".join(map(str, (*ends, *after)))
    return Row(f"caches: two notebooks at once, {'none made yet' if cold else 'warm'}", ok, detail)


def killed(rig: Rig, rng: random.Random, cold: bool) -> Row:
    """A process killed at a random moment, in the first set-up or while it writes kernels."""
    rig.restore()
    if cold:
        shutil.rmtree(rig.versioned)
    process = rig.start(0, 20, 30)
    if not cold:
        assert process.stdout is not None
        process.stdout.readline()  # its first kernel
    moment = rng.uniform(0.3, 3.0) if cold else rng.uniform(0.0, 1.5)
    time.sleep(moment)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    first, second = rig.run(), rig.run()
    ok = first.right and second.warm and not first.warnings and not rig.left()
    detail = f"killed after {moment:.2f} s" + ("" if ok else f"; {first}; {second}; left {rig.left()}")
    return Row(f"caches: killed {'in the first set-up' if cold else 'while writing kernels'}", ok, detail)


def readers_of_the_dead(rig: Rig, rng: random.Random) -> Row:
    """A table of readers full of processes that were killed, while one notebook goes on."""
    rig.restore()
    living = rig.start(SECONDS)
    assert living.stdout is not None
    try:
        while not (line := living.stdout.readline()).startswith("{"):
            if not line:
                return Row("caches: readers of the dead", False, "the first process ended")
        with rig.lock.open("r+b") as file:
            for i in range(126):
                file.seek(128 + 64 * i)
                file.write(struct.pack("<QQQ", 2**64 - 1, 2**22 - 1 - i, 2**40 + i))
            file.seek(16)
            file.write(struct.pack("<I", 126))
        run = rig.run()
    finally:
        living.kill()
        living.communicate()
    return Row("caches: readers of the dead", run.warm and not run.warnings, "" if run.warm else str(run))


def disk_fills_up(rig: Rig, rng: random.Random) -> Row | None:
    """A disk that is full by the time kernels are compiled; None where none can be mounted."""
    disk = Path(tempfile.mkdtemp(dir=rig.folder))
    if not _mount("-t", "tmpfs", "-o", "size=64000000", "tmpfs", str(disk)):
        return None
    try:
        process = rig.start(0, 0, 8, env={"SLANGLAB_CACHE": str(disk)})
        assert process.stdout is not None
        process.stdout.readline()  # the first kernel
        with (disk / "full").open("wb", buffering=0) as file:
            try:
                while file.write(bytes(4096)) == 4096:
                    pass
            except OSError:
                pass
        full = rig.end(process)
        (disk / "full").unlink()
        after = rig.run(0, 0, 8, env={"SLANGLAB_CACHE": str(disk)})
    finally:
        _unmount(disk)
    ok = full.right and after.right and len(full.warnings) <= 1
    return Row("caches: the disk fills up", ok, "" if ok else f"{full}; {after}")


def _mount(*arguments: str) -> bool:
    return not subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode


def _unmount(folder: Path) -> None:
    subprocess.run(["umount", str(folder)], capture_output=True, check=False)


def full_disk(rig: Rig, rng: random.Random, room: int) -> Row | None:
    """A disk with so much room left; None where none can be mounted."""
    name = f"caches: a disk with {room // 1000} kB left"
    disk = Path(tempfile.mkdtemp(dir=rig.folder))
    if not _mount("-t", "tmpfs", "-o", f"size={room}", "tmpfs", str(disk)):
        return None
    try:
        run = rig.run(env={"SLANGLAB_CACHE": str(disk)})
        ok = run.right and len(run.warnings) == 1 and "room" in run.warnings[0] and not rig.left()
        return Row(name, ok, "" if ok else str(run))
    finally:
        _unmount(disk)


def somebody_elses(rig: Rig, rng: random.Random) -> Row | None:
    """A folder of another user; None where no file can be given away."""
    if os.geteuid() != 0:
        return None
    rig.restore()
    os.chown(rig.versioned, _NOBODY, _NOBODY)
    run = rig.run()
    rig.restore()
    ok = (
        run.right and len(run.warnings) == 1 and "belongs to" in run.warnings[0] and bool(run.said["private"])
    )
    ok &= not Path(run.said.get("private") or "/").exists()
    return Row("caches: somebody else's folder", ok, "" if ok else str(run))


def read_only(rig: Rig, rng: random.Random) -> Row | None:
    """A folder that cannot be written; None where that cannot be arranged."""
    rig.restore()
    mounted = False
    if os.geteuid() == 0:  # permissions are nothing to root
        if not _mount("--bind", str(rig.cache), str(rig.cache)):
            return None
        mounted = True
        if not _mount("-o", "remount,bind,ro", str(rig.cache)):
            _unmount(rig.cache)
            return None
    else:
        rig.versioned.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        run = rig.run()
    finally:
        if mounted:
            _unmount(rig.cache)
        else:
            rig.versioned.chmod(0o700)
    ok = run.right and len(run.warnings) == 1 and not rig.left()
    return Row("caches: read-only", ok, "" if ok else str(run))


def private_of_a_killed(rig: Rig, rng: random.Random) -> Row:
    """A process with private caches is killed; the next one that needs such a folder removes it, and its own."""
    rig.restore()
    _file_instead(rig, rng)
    process = rig.start(SECONDS)
    assert process.stdout is not None
    while (line := process.stdout.readline()) and not line.startswith("{"):
        pass
    before = list(rig.temporary.glob("slanglab-private-*"))
    process.kill()
    process.communicate()
    run = rig.run()
    ok = len(before) == 1 and run.right and not rig.left()
    return Row(
        "caches: private ones of a killed process", ok, "" if ok else f"{before}; {run}; left {rig.left()}"
    )


AROUND: dict[str, Callable[[Rig, random.Random], Row | None]] = {
    "two at once": lambda rig, rng: two_at_once(rig, rng, False),
    "two at once, cold": lambda rig, rng: two_at_once(rig, rng, True),
    "killed while writing kernels": lambda rig, rng: killed(rig, rng, False),
    "killed in the first set-up": lambda rig, rng: killed(rig, rng, True),
    "readers of the dead": readers_of_the_dead,
    "disk fills up": disk_fills_up,
    "full disk": lambda rig, rng: full_disk(rig, rng, 300_000),
    "nearly full disk": lambda rig, rng: full_disk(rig, rng, 14_000_000),
    "somebody else's": somebody_elses,
    "read-only": read_only,
    "private ones of a killed process": private_of_a_killed,
}


_AT_RANDOM = (
    "two at once",
    "two at once, cold",
    "killed while writing kernels",
    "killed in the first set-up",
)


def runs(count: int = 10, seed: int | None = None) -> Iterator[Row]:
    """Run every situation once, and those at random places and moments again and again.

    Parameters
    ----------
    count : int
        A tenth of it is how often what is random is run; each takes some seconds, as compiled modules are made anew.
    seed : int, optional
        For the places and moments; the rows of failures name it.
    """
    seed = random.randrange(2**32) if seed is None else seed
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="slanglab-test-") as folder:
        rig = Rig(Path(folder))
        for turn in range(max(1, count // 10)):
            for damage in DAMAGES:
                if turn == 0 or damage.random:
                    yield _seeded(damaged(rig, damage, rng), seed)
            for name, situation in AROUND.items():
                row = situation(rig, rng) if turn == 0 or name in _AT_RANDOM else None
                if row is not None:
                    yield _seeded(row, seed)


def _seeded(row: Row, seed: int) -> Row:
    return row if row.ok else Row(row.name, False, f"{row.detail} (seed {seed})")


if __name__ == "__main__":
    failed = 0
    for row in runs(int(sys.argv[1]) if len(sys.argv) > 1 else 1):
        failed += not row.ok
        print(f"{'ok  ' if row.ok else 'FAIL'} {row.name}  {row.detail}", flush=True)
    sys.exit(failed > 0)
