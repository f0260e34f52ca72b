"""Elements whose scalars do not lie one after another: on CUDA each row of three halves takes eight bytes.

slangpy 0.43.1 computes with them rightly, but `to_numpy`, `copy_from_numpy`, `to_torch` and `str` take a half2x3, a half3x3 or an
array of half3 as if there were no gaps inside (seen on an H200), and backward calls add to gradients so. Here such a tensor becomes
one of scalars with one axis more, or two for a matrix, over the same memory.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import slangpy as spy

from slanglab.scalars import numbers_in
from slanglab.tensors import layout

__all__ = ["as_scalars", "spread_out"]

_NESTED = ("VectorType", "MatrixType", "ArrayType")


def _has_gaps(element: Any) -> bool:
    numbers = numbers_in(element.full_name)
    if numbers is None or not numbers[1] or numbers[0] == np.bool_:
        return False  # how long a bool is is another matter
    return numbers[0].itemsize * math.prod(numbers[1]) != int(element.buffer_layout.stride)


def as_scalars(tensor: Any) -> Any | None:
    """Return a tensor as one of its scalars over the same memory, the axes of its elements last.

    Parameters
    ----------
    tensor : slangpy.Tensor

    Returns
    -------
    slangpy.Tensor or None
        Without gradients. None where the scalars of an element lie one after another, as nearly everywhere, and for structs.
    """
    if not _has_gaps(tensor.dtype):
        return None
    inner, width, strides = _places(tensor)
    return spy.Tensor(
        tensor.storage,
        _scalar_type(tensor.dtype),
        (*tensor.shape.as_tuple(), *inner),
        (*(width * n for n in tensor.strides.as_tuple()), *strides),
        width * tensor.offset,
    )


def spread_out(tensor: Any, data: np.ndarray[Any, Any]) -> tuple[Any, np.ndarray[Any, Any]] | None:
    """Return what to upload where, so that numbers land beside the gaps of a contiguous tensor.

    Parameters
    ----------
    tensor : slangpy.Tensor
        Contiguous.
    data : numpy.ndarray
        Its numbers, of its scalar type.

    Returns
    -------
    tuple of (slangpy.Tensor, numpy.ndarray) or None
        A flat tensor over the same memory, gaps included, and what belongs there. None where there are no gaps.
    """
    if not _has_gaps(tensor.dtype):
        return None
    inner, width, strides = _places(tensor)
    count, size = int(tensor.element_count), data.dtype.itemsize
    memory = np.zeros(count * width, data.dtype)
    between = np.lib.stride_tricks.as_strided(
        memory, (count, *inner), (width * size, *(n * size for n in strides))
    )
    between[...] = data.reshape(count, *inner)
    flat = spy.Tensor(
        tensor.storage, _scalar_type(tensor.dtype), (count * width,), (1,), width * tensor.offset
    )
    return flat, memory


def _places(tensor: Any) -> tuple[tuple[int, ...], int, tuple[int, ...]]:
    """Return the shape of an element, how many scalars it takes, and where each of them lies, counted in scalars."""
    (field,) = layout.fields(tensor)
    size = field.form.bits // 8
    return (
        field.shape,
        int(tensor.dtype.buffer_layout.stride) // size,
        tuple(n // size for n in field.strides),
    )


def _scalar_type(element: Any) -> Any:
    while type(element).__name__ in _NESTED:
        element = element.element_type
    return element
