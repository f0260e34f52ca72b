"""Going through all parameters of an optimizer on the device: one dispatch for the step, one to clear the gradients.

The kernels know the tensors by a table of device addresses. The driver does not see what is read and written through those, so a barrier
stands before and after. On a backend without device addresses there is a dispatch for each tensor.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from slanglab.optim.places import FORMS, Place
from slanglab.optim.programs import NUMBERS, Launcher, Way, program
from slanglab.tensors.launch import brought, room, uploaded
from slanglab.waiting import reads

__all__ = ["NORM", "SKIPPED", "Control", "Sweep", "Table"]

_ENTRY = struct.Struct("<5Q2I")
_PACKED = 4  # of an entry's form
_STATES = 3
_CONTROL = 8  # numbers
_NAMES = ("first", "second", "third")

NORM, SKIPPED = 4, 5
"""Places in `control`; see `shaders/optim_frame.slang`."""


class Table:
    """The tensors of one optimizer, as the kernels read them.

    Parameters
    ----------
    places : sequence of Place
        Of one device.
    states : sequence of (sequence of slangpy.Tensor)
        Of each place, in its order: contiguous, from the start of their buffers.
    how : Way
    """

    def __init__(self, places: Sequence[Place], states: Sequence[Sequence[Any]], how: Way) -> None:
        self.how = how
        self.device = places[0].tensor.device
        every = [(place, own) for place, own in zip(places, states, strict=True) if place.count]
        self.places = [place for place, _ in every]
        self.states = [own for _, own in every]
        self.formats = frozenset(place.format for place in self.places)
        self.wide = "float64" in self.formats
        """Whether the kernels are given doubles."""
        self.chunks = [math.ceil(place.count / how.chunk) for place in self.places]
        self.count = sum(self.chunks)
        self.groups = min(self.count, how.groups)
        self.entries = self.starts = None
        if how.pointers and self.places:
            self.entries, self.starts = self._uploaded()

    def _uploaded(self) -> tuple[Any, Any]:
        entries = bytearray()
        starts = []
        for i, (place, states) in enumerate(zip(self.places, self.states, strict=True)):
            value = place.value_storage.device_address + place.value_base * place.size
            gradient = place.gradient_storage.device_address + place.gradient_base * place.size
            own = [state.storage.device_address for state in states]
            own += [0] * (_STATES - len(own))
            pack = self.how.lanes(place.format) * place.size
            form = FORMS[place.format]
            if (value | gradient) % pack == 0 and not any(state % 16 for state in own):
                form |= _PACKED
            entries += _ENTRY.pack(value, gradient, *own, place.count, form)
            begin = np.arange(0, place.count, self.how.chunk, dtype=np.uint32)
            starts.append(np.column_stack([np.full_like(begin, i), begin]))
        device = self.device
        return (
            uploaded(device, np.frombuffer(entries, np.uint8), _ENTRY.size),
            uploaded(device, np.concatenate(starts), 8),
        )

    @property
    def addresses(self) -> tuple[int, int]:
        """Where the entries and the chunks lie."""
        assert self.entries is not None
        assert self.starts is not None
        return self.entries.device_address, self.starts.device_address


class Sweep:
    """One kernel over a table, launched at each step.

    Parameters
    ----------
    table : Table
    files : tuple of str
        See `program`.
    **macros
        Of the kernel.
    """

    def __init__(self, table: Table, files: tuple[str, ...], **macros: int) -> None:
        self._table = table
        self._how = table.how
        self._launcher: Launcher | None = None
        self._each: list[Any] = []
        kernels = (*files, "optim_entry")
        if table.how.pointers:
            if table.places:
                kernel = program(
                    table.device, table.how, table.formats, table.wide, kernels, "sweep", **macros
                )
                self._launcher = Launcher(table.device, kernel, table.wide)
                self._head = table.addresses
                self._tail = (0, table.count, table.groups, 0, 0)
                self._groups = table.groups
        else:
            self._each = [
                program(table.device, table.how, [place.format], table.wide, kernels, "sweep", **macros)
                for place in table.places
            ]

    def record(self, encoder: Any, numbers: Sequence[float], control: Control | None = None) -> None:
        """Record one pass over the tensors.

        Parameters
        ----------
        encoder : slangpy.CommandEncoder
        numbers : sequence of float
            As many as a kernel takes.
        control : Control, optional
            Whose decision the kernel follows.
        """
        if self._launcher is not None:
            encoder.global_barrier()
            address = 0 if control is None else control.address
            self._launcher.record(encoder, self._groups, *self._head, address, *self._tail, *numbers)
            encoder.global_barrier()
            return
        table = self._table
        for place, states, chunks, kernel in zip(
            table.places, table.states, table.chunks, self._each, strict=True
        ):
            groups = min(chunks, self._how.groups)
            buffers = [state.storage for state in states] + [place.gradient_storage] * (_STATES - len(states))
            kernel.dispatch(
                [groups * self._how.group, 1, 1],
                command_encoder=encoder,
                sl=_arguments(place, chunks, groups, numbers),
                value=place.value_storage,
                gradient=place.gradient_storage,
                control=place.gradient_storage if control is None else control.buffer,
                **dict(zip(_NAMES, buffers, strict=True)),
            )


def _arguments(
    place: Place | None,
    chunks: int,
    groups: int,
    numbers: Sequence[float],
    done: int = 0,
    slots: int = 0,
    slot: int = 0,
) -> dict[str, Any]:
    """Return the struct of arguments of a dispatch over one tensor, or over none."""
    return {
        "count": chunks,
        "step": groups,
        "done": done,
        "slots": slots,
        "scalars": place.count if place is not None else 0,
        "value": place.value_base if place is not None else 0,
        "gradient": place.gradient_base if place is not None else 0,
        "slot": slot,
        "numbers": [float(x) for x in numbers],
    }


class Control:
    """What a step needs to know of all gradients at once: measured on the device, left there for the step to read.

    Parameters
    ----------
    table : Table
    corrected : int
        What the kernel works out for the step; see `shaders/optim_control.slang`.
    skipped : int
        Steps skipped so far.
    """

    def __init__(self, table: Table, corrected: int = 0, skipped: int = 0) -> None:
        self._table = table
        self._how = how = table.how
        self._type = np.dtype(np.float64 if table.wide else np.float32)
        start = np.zeros(_CONTROL, self._type)
        start[SKIPPED] = skipped
        self.buffer = uploaded(table.device, start)
        """Scale, whether to go, two numbers, norm, skipped steps."""
        self._groups = [min(chunks, how.groups) for chunks in table.chunks]
        self._slots = table.groups if how.pointers else sum(self._groups)
        self._partials = room(table.device, 2 * max(1, self._slots), self._type.itemsize)
        self._measure: list[Any] = []
        self._decide: Any = None
        if not table.places:
            return
        files = ("optim_norm", "optim_control")
        device, wide, macros = table.device, table.wide, {"CORRECTED": corrected}
        if how.pointers:
            self.address = self.buffer.device_address
            kernels = [
                program(device, how, table.formats, wide, files, entry, **macros)
                for entry in ("measure", "decide")
            ]
            self._measure, self._decide = (
                [Launcher(device, kernels[0], wide)],
                Launcher(device, kernels[1], wide),
            )
        else:
            self._measure = [
                program(device, how, [p.format], wide, files, "measure", **macros) for p in table.places
            ]
            self._decide = program(device, how, [table.places[0].format], wide, files, "decide", **macros)

    def record(self, encoder: Any, limit: float, skip: bool, done: int, *more: float) -> None:
        """Record the measurement of all gradients and the decision.

        Parameters
        ----------
        encoder : slangpy.CommandEncoder
        limit : float
            Of the norm; 0 for none.
        skip : bool
            Whether a gradient that is not finite makes the step be skipped.
        done : int
            Steps with this one.
        *more : float
            What `corrected` asks for.
        """
        table = self._table
        numbers = [limit, float(skip), *more]
        numbers += [0.0] * (NUMBERS - len(numbers))
        if not table.places:
            return
        encoder.global_barrier()
        if self._how.pointers:
            values: tuple[int, ...] = (*table.addresses, self.address, self._partials.device_address)
            values += (table.count, table.groups, done, self._slots)
            self._measure[0].record(encoder, table.groups, *values, *numbers)
            encoder.global_barrier()
            self._decide.record(encoder, 1, *values, *numbers)
            return  # the step that follows begins with a barrier
        slot = 0
        for place, chunks, groups, kernel in zip(
            table.places, table.chunks, self._groups, self._measure, strict=True
        ):
            kernel.dispatch(
                [groups * self._how.group, 1, 1],
                command_encoder=encoder,
                sl=_arguments(place, chunks, groups, numbers, slot=slot),
                gradient=place.gradient_storage,
                partials=self._partials,
            )
            slot += groups
        self._decide.dispatch(
            [self._how.group, 1, 1],
            command_encoder=encoder,
            sl=_arguments(None, 0, 1, numbers, done=done, slots=self._slots),
            partials=self._partials,
            control=self.buffer,
        )

    def read(self, which: int) -> float:
        """Return one of the numbers; waits for the device."""
        size = self._type.itemsize
        found = reads.small(self.buffer, which * size, size)
        if found is None:
            return float(brought(self.buffer, self._type)[which])
        return float(found.view(self._type)[0])
