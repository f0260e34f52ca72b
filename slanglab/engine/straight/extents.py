"""How many groups a launch of a straight kernel has for a call, and what its threads are told of the call's size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Protocol

from slanglab.engine.straight.arguments import Argument
from slanglab.engine.straight.strategy import Strategy

__all__ = ["Crossed", "Extent", "Extents", "Flat", "cells"]

_LOOPING = 64
"""Groups of a launch in software, each of which costs."""
_BUSY = 64
"""Groups that a launch is not to have less of for want of room."""
_ROOM = 2**24
"""Cells in all."""


@dataclass(frozen=True, slots=True)
class Extent:
    """One launch.

    Attributes
    ----------
    numbers : tuple of int
        What threads are told, by `Extents.names`.
    groups : int
    cells : int
        Partial sums that the groups leave, of eight bytes.
    last : int
        Groups of the kernel that sums them.
    rows : bool
        See `Strategy.rows`.
    """

    numbers: tuple[int, ...]
    groups: int
    cells: int = 0
    last: int = 0
    rows: bool = True


class Extents(Protocol):
    """The launches of a kernel.

    Attributes
    ----------
    names : tuple of str
        What the kernel calls the numbers.
    """

    names: tuple[str, ...]

    def of(self, shape: tuple[int, ...]) -> Extent:
        """Return the launch for a call over `shape`."""


class Flat:
    """Those of a kernel that takes all axes of a call as one."""

    names: tuple[str, ...] = ("count", "step", "slots", "zero")

    def __init__(self, arguments: Sequence[Argument], strategy: Strategy) -> None:
        self._strategy = strategy
        self._sums = sum(a.layout.count for a in arguments if a.kind == "one" and a.gradient)

    def of(self, shape: tuple[int, ...]) -> Extent:
        """Return the launch for a call over `shape`."""
        count = prod(shape)
        groups = self._strategy.groups_for(count)
        return Extent(
            (count, groups * self._strategy.tile, groups, 0), groups, groups * self._sums, self._sums
        )


class Crossed:
    """Those of a kernel over rows and columns.

    Parameters
    ----------
    arguments : sequence of Argument
    strategy : Strategy
    axes : int
        How many of a call's axes are those of its rows.
    software : bool
        Whether groups cost.
    """

    names: tuple[str, ...] = ("count", "step", "slots", "zero", "inner")

    def __init__(self, arguments: Sequence[Argument], strategy: Strategy, axes: int, software: bool) -> None:
        self._strategy = strategy
        self._axes = axes
        self._most = _LOOPING if software else 2**31
        self._sums = {
            rows: sum(a.layout.count for a in arguments if a.kind in ("one", short) and a.gradient)
            for rows, short in ((True, "column"), (False, "row"))
        }

    def lengths(self, shape: tuple[int, ...]) -> tuple[bool, int, int]:
        """Return whether threads take rows, how many rows or columns they take, and through how many each goes."""
        rows, columns = prod(shape[: self._axes]), prod(shape[self._axes :])
        return rows >= columns, max(rows, columns), min(rows, columns)

    def has_room(self, shape: tuple[int, ...]) -> bool:
        """Tell whether there is room for the cells of as many groups as keep a device busy."""
        rows, threads, inner = self.lengths(shape)
        wanted = min(-(-threads // self._strategy.group), self._strategy.groups, _BUSY)
        return not self._sums[rows] or wanted * self._each(rows, inner) <= _ROOM

    def of(self, shape: tuple[int, ...]) -> Extent:
        """Return the launch for a call over `shape`."""
        s = self._strategy
        rows, threads, inner = self.lengths(shape)
        groups = min(-(-threads // s.group), self._most)
        sums = self._sums[rows]
        each = self._each(rows, inner)
        if sums:
            groups = max(1, min(groups, s.groups, _ROOM // each))
        return Extent(
            (threads, groups * s.group, groups, 0, inner), groups, groups * each, inner * sums, rows
        )

    def _each(self, rows: bool, inner: int) -> int:
        """Return the cells of one group."""
        sums = self._sums[rows]
        return inner * cells(sums, self._strategy)[1] * self._strategy.group if sums else 0


def cells(sums: int, strategy: Strategy) -> tuple[int, int]:
    """Return how many gradients a group sums at a time, and in how many goes it sums all; see `Strategy.together`.

    Parameters
    ----------
    sums : int
        Gradients that are summed for each column.
    strategy : Strategy
    """
    together = 1
    while together < min(sums, strategy.together):
        together *= 2
    return together, -(-sums // together)
