"""What slangpy is called with for an argument whose gradient many threads share: a type of argument of our own.

slangpy asks the marshall of an argument's Python type for the Slang type that loads it, for that type's value before a call, and tells
it when the call is submitted. These are its extension points: `PYTHON_TYPES`, `slangpy_signature`, `gen_calldata`, `create_calldata`,
`read_calldata`.
"""

from __future__ import annotations

import hashlib
import math
import string
from typing import Any

import numpy as np
import slangpy as spy
from slangpy.bindings import PYTHON_TYPES
from slangpy.builtin.tensor import TensorMarshall, create_tensor_marshall
from slangpy.core.native import AccessType, CallMode, NativeObject
from slangpy.reflection import ArrayType, ITensorType, MatrixType, ScalarType, VectorType

from slanglab.engine.parameters import Parameter
from slanglab.engine.shared import cells
from slanglab.tensors.kernels import source

__all__ = ["Shared", "worth", "wrap"]

_WORTH = 1024
"""Threads for each value of an argument from which its gradient is shared: below that slangpy's atomics lose nothing."""

_NUMBERS = {np.dtype(np.float32): 4, np.dtype(np.float16): 2}
_PLACED = 64  # shapes of a call, kept for one kernel
_KINDS = frozenset({"scalar", "vector", "matrix", "array"})


def worth(value: Any, call_shape: tuple[int, ...], spec: Parameter) -> bool:
    """Tell whether an argument of a backward call is to be wrapped.

    Parameters
    ----------
    value : object
    call_shape : tuple of int
        Over which the call runs.
    spec : Parameter
        What the argument is for; for a field of a struct, the field.

    Returns
    -------
    bool
        True for a tensor of float or half with a gradient of its own shape, of whose values each is read by 1024 threads or more.
    """
    if type(value) is not spy.Tensor or spec.kind not in _KINDS or spec.writes or spec.no_diff:
        return False
    size = _NUMBERS.get(spec.dtype) if spec.dtype is not None else None
    if size is None or not spec.differentiable:
        return False
    gradient = value.grad_out
    if gradient is None:
        return False
    storage = gradient.storage
    numbers = gradient.element_count * storage.struct_size // size
    values = numbers // math.prod(spec.element_shape)
    return bool(
        values > 0
        and math.prod(call_shape) >= _WORTH * values
        and gradient.shape == value.shape
        and gradient.is_contiguous()
        # Metal pads a float3 to 16 bytes, CUDA a half3 to 8; the cells lie without gaps.
        and storage.struct_size == size * math.prod(value.dtype.shape.as_tuple())
    )


def wrap(value: Any, threads: int, spec: Parameter) -> Shared:
    """Return what slangpy is to be called with for `value`, whose gradient the call adds to as slangpy would.

    Parameters
    ----------
    value : slangpy.Tensor
        One that is `worth` it.
    threads : int
        Of the call.
    spec : Parameter

    Returns
    -------
    Shared
        For this call, or for several that are appended to one encoder.
    """
    return Shared(value, threads, spec.dtype == np.float16)


class Shared(NativeObject):  # type: ignore[misc]
    """A tensor whose gradient is summed through cells.

    A call that is appended to an encoder is to be followed by `finish(encoder)`, on the same encoder; other calls need nothing.

    Attributes
    ----------
    tensor : slangpy.Tensor
    """

    def __init__(self, tensor: Any, threads: int, half: bool) -> None:
        super().__init__()
        self.tensor = tensor
        self._threads = threads
        self._half = half
        self._cells: cells.Cells | None = None
        self.slangpy_signature = f"{tensor.dtype.full_name},{len(tensor.shape)}"

    def cells(self) -> cells.Cells:
        """Return the cells that the call adds to."""
        if self._cells is None:
            gradient = self.tensor.grad_out
            size = 2 if self._half else 4
            count = gradient.element_count * gradient.storage.struct_size // size
            self._cells = cells.take(self.tensor.device, count, self._threads, self._half)
        return self._cells

    def finish(self, encoder: Any = None) -> None:
        """Add what the calls have summed to the gradient; record that on an encoder, or submit it."""
        if self._cells is not None:
            used, self._cells = self._cells, None
            used.add_to(self.tensor.grad_out, encoder)


