"""Straight kernels for addresses, whoever has the memory there: that of another library, which need not be copied for a call.

CUDA's driver launches them in any of CUDA's streams: slangpy's own launch takes some 14 µs on an H200's host and goes to a stream of
slangpy's, this one takes 6, and with it a call can be part of what another library has under way, of a captured CUDA graph too.
A software renderer has the addresses of this process, and slangpy launches them there.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import slangpy as spy

from slanglab import waiting
from slanglab.device import is_software
from slanglab.engine.straight import tables
from slanglab.engine.straight.arguments import Argument, Refusal, call_shape, classify, outer, values_of
from slanglab.engine.straight.extents import Crossed, Extent, Extents, Flat
from slanglab.engine.straight.kernel import check_target, suited
from slanglab.engine.straight.launching import CODES, packing
from slanglab.engine.straight.loading import Code, code, load
from slanglab.engine.straight.strategy import Strategy, choose
from slanglab.engine.target import Target
from slanglab.guard import KernelRefusedError
from slanglab.machine import addresses
from slanglab.machine.cuda import Function

__all__ = ["Bare", "build", "shares_addresses"]

_CELLS = "cells"
_CELL_BYTES = 8
_FEW = 64
"""Rows or columns that few threads may go through: that takes less time than another way of launching the call."""
_ALIGNED = 16
"""Bytes: the driver reads a struct to its end, which is a multiple of its widest member."""


def build(target: Target, values: Mapping[str, Any], result: Any, *, fresh: bool = False) -> Bare | str:
    """Make the kernel for a kind of call.

    Parameters
    ----------
    target : Target
        On a CUDA device, or on one that `shares_addresses`.
    values : dict of str to object
        The arguments of a call of that kind, converted, by parameter.
    result : object
        Its `_result`.
    fresh : bool
        Whether a backward call writes its gradients, or adds to them.

    Returns
    -------
    Bare or str
        The kernel, or in words why there is none.
    """
    try:
        check_target(target)
        found, axes = classify(target, values, result, tables=True)
        if not any(a.kind == "array" for a in found) and not axes:
            raise Refusal("no argument is an array")
        if axes and any(a.kind == "grid" for a in found):
            raise Refusal("an argument is a grid, and others are broadcast over part of the call")
        over = call_shape(
            [
                (a, outer(v, a))
                for a, v in zip(found, values_of(target, values, result), strict=True)
                if a.rank
            ]
        )
        made = _InCuda if target.device.info.type == spy.DeviceType.cuda else _Here
        strategy = tables.suited(target.device) if axes else suited(target, found)
        kernel = made(target, found, replace(strategy, fresh=fresh, bare=True), axes)
        kernel.compile(over)
        return kernel
    except (Refusal, KernelRefusedError) as refusal:
        return str(refusal)
    except RuntimeError as error:  # the driver does not take it
        return str(error)


def shares_addresses(device: spy.Device) -> bool:
    """Tell whether a device that computes on this processor reads and writes memory of this process by its addresses."""
    if not is_software(device) or not choose(device, False).pointers:
        return False
    expected = secrets.token_bytes(64)
    buffer = device.create_buffer(
        size=len(expected),
        usage=spy.BufferUsage.unordered_access,
        data=np.array(np.frombuffer(expected, np.uint8)),
    )
    waiting.wait(device)
    return addresses.holds(buffer.device_address, expected)


class Bare(ABC):
    """The kernel of one kind of call.

    Parameters
    ----------
    target : Target
    arguments : sequence of Argument
    strategy : Strategy

    Attributes
    ----------
    arguments : tuple of Argument
    names : tuple of str
        What `launch` takes, in that order, by what the kernel calls it: addresses, numbers.
    group_shape : tuple of int
    alignment : int
        The arrays begin at multiples of so many bytes; 1 where each number's own will do.
    axes : int
        How many of a call's axes are those of its rows; 0 where no argument is a row or a column.
    """

    names: tuple[str, ...]

    def __init__(self, target: Target, arguments: Sequence[Argument], strategy: Strategy, axes: int) -> None:
        self.arguments = tuple(arguments)
        self.group_shape = (strategy.group,)
        self.alignment = _ALIGNED if strategy.width > 1 else 1
        self.axes = axes
        self._target, self._strategy = target, strategy
        self._crossed = Crossed(arguments, strategy, axes, is_software(target.device)) if axes else None
        self._extents: Extents = self._crossed or Flat(arguments, strategy)
        self._kernels: dict[bool, Any] = {}
        """By whether threads take rows, what `compile` made; None where it could make nothing."""
        self._seen: tuple[tuple[int, ...], Extent] = (), Extent((), 0)

    def _extent(self, shape: tuple[int, ...]) -> Extent:
        """Return the launch for a call over `shape`, which mostly is that of the last call."""
        seen = self._seen
        if seen[0] != shape or not seen[1].groups:
            seen = self._seen = shape, self._extents.of(shape)
        return seen[1]

    def takes(self, shape: tuple[int, ...]) -> bool:
        """Tell whether a call over `shape` is one for this kernel: not one in which few threads would have all to do."""
        if self._crossed is None:
            return True
        _, threads, inner = self._crossed.lengths(shape)
        fits = (inner <= _FEW or threads >= tables.LEAST) and self._crossed.has_room(shape)
        return fits and self._has(shape)

    def _has(self, shape: tuple[int, ...]) -> bool:
        """Tell whether there is a kernel for the way round that a call over `shape` has, compiling it at the first of that way."""
        rows = self._extent(shape).rows
        if rows not in self._kernels:
            names = self.names
            try:
                self.compile(shape)
                if self.names != names:  # by which callers have ordered what they give
                    raise Refusal("the other way round its arguments lie in another order")
            except (Refusal, KernelRefusedError, RuntimeError):
                self.names = names
                self._kernels[rows] = None
        return self._kernels[rows] is not None

    def room(self, shape: tuple[int, ...]) -> int:
        """Return how many bytes a launch for a call over `shape` needs for what its groups sum up."""
        return self._extent(shape).cells * _CELL_BYTES

    @abstractmethod
    def compile(self, shape: tuple[int, ...]) -> None:
        """Compile the kernel for calls over a shape like this one.

        Raises
        ------
        Refusal
        KernelRefusedError
        """

    def launch(
        self, shape: tuple[int, ...], values: Sequence[Any], stream: int, room: int, owners: object
    ) -> None:
        """Launch the kernel; on a software renderer wait for it too.

        Parameters
        ----------
        shape : tuple of int
            Of a call that the kernel `takes`, 1 to 2^31 - 1 elements.
        values : sequence of int or float
            By `names`; the arrays are contiguous.
        stream : int
            CUDA's handle. The device's context is current.
        room : int
            Address of so many bytes as `room` says; nothing else uses them until the kernel is done.
        owners : object
            What the memory belongs to.
        """
        extent = self._extent(shape)
        self._start(self._kernels[extent.rows], extent, values, stream, room, owners)

    @abstractmethod
    def _start(
        self, kernel: Any, extent: Extent, values: Sequence[Any], stream: int, room: int, owners: object
    ) -> None:
        """Launch one of `_kernels`; see `launch`."""


class _InCuda(Bare):
    """One that CUDA's driver launches."""

    def compile(self, shape: tuple[int, ...]) -> None:
        rows = self._extent(shape).rows
        text, made = code(self._target, self.arguments, replace(self._strategy, rows=rows))
        self.names, pack = _order(text.fields, made[0], self._extents.names)
        if any(m.places != made[0].places for m in made):
            raise Refusal("its two kernels take their arguments in different ways")
        functions = [Function(self._target.device, m.ptx, m.entry, self._strategy.group) for m in made]
        self._kernels[rows] = pack, functions[0], functions[1] if text.sums else None

    def _start(
        self, kernel: Any, extent: Extent, values: Sequence[Any], stream: int, room: int, owners: object
    ) -> None:
        pack, main, last = kernel
        given = pack(*extent.numbers, *values) if last is None else pack(*extent.numbers, *values, room)
        main.launch(given, extent.groups, stream)
        if last is not None:
            last.launch(given, extent.last, stream)


