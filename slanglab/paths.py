"""Where SlangLab keeps files: caches, settings and its own shaders."""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["cache", "config", "shaders"]


def _user_folder(variable: str, xdg: str, fallback: str) -> Path:
    """Return the user's folder for one kind of file; `variable` overrides it (tests and shared machines need that)."""
    if value := os.environ.get(variable):
        return Path(value).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "slanglab" / fallback
    if sys.platform == "darwin":
        return (
            Path.home()
            / "Library"
            / ("Caches" if fallback == "cache" else "Application Support")
            / "slanglab"
        )
    base = os.environ.get(xdg)
    return (Path(base) if base else Path.home() / f".{fallback}") / "slanglab"


def cache() -> Path:
    """Return the folder of what can be made again: module and shader caches, unpacked drivers."""
    return _user_folder("SLANGLAB_CACHE", "XDG_CACHE_HOME", "cache")


def config() -> Path:
    """Return the folder of what the user chose (`%slang config`)."""
    return _user_folder("SLANGLAB_CONFIG", "XDG_CONFIG_HOME", "config")


def shaders() -> Path:
    """Return the folder of the Slang kernels that SlangLab itself runs.

    They are inside the package in a wheel and beside it in the repository.
    """
    package = Path(__file__).parent
    inside = package / "shaders"
    return inside if inside.is_dir() else package.parent / "shaders"
