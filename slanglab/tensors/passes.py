"""Passes over a tensor's elements that make pictures, copies and lists: only what they found comes back."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slanglab.device import is_software
from slanglab.errors import ArgumentError
from slanglab.tensors import kernels
from slanglab.tensors.division import reads_quads
from slanglab.tensors.kernels import Format
from slanglab.tensors.launch import (
    COUNT_MOST,
    brought,
    flat_in_all,
    merged_together,
    placed,
    room,
    runs,
    uploaded,
)
from slanglab.tensors.layout import Axes, View
from slanglab.tensors.records import Picture

__all__ = ["Frame", "gather", "gather_into", "nonfinite", "picture", "subtract_into"]


@dataclass(frozen=True)
class Frame:
    """Which elements a picture shows, and how many share a texel.

    Attributes
    ----------
    rows, columns : (int, int)
        (size, stride in scalars) of the two axes.
    channels : Axes
        The axes pooled within a texel; base: the first element of the slice.
    colors : bool
        Whether each channel has a mean of its own.
    window : (int, int, int, int)
        row0, row1, column0, column1.
    block : (int, int)
        Rows and columns of elements per texel.
    """

    rows: tuple[int, int]
    columns: tuple[int, int]
    channels: Axes
    colors: bool
    window: tuple[int, int, int, int]
    block: tuple[int, int]

    @property
    def size(self) -> tuple[int, int]:
        """Height and width in texels."""
        top, bottom, left, right = self.window
        return math.ceil((bottom - top) / self.block[0]), math.ceil((right - left) / self.block[1])


def picture(device: Any, storage: Any, form: Format, frame: Frame) -> Picture:
    """Return the reduced picture of a frame."""
    height, width = frame.size
    texels = height * width
    channels = frame.channels.merged()
    count = channels.count
    layers = count + 1 if frame.colors else 1
    flags = np.zeros((height, width), np.uint8)
    means = np.full((layers, height, width), np.nan, np.float32)
    low, high = means[0].copy(), means[0].copy()
    if texels and count:
        top, bottom, left, right = frame.window
        each = frame.block[0] * frame.block[1]
        # A thread a texel while there are texels enough for all threads and each has little to read.
        team = 1 if (texels >= 128 if is_software(device) else each <= 32) else 64
        group = max(team, kernels.group_size(device))
        drawn = room(device, texels * (layers + 3), brought=True)
        flat, quads = flat_in_all(channels), reads_quads(device, form)
        # One kernel for both ways: it is compiled once.
        more = {"quick": int(count == 1 and _in_quads(frame)), "quads": storage} if quads else {}
        kernels.kernel(
            device, "picture", "picture", form, GROUP=group, FLAT=flat, TEAM=team, QUADS=int(quads)
        ).dispatch(
            [math.ceil(texels * team / group) * group, 1, 1],
            layout=placed(device, channels, flat),
            window={
                "row": top,
                "column": left,
                "rows": bottom - top,
                "columns": right - left,
                "row_stride": frame.rows[1],
                "column_stride": frame.columns[1],
                "block_rows": frame.block[0],
                "block_columns": frame.block[1],
                "height": height,
                "width": width,
            },
            zero=0,
            components=count,
            colours=int(frame.colors),
            elements=storage,
            **more,
            drawn=drawn,
        )
        every = brought(drawn, np.float32).reshape(layers + 3, height, width)
        means, low, high = every[:layers], every[layers], every[layers + 1]
        flags = every[layers + 2].view(np.uint32).astype(np.uint8)
    colors = np.moveaxis(means[1:], 0, -1).copy() if frame.colors else None
    return Picture(
        means[0],
        low,
        high,
        flags,
        frame.block,
        frame.window,
        frame.block == (1, 1) and count == 1,
        colors,
    )


def _in_quads(frame: Frame) -> bool:
    """Whether the rows of each texel can be read four elements at a time."""
    _, _, left, right = frame.window
    starts = (frame.channels.base, frame.rows[1], left, right - left, frame.block[1])
    return frame.columns[1] == 1 and all(n % 4 == 0 for n in starts)


def nonfinite(device: Any, view: View, limit: int) -> NDArray[np.int64]:
    """Return the flat indices (row-major, components innermost) of the first `limit` elements that aren't finite."""
    none = np.zeros(0, np.int64)
    axes = view.all.merged()
    if axes.count == 0 or limit < 1 or view.form.form != "FLOAT":
        return none
    groups, group, run = runs(device, axes.count)
    macros = {"GROUP": group, "FLAT": flat_in_all(axes)}
    given = {"layout": placed(device, axes, flat_in_all(axes)), "elements": view.storage}
    found = uploaded(device, np.zeros(groups, np.uint32))
    kernels.kernel(device, "nonfinite", "tally", view.form, **macros).dispatch(
        [groups * group, 1, 1], count=axes.count, run=run, **given, counts=found
    )
    tally = brought(found, np.uint32).astype(np.int64)
    total = np.cumsum(tally)
    if total[-1] == 0:
        return none
    first = int(np.flatnonzero(tally)[0])
    last = int(np.searchsorted(total, min(limit, int(total[-1]))))
    listed = uploaded(device, np.zeros(int(total[last]) + 1, np.uint32))
    begin, end = first * run, min((last + 1) * run, axes.count)
    threads = min(math.ceil((end - begin) / group), 1024) * group
    kernels.kernel(device, "nonfinite", "collect", view.form, **macros).dispatch(
        [threads, 1, 1], first=begin, last=end, step=threads, **given, listed=listed
    )
    where = brought(listed, np.uint32).astype(np.int64)
    return np.sort(where[1 : 1 + where[0]])[:limit]


