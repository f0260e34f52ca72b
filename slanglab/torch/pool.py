"""Tensors of earlier calls, kept for later ones: allocating takes longer than a small call."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

import slangpy as spy

__all__ = ["USAGE", "Pool"]

USAGE = (
    spy.BufferUsage.unordered_access
    | spy.BufferUsage.shader_resource
    | spy.BufferUsage.copy_source
    | spy.BufferUsage.copy_destination
)
"""slangpy's own for tensors, and what it takes to copy one in mapped memory: without that such a copy does nothing, and says nothing."""


class Pool:
    """Tensors that nothing uses, by what they are; those of a kind that was not given back for longest go first.

    Parameters
    ----------
    most : int
        Bytes that are kept at most.
    dropped : callable, optional
        Is called with a tensor that goes for good.
    """

    def __init__(self, most: int, dropped: Callable[[Any], object] = lambda tensor: None) -> None:
        self._most = most
        self._dropped = dropped
        self._free: OrderedDict[Hashable, list[Any]] = OrderedDict()
        self._kept = 0

    def take(self, key: Hashable) -> Any:
        """Return a tensor of a kind, or None."""
        found = self._free.get(key)
        if not found:
            return None
        kept = found.pop()
        self._kept -= kept.storage.size
        if not found:
            del self._free[key]
        return kept

    def give(self, key: Hashable, tensor: Any) -> None:
        """Keep a tensor of a kind."""
        self._free.setdefault(key, []).append(tensor)
        self._free.move_to_end(key)
        self._kept += tensor.storage.size

    def clear(self) -> None:
        """Let go of all."""
        self._free.clear()
        self._kept = 0

    def trim(self) -> None:
        """Let go of what is too much."""
        while self._kept > self._most:
            key, oldest = next(iter(self._free.items()))
            gone = oldest.pop(0)
            self._kept -= gone.storage.size
            self._dropped(gone)
            if not oldest:
                del self._free[key]
