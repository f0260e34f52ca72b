"""What the user chose with `%slang config`, kept between sessions as JSON."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from slanglab import paths
from slanglab.errors import SlangLabError

__all__ = ["KEYS", "Key", "Settings", "SettingsError"]

_LARGEST_FILE = 64 * 1024  # bytes; ours has a handful of lines


class SettingsError(SlangLabError):
    """A setting that does not exist, or a value that it does not take."""


@dataclass(frozen=True)
class Key:
    """One setting: its default, what it means, and how its text is read."""

    default: str
    doc: str
    check: Callable[[str], str]
    """Return the value to keep, or raise ValueError with what is allowed."""


def _one_of(*allowed: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"one of {', '.join(allowed)}")
        return text

    return check


def _folders(text: str) -> str:
    """Accept a list of folders, separated as in PATH; keep them absolute."""
    folders = [Path(part).expanduser() for part in text.split(os.pathsep) if part]
    missing = [str(f) for f in folders if not f.is_dir()]
    if missing:
        raise ValueError(f"folders that exist; {', '.join(missing)} does not")
    return os.pathsep.join(str(f.resolve()) for f in folders)


KEYS: dict[str, Key] = {
    "device": Key(
        "auto",
        "the device that a new session opens: auto, vulkan, cuda, d3d12 or metal",
        _one_of("auto", "vulkan", "cuda", "d3d12", "metal"),
    ),
    "report": Key(
        "full",
        "what a cell says when it compiles: full, short (one line) or off (errors and warnings only)",
        _one_of("full", "short", "off"),
    ),
    "check": Key(
        "first",
        "which backward calls are compared with difference quotients: the first of each kind, always (every one) or off",
        _one_of("first", "always", "off"),
    ),
    "path": Key(
        "auto",
        "which kernels run: auto (the quickest that fits) or slangpy (its own for every call, for comparison)",
        _one_of("auto", "slangpy"),
    ),
    "gradients": Key(
        "accumulate",
        "what a backward call does with gradients that are there: accumulate (add to them) or zero (clear them first)",
        _one_of("accumulate", "zero"),
    ),
    "timing": Key(
        "off",
        "whether each call is timed on the device, for `slanglab.last_run()`: on or off",
        _one_of("on", "off"),
    ),
    "guard": Key(
        "on",
        "whether a worker process compiles every new kernel first, so that a crash of the compiler does not end the notebook: on or off",
        _one_of("on", "off"),
    ),
    "engine": Key(
        "notebook",
        "where a notebook's cells run: notebook (its own process) or worker (a process that a kernel may crash)",
        _one_of("notebook", "worker"),
    ),
    "include": Key(
        "",
        f"folders, separated by {os.pathsep!r}, that cells may import and include from, besides the notebook's own",
        _folders,
    ),
}


class Settings:
    """The settings of one user; read once, written at every change.

    Parameters
    ----------
    file : Path, optional
        Where they are kept; `slanglab.paths.config()/settings.json` unless given.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file or paths.config() / "settings.json"
        self._values: dict[str, str] = {}
        self.problems: list[str] = []
        """What was wrong with the file; those entries are ignored and the defaults hold."""
        self._read()

    def _read(self) -> None:
        try:
            if self._file.stat().st_size > _LARGEST_FILE:
                self.problems.append(f"{self._file} is larger than 64 kB and was not read")
                return
            data = json.loads(self._file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return
        except (OSError, ValueError, RecursionError) as error:
            self.problems.append(f"{self._file} cannot be read: {error}")
            return
        if not isinstance(data, dict):
            self.problems.append(f"{self._file} does not hold a JSON object")
            return
        for name, value in data.items():
            try:
                self._values[name] = self._checked(name, value)
            except SettingsError as error:
                self.problems.append(f"{self._file}: {error.message}")

    @staticmethod
    def _checked(name: str, value: object) -> str:
        key = KEYS.get(name)
        if key is None:
            raise SettingsError(f"there is no setting {name!r}", hint=f"the settings are {', '.join(KEYS)}")
        if not isinstance(value, str):
            raise SettingsError(f"{name} takes text, not {type(value).__name__}")
        try:
            return key.check(value)
        except ValueError as error:
            raise SettingsError(f"{name} cannot be {value!r}", hint=f"{name} takes {error}") from None

    def __getitem__(self, name: str) -> str:
        if name not in KEYS:
            raise SettingsError(f"there is no setting {name!r}", hint=f"the settings are {', '.join(KEYS)}")
        return self._values.get(name, KEYS[name].default)

    def set(self, name: str, value: str) -> None:
        """Change a setting and keep it for later sessions.

        Raises
        ------
        SettingsError
            For an unknown name or value, or when the file cannot be written (the change then holds for this session).
        """
        self._values[name] = self._checked(name, value)
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=self._file.parent, prefix=".settings-")
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                json.dump(self._values, stream, indent=1, sort_keys=True)
            Path(temporary).replace(self._file)  # whole or not at all, also when two notebooks write
        except OSError as error:
            raise SettingsError(
                f"{name} is {value!r} for this session, but could not be kept: {error.strerror or error}"
            ) from None

    def folders(self, name: str) -> list[Path]:
        """Return a setting that holds folders as a list."""
        return [Path(part) for part in self[name].split(os.pathsep) if part]
