"""How many bytes the arguments of one of slangpy's kernels take, where they travel as push constants.

slangpy guesses that from their elements. Its tensors are larger, those that are reached by their address above all, and what does not fit
then is compiled a second time, after an error on the console.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

__all__ = ["PUSHED", "pushed"]

PUSHED = 256
"""Bytes of push constants that GPUs and software renderers take, as a rule; where they take fewer, slangpy finds out."""

_ADDRESS, _INDEX = 8, 4
_HEAD = 12 + 4
"""For the number of threads, and what aligns what follows."""


def pushed(nodes: Iterable[Any], axes: int, addresses: bool) -> int:
    """Return the size of a kernel's arguments.

    Parameters
    ----------
    nodes : iterable of slangpy.bindings.BoundVariable
        The arguments.
    axes : int
        Of the call.
    addresses : bool
        Whether tensors with gradients are reached by their address.

    Returns
    -------
    int
        Bytes; what is no tensor counts as slangpy counts it.
    """
    return _HEAD + 3 * _INDEX * max(axes, 1) + sum(_size(node, addresses) for node in nodes)


def _size(node: Any, addresses: bool) -> int:
    if node.children:
        return sum(_size(child, addresses) for child in node.children.values())
    dims = getattr(node.python, "dims", None)
    if not isinstance(dims, int):
        return int(node.vector_type.uniform_layout.size) if node.vector_type is not None else 0
    own = (2 * dims + 1) * _INDEX  # shape, strides, offset
    graded = any(getattr(node.python, name, None) is not None for name in ("d_in", "d_out"))
    # The tensor and its gradient, each begins where an address may.
    return 2 * _ADDRESS * math.ceil((_ADDRESS + own) / _ADDRESS) if addresses and graded else own
