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
from slanglab.engine.straight.arguments import Argument, Refusal, classify
from slanglab.engine.straight.kernel import check_target, suited
from slanglab.engine.straight.launching import CODES, packing
from slanglab.engine.straight.loading import Code, code, load
from slanglab.engine.straight.strategy import Strategy, choose
from slanglab.engine.target import Target
from slanglab.guard import KernelRefusedError
from slanglab.machine import addresses
from slanglab.machine.cuda import Function

__all__ = ["Bare", "build", "shares_addresses"]

_HEAD = ("count", "step", "slots", "zero")
_CELLS = "cells"
_CELL_BYTES = 8
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
        found, _ = classify(target, values, result)
        if not any(a.kind == "array" for a in found):
            raise Refusal("no argument is an array")
        made = _InCuda if target.device.info.type == spy.DeviceType.cuda else _Here
        return made(target, found, replace(suited(target, found), fresh=fresh, bare=True))
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
    """

    names: tuple[str, ...]

    def __init__(self, arguments: Sequence[Argument], strategy: Strategy) -> None:
        self.arguments = tuple(arguments)
        self.group_shape = (strategy.group,)
        self.alignment = _ALIGNED if strategy.width > 1 else 1
        self._tile, self._groups = strategy.tile, strategy.groups_for
        self._sums = sum(a.layout.count for a in arguments if a.kind == "one" and a.gradient)

    def room(self, count: int) -> int:
        """Return how many bytes a launch for so many elements needs for what its groups sum up."""
        return self._groups(count) * self._sums * _CELL_BYTES

    @abstractmethod
    def launch(self, count: int, values: Sequence[Any], stream: int, room: int, owners: object) -> None:
        """Launch the kernel; on a software renderer wait for it too.

        Parameters
        ----------
        count : int
            Elements of the call, 1 to 2^31 - 1.
        values : sequence of int or float
            By `names`; the arrays are contiguous.
        stream : int
            CUDA's handle. The device's context is current.
        room : int
            Address of so many bytes as `room` says; nothing else uses them until the kernel is done.
        owners : object
            What the memory belongs to.
        """


class _InCuda(Bare):
    """One that CUDA's driver launches."""

    def __init__(self, target: Target, arguments: Sequence[Argument], strategy: Strategy) -> None:
        super().__init__(arguments, strategy)
        text, made = code(target, arguments, strategy)
        self.names, self._pack = _order(text.fields, made[0])
        if any(m.places != made[0].places for m in made):
            raise Refusal("its two kernels take their arguments in different ways")
        functions = [Function(target.device, m.ptx, m.entry, strategy.group) for m in made]
        self._main, self._last = functions[0], functions[1] if self._sums else None

    def launch(self, count: int, values: Sequence[Any], stream: int, room: int, owners: object) -> None:
        groups = self._groups(count)
        if self._last is None:
            self._main.launch(self._pack(count, groups * self._tile, groups, 0, *values), groups, stream)
            return
        given = self._pack(count, groups * self._tile, groups, 0, *values, room)
        self._main.launch(given, groups, stream)
        self._last.launch(given, self._sums, stream)


class _Here(Bare):
    """One that a software renderer runs, with this process's own addresses."""

    def __init__(self, target: Target, arguments: Sequence[Argument], strategy: Strategy) -> None:
        super().__init__(arguments, strategy)
        self._device = target.device
        self._loaded = load(target, arguments, strategy)
        self.names = tuple(n for n in self._loaded.main.fields if n not in (*_HEAD, _CELLS))

    def launch(self, count: int, values: Sequence[Any], stream: int, room: int, owners: object) -> None:
        groups = self._groups(count)
        given = dict(zip(self.names, values, strict=True))
        given |= {"count": count, "step": groups * self._tile, "slots": groups, "zero": 0, _CELLS: room}
        encoder = self._device.create_command_encoder()
        self._loaded.main.record(encoder, given, groups)
        if self._loaded.last is not None:
            encoder.global_barrier()
            self._loaded.last.record(encoder, given, self._sums)
        self._device.submit_command_buffer(encoder.finish())
        try:
            waiting.wait(self._device)
        except BaseException:  # Interrupt ends the wait, not the kernel, which goes on to write there
            _left.append(owners)
            raise


_left: list[object] = []
"""What owns memory that kernels nobody waited for may still write."""


def _order(fields: Mapping[str, str], made: Code) -> tuple[tuple[str, ...], Any]:
    """Return the arguments that a launch takes, and what packs them, behind those of every kernel and before the room for sums."""
    ordered = sorted(fields, key=lambda name: made.places[name])
    if tuple(ordered[: len(_HEAD)]) != _HEAD or made.places[_HEAD[0]] != 0:
        raise Refusal("its arguments do not lie as they were written")
    placed = []
    for name in ordered:
        kind = fields[name]
        letter = "Q" if kind.endswith("*") else CODES.get(kind)
        if letter is None:
            raise Refusal(f"an argument is a {kind}")
        placed.append((made.places[name], letter))
    names = ordered[len(_HEAD) :]
    if _CELLS in names and names.pop() != _CELLS:
        raise Refusal("the room for sums does not come last")
    return tuple(names), packing(placed, _ALIGNED).pack