class _Here(Bare):
    """One that a software renderer runs, with this process's own addresses."""

    def compile(self, shape: tuple[int, ...]) -> None:
        rows = self._extent(shape).rows
        loaded = self._kernels[rows] = load(self._target, self.arguments, replace(self._strategy, rows=rows))
        self.names = tuple(n for n in loaded.main.fields if n not in (*self._extents.names, _CELLS))

    def _start(
        self, kernel: Any, extent: Extent, values: Sequence[Any], stream: int, room: int, owners: object
    ) -> None:
        given = dict(zip(self.names, values, strict=True))
        given |= dict(zip(self._extents.names, extent.numbers, strict=True))
        given[_CELLS] = room
        device = self._target.device
        encoder = device.create_command_encoder()
        kernel.main.record(encoder, given, extent.groups)
        if kernel.last is not None:
            encoder.global_barrier()
            kernel.last.record(encoder, given, extent.last)
        device.submit_command_buffer(encoder.finish())
        try:
            waiting.wait(device)
        except BaseException:  # Interrupt ends the wait, not the kernel, which goes on to write there
            _left.append(owners)
            raise


_left: list[object] = []
"""What owns memory that kernels nobody waited for may still write."""


def _order(fields: Mapping[str, str], made: Code, head: tuple[str, ...]) -> tuple[tuple[str, ...], Any]:
    """Return the arguments that a launch takes, and what packs them, behind those of every kernel and before the room for sums."""
    ordered = sorted(fields, key=lambda name: made.places[name])
    if tuple(ordered[: len(head)]) != head or made.places[head[0]] != 0:
        raise Refusal("its arguments do not lie as they were written")
    placed = []
    for name in ordered:
        kind = fields[name]
        letter = "Q" if kind.endswith("*") else CODES.get(kind)
        if letter is None:
            raise Refusal(f"an argument is a {kind}")
        placed.append((made.places[name], letter))
    names = ordered[len(head) :]
    if _CELLS in names and names.pop() != _CELLS:
        raise Refusal("the room for sums does not come last")
    return tuple(names), packing(placed, _ALIGNED).pack
