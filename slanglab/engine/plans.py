"""The short way for calls like earlier ones: what arguments are like, as a key that is quick to make.

A call goes the long way once (`dispatch`): every argument is checked and, where need be, converted. Where nothing had to be converted,
and nothing that was checked can differ for arguments of the same kind, the key of the call is kept with the node to call; the
next call with that key goes to slangpy with its arguments as they are. What can differ from call to call (the device of a tensor, its
having no elements, the size of a number, the layout of an array) is looked at here each time, and sends the call the long way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import slangpy as spy
from slangpy.core.native import get_value_signature

from slanglab.engine.parameters import Parameter
from slanglab.engine.target import Target

__all__ = ["key", "may_plan"]

_Tensor = spy.Tensor
_LARGEST = float(np.finfo(np.float32).max)
_FIXED = frozenset(
    type(v) for v in (spy.grid((1,)), spy.call_id(), spy.thread_id(), spy.wang_hash(), spy.rand_float())
) | {spy.float2, spy.float3, spy.float4, spy.int2, spy.int3, spy.int4, spy.uint2, spy.uint3, spy.uint4}
"""Values that are passed on as they are, whatever they hold."""


def key(target: Target, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[object, ...] | None:
    """Return what the arguments of a call are like, or None for a call that has to go the long way."""
    found: list[object] = [len(args), *kwargs]
    add = found.append
    device = target.device
    for values in (args, kwargs.values()):
        for value in values:
            kind = type(value)
            if kind is _Tensor:
                if value.device is not device or not value.element_count:
                    return None
                add(get_value_signature(value))
                if target.binds_gradients:
                    add(value.grad_in is not None)
                    add(value.grad_out is not None)
            elif kind is float:
                if not -_LARGEST <= value <= _LARGEST:
                    return None
                add(kind)
            elif kind is int:
                if not 0 <= value < 2**31:
                    return None
                add(kind)
            elif kind is np.ndarray:
                # `carray`: contiguous, aligned, writeable; slangpy reads the strides of axes of length 1 too.
                shape = value.shape
                if not value.flags.carray or 1 in shape or 0 in shape or not shape:
                    return None
                add(value.dtype)
                add(shape)
            elif kind is str:
                add(value)
            elif kind in _FIXED:
                add(kind)
            else:
                return None
    return tuple(found)


def may_plan(before: Sequence[Any], after: Sequence[Any], specs: Sequence[Parameter | None]) -> bool:
    """Tell whether a call that has gone the long way stands for all with its key.

    Parameters
    ----------
    before, after : sequence of object
        The arguments as the user passed them, and as they were given to slangpy.
    specs : sequence of Parameter or None
        What each is for.
    """
    return all(a is b and _is_settled(b, s) for b, a, s in zip(before, after, specs, strict=True))


def _is_settled(value: Any, spec: Parameter | None) -> bool:
    if spec is None:
        return True
    kind = type(value)
    if kind is float:
        return spec.dtype is not None and spec.dtype.kind == "f" and spec.dtype.itemsize >= 4
    if kind is int:
        return spec.dtype is not None and spec.dtype.kind in "iu" and spec.dtype.itemsize >= 4
    if kind is _Tensor:
        # The last axes of a tensor of numbers make a vector: then its shape counts, which is no part of the key.
        rank = len(spec.element_shape)
        own = len(value.dtype.shape.as_tuple()) if rank else 0
        return spec.kind == "tensor" or rank <= own
    return True