def gather(device: Any, view: View) -> NDArray[Any]:
    """Return the elements of a view in numpy's type, as an array of shape tensor axes + components."""
    whole = view.all
    axes = whole.merged()
    kind = f"u{view.form.bits // 8}" if view.form.form == "BOOL" else view.form.name
    if axes.count == 0:
        copied = np.zeros(whole.shape, kind)
    else:
        copy = room(device, axes.count, view.form.bits // 8, brought=True)
        gather_into(device, view, copy)
        copied = brought(copy, kind).reshape(whole.shape)
    return copied.astype(np.bool_) if view.form.form == "BOOL" else copied


def _spread(count: int, group: int) -> int:
    """Return the threads of a pass in which each takes elements far apart."""
    if count > COUNT_MOST:
        raise ArgumentError(
            f"{count} elements are more than one pass reaches ({COUNT_MOST}).", hint="look at a slice"
        )
    return min(math.ceil(count / group), 1024) * group


def gather_into(device: Any, view: View, copy: Any) -> None:
    """Copy the elements of a view (one at least), one after another, to the start of a buffer."""
    axes = view.all.merged()
    group = kernels.group_size(device)
    threads = _spread(axes.count, group)
    kernels.kernel(device, "gather", "gather", view.form, GROUP=group, FLAT=flat_in_all(axes)).dispatch(
        [threads, 1, 1],
        count=axes.count,
        step=threads,
        layout=placed(device, axes, flat_in_all(axes)),
        elements=view.storage,
        copy=copy,
    )


def subtract_into(device: Any, view: View, other: View, differences: Any) -> None:
    """Write the differences of two views of one shape and format (with an element at least) to the start of a buffer.

    The buffer is one of doubles where the format is wide, else of float32.
    """
    axes, second = merged_together(view.all, other.all)
    group = kernels.group_size(device)
    threads = _spread(axes.count, group)
    flat = flat_in_all(axes, second)
    kernels.kernel(device, "difference", "difference", view.form, GROUP=group, FLAT=flat).dispatch(
        [threads, 1, 1],
        count=axes.count,
        step=threads,
        layout=placed(device, axes, flat),
        second=placed(device, second, flat),
        elements=view.storage,
        others=other.storage,
        differences=differences,
    )


def window(view: View, frame: Frame) -> View:
    """Return the elements of a frame as a view: rows, columns, then channels."""
    top, bottom, left, right = frame.window
    axes = Axes(
        (bottom - top, right - left),
        (frame.rows[1], frame.columns[1]),
        frame.channels.base + top * frame.rows[1] + left * frame.columns[1],
    )
    return replace(view, axes=axes, inner=replace(frame.channels, base=0))
