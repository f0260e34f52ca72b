"""A cache folder that real processes use, and that can be put back into a known state."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slanglab.caches import usual

__all__ = ["SECONDS", "Rig", "Run"]

_SCRIPT = Path(__file__).parent / "cached_run.py"
SECONDS = 90
"""After which a process hangs."""


@dataclass(frozen=True)
class Run:
    """How a process ended.

    Attributes
    ----------
    status : int or None
        Its exit status; None when it had to be killed.
    said : dict
        What it said of itself, empty when it did not get that far.
    text : str
        All of its output.
    """

    status: int | None
    said: dict[str, Any]
    text: str

    @property
    def right(self) -> bool:
        """Whether it computed, and ended by itself."""
        return self.status == 0 and bool(self.said.get("right"))

    @property
    def warnings(self) -> list[str]:
        """What it warned of."""
        return list(self.said.get("warnings", []))

    @property
    def warm(self) -> bool:
        """Whether it found all that it needed in the usual caches."""
        return self.right and self.said["usual"] and not self.said["cold"] and self.said["hits"] == 2

    def __str__(self) -> str:
        ended = "killed after its time" if self.status is None else f"status {self.status}"
        return f"{ended}, {self.said or self.text[-300:]!r}"


class Rig:
    """A cache folder that was used once, and can be put back into that state.

    Parameters
    ----------
    folder : Path
        An empty one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache = folder / "cache"
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self._files: dict[Path, tuple[bytes, int]] = {}
        for _ in range(2):  # the second finds the first's, and seals what using it has changed
            made = self.run()
            if not made.right:
                raise RuntimeError(f"the caches cannot be made: {made}")
        self.versioned = self.cache / usual().name
        self._keep()

    # ----- processes -----

    def environment(self, **more: str) -> dict[str, str]:
        """Return the environment of a process with this cache."""
        return {
            **os.environ,
            "SLANGLAB_CACHE": str(self.cache),
            "TMPDIR": str(self.temporary),
            "PYTHONDONTWRITEBYTECODE": "1",
            **more,
        }

    def start(self, *arguments: object, **how: Any) -> subprocess.Popen[str]:
        """Start a process that uses the caches."""
        return subprocess.Popen(
            [sys.executable, str(_SCRIPT), *map(str, arguments)],
            env=self.environment(**how.pop("env", {})),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **how,
        )

    def run(self, *arguments: object, **how: Any) -> Run:
        """Run one to its end."""
        return self.end(self.start(*arguments, **how))

    @staticmethod
    def end(process: subprocess.Popen[str]) -> Run:
        """Wait for a process, and read what it said."""
        try:
            text, _ = process.communicate(timeout=SECONDS)
            status: int | None = process.returncode
        except subprocess.TimeoutExpired:
            process.kill()
            text, _ = process.communicate()
            status = None
        said: dict[str, Any] = {}
        for line in text.splitlines():
            if line.startswith("{"):
                said = json.loads(line)
        return Run(status, said, text)

    # ----- files -----

    @property
    def module(self) -> Path:
        """The compiled slangpy module."""
        return next(self.versioned.glob("modules/*/*/slangpy.slang-module"))

    @property
    def data(self) -> Path:
        """The file of the cache of kernels."""
        return self.versioned / "shaders" / "rhi" / "data.mdb"

    @property
    def lock(self) -> Path:
        """Its table of readers."""
        return self.data.with_name("lock.mdb")

    @property
    def seal(self) -> Path:
        """What SlangLab knows of both."""
        return self.versioned / "seal"

    def _keep(self) -> None:
        for path in self.versioned.rglob("*"):
            if path.is_file():
                self._files[path] = path.read_bytes(), path.stat().st_mtime_ns

    def restore(self) -> None:
        """Put everything back: contents, times, and where nothing was replaced the files' numbers too."""
        if self.versioned.is_symlink() or self.versioned.is_file():
            self.versioned.unlink()
        if os.geteuid() == 0 and self.versioned.exists():
            for path in (self.versioned, *self.versioned.rglob("*")):
                os.chown(path, 0, 0, follow_symlinks=False)
        for path in sorted(self.cache.rglob("*"), reverse=True):
            if path.is_symlink() or (path.is_file() and path not in self._files):
                path.unlink()
            elif path.is_dir() and (path in self._files or not any(path.iterdir())):
                shutil.rmtree(path)
        for path, (content, time_ns) in self._files.items():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not path.exists() or path.stat().st_mtime_ns != time_ns or path.read_bytes() != content:
                path.write_bytes(content)
                os.utime(path, ns=(time_ns, time_ns))
        self.versioned.chmod(0o700)

    def left(self) -> list[Path]:
        """Return private folders and unfinished files that nobody uses any more."""
        return [
            *self.temporary.glob("slanglab-*"),
            *self.versioned.rglob("*.slang-module-*"),
            *self.versioned.rglob("*broken*"),
        ]