class _Marshall(TensorMarshall):  # type: ignore[misc]
    """How a shared argument gets into a kernel."""

    def __init__(self, layout: Any, shared: Shared) -> None:
        like = create_tensor_marshall(layout, shared.tensor)
        super().__init__(layout, like.slang_element_type, like.dims, like.writable, like.d_in, like.d_out)
        self._shares = False
        self._placed: dict[tuple[tuple[int, ...], ...], tuple[list[int], list[int]]] = {}

    def get_shape(self, value: Shared) -> Any:
        return value.tensor.shape

    def gen_calldata(self, cgb: Any, context: Any, binding: Any) -> None:
        kind = binding.vector_type
        if isinstance(kind, ITensorType):
            raise TypeError(f"{binding.variable_name} takes a whole tensor, which cannot be shared")
        self._shares = context.call_mode == CallMode.bwds and binding.access[1] == AccessType.write
        if not self._shares:
            super().gen_calldata(cgb, context, binding)
            return
        parts = _components(kind, "g")
        half = _scalar(kind).full_name == "half"
        rank = binding.call_dimensionality
        fields = {
            "element": self.slang_element_type.full_name,
            "rank": self.dims,
            "value": kind.full_name,
            "call": rank,
            "dims": max(1, rank),
            "item": " + ".join(f"context.call_id[{i}] * _pitch[{i}]" for i in range(rank)) or "0",
            "cell": "uint" if half else "float",
            "cells": len(parts) * (cells.HALF_CELLS if half else 1),
            "guard": "if (sums[k] != 0)" if half else "",
            "before": " ".join(f"uint[4] d{i} = slanglab_digits({p});" for i, p in enumerate(parts))
            if half
            else "",
            "parts": ", ".join(f"d{i}[{k}]" for i in range(len(parts)) for k in range(cells.HALF_CELLS))
            if half
            else ", ".join(parts),
        }
        if half:
            cgb.add_snippet("slanglab_digits", source("shared_half.slang"))
        template = string.Template(source("shared_argument.slang"))
        # Named by what it consists of: two arguments that need the same struct share it.
        digest = hashlib.sha1(repr(sorted(fields.items())).encode(), usedforsecurity=False).hexdigest()[:12]
        name = f"SlangLabShared_{digest}"
        cgb.add_snippet(name, template.substitute(fields, name=name))
        binding.gen_calldata_type_name(cgb, name)

    def create_calldata(self, context: Any, binding: Any, data: Shared) -> Any:
        tensor = data.tensor
        key = (tensor.shape.as_tuple(), tensor.strides.as_tuple(), context.call_shape.as_tuple())
        placed = self._placed.get(key)
        if placed is None:
            if len(self._placed) >= _PLACED:
                self._placed.clear()
            placed = self._placed[key] = _place(*key, binding.transform.as_tuple())
        pitch, steps = placed
        primal = tensor.uniforms()
        primal["_strides"] = steps
        return {"_primal": primal, "_pitch": pitch, **data.cells().arguments} if self._shares else primal

    def read_calldata(self, context: Any, binding: Any, data: Shared, result: Any) -> None:
        data.finish()


PYTHON_TYPES[Shared] = _Marshall


def _place(
    shape: tuple[int, ...], strides: tuple[int, ...], call: tuple[int, ...], transform: tuple[int, ...]
) -> tuple[list[int], list[int]]:
    """Return for each axis that is the call's how far it moves among the values, and the strides; 0 where it is broadcast."""
    outer = shape[: len(transform)]
    spread = [call[dimension] != n for dimension, n in zip(transform, outer, strict=True)]
    steps = [0 if s else step for s, step in zip(spread, strides, strict=False)]
    pitch, values = [], 1
    for s, n in zip(reversed(spread), reversed(outer), strict=True):
        pitch.append(0 if s else values)
        values *= n
    return pitch[::-1] or [0], [*steps, *strides[len(outer) :]]


def _components(kind: Any, text: str) -> list[str]:
    """Return the numbers of a value of a Slang type, in the order of memory, as Slang expressions."""
    if isinstance(kind, ScalarType):
        return [text]
    if isinstance(kind, MatrixType):
        return [f"{text}[{i}][{j}]" for i in range(kind.rows) for j in range(kind.cols)]
    if isinstance(kind, (VectorType, ArrayType)):
        inner = kind.scalar_type if isinstance(kind, VectorType) else kind.element_type
        return [c for i in range(kind.num_elements) for c in _components(inner, f"{text}[{i}]")]
    raise TypeError(f"values of {kind.full_name} cannot be shared")


def _scalar(kind: Any) -> Any:
    while isinstance(kind, ArrayType):
        kind = kind.element_type
    return kind if isinstance(kind, ScalarType) else kind.scalar_type
