"""How a straight kernel goes through its arrays on one device: chosen once, by what was measured.

Measured on Mesa's llvmpipe (2 cores, 2^22 floats, forward): device pointers take half the time of structured buffers, which check
every index; 64 groups that loop beat one thread an element by a factor of five, as starting a group is what costs there. Measured
on an H100 (2^26 floats, CUDA and Vulkan): 16-byte loads reach the speed of a copy (0.183 ms for 0.188), two packs a thread and as
many groups as there are tiles; a thread for each float takes longer, and so do fewer groups that loop, by 2 to 8 %.

Measured on an H100 (2^26 floats): on CUDA packs of 4 floats a load, forward 0.185 ms, where a copy of as many bytes takes 0.19. On
Vulkan buffers come to lie in one of two ways, new at each start of the device: in the quick one all strategies take 0.19 ms, in the other
0.34 with 4 floats a thread a group apart and 0.48 with packs of 4. Elements of several numbers are quickest one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slanglab.device import is_software

__all__ = ["Strategy", "choose", "least"]

_LEAST = {"software": 1 << 13, "hardware": 1 << 16}


@dataclass(frozen=True)
class Strategy:
    """How a kernel reads, computes and writes.

    Attributes
    ----------
    pointers : bool
        True for device pointers, False for structured buffers.
    width : int
        Neighbouring elements that a thread takes together, with loads of up to 16 bytes; 1 for structured buffers.
    packs : int
        How many such packs a thread takes in one go, the group's threads side by side in each.
    group : int
        Threads in a group.
    groups : int
        Groups at most; a group then goes through the arrays in steps.
    unroll : bool
        Whether the Slang compiler is told to write the calls of one go out one after the other; else the driver decides.
    fresh : bool
        Whether gradients are written, not added to what is there: memory that is new is neither cleared before nor read.
    bare : bool
        Whether the kernel is given addresses alone, for CUDA's driver to launch it: beside those slangpy's launch has buffers bound.
    rows : bool
        Of a call over rows and columns: whether a thread takes a row and goes along its columns, or the other way round.
    together : int
        Of such a call: how many gradients a group sums at a time. With 1 each thread has cells of its own.
    """

    pointers: bool
    width: int
    packs: int
    group: int
    groups: int
    unroll: bool = False
    fresh: bool = False
    bare: bool = False
    rows: bool = True
    together: int = 1

    def __post_init__(self) -> None:
        if self.width not in (1, 2, 4, 8) or self.packs < 1 or not 1 <= self.group <= 1024 or self.groups < 1:
            raise ValueError(f"no such strategy: {self}")
        if self.width > 1 and not self.pointers:
            raise ValueError("structured buffers are read element by element")
        if self.group % self.together:
            raise ValueError("the threads of a group share out the gradients that it sums")
        if self.bare and not self.pointers:
            raise ValueError("a kernel without buffers takes addresses")

    def groups_for(self, count: int) -> int:
        """Return how many groups a launch for so many elements has."""
        return min(-(-count // self.tile), self.groups)

    @property
    def at_once(self) -> int:
        """Elements that a thread takes in one go."""
        return self.width * self.packs

    @property
    def tile(self) -> int:
        """Elements that a group takes in one go."""
        return self.group * self.at_once


def choose(device: Any, shared: bool, numbers: int = 1) -> Strategy:
    """Return the strategy for a device.

    Parameters
    ----------
    device : slangpy.Device
    shared : bool
        True for a kernel that sums gradients of shared parameters, with one partial sum a group.
    numbers : int
        Of the largest element among the arrays: 3 for float3.
    """
    most = int(device.info.limits.max_compute_dispatch_thread_groups[0])
    if is_software(device):
        return Strategy(True, 1, 8, 256, 64)
    if device.info.type.name not in ("vulkan", "cuda"):
        return Strategy(False, 1, 1, 256, 2048 if shared else min(most, 65535))
    groups = 4224 if shared else most
    if numbers > 1:
        return Strategy(True, 1, 2, 256, groups, True)
    return Strategy(True, *((4, 1) if device.info.type.name == "cuda" else (1, 4)), 256, groups, True)


def least(device: Any) -> int:
    """Return the number of elements from which a straight kernel is quicker than slangpy's own call on this device."""
    return _LEAST["software" if is_software(device) else "hardware"]
