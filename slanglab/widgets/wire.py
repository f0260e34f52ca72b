"""Numbers on their way between Python and JavaScript, as JSON."""

from __future__ import annotations

import math
from typing import Any

from slanglab.tensors.records import Statistics

__all__ = ["exact", "json", "naturals", "statistics"]


def naturals(x: object, length: int) -> tuple[int, ...] | None:
    """Return a list of that many whole numbers from 0 as a tuple, None for anything else."""
    if not isinstance(x, list) or len(x) != length:
        return None
    return tuple(x) if all(type(n) is int and 0 <= n < 1 << 53 for n in x) else None


def json(x: float | None) -> float | str | None:
    """Write a number for JSON, which has no NaN and no infinities."""
    if x is None or math.isfinite(x):
        return x
    return "nan" if math.isnan(x) else "inf" if x > 0 else "-inf"


def exact(x: Any) -> Any:
    """Write one element for JavaScript, whose numbers end being exact integers at 2^53."""
    if isinstance(x, bool):
        return int(x)
    if isinstance(x, int):
        return x if abs(x) < 1 << 53 else str(x)
    return json(float(x))


def statistics(known: Statistics | None) -> dict[str, Any] | None:
    """Write statistics for the views."""
    if known is None:
        return None
    counts = ("count", "zeros", "nan", "posinf", "neginf")
    measures = ("minimum", "maximum", "mean", "std")
    return {
        **{name: getattr(known, name) for name in counts},
        **{name: json(getattr(known, name)) for name in measures},
    }
