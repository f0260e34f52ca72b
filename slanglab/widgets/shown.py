"""What a view shows, as plain data: the slice, its window, reduced axes, the choice of colours; and that as Python."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from slanglab.tensors import sources
from slanglab.widgets import wire

__all__ = ["Choice", "Shown", "as_numpy", "read_choice", "read_pooled"]

ScaleName = Literal["linear", "symlog", "rank"]
RangeName = Literal["data", "99.9", "99", "3 sigma", "typed"]
Reduction = Literal["mean", "max"]

_SCALES = ("linear", "symlog", "rank")
_RANGES = ("data", "99.9", "99", "3 sigma", "typed")


@dataclass(frozen=True)
class Choice:
    """How numbers become colours.

    Attributes
    ----------
    scale : {'linear', 'symlog', 'rank'}
        'rank' only for what is centred at zero.
    range : {'data', '99.9', '99', '3 sigma', 'typed'}
        The extremes, the middle 99.9 or 99 percent (of what is centred at zero: of the magnitudes), three standard deviations about
        the mean, or `lo` to `hi`.
    lo, hi : float
        Of what is centred at zero `hi` alone counts.
    """

    scale: ScaleName = "linear"
    range: RangeName = "data"
    lo: float = 0.0
    hi: float = 1.0


def read_choice(x: object, centred: bool) -> Choice | None:
    """Return a choice that a browser sent; None for anything else."""
    if not isinstance(x, Mapping):
        return None
    scale, range_, lo, hi = (x.get(key) for key in ("scale", "range", "lo", "hi"))
    if scale not in _SCALES[: 2 + centred] or range_ not in _RANGES:
        return None
    if not all(type(n) in (int, float) and math.isfinite(n) for n in (lo, hi)):  # type: ignore[arg-type]
        return None
    return Choice(
        cast(ScaleName, scale), cast(RangeName, range_), float(cast(float, lo)), float(cast(float, hi))
    )


def read_pooled(x: object, leading: tuple[int, ...]) -> tuple[tuple[int, ...], Reduction] | None:
    """Return the axes to reduce, and how, that a browser sent; None where it is nothing of the kind.

    Parameters
    ----------
    x : object
    leading : tuple of int
        The axes that may be reduced.
    """
    if x is None:
        return (), "mean"
    if not isinstance(x, Mapping) or x.get("by") not in ("mean", "max"):
        return None
    axes = x.get("axes")
    if not isinstance(axes, list) or wire.naturals(axes, len(axes)) is None or not set(axes) <= set(leading):
        return None
    return tuple(sorted(set(axes))), x["by"]


@dataclass
class Shown:
    """The part of a tensor that a view shows.

    Attributes
    ----------
    index : tuple of int
        The position on each axis that is not drawn, 0 on the others.
    window : (int, int, int, int) or None
        row0, row1, column0, column1; None for all.
    pooled : tuple of int
        The axes that are reduced, by `by`.
    choices : dict
        By picture ('value', 'gradient'), as far as the reader chose.
    """

    index: tuple[int, ...] = ()
    window: tuple[int, int, int, int] | None = None
    pooled: tuple[int, ...] = ()
    by: Reduction = "mean"
    choices: dict[str, Choice] = field(default_factory=dict)

    def code(self, base: str, suffix: str, row: int | None, column: int | None, channel: int | None) -> str:
        """Return what is shown as Python.

        Parameters
        ----------
        base, suffix : str
            What is sliced, and what makes a NumPy array of it: reductions are NumPy's.
        row, column, channel : int or None
            The axes that are drawn.
        """
        parts: list[str] = []
        for axis, at in enumerate(self.index):
            if axis in (row, column) and self.window is not None:
                first, last = self.window[:2] if axis == row else self.window[2:]
                parts.append(f"{first}:{last}")
            else:
                parts.append(":" if axis in (row, column, channel) or axis in self.pooled else str(at))
        place = f"[{', '.join(parts)}]" if parts else ""
        turned = ""
        if row is not None and column is not None and row > column:
            turned = ".T" if channel is None else ".swapaxes(0, 1)"
        if not self.pooled:
            return base + (suffix if turned else "") + place + turned
        # Axes that an index has taken away are not counted any more.
        kept = [axis for axis, part in enumerate(parts) if ":" in part]
        axes = tuple(kept.index(axis) for axis in self.pooled)
        return f"{base}{suffix}{place}.{self.by}(axis={axes[0] if len(axes) == 1 else axes}){turned}"


def as_numpy(tensor: Any) -> str:
    """Return the Python text that makes a NumPy array of a tensor when it is put behind its name."""
    if sources.is_tensor(tensor):
        return ".to_numpy()"
    return ".detach().cpu().numpy()" if type(tensor).__module__.partition(".")[0] == "torch" else ""
