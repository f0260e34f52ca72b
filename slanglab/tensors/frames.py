"""Which part of a tensor a picture shows, for tensors and arrays alike."""

from __future__ import annotations

import math
from dataclasses import dataclass

from slanglab.errors import ArgumentError

__all__ = ["Choice", "choose"]

Index = tuple[int | None, ...]
Window = tuple[int, int, int, int]


@dataclass(frozen=True)
class Choice:
    """The axes of a picture.

    Attributes
    ----------
    row, column, channel : int or None
        The tensor's axes shown as rows and columns, and the one that holds colours; None where there is none.
    fixed : tuple of int
        For each axis the index where it isn't shown, else 0.
    window : (int, int, int, int)
        row0, row1, column0, column1, inside the tensor.
    block : (int, int)
        Rows and columns of elements per texel.
    pooled : tuple of int
        The axes that are reduced: each texel is over all elements along them.
    """

    row: int | None
    column: int | None
    channel: int | None
    fixed: tuple[int, ...]
    window: Window
    block: tuple[int, int]
    pooled: tuple[int, ...] = ()


def choose(
    shape: tuple[int, ...],
    vector: bool,
    index: Index,
    rows: int,
    cols: int,
    window: Window | None,
    pooled: tuple[int, ...] = (),
    axes: tuple[int, int] | None = None,
) -> Choice:
    """Choose rows, columns and channels of a picture.

    Axes that `index` does not fix are free. The last free axis is the channels if its size is 3 or 4, two more are
    free and the elements are no vectors themselves; the last two of the others are rows and columns, those before them
    stay at 0. `axes` says rows and columns otherwise; a last axis of size 3 or 4 that is none of the two is the channels then too.

    Parameters
    ----------
    shape : tuple of int
        The tensor's shape, without components.
    vector : bool
        Whether the elements have components of their own.
    index : tuple of (int or None)
        Position on each axis, leading axes first; None or left out: free.
    rows, cols : int
        Texels at most.
    window : (int, int, int, int), optional
        row0, row1, column0, column1; parts outside are cut off. None: all.
    pooled : tuple of int
        Axes to reduce; what `index` says of them does not matter.
    axes : (int, int), optional
        The axes drawn down and across; what `index` says of them does not matter.

    Raises
    ------
    ArgumentError
        If an index is outside its axis, or there are more of them than axes, or no texel is allowed.
    """
    if rows < 1 or cols < 1:
        raise ArgumentError(f"A picture has at least one row and one column, not {rows} x {cols}.")
    if len(index) > len(shape):
        raise ArgumentError(
            f"{len(index)} indices for a tensor of {len(shape)} axes.",
            argument="index",
            given=f"shape {shape}",
        )
    if axes is not None and not (
        axes[0] != axes[1] and all(0 <= axis < len(shape) and axis not in pooled for axis in axes)
    ):
        raise ArgumentError(
            f"A picture has two different axes that are not reduced, not {axes}.",
            argument="axes",
            given=f"shape {shape}",
        )
    free: list[int] = []
    fixed = [0] * len(shape)
    if any(not 0 <= axis < len(shape) for axis in pooled):
        raise ArgumentError(
            f"There is no axis {max(pooled)} in a tensor of {len(shape)} axes.", argument="pooled"
        )
    for axis, size in enumerate(shape):
        at = index[axis] if axis < len(index) else None
        if axis in pooled:
            continue
        if at is None or (axes is not None and axis in axes):
            free.append(axis)
        elif -size <= at < size:
            fixed[axis] = at % size
        else:
            raise ArgumentError(
                f"Index {at} is outside axis {axis}, which has {size} elements.",
                argument="index",
                given=f"shape {shape}",
            )
    channel = free.pop() if not vector and len(free) >= 3 and shape[free[-1]] in (3, 4) else None
    column = free[-1] if free else None
    row = free[-2] if len(free) > 1 else None
    if axes is not None:
        row, column = axes
        if channel in axes:
            channel = None
    height = 1 if row is None else shape[row]
    width = 1 if column is None else shape[column]
    top, bottom, left, right = (0, height, 0, width) if window is None else window
    top, left = min(max(top, 0), height), min(max(left, 0), width)
    bottom, right = max(min(bottom, height), top), max(min(right, width), left)
    if any(n == 0 for axis, n in enumerate(shape) if axis not in (row, column, channel)):
        bottom, right = top, left  # an empty axis: there is no element at 0
    block = (max(1, math.ceil((bottom - top) / rows)), max(1, math.ceil((right - left) / cols)))
    return Choice(row, column, channel, tuple(fixed), (top, bottom, left, right), block, pooled)
