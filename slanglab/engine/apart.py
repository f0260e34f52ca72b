"""Values with gaps between them: on CUDA a half3 takes eight bytes.

slangpy 0.43.1 reads and writes such values where they are, but adds to their gradients as if they took six (seen on an H200): of many
elements all gradients but the first's are wrong. So in a backward call such a tensor goes as one of halves (`slanglab.tensors.gaps`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import slangpy as spy

from slanglab.engine.gradients import receives
from slanglab.engine.parameters import Parameter
from slanglab.errors import CallError
from slanglab.scalars import type_name
from slanglab.tensors import gaps

__all__ = ["as_scalars"]


def as_scalars(function: str, spec: Parameter, value: Any, mapped: bool) -> Any:
    """Return an argument of a backward call such that what its gradient receives lands where it belongs.

    Parameters
    ----------
    function : str
        For the message.
    spec : Parameter
        What the value is for.
    value : object
    mapped : bool
        True where `.map` says how its axes go with those of the others.

    Returns
    -------
    object
        `value` itself where it is no tensor with gaps that receives a gradient.

    Raises
    ------
    CallError
        Where such a tensor cannot go as its scalars.
    """
    if isinstance(value, Mapping):
        fields = spec.fields or {}
        parts = {
            k: as_scalars(function, fields[k], v, mapped) if k in fields else v for k, v in value.items()
        }
        return parts if any(parts[k] is not v for k, v in value.items()) else value
    if not isinstance(value, spy.Tensor) or value.grad_out is None or not receives(spec):
        return value
    whole = gaps.as_scalars(value)
    if whole is None:
        return value
    if mapped or spec.kind == "tensor":
        name = type_name(str(value.dtype.full_name))
        how = "through `.map`" if mapped else f"as {spec.type}"
        raise CallError(
            f"{function}: slangpy adds to the gradient of {spec.name} in the wrong places: a {name} has gaps in memory on this device",
            function=function,
            argument=spec.name,
            given=f"a tensor of {name}, {how}",
            hint=f"use float for half, or half4 for half3{'' if mapped else f'; a plain parameter `{name} {spec.name}` works too'}",
        )
    shared = value.grad_in is value.grad_out
    gradient = gaps.as_scalars(value.grad_out)
    seed = gradient if shared or value.grad_in is None else gaps.as_scalars(value.grad_in)
    return whole.with_grads(seed, gradient, zero=False)
