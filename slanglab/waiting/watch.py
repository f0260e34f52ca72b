"""What is known of each device, and the one loop that waits for one.

`wait` makes a mark behind everything that was submitted, which fails when the device is lost, and asks for it until the device has come
there. It costs some 5 µs where it is needed, and calls pay nothing for it.
"""

from __future__ import annotations

import enum
import os
import time
import weakref
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any, ParamSpec, Protocol, TypeVar

import slangpy as spy

from slanglab import progress
from slanglab.errors import DeviceGoneError, Interrupted
from slanglab.machine import contexts, cuda
from slanglab.waiting import leaving, marks
from slanglab.waiting.marks import Mark

__all__ = [
    "PATIENCE",
    "Owner",
    "State",
    "WaitInterrupted",
    "Watched",
    "before_copy",
    "check",
    "describe_work",
    "explain_loss",
    "gone",
    "is_idle",
    "is_loss",
    "of",
    "probe",
    "told",
    "until_idle",
    "wait",
    "wait_for",
]

P = ParamSpec("P")
R = TypeVar("R")

PATIENCE = 30.0
"""Seconds that a kernel may run after which a wait gives up on it, if the user has interrupted one for it before."""

_LEAST = 5.0  # seconds that such a wait takes at least: the kernel may have been at its end
_SPIN = 60e-6  # seconds of asking without a pause; a small kernel is done by then, and a pause takes as long at least
_FIRST, _LONGEST = 20e-6, 5e-3  # seconds of the pauses between two questions
_LOOK = 1.0  # seconds between two looks whether the device is still there
_LOST = "DEVICE_LOST"
_yield: Callable[[], None] = getattr(os, "sched_yield", lambda: time.sleep(0))


class State(enum.Enum):
    """What has become of a device."""

    OPEN = "open"
    LOST = "lost"
    GIVEN_UP = "given up"
    CLOSED = "closed"
    FORKED = "forked"


class WaitInterrupted(Interrupted):
    """The user interrupted a wait; the kernel goes on running."""


class Owner(Protocol):
    """Who opened a device and can open another in its place: the lab."""

    def suspended(self) -> None:
        """Make every use of the device ask first, since a wait for it was interrupted or it is gone."""


_work: Callable[[], str] = lambda: ""  # noqa: E731


def describe_work(describe: Callable[[], str]) -> None:
    """Say what tells the name of the function that was called last."""
    global _work
    _work = describe


def _running() -> str:
    return _work() or "a kernel"


