"""How a pass over a view's elements is divided among threads, and how they are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slanglab.device import is_software
from slanglab.tensors.kernels import Format
from slanglab.tensors.launch import placed, runs
from slanglab.tensors.layout import Axes, View

__all__ = ["SIZES", "Plan", "planned", "reads_quads"]

SIZES = (256, 660, 16)
"""On a GPU: threads of a group, groups at most (five for each of an H200's 132 multiprocessors), and elements that a thread reads at a
time where it can read several at once. What the groups found of statistics comes back in one small read."""


@dataclass(frozen=True)
class Plan:
    """How a pass over one view is divided, and how its elements are read."""

    axes: Axes
    groups: int
    group: int
    way: dict[str, int]
    macros: dict[str, int]
    given: dict[str, Any]

    @property
    def threads(self) -> list[int]:
        """What `dispatch` takes."""
        return [self.groups * self.group, 1, 1]


def planned(device: Any, view: View, axes: Axes, flat: int, quads: bool = True) -> Plan:
    """Divide the elements of a view.

    Parameters
    ----------
    device, view
        Where, and of what.
    axes : Axes
        The view's axes, in the order in which they are gone through.
    flat : int
        1 where the elements lie at one stride.
    quads : bool
        Whether the kernel can read sixteen bytes at a time.
    """
    quads = quads and bool(flat) and _in_quads(device, view, axes)
    software = is_software(device)
    group, most, block = SIZES
    block = (16 if software else block) if quads else 8
    groups, group, run = runs(device, axes.count, 0 if software else group, block, most)
    given = {"layout": placed(device, axes, flat), "elements": view.storage}
    if quads:
        given["quads"] = view.storage
    tiles = run // (group * block)
    # What a GPU reads at one time lies together; a processor's threads go on where they were.
    apart, step = (tiles, 1) if software else (1, groups)
    way = {"count": axes.count, "tiles": tiles, "apart": apart, "step": step}
    return Plan(
        axes, groups, group, way, {"GROUP": group, "BLOCK": block, "FLAT": flat, "QUADS": int(quads)}, given
    )


def _in_quads(device: Any, view: View, axes: Axes) -> bool:
    """Whether the elements can be read sixteen bytes at a time."""
    return reads_quads(device, view.form) and axes.strides in ((1,), ()) and axes.base % 4 == 0


def reads_quads(device: Any, form: Format) -> bool:
    """Whether kernels may read sixteen bytes at a time of a buffer of such elements."""
    # Direct3D gives a buffer's elements the size that it was made with.
    return form.name == "float32" and bool(device.info.type.name != "d3d12")
