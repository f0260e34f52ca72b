"""The still twins of an explorer: a PNG on the light page, and text with the numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slanglab import look
from slanglab.exploring.evaluate import Floats
from slanglab.exploring.exploration import Exploration, Looked
from slanglab.tensors.records import INFINITE_NEGATIVE, INFINITE_POSITIVE, NOT_A_NUMBER, Picture
from slanglab.widgets.explorer_frames import thinned
from slanglab.widgets.raster import SCALE, Image, Plot, levels, mark, palette, panel, srgb, with_bar, written
from slanglab.widgets.raster import thinned as spaced

__all__ = ["explorer_png", "explorer_text"]

_WIDTH = 860
_MARGIN = 8
_STRIPS = 6
_TEXELS = 128
_WIDTH_PLANE = 480
_OTHERS = ("ink2", "inf", "cost", "ok")
"""Colours of the functions that are compared."""


def explorer_text(explored: Exploration, looked: Looked) -> str:
    """Return the setting and what it gives, as lines of text."""
    here = looked.here
    lines = [explored.made.signature, explored.code]
    for axis in explored.axes:
        lines.append(
            f"{axis.path}: {len(axis.points)} points from {_number(axis.points[0])} to {_number(axis.points[-1])}"
        )
    if explored.axes:
        lines.append(f"value {_range(looked.value)}")
        at = ", ".join(f"{a.path} = {_number(a.value)}" for a in explored.axes)
        lines.append(f"at {at}:")
    lines.append(f"  value  {', '.join(_number(v) for v in np.ravel(here.value))}")
    for (name, _), value in zip(looked.others, explored.others_here(looked), strict=True):
        lines.append(f"  {name}  {_number(value)}")
    width = max((len(path) for path in here.gradients), default=0)
    for path, gradient in here.gradients.items():
        lines.append(
            f"  d/d{path.ljust(width)}  {_number(float(np.ravel(gradient)[0]))}{_verdict(looked, path)}"
        )
    if explored.refused:
        lines.append(explored.refused)
    if explored.descent.path:
        steps, value = len(explored.descent.path) - 1, explored.descent.values[-1]
        end = ", ".join(_number(p) for p in explored.descent.path[-1])
        lines.append(f"{explored.descent.optimizer}: {steps} steps to ({end}), value {_number(value)}")
    return "\n".join([*lines, *looked.notes])


def _verdict(looked: Looked, path: str) -> str:
    quotients = looked.quotients.get(path)
    if quotients is None:
        return ""
    if quotients.reason:
        return f"  differences: {quotients.verdict}, {quotients.reason}"
    return f"  differences: {quotients.verdict}, worst {_number(quotients.worst)}"


def _number(x: float) -> str:
    return look.number(float(x), ascii=True)


def _range(value: Floats) -> str:
    finite = value[np.isfinite(value)]
    words = f"{_number(finite.min())} to {_number(finite.max())}" if finite.size else "nowhere finite"
    missing = value.size - finite.size
    return f"{words}, {look.count(missing)} not finite" if missing else words


def explorer_png(explored: Exploration, looked: Looked) -> bytes | None:
    """Draw what the widget shows, without axes and words; None for a function without axes."""
    if not explored.axes:
        return None
    return written(_curves(explored, looked) if explored.form == "curve" else _plane(explored, looked))


# ----- a curve -----


def _curves(explored: Exploration, looked: Looked) -> Image:
    axis = explored.axes[0]
    chosen = explored.component or 0
    value = looked.value if looked.value.ndim == 1 else looked.value[:, chosen]
    take = thinned([value], _WIDTH)
    take = np.arange(len(value)) if take is None else take
    width = _WIDTH * SCALE
    span = float(axis.points[-1] - axis.points[0]) or 1.0

    def place(x: Floats) -> Floats:
        where: Floats = _MARGIN * SCALE + (x - axis.points[0]) / span * (width - 2 * _MARGIN * SCALE)
        return where

    x = place(axis.points[take])
    here = float(place(np.array([axis.value]))[0])
    parts: list[NDArray[np.float64]] = []
    slope = looked.gradients.get(axis.path)
    others = [(v if v.ndim == 1 else v[:, chosen])[take] for _, v in looked.others]
    top = _band(180, _spanned(value, others), symmetric=False)
    top.curve(x, value[take], "value", 2.0 * SCALE, False)
    for i, other in enumerate(others):
        # What leaves the picture is a gap.
        inside = np.where((other >= top.low) & (other <= top.high), other, np.nan)
        top.curve(x, inside, _OTHERS[i % len(_OTHERS)], 1.5 * SCALE, False)
    if slope is not None and np.isfinite(slope[axis.at]) and np.isfinite(value[axis.at]):
        _tangent(top, axis.points, value, slope, axis.at, place)
    parts.append(top.image)
    for path in list(looked.gradients)[:_STRIPS]:
        gradient = looked.gradients[path][take]
        strip = _band(60, gradient, symmetric=True)
        zero = strip.y(np.zeros(1))
        strip.blend(slice(0, width), zero - SCALE / 2, zero + SCALE / 2, "edge", 1.0)
        strip.curve(x, gradient, "value", 1.5 * SCALE, True)
        parts.append(strip.image)
    gap = np.full((12 * SCALE, width, 3), 255.0)
    image = np.concatenate([piece for part in parts for piece in (part, gap)][:-1])
    column = int(np.clip(round(here), 0, width - 2))
    image[:, column : column + 2] = image[:, column : column + 2] * 0.45 + 0.55 * 32
    result: Image = np.rint(np.clip(image, 0, 255)).astype(np.uint8)
    bad = np.flatnonzero(~np.isfinite(value))
    if len(bad):
        at = place(axis.points[bad])
        for i in spaced(at, np.zeros(len(bad))):
            mark(result, _flag(value[bad[i]]), float(at[i]), 14 * SCALE, 12 * SCALE)
    return result


def _spanned(value: Floats, others: list[Floats]) -> Floats:
    """Return the ends of a picture: all of the function's own values, and of others what is not further off than these span."""
    own, away = value[np.isfinite(value)], np.concatenate([value, *others])
    away = away[np.isfinite(away)]
    if own.size == 0 or own.min() == own.max():
        return np.asarray(away)
    room = own.max() - own.min()
    ends: Floats = np.array([max(away.min(), own.min() - room), min(away.max(), own.max() + room)])
    return ends