class Watched:
    """One device and its state.

    Attributes
    ----------
    state : State
    owner : Owner or None
        None for a device that the user opened.
    since : float or None
        When a wait first found it at work and has not found it idle since, on perf_counter's clock.
    interrupted : int
        Waits interrupted since it was idle last.
    what : str
        The work that it was given up for.
    staging : dict of int to list
        Buffers to read through, by size; see `slanglab.waiting.reads`.
    """

    def __init__(self, device: spy.Device) -> None:
        self._device = weakref.ref(device)
        self.state = State.FORKED if _forked else State.OPEN
        self.owner: Owner | None = None
        self.since: float | None = None
        self.interrupted = 0
        self.what = ""
        self.staging: dict[int, list[Any]] = {}
        self._room: list[Any] = []
        self._seconds = 0.0

    @property
    def device(self) -> spy.Device:
        """The device, which somebody else holds."""
        device = self._device()
        assert device is not None
        return device

    def is_of(self, device: Any) -> bool:
        """Tell whether this is about `device`, and not about one that had its address before."""
        return self._device() is device

    @property
    def settled(self) -> bool:
        """Whether the device can be used without asking first."""
        return self.state is State.OPEN and not self.interrupted

    # ----- waiting -----

    def mark(self, submit: int | None = None) -> Mark:
        """Return a mark that is reached when all that was submitted is done.

        Parameters
        ----------
        submit : int, optional
            The last submit, which spares one of its own.

        Raises
        ------
        DeviceGoneError
            When the device is lost, or was before.
        """
        if self.state is not State.OPEN:
            raise self.error()
        try:
            return marks.mark(self.device, submit)
        except RuntimeError as error:
            if not is_loss(error):
                raise
            self.lose()
            raise self.error() from error

    def until(self, mark: Mark, *, forever: bool = False, limit: float | None = None) -> bool:
        """Wait for a mark; see `wait`. With a limit, tell whether it was reached within so many seconds."""
        device = self.device
        try:
            if marks.is_reached(device, mark):
                self._idle()
                return True
            end = perf_counter() + _SPIN
            while perf_counter() < end:
                _yield()  # the driver may need this core
                if marks.is_reached(device, mark):
                    self._idle()
                    return True
            return self._poll(partial(marks.is_reached, device, mark), forever, limit)
        except KeyboardInterrupt:
            raise self._interrupt() from None
        except RuntimeError as error:
            if not is_loss(error):
                raise
            self.lose()
            raise self.error() from error

    def _poll(self, reached: Callable[[], bool], forever: bool, limit: float | None) -> bool:
        began = now = perf_counter()
        if self.since is None:
            self.since = began
        patient = forever or not self.interrupted or self.owner is None
        give_up = None if patient else max(self.since + PATIENCE, began + _LEAST)
        look, pause = began + _LOOK, _FIRST
        with progress.work(f"waiting for {_running()}") as work:
            while not reached():
                if self.state is not State.OPEN:  # another thread saw to that
                    raise self.error()
                if limit is not None and now - began >= limit:
                    return False
                if give_up is not None and now >= give_up:
                    self.give_up()
                    raise self.error()
                if now >= look:  # a lost device may never be done
                    self.mark()
                    look = now + _LOOK
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST)
                work.tick()
                now = perf_counter()
        self._idle()
        return True

    def _idle(self) -> None:
        self.since = None
        self.interrupted = 0
        if self._room:
            self._room.clear()

    def _interrupt(self) -> WaitInterrupted:
        if self.since is None:
            self.since = perf_counter()
        again = self.interrupted > 0
        self.interrupted += 1
        if self.owner is not None:
            self.owner.suspended()
        seconds = perf_counter() - self.since
        text = f"{_running()} is {'still ' if again else ''}running on the device, for {seconds:.0f} s now; Python goes on.\n"
        if self.owner is None:
            return WaitInterrupted(f"{text}  What is read from the device next waits for it.")
        left = max(PATIENCE - seconds, _LEAST)
        return WaitInterrupted(
            f"{text}  What uses the device next waits for it, {left:.0f} s at most, and then goes on with a new device, "
            "without the tensors; `slanglab.sync()` waits as long as it takes, `%slang reset` gives up on it at once."
        )

    # ----- ends -----

    def lose(self) -> None:
        """Note that the device is lost.

        A failed context of CUDA's answers everything with the same error, also that something of it is freed, and slangpy ends the
        process then: all of it stays.
        """
        if self.state is State.OPEN and self.is_cuda:
            leaving.keep_for_ever()
        self._end(State.LOST)

    @property
    def is_cuda(self) -> bool:
        """Whether the device, if it still exists, computes in a context of CUDA's."""
        device = self._device()
        return device is not None and bool(device.info.type == spy.DeviceType.cuda)

    def give_up(self) -> None:
        """Leave the device to its endless work, with everything of it that exists: freeing any of it would block for ever."""
        if self.state is State.OPEN:
            self._seconds = perf_counter() - self.since if self.since is not None else 0.0
            leaving.keep_for_ever()
            self._end(State.GIVEN_UP)

    def closed(self) -> None:
        """Note that the device is closed."""
        self._end(State.CLOSED)

    def _end(self, state: State) -> None:
        if self.state is not State.OPEN:
            return
        self.what = _work()
        self.state = state
        if state is not State.CLOSED and self.is_cuda:
            cuda.abandon()
        self.staging.clear()
        self._room.clear()
        if self.owner is not None and state is not State.CLOSED:
            self.owner.suspended()

    @property
    def story(self) -> str:
        """What became of the device, in a sentence without its end."""
        if self.state is State.LOST:
            return "the device was lost" + (f" (the last call was {self.what})" if self.what else "")
        if self.state is State.GIVEN_UP:
            seconds = f" after {self._seconds:.0f} s" if self._seconds >= 1 else ""
            return f"the device was given up, as {self.what or 'a kernel'} did not end{seconds}"
        return "the device was closed"

    def error(self) -> DeviceGoneError:
        """Return the error for whatever is on this device."""
        if self.state is State.FORKED:
            return DeviceGoneError(
                "this process was forked, and a device cannot be used on both sides of a fork",
                hint="start the worker with multiprocessing's 'spawn' method: `multiprocessing.get_context('spawn')`",
            )
        if self.state is State.CLOSED:
            hint = "make the tensor again; `%slang reset` closes the device, and tensors made before are gone"
        else:
            hint = "a new device takes its place at the next use, with every cell; make the tensors again"
        return DeviceGoneError(f"{self.story}, and with it every tensor on it", hint=hint)

    # ----- letting go -----

    def keep(self, *things: Any) -> None:
        """Hold things until the device is idle."""
        self._room.extend(things)


