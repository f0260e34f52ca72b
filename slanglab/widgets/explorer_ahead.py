"""The setting that comes next, run before it is asked for.

A knob that goes up one step, by a key or a slow hand, goes on to the next one. While the reader looks at a picture the kernel has nothing
to do, so it runs the step that would follow and sends the frame: where the guess is right, the browser has the picture before
its request is on its way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from slanglab.errors import SlangLabError
from slanglab.exploring.exploration import Exploration, Looked
from slanglab.widgets import explorer_frames

__all__ = ["Ahead"]

_LONGEST = 0.05
"""Seconds: where one setting takes longer, the next request would wait for a guess that may be wrong."""


class Ahead:
    """What is known of one setting that nobody has asked for yet."""

    def __init__(self) -> None:
        self._settings: object = None
        self._looked: Looked | None = None

    def taken(self, explored: Exploration) -> Looked | None:
        """Return what was found for the setting as it is now, and forget it; None where that is another one."""
        looked, settings = self._looked, self._settings
        self._looked = self._settings = None
        return looked if looked is not None and settings == explored.settings else None

    def look(
        self, explored: Exploration, values: Mapping[str, Any], seconds: float
    ) -> tuple[dict[str, Any], dict[str, NDArray[Any]]] | None:
        """Run at other values of knobs, and put the knobs back.

        Parameters
        ----------
        explored : Exploration
        values : mapping of str to float
            By path; what is no knob, or cannot be taken, is no guess.
        seconds : float
            How long the last setting took.

        Returns
        -------
        (dict, dict of str to ndarray) or None
            The frame of that setting; None where none was made.
        """
        self._looked = None
        if seconds > _LONGEST or explored.prints or not set(values) <= set(explored.knobs):
            return None
        before = {path: knob.value for path, knob in explored.knobs.items()}
        try:
            for path, value in values.items():
                explored.set(path, value)
            settings, looked = explored.settings, explored.look()
            frame = explorer_frames.frame(explored, looked, None)
        except (SlangLabError, TypeError, ValueError):
            return None  # it will be said when the setting is asked for
        finally:
            for path, value in before.items():
                explored.knobs[path].value = value
        self._settings, self._looked = settings, looked
        return frame
