"""What the notebook and the guard's worker say to each other: JSON objects, each behind its length.

JSON carries text and numbers and runs nothing, so that neither side can be made to run code by the other's bytes.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["LARGEST_ANSWER", "LARGEST_REQUEST", "VERSION", "FrameError", "pack", "read"]

VERSION = 1

LARGEST_REQUEST = 64 << 20
"""Bytes of a message to the worker: the text of a module."""

LARGEST_ANSWER = 1 << 20
"""Bytes of a message from the worker."""

_LENGTH = struct.Struct("<I")


class FrameError(Exception):
    """Bytes that are no message."""


def pack(message: Mapping[str, Any]) -> bytes:
    """Return a message as bytes."""
    data = json.dumps(message, separators=(",", ":")).encode()
    return _LENGTH.pack(len(data)) + data


def read(take: Callable[[int], bytes], largest: int) -> dict[str, Any] | None:
    """Read a message.

    Parameters
    ----------
    take : callable
        Returns as many bytes as it is asked for; fewer at the end.
    largest : int
        Bytes that a message may have.

    Returns
    -------
    dict or None
        None at the end, between two messages.

    Raises
    ------
    FrameError
        For a message that is cut off, too large, or no JSON object.
    """
    head = take(_LENGTH.size)
    if not head:
        return None
    if len(head) < _LENGTH.size:
        raise FrameError("a message is cut off")
    (length,) = _LENGTH.unpack(head)
    if length > largest:
        raise FrameError(f"a message says that it has {length} bytes")
    data = take(length)
    if len(data) < length:
        raise FrameError("a message is cut off")
    try:
        message = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FrameError(f"a message is not JSON: {error}") from None
    if not isinstance(message, dict):
        raise FrameError("a message is no JSON object")
    return message
