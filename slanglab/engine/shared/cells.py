"""The cells that shared gradients are summed in, and the kernel that sums them up.

A slot holds one cell for each number of the gradient (four for a half, see shaders/shared_half.slang); the waves of a call are spread
over many slots. Cells are zero whenever no call uses them, so that they serve any tensor: they are kept per device and size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import slangpy as spy

from slanglab.device import is_software
from slanglab.tensors import kernels

__all__ = ["HALF_CELLS", "Cells", "take"]

HALF_CELLS = 4
_GROUP, _GROUP_SOFTWARE = 64, 8
"""Threads of a group in the last sum; on a processor a barrier costs more than the additions that it saves."""
_LEAST, _MOST = 16, 2048
"""Slots: a call's waves should seldom meet in one, and the last sum has to read them all."""
_THREADS = 512
"""Threads for each slot, below the most."""
_ROOM = 2**20
"""Cells in all, where fewer slots do."""
_HALVES = 2**15
"""Threads that one slot takes where its digits are to hold their sum."""
_KEPT = 32  # sizes


@dataclass(eq=False)
class Cells:
    """Cells of one size.

    Attributes
    ----------
    width : int
        Cells of a slot.
    slots : int
        A power of two.
    half : bool
        Digits of halves instead of floats.
    tensor : slangpy.Tensor
        The cells, (slots * width,).
    arguments : dict
        What a kernel is told of them: the fields of the struct in shaders/shared_argument.slang.
    """

    width: int
    slots: int
    half: bool
    tensor: Any
    arguments: dict[str, Any]
    home: list[Cells]

    def add_to(self, gradient: Any, encoder: Any = None) -> None:
        """Add what the cells hold to a gradient, zero them, and let them be used again.

        Parameters
        ----------
        gradient : slangpy.Tensor
            Contiguous, of as many numbers as a slot.
        encoder : slangpy.CommandEncoder, optional
            Where to record it; by default it is submitted.
        """
        device = self.tensor.device
        kernel, group = _kernel(device, self.half)
        count = self.width // HALF_CELLS if self.half else self.width
        columns = min(1 << (count - 1).bit_length(), group)
        offset = gradient.offset * count // gradient.element_count
        # What `kernel.dispatch` does, in two thirds of its time.
        own = device.create_command_encoder() if encoder is None else encoder
        work = own.begin_compute_pass()
        entry = spy.ShaderCursor(work.bind_pipeline(kernel.pipeline)).find_entry_point(0)
        entry["cells"] = self.tensor.storage
        entry["gradient"] = gradient.storage
        entry["sizes"] = spy.uint4(count, self.slots, columns, offset)
        work.dispatch_compute([-(-count // columns), 1, 1])
        work.end()
        if encoder is None:
            device.submit_command_buffer(own.finish())
        self.home.append(self)


def take(device: spy.Device, count: int, threads: int, half: bool) -> Cells:
    """Return cells for the gradient of one argument, all zero; `Cells.add_to` gives them back.

    Parameters
    ----------
    device : slangpy.Device
    count : int
        Numbers in the gradient.
    threads : int
        Of the call.
    half : bool
        Whether they are halves.
    """
    width = count * HALF_CELLS if half else count
    slots = _LEAST
    while slots < _MOST and slots * _THREADS < threads and slots * width < _ROOM:
        slots *= 2
    if half:
        while slots * _HALVES < threads:
            slots *= 2
    pool: dict[tuple[int, int, bool], list[Cells]] = kernels.kept(device, ("shared cells",), dict)
    home = pool.get((width, slots, half))
    if home is None:
        if len(pool) >= _KEPT:
            pool.pop(next(iter(pool)))
        home = pool[(width, slots, half)] = []
    if home:
        return home.pop()
    tensor = spy.Tensor.zeros(device, (slots * width,), "uint" if half else "float")
    # The buffer as the backend takes it; slangpy's own Tensor would be four more fields to write at each call.
    arguments = {"_cells": tensor.uniforms()["_data"], "_width": width, "_mask": slots - 1}
    return Cells(width, slots, half, tensor, arguments, home)


def _kernel(device: spy.Device, half: bool) -> tuple[Any, int]:
    """Return the kernel of the last sum, and how many threads a group of it has."""
    found: tuple[Any, int] = kernels.kept(device, ("shared sum", half), lambda: _compiled(device, half))
    return found


def _compiled(device: spy.Device, half: bool) -> tuple[Any, int]:
    group = _GROUP_SOFTWARE if is_software(device) else _GROUP
    # Metal has no double; there the last sum runs in float, each thread's own part and then the threads' by pairs.
    real = "double" if device.has_feature(spy.Feature.double) else "float"
    text = "\n".join(
        [
            f"#define HALF {int(half)}\n#define GROUP {group}\n#define REAL {real}",
            *(['#line 1 "shared_half.slang"', kernels.source("shared_half.slang")] if half else []),
            '#line 1 "shared_sum.slang"',
            kernels.source("shared_sum.slang"),
        ]
    )
    return kernels.load(device, f"slanglab/shared-sum-{'half' if half else 'float'}", text, "sum"), group
