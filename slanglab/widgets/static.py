"""The still twin of a tensor's view: a PNG, which a saved notebook shows without kernel and browser code.

The PNG has the pictures of the widget on the light page at twice the resolution, without axes: the text beside it has
the numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slanglab.tensors.records import Picture, Summary
from slanglab.widgets.raster import (
    SCALE,
    Image,
    Plot,
    levels,
    mark,
    palette,
    panel,
    srgb,
    thinned,
    with_bar,
    written,
)
from slanglab.widgets.scales import linear

__all__ = ["SCALE", "gradient_limit", "is_image", "tensor_png"]

_WIDTH = 860
_GAP = 20
_TEXELS = 128
_CELL = 64
_LEAST = 220
_QUANTILE = 0.999
_THRESHOLD = 0.01
_LEAST_THRESHOLD = float(np.finfo(np.float64).tiny)


# ----- scales -----


def gradient_limit(summary: Summary) -> float:
    """Return the limit of a gradient's symmetric range: the 99.9 % quantile of its magnitude, from the histogram.

    Nothing less than the quantile is returned, and nothing more than the greatest magnitude; 0 where there is no
    gradient or all of it is zero.
    """
    known, histogram = summary.gradient, summary.gradient_histogram
    if known is None or known.minimum is None or known.maximum is None:
        return 0.0
    most = float(max(abs(known.minimum), abs(known.maximum)))
    if histogram is None or not histogram.counts.sum():
        return most
    magnitude = np.maximum(np.abs(histogram.edges[:-1]), np.abs(histogram.edges[1:]))
    order = np.argsort(magnitude, kind="stable")
    reached = np.cumsum(histogram.counts[order]) >= _QUANTILE * histogram.counts.sum()
    return float(min(most, magnitude[order][np.argmax(reached)]))


def _linear(x: NDArray[np.float32], summary: Summary) -> NDArray[np.float64]:
    known = summary.value
    low = float(known.minimum) if known and known.minimum is not None else 0.0
    high = float(known.maximum) if known and known.maximum is not None else 1.0
    return linear(x, low, high)


def _symlog(x: NDArray[np.float32], limit: float) -> NDArray[np.float64]:
    """Map to 0…1 with zero at one half: linear within 1 % of the limit, logarithmic beyond."""
    limit = limit if limit > 0 else 1.0
    top = np.arcsinh(1 / _THRESHOLD)
    threshold = max(limit * _THRESHOLD, _LEAST_THRESHOLD)
    with np.errstate(over="ignore"):  # of what is far out of the range
        result: NDArray[np.float64] = (np.arcsinh(x.astype(np.float64) / threshold) / top + 1) / 2
    return result


# ----- two axes -----


def is_image(summary: Summary, picture: Picture) -> bool:
    """Say whether elements are shown as colours: three or four channels, all between 0 and 1."""
    known = summary.value
    if picture.colors is None or known is None or known.minimum is None or known.maximum is None:
        return False
    return known.minimum >= 0 and known.maximum <= 1


def _pictures(summary: Summary, value: Picture, gradient: Picture | None) -> Image:
    half = (_WIDTH - _GAP) // 2 if gradient is not None else _WIDTH // 2
    columns = value.window[3] - value.window[2]
    # Cells of a tiny tensor grow no wider than this, as long as the picture is wide enough to be one.
    width = min(half, max(_LEAST, columns * _CELL)) * SCALE
    value, gradient = _coarser(value), gradient and _coarser(gradient)
    if is_image(summary, value) and value.colors is not None:
        panels = [panel(value, srgb(value.colors), width)]
    else:
        panels = [with_bar(panel(value, levels(_linear(value.mean, summary), "tide"), width), "tide")]
    if gradient is not None:
        t = _symlog(gradient.mean, gradient_limit(summary))
        panels.append(with_bar(panel(gradient, levels(t, "poles"), width), "poles"))
    if any(drawn.ndim == 3 for drawn in panels):
        panels = [drawn if drawn.ndim == 3 else palette()[drawn] for drawn in panels]
    height = max(drawn.shape[0] for drawn in panels)
    # Index 0 of the palette is the paper.
    paper = 0 if panels[0].ndim == 2 else 255
    inner = panels[0].shape[2:]
    gap = np.full((height, _GAP * SCALE, *inner), paper, np.uint8)
    parts: list[Image] = []
    for drawn in panels:
        below = np.full((height - drawn.shape[0], drawn.shape[1], *inner), paper, np.uint8)
        parts += [gap, np.concatenate([drawn, below])]
    return np.concatenate(parts[1:], axis=1)


def _coarser(picture: Picture) -> Picture:
    """Merge texels until they are few enough for a file that is saved with the notebook."""
    rows, columns = picture.mean.shape
    by_row, by_column = -(-rows // _TEXELS), -(-columns // _TEXELS)
    if by_row == by_column == 1:
        return picture

    def blocks(array: NDArray[Any], nothing: float) -> NDArray[Any]:
        """Return the texels to merge on the last axis, filled up with what changes nothing."""
        fill = ((0, -rows % by_row), (0, -columns % by_column)) + ((0, 0),) * (array.ndim - 2)
        padded = np.pad(array, fill, constant_values=nothing)
        high, wide = padded.shape[0] // by_row, padded.shape[1] // by_column
        split = padded.reshape(high, by_row, wide, by_column, *padded.shape[2:])
        last = np.moveaxis(split, (1, 3), (-2, -1))
        return last.reshape(*last.shape[:-2], by_row * by_column)

    def mean(array: NDArray[np.float32]) -> NDArray[np.float32]:
        parts = blocks(array, np.nan).astype(np.float64)
        known = np.isfinite(parts)
        count = known.sum(axis=-1)
        total = np.where(known, parts, 0).sum(axis=-1)
        return np.where(count > 0, total / np.maximum(count, 1), np.nan).astype(np.float32)

    return Picture(
        mean=mean(picture.mean),
        minimum=np.fmin.reduce(blocks(picture.minimum, np.nan), axis=-1),
        maximum=np.fmax.reduce(blocks(picture.maximum, np.nan), axis=-1),
        flags=np.bitwise_or.reduce(blocks(picture.flags, 0), axis=-1),
        block=(picture.block[0] * by_row, picture.block[1] * by_column),
        window=picture.window,
        exact=False,
        colors=None if picture.colors is None else mean(picture.colors),
    )


# ----- one axis -----


def _curves(summary: Summary, value: Picture, gradient: Picture | None) -> Image:
    width, margin = _WIDTH * SCALE, 8 * SCALE
    heights = {"value": 112 * SCALE, "gradient": 84 * SCALE}
    parts: list[NDArray[np.float64]] = []
    marks: list[tuple[float, Picture, NDArray[np.float64]]] = []
    for kind, picture in (("value", value), ("gradient", gradient)):
        if picture is None:
            continue
        count = picture.window[3] - picture.window[2]
        block = picture.block[1]
        starts = np.arange(picture.mean.shape[1]) * block
        middle = (starts + np.minimum(starts + block, count) - 1) / 2
        x = margin + middle / max(count - 1, 1) * (width - 2 * margin)
        if count == 1:
            x = np.full(1, width / 2)
        low, high = _extent(picture)
        if kind == "gradient":
            high = max(abs(low), abs(high)) or 1.0
            low = -high
        image = np.full((heights[kind], width, 3), 255.0)
        plot = Plot(image, low, high)
        if kind == "gradient":
            zero = plot.y(np.zeros(1))
            plot.blend(slice(0, width), zero - SCALE / 2, zero + SCALE / 2, "edge", 1.0)
        elif not picture.exact:
            _band(plot, x, picture)
        stroke = (2.0 if kind == "value" else 1.5) * SCALE
        plot.curve(x, picture.mean[0].astype(np.float64), "value", stroke, kind == "gradient")
        zero_y = float(np.clip(plot.y(np.zeros(1))[0], 6 * SCALE, heights[kind] - 6 * SCALE))
        marks.append((sum(p.shape[0] for p in parts) + round(zero_y), picture, x))
        parts.append(image)
        parts.append(np.full((14 * SCALE, width, 3), 255.0))
    result = np.rint(np.clip(np.concatenate(parts[:-1]), 0, 255)).astype(np.uint8)
    for y, picture, x in marks:
        at = np.flatnonzero(picture.flags[0])
        for i in at[thinned(x[at], np.zeros(len(at)))] if len(at) else []:
            mark(result, int(picture.flags[0, i]), float(x[i]), y, 12 * SCALE)
    return result


def _band(plot: Plot, x: NDArray[np.float64], picture: Picture) -> None:
    """Fill from the least to the greatest element of each block."""
    known = np.isfinite(picture.minimum[0])
    if known.any():
        at = np.arange(plot.image.shape[1]) + 0.5
        inside = (at >= x[known][0]) & (at <= x[known][-1])
        first, last = np.flatnonzero(inside)[[0, -1]] if inside.any() else (0, -1)
        columns = slice(int(first), int(last) + 1)
        top = plot.y(np.interp(at[columns], x[known], picture.maximum[0][known].astype(np.float64)))
        bottom = plot.y(np.interp(at[columns], x[known], picture.minimum[0][known].astype(np.float64)))
        plot.blend(columns, top, bottom, "value", 0.2)


def _extent(picture: Picture) -> tuple[float, float]:
    if not np.isfinite(picture.minimum).any():
        return -1.0, 1.0
    low, high = float(np.nanmin(picture.minimum)), float(np.nanmax(picture.maximum))
    if low == high:
        room = abs(low) or 1.0
        return low - room / 2, high + room / 2
    return low, high


# ----- the twins -----


def tensor_png(summary: Summary, value: Picture, gradient: Picture | None) -> bytes:
    """Draw a tensor and its gradient as the widget shows them first.

    Parameters
    ----------
    summary : Summary
        Gives the ranges of the colours.
    value, gradient : Picture
        Of one slice. A tensor with one axis is drawn as a curve with the gradient under it, others side by side.

    Returns
    -------
    bytes
        A PNG of at most 1720 pixels' width, to be shown at half its size.
    """
    return written((_curves if _is_line(summary, value) else _pictures)(summary, value, gradient))


def _is_line(summary: Summary, value: Picture) -> bool:
    return len(summary.shape) == 1 and value.mean.shape[0] == 1