def _band(height: int, values: Floats, *, symmetric: bool) -> Plot:
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (-1.0, 1.0)
    if symmetric:
        high = max(abs(low), abs(high)) or 1.0
        low = -high
    elif low == high:
        room = abs(low) or 1.0
        low, high = low - room / 2, high + room / 2
    return Plot(np.full((height * SCALE, _WIDTH * SCALE, 3), 255.0), low, high)


def _tangent(plot: Plot, points: Floats, value: Floats, slope: Floats, at: int, place: Any) -> None:
    """Draw a piece of the line that touches the curve."""
    reach = (points[-1] - points[0]) * 0.14
    ends = np.array([max(points[0], points[at] - reach), min(points[-1], points[at] + reach)])
    x = place(np.linspace(ends[0], ends[1], 200))
    line = value[at] + slope[at] * (np.linspace(ends[0], ends[1], 200) - points[at])
    inside = (line >= plot.low) & (line <= plot.high)
    plot.curve(x, np.where(inside, line, np.nan), "neg" if slope[at] < 0 else "pos", 1.5 * SCALE, False)


# ----- a plane -----


def _flag(x: float) -> int:
    if np.isnan(x):
        return NOT_A_NUMBER
    return 0 if np.isfinite(x) else INFINITE_POSITIVE if x > 0 else INFINITE_NEGATIVE


def _plane(explored: Exploration, looked: Looked) -> Image:
    value = looked.value
    rows, columns = (
        np.unique(np.rint(np.linspace(0, n - 1, min(n, _TEXELS))).astype(np.intp)) for n in value.shape[:2]
    )
    # The second axis grows upward.
    drawn = value[np.ix_(rows[::-1], columns)]
    if explored.form != "image" and drawn.ndim == 3:
        drawn = drawn[..., explored.component or 0]
    flat = drawn if drawn.ndim == 2 else drawn.sum(axis=-1)
    flags = np.zeros(flat.shape, np.uint8)
    flags[np.isnan(flat)] = NOT_A_NUMBER
    flags[np.isposinf(flat)] = INFINITE_POSITIVE
    flags[np.isneginf(flat)] = INFINITE_NEGATIVE
    single = flat.astype(np.float32)
    picture = Picture(
        mean=single,
        minimum=single,
        maximum=single,
        flags=flags,
        block=(1, 1),
        window=(0, len(rows), 0, len(columns)),
        exact=True,
    )
    if drawn.ndim == 3:
        return panel(picture, srgb(drawn.astype(np.float32)), _WIDTH_PLANE * SCALE)
    finite = flat[np.isfinite(flat)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    t = (flat - low) / (high - low) if high > low else np.where(np.isfinite(flat), 0.5, np.nan)
    image = panel(picture, levels(t, "tide"), _WIDTH_PLANE * SCALE)
    colored = palette()[with_bar(image, "tide")]
    _path(colored, image.shape, explored)
    return colored


def _path(image: Image, size: tuple[int, ...], explored: Exploration) -> None:
    """Draw the descent, or the point that is looked at, in black with a halo."""
    across, down = explored.axes
    points = explored.descent.path or [(across.value, down.value)]
    height, width = size[:2]
    track = np.array(points, np.float64)
    x = (track[:, 0] - across.points[0]) / (across.points[-1] - across.points[0] or 1) * (width - 1)
    y = (down.points[-1] - track[:, 1]) / (down.points[-1] - down.points[0] or 1) * (height - 1)
    steps = [np.array([[x[0], y[0]]])]
    for i in range(len(x) - 1):
        count = int(min(4000, max(2, np.hypot(x[i + 1] - x[i], y[i + 1] - y[i]))))
        t = np.linspace(0, 1, count)[:, None]
        steps.append(np.array([x[i], y[i]]) * (1 - t) + np.array([x[i + 1], y[i + 1]]) * t)
    along = np.concatenate(steps)
    for radius, color, where in ((5, 255, along), (2, 20, along), (12, 255, along[-1:]), (9, 20, along[-1:])):
        for px, py in where:
            if -radius <= px < width + radius and -radius <= py < height + radius:
                top, left = max(0, round(py) - radius), max(0, round(px) - radius)
                bottom, right = min(height, round(py) + radius + 1), min(width, round(px) + radius + 1)
                yy, xx = np.mgrid[top:bottom, left:right]
                image[top:bottom, left:right][(yy - py) ** 2 + (xx - px) ** 2 <= radius * radius] = color
