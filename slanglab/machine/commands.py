"""Run a program of the system and return what it printed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence

__all__ = ["run"]


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
