"""The still twins of a live plot: a PNG drawn with numpy, text, and a matplotlib figure for papers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slanglab import look
from slanglab.errors import SlangLabError
from slanglab.training.measuring import DECADES, PER_DECADE
from slanglab.training.pictures import Shot
from slanglab.training.run import Recorder
from slanglab.training.series import decimated
from slanglab.widgets.raster import SCALE, Image, Plot
from slanglab.widgets.raster import png as encoded

__all__ = ["figure", "png", "text"]

_WIDTH = 860
_LOSS, _STRIP, _SHOT = 176, 104, 160
_GAP = 14
_POINTS = 2000


def _curve(run: Recorder) -> tuple[NDArray[np.float64], NDArray[np.float64], bool]:
    """Return steps and losses of a few points, and whether their scale is logarithmic."""
    loss = run.columns.loss.view()
    at = decimated(loss, _POINTS)
    y = loss[at]
    finite = y[np.isfinite(y)]
    log = bool(finite.size and finite.min() > 0 and finite.max() > 30 * finite.min())
    return at.astype(np.float64), y, log


# ----- PNG -----


def png(run: Recorder) -> bytes | None:
    """Draw losses, the spread of gradients and the pictures, on the light page; None where there is nothing to draw."""
    parts: list[NDArray[np.float64]] = []
    x, y, log = _curve(run)
    if np.isfinite(y).any():
        parts.append(_loss(x, y, log, run.total))
    if run.columns.measured.count and run.columns.gradients:
        parts.append(_strip(run))
    if run.shots:
        parts.append(_row(run.shots))
    if not parts:
        return None
    gap = np.full((_GAP * SCALE, _WIDTH * SCALE, 3), 255.0)
    whole: list[NDArray[np.float64]] = []
    for part in parts:
        whole += [part, gap]
    image: Image = np.rint(np.clip(np.concatenate(whole[:-1]), 0, 255)).astype(np.uint8)
    packed = image.astype(np.uint32) @ np.array([65536, 256, 1], np.uint32)
    colors, index = np.unique(packed, return_inverse=True)
    if len(colors) > 256:
        return encoded(image)
    used = np.stack([colors >> 16, colors >> 8 & 255, colors & 255], axis=1).astype(np.uint8)
    return encoded(index.reshape(packed.shape).astype(np.uint8), used)


def _loss(x: NDArray[np.float64], y: NDArray[np.float64], log: bool, total: int) -> NDArray[np.float64]:
    drawn = np.log10(np.where(y > 0, y, np.nan)) if log else y
    drawn = np.where(np.isfinite(drawn), drawn, np.nan)
    low, high = float(np.nanmin(drawn)), float(np.nanmax(drawn))
    if low == high:
        room = abs(low) or 1.0
        low, high = low - room / 2, high + room / 2
    width = _WIDTH * SCALE
    plot = Plot(np.full((_LOSS * SCALE, width, 3), 255.0), low, high)
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
    return plot.image


def _strip(run: Recorder) -> NDArray[np.float64]:
    count = run.columns.measured.count
    steps = run.columns.measured.view()[:count]
    shares = np.stack(run.columns.spreads[:count])
    width, margin = _WIDTH * SCALE, 6 * SCALE
    # Each column shows the last look before it.
    at = (np.arange(width) - margin) / (width - 2 * margin) * max(run.total - 1, 1)
    chosen = np.searchsorted(steps, at, side="right") - 1
    seen = (chosen >= 0) & (at <= max(run.done, 1))
    low, high = occupied(shares)
    shown = shares[:, low:high][:, ::-1] ** 0.4
    rows = np.repeat(np.arange(shown.shape[1]), -(-_STRIP * SCALE // shown.shape[1]))[: _STRIP * SCALE]
    ink = np.where(seen[None, :], shown[np.clip(chosen, 0, None)][:, rows].T, 0.0)
    dark = np.array([24.0, 30.0, 38.0])
    shade = np.rint(ink * 48)[..., None] / 48
    drawn: NDArray[np.float64] = 255.0 + shade * (dark - 255.0)
    return drawn


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


def _row(shots: list[Shot]) -> NDArray[np.float64]:
    width = _WIDTH * SCALE
    image = np.full((_SHOT * SCALE, width, 3), 255.0)
    left = 0
    for shot in shots:
        for drawn in _drawn(shot):
            if left + drawn.shape[1] > width:
                return image
            image[: drawn.shape[0], left : left + drawn.shape[1]] = drawn
            left += drawn.shape[1] + 10 * SCALE
    return image


def _drawn(shot: Shot) -> list[NDArray[np.float64]]:
    high = _SHOT * SCALE
    if shot.kind == "line":
        v = shot.value[0].astype(np.float64)
        if not np.isfinite(v).any():
            return []
        low, top = float(np.nanmin(v)), float(np.nanmax(v))
        room = 0.5 * (abs(low) or 1.0) if low == top else 0.0
        plot = Plot(np.full((high, 240 * SCALE, 3), 255.0), low - room, top + room)
        x = np.linspace(2 * SCALE, plot.image.shape[1] - 2 * SCALE, max(len(v), 2))
        plot.curve(x, v if len(v) > 1 else np.repeat(v, 2), "value", 2.0 * SCALE, False)
        return [plot.image]
    found = [_texels(shot.value, "tide", high)]
    if shot.gradient is not None:
        found.append(_texels(shot.gradient, "poles", high))
    return found


def _texels(levels: NDArray[Any], name: str, high: int) -> NDArray[np.float64]:
    colors = levels if levels.ndim == 3 else look.colormap(name)[levels]
    rows, columns = colors.shape[:2]
    wide = int(np.clip(round(high * columns / rows), 24 * SCALE, 300 * SCALE))
    tall = min(high, max(24 * SCALE, round(wide * rows / columns)))
    y = (np.arange(tall) * rows // tall).astype(np.intp)
    x = (np.arange(wide) * columns // wide).astype(np.intp)
    drawn: NDArray[np.float64] = colors[y[:, None], x[None, :]].astype(np.float64)
    return drawn


# ----- text -----


def text(run: Recorder) -> str:
    """Say what happened: the end, the loss, each parameter."""
    ended = {
        None: "goes on",
        "done": "done",
        "stopped": "stopped",
        "interrupted": "interrupted",
        "nan": "stopped: not finite",
        "error": "ended by an error",
        "left": "left early",
    }[run.stopped]
    lines = [f"{run.name or 'run'}: {ended} at step {run.done} of {run.total}"]
    loss = run.columns.loss.view()
    known = loss[np.isfinite(loss)]
    if len(known):
        first, last, least = known[0], known[-1], known.min()
        lines.append(
            f"  loss {look.number(float(first), ascii=True)} to {look.number(float(last), ascii=True)}, "
            f"least {look.number(float(least), ascii=True)}"
        )
    if run.columns.time.count:
        took = float(run.columns.time.view()[-1])
        lines.append(f"  {run.speed():.4g} steps/s, {look.time(took, ascii=True)}")
    flags = run.flags()
    for name, measure in run.measures.items():
        said = [f"  {name}:"]
        if measure.gradient is not None:
            said.append(f"|gradient| {look.number(measure.gradient, ascii=True)}")
        if measure.update is not None:
            said.append(f"update {look.number(measure.update, ascii=True)}")
        if name in flags:
            said.append(f"({flags[name].text()})")
        if len(said) == 1:
            said.append("no gradient")
        lines.append(" ".join(said))
    if run.trouble is not None:
        lines.append(f"  {run.trouble}")
    if run.error is not None:
        lines.append(f"  {type(run.error).__name__}: {str(run.error).partition(chr(10))[0]}")
    return "\n".join(lines)


# ----- matplotlib -----


def figure(run: Recorder) -> Any:
    """Return losses, norms of gradients and the spread of magnitudes as a matplotlib figure.

    Raises
    ------
    SlangLabError
        Where matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise SlangLabError(
            "A figure needs matplotlib, which is not installed.", hint="pip install matplotlib"
        ) from None
    colors = look.tokens()["colors"]
    measured = run.columns.measured.view()
    rows = 1 + 2 * bool(len(measured) and run.columns.gradients)
    made = Figure(figsize=(6.4, 2.2 * rows), layout="constrained")
    axes = made.subplots(rows, 1, sharex=True, squeeze=False)[:, 0]
    loss = run.columns.loss.view()
    at = decimated(loss, 20000)
    log = _curve(run)[2]
    axes[0].plot(at, loss[at], color=colors["value"][0], linewidth=1.2)
    axes[0].set_ylabel("loss")
    axes[0].set_yscale("log" if log else "linear")
    if rows > 1:
        for name, column in run.columns.gradients.items():
            axes[1].plot(measured, column.view()[: len(measured)], label=name, linewidth=1.0)
        axes[1].set_yscale("log")
        axes[1].set_ylabel("gradient norm")
        axes[1].legend(fontsize="small", frameon=False)
        shares = np.stack(run.columns.spreads[: len(measured)]).T
        edges = 10.0 ** (np.arange(shares.shape[0] + 1) / PER_DECADE + DECADES[0])
        ends = np.concatenate([measured, [max(run.done, measured[-1] + 1)]])
        axes[2].pcolormesh(ends, edges, shares**0.4, cmap="Greys", vmin=0, vmax=1)
        axes[2].set_yscale("log")
        low, high = occupied(shares.T)
        axes[2].set_ylim(edges[low], edges[high])
        axes[2].set_ylabel("|gradient|")
    axes[-1].set_xlabel("step")
    return made
