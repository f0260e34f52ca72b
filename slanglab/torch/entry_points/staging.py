"""Tensors as slangtorch's functions take them: on one CUDA device, of the parameter's type, each element with a place of its own.

slangtorch refuses other tensors, the gradient that `y.sum().backward()` makes among them, whose elements share one place. Here such a
tensor is copied; where the function changed the copy, the change is copied back, so that a function that writes into its arguments does
so wherever they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from slanglab.errors import ArgumentError, SlangLabError
from slanglab.torch.entry_points.signatures import element

__all__ = ["DTYPES", "Staged", "fitted", "place", "tensors_of"]

DTYPES = {
    "float": torch.float32, "half": torch.float16, "double": torch.float64, "int": torch.int32, "int8_t": torch.int8,
    "int16_t": torch.int16, "int64_t": torch.int64, "uint8_t": torch.uint8, "bool": torch.bool,
}  # fmt: skip
"""The types of elements that slangtorch has views of, by Slang's name; others are left as they are."""


def tensors_of(value: object) -> list[torch.Tensor]:
    """Return the tensors in a value: itself, or those in tuples, lists and dicts."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (int, float)):
        return []
    if isinstance(value, Mapping):
        return [t for v in value.values() for t in tensors_of(v)]
    if isinstance(value, (tuple, list)):
        return [t for v in value for t in tensors_of(v)]
    return []


def place(given: Sequence[tuple[str, object]], shown: str) -> torch.device:
    """Return the device on which a call runs: that of its tensors, and CUDA's current one where they are on the CPU.

    Parameters
    ----------
    given : sequence of (str, object)
        Names and values of the arguments.
    shown : str
        The function, for messages.

    Raises
    ------
    ArgumentError
        Where there are tensors on several devices.
    """
    found: dict[torch.device, str] = {}
    for name, value in given:
        for tensor in tensors_of(value):
            if tensor.layout != torch.strided:
                raise ArgumentError(
                    f"{shown}: `{name}` is a {str(tensor.layout).removeprefix('torch.')} tensor, which has no place for each element",
                    hint=f"pass `{name}.to_dense()`",
                )
            if tensor.device.type != "cpu":
                found.setdefault(tensor.device, name)
    if len(found) > 1:
        places = ", ".join(f"`{name}` on {device}" for device, name in found.items())
        raise ArgumentError(
            f"{shown}: its tensors are on several devices: {places}",
            hint="move them to one with `.to(device)`",
        )
    device, name = next(iter(found.items()), (None, ""))
    if device is not None and device.type != "cuda":
        raise ArgumentError(
            f"{shown}: `{name}` is on {device}, and --torch cells run on CUDA", hint=f"pass `{name}.cuda()`"
        )
    return device or default_device()


def default_device() -> torch.device:
    """Return CUDA's current device."""
    return torch.device("cuda", torch.cuda.current_device())


def fitted(tensor: torch.Tensor, kind: str | None, device: torch.device) -> torch.Tensor:
    """Return a tensor on a device, of a parameter's type, its elements apart; itself where it is so. Autograd follows."""
    dtype = DTYPES.get(kind or "", tensor.dtype)
    if (
        tensor.device == device
        and tensor.dtype == dtype
        and tensor.is_contiguous()
        and 0 not in tensor.stride()
        and not tensor.is_conj()
        and not tensor.is_neg()
    ):
        return tensor
    moved = tensor.to(device=device, dtype=dtype)
    if moved.is_conj() or moved.is_neg():
        moved = moved.resolve_conj().resolve_neg()
    # slangtorch takes no stride of 0, also where a single element makes it meaningless and torch calls the tensor contiguous.
    apart = not _shares(moved) and (0 not in moved.stride() or not moved.numel())
    return moved if apart else moved.clone(memory_format=torch.contiguous_format)


def _shares(tensor: torch.Tensor) -> bool:
    """Tell whether two elements of a tensor may be in one place."""
    if tensor.is_contiguous():
        return False
    reach = 1
    for stride, size in sorted((s, n) for s, n in zip(tensor.stride(), tensor.shape, strict=True) if n != 1):
        if stride < reach:
            return True
        reach = stride * (size - 1) + reach
    return False


class Staged:
    """The arguments of one call, and what has to be copied back behind it.

    Parameters
    ----------
    device : torch.device
    shown : str
    """

    def __init__(self, device: torch.device, shown: str) -> None:
        self.device = device
        self._shown = shown
        self._copies: list[tuple[str, torch.Tensor, torch.Tensor, str | None]] = []

    def take(self, name: str, value: Any, kind: str) -> Any:
        """Return the value of a parameter of type `kind` as slangtorch takes it."""
        return self._taken(name, value, element(kind))

    def _taken(self, name: str, value: Any, kind: str | None) -> Any:
        if isinstance(value, torch.Tensor):
            given = value.detach()
            copy = fitted(given, kind, self.device)
            if copy is not given and copy.data_ptr() != given.data_ptr():
                self._copies.append((name, value, copy, kind))
            return copy
        if isinstance(value, Mapping):
            return {key: self._taken(name, v, kind) for key, v in value.items()}
        if isinstance(value, tuple):
            parts = [self._taken(name, v, kind) for v in value]
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        if isinstance(value, list):
            return [self._taken(name, v, kind) for v in value]
        return value

    def finish(self) -> None:
        """Copy back what the function changed in copies.

        Raises
        ------
        SlangLabError
            Where the elements of the tensor that it belongs to share places.
        """
        with torch.no_grad():
            for name, given, copy, kind in self._copies:
                if _same(copy, fitted(given.detach(), kind, self.device)):
                    continue
                if _shares(given):
                    raise SlangLabError(
                        f"{self._shown} writes into `{name}`, whose elements share places in memory",
                        hint=f"pass `{name}.contiguous()`, or a tensor of its own",
                    )
                given.detach().copy_(copy)


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Tell whether two tensors hold the same bits."""
    if one.numel() == 0:
        return True
    a, b = (t.contiguous().reshape(-1).view(torch.uint8) for t in (one, other))
    return bool(torch.equal(a, b))


Guard = Callable[[torch.device], Any]


def on(device: torch.device) -> Any:
    """Return a context in which CUDA's current device is `device`."""
    return torch.cuda.device(device)
