"""Over which shape a call runs, known before it runs.

slangpy takes from each argument what its parameter leaves over (of a tensor of shape (100, 3) for a float3 the 100), places that at the
dimensions that `.map` says, else at the last ones, and broadcasts. What kind each argument is settles how its shape is read; a
reader is made once for a plan, and reads the shapes of each call in a microsecond or two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import slangpy as spy

from slanglab.engine.parameters import Parameter

__all__ = ["Reader", "reader"]

Shape = tuple[int, ...]
Reader = Callable[[Sequence[Any]], Shape | None]

_GRID = type(spy.grid((1,)))
_NO_SHAPE = tuple(type(v) for v in (spy.call_id(), spy.thread_id(), spy.wang_hash(), spy.rand_float()))
_NUMBERS = (bool, int, float, np.generic)
_VECTOR_NAMES = tuple(f"{s}{n}" for s in ("float", "int", "uint", "bool", "float16_t") for n in (1, 2, 3, 4))
_VECTORS = tuple({getattr(spy, n) for n in _VECTOR_NAMES if hasattr(spy, n)})
_RESOURCES = (
    "StructuredBuffer",
    "ByteAddressBuffer",
    "Texture",
    "SamplerState",
    "RaytracingAccelerationStructure",
)


class _UnknownError(Exception):
    """The shape of an argument cannot be told."""


@dataclass(frozen=True)
class _Leaf:
    """How one shape is read.

    Attributes
    ----------
    at : int
        Which argument.
    path : tuple of str
        The fields that lead to it, for an argument that is a dict.
    get : callable
        Returns the value's own shape.
    tail : tuple of int
        What its elements add to that.
    cut : int
        How many of the last axes the parameter takes.
    mapping : tuple of int or None
        The dimensions of the call that the axes are for, as `.map` says.
    """

    at: int
    path: tuple[str, ...]
    get: Callable[[Any], Shape]
    tail: Shape
    cut: int
    mapping: Shape | None


def reader(
    specs: Sequence[Parameter | None], values: Sequence[Any], mappings: Sequence[Any] | None = None
) -> Reader | None:
    """Return what reads the call shape from arguments of the kinds of these.

    Parameters
    ----------
    specs : sequence of Parameter or None
        What each argument is for; None where that is not known. An instance and `_result` are arguments like others.
    values : sequence of object
        The arguments of one call.
    mappings : sequence of object, optional
        What `.map` says about each; None where it says nothing.

    Returns
    -------
    callable or None
        Takes the arguments of a call, in the same order and of the same kinds, and returns its shape, or None where the shapes do
        not broadcast. None where an argument's shape cannot be told.
    """
    found: list[_Leaf] = []
    try:
        for at, (spec, value) in enumerate(zip(specs, values, strict=True)):
            _add(found, at, (), spec, value, mappings[at] if mappings is not None else None)
    except _UnknownError:
        return None
    leaves = tuple(found)
    if all(leaf.mapping is None and not leaf.path for leaf in leaves):
        return _simple(leaves)

    def read(given: Sequence[Any]) -> Shape | None:
        shapes = [(_shape(leaf, given), leaf.mapping) for leaf in leaves]
        return _placed(shapes)

    return read


def _simple(leaves: tuple[_Leaf, ...]) -> Reader:
    steps = [(leaf.at, leaf.get, leaf.tail, leaf.cut) for leaf in leaves]

    def read(given: Sequence[Any]) -> Shape | None:
        whole: Shape = ()
        for at, get, tail, cut in steps:
            shape = get(given[at])
            if tail:
                shape += tail
            if cut:
                shape = shape[:-cut]
            if shape != whole and shape:
                joined = _broadcast(whole, shape) if whole else shape
                if joined is None:
                    return None
                whole = joined
        return whole

    return read


def _shape(leaf: _Leaf, given: Sequence[Any]) -> Shape:
    value = given[leaf.at]
    for name in leaf.path:
        value = _inside(value)[name]
    shape = leaf.get(value) + leaf.tail
    return shape[: len(shape) - leaf.cut]


def _placed(shapes: Sequence[tuple[Shape, Shape | None]]) -> Shape | None:
    rank = max((len(s) if m is None else max(m, default=-1) + 1 for s, m in shapes), default=0)
    whole: Shape = (1,) * rank
    for shape, mapping in shapes:
        if mapping is None:
            placed = shape
        elif len(mapping) != len(shape):
            return None
        else:
            sizes = [1] * rank
            for size, dimension in zip(shape, mapping, strict=True):
                sizes[dimension] = size
            placed = tuple(sizes)
        joined = _broadcast(whole, placed)
        if joined is None:
            return None
        whole = joined
    return whole


def _broadcast(a: Shape, b: Shape) -> Shape | None:
    if len(a) < len(b):
        a, b = b, a
    skip = len(a) - len(b)
    joined = list(a)
    for i, n in enumerate(b):
        m = a[skip + i]
        if m == 1:
            joined[skip + i] = n
        elif n not in (m, 1):
            return None
    return tuple(joined)


def _tensor_shape(value: Any) -> Shape:
    shape: Shape = value.shape.as_tuple()
    return shape


def _array_shape(value: Any) -> Shape:
    shape: Shape = value.shape
    return shape


def _grid_shape(value: Any) -> Shape:
    return tuple(n if n >= 0 else 1 for n in value.shape.as_tuple())


def _instance_shape(value: Any) -> Shape:
    return _tensor_shape(value.tensor)


def _length(value: Any) -> Shape:
    return (len(value),)


def _inside(value: Any) -> Any:
    """Return the fields of a dict, or those that an InstanceList holds."""
    return value if isinstance(value, Mapping) else value._data


def _add(
    found: list[_Leaf], at: int, path: tuple[str, ...], spec: Parameter | None, value: Any, mapping: Any
) -> None:
    if isinstance(value, Mapping) or isinstance(getattr(value, "_data", None), Mapping):
        _add_fields(found, at, path, spec, value, mapping)
        return
    if isinstance(mapping, (list, tuple)):
        mapping = tuple(mapping)
    elif mapping is not None:
        raise _UnknownError  # a type, which changes how much of the value the parameter takes
    if isinstance(value, _NO_SHAPE):
        return
    if isinstance(value, (spy.Buffer, spy.Texture, spy.TextureView, spy.Sampler)):
        if spec is None or not any(word in spec.type for word in _RESOURCES):
            raise _UnknownError
        return
    get, tail = _how(value)
    if get is None:
        return
    found.append(_Leaf(at, path, get, tail, 0 if isinstance(value, _GRID) else _cut(spec, value), mapping))


def _add_fields(
    found: list[_Leaf], at: int, path: tuple[str, ...], spec: Parameter | None, value: Any, mapping: Any
) -> None:
    if spec is None or (mapping is not None and not isinstance(mapping, Mapping)):
        raise _UnknownError
    for name, inner in _inside(value).items():
        if name == "_type":
            continue
        if name not in spec.fields:
            raise _UnknownError
        inner_mapping = mapping.get(name) if mapping is not None else None
        _add(found, at, (*path, name), spec.fields[name], inner, inner_mapping)


def _how(value: Any) -> tuple[Callable[[Any], Shape] | None, Shape]:
    """Return what reads the shape of a value, None for one without axes, and the axes of its elements."""
    if isinstance(value, spy.Tensor):
        return _tensor_shape, tuple(value.dtype.shape.as_tuple())
    if isinstance(value, np.ndarray):
        return _array_shape, ()
    if isinstance(value, _GRID):
        return _grid_shape, ()
    if isinstance(value, _NUMBERS):
        return None, ()
    if isinstance(value, _VECTORS):
        return _length, ()
    if isinstance(value, (list, tuple)) and value and all(isinstance(v, _NUMBERS) for v in value):
        return _length, ()
    if isinstance(value, spy.ValueRef) and isinstance(value.value, _NUMBERS):
        return None, ()
    if isinstance(value, spy.DiffPair) and isinstance(value.primal, _NUMBERS):
        return None, ()
    inner = getattr(value, "tensor", None)
    if hasattr(value, "get_this") and isinstance(inner, spy.Tensor):
        return _instance_shape, tuple(inner.dtype.shape.as_tuple())
    raise _UnknownError


def _cut(spec: Parameter | None, value: Any) -> int:
    """Return how many of a value's last axes a parameter takes."""
    if spec is None or spec.kind == "other":
        raise _UnknownError
    if spec.kind == "struct":
        return 0
    if spec.kind == "tensor":
        if not spec.dims:  # of any rank
            raise _UnknownError
        return spec.dims + len(_element(spec, value))
    if spec.dtype is None:  # an array whose length the call decides, or of structs
        raise _UnknownError
    return len(spec.element_shape)


def _element(spec: Parameter, value: Any) -> Shape:
    """Return the shape of a tensor parameter's elements; those of a generic one are the value's."""
    if spec.dtype is not None or not isinstance(value, spy.Tensor):
        return spec.element_shape
    return tuple(value.dtype.shape.as_tuple())
