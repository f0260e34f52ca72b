"""Indices outside a tensor's shape, as the checks of `shaders/bounds.slang` report them, made into one error of the call."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from slanglab.errors import CallError

__all__ = ["Place", "error", "is_report"]

_REPORT = re.compile(
    r"slanglab-outside (\d+) (\d+) (\d+) (-?\d+) \{(\d+), (\d+), (\d+), (\d+)\}",
)
_PLACES_SHOWN = 5
_INDICES_SHOWN = 3
_SIZES = 4  # a report has the first four sizes of a shape


@dataclass(frozen=True)
class Place:
    """One place of a cell's text where a tensor is indexed.

    Attributes
    ----------
    cell : str
        The cell as the user knows it ("In[5]"), or a file's path.
    function : str
        Qualified.
    tensor : str
        As written: `t`, `net.weights`.
    line : int
        As the notebook counts.
    """

    cell: str
    function: str
    tensor: str
    line: int


def is_report(line: str) -> bool:
    """Tell whether a printed line is a report of a check and not the user's."""
    return line.startswith("slanglab-outside ") and _REPORT.fullmatch(line) is not None


def error(printed: str, places: Mapping[int, Place], called: str) -> CallError | None:
    """Return the error for what a call printed, or None when all indices were inside.

    Parameters
    ----------
    printed : str
        Everything that the device printed, reports among it.
    places : mapping of int to Place
        By the number in a report.
    called : str
        The function as the user called it: "m.f".
    """
    if "slanglab-outside" not in printed:
        return None
    found: dict[tuple[int, int, tuple[int, ...]], dict[int, int]] = {}
    for line in printed.split("\n"):
        match = _REPORT.fullmatch(line)
        if match is None or int(match[1]) not in places:
            continue
        site, axis, rank, index = (int(match[i]) for i in range(1, 5))
        shape = tuple(int(match[5 + k]) for k in range(min(rank, _SIZES))) + (-1,) * (rank - _SIZES)
        indices = found.setdefault((site, axis, shape), {})
        indices[index] = indices.get(index, 0) + 1
    if not found:
        return None
    order = sorted(found, key=lambda f: (places[f[0]].cell, places[f[0]].line, f))
    sentences = [_sentence(places[f[0]], f[1], f[2], list(found[f]), called) for f in order[:_PLACES_SHOWN]]
    if more := len(order) - len(sentences):
        sentences.append(f"and {more} more places")
    count = sum(n for indices in found.values() for n in indices.values())
    was = "1 index was" if count == 1 else f"{count} indices were"
    return CallError(
        "\n".join(sentences),
        function=called,
        hint=f"{was} outside and moved to the edge, so do not use what this call returned or wrote",
    )


def _sentence(place: Place, axis: int, shape: tuple[int, ...], indices: list[int], called: str) -> str:
    own = called.removesuffix(".bwds").rpartition(".")[2] == place.function.rpartition("::")[2]
    where = f"line {place.line}" if own else f"in {place.function} ({place.cell}), line {place.line}"
    of = place.tensor if len(shape) == 1 else f"axis {axis} of {place.tensor}"
    # A report has four sizes; of a shape with more the rest is not known here.
    sizes = "(" + ", ".join("…" if n < 0 else str(n) for n in shape) + ("," if len(shape) == 1 else "") + ")"
    text = f"{called}: {where}: index {indices[0]} is outside {of}, whose shape is {sizes}"
    others = [str(i) for i in indices[1 : _INDICES_SHOWN + 1]]
    if more := len(indices) - 1 - len(others):
        others.append(f"{more} more")
    return f"{text}; so are {', '.join(others)}" if others else text
