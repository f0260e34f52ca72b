"""A part of a large elementwise call: the same function over some thousand of its elements.

The elements come in blocks from all over the arrays, copied on the device. The number of axes stays, so that the kernel is the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import slangpy as spy

from slanglab.engine.binding import Bound
from slanglab.engine.callshape import reader
from slanglab.engine.parameters import Parameter
from slanglab.engine.probing.parts import CannotProbeError
from slanglab.engine.target import Target

__all__ = ["LARGEST", "sampled"]

LARGEST = 2**20
"""Elements of the arrays of a call that is checked as a whole."""

_BLOCKS = 8
_KEPT = (bool, int, float, np.generic)

Shape = tuple[int, ...]


class _NotElementwise(Exception):  # noqa: N818 - it never leaves this module
    """An argument that cannot be cut."""


def sampled(target: Target, bound: Bound, count: int, result: Any = None) -> Bound:
    """Return the arguments of a call over at most about `count` elements, or those given where there are no more.

    Parameters
    ----------
    target : Target
        The forward one.
    bound : Bound
    count : int
    result : object
        What was given as `_result`.

    Raises
    ------
    CannotProbeError
        When the call is too large as a whole and not elementwise.
    """
    values = [bound.values[p.name] for p in target.parameters]
    read = reader(target.parameters, values) if not target.mapping else None
    shape = read(values) if read is not None else None
    size = sum(_size(v) for v in (*values, *bound.this, target.this, result))
    if shape is None or math.prod(shape) <= count:
        return _whole(bound, size)
    if bound.this or target.this is not None or any(p.kind == "tensor" for p in target.parameters):
        return _whole(bound, size)
    try:
        cut = {p.name: _cut(bound.values[p.name], p, shape, count) for p in target.parameters}
    except _NotElementwise:
        return _whole(bound, size)
    options = {name: value for name, value in bound.options.items() if name != "_result"}
    return replace(bound, values=cut, options=options)


def _whole(bound: Bound, size: int) -> Bound:
    if size > LARGEST:
        raise CannotProbeError(f"the arguments are too large: {size:_} elements")
    return bound


def _size(value: Any) -> int:
    if isinstance(value, spy.Tensor):
        return int(value.element_count * math.prod(value.dtype.shape.as_tuple()))
    if isinstance(value, np.ndarray):
        return int(value.size)
    if isinstance(value, Mapping):
        return sum(_size(v) for v in value.values())
    return _size(value.get_this()) if hasattr(value, "get_this") else 0


def _cut(value: Any, spec: Parameter, shape: Shape, count: int) -> Any:
    """Return a part of an argument: the blocks of one that has every axis of the call, all of one that is the same for all elements."""
    if isinstance(value, Mapping):
        # Reflection may not know the fields, nor how many axes each takes.
        if any(k != "_type" and k not in spec.fields for k in value):
            raise _NotElementwise
        return {k: v if k == "_type" else _cut(v, spec.fields[k], shape, count) for k, v in value.items()}
    if isinstance(value, _KEPT) or type(value).__module__.startswith("slangpy.math"):
        return value
    if not isinstance(value, (spy.Tensor, np.ndarray)) or spec.kind in ("other", "struct"):
        raise _NotElementwise  # what counts threads, or draws from their numbers, says something else over other elements
    host = value if isinstance(value, np.ndarray) else None
    full = value.shape if host is not None else (*value.shape.as_tuple(), *value.dtype.shape.as_tuple())
    own = full[: len(full) - len(spec.element_shape)]
    if math.prod(own) == 1:
        return value
    if own != shape:
        raise _NotElementwise
    starts, length = _blocks(math.prod(shape), count)
    axes = (1,) * (len(shape) - 1) + (len(starts) * length,)
    if host is not None:
        flat = host.reshape(-1, *spec.element_shape)
        return np.concatenate([flat[s : s + length] for s in starts]).reshape(*axes, *spec.element_shape)
    return _tensor_blocks(value, spec, axes, starts, length)


def _blocks(elements: int, count: int) -> tuple[list[int], int]:
    """Return where blocks start, evenly from the first element to the last, and how long they are."""
    length = count // _BLOCKS
    return [round(s) for s in np.linspace(0, elements - length, _BLOCKS)], length


def _tensor_blocks(tensor: Any, spec: Parameter, axes: Shape, starts: list[int], length: int) -> Any:
    extra = tensor.shape.as_tuple()[
        len(axes) :
    ]  # the axes that make the elements, where the tensor's own are numbers
    if _is_strided(tensor):
        raise _NotElementwise
    part = spy.Tensor.empty(tensor.device, (*axes, *extra), tensor.dtype)
    stride = int(tensor.dtype.buffer_layout.stride) * math.prod(extra)
    encoder = tensor.device.create_command_encoder()
    first = tensor.offset * int(tensor.dtype.buffer_layout.stride)
    for at, start in enumerate(starts):
        encoder.copy_buffer(
            part.storage, at * length * stride, tensor.storage, first + start * stride, length * stride
        )
    tensor.device.submit_command_buffer(encoder.finish())
    return part.with_grads() if tensor.grad_in is not None or tensor.grad_out is not None else part


def _is_strided(tensor: Any) -> bool:
    expected = 1
    for n, s in zip(reversed(tensor.shape.as_tuple()), reversed(tensor.strides.as_tuple()), strict=True):
        if n != 1 and s != expected:
            return True
        expected *= n
    return False
