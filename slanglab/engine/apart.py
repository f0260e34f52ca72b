"""Values with gaps between them: on CUDA a half3 takes eight bytes.

slangpy 0.43.1 reads and writes such values where they are, but adds to their gradients as if they took six (seen on an H200): of many
elements all gradients but the first's are wrong. So in a backward call such a tensor goes as one of halves with one axis more, or two for
a matrix, over the same memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import slangpy as spy

from slanglab.engine.gradients import receives
from slanglab.engine.parameters import Parameter
from slanglab.errors import CallError
from slanglab.scalars import type_name

__all__ = ["as_scalars"]

_NESTED = ("VectorType", "MatrixType", "ArrayType")


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
    inner = _inner(value.dtype)
    if inner is None:
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
    gradient = _viewed(value.grad_out, *inner)
    seed = gradient if shared or value.grad_in is None else _viewed(value.grad_in, *inner)
    return _viewed(value, *inner).with_grads(seed, gradient, zero=False)


def _inner(dtype: Any) -> tuple[tuple[int, ...], tuple[int, ...], Any] | None:
    """Return the shape and the strides of a value's scalars, and their type; None where they lie one after another."""
    if type(dtype).__name__ not in _NESTED:
        return None
    scalar = dtype
    while type(scalar).__name__ in _NESTED:
        scalar = scalar.element_type
    shape = tuple(int(n) for n in dtype.shape.as_tuple())
    if type(scalar).__name__ != "ScalarType" or not shape:
        return None
    size = int(scalar.buffer_layout.stride)
    width = int(dtype.buffer_layout.stride) // size
    # Each row of a matrix, and each vector of an array, has its own gap.
    row = width // math.prod(shape[:-1])
    if row == shape[-1]:
        return None
    strides = (*(row * math.prod(shape[axis + 1 : -1]) for axis in range(len(shape) - 1)), 1)
    return shape, strides, scalar


def _viewed(tensor: Any, shape: tuple[int, ...], strides: tuple[int, ...], scalar: Any) -> Any:
    """Return a tensor as one of scalars over the same memory."""
    width = int(tensor.dtype.buffer_layout.stride) // int(scalar.buffer_layout.stride)
    return spy.Tensor(
        tensor.storage,
        scalar,
        (*tensor.shape.as_tuple(), *shape),
        (*(width * n for n in tensor.strides.as_tuple()), *strides),
        width * tensor.offset,
    )
