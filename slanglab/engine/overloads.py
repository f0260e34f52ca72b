"""Which overload a call means: the one that its arguments match exactly, else the nearest that can take them.

slangpy refuses every overloaded function. The rule here is the one of C-like languages, over what a Python caller can say: an int
prefers `int`, a float prefers `float`, an array prefers its own dtype.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import slangpy as spy

from slanglab.engine.dispatch import Target
from slanglab.engine.parameters import Parameter
from slanglab.errors import CallError
from slanglab.scalars import type_name
from slanglab.values import describe_value, is_torch

__all__ = ["choose"]

_FLOATS = ("float", "double", "half")
_INTEGERS = ("int", "int64_t", "uint", "uint64_t", "int16_t", "uint16_t", "int8_t", "uint8_t")


def _scalar_cost(value: Any, spec: Parameter) -> int | None:
    """Return how far a number is from a scalar parameter: 0 exact, None impossible."""
    if spec.kind != "scalar":
        return 40 if spec.kind == "vector" else None  # a number spreads over a vector
    if isinstance(value, (bool, np.bool_)):
        return 0 if spec.type == "bool" else 5 if spec.type in _INTEGERS else 20
    if isinstance(value, (int, np.integer)):
        if spec.type in _INTEGERS:
            return _INTEGERS.index(spec.type)
        return 10 + _FLOATS.index(spec.type) if spec.type in _FLOATS else None
    return _FLOATS.index(spec.type) if spec.type in _FLOATS else None


def _array_cost(dtype: Any, shape: tuple[int, ...], spec: Parameter) -> int | None:
    if spec.dtype is None:
        return None
    rank = len(spec.element_shape)
    if rank and shape[-rank:] != spec.element_shape:
        return None
    if spec.kind == "tensor" and len(shape) - rank != spec.dims:
        return None
    # The more axes a parameter takes, the nearer it is: (n, 3) means float3 before float.
    cost = 8 - min(rank, 4)
    if dtype == spec.dtype:
        return cost
    return None if spec.dtype.kind in "iu" and dtype.kind == "f" else cost + 10


def _torch_cost(tensor: Any, spec: Parameter) -> int | None:
    """Return how far a torch tensor is from a parameter: as an array of its dtype and shape is."""
    name = str(tensor.dtype).removeprefix("torch.")
    try:
        dtype = np.dtype("float32" if name == "bfloat16" else name)
    except TypeError:  # one that numpy lacks: it is refused when the call is made, by name
        dtype = np.dtype(np.float32)
    shape = tuple(tensor.shape)
    if not shape and spec.kind == "vector":
        return None
    return _array_cost(dtype, shape, spec)


def _cost(value: Any, spec: Parameter) -> int | None:
    if isinstance(value, (bool, int, float, np.generic)):
        return _scalar_cost(value, spec)
    if isinstance(value, (list, tuple)):
        if spec.kind in ("vector", "array") and spec.element_shape == (len(value),):
            return 0
        try:
            value = np.asarray(value)
        except ValueError:
            return None
    if isinstance(value, np.ndarray):
        return _array_cost(value.dtype, value.shape, spec)
    if is_torch(value):
        return _torch_cost(value, spec)
    if isinstance(value, spy.Tensor):
        element = type_name(value.dtype.full_name)
        if spec.kind == "tensor":
            return 0 if value.shape.as_tuple().__len__() == spec.dims else None
        if element == spec.type:
            return 0
        return 5 if spec.kind == "vector" and spec.type.startswith(element) else None
    if isinstance(value, dict):
        return 0 if spec.kind == "struct" and set(value) - {"_type"} == set(spec.fields) else None
    name = type(value).__name__
    return 0 if name == spec.type else 30


def choose(
    function: str, targets: Sequence[Target], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Target:
    """Return the overload that a call means.

    Raises
    ------
    CallError
        When none takes the arguments, or two take them equally well; the message lists the signatures.
    """
    named = {k: v for k, v in kwargs.items() if not k.startswith("_")}
    ranked: list[tuple[int, Target]] = []
    for target in targets:
        if len(args) > len(target.names) or any(k not in target.by_name for k in named):
            continue
        values = dict(zip(target.names, args, strict=False)) | named
        if any(n not in values and n not in target.defaults for n in target.names):
            continue
        costs = [_cost(v, target.by_name[n]) for n, v in values.items()]
        if all(c is not None for c in costs):
            ranked.append((sum(c for c in costs if c is not None), target))
    ranked.sort(key=lambda pair: pair[0])
    signatures = "; ".join(f"{function}({', '.join(p.type for p in t.parameters)})" for t in targets)
    given = ", ".join(describe_value(v) for v in (*args, *named.values()))
    if not ranked:
        raise CallError(
            f"no overload of {function} takes these arguments",
            function=function,
            expected=signatures,
            given=given or "no arguments",
        )
    if len(ranked) > 1 and ranked[0][0] == ranked[1][0]:
        raise CallError(
            f"two overloads of {function} take these arguments equally well",
            function=function,
            expected=signatures,
            given=given,
            hint="pass a value of the exact type, for example `slangpy.float3(…)` or an array of that dtype",
        )
    return ranked[0][1]
