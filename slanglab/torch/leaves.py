"""The torch tensors among the arguments of a call: where they stand, what they are for, and whether they can be used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import slangpy as spy
import torch

from slanglab.engine import gradients
from slanglab.engine.arrays import Converter
from slanglab.engine.parameters import Parameter, parameter
from slanglab.engine.target import Target
from slanglab.errors import CallError

__all__ = ["Arguments", "Leaf", "collect", "element_of", "torch_dtype", "torch_of"]

_BY_NUMPY: dict[np.dtype[Any], torch.dtype] = {
    np.dtype(name): getattr(torch, name)
    for name in (
        "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool",
    )
}  # fmt: skip
_ELEMENTS: dict[torch.dtype, str] = {
    torch.float16: "half",
    torch.bfloat16: "float",
    torch.float32: "float",
    torch.float64: "double",
    torch.int8: "int8_t",
    torch.int16: "int16_t",
    torch.int32: "int",
    torch.int64: "int64_t",
    torch.uint8: "uint8_t",
    torch.uint16: "uint16_t",
    torch.uint32: "uint",
    torch.uint64: "uint64_t",
    torch.bool: "bool",
}
_STORED: dict[str, torch.dtype] = {
    name: dtype for dtype, name in _ELEMENTS.items() if dtype is not torch.bfloat16
}
_RESULT = "_result"
_KEPT = 64


def torch_dtype(dtype: np.dtype[Any]) -> torch.dtype:
    """Return torch's dtype for one of numpy's that Slang has a type for."""
    return _BY_NUMPY[dtype]


def element_of(dtype: Any) -> str:
    """Return the Slang type that numbers of one of torch's dtypes have on a device."""
    return _ELEMENTS[dtype]


def torch_of(tensor: Any) -> tuple[Any, tuple[int, ...]]:
    """Return the dtype and the shape that a slangpy.Tensor of numbers, vectors or matrices has for torch."""
    inner = tensor.dtype.shape.as_tuple()
    name = tensor.dtype.full_name
    for element in sorted(_STORED, key=len, reverse=True):
        if name == element or f"<{element}," in name:
            return _STORED[element], (*tensor.shape.as_tuple(), *inner)
    raise TypeError(f"a tensor of {name} has no dtype in torch")


@dataclass(slots=True, eq=False)
class Leaf:
    """One torch tensor among the arguments.

    Attributes
    ----------
    tensor : torch.Tensor or None
        The user's; let go of when the forward call is over.
    where : str
        Its name for messages: "x", "spring.k".
    spec : Parameter or None
        What it is for; None where nothing is known of it.
    place : (container, key)
        Where it stands in the arguments of `Arguments`.
    element : str
        The Slang type that it has on the device: of its scalars, for a tensor of vectors that of those.
    dtype : torch.dtype
        The same in torch's words.
    outer : int
        Axes in front of those that make one element, or that the parameter takes whole.
    shape : tuple of int
        Its own, as torch has it.
    given : torch.dtype
        Its own.
    writes : bool
        True where the function writes it.
    reads : bool
        True where the function reads it.
    receives : bool
        True where a backward call has a gradient for it.
    """

    tensor: Any
    where: str
    spec: Parameter | None
    place: tuple[Any, Any]
    element: str
    dtype: Any
    outer: int
    shape: tuple[int, ...]
    given: Any
    writes: bool
    reads: bool
    receives: bool

    @property
    def placed(self) -> tuple[int, ...]:
        """Its shape on the device, which has no tensors without axes."""
        if self.spec is not None and self.spec.kind == "tensor" and self.spec.element_shape:
            return self.shape[: len(self.shape) - len(self.spec.element_shape)]
        return self.shape or (1,)


