"""The passes over a tensor's elements: one dispatch each, and only what they found comes back."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slanglab.device import is_software
from slanglab.errors import ArgumentError
from slanglab.tensors import kernels
from slanglab.tensors.binning import Edges, keys_to_values
from slanglab.tensors.kernels import Format
from slanglab.tensors.layout import Axes, View
from slanglab.tensors.records import Picture, Statistics

__all__ = [
    "Frame",
    "gather",
    "gather_into",
    "histogram",
    "nonfinite",
    "picture",
    "statistics",
    "subtract_into",
]

_BLOCK = 8
_WORDS = 20
_OWN = 256  # bins for which each thread of a software device has counters of its own
_COUNT_MOST = 2**32 - 2**25  # elements of one dispatch: its counters and indices have 32 bits


def _buffer(device: Any, data: NDArray[Any], element: int = 0) -> Any:
    """Return a buffer that holds `data`."""
    size = element or data.dtype.itemsize
    return device.create_buffer(
        element_count=data.nbytes // size, struct_size=size, usage=_usage(), data=np.ascontiguousarray(data)
    )


def _room(device: Any, count: int, size: int = 4) -> Any:
    """Return a buffer whose every element a kernel will write; what it holds before is anything."""
    return device.create_buffer(element_count=count, struct_size=size, usage=_usage())


def _usage() -> Any:
    import slangpy as spy

    return spy.BufferUsage.unordered_access | spy.BufferUsage.shader_resource | spy.BufferUsage.copy_source


def _read(buffer: Any, kind: Any) -> NDArray[Any]:
    found: NDArray[Any] = np.frombuffer(buffer.to_numpy().tobytes(), dtype=kind)
    return found


def _runs(device: Any, count: int) -> tuple[int, int, int]:
    """Return (groups, threads of a group, elements of a group's run) for a pass over `count` elements."""
    if count > _COUNT_MOST:
        raise ArgumentError(
            f"{count} elements are more than one summary reaches ({_COUNT_MOST}).", hint="look at a slice"
        )
    group = kernels.group_size(device)
    tile = group * _BLOCK
    groups = min(math.ceil(count / tile), 256 if is_software(device) else 1024)
    run = math.ceil(count / groups / tile) * tile
    return math.ceil(count / run), group, run


def _flat(*every: Axes) -> int:
    return int(all(len(axes.shape) <= 1 for axes in every))


def _layout(device: Any, axes: Axes, flat: int) -> dict[str, Any]:
    """Return the value of the kernels' `Layout`."""
    if flat:
        return {"base": axes.base, "stride": axes.strides[0] if axes.strides else 0}
    pairs = np.array([axes.shape, axes.strides], np.uint32).T if axes.shape else np.array([[1, 0]], np.uint32)
    return {"base": axes.base, "rank": len(pairs), "axes": _buffer(device, pairs, 8)}


def statistics(device: Any, view: View, over: View | None = None) -> Statistics:
    """Return the statistics of a view, or of |over| / |view| (of floating-point types, and of one shape)."""
    times = 1
    if over is None:
        axes, times = view.all.unordered()
        second = axes
    else:
        axes, second = _merged_together(view.all, over.all)
    if axes.count == 0 or times == 0:
        return Statistics(0, 0, 0, 0, 0, 0, None, None, None, None)
    groups, group, run = _runs(device, axes.count)
    flat = _flat(axes, second)
    macros = {"GROUP": group, "FLAT": flat}
    found = _room(device, groups * _WORDS)
    given: dict[str, Any] = {
        "count": axes.count,
        "run": run,
        "zero": 0,
        "layout": _layout(device, axes, flat),
        "elements": view.storage,
    }
    if over is not None:
        macros["RATIO"] = 1
        given |= {"second": _layout(device, second, flat), "over": over.storage}
    program = kernels.kernel(device, "statistics", "statistics", view.form, **macros)
    program.dispatch([groups * group, 1, 1], **given, partials=found)
    form = view.form
    if over is not None and form.bits == 16:
        form = kernels.FORMATS["float32"]
    return _combined(_read(found, np.uint32).reshape(groups, _WORDS), form, axes.count, times)


def _merged_together(a: Axes, b: Axes) -> tuple[Axes, Axes]:
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


def _combined(partials: NDArray[np.uint32], form: Format, count: int, times: int) -> Statistics:
    """Combine the groups' partial results in double precision."""
    finite, zeros, nan, positive, negative = (
        int(n) * times for n in partials[:, :5].sum(axis=0, dtype=np.int64)
    )
    some = partials[partials[:, 0] > 0]
    if not len(some):
        return Statistics(count * times, 0, zeros, nan, positive, negative, None, None, None, None)
    pairs = some[:, 6:18].astype(np.uint64).reshape(-1, 6, 2)
    words = pairs[:, :, 0] | pairs[:, :, 1] << np.uint64(32)
    least, most = keys_to_values(np.array([words[:, 0].min(), words[:, 1].max()]), form).tolist()
    reals = np.ascontiguousarray(words[:, 2:])
    scale, shift, rest, square = (
        reals.view(np.float64) if form.wide else reals.astype(np.uint32).view(np.float32).astype(np.float64)
    ).T
    # All groups to the smallest scale, a power of two that keeps every square finite.
    common = scale.min()
    by = common / scale
    shift, rest, square = shift * by, rest * by, square * by * by
    weight = some[:, 0] / some[:, 0].sum(dtype=np.int64)
    # From one group's shift, so that means that differ in their last digits keep the difference.
    apart = (shift - shift[0]) + rest
    beside = float(np.sum(weight * apart))
    variance = float(square.sum() / some[:, 0].sum(dtype=np.int64) + np.sum(weight * (apart - beside) ** 2))
    mean = float(shift[0] / common + beside / common)
    # A mean lies between the extremes; rounding may put it outside by its last digit.
    mean = min(max(mean, float(least)), float(most))
    return Statistics(
        count * times,
        finite,
        zeros,
        nan,
        positive,
        negative,
        least,
        most,
        mean,
        math.sqrt(variance) / float(common),
    )


def histogram(device: Any, view: View, bins: Edges) -> NDArray[np.int64]:
    """Return how many elements of a view lie in each bin."""
    counts = np.zeros(bins.bins, np.int64)
    axes, times = view.all.unordered()
    keys, unbounded = bins.keys(view.form)
    used = len(keys) - 1
    if axes.count == 0 or times == 0 or used == 0:
        return counts
    groups, group, run = _runs(device, axes.count)
    found = _buffer(device, np.zeros(used, np.uint32))
    span = bins.stop / 2 - bins.start / 2
    most = 1e300 if view.form.wide else 3e38
    slope = min(bins.bins / span if span > 0 else most, most)
    per_threshold = min(1 / bins.threshold, most) if bins.threshold else 0.0
    # Four times what rounding can move the proposed bin by, and more for a device's logarithm, which is good to 1e-6 or
    # so. Where products may overflow or be flushed to zero the proposal is worth nothing.
    unit, least, large = (2.0**-52, 1e-290, 1e290) if view.form.wide else (2.0**-23, 1e-30, 1e30)
    margin = 4 * unit * (slope * abs(bins.start) + bins.bins) + 1e-4
    if bins.scale == "symlog":
        margin += 1e-5 * slope * (1 + max(abs(bins.start), abs(bins.stop)))
    if not least < max(abs(bins.values[0]), abs(bins.values[-1])) < large:
        margin = 1.0
    own = _OWN if is_software(device) and used <= _OWN else 0
    macros = {"GROUP": group, "FLAT": _flat(axes), "OWN": own}
    kernels.kernel(device, "histogram", "histogram", view.form, **macros).dispatch(
        [groups * group, 1, 1],
        count=axes.count,
        run=run,
        layout=_layout(device, axes, _flat(axes)),
        bins=used,
        open=int(unbounded),
        symlog=int(bins.scale == "symlog"),
        half_start=max(-most, min(bins.start / 2, most)),
        slope=slope,
        per_threshold=per_threshold,
        margin=min(margin, 1.0),
        elements=view.storage,
        edges=_buffer(device, keys),
        counts=found,
    )
    counts[:used] = _read(found, np.uint32).astype(np.int64) * times
    return counts


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
        drawn = _room(device, texels * (layers + 3))
        kernels.kernel(
            device, "picture", "picture", form, GROUP=group, FLAT=_flat(channels), TEAM=team
        ).dispatch(
            [math.ceil(texels * team / group) * group, 1, 1],
            layout=_layout(device, channels, _flat(channels)),
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
            components=count,
            colours=int(frame.colors),
            elements=storage,
            drawn=drawn,
        )
        every = _read(drawn, np.float32).reshape(layers + 3, height, width)
        means, low, high = every[:layers], every[layers].copy(), every[layers + 1].copy()
        flags = every[layers + 2].view(np.uint32).astype(np.uint8)
    colors = np.moveaxis(means[1:], 0, -1).copy() if frame.colors else None
    return Picture(
        means[0].copy(),
        low,
        high,
        flags,
        frame.block,
        frame.window,
        frame.block == (1, 1) and count == 1,
        colors,
    )


def nonfinite(device: Any, view: View, limit: int) -> NDArray[np.int64]:
    """Return the flat indices (row-major, components innermost) of the first `limit` elements that aren't finite."""
    none = np.zeros(0, np.int64)
    axes = view.all.merged()
    if axes.count == 0 or limit < 1 or view.form.form != "FLOAT":
        return none
    groups, group, run = _runs(device, axes.count)
    macros = {"GROUP": group, "FLAT": _flat(axes)}
    given = {"layout": _layout(device, axes, _flat(axes)), "elements": view.storage}
    found = _buffer(device, np.zeros(groups, np.uint32))
    kernels.kernel(device, "nonfinite", "tally", view.form, **macros).dispatch(
        [groups * group, 1, 1], count=axes.count, run=run, **given, counts=found
    )
    tally = _read(found, np.uint32).astype(np.int64)
    total = np.cumsum(tally)
    if total[-1] == 0:
        return none
    first = int(np.flatnonzero(tally)[0])
    last = int(np.searchsorted(total, min(limit, int(total[-1]))))
    listed = _buffer(device, np.zeros(int(total[last]) + 1, np.uint32))
    begin, end = first * run, min((last + 1) * run, axes.count)
    threads = min(math.ceil((end - begin) / group), 1024) * group
    kernels.kernel(device, "nonfinite", "collect", view.form, **macros).dispatch(
        [threads, 1, 1], first=begin, last=end, step=threads, **given, listed=listed
    )
    where = _read(listed, np.uint32).astype(np.int64)
    return np.sort(where[1 : 1 + where[0]])[:limit]


def gather(device: Any, view: View) -> NDArray[Any]:
    """Return the elements of a view in numpy's type, as an array of shape tensor axes + components."""
    whole = view.all
    axes = whole.merged()
    kind = f"u{view.form.bits // 8}" if view.form.form == "BOOL" else view.form.name
    if axes.count == 0:
        copied = np.zeros(whole.shape, kind)
    else:
        copy = _room(device, axes.count, view.form.bits // 8)
        gather_into(device, view, copy)
        copied = _read(copy, kind).reshape(whole.shape).copy()
    return copied.astype(np.bool_) if view.form.form == "BOOL" else copied


def _spread(count: int, group: int) -> int:
    """Return the threads of a pass in which each takes elements far apart."""
    if count > _COUNT_MOST:
        raise ArgumentError(
            f"{count} elements are more than one pass reaches ({_COUNT_MOST}).", hint="look at a slice"
        )
    return min(math.ceil(count / group), 1024) * group


def gather_into(device: Any, view: View, copy: Any) -> None:
    """Copy the elements of a view (one at least), one after another, to the start of a buffer."""
    axes = view.all.merged()
    group = kernels.group_size(device)
    threads = _spread(axes.count, group)
    kernels.kernel(device, "gather", "gather", view.form, GROUP=group, FLAT=_flat(axes)).dispatch(
        [threads, 1, 1],
        count=axes.count,
        step=threads,
        layout=_layout(device, axes, _flat(axes)),
        elements=view.storage,
        copy=copy,
    )


def subtract_into(device: Any, view: View, other: View, differences: Any) -> None:
    """Write the differences of two views of one shape and format (with an element at least) to the start of a buffer.

    The buffer is one of doubles where the format is wide, else of float32.
    """
    axes, second = _merged_together(view.all, other.all)
    group = kernels.group_size(device)
    threads = _spread(axes.count, group)
    flat = _flat(axes, second)
    kernels.kernel(device, "difference", "difference", view.form, GROUP=group, FLAT=flat).dispatch(
        [threads, 1, 1],
        count=axes.count,
        step=threads,
        layout=_layout(device, axes, flat),
        second=_layout(device, second, flat),
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