_devices: dict[int, Watched] = {}
# By the device's id, as a mapping that held the device would never let go of it; one that is gone is replaced when its id comes again.


def _open_devices() -> list[spy.Device]:
    found = [w._device() for w in _devices.values() if w.state in (State.OPEN, State.FORKED)]
    return [d for d in found if d is not None]


leaving.devices_from(_open_devices)
_forked = False


def _after_fork() -> None:
    """Refuse every device of the parent in a forked child: a wait for one would never end."""
    global _forked
    _forked = True
    for watched in _devices.values():
        watched.state, watched.owner = State.FORKED, None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def of(device: Any) -> Watched:
    """Return what is known of a device."""
    known = _devices.get(id(device))
    if known is None or not known.is_of(device):
        for key in [k for k, w in _devices.items() if w._device() is None]:
            del _devices[key]
        known = _devices[id(device)] = Watched(device)
        if known.state is not State.OPEN:
            return known
        ours = weakref.ref(known)

        def closing(_: Any) -> None:
            if (watched := ours()) is not None:
                watched.closed()

        device.register_device_close_callback(closing)
    return known


def check(device: Any) -> None:
    """Raise `DeviceGoneError` for a device that cannot be used any more."""
    watched = of(device)
    if watched.state is not State.OPEN:
        raise watched.error()


def probe(device: Any) -> None:
    """Make sure that the device is there, after native code read from it: what that brings of a lost one is anything.

    Raises
    ------
    DeviceGoneError
    """
    of(device).mark()


def gone(device: Any) -> str | None:
    """Return what became of a device that cannot be used any more, in words; None for one that can."""
    watched = of(device)
    return None if watched.state is State.OPEN else watched.story


def is_loss(error: BaseException) -> bool:
    """Tell whether an error, or one behind it, says that the device is lost or that it is gone."""
    return any(isinstance(e, DeviceGoneError) or _LOST in str(e) for e in _chain(error))


def _chain(error: BaseException) -> list[BaseException]:
    """Return an error and those behind it: slangpy makes other errors of what its code generation runs into."""
    found: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and one not in found:
        found.append(one)
        one = one.__cause__ or one.__context__
    return found


def explain_loss(error: BaseException) -> DeviceGoneError | None:
    """Return what to raise for an error that says that a device is lost, which is then known; None for any other error."""
    if not is_loss(error):
        return None
    gone = next((e for e in _chain(error) if isinstance(e, DeviceGoneError)), None)
    for watched in list(_devices.values()):
        if watched.state is State.OPEN and watched._device() is not None:
            try:
                watched.mark()
            except DeviceGoneError as found:
                gone = found
    return gone


def told(call: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Call something of slangpy's; where it fails because the device is lost, say that.

    Raises
    ------
    DeviceGoneError
    """
    contexts.entered()
    try:
        return call(*args, **kwargs)
    except RuntimeError as error:
        gone = explain_loss(error)
        if gone is None:
            raise
        raise gone from error


def wait(device: spy.Device, *, forever: bool = False) -> None:
    """Wait until the device has done all that was submitted; Interrupt ends the wait, not the work.

    A wait that follows an interrupted one gives up on a device of the lab when its work has taken `PATIENCE`.

    Parameters
    ----------
    device : slangpy.Device
    forever : bool
        Wait as long as it takes.

    Raises
    ------
    DeviceGoneError
        When the device is lost, given up or closed.
    WaitInterrupted
        A KeyboardInterrupt that says what is still running.
    """
    watched = of(device)
    watched.until(watched.mark(), forever=forever)


def before_copy(device: spy.Device) -> None:
    """Wait, where a copy from or to the host would, but without a way to interrupt it."""
    if marks.copies_block(device):
        wait(device)


def wait_for(device: spy.Device, submit: int) -> None:
    """Wait until one submit is done; see `wait`."""
    watched = of(device)
    watched.until(watched.mark(submit))


def is_idle(device: spy.Device, within: float = 0.0) -> bool:
    """Tell whether the device has nothing to do, or will have within so many seconds."""
    watched = of(device)
    try:
        return watched.until(watched.mark(), limit=within)
    except DeviceGoneError:
        return False


def until_idle(device: spy.Device, *things: Any) -> None:
    """Hold modules and pipelines that nobody needs any more until the device is idle: freeing one waits for it, with the lock held."""
    watched = of(device)
    if watched.state is not State.OPEN:
        return
    try:
        idle = watched.until(watched.mark(), limit=0.0)
    except DeviceGoneError:
        return
    if not idle:
        watched.keep(*things)
