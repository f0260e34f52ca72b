"""A run in a terminal: one line that is written again and again."""

from __future__ import annotations

from typing import TextIO

from slanglab import look
from slanglab.training.run import Recorder

__all__ = ["TextLine"]


class TextLine:
    """Shows a run as a line of text.

    Parameters
    ----------
    stream : TextIO
        A terminal.
    """

    watched = True
    spacing = 0.0

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._width = 0

    def begin(self, run: Recorder) -> None:
        """Do nothing: the first line comes with the first step."""

    def frame(self, run: Recorder) -> None:
        """Write the line."""
        left = run.left()
        parts = [f"{run.name or 'step'} {run.done}/{run.total}", f"loss {look.number(run.loss, ascii=True)}"]
        parts.append(f"{run.speed():.4g} steps/s")
        if left is not None and run.phase != "ended":
            parts.append(f"{look.time(left, ascii=True)} left")
        said = "  ".join(parts)
        self._stream.write("\r" + said.ljust(self._width))
        self._stream.flush()
        self._width = len(said)

    def state(self, run: Recorder) -> None:
        """Do nothing: nobody steers from here."""

    def poll(self) -> None:
        """Do nothing."""

    def finish(self, run: Recorder) -> None:
        """Write how it ended, and leave the line."""
        self.frame(run)
        self._stream.write(f"  {run.stopped}\n")
        if run.trouble is not None:
            self._stream.write(f"{run.trouble}\n")
        self._stream.flush()
