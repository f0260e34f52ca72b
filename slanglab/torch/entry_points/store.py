"""Where sources, texts and binaries of `--torch` cells lie: a folder for each content, which later sessions find again.

slangtorch keeps what it built beside the source, and knows it by the times of files. Here a source is written once into a folder named
by its content, by what it imports and by the versions of all that takes part, and is never changed; so the times say the same.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slanglab import paths
from slanglab.caches import folders
from slanglab.private import PrivateFolder

__all__ = ["Entry", "entry"]

_FORMAT = 1
_MOST = 100
"""Contents that are kept; those used longest ago go first."""


class Entry:
    """The folder of one content.

    Parameters
    ----------
    path : Path
    main : str
        The file that is compiled; the others are its imports.
    """

    def __init__(self, path: Path, main: str) -> None:
        self.path = path
        self.file = path / main

    def write(self, files: Mapping[str, str]) -> None:
        """Write the sources that are not there yet."""
        self.path.mkdir(mode=0o700, exist_ok=True)
        for name, text in files.items():
            file = self.path / name
            if not file.is_file() or file.read_text(encoding="utf-8") != text:
                _put(file, text)
        os.utime(self.path)

    def texts(self) -> dict[str, Any] | None:
        """Return what Slang made of it before, or None."""
        try:
            found = json.loads((self.path / "texts.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        good = isinstance(found, dict) and all(
            isinstance(found.get(k), str) for k in ("cuda", "host", "messages")
        )
        return found if good else None

    def keep_texts(self, texts: Mapping[str, Any]) -> None:
        """Keep what Slang made of it."""
        _put(self.path / "texts.json", json.dumps(texts))

    @property
    def is_built(self) -> bool:
        """Whether a build ended well."""
        return (self.path / "built").is_file()

    def built(self) -> None:
        """Note that a build ended well."""
        _put(self.path / "built", "")

    def forget_build(self) -> None:
        """Remove a binary that cannot be loaded."""
        for name in ("built", ".slangtorch_cache"):
            folders.remove(self.path / name)


def _put(file: Path, text: str) -> None:
    beside = file.with_name(f"{file.name}.{os.getpid()}")
    beside.write_text(text, encoding="utf-8")
    os.replace(beside, file)


_private: PrivateFolder | None = None


def _base() -> Path:
    """Return the folder of all contents, this process's own where the user's cannot be used."""
    global _private
    wanted = paths.cache() / "torch"
    try:
        folders.make(wanted)
        if not folders.room(wanted):
            raise folders.Unusable("no room")
    except (folders.Unusable, OSError):
        if _private is None:
            _private = PrivateFolder("torch")
            atexit.register(_private.remove)
        return _private.path
    return wanted


def entry(main: str, files: Mapping[str, str], versions: Mapping[str, str]) -> Entry:
    """Return the folder for a content, with its sources in place.

    Parameters
    ----------
    main : str
        The name of the file that is compiled.
    files : mapping of str to str
        All sources, by file name.
    versions : mapping of str to str
        Of what takes part in the build.

    Raises
    ------
    OSError
        When no folder can be written.
    """
    content = json.dumps([_FORMAT, main, sorted(files.items()), sorted(versions.items())])
    base = _base()
    found = Entry(base / hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:32], main)
    found.write(files)
    _sweep(base)
    return found


def _sweep(base: Path) -> None:
    """Remove the contents that were used longest ago, where there are too many."""
    try:
        found = sorted((e for e in os.scandir(base) if e.is_dir()), key=lambda e: e.stat().st_mtime)
    except OSError:
        return
    for old in found[: max(0, len(found) - _MOST)]:
        try:
            folders.remove(Path(old.path))
        except OSError:  # open elsewhere, on Windows
            continue
