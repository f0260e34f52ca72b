"""One device takes the place of another: when that is so, what is said about it, and how the old one is let go."""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import slangpy as spy

from slanglab import waiting
from slanglab.errors import DeviceGoneError
from slanglab.waiting.watch import State, Watched

__all__ = ["Succession", "count_tensors", "listed"]

_MOMENT = 1.0
"""Seconds that a device which is to be closed may take to end its work."""

_NAMED = 12
"""Tensors at most that a message names."""


class Succession:
    """The state of the lab's device, as its owner (`slanglab.waiting.Owner`).

    Parameters
    ----------
    suspend : callable
        Make every function of the cells ask the lab at its next call.
    replace : callable
        Open a device in the place of the one that is gone, and compile the cells; returns it in words, and the cells that do not compile.

    Attributes
    ----------
    names : callable or None
        Returns the names that the user has for the tensors of a device; a notebook sets it.
    say : callable
        Shows a message.
    holders : list of callable
        Each lets go of what it holds of devices that are to be closed, and returns what is to be done once another is open, or None.
    """

    def __init__(self, suspend: Callable[[], None], replace: Callable[[], tuple[str, Sequence[str]]]) -> None:
        self._suspend = suspend
        self._replace = replace
        self._watched: Watched | None = None
        self._lock = threading.RLock()
        self.names: Callable[[spy.Device], list[str]] | None = None
        self.say: Callable[[str], None] = _to_stderr
        self.holders: list[Callable[[Sequence[spy.Device]], Callable[[], None] | None]] = []
        self._after: list[Callable[[], None]] = []

    def adopt(self, device: spy.Device | None) -> None:
        """Follow the state of this device from now on."""
        self._watched = None
        if device is not None:
            self._watched = waiting.of(device)
            self._watched.owner = self

    def suspended(self) -> None:
        """Note that a wait was interrupted, or that the device is gone."""
        self._suspend()

    @property
    def settled(self) -> bool:
        """Whether the device can be used without asking; true where there is none."""
        return self._watched is None or self._watched.settled

    def settle(self) -> None:
        """Wait for a device that a wait was interrupted for; replace one that is gone."""
        with self._lock:
            watched = self._watched
            if watched is None or watched.settled:
                return
            if watched.state is State.OPEN:
                with contextlib.suppress(DeviceGoneError):
                    waiting.wait(watched.device)
            self.replace_if_gone()

    def replace_if_gone(self) -> None:
        """Replace a device that is lost or was given up, and say what is gone with it."""
        with self._lock:
            watched = self._watched
            # One that the user closed is left to `%slang reset`.
            if watched is None or watched.state not in (State.LOST, State.GIVEN_UP):
                return
            story, gone = watched.story, self._gone(watched.device)
            described, failures = self._replace()
            self.say(_message(story, gone, described, failures))

    def let_go(self, devices: Sequence[spy.Device]) -> None:
        """Make everybody let go of what they hold of devices that are to be closed."""
        self._after += [step for holder in self.holders if (step := holder(devices)) is not None]

    def opened(self) -> None:
        """Do what is to be done once another device is open and has the cells."""
        after, self._after = self._after, []
        for step in after:
            step()

    def _gone(self, device: spy.Device) -> str:
        names = self.names(device) if self.names is not None else []
        count = count_tensors(device)
        if not names:
            return f"{count} tensor{'s' if count != 1 else ''}" if count else ""
        return listed(names)

    @staticmethod
    def quiet(device: spy.Device) -> None:
        """Wait a moment for a device that is to be closed, and give it up if that is not enough."""
        watched = waiting.of(device)
        if watched.state is not State.OPEN:
            return
        with contextlib.suppress(DeviceGoneError):
            if not watched.until(watched.mark(), limit=_MOMENT):
                watched.owner = None  # it is being closed: nobody has to ask any more
                watched.give_up()

    @staticmethod
    def close(device: spy.Device) -> None:
        """Close a device that is quiet; leave one that was given up, whose end would block for ever, and a lost one of CUDA's."""
        watched = waiting.of(device)
        state = watched.state
        if state is State.LOST and watched.is_cuda:
            return
        if state is State.LOST:
            with contextlib.suppress(RuntimeError):  # a lost device may fail at this too
                device.close()
        elif state is not State.GIVEN_UP:
            device.close()


def listed(names: Sequence[str]) -> str:
    """Return names as a message has them, and how many more there are."""
    shown = ", ".join(names[:_NAMED])
    return f"{shown} and {len(names) - _NAMED} more" if len(names) > _NAMED else shown


def count_tensors(device: spy.Device) -> int:
    """Return how many tensors of a device Python holds, gradients with them."""
    found: dict[int, Any] = {}
    for holder in gc.get_objects():
        for one in gc.get_referents(holder):
            if type(one) is spy.Tensor:
                found[id(one)] = one
    return sum(t.device is device for t in found.values())


def _message(story: str, gone: str, device: str, failures: Sequence[str]) -> str:
    lost = f"Gone with it: {gone}." if gone else "No tensor was on it."
    text = f"slanglab: {story}. {lost} A new one is open ({device}), and the cells were compiled there."
    if failures:
        text += f" These did not compile: {', '.join(failures)}."
    return text


def _to_stderr(text: str) -> None:
    print(text, file=sys.stderr)
