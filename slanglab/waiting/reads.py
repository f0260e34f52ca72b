"""Bringing memory of the device back, without native code that blocks.

A small read is a copy into a buffer that the host can see, which is then waited for: one submit, where slangpy's own makes one too but
waits with the interpreter's lock held, and returns zeros when the device is lost. Large reads wait first, read as slangpy does, and
then ask whether the device is still there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import slangpy as spy

from slanglab.waiting.marks import copies_block
from slanglab.waiting.watch import State, Watched, before_copy, explain_loss, of, told

__all__ = ["SMALL", "Later", "around", "small", "whole"]

SMALL = 1 << 16
"""Bytes up to which a read goes through a buffer of ours."""

_SIZES = (1 << 8, 1 << 12, SMALL)
_KEPT = 4  # buffers of each size
_own_to_numpy = spy.Buffer.__dict__["to_numpy"]

T = TypeVar("T")


def small(buffer: spy.Buffer, offset: int, size: int) -> np.ndarray[Any, Any] | None:
    """Return `size` bytes of a buffer from `offset` on, or None where that takes another way.

    Raises
    ------
    DeviceGoneError, WaitInterrupted
    """
    if not 0 < size <= SMALL or (size | offset) & 3:
        return None
    device = buffer.device
    if size == buffer.size and copies_block(device):
        return None  # there slangpy's own copy is as quick as one that is made on the way to ours
    watched = of(device)
    if watched.state is not State.OPEN:
        raise watched.error()
    before_copy(device)
    room = _SIZES[0] if size <= _SIZES[0] else _SIZES[1] if size <= _SIZES[1] else _SIZES[2]
    free = watched.staging.setdefault(room, [])
    try:
        staging = free.pop()  # a thread at a time has it
    except IndexError:
        staging = _staging(device, room)
        if staging is None:
            return None
    watched.until(watched.mark(told(_copied, buffer, offset, size, staging)))
    found: np.ndarray[Any, Any] = _own_to_numpy(staging)[:size].copy()
    if len(free) < _KEPT:
        free.append(staging)
    return found


def whole(buffer: spy.Buffer) -> np.ndarray[Any, Any]:
    """Return all bytes of a buffer, when what was submitted has been done.

    slangpy's own read of memory that the host sees waits for nothing.

    Raises
    ------
    DeviceGoneError, WaitInterrupted
    """
    local = buffer.desc.memory_type == spy.MemoryType.device_local
    found = small(buffer, 0, buffer.size) if local else None
    return around(buffer.device, lambda: _own_to_numpy(buffer)) if found is None else found


def _copied(buffer: spy.Buffer, offset: int, size: int, staging: spy.Buffer) -> int:
    """Submit a copy; return the submit."""
    device = buffer.device
    encoder = device.create_command_encoder()
    encoder.copy_buffer(staging, 0, buffer, offset, size)
    return int(device.submit_command_buffer(encoder.finish()))


def _staging(device: spy.Device, size: int) -> spy.Buffer | None:
    try:
        return device.create_buffer(
            size=size, memory_type=spy.MemoryType.read_back, usage=spy.BufferUsage.copy_destination
        )
    except RuntimeError as error:
        gone = explain_loss(error)
        if gone is not None:
            raise gone from error
        return None  # a backend without such memory


class Later:
    """Parts of buffers that are copied out behind what an encoder holds: read when they are wanted, without a submit of their own.

    Parameters
    ----------
    device : slangpy.Device
    encoder : slangpy.CommandEncoder
        Submitted here.
    parts : sequence of (slangpy.Buffer, int)
        How many bytes from the start of each, a multiple of four.
    """

    def __init__(self, device: spy.Device, encoder: Any, parts: Sequence[tuple[spy.Buffer, int]]) -> None:
        self._parts = list(parts)
        self._watched = of(device)
        total = sum(size for _, size in self._parts)
        self._staging = _staging(device, total) if total else None
        if self._staging is not None:
            before_copy(device)
            at = 0
            for buffer, size in self._parts:
                encoder.copy_buffer(self._staging, at, buffer, 0, size)
                at += size
        self._mark = self._watched.mark(int(told(device.submit_command_buffer, encoder.finish())))

    def read(self) -> list[np.ndarray[Any, Any]]:
        """Return the bytes of each part; waits if the device has not come so far.

        Raises
        ------
        DeviceGoneError, WaitInterrupted
        """
        if self._staging is None:
            return [whole(buffer)[:size] for buffer, size in self._parts]
        self._watched.until(self._mark)
        found = np.frombuffer(_own_to_numpy(self._staging).tobytes(), np.uint8)
        return np.split(found, np.cumsum([size for _, size in self._parts])[:-1])


def around(device: spy.Device, read: Callable[[], T]) -> T:
    """Wait for the device, read, and make sure that what was read is not that of a lost device.

    Raises
    ------
    DeviceGoneError, WaitInterrupted
    """
    watched: Watched = of(device)
    watched.until(watched.mark())
    found = told(read)
    watched.mark()
    return found
