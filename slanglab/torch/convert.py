"""A torch tensor in the dtype that a parameter takes, or why it cannot be that."""

from __future__ import annotations

from typing import Any

import torch

from slanglab.errors import ArgumentError
from slanglab.torch.leaves import Leaf

__all__ = ["converted"]


def converted(function: str, leaf: Leaf, notes: list[str]) -> Any:
    """Return the tensor of a leaf, detached, in the dtype that the device is to have.

    Parameters
    ----------
    function : str
        For messages.
    leaf : Leaf
    notes : list of str
        Gets what the user may want to know: values that became infinite.

    Raises
    ------
    ArgumentError
        For fractions where whole numbers are taken, and for whole numbers that do not fit.
    """
    tensor = leaf.tensor.detach()
    wanted = leaf.dtype
    if tensor.dtype == wanted:
        return tensor
    if not wanted.is_floating_point:
        _check_whole(function, leaf, tensor)
        return tensor.to(wanted)
    ready = tensor.to(wanted)
    if tensor.is_floating_point() and tensor.element_size() > ready.element_size() and tensor.numel():
        lost = int(torch.isinf(ready).sum()) - int(torch.isinf(tensor).sum())
        if lost:
            notes.append(f"{leaf.where}: {lost} values are too large for {_name(wanted)} and became infinite")
    return ready


def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _check_whole(function: str, leaf: Leaf, tensor: Any) -> None:
    spec, wanted = leaf.spec, leaf.dtype
    if wanted == torch.bool:
        return
    kind = spec.type if spec is not None else _name(wanted)
    message, hint = "", None
    if tensor.is_floating_point():
        message = f"holds {_name(tensor.dtype)}, but {kind} takes whole numbers"
        hint = f"convert it yourself, for example with `{leaf.where}.to({wanted})`"
    elif tensor.numel() and tensor.dtype != torch.bool:
        limits = torch.iinfo(wanted)
        low, high = _range(tensor)
        if low < limits.min or high > limits.max:
            message = f"holds {low} to {high}; {kind} holds {limits.min} to {limits.max}"
    if message:
        raise ArgumentError(
            f"{function}: argument {leaf.where} {message}",
            function=function,
            argument=leaf.where,
            expected=spec.expected if spec is not None else kind,
            given=f"torch tensor of {tensor.dtype}, shape {leaf.shape}",
            hint=hint,
        )


def _range(tensor: Any) -> tuple[int, int]:
    """Return the least and the largest of some whole numbers; torch has neither for unsigned ones of more than 8 bits."""
    if tensor.dtype in (torch.uint16, torch.uint32):
        tensor = tensor.to(torch.int64)
    elif tensor.dtype == torch.uint64:
        array = tensor.cpu().numpy()
        return int(array.min()), int(array.max())
    return int(tensor.min()), int(tensor.max())
