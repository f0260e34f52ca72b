"""Run a program of the system and return what it printed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["run", "slanglab_command"]


def slanglab_command(*arguments: str) -> str:
    """Return a command line that runs this environment's `slanglab`, as short as the shell's path allows."""
    beside = Path(sys.executable).with_name("slanglab.exe" if sys.platform == "win32" else "slanglab")
    found = shutil.which("slanglab")
    if found is not None and Path(found) == beside:
        program = "slanglab"
    elif beside.exists():
        program = str(beside)
    else:
        program = f"{sys.executable} -m slanglab.cli"
    return " ".join([program, *arguments])


def run(command: Sequence[str], environ: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Run a program with English messages and no input.

    Parameters
    ----------
    command : sequence of str
        The program and its arguments; no shell reads them.
    environ : mapping, optional
        Additional environment variables.

    Returns
    -------
    code : int
        Exit status; 127 where there is no such program.
    text : str
        Standard output and standard error together.
    """
    try:
        done = subprocess.run(  # noqa: S603  (argument vectors of our own, no shell)
            list(command),
            env={**os.environ, "LC_ALL": "C.UTF-8", **(environ or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
    except FileNotFoundError as error:
        return 127, str(error)
    return done.returncode, done.stdout
