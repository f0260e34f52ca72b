"""slangpy's methods that block, replaced while SlangLab is loaded by ones that wait so that Interrupt works.

They are those of `Device`, `Buffer`, `Texture`, `Fence` and `QueryPool`; those of `Tensor` are in `slanglab.tensors.mended`.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import slangpy as spy

from slanglab.errors import DeviceGoneError
from slanglab.machine import contexts
from slanglab.waiting import reads
from slanglab.waiting.watch import State, before_copy, check, of, told, wait, wait_for

__all__ = ["install", "installed", "own", "uninstall"]

_READS: tuple[tuple[type, tuple[str, ...]], ...] = (
    (spy.Buffer, ("to_numpy", "to_torch")),
    (spy.Texture, ("to_numpy", "to_bitmap")),
)
_WRITES: tuple[tuple[type, tuple[str, ...]], ...] = (
    (spy.Buffer, ("copy_from_numpy",)),
    (spy.Texture, ("copy_from_numpy",)),
)
_LET_GO = 16  # waits of which one is slangpy's own too
_own_load = spy.BufferCursor.__dict__["load"]
_own: dict[tuple[type, str], Any] = {}
_ours: dict[tuple[type, str], Any] = {}


def _replace(kind: type, name: str, make: Callable[[Any], Callable[..., Any]]) -> None:
    own = kind.__dict__.get(name)
    if own is not None:
        _own[kind, name] = own
        _ours[kind, name] = functools.wraps(own, updated=())(make(own))


def _reading(own: Any) -> Callable[..., Any]:
    def read(self: Any, *args: Any, **kwargs: Any) -> Any:
        return reads.around(self.device, lambda: own(self, *args, **kwargs))

    return read


def _writing(own: Any) -> Callable[..., Any]:
    def write(self: Any, *args: Any, **kwargs: Any) -> Any:
        check(self.device)
        before_copy(self.device)
        return told(own, self, *args, **kwargs)

    return write


def _submitting(own: Any) -> Callable[..., Any]:
    def submit(self: Any, *args: Any, **kwargs: Any) -> Any:
        return told(own, self, *args, **kwargs)

    return submit


def _entering(own: Any) -> Callable[..., Any]:
    def enter(self: Any, *args: Any, **kwargs: Any) -> Any:
        contexts.entered()
        return own(self, *args, **kwargs)

    return enter


def _buffer_to_numpy(_: Any) -> Callable[..., Any]:
    def read(self: Any) -> Any:
        return reads.whole(self)

    return read


def _cursor(own: Any) -> Callable[..., Any]:
    def read(self: Any, *args: Any, **kwargs: Any) -> Any:
        resource = self.resource
        if resource is None or self.is_loaded:
            return own(self, *args, **kwargs)
        reads.around(resource.device, lambda: _own_load(self))  # else the element reads, whenever it is asked
        return own(self, *args, **kwargs)

    return read


def _waiting(own: Any) -> Callable[..., Any]:
    def waits(self: Any, *args: Any, **kwargs: Any) -> Any:
        wait(self)
        return told(own, self, *args, **kwargs)

    return waits


def _idling(own: Any) -> Callable[..., Any]:
    waits = 0

    def idle(self: Any, *queue: Any, **named: Any) -> None:
        nonlocal waits
        wait(self)
        # When the device is idle, slangpy's own wait takes twice as long as ours did, to find that out by a fence and to let go of what
        # finished work held. The next submit lets go of that too; now and then is enough.
        waits += 1
        if waits % _LET_GO == 0 or queue or named:
            told(own, self, *queue, **named)

    return idle


def _wait_for_submit(_: Any) -> Callable[..., Any]:
    def waits(self: Any, id: int) -> None:
        wait_for(self, id)

    return waits


def _closing(own: Any) -> Callable[..., Any]:
    def close(self: Any) -> None:
        state = of(self).state
        if state in (State.GIVEN_UP, State.FORKED):
            return  # closing it would block for ever
        if state is State.OPEN:
            with contextlib.suppress(DeviceGoneError):
                wait(self)
        own(self)

    return close


for _kind, _names in _READS:
    for _name in _names:
        _replace(_kind, _name, _buffer_to_numpy if (_kind, _name) == (spy.Buffer, "to_numpy") else _reading)
for _kind, _names in _WRITES:
    for _name in _names:
        _replace(_kind, _name, _writing)
_replace(spy.Device, "create_command_encoder", _entering)
# Making a pipeline blocks in some drivers while a kernel runs. Those of a deferred kind are made at the dispatch that follows.
for _name in ("create_compute_pipeline", "create_compute_kernel", "create_ray_tracing_pipeline"):
    _replace(spy.Device, _name, _waiting)
for _name in ("load", "to_numpy", "find_element", "__getitem__"):
    _replace(spy.BufferCursor, _name, _cursor)
for _name in ("wait", "wait_for_idle"):
    _replace(spy.Device, _name, _idling)
for _name in ("flush_print", "flush_print_to_string"):
    _replace(spy.Device, _name, _waiting)
for _kind, _name in (
    (spy.ComputeKernel, "dispatch"),
    (spy.Device, "submit_command_buffer"),
    (spy.Device, "submit_command_buffers"),
    (spy.Device, "create_buffer"),  # with data it submits
    (spy.Device, "create_texture"),
):
    _replace(_kind, _name, _submitting)
_replace(spy.Device, "wait_for_submit", _wait_for_submit)
_replace(spy.Device, "close", _closing)


def own(kind: type, name: str) -> Any:
    """Return slangpy's own method, whatever stands in its place."""
    return _own[kind, name]


def installed() -> bool:
    """Tell whether the methods that wait are in place."""
    return spy.Device.__dict__["wait"] is _ours[spy.Device, "wait"]


def install() -> None:
    """Put the methods that wait in place; a second time changes nothing."""
    for (kind, name), method in _ours.items():
        setattr(kind, name, method)


def uninstall() -> None:
    """Put slangpy's own methods back."""
    for (kind, name), method in _own.items():
        setattr(kind, name, method)
