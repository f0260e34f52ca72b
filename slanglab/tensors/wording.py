"""A summary in words: the lines that a view leaves in plain text, and the single one inside lists and tables."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slanglab import look
from slanglab.tensors.records import Statistics, Summary

__all__ = ["dtype_name", "flags", "line", "norm", "range_text", "summary_text"]

_NUMPY_NAMES = {
    "float": "float32",
    "half": "float16",
    "double": "float64",
    "int": "int32",
    "uint": "uint32",
    **{f"{sign}int{bits}_t": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}


def dtype_name(name: str) -> str:
    """Return numpy's name of a scalar type, which the reader of Python code knows; Slang's own name for all else."""
    return _NUMPY_NAMES.get(name, name)


_COLUMNS = ("min", "max", "mean", "std", "zero", "NaN", "+Inf", "-Inf")


def _cells(known: Statistics) -> list[str]:
    measured = (known.minimum, known.maximum, known.mean, known.std)
    counts = (known.zeros, known.nan, known.posinf, known.neginf)
    return [
        *("-" if x is None else look.number(x, ascii=True) for x in measured),
        *(look.count(n, ascii=True) for n in counts),
    ]


def summary_text(
    summary: Summary,
    name: str = "",
    value: NDArray[Any] | None = None,
    gradient: NDArray[Any] | None = None,
) -> str:
    """Say in plain text what the view says: a head line, statistics, and the numbers themselves where they are few.

    Parameters
    ----------
    summary : Summary
    name : str
        The variable's name.
    value, gradient : ndarray, optional
        The elements, of a small tensor.
    """
    size = look.bytes(summary.bytes) + (" + gradient" if summary.gradient is not None else "")
    facts = [f"{dtype_name(summary.dtype)} {look.shape(summary.shape)}", size, summary.device]
    lines = [(f"{name}: " if name else "") + ", ".join(fact for fact in facts if fact)]
    if summary.bytes == 0:
        return lines[0] + "\nEmpty: no elements to show."
    rows = [("value", summary.value), ("gradient", summary.gradient)]
    rows += [(f"{path} {dtype_name(part.dtype)}", part.value) for path, part in summary.fields.items()]
    table = [["", *_COLUMNS]] + [[label, *_cells(known)] for label, known in rows if known is not None]
    widths = [max(len(row[k]) for row in table) for k in range(len(table[0]))]
    for row in table:
        cells = [
            row[0].ljust(widths[0]),
            *(cell.rjust(n) for cell, n in zip(row[1:], widths[1:], strict=True)),
        ]
        lines.append("  ".join(cells).rstrip())
    for label, array in (("value", value), ("gradient", gradient)):
        if array is not None:
            text = np.array2string(np.asarray(array), separator=", ", max_line_width=100, threshold=1000)
            lines += [f"{label}:", text] if "\n" in text else [f"{label}: {text}"]
    return "\n".join([*lines, *summary.notes])


def range_text(known: Statistics | None, *, ascii: bool = False) -> str:
    """Return `0 to 2.31`; "" where there is no finite number."""
    if known is None or known.minimum is None or known.maximum is None:
        return ""
    low, high = (look.number(x, ascii=ascii) for x in (known.minimum, known.maximum))
    return low if low == high else f"{low} to {high}"


def norm(known: Statistics | None) -> float | None:
    """Return the Euclidean norm of the finite numbers; None where there is none."""
    if known is None or known.mean is None or known.std is None:
        return None
    return math.sqrt(known.finite) * math.hypot(known.mean, known.std)


def flags(summary: Summary) -> list[str]:
    """Return what is wrong with a tensor, in a word or two each: counts of what is not finite, a gradient that is zero."""
    found: list[str] = []
    for known, of in ((summary.value, ""), (summary.gradient, " in the gradient")):
        if known is None:
            continue
        for count, word in ((known.nan, "NaN"), (known.posinf, "+Inf"), (known.neginf, "-Inf")):
            if count:
                found.append(f"{look.count(count, ascii=True)} {word}{of}")
    slope = summary.gradient
    if slope is not None and slope.count and slope.zeros == slope.count:
        found.append("gradient all zero")
    return found


def line(summary: Summary) -> str:
    """Return a summary in one line: what stands for a tensor inside lists and dicts."""
    head = f"Tensor {dtype_name(summary.dtype)} {look.shape(summary.shape)}"
    said = []
    known = summary.value
    if known is not None and (text := range_text(known, ascii=True)):
        spread = ""
        if known.mean is not None and known.std is not None and known.count > 1:
            spread = f", {known.mean:.3g} +- {known.std:.2g}"
        said.append(text + spread)
    slope = summary.gradient
    if slope is not None and slope.minimum is not None and slope.maximum is not None:
        most = max(abs(slope.minimum), abs(slope.maximum))
        said.append(f"gradient +-{most:.2g}" if most else "gradient 0")
        if not most:
            return ": ".join(
                [head, "; ".join([*said, *(f for f in flags(summary) if f != "gradient all zero")])]
            )
    said += flags(summary)
    return f"{head}: {'; '.join(said)}" if said else head
