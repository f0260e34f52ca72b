"""Straight kernels of calls over rows and columns, in which some tensors have a value for each row, others one for each column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import slangpy as spy

from slanglab.device import is_software
from slanglab.engine.straight.arguments import Argument, Refusal, side, table_shape
from slanglab.engine.straight.extents import Crossed
from slanglab.engine.straight.kernel import Access, Straight
from slanglab.engine.straight.strategy import Strategy, choose
from slanglab.engine.target import Target

__all__ = ["LEAST", "Table", "suited"]

LEAST, _LEAST_SOFTWARE = 2**14, 2**8
"""Threads below which a device is not busy with a row or column each."""


def suited(device: spy.Device) -> Strategy:
    """Return the strategy for calls over rows and columns."""
    pointers = choose(device, False).pointers
    if is_software(device):
        # A barrier costs more than the cells that it saves; few threads, so that the cells stay in the cache.
        return Strategy(pointers, 1, 1, group=16, groups=8)
    return Strategy(pointers, 1, 1, group=128, groups=512, together=32)


class Table(Straight):
    """The kernel of one kind of call.

    Parameters
    ----------
    target : Target
    arguments : sequence of Argument
        Some of them rows or columns.
    strategy : Strategy
        Reading element by element.
    axes : int
        How many of a call's axes are those of its rows.
    """

    def __init__(self, target: Target, arguments: Sequence[Argument], strategy: Strategy, axes: int) -> None:
        super().__init__(target, arguments, strategy)
        if self._grids:
            raise Refusal(f"{self._grids[0][0]} is a grid, and others are broadcast over part of the call")
        self._axes = axes
        # As its tensors: a result that is made, or given, is whole.
        self._kinds = [
            "array" if a.role == "result" else a.kind
            for a in self.arguments
            if a.kind not in ("number", "grid") or a.role == "result"
        ]
        self._rank = max((a.rank for a in self.arguments if a.kind != "number"), default=0)
        software = is_software(target.device)
        self._least = _LEAST_SOFTWARE if software else LEAST
        self.extents = self._crossed = Crossed(self.arguments, strategy, axes, software)

    def _shape(self, values: Mapping[str, Any], result: Any) -> tuple[int, ...] | str:
        found: list[tuple[Access, Any, tuple[int, ...]]] = []
        for a, kind in zip(self._tensors, self._kinds, strict=True):
            own = self._own(a, values, result)
            if own is None:
                continue
            if isinstance(own, str):
                return own
            if len(own) > self._rank:
                return f"{a.shown} has {len(own)} axes"
            found.append((a, kind, own))
        over = table_shape([own for _, _, own in found], self._rank)
        for a, kind, own in found:
            if side(own, over, self._axes) != kind:
                return f"{a.shown} is broadcast over another part of the call: {own} over {over}"
        _, threads, inner = self._crossed.lengths(over)
        if threads < self._least:
            return f"of {threads} rows and {inner} columns there is too little to do at a time"
        if not self._crossed.has_room(over):
            return "the gradients of its columns are too many to be summed in cells"
        return over
