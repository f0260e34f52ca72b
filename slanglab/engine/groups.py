"""The shape of a call's groups of threads: by device and call shape, without trial runs.

slangpy runs a call in groups of 32 threads along one axis, of which a graphics processor has too few in flight: on an H200 a forward
call of 2^26 elements takes 2.5 ms so, and 0.28 ms in groups of 256. slangpy rounds each axis of a call up to whole groups, so that a
shape that does not fit multiplies the work: (2^20, 1) in groups of (1024,) is 2^30 threads.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import slangpy as spy
from slangpy.core.function import PipelineType

from slanglab.device import is_software
from slanglab.engine.target import Target
from slanglab.tensors.kernels import kept
from slanglab.text.tokens import scan

__all__ = ["fixed", "group_shape", "group_words", "numbers_threads"]

_WARP = 32
_MOST = 1024
"""Threads of a group, on any backend."""

_FROM_GPU = 2**13
_FROM_SOFTWARE = 2**20
"""Threads of a call below which its groups make no difference, or groups cost more in index arithmetic than they gain."""

# Relative cost of groups of 2^5 … 2^10 threads: measured at 2^26 elements on an H200, CUDA and Vulkan alike, against 256.
_FORWARD = (9.0, 2.3, 1.2, 1.0, 1.07, 1.2)
_BACKWARD = (6.2, 1.6, 1.05, 1.0, 1.03, 1.18)
_SCATTERED = 1.5
"""Cost of groups that cut the last axis into pieces shorter than a warp: their loads lie apart."""

_LONG = 256
_CUT = 0.01
"""Cost of each halving of a run along the last axis below that, so that of equal shapes the longer one is taken."""

_NUMBERED = tuple(type(v) for v in (spy.thread_id(), spy.wang_hash(), spy.rand_float()))

_GROUP_WORD = re.compile(
    r"groupshared|GroupMemoryBarrier\w*|DeviceMemoryBarrierWithGroupSync|AllMemoryBarrier\w*|Wave[A-Z]\w*|Quad[A-Z]\w*"
    r"|SV_Group\w*|WorkGroup\w*|subgroup[A-Z]\w*|workgroup[A-Z]\w*|GroupAny\w*|GroupAll\w*|CoopMat\w*"
)


def group_shape(call_shape: tuple[int, ...], backward: bool, device: spy.Device) -> tuple[int, ...] | None:
    """Return the group shape for a call, or None where slangpy's own groups are as good.

    Parameters
    ----------
    call_shape : tuple of int
        The shape over which the call runs, one thread an element.
    backward : bool
    device : slangpy.Device

    Returns
    -------
    tuple of int or None
        One size for each axis of the call; their product is at most 1024 and a multiple of 32.
        None for calls of rank 0, small ones, and those whose shape fits no group.
    """
    threads = math.prod(call_shape)
    if not call_shape or threads < _FROM_GPU:
        return None
    if _software(device):
        # llvmpipe: groups cost index arithmetic, along more than one axis more than they gain.
        return (_MOST,) if len(call_shape) == 1 and threads >= _FROM_SOFTWARE else None
    return _fitted(call_shape, backward)


def _software(device: spy.Device) -> bool:
    found: bool = kept(device, ("software",), lambda: is_software(device))
    return found


@functools.lru_cache(maxsize=1024)
def _fitted(call_shape: tuple[int, ...], backward: bool) -> tuple[int, ...] | None:
    """Return the group shape of least cost on a graphics processor; None where groups of 32 along one axis cost less."""
    costs = _BACKWARD if backward else _FORWARD
    best, least = None, costs[0]
    for group in _candidates(call_shape):
        cost = _cost(call_shape, group, costs)
        if cost < least:
            best, least = group, cost
    return best


def _candidates(call_shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Return group shapes that fill the last axis first, then carry over to the left."""
    for group in _carried(call_shape, _MOST):
        # CUDA's wave functions name all 32 lanes of a warp, so each has to have a thread.
        if math.prod(group) % _WARP == 0:
            yield group


def _carried(axes: tuple[int, ...], room: int) -> Iterator[tuple[int, ...]]:
    if not axes:
        yield ()
        return
    *outer, last = axes
    for n in _sizes(last, room):
        # An axis that is cut ends the group: what lies further out is not next to it in memory.
        further = room // n if n >= min(last, _WARP) else 1
        yield from ((*rest, n) for rest in _carried(tuple(outer), further))


def _sizes(length: int, room: int) -> list[int]:
    """Return sizes of a group along an axis: powers of two, and the whole axis, also rounded up a little."""
    sizes = {2**k for k in range(11) if 2**k <= length}
    sizes.update(
        _round_up(length, step) for step in (1, 2, 4, 8, 16, 32) if _round_up(length, step) < 1.3 * length
    )
    return sorted(n for n in sizes if n <= room)


def _cost(call_shape: tuple[int, ...], group: tuple[int, ...], costs: tuple[float, ...]) -> float:
    """Return the time of a call relative to one that fits groups of the best size."""
    padded = math.prod(_round_up(n, g) / n for n, g in zip(call_shape, group, strict=True))
    place = math.log2(math.prod(group)) - 5
    low = min(int(place), 4)
    occupied = costs[low] + (costs[low + 1] - costs[low]) * (place - low)
    scattered = _SCATTERED if group[-1] < min(call_shape[-1], _WARP) else 1.0
    cut = 1 + _CUT * max(0.0, math.log2(min(call_shape[-1], _LONG) / group[-1]))
    return padded * occupied * scattered * cut


def _round_up(n: int, step: int) -> int:
    return -(-n // step) * step


def group_words(texts: Iterable[str]) -> str:
    """Return the first word in Slang texts whose meaning depends on a call's groups (`groupshared`, `WaveActiveSum`), or ""."""
    for text in texts:
        if _GROUP_WORD.search(text) is None:
            continue
        for token in scan(text):
            word = text[token.start : token.end]
            if token.kind == "name" and _GROUP_WORD.fullmatch(word):
                return word
            if token.kind == "directive" and (found := _GROUP_WORD.search(word)):
                return found[0]  # a macro that may bring it in
    return ""


def fixed(target: Target, words: str = "") -> str:
    """Return why the calls of a function keep the groups that they have; "" where these may be chosen.

    Parameters
    ----------
    target : Target
    words : str
        What `group_words` found in the texts of the cell and of what it imports.
    """
    info = target.node.calc_build_info()
    if info.call_group_shape is not None:
        return "its group shape was set with .call_group_shape"
    if info.pipeline_type != PipelineType.compute:
        return "it runs as a ray tracing pipeline"
    if words:
        return f"its text uses {words}, which depends on the groups"
    return ""


def numbers_threads(values: Iterable[Any]) -> bool:
    """Tell whether an argument depends on the number of its thread: `thread_id`, `rand_float`, `wang_hash`.

    With a group shape, the threads of a call over two axes or more are numbered group by group, which changes what these give.
    """
    return any(
        isinstance(v, _NUMBERED)
        or (isinstance(v, Mapping) and numbers_threads(v.values()))
        or (isinstance(v, (list, tuple)) and numbers_threads(v))
        for v in values
    )
