"""Reading losses: numbers at once, tensors many steps later and all together, so that no step waits for the device."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slanglab.errors import ArgumentError
from slanglab.tensors import launch, layout, sources

__all__ = ["Losses"]

_SLOTS = 4096
"""Losses that a device keeps before they are read."""

_FORMS = {"float16": np.float16, "float32": np.float32, "float64": np.float64}


class Losses:
    """Turns what steps return into numbers.

    A number, or an array of one element, is known at once. Of a `slangpy.Tensor` of one element a copy of its bytes is recorded on the
    device, and of a torch tensor a detached clone is kept: `flush` reads them.
    """

    def __init__(self) -> None:
        self._kept: list[Any] = []
        """In order: numbers, torch tensors, and slots of the room."""
        self._room: Any = None
        self._form = ""
        self._slots = 0

    @property
    def waiting(self) -> int:
        """Losses that were taken and not read."""
        return len(self._kept)

    @property
    def full(self) -> bool:
        """Whether `flush` has to come before the next loss."""
        return len(self._kept) >= _SLOTS

    def take(self, loss: Any) -> float | None:
        """Return a loss as a number, or None where it has to be read later, by `flush`.

        Raises
        ------
        ArgumentError
            For anything that is not one number.
        """
        if type(loss) is float and not self._kept:
            return loss
        if sources.is_tensor(loss):
            self._record(loss)
            return None
        torch: Any = sys.modules.get("torch")
        if torch is not None and isinstance(loss, torch.Tensor):
            if loss.numel() != 1:
                raise _not_one(f"a tensor of shape {tuple(loss.shape)}")
            self._kept.append(loss.detach().clone())
            return None
        number = _number(loss)
        if not self._kept:
            return number
        # Behind those that wait.
        self._kept.append(number)
        return None

    def _record(self, loss: Any) -> None:
        """Copy the bytes of a loss to its slot on the device."""
        fields = layout.fields(loss)
        form = fields[0].form.name if len(fields) == 1 and not fields[0].name else ""
        if form not in _FORMS:
            raise _not_one(f"a tensor of {loss.dtype.full_name}")
        view = layout.view(loss, fields[0], None)
        if view.all.count != 1:
            raise _not_one(f"a tensor of shape {tuple(loss.shape.as_tuple())}")
        if self._room is None or self._form != form or self._room.device is not loss.device:
            self._read_slots()
            self._room, self._form = launch.room(loss.device, 2 * _SLOTS), form
        size = fields[0].form.bits // 8
        at = view.all.base * size
        # Copies are of whole words on every device; a half comes with what lies beside it.
        start = at // 4 * 4
        width = min(max(4, size), loss.storage.size - start)
        encoder = loss.device.create_command_encoder()
        encoder.copy_buffer(self._room, 8 * self._slots, loss.storage, start, width)
        loss.device.submit_command_buffer(encoder.finish())
        self._kept.append(_Slot(self._slots, at - start, size))
        self._slots += 1

    def _read_slots(self) -> None:
        """Put numbers in the place of slots."""
        if self._slots:
            raw = launch.brought(self._room, np.uint8).reshape(-1, 8)
            kind = _FORMS[self._form]
            for i, entry in enumerate(self._kept):
                if isinstance(entry, _Slot):
                    self._kept[i] = float(raw[entry.slot, entry.at : entry.at + entry.size].view(kind)[0])
        self._slots = 0

    def flush(self) -> NDArray[np.float64]:
        """Return all losses that were not read, in order; waits for the device."""
        self._read_slots()
        found = np.array([float(entry) for entry in self._kept], np.float64)
        self._kept.clear()
        return found


class _Slot(NamedTuple):
    slot: int
    at: int
    size: int


def _number(loss: Any) -> float:
    if loss is None:
        raise _not_one("None", "end the step with `return loss`")
    try:
        array = np.asarray(loss)
    except (TypeError, ValueError):
        raise _not_one(f"a {type(loss).__name__}") from None
    if array.size != 1 or array.dtype.kind not in "fiub":
        raise _not_one(f"a {type(loss).__name__} of shape {array.shape}, {array.dtype}")
    return float(array.reshape(()))


def _not_one(given: str, hint: str = "return its mean or sum: a plot has one number a step") -> ArgumentError:
    return ArgumentError(
        "The loss of a step is one number.",
        argument="step",
        expected="a float, or a tensor or array of one element",
        given=given,
        hint=hint,
    )