@dataclass(slots=True, eq=False)
class Arguments:
    """The arguments of a call with torch tensors.

    Attributes
    ----------
    args, kwargs
        Copies of the user's as deep as torch tensors stand in them; each `Leaf.place` is to be filled before a call.
    leaves : list of Leaf
        Those of the parameters; what was given as `_result` is the last where that is a torch tensor.
    has_axes : bool
        True where some argument spreads the call over axes, so that its result has some.
    simple : bool
        True where the shape of the call follows from the leaves: the other arguments are plain numbers, and `.map` is not used.
    result : object
        What was given as `_result`, or None.
    """

    args: list[Any]
    kwargs: dict[str, Any]
    leaves: list[Leaf]
    has_axes: bool
    simple: bool
    result: Any = None

    def filled(self, tensors: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments with these tensors in the places of the leaves."""
        for leaf, tensor in zip(self.leaves, tensors, strict=True):
            container, key = leaf.place
            container[key] = tensor
        return tuple(self.args), self.kwargs


class _Collector:
    def __init__(self, target: Target) -> None:
        self.target = target
        self.converter = Converter(target.device, target.name, target.mapping)
        self.leaves: list[Leaf] = []
        self.has_axes = False
        self.simple = not target.mapping and target.this is None and not target.this_first

    def visit(self, container: Any, key: Any, value: Any, spec: Parameter | None, where: str) -> None:
        """Look at one argument; put a copy of what holds torch tensors into `container`."""
        kind = type(value)
        if kind is float or kind is int or kind is bool:
            return
        if isinstance(value, torch.Tensor):
            self.leaves.append(self._leaf(value, spec, where, (container, key)))
            return
        if kind is dict:
            fields = spec.fields if spec is not None else {}
            inside: Any = dict(value)
            for name, inner in value.items():
                self.visit(inside, name, inner, _field(spec, fields.get(name)), f"{where}.{name}")
            container[key] = inside
        elif kind is list or kind is tuple:
            inside = list(value)
            if any(isinstance(v, (torch.Tensor, dict, list, tuple)) for v in inside):
                for i, inner in enumerate(value):
                    self.visit(inside, i, inner, _element(spec), f"{where}[{i}]")
            container[key] = inside
            self.simple = False
        else:
            self.simple = False
            self.has_axes = self.has_axes or _rank(value, spec) > 0

    def _leaf(self, tensor: Any, spec: Parameter | None, where: str, place: tuple[Any, Any]) -> Leaf:
        _check_kind(tensor, where, self.target.name)
        element = _element_of(tensor, spec, self.target, where)
        taken = len(spec.element_shape) + spec.dims if spec is not None else 0
        mapped = spec is not None and spec.name in self.target.mapping
        outer = tensor.ndim - taken
        if spec is not None and not mapped:
            self.converter.check_shape(tensor, spec, where)
        if outer > 0 or mapped:
            self.has_axes = True
        return Leaf(
            tensor,
            where,
            spec,
            place,
            _whole(element, spec),
            _STORED[element],
            max(outer, 0),
            tuple(tensor.shape),
            tensor.dtype,
            spec is not None and spec.writes,
            spec is None or spec.reads,
            spec is not None and gradients.receives(spec) and tensor.dtype.is_floating_point,
        )


def _whole(element: str, spec: Parameter | None) -> str:
    """Return the type of the elements of a tensor parameter: of vectors and matrices it takes no tensor of their numbers."""
    inner = spec.element_shape if spec is not None and spec.kind == "tensor" else ()
    if len(inner) == 1:
        return f"vector<{element},{inner[0]}>"
    return f"matrix<{element},{inner[0]},{inner[1]}>" if len(inner) == 2 else element


def _field(struct: Parameter | None, spec: Parameter | None) -> Parameter | None:
    """Return a field of a struct, which carries no gradient where the struct does not."""
    if struct is not None and struct.kind == "other":  # a generic one, whose fields the call decides
        return struct
    if spec is not None and struct is not None and not gradients.receives(struct):
        return replace(spec, no_diff=True)
    return spec


def _element(spec: Parameter | None) -> Parameter | None:
    """Return what an element of a list is for."""
    if spec is None or spec.kind not in ("vector", "array"):
        return None
    return replace(spec, kind="scalar", element_shape=())


def _rank(value: Any, spec: Parameter | None) -> int:
    """Return over how many axes an argument that is no torch tensor spreads a call."""
    shape = getattr(value, "shape", None)
    if shape is None or isinstance(value, type):
        return 0
    try:
        axes = len(tuple(shape))
    except TypeError:
        return 0
    inner = len(value.dtype.shape.as_tuple()) if isinstance(value, spy.Tensor) else 0
    taken = len(spec.element_shape) + spec.dims if spec is not None else 0
    return max(axes + inner - taken, 0)


def _check_kind(tensor: Any, where: str, function: str) -> None:
    """Refuse tensors that hold no plain numbers in memory."""
    what, hint = "", ""
    if tensor.device.type == "meta":
        what, hint = (
            "is on the meta device, which holds no numbers",
            "make it with `torch.empty_like(t, device='cpu')`",
        )
    elif tensor.layout is not torch.strided:
        what, hint = f"is sparse ({tensor.layout})", "pass `t.to_dense()`"
    elif tensor.is_quantized:
        what, hint = "is quantized", "pass `t.dequantize()`"
    elif tensor.is_complex():
        what, hint = (
            f"is complex ({tensor.dtype})",
            "pass `t.real` and `t.imag`, or `torch.view_as_real(t)` for a float2",
        )
    elif tensor.dtype not in _ELEMENTS:
        what, hint = (
            f"has dtype {tensor.dtype}, which Slang has no type for",
            "convert it, for example with `t.float()`",
        )
    if what:
        raise CallError(
            f"{function}: argument {where} {what}",
            function=function,
            argument=where,
            given=f"torch tensor of {tensor.dtype}, shape {tuple(tensor.shape)}, on {tensor.device}",
            hint=hint,
        )


def _element_of(tensor: Any, spec: Parameter | None, target: Target, where: str) -> str:
    """Return the Slang type of the scalars on the device: the parameter's where it has one, else that of the tensor."""
    if spec is None or spec.dtype is None:
        if spec is not None and spec.kind == "struct":
            raise CallError(
                f"{target.name}: argument {where} is a torch tensor, and {spec.type} is a struct",
                function=target.name,
                argument=where,
                expected=f"a dict with the fields {', '.join(spec.fields)}",
                given=f"torch tensor of {tensor.dtype}, shape {tuple(tensor.shape)}",
                hint="pass a dict of torch tensors, one for each field",
            )
        return _ELEMENTS[tensor.dtype]
    return _ELEMENTS[torch_dtype(spec.dtype)]


def collect(target: Target, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Arguments:
    """Find the torch tensors of a call.

    What was found for a call of numbers and torch tensors holds for others like it, and is kept.

    Raises
    ------
    CallError
        For one that cannot be used.
    """
    key = None if target.mapping or target.this_first else _key(args, kwargs)
    if key is None:
        return _collected(target, args, kwargs)
    known: dict[object, Arguments] = target.beside.setdefault("torch leaves", {})
    like = known.get(key)
    again = _like(like, args, kwargs) if like is not None else None
    if again is not None:
        return again
    found = _collected(target, args, kwargs)
    if like is None:
        if len(known) >= _KEPT:
            known.clear()
        alike = Arguments(
            [], {}, [replace(leaf, tensor=None) for leaf in found.leaves], found.has_axes, found.simple
        )
        for leaf in alike.leaves:
            leaf.place = leaf.place[0] is found.args, leaf.place[1]
        known[key] = alike
    return found


def _key(args: Sequence[Any], kwargs: Mapping[str, Any]) -> object | None:
    """Return what the arguments of a call are like; None where more is among them than numbers and torch tensors."""
    if _RESULT in kwargs:
        return None
    found: list[object] = [len(args), *kwargs]
    for value in (*args, *kwargs.values()):
        kind = type(value)
        if kind is torch.Tensor or kind is torch.nn.Parameter:
            found += (value.dtype, value.ndim, value.layout, value.device)
        elif kind is float or kind is int or kind is bool:
            found.append(None)
        else:
            return None
    return tuple(found)


def _like(known: Arguments, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Arguments | None:
    """Return the arguments of a call like an earlier one; None where a tensor has not the last axes that it needs."""
    held, named = list(args), dict(kwargs)
    leaves = []
    for a in known.leaves:
        by_position, key = a.place
        container: Any = held if by_position else named
        tensor = container[key]
        shape = tuple(tensor.shape)
        element = a.spec.element_shape if a.spec is not None else ()
        if element and shape[len(shape) - len(element) :] != element:
            return None
        leaves.append(
            Leaf(
                tensor, a.where, a.spec, (container, key), a.element, a.dtype, a.outer, shape, a.given, a.writes,
                a.reads, a.receives,
            )
        )  # fmt: skip
    return Arguments(held, named, leaves, known.has_axes, known.simple)


def _collected(target: Target, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Arguments:
    found = _Collector(target)
    held = list(args)
    named = dict(kwargs)
    shift = 1 if target.this_first and held else 0
    if shift:
        found.visit(held, 0, held[0], _this(target), "this")
    specs = target.parameters
    for i in range(shift, len(held)):
        spec = specs[i - shift] if i - shift < len(specs) else None
        found.visit(held, i, held[i], spec, spec.name if spec is not None else f"number {i + 1}")
    result = None
    for name, value in kwargs.items():
        if name == _RESULT:
            result = value
        else:
            found.visit(named, name, value, target.by_name.get(name), name)
    has_axes, simple = found.has_axes, found.simple
    if isinstance(result, torch.Tensor):
        found.visit(named, _RESULT, result, target.result, _RESULT)
    return Arguments(held, named, found.leaves, has_axes, simple, result)


def _this(target: Target) -> Parameter | None:
    this = target.slang_function.this
    return parameter("this", this) if this is not None else None
