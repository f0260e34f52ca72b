"""What a tensor's view has on the screen as SVG: the pictures as embedded texels, everything else as lines and text.

It is drawn on the light page. Text is escaped; nothing is fetched.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slanglab import look
from slanglab.tensors.records import INFINITE_POSITIVE, NOT_A_NUMBER, Picture, Statistics, Summary
from slanglab.tensors.spread import Spread
from slanglab.tensors.wording import dtype_name
from slanglab.widgets.markup import escape
from slanglab.widgets.raster import png, srgb
from slanglab.widgets.scales import Scale, scale
from slanglab.widgets.shown import Choice
from slanglab.widgets.static import gradient_limit, is_image

__all__ = ["tensor_svg"]

_WIDTH = 860
_MARGIN = 12
_GAP = 20
_TABLE = 700  # width of the statistics
_LEFT = 40
_TALLEST = 420
_MARKS = 400
_UI = "system-ui, sans-serif"
_MONO = "ui-monospace, Menlo, Consolas, monospace"


def tensor_svg(
    summary: Summary,
    title: str,
    value: Picture,
    gradient: Picture | None,
    *,
    choices: Mapping[str, Choice],
    spreads: Mapping[str, Spread | None],
    signed: bool = False,
    by: str = "mean",
    overlaid: bool = False,
) -> str:
    """Return an SVG document.

    Parameters
    ----------
    summary : Summary
    title : str
        The code of what is shown; "" leaves it out.
    value, gradient : Picture
    choices : mapping
        By picture; where there is none, the standard.
    spreads : mapping
        Quantiles, for the choices that need them.
    signed : bool
        The values are differences: zero is the middle of their colours.
    by : {'mean', 'max'}
        Which of a texel's numbers is drawn.
    overlaid : bool
        Lay the gradient over the value, in grey, instead of beside it; curves stay as they are.
    """
    parts = [_text(0, 16, title or dtype_name(summary.dtype), 13, weight=600, family=_MONO)]
    facts = f"{look.shape(summary.shape)}  {dtype_name(summary.dtype)}  {summary.device}"
    parts.append(_text(0, 34, facts, 12, color="ink2"))
    top = 52.0
    known = {"value": (value, summary.value), "gradient": (gradient, summary.gradient)}
    panels = [(kind, p, s) for kind, (p, s) in known.items() if p is not None]
    line = len(summary.shape) == 1 and value.mean.shape[0] == 1
    overlaid = overlaid and gradient is not None and not line
    bottom = top
    under: _Drawn | None = None
    for at, (kind, picture, statistics) in enumerate(panels):
        centred = kind == "gradient" or signed
        usual = ("symlog", "99.9") if centred and not line else ("linear", "data")
        choice = choices.get(kind) or Choice(*usual)  # type: ignore[arg-type]
        limit = gradient_limit(summary) if kind == "gradient" else 0.0
        drawn_on = scale(choice, statistics, limit, spreads.get(kind), centred, curve=line)
        numbers = picture.maximum if by == "max" else picture.mean
        if line:
            bottom = _curve(parts, bottom, kind, numbers, picture, drawn_on, centred)
            continue
        width = (_WIDTH - _GAP) / 2
        image = kind == "value" and not signed and not overlaid and is_image(summary, picture)
        drawn = _Drawn(kind, numbers, picture, drawn_on, centred, picture.colors if image else None)
        if not overlaid:
            bottom = max(bottom, _panel(parts, at * (width + _GAP), top, width, drawn))
        elif under is None:
            under = drawn
        else:
            bottom = _panel(parts, 0, top, width, under, drawn)
    bottom = _table(parts, bottom + 18, [(kind, s) for kind, _, s in panels if s is not None])
    width = _WIDTH if line or (len(panels) == 2 and not overlaid) else _TABLE
    size = f"{width + 2 * _MARGIN:g}", f"{bottom + 2 * _MARGIN:g}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[0]}" height="{size[1]}" '
        f'viewBox="{-_MARGIN} {-_MARGIN} {size[0]} {size[1]}" font-family="{_UI}">'
        f'<rect x="{-_MARGIN}" y="{-_MARGIN}" width="100%" height="100%" fill="#fff"/>{"".join(parts)}</svg>'
    )


def _color(name: str) -> str:
    return "#000" if name == "ink" else str(look.tokens()["colors"][name][0])


def _text(
    x: float,
    y: float,
    text: str,
    size: int,
    *,
    color: str = "ink",
    anchor: str = "start",
    weight: int = 400,
    family: str = "",
) -> str:
    fonts = f' font-family="{family}"' if family else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" fill="{_color(color)}" '
        f'text-anchor="{anchor}"{fonts} xml:space="preserve">{escape(text)}</text>'
    )


def _short(x: float) -> str:
    """Write a number of an axis: three figures, and no zeros that say nothing."""
    text = re.sub(r"e([+-])0*(\d)", lambda m: f"e{m[1].strip('+')}{m[2]}", f"{x:.3g}")
    return text.replace("-", look.MINUS)


def _rectangle(x: float, y: float, width: float, height: float, color: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{_color(color)}"/>'


def _head(parts: list[str], x: float, y: float, kind: str) -> None:
    """Draw the square that stands for a value or a gradient, and the word."""
    if kind == "value":
        parts.append(_rectangle(x, y - 9, 9, 9, "value"))
    else:
        parts.append(_rectangle(x, y - 9, 4.5, 9, "neg") + _rectangle(x + 4.5, y - 9, 4.5, 9, "pos"))
    parts.append(_text(x + 15, y, kind, 13, weight=600))


@dataclass(frozen=True, eq=False)
class _Drawn:
    """One picture, and how its numbers become colours."""

    kind: str
    numbers: NDArray[np.float32]
    picture: Picture
    on: Scale
    centred: bool
    colors: NDArray[np.float32] | None

    def texels(self, name: str) -> NDArray[np.uint8]:
        """Return the texels as sRGB."""
        if self.colors is not None:
            return srgb(self.colors)
        t = self.on.to(self.numbers)
        index = np.rint(np.clip(np.where(np.isfinite(t), t, 0), 0, 1) * 255).astype(np.intp)
        wash = [int(_color("wash2")[k : k + 2], 16) for k in (1, 3, 5)]
        return np.where(np.isfinite(t)[..., None], look.colormap(name)[index], wash).astype(np.uint8)

    def over(self) -> NDArray[np.uint8]:
        """Return the texels with an opacity: what lies under them is seen where they are near the middle."""
        t = self.on.to(self.numbers)
        seen = np.clip(np.abs(2 * np.where(np.isfinite(t), t, 0.5) - 1) * 1.25, 0, 1)
        opacity = np.rint(seen * 255).astype(np.uint8)
        return np.concatenate([self.texels(self.map), opacity[..., None]], axis=-1)

    @property
    def map(self) -> str:
        return "poles" if self.centred else "tide"


def _panel(
    parts: list[str], x: float, y: float, width: float, drawn: _Drawn, over: _Drawn | None = None
) -> float:
    """Draw one picture, or one over another, with its axes and its colour bars; return where it ends."""
    _head(parts, x, y + 10, drawn.kind)
    if over is not None:
        parts.append(_text(x + 58, y + 10, "in grey, under its gradient", 12, color="ink2"))
    top, left = y + 18, x + _LEFT
    row0, row1, column0, column1 = drawn.picture.window
    rows, columns = row1 - row0, column1 - column0
    wide = width - _LEFT
    high = min(max(wide * rows / columns, 24.0), float(_TALLEST))
    name = drawn.map if over is None else "greys"
    images = _image(drawn.texels(name), drawn.picture, wide / columns, high / rows)
    if over is not None:
        images += _image(over.over(), over.picture, wide / columns, high / rows)
    parts.append(f'<svg x="{left:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{high:.1f}">{images}</svg>')
    for one in (drawn, over):
        if one is not None:
            _marks(parts, one.picture, left, top, wide / columns, high / rows)
    for at in _places(column0, column1, 5):
        at_x = left + (at - column0 + 0.5) * wide / columns
        parts.append(_text(at_x, top + high + 15, str(at), 11, color="ink2", anchor="middle"))
    for at in _places(row0, row1, 4):
        at_y = top + (at - row0 + 0.5) * high / rows
        parts.append(_text(left - 6, max(at_y + 4, top + 9), str(at), 11, color="ink2", anchor="end"))
    end = top + high + 22
    if drawn.colors is None:
        end = _bar(parts, left, end, wide, name, drawn)
    if over is not None:
        _head(parts, x, end + 22, over.kind)
        end = _bar(parts, left, end + 32, wide, over.map, over)
    return end


def _image(texels: NDArray[np.uint8], picture: Picture, dx: float, dy: float) -> str:
    """Return texels as an embedded PNG, for elements of `dx` x `dy`. The last block may reach over the edge: it is cut there."""
    data = base64.b64encode(png(texels)).decode("ascii")
    width, height = texels.shape[1] * picture.block[1] * dx, texels.shape[0] * picture.block[0] * dy
    return (
        f'<image width="{width:.2f}" height="{height:.2f}" preserveAspectRatio="none" '
        f'style="image-rendering:pixelated" href="data:image/png;base64,{data}"/>'
    )


def _bar(parts: list[str], left: float, y: float, wide: float, name: str, drawn: _Drawn) -> float:
    """Draw a colour bar with its numbers; return where it ends."""
    stops = "".join(
        f'<stop offset="{k / 16:.4f}" stop-color="rgb({",".join(str(c) for c in look.colormap(name)[round(k * 255 / 16)])})"/>'
        for k in range(17)
    )
    parts.append(f'<linearGradient id="{drawn.kind}">{stops}</linearGradient>')
    parts.append(
        f'<rect x="{left + 0.5:.1f}" y="{y + 0.5:.1f}" width="{wide - 1:.1f}" height="7" '
        f'fill="url(#{drawn.kind})" stroke="{_color("line")}"/>'
    )
    last = -np.inf
    for tick in drawn.on.ticks:
        at_x = left + float(drawn.on.to(tick)) * wide
        label = _short(tick)
        room = 6.5 * len(label)
        at_x = min(max(at_x, left + room / 2), left + wide - room / 2)
        if at_x - room / 2 > last + 6:
            parts.append(_text(at_x, y + 20, label, 11, color="ink2", anchor="middle"))
            last = at_x + room / 2
    return y + 24


def _marks(parts: list[str], picture: Picture, left: float, top: float, dx: float, dy: float) -> None:
    row0, row1, column0, column1 = picture.window
    at = np.argwhere(picture.flags)[:_MARKS]
    size = max(3.5, min(7.0, 0.32 * min(dx * picture.block[1], dy * picture.block[0])))
    for row, column in at.tolist():
        y = top + (min((row + 1) * picture.block[0], row1 - row0) + row * picture.block[0]) / 2 * dy
        x = (
            left
            + (min((column + 1) * picture.block[1], column1 - column0) + column * picture.block[1]) / 2 * dx
        )
        parts.append(_mark(int(picture.flags[row, column]), x, y, size))


def _mark(flags: int, x: float, y: float, m: float) -> str:
    if flags & NOT_A_NUMBER:
        path, color = (
            f"M{x - m:.1f} {y - m:.1f}l{2 * m:.1f} {2 * m:.1f}m{-2 * m:.1f} 0l{2 * m:.1f} {-2 * m:.1f}",
            "nan",
        )
    else:
        up = -1 if flags & INFINITE_POSITIVE else 1
        path = f"M{x - m:.1f} {y - up * 0.6 * m:.1f}l{m:.1f} {up * 1.3 * m:.1f}l{m:.1f} {-up * 1.3 * m:.1f}"
        color = "inf"
    shape = f'd="{path}" fill="none" stroke-linecap="round"'
    return (
        f'<path {shape} stroke="#fff" stroke-width="4"/>'
        f'<path {shape} stroke="{_color(color)}" stroke-width="2"/>'
    )


def _places(first: int, end: int, about: int) -> list[int]:
    """Return round indices to label, about so many."""
    step = max(1, (end - first) / about)
    power = 10 ** np.floor(np.log10(step))
    step = max(1, int(next(f for f in (1, 2, 5, 10) if f * power >= step) * power))
    return list(range(-(-first // step) * step, end, step))


def _curve(
    parts: list[str],
    y: float,
    kind: str,
    numbers: NDArray[np.float32],
    picture: Picture,
    drawn_on: Scale,
    centred: bool,
) -> float:
    """Draw a tensor of one axis as a curve; return where it ends."""
    _head(parts, 0, y + 10, kind)
    top, high, left, wide = (
        y + 20,
        (112.0 if kind == "value" else 84.0),
        float(_LEFT),
        float(_WIDTH - _LEFT - 6),
    )

    def height(x: NDArray[np.float64]) -> NDArray[np.float64]:
        # What is out of range is drawn at the edge.
        return top + high - np.clip(drawn_on.to(x), 0, 1) * high

    count = picture.window[3] - picture.window[2]
    block = picture.block[1]
    starts = np.arange(numbers.shape[1]) * block
    x = left + (starts + np.minimum(starts + block, count) - 1) / 2 / max(count - 1, 1) * wide
    heights = height(numbers[0].astype(np.float64))
    middle, last = float(height(np.zeros(1))[0]), math.inf
    for number in drawn_on.ticks:
        at = float(height(np.full(1, number))[0])
        if abs(last - at) < 14:
            continue
        last = at
        parts.append(_rectangle(left, at, wide, 1, "edge" if centred and number == 0 else "line"))
        parts.append(_text(left - 6, at + 4, _short(number), 11, color="ink2", anchor="end"))
    path = ""
    for at_x, at_y in zip(x.tolist(), heights.tolist(), strict=True):
        if np.isfinite(at_y):
            path += f"{'L' if path and not path.endswith(' ') else 'M'}{at_x:.1f} {at_y:.1f}"
        else:
            path += " "
    color = _color("value" if kind == "value" else "ink2")
    parts.append(
        f'<path d="{path}" fill="none" stroke="{color}" stroke-width="1.75" stroke-linejoin="round"/>'
    )
    for at in np.flatnonzero(picture.flags[0])[:_MARKS].tolist():
        parts.append(
            _mark(int(picture.flags[0, at]), float(x[at]), min(max(middle, top + 6), top + high - 6), 4)
        )
    end = top + high
    for at in _places(0, count, 8):
        place = left + at / max(count - 1, 1) * wide
        parts.append(_text(place, end + 15, str(at), 11, color="ink2", anchor="middle"))
    return end + 26


def _table(parts: list[str], y: float, rows: Sequence[tuple[str, Statistics]]) -> float:
    """Write the statistics; return where they end."""
    heads = ("min", "max", "mean", "std", "zero", "NaN", "Inf")
    ends = [170 + 88 * k for k in range(len(heads))]
    parts.append(_text(0, y, "whole tensor", 12, color="ink2"))
    for head, x in zip(heads, ends, strict=True):
        parts.append(_text(x, y, head, 12, color="ink2", anchor="end"))
    for kind, known in rows:
        y += 20
        _head(parts, 0, y, kind)
        measured = [known.minimum, known.maximum, known.mean, known.std]
        cells = ["–" if n is None else look.number(n) for n in measured]
        cells += [look.count(n) for n in (known.zeros, known.nan, known.posinf + known.neginf)]
        for cell, x in zip(cells, ends, strict=True):
            parts.append(_text(x, y, cell, 12, anchor="end", family=_MONO))
    return y + 14
