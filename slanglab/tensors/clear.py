"""Zeros for a tensor: all of it, down to the last byte, and nothing outside of it.

slangpy's own `clear` zeroes the whole buffer that a view lies in, and of that only whole words of 4 bytes: a half tensor of shape (3,)
keeps its last element.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import slangpy as spy

from slanglab.tensors import kernels
from slanglab.tensors.kernels import FORMATS
from slanglab.tensors.layout import Axes

__all__ = ["clear", "clear_end"]

_WORD = 4
_clear = spy.Tensor.__dict__["clear"]
_GROUPS = 1024
_UNITS = {n: FORMATS[f"uint{8 * n}"] for n in (1, 2, 4)}


def clear(tensor: Any, encoder: Any = None) -> None:
    """Fill a tensor or a view with zeros.

    Parameters
    ----------
    tensor : slangpy.Tensor
        Of any element type and layout; what lies between the elements of a strided view stays as it is.
    encoder : slangpy.CommandEncoder, optional
        Where to record it, for a later submit.
    """
    storage = tensor.storage
    size = storage.size
    count = tensor.element_count
    if count == 0:
        return
    if count * storage.struct_size != size or tensor.offset or not tensor.is_contiguous():
        _clear_view(tensor, encoder)
        return
    _clear(tensor, encoder)
    if size % _WORD:
        clear_end(tensor, encoder)


def clear_end(tensor: Any, encoder: Any = None) -> None:
    """Zero the bytes behind the last whole word of a tensor's buffer, where its size is no multiple of 4."""
    storage = tensor.storage
    rest = storage.size % _WORD
    if not rest:
        return
    own = tensor.device.create_command_encoder() if encoder is None else encoder
    own.upload_buffer_data(storage, storage.size - rest, np.zeros(rest, np.uint8))
    if encoder is None:
        tensor.device.submit_command_buffer(own.finish())


def _clear_view(tensor: Any, encoder: Any) -> None:
    stride = int(tensor.storage.struct_size)
    offset = int(tensor.offset) * stride
    steps = [int(s) * stride for s in tensor.strides.as_tuple()]
    # In the largest unit that every address is a multiple of: bytes need 8-bit storage, which not every device has.
    unit = math.gcd(_WORD, stride, offset, *steps)
    unit = unit if unit in _UNITS else 1
    axes, _ = Axes(
        (*tensor.shape.as_tuple(), stride // unit), (*(s // unit for s in steps), 1), offset // unit
    ).unordered()
    flat = int(len(axes.shape) <= 1)
    if flat:
        layout: dict[str, Any] = {"base": axes.base, "stride": axes.strides[0] if axes.strides else 0}
    else:
        pairs = np.array([axes.shape, axes.strides], np.uint32).T
        usage = spy.BufferUsage.shader_resource
        table = tensor.device.create_buffer(
            element_count=len(pairs), struct_size=8, usage=usage, data=np.ascontiguousarray(pairs)
        )
        layout = {"base": axes.base, "rank": len(pairs), "axes": table}
    group = kernels.group_size(tensor.device)
    threads = min(math.ceil(axes.count / group), _GROUPS) * group
    kernels.kernel(tensor.device, "clear", "clear", _UNITS[unit], GROUP=group, FLAT=flat).dispatch(
        [threads, 1, 1],
        count=axes.count,
        step=threads,
        layout=layout,
        elements=tensor.storage,
        **({} if encoder is None else {"command_encoder": encoder}),
    )
