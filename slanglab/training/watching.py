"""What a run tells whoever watches it. Views implement it; a run without one goes on in silence."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from slanglab.training.run import Recorder

__all__ = ["Silent", "Watcher", "provide", "provided"]


class Watcher(Protocol):
    """Shows a run."""

    @property
    def watched(self) -> bool:
        """Whether somebody looks."""
        ...

    @property
    def spacing(self) -> float:
        """Seconds between two frames that it wants at least; a pause and the end are told at once in any case."""
        ...

    def begin(self, run: Recorder) -> None:
        """Show a run that has not begun."""
        ...

    def frame(self, run: Recorder) -> None:
        """Show what is new."""
        ...

    def state(self, run: Recorder) -> None:
        """Show that the run is paused, goes on, or has another learning rate."""
        ...

    def poll(self) -> None:
        """Take what a person asked where messages do not arrive by themselves while a cell runs."""
        ...

    def finish(self, run: Recorder) -> None:
        """Show the end, for good."""
        ...


class Silent:
    """Shows nothing."""

    watched = False
    spacing = 0.0

    def begin(self, run: Recorder) -> None:
        """Do nothing."""

    def frame(self, run: Recorder) -> None:
        """Do nothing."""

    def state(self, run: Recorder) -> None:
        """Do nothing."""

    def poll(self) -> None:
        """Do nothing."""

    def finish(self, run: Recorder) -> None:
        """Do nothing."""


_provider: Callable[[], Watcher] | None = None


def provide(provider: Callable[[], Watcher] | None) -> None:
    """Say who watches the runs of this process; None leaves that to the front end. A process without one has its view elsewhere."""
    global _provider
    _provider = provider


def provided() -> Watcher | None:
    """Return a watcher for a new run, where somebody said who watches."""
    return _provider() if _provider is not None else None
