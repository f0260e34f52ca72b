"""Drawing a still picture with numpy alone: texels, marks, curves, and the PNG around them.

Everything is drawn on the light page, at `SCALE` pixels of the PNG per pixel of the page.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slanglab import look
from slanglab.tensors.records import INFINITE_POSITIVE, NOT_A_NUMBER, Picture

__all__ = [
    "SCALE",
    "TALLEST",
    "Image",
    "Plot",
    "covered",
    "ink",
    "levels",
    "mark",
    "palette",
    "panel",
    "png",
    "srgb",
    "thinned",
    "with_bar",
    "written",
]

Image = NDArray[np.uint8]
"""sRGB of shape (height, width, 3), or indices of shape (height, width) into `palette()`."""

SCALE = 2
"""Pixels of the PNG per pixel of the page."""

TALLEST = 420
"""Height of a picture at most, in pixels of the page."""


# ----- PNG -----


def png(pixels: NDArray[np.uint8], palette: NDArray[np.uint8] | None = None) -> bytes:
    """Write a PNG.

    Parameters
    ----------
    pixels : ndarray of uint8
        sRGB of shape (height, width, 3), with opacity of shape (height, width, 4), or indices of shape (height, width) into `palette`.
    palette : ndarray of uint8, shape (n, 3), optional
        n is 256 at most.

    Source: Portable Network Graphics Specification (Third Edition), W3C, 2023.
    """
    height, width = pixels.shape[:2]
    kind = 3 if palette is not None else 6 if pixels.shape[2] == 4 else 2
    rows = np.zeros((height, 1 + pixels[0].size), np.uint8)
    rows[:, 1:] = pixels.reshape(height, -1)
    # A row like the one above is told as no difference to it (filter 2): texels are several pixels high, and to find that out
    # is what takes a compressor its time.
    alike = np.flatnonzero((rows[1:] == rows[:-1]).all(axis=1)) + 1
    rows[alike] = 0
    rows[alike, 0] = 2
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0))]
    if palette is not None:
        chunks.append((b"PLTE", palette.astype(np.uint8).tobytes()))
    # Levels above 6 take up to two times as long and give the same size within a tenth.
    chunks += [(b"IDAT", zlib.compress(rows.tobytes(), 6)), (b"IEND", b"")]
    body = b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + body


def written(image: Image) -> bytes:
    """Write a drawing as a PNG: by a palette where 256 colours are enough, which takes less room.

    Parameters
    ----------
    image : ndarray of uint8
        sRGB of shape (height, width, 3), with opacity of shape (height, width, 4), or indices of shape (height, width) into `palette()`.
    """
    if image.ndim == 2:
        return png(image, palette())
    packed = image.astype(np.uint32) @ np.array([65536, 256, 1], np.uint32)
    colors, index = np.unique(packed, return_inverse=True)
    if len(colors) > 256:
        return png(image)
    used = np.stack([colors >> 16, colors >> 8 & 255, colors & 255], axis=1).astype(np.uint8)
    return png(index.reshape(packed.shape).astype(np.uint8), used)


# ----- colours -----

_NAMED = ("paper", "wash2", "nan", "inf", "line")
# A PNG has 256 colours at most. The odd number puts a colour of its own at zero, the middle of poles.
_STEPS = {"tide": 120, "poles": 121}


def ink(name: str) -> NDArray[np.uint8]:
    """Return a token of the light page, or `paper`, as sRGB of shape (3,)."""
    text = "#ffffff" if name == "paper" else look.tokens()["colors"][name][0]
    return np.array([int(text[i : i + 2], 16) for i in (1, 3, 5)], np.uint8)


@cache
def palette() -> NDArray[np.uint8]:
    """Return the colours of pictures, shape (n, 3): the named ones, then both maps in steps."""
    parts = [np.stack([ink(name) for name in _NAMED])]
    for name, steps in _STEPS.items():
        parts.append(look.colormap(name)[np.rint(np.linspace(0, 255, steps)).astype(np.intp)])
    return np.concatenate(parts)


def _ink(image: Image, name: str) -> Any:
    """Return what paints an image: an index, or a colour where it is sRGB."""
    return _NAMED.index(name) if image.ndim == 2 else ink(name)


def levels(t: NDArray[np.float64], map_name: str) -> Image:
    """Turn positions on a map into palette indices; NaN gets the wash of a cell without a number."""
    first = len(_NAMED) + (_STEPS["tide"] if map_name == "poles" else 0)
    finite = np.isfinite(t)
    step = np.rint(np.clip(np.where(finite, t, 0.0), 0, 1) * (_STEPS[map_name] - 1))
    return np.where(finite, first + step, _NAMED.index("wash2")).astype(np.uint8)


# ----- marks -----


def _stencil(flags: int, size: float) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return the stroke and the halo of a mark: × for NaN, ∧ for +Inf, ∨ for −Inf; `size` is half its width."""
    reach = int(np.ceil(size)) + 2 * SCALE + 1
    y, x = np.mgrid[-reach : reach + 1, -reach : reach + 1].astype(np.float64)
    if flags & NOT_A_NUMBER:
        lines = [((-size, -size), (size, size)), ((size, -size), (-size, size))]
    else:
        up = -1.0 if flags & INFINITE_POSITIVE else 1.0
        tip = (0.0, up * size * 0.7)
        lines = [((-size, -up * size * 0.6), tip), ((size, -up * size * 0.6), tip)]
    distance = np.full(x.shape, np.inf)
    for (x0, y0), (x1, y1) in lines:
        dx, dy = x1 - x0, y1 - y0
        along = np.clip(((x - x0) * dx + (y - y0) * dy) / (dx * dx + dy * dy), 0, 1)
        distance = np.minimum(distance, np.hypot(x - x0 - along * dx, y - y0 - along * dy))
    return distance <= SCALE, distance <= 2 * SCALE


