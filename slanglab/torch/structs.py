"""Results that are structs: one torch tensor for each field."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from slanglab.tensors import layout

__all__ = ["fields_of"]


def fields_of(tensor: Any, where: Any) -> dict[str, Any]:
    """Return the fields of a contiguous slangpy.Tensor of structs as torch tensors on the device `where`, by name.

    A struct within the struct is a dict of its own. Waits for the device.
    """
    shape = tuple(tensor.shape.as_tuple())
    size = int(tensor.dtype.buffer_layout.stride)
    memory = np.ascontiguousarray(tensor.to_numpy()).view(np.uint8).reshape(-1)
    starts = [size * s for s in tensor.strides.as_tuple()]
    found: dict[str, Any] = {}
    for field in layout.fields(tensor):
        kind = np.dtype(f"u{field.form.bits // 8}" if field.form.name == "bool" else field.form.name)
        if memory.size:
            first = np.frombuffer(memory, kind, 1, field.offset)
            values = np.lib.stride_tricks.as_strided(first, (*shape, *field.shape), (*starts, *field.strides))
        else:
            values = np.empty((*shape, *field.shape), kind)
        array = values != 0 if field.form.name == "bool" else values.copy()
        *path, name = field.name.split(".")
        at = found
        for step in path:
            at = at.setdefault(step, {})
        at[name] = torch.from_numpy(np.ascontiguousarray(array)).to(where)
    return found
