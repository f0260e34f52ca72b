"""What every pass over a tensor's elements needs: buffers, how the elements are divided among groups, where they lie."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slanglab.device import is_software
from slanglab.errors import ArgumentError
from slanglab.tensors import kernels
from slanglab.tensors.layout import Axes
from slanglab.waiting import reads

__all__ = [
    "COUNT_MOST",
    "brought",
    "flat_in_all",
    "free",
    "lent",
    "merged_together",
    "placed",
    "returned",
    "room",
    "runs",
    "uploaded",
]

_LENT = reads.SMALL // 4  # words of a buffer that is kept
_KEPT = 4

COUNT_MOST = 2**32 - 2**25
"""Elements of one dispatch at most: its counters and indices have 32 bits."""


def uploaded(device: Any, data: NDArray[Any], element: int = 0) -> Any:
    """Return a buffer that holds `data`."""
    size = element or data.dtype.itemsize
    return device.create_buffer(
        element_count=data.nbytes // size, struct_size=size, usage=_usage(), data=np.ascontiguousarray(data)
    )


def room(device: Any, count: int, size: int = 4, *, brought: bool = False) -> Any:
    """Return a buffer whose every element a kernel will write; what it holds before is anything.

    Parameters
    ----------
    device
        Where.
    count, size : int
        Elements, and the bytes of each.
    brought : bool
        Whether it is read once, whole: a software device then writes to where it is read from, which spares a copy by way of a third
        place (that took a third of the time of a picture).
    """
    import slangpy as spy

    near = brought and is_software(device)
    memory = spy.MemoryType.read_back if near else spy.MemoryType.device_local
    return device.create_buffer(element_count=count, struct_size=size, usage=_usage(), memory_type=memory)


def _usage() -> Any:
    import slangpy as spy

    return spy.BufferUsage.unordered_access | spy.BufferUsage.shader_resource | spy.BufferUsage.copy_source


def brought(buffer: Any, kind: Any) -> NDArray[Any]:
    """Bring a buffer to the host, as an array of its own."""
    found: NDArray[Any] = reads.whole(buffer).view(kind)
    return found


def lent(device: Any, words: int) -> Any:
    """Return a buffer of that many words or more, kept from an earlier pass if there is one: making one may stop the device."""
    kept = _free(device)
    try:
        return kept.pop() if words <= _LENT else room(device, words)
    except IndexError:
        return room(device, _LENT)


def returned(buffer: Any, words: int) -> NDArray[np.uint32]:
    """Bring the first words of a lent buffer to the host, and keep it for a later pass; after an error it is let go."""
    few = reads.small(buffer, 0, 4 * words)
    found = brought(buffer, np.uint32)[:words] if few is None else few.view(np.uint32)
    free(buffer, words)
    return found


def free(buffer: Any, words: int) -> None:
    """Keep a lent buffer, of which that many words were asked for, for a later pass."""
    kept = _free(buffer.device)
    if words <= _LENT and len(kept) < _KEPT:
        kept.append(buffer)


def _free(device: Any) -> list[Any]:
    kept: list[Any] = kernels.kept(device, ("lent buffers",), list)
    return kept


def runs(device: Any, count: int, group: int = 0, block: int = 8, most: int = 1024) -> tuple[int, int, int]:
    """Return (groups, threads of a group, elements of a group's run) for a pass over `count` elements.

    Parameters
    ----------
    device, count
        Where, and how many.
    group, block : int
        Threads of a group (0: as is best in general) and elements that a thread takes at a time.
    most : int
        Groups at most.
    """
    if count > COUNT_MOST:
        raise ArgumentError(
            f"{count} elements are more than one summary reaches ({COUNT_MOST}).", hint="look at a slice"
        )
    group = group or kernels.group_size(device)
    tile = group * block
    groups = min(math.ceil(count / tile), 256 if is_software(device) else most)
    run = math.ceil(count / groups / tile) * tile
    return math.ceil(count / run), group, run


def flat_in_all(*every: Axes) -> int:
    """Return 1 if the elements of each lie at one stride, else 0."""
    return int(all(len(axes.shape) <= 1 for axes in every))


def placed(device: Any, axes: Axes, flat: int) -> dict[str, Any]:
    """Return the value of the kernels' `Layout`."""
    if flat:
        return {"base": axes.base, "stride": axes.strides[0] if axes.strides else 0}
    pairs = np.array([axes.shape, axes.strides], np.uint32).T if axes.shape else np.array([[1, 0]], np.uint32)
    return {"base": axes.base, "rank": len(pairs), "axes": uploaded(device, pairs, 8)}


def merged_together(a: Axes, b: Axes) -> tuple[Axes, Axes]:
    """Merge the axes of two views of one shape as far as both allow."""
    both, one = a.merged(), b.merged()
    if both.shape == one.shape:
        return both, one
    keep = [n != 1 for n in a.shape]

    def slim(axes: Axes) -> Axes:
        return Axes(
            tuple(n for n, k in zip(axes.shape, keep, strict=True) if k),
            tuple(s for s, k in zip(axes.strides, keep, strict=True) if k),
            axes.base,
        )

    return slim(a), slim(b)
