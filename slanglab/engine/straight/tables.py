"""Straight kernels of calls over rows and columns, in which some tensors have a value for each row, others one for each column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import slangpy as spy

from slanglab.device import is_software
from slanglab.engine.straight.arguments import Argument, Refusal, side
from slanglab.engine.straight.kernel import Access, Launch, Straight
from slanglab.engine.straight.loading import Loaded
from slanglab.engine.straight.strategy import Strategy, choose
from slanglab.engine.straight.table_text import cells
from slanglab.engine.target import Target

__all__ = ["Table", "suited"]

_LOOPING = 64
"""Groups of a launch in software without cells, each of which costs."""
_LEAST, _LEAST_SOFTWARE = 2**14, 2**8
"""Threads below which a device is not busy with a row or column each."""
_BUSY = 64
"""Groups that a launch is not to have less of for want of room."""
_ROOM = 2**24
"""Cells in all, of eight bytes."""


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
        self._software = is_software(target.device)
        self._least = _LEAST_SOFTWARE if self._software else _LEAST

    def _sums_of(self, rows: bool) -> int:
        """Return how many gradients are summed for each column where threads take rows, and the other way round."""
        kinds = ("column" if rows else "row", "one")
        return sum(a.layout.count for a in self.arguments if a.kind in kinds and a.gradient)

    def _lengths(self, shape: tuple[int, ...]) -> tuple[bool, int, int]:
        """Return whether threads take rows, how many rows or columns they take, and through how many each goes."""
        rows, columns = prod(shape[: self._axes]), prod(shape[self._axes :])
        return rows >= columns, max(rows, columns), min(rows, columns)

    def _groups(self, threads: int, inner: int, sums: int) -> int:
        """Return how many groups a launch has."""
        s = self.strategy
        groups = -(-threads // s.group)
        if self._software:
            groups = min(groups, _LOOPING)
        if sums:
            _, goes = cells(sums, s)
            groups = min(groups, s.groups, _ROOM // (inner * goes * s.group))
        return groups

    def _shape(self, values: Mapping[str, Any], result: Any) -> tuple[int, ...] | str:
        shape = [1] * self._rank
        found: list[tuple[Access, Any, tuple[int, ...]]] = []
        for a, kind in zip(self._tensors, self._kinds, strict=True):
            own = self._own(a, values, result)
            if own is None:
                continue
            if isinstance(own, str):
                return own
            if len(own) > self._rank:
                return f"{a.shown} has {len(own)} axes"
            for axis, length in enumerate(own, self._rank - len(own)):
                if length != 1:
                    shape[axis] = length
            found.append((a, kind, own))
        over = tuple(shape)
        for a, kind, own in found:
            if side(own, over, self._axes) != kind:
                return f"{a.shown} is broadcast over another part of the call: {own} over {over}"
        rows, threads, inner = self._lengths(over)
        if threads < self._least:
            return f"of {threads} rows and {inner} columns there is too little to do at a time"
        sums = self._sums_of(rows)
        if sums and self._groups(threads, inner, sums) < min(
            self._groups(threads, inner, 0), self.strategy.groups, _BUSY
        ):
            return "the gradients of its columns are too many to be summed in cells"
        return over

    def start(self, launch: Launch, encoder: Any = None, fresh: bool = False) -> Any:
        """Run what `prepare` returned; see `Straight.run`."""
        rows, threads, inner = self._lengths(launch.shape)
        loaded = self._kernel(rows, fresh)
        sums = self._sums_of(rows)
        variables = launch.variables
        returned = self._result(launch)
        groups = self._groups(threads, inner, sums)
        variables |= {
            "count": threads,
            "inner": inner,
            "step": groups * self.strategy.group,
            "zero": 0,
            "slots": groups,
        }
        into = self._device.create_command_encoder() if encoder is None else encoder
        if loaded.last is not None:
            _, goes = cells(sums, self.strategy)
            self._give_cells(variables, groups * inner * goes * self.strategy.group)
        loaded.main.record(into, variables, groups)
        if loaded.last is not None:
            into.global_barrier()
            loaded.last.record(into, variables, inner * sums)
        if encoder is None:
            self._device.submit_command_buffer(into.finish())
        return self._answer(returned)

    def bytes(self, values: Mapping[str, Any], result: Any = None) -> int:
        """Return how many bytes a call reads and writes."""
        launch = self._launch(values, result)
        if isinstance(launch, str):
            return 0
        rows, columns = prod(launch.shape[: self._axes]), prod(launch.shape[self._axes :])
        counts = {"array": launch.count, "one": 1, "row": rows, "column": columns}
        return sum(
            a.layout.count * a.layout.size * counts[a.kind] * (3 if a.gradient else 1)
            for a in self.arguments
            if a.kind in counts
        )

    def compile(self, fresh: bool = False) -> None:
        """Compile the kernel of calls with more rows than columns; the other one when it is needed."""
        self._kernel(True, fresh)

    def _kernel(self, rows: bool, fresh: bool) -> Loaded:
        loaded = self._kernels.get((rows, fresh))
        if loaded is None:
            loaded = self._kernels[rows, fresh] = self._load(replace(self.strategy, rows=rows, fresh=fresh))
        return loaded
