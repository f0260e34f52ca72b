"""Numbers between the host and tensors of a probe's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import slangpy as spy

from slanglab.checks.problem import Array
from slanglab.engine.arrays import contiguous
from slanglab.engine.parameters import Parameter

__all__ = ["FLOATS", "copy_of", "floats", "host_shape", "number", "uploaded"]

FLOATS = (np.dtype(np.float16), np.dtype(np.float32))
"""What slangpy has gradients of."""


def floats(tensor: Any) -> Array | None:
    """Return the numbers of a tensor of floats or halves; None for any other."""
    if tensor.dtype.full_name.split("<")[0] == "struct" or type(tensor.dtype).__name__ == "StructType":
        return None
    array = np.array(tensor.to_numpy())
    return array if array.dtype in FLOATS else None


def number(value: Any, spec: Parameter | None) -> Array | None:
    """Return a number, a vector of slangpy's, a list or an array as floats of the parameter's type; None for anything else."""
    dtype = np.dtype(np.float32) if spec is None or spec.dtype is None else spec.dtype
    if dtype not in FLOATS or isinstance(value, (bool, str, bytes)) or value is None:
        return None
    if spec is not None and spec.kind == "other":
        dtype = np.dtype(np.float32)
    if type(value).__module__.startswith("slangpy.math") or type(value).__name__ in _VECTORS:
        value = list(value)
    if not isinstance(value, (int, float, list, tuple, np.ndarray, np.generic)):
        return None
    if spec is not None and spec.kind == "other" and np.asarray(value).dtype.kind != "f":
        return None  # a whole number for a type that the argument decides is an integer
    try:
        array = np.array(value, dtype=dtype)
    except (TypeError, ValueError):
        return None
    return array


_VECTORS = frozenset({"float1", "float2", "float3", "float4", "float16_t2", "float16_t3", "float16_t4"})


def host_shape(tensor: Any) -> tuple[int, ...]:
    """Return the shape of a tensor's numbers on the host: the axes of its elements last."""
    return (*tensor.shape.as_tuple(), *tensor.dtype.shape.as_tuple())


def uploaded(device: spy.Device, array: Array, like: Any) -> Any:
    """Return a new tensor of the type and shape of another, with these numbers."""
    tensor = spy.Tensor.empty(device, like.shape.as_tuple(), like.dtype)
    tensor.copy_from_numpy(contiguous(array.reshape(host_shape(like)), array.dtype))
    return tensor


def copy_of(tensor: Any) -> Any:
    """Return a tensor with the same contents and no gradient."""
    copy = spy.Tensor.empty(tensor.device, tensor.shape.as_tuple(), tensor.dtype)
    copy.copy_from_numpy(np.ascontiguousarray(tensor.to_numpy()))
    return copy
