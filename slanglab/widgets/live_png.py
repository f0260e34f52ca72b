"""The still picture of a run, drawn with numpy alone: losses, how gradients are spread, pictures.

It is made when a run ends, so it has to be quick: everything is drawn as indices into one palette.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slanglab import look
from slanglab.training.measuring import PER_DECADE
from slanglab.training.pictures import Shot
from slanglab.training.run import Recorder
from slanglab.training.series import decimated
from slanglab.widgets.raster import SCALE, Plot, covered, ink
from slanglab.widgets.raster import png as encoded

__all__ = ["curve", "occupied", "png"]

Indices = NDArray[np.uint8]

_WIDTH = 860
_LOSS, _STRIP, _SHOT = 176, 104, 160
_GAP = 14
_POINTS = 2000

# ----- palette: a curve over its grid, shades of gray, and both maps; 250 colours -----

_COVER, _GRID = 8, 4
"""Steps of coverage by a curve, and by lines of the grid."""

_SHADES = 32
_MAPS = {"tide": 84, "poles": 85}
_FIRST_SHADE = (_COVER + 1) * (_GRID + 1)
_FIRST = {"tide": _FIRST_SHADE + _SHADES + 1, "poles": _FIRST_SHADE + _SHADES + 1 + _MAPS["tide"]}


@cache
def _palette() -> NDArray[np.uint8]:
    paper, line, value = (ink(name).astype(np.float64) for name in ("paper", "line", "value"))
    grid = paper + np.linspace(0, 1, _GRID + 1)[:, None] * (line - paper)
    over = grid + np.linspace(0, 1, _COVER + 1)[:, None, None] * (value - grid)
    dark = np.array([24.0, 30.0, 38.0])
    shades = paper + np.linspace(0, 1, _SHADES + 1)[:, None] * (dark - paper)
    maps = [
        look.colormap(name)[np.rint(np.linspace(0, 255, steps)).astype(np.intp)]
        for name, steps in _MAPS.items()
    ]
    return np.concatenate([np.rint(over.reshape(-1, 3)), np.rint(shades), *maps]).astype(np.uint8)


class _Ink(Plot):
    """A band of steps of coverage: of the last color that was drawn where curves meet."""

    def blend(
        self,
        columns: slice,
        top: NDArray[np.float64],
        bottom: NDArray[np.float64],
        color: str,
        opacity: float,
    ) -> None:
        row, column, cover = covered(self.image.shape[0], top, bottom)
        steps, unit = (_GRID, 1) if color == "line" else (_COVER, _GRID + 1)
        part = self.image[:, columns]
        before = part[row, column]
        # One curve, one grid: each pixel gets either of them once.
        known = before // unit % (steps + 1) if unit == 1 else before // unit
        part[row, column] = before + (np.maximum(np.rint(cover * opacity * steps), known) - known) * unit


def _band(height: int, width: int) -> NDArray[np.float64]:
    return np.zeros((height, width), np.float32)


def curve(run: Recorder) -> tuple[NDArray[np.float64], NDArray[np.float64], bool]:
    """Return steps and losses of a few points, and whether their scale is logarithmic."""
    loss = run.columns.loss.view()
    at = decimated(loss, _POINTS)
    y = loss[at]
    finite = y[np.isfinite(y)]
    log = bool(finite.size and finite.min() > 0 and finite.max() > 30 * finite.min())
    return at.astype(np.float64), y, log


@dataclass(frozen=True, eq=False)
class _Part:
    """A band of the picture: indices, and what has colours of its own, with where it lies."""

    indices: Indices
    colors: tuple[tuple[int, NDArray[np.uint8]], ...] = ()


def png(run: Recorder) -> bytes | None:
    """Draw losses, the spread of gradients and the pictures, on the light page; None where there is nothing to draw."""
    parts: list[_Part] = []
    x, y, log = curve(run)
    if np.isfinite(y).any():
        parts.append(_Part(_loss(x, y, log, run.total)))
    if run.columns.measured.count and run.columns.gradients:
        parts.append(_Part(_strip(run)))
    if run.shots:
        parts.append(_row(run.shots))
    if not parts:
        return None
    gap = np.zeros((_GAP * SCALE, _WIDTH * SCALE), np.uint8)
    indices = np.concatenate([band for part in parts for band in (part.indices, gap)][:-1])
    if not any(part.colors for part in parts):
        return encoded(indices, _palette())
    image = _palette()[indices]
    top = 0
    for part in parts:
        for left, colors in part.colors:
            image[top : top + colors.shape[0], left : left + colors.shape[1]] = colors
        top += part.indices.shape[0] + gap.shape[0]
    return encoded(image)


def _loss(x: NDArray[np.float64], y: NDArray[np.float64], log: bool, total: int) -> Indices:
    drawn = np.log10(np.where(y > 0, y, np.nan)) if log else y
    drawn = np.where(np.isfinite(drawn), drawn, np.nan)
    low, high = float(np.nanmin(drawn)), float(np.nanmax(drawn))
    if low == high:
        room = abs(low) or 1.0
        low, high = low - room / 2, high + room / 2
    width = _WIDTH * SCALE
    plot = _Ink(_band(_LOSS * SCALE, width), low, high)
    if log:
        for decade in range(math.ceil(low), math.floor(high) + 1):
            at = plot.y(np.full(width, float(decade)))
            plot.blend(slice(0, width), at - SCALE / 2, at + SCALE / 2, "line", 1.0)
    margin = 6 * SCALE
    place = margin + x / max(total - 1, 1) * (width - 2 * margin)
    if len(place) == 1:
        place = np.array([place[0], place[0] + 1.0])
        drawn = np.repeat(drawn, 2)
    plot.curve(place, drawn, "value", 1.5 * SCALE, False)
    return plot.image.astype(np.uint8)


def _strip(run: Recorder) -> Indices:
    count = run.columns.measured.count
    steps = run.columns.measured.view()[:count]
    shares = np.stack(run.columns.spreads[:count])
    width, margin = _WIDTH * SCALE, 6 * SCALE
    # Each column shows the last look before it.
    at = (np.arange(width) - margin) / (width - 2 * margin) * max(run.total - 1, 1)
    chosen = np.searchsorted(steps, at, side="right") - 1
    low, high = occupied(shares)
    shown = shares[:, low:high][:, ::-1] ** 0.4
    shades = (_FIRST_SHADE + np.rint(shown * _SHADES)).astype(np.uint8)[np.clip(chosen, 0, None)].T
    shades[:, ~((chosen >= 0) & (at <= max(run.done, 1)))] = _FIRST_SHADE
    rows = np.arange(_STRIP * SCALE) * len(shades) // (_STRIP * SCALE)
    return shades[rows]


def occupied(shares: NDArray[np.float64]) -> tuple[int, int]:
    """Return the bins to show: those that any step had elements in, in whole decades, three at least."""
    used = np.flatnonzero(shares.any(axis=0))
    if not len(used):
        return 4 * PER_DECADE, 10 * PER_DECADE
    low = used[0] // PER_DECADE * PER_DECADE
    high = -(-(used[-1] + 1) // PER_DECADE) * PER_DECADE
    while high - low < 3 * PER_DECADE:
        low, high = max(0, low - PER_DECADE), min(shares.shape[1], high + PER_DECADE)
    return int(low), int(high)


def _row(shots: list[Shot]) -> _Part:
    width = _WIDTH * SCALE
    image = np.zeros((_SHOT * SCALE, width), np.uint8)
    colors: list[tuple[int, NDArray[np.uint8]]] = []
    left = 0
    for shot in shots:
        for drawn in _drawn(shot):
            if left + drawn.shape[1] > width:
                return _Part(image, tuple(colors))
            if drawn.ndim == 3:
                colors.append((left, drawn))
            else:
                image[: drawn.shape[0], left : left + drawn.shape[1]] = drawn
            left += drawn.shape[1] + 10 * SCALE
    return _Part(image, tuple(colors))


def _drawn(shot: Shot) -> list[NDArray[np.uint8]]:
    high = _SHOT * SCALE
    if shot.kind == "line":
        v = shot.value[0].astype(np.float64)
        if not np.isfinite(v).any():
            return []
        low, top = float(np.nanmin(v)), float(np.nanmax(v))
        room = 0.5 * (abs(low) or 1.0) if low == top else 0.0
        plot = _Ink(_band(high, 240 * SCALE), low - room, top + room)
        x = np.linspace(2 * SCALE, plot.image.shape[1] - 2 * SCALE, max(len(v), 2))
        plot.curve(x, v if len(v) > 1 else np.repeat(v, 2), "value", 2.0 * SCALE, False)
        return [plot.image.astype(np.uint8)]
    found = [_texels(shot.value, "tide", high)]
    if shot.gradient is not None:
        found.append(_texels(shot.gradient, "poles", high))
    return found


def _texels(levels: NDArray[Any], name: str, high: int) -> NDArray[np.uint8]:
    """Enlarge positions on a map, or colours, to so many pixels at most, nearest neighbour."""
    if levels.ndim == 2:
        steps = _MAPS[name] - 1
        levels = (_FIRST[name] + np.rint(levels * (steps / 255))).astype(np.uint8)
    rows, columns = levels.shape[:2]
    wide = int(np.clip(round(high * columns / rows), 24 * SCALE, 300 * SCALE))
    tall = min(high, max(24 * SCALE, round(wide * rows / columns)))
    y = (np.arange(tall) * rows // tall).astype(np.intp)
    x = (np.arange(wide) * columns // wide).astype(np.intp)
    enlarged: NDArray[np.uint8] = levels[y[:, None], x[None, :]]
    return enlarged
