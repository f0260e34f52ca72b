"""Calls over no elements: nothing is dispatched, the shapes are those of a call that was.

slangpy cannot allocate a buffer of no bytes, so a batch of none ends there in an assertion; numpy's rule is that shapes and dtypes
come out as for any other batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import slangpy as spy

from slanglab.engine.parameters import Parameter, parameter
from slanglab.errors import CallError
from slanglab.tensors.create import from_array

__all__ = ["call_shape", "result"]


def _shape_of(value: Any) -> tuple[int, ...] | None:
    if isinstance(value, np.ndarray):
        return tuple(value.shape)
    shape = getattr(value, "shape", None)
    if isinstance(value, spy.Tensor):
        element = value.dtype.shape.as_tuple()
        return (*value.shape.as_tuple(), *element)
    if shape is not None and hasattr(shape, "as_tuple"):
        return tuple(shape.as_tuple())
    return None


def call_shape(function: str, specs: Sequence[Parameter], values: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the shape over which a call would run, by numpy's broadcasting of what each parameter leaves over.

    Raises
    ------
    CallError
        When the shapes do not broadcast.
    """
    shapes = []
    for spec in specs:
        value = values.get(spec.name)
        if isinstance(value, Mapping):
            shapes.append(call_shape(function, tuple(spec.fields.values()), value))
            continue
        shape = _shape_of(value)
        if shape is None:
            continue
        eaten = len(spec.element_shape) + spec.dims
        shapes.append(shape[: len(shape) - eaten] if eaten else shape)
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        listed = ", ".join(str(s) for s in shapes)
        raise CallError(f"{function}: the shapes {listed} do not broadcast", function=function) from None


def result(device: spy.Device, slang_function: Any, shape: tuple[int, ...], wanted: Any) -> Any:
    """Return the result of a call over `shape`, which holds a zero: a tensor, or a numpy array where that was asked for."""
    if not slang_function.have_return_value:
        return None
    if isinstance(wanted, (spy.Tensor, np.ndarray)):
        return wanted
    returned = parameter("result", slang_function.return_type)
    array = np.zeros((*shape, *returned.element_shape), returned.dtype or np.float32)
    if wanted == "numpy" or wanted is np.ndarray:
        return array
    return from_array(device, array, returned.type, len(returned.element_shape))