def mark(image: Image, flags: int, x: float, y: float, cell: float) -> None:
    """Draw a mark around a pixel, 7 page pixels across at least."""
    size = max(3.5, min(7.0, cell / SCALE * 0.32)) * SCALE
    stroke, halo = _stencil(flags, size)
    reach = stroke.shape[0] // 2
    height, width = image.shape[:2]
    # A mark at the edge stays whole: it moves inside.
    cy = int(np.clip(round(y), min(reach, height // 2), max(height - 1 - reach, height // 2)))
    cx = int(np.clip(round(x), min(reach, width // 2), max(width - 1 - reach, width // 2)))
    top, left = max(0, cy - reach), max(0, cx - reach)
    part = image[top : cy + reach + 1, left : cx + reach + 1]
    cut = (
        slice(top - cy + reach, top - cy + reach + part.shape[0]),
        slice(left - cx + reach, left - cx + reach + part.shape[1]),
    )
    part[halo[cut]] = _ink(image, "paper")
    part[stroke[cut]] = _ink(image, "nan" if flags & NOT_A_NUMBER else "inf")


def thinned(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the marks to draw: at most one in each square of 9 page pixels, the first of each."""
    pitch = 9 * SCALE
    cells = np.floor(y / pitch).astype(np.int64) * (1 << 32) + np.floor(x / pitch).astype(np.int64)
    return np.sort(np.unique(cells, return_index=True)[1])


# ----- pictures -----


def panel(picture: Picture, colors: Image, width: int) -> Image:
    """Draw texels as large as they fit, nearest neighbour, with marks."""
    row0, row1, column0, column1 = picture.window
    rows, columns = row1 - row0, column1 - column0
    high = width * rows / columns
    if high > TALLEST * SCALE:
        height = TALLEST * SCALE
        width = max(round(height * columns / rows), width // 3)
    else:
        height = max(round(high), 24 * SCALE)
    block_rows, block_columns = picture.block
    y = np.floor((np.arange(height) + 0.5) * rows / height / block_rows).astype(np.intp)
    x = np.floor((np.arange(width) + 0.5) * columns / width / block_columns).astype(np.intp)
    image = colors[y[:, None], x[None, :]]
    at_row, at_column = np.nonzero(picture.flags)
    if len(at_row):
        # The middle of each block, of what is inside the tensor.
        mid_y = (np.minimum((at_row + 1) * block_rows, rows) + at_row * block_rows) / 2 * height / rows
        mid_x = (
            (np.minimum((at_column + 1) * block_columns, columns) + at_column * block_columns)
            / 2
            * width
            / columns
        )
        cell = min(block_rows * height / rows, block_columns * width / columns)
        for i in thinned(mid_x, mid_y):
            mark(image, int(picture.flags[at_row[i], at_column[i]]), mid_x[i], mid_y[i], cell)
    return image


def with_bar(image: Image, map_name: str) -> Image:
    """Put the colour map under a picture of indices."""
    width = image.shape[1]
    space = np.full((6 * SCALE, width), _ink(image, "paper"), np.uint8)
    t = np.linspace(0, 1, width)
    bar = np.repeat(levels(t[None, :], map_name), 7 * SCALE, axis=0)
    line = _ink(image, "line")
    bar[[0, -1]] = line
    bar[:, [0, -1]] = line
    return np.concatenate([image, space, bar])


def srgb(colors: NDArray[np.float32]) -> Image:
    """Encode linear light as sRGB."""
    v = np.clip(np.nan_to_num(colors[..., :3].astype(np.float64)), 0, 1)
    encoded = np.where(v <= 0.0031308, 12.92 * v, 1.055 * v ** (1 / 2.4) - 0.055)
    image: Image = np.rint(encoded * 255).astype(np.uint8)
    return image


# ----- curves -----


def covered(
    height: int, top: NDArray[np.float64], bottom: NDArray[np.float64]
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float64]]:
    """Return the pixels between two heights in each of some columns: rows, columns, and which part of each is covered.

    Parameters
    ----------
    height : int
        Rows there are.
    top, bottom : ndarray of float64, shape (columns,)
        From the top; nothing lies between where `bottom` is not the greater one.
    """
    first = np.floor(np.clip(top, 0, height)).astype(np.intp)
    counts = np.maximum(np.ceil(np.clip(bottom, 0, height)).astype(np.intp) - first, 0)
    counts[~(bottom > top)] = 0
    column = np.repeat(np.arange(len(counts)), counts)
    row = np.arange(len(column)) - np.repeat(np.cumsum(counts) - counts - first, counts)
    cover = np.minimum(row + 1.0, bottom[column]) - np.maximum(row, top[column])
    return row, column, np.clip(cover, 0, 1)


@dataclass
class Plot:
    """A band of an image with a vertical scale; blends strokes and areas with their coverage of each pixel."""

    image: NDArray[np.float64]
    low: float
    high: float

    def y(self, v: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the heights of values, from the top of the band, with 6 % of the range free above and below."""
        unit = max(abs(self.low), abs(self.high)) or 1.0
        pad = 0.06
        span = (self.high / unit - self.low / unit) or 1.0
        t = (v / unit - self.low / unit + span * pad) / (span * (1 + 2 * pad))
        height: NDArray[np.float64] = (1 - t) * self.image.shape[0]
        return height

    def blend(
        self,
        columns: slice,
        top: NDArray[np.float64],
        bottom: NDArray[np.float64],
        color: str,
        opacity: float,
    ) -> None:
        """Fill between two heights in each of some columns."""
        row, column, cover = covered(self.image.shape[0], top, bottom)
        # Sixteen steps of coverage look the same as all, and leave few enough colours for a palette.
        alpha = (np.rint(cover * 16) / 16 * opacity)[:, None]
        part = self.image[:, columns]
        before = part[row, column]
        part[row, column] = before + alpha * (ink(color).astype(np.float64) - before)

    def curve(
        self, x: NDArray[np.float64], v: NDArray[np.float64], color: str, width: float, area: bool
    ) -> None:
        """Draw a curve with gaps where it is NaN; `area` fills it to zero."""
        finite = np.isfinite(v)
        starts = np.flatnonzero(finite & ~np.concatenate([[False], finite[:-1]]))
        ends = np.flatnonzero(finite & ~np.concatenate([finite[1:], [False]])) + 1
        for start, end in zip(starts, ends, strict=True):
            first = int(np.clip(np.floor(x[start] - width / 2), 0, self.image.shape[1] - 1))
            last = int(np.clip(np.ceil(x[end - 1] + width / 2), first + 1, self.image.shape[1]))
            at = np.arange(first, last) + 0.5
            y = self.y(v[start:end])
            # The heights a column's curve takes: at its edges and in its middle (there is no more than one point in it).
            heights = np.stack([np.interp(at + d, x[start:end], y) for d in (-0.5, 0.0, 0.5)])
            low, high = heights.min(axis=0), heights.max(axis=0)
            columns = slice(first, last)
            if area:
                zero = float(self.y(np.zeros(1))[0])
                self.blend(columns, np.minimum(heights[1], zero), np.full(last - first, zero), "pos", 0.2)
                self.blend(columns, np.full(last - first, zero), np.maximum(heights[1], zero), "neg", 0.2)
                above = heights[1] <= zero
                half = width / 2
                for sign, mine in (("pos", above), ("neg", ~above)):
                    far = np.where(mine, low - half, np.inf)
                    self.blend(columns, far, np.where(mine, high + half, -np.inf), sign, 1.0)
            else:
                self.blend(columns, low - width / 2, high + width / 2, color, 1.0)
