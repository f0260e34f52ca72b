"""Frames between the notebook and the worker that has the device: a JSON object, then the bytes of arrays.

Nothing in a frame can be executed. Large arrays do not go through the pipe, where the system has memory that both sides can map:
`Segment` is such a memory, made by the notebook and found by the worker under the notebook's process id.
"""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from slanglab.guard import protocol
from slanglab.guard.protocol import FrameError

__all__ = ["SMALL", "FrameError", "Segment", "pack", "parse", "read"]

SMALL = 32 * 1024
"""Bytes of an array from which on it goes through the segment: below, a copy into the pipe is as quick."""

_LARGEST = 64 << 20  # bytes of the JSON of a frame
_MOST = 1 << 40  # bytes of one array
_LEAST = 1 << 20  # bytes of a segment

Bytes = bytes | bytearray | memoryview


def pack(message: dict[str, Any], buffers: Sequence[Bytes]) -> bytes:
    """Return a message and its arrays as bytes."""
    message["in"] = [len(b) for b in buffers]
    head = protocol.pack(message)
    return b"".join((head, *buffers)) if buffers else head


def _sizes(message: dict[str, Any]) -> list[int]:
    sizes = message.get("in")
    if not isinstance(sizes, list) or not all(isinstance(n, int) and 0 <= n < _MOST for n in sizes):
        raise FrameError("a frame does not say how large its arrays are")
    return sizes


def read(take: Callable[[int], bytes]) -> tuple[dict[str, Any], list[bytearray]] | None:
    """Read a frame by a function that returns as many bytes as it is asked for, fewer at the end; None at the end.

    Raises
    ------
    FrameError
        For bytes that are no frame.
    """
    message = protocol.read(take, _LARGEST)
    if message is None:
        return None
    buffers = [bytearray(take(n)) for n in _sizes(message)]
    return message, buffers


def parse(data: bytearray) -> tuple[dict[str, Any], list[bytearray], int] | None:
    """Return the first frame in some bytes, with its length; None while it is not whole.

    Raises
    ------
    FrameError
        For bytes that are no frame.
    """
    if len(data) < 4:
        return None
    length = int.from_bytes(data[:4], "little")
    if length > _LARGEST:
        raise FrameError(f"a frame says that it has {length} bytes")
    if len(data) < 4 + length:
        return None
    parts = iter((bytes(data[:4]), bytes(data[4 : 4 + length])))
    message = protocol.read(lambda _: next(parts), _LARGEST)
    assert message is not None
    at = 4 + length
    sizes = _sizes(message)
    if len(data) < at + sum(sizes):
        return None
    buffers = []
    for size in sizes:
        buffers.append(data[at : at + size])
        at += size
    return message, buffers, at


class Segment:
    """Memory that both processes map; on Linux, where it has no name, needs no room on a file system, and goes with its processes.

    Attributes
    ----------
    memory : memoryview
    place : list of int
        The process and the file descriptor under which the other side finds it, and its size.
    """

    def __init__(self, descriptor: int, size: int) -> None:
        self.descriptor = descriptor
        self.size = size
        self.place = [os.getpid(), descriptor, size]
        self.memory = memoryview(mmap.mmap(descriptor, size))

    @classmethod
    def make(cls, size: int) -> Segment | None:
        """Make one of at least `size` bytes; None where the system has none, or no room for it."""
        if sys.platform != "linux" or not hasattr(os, "memfd_create"):
            return None
        size = max(_LEAST, 1 << (size - 1).bit_length())
        descriptor = -1
        try:
            descriptor = os.memfd_create("slanglab", os.MFD_CLOEXEC)
            os.ftruncate(descriptor, size)
            return cls(descriptor, size)
        except (OSError, ValueError):
            if descriptor >= 0:
                os.close(descriptor)
            return None

    @classmethod
    def find(cls, place: Sequence[int]) -> Segment | None:
        """Return the other side's, or None where it cannot be reached."""
        pid, descriptor, size = place
        try:
            own = os.open(f"/proc/{pid}/fd/{descriptor}", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            return cls(own, size)
        except (OSError, ValueError):
            os.close(own)
            return None

    def __del__(self) -> None:
        os.close(self.descriptor)  # what is mapped stays for as long as an array is in it
