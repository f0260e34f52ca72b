"""What a Slang function takes and returns in torch's words, known without a device: what an operator of torch has to say of itself."""

from __future__ import annotations

import keyword
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from slanglab.cells.function import SlangFunction
from slanglab.engine import gradients
from slanglab.engine.parameters import Parameter
from slanglab.engine.target import Target
from slanglab.errors import ArgumentError, CallError
from slanglab.torch.leaves import torch_dtype

__all__ = ["Output", "Signature", "Slot", "read"]

_PLAIN = ("scalar", "vector", "matrix", "array", "tensor")


@dataclass(frozen=True)
class Slot:
    """One argument of the operator: a parameter, or one field of a struct.

    Attributes
    ----------
    where : str
        As a person writes it: "x", "spring.k".
    name : str
        In the operator's schema.
    rank : int
        How many of a tensor's last axes it takes.
    element_shape : tuple of int
        Of one element; for a tensor parameter that of its elements.
    is_tensor : bool
        True for a parameter that takes a tensor whole.
    takes : str
        In words.
    receives : bool
        True where a backward call has a gradient for it.
    """

    where: str
    name: str
    rank: int
    element_shape: tuple[int, ...]
    is_tensor: bool
    takes: str
    receives: bool

    def outer(self, function: str, value: Any) -> tuple[Any, ...]:
        """Return over which shape a tensor spreads the call.

        Raises
        ------
        ArgumentError
            When it is none for this parameter.
        """
        shape = tuple(value.shape)
        inner = len(self.element_shape)
        if len(shape) < self.rank or (self.is_tensor and len(shape) != self.rank):
            raise self.refused(function, value)
        if inner and tuple(shape[len(shape) - inner :]) != self.element_shape:
            raise self.refused(function, value)
        return shape[: len(shape) - self.rank]

    def refused(self, function: str, value: Any) -> ArgumentError:
        """Return the error for a value that is none for this parameter."""
        shape = f", shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else ""
        return ArgumentError(
            f"{function}: argument {self.where} cannot be used",
            function=function,
            argument=self.where,
            expected=self.takes,
            given=f"{type(value).__name__}{shape}",
        )


@dataclass(frozen=True)
class Output:
    """One result: what the function returns, or an `out` parameter.

    Attributes
    ----------
    at : int or None
        The place of an `out` parameter; None for what is returned.
    element_shape : tuple of int
    dtype : torch.dtype
    """

    at: int | None
    element_shape: tuple[int, ...]
    dtype: Any


@dataclass(frozen=True)
class Signature:
    """A function.

    Attributes
    ----------
    function : str
        As the user writes it.
    names : tuple of str
        The parameters that a call gives, in order.
    count : int
        How many parameters the Slang function has, `out` ones among them.
    places : tuple of int
        For each of `names`, its place among those.
    structs : dict of str to tuple
        For each parameter that is a struct its fields: (name, None) or (name, fields).
    slots : tuple of Slot
    outputs : tuple of Output
    defaults : dict of str to object
        Plain numbers and lists.
    differentiable : bool
    """

    function: str
    names: tuple[str, ...]
    count: int
    places: tuple[int, ...]
    structs: Mapping[str, tuple[Any, ...]]
    slots: tuple[Slot, ...]
    outputs: tuple[Output, ...]
    defaults: Mapping[str, Any]
    differentiable: bool

    def whole(self, flat: Sequence[Any]) -> tuple[Any, ...]:
        """Return over which shape a call with these arguments runs.

        Raises
        ------
        ArgumentError
            For an argument that does not fit its parameter.
        CallError
            When the shapes do not broadcast.
        """
        shapes = []
        for slot, value in zip(self.slots, flat, strict=True):
            if isinstance(value, torch.Tensor):
                shapes.append(slot.outer(self.function, value))
            elif isinstance(value, (list, tuple)):
                if slot.is_tensor or slot.element_shape != (len(value),):
                    raise slot.refused(self.function, value)
            elif slot.is_tensor or slot.element_shape:
                raise slot.refused(self.function, value)
        try:
            return tuple(torch.broadcast_shapes(*shapes))
        except RuntimeError as error:
            given = ", ".join(
                f"{s.where}: {tuple(v.shape)}"
                for s, v in zip(self.slots, flat, strict=True)
                if isinstance(v, torch.Tensor)
            )
            raise CallError(
                f"{self.function}: the shapes of its arguments do not broadcast",
                function=self.function,
                given=given,
            ) from error

    def results(self, flat: Sequence[Any]) -> list[Any]:
        """Return empty tensors like the results of a call, on the device of its first tensor."""
        whole = self.whole(flat)
        first = next(v for v in flat if isinstance(v, torch.Tensor))
        return [
            torch.empty((*whole, *o.element_shape), dtype=o.dtype, device=first.device) for o in self.outputs
        ]

    def arguments(self, flat: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
        """Return the arguments as the Slang function takes them: structs as dicts, `out` parameters in their places."""
        found: list[Any] = [None] * self.count
        values = iter(flat)
        for name, at in zip(self.names, self.places, strict=True):
            fields = self.structs.get(name)
            found[at] = next(values) if fields is None else _dict(fields, values)
        for output, tensor in zip(self.outputs, outputs, strict=True):
            if output.at is not None:
                found[output.at] = tensor
        return found


def _dict(fields: tuple[Any, ...], values: Any) -> dict[str, Any]:
    return {name: next(values) if inner is None else _dict(inner, values) for name, inner in fields}


def read(function: SlangFunction) -> Signature:
    """Read the signature of a function.

    Raises
    ------
    CallError
        Names what an operator of torch cannot have.
    """
    targets = function.targets()
    shown = targets[0].name if targets else function.name
    if len(targets) != 1 or not targets[0].checked:
        raise _no(shown, "it is overloaded", "give the overload that is meant a name of its own in Slang")
    target = targets[0]
    if target.backward:
        raise _no(
            shown, "it is a backward call", "torch calls it by itself: pass the function without `.bwds`"
        )
    if target.this_first or target.this is not None:
        raise _no(shown, "it is a method", "write a function that takes the struct as a parameter")
    if target.mapping:
        raise _no(shown, "`.map` changes how its arguments are spread", "pass views with the axes in place")
    return _read(target)


def _read(target: Target) -> Signature:
    names: list[str] = []
    places: list[int] = []
    structs: dict[str, tuple[Any, ...]] = {}
    slots: list[Slot] = []
    outputs: list[Output] = []
    result = target.result
    if result is not None:
        outputs.append(_output(target, result, None, "what it returns"))
    for at, spec in enumerate(target.parameters):
        if spec.writes and not spec.reads and spec.kind != "tensor":
            outputs.append(_output(target, spec, at, f"its parameter {spec.name}"))
            continue
        if spec.writes:
            raise _no(
                target.name,
                f"it changes its argument {spec.name}",
                "return the new value, or write it to an `out` parameter: torch's operators leave their arguments alone",
            )
        names.append(spec.name)
        places.append(at)
        if spec.kind == "struct":
            structs[spec.name] = _fields(target, spec, spec.name, slots, gradients.receives(spec))
        else:
            slots.append(_slot(target, spec, spec.name, len(slots), True))
    if not outputs:
        raise _no(target.name, "it has no result", "let it return one, or write an `out` parameter")
    return Signature(
        target.name,
        tuple(names),
        len(target.parameters),
        tuple(places),
        structs,
        _told_apart(slots),
        tuple(outputs),
        {n: _plain(make()) for n, make in target.defaults.items() if n in names},
        bool(target.slang_function.differentiable),
    )


def _fields(
    target: Target, spec: Parameter, where: str, slots: list[Slot], receives: bool
) -> tuple[Any, ...]:
    found: list[tuple[str, Any]] = []
    for name, field in spec.fields.items():
        path = f"{where}.{name}"
        if field.kind == "struct":
            found.append((name, _fields(target, field, path, slots, receives)))
        else:
            slots.append(_slot(target, field, path, len(slots), receives))
            found.append((name, None))
    return tuple(found)


def _slot(target: Target, spec: Parameter, where: str, at: int, receives: bool) -> Slot:
    if spec.kind not in _PLAIN or spec.dtype is None or (spec.kind == "tensor" and not spec.dims):
        raise _no(
            target.name,
            f"its parameter {where} is a {spec.type}, whose shape the call decides",
            "declare it with numbers, vectors, or tensors of so many dimensions",
        )
    word = where.replace(".", "_")
    name = word if word.isascii() and word.isidentifier() and not keyword.iskeyword(word) else f"p{at}"
    return Slot(
        where,
        name,
        spec.dims + len(spec.element_shape),
        spec.element_shape,
        spec.kind == "tensor",
        spec.expected,
        receives and gradients.receives(spec) and spec.dtype.kind == "f",
    )


def _told_apart(slots: list[Slot]) -> tuple[Slot, ...]:
    """Return the slots with names that differ."""
    seen: set[str] = {"self"}
    found = []
    for at, slot in enumerate(slots):
        name = slot.name if slot.name not in seen else f"{slot.name}_{at}"
        seen.add(name)
        found.append(Slot(**{**slot.__dict__, "name": name}))
    return tuple(found)


def _output(target: Target, spec: Parameter, at: int | None, what: str) -> Output:
    if spec.kind not in _PLAIN[:-1] or spec.dtype is None:
        raise _no(
            target.name,
            f"{what} is a {spec.type}",
            "return numbers or vectors; several results are `out` parameters",
        )
    return Output(at, spec.element_shape, torch_dtype(spec.dtype))


def _plain(value: Any) -> Any:
    """Return a default value as numbers that torch's compiler can hold."""
    if isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    try:
        return [v.item() if isinstance(v, np.generic) else v for v in value]
    except TypeError:
        return value


def _no(function: str, why: str, hint: str) -> CallError:
    return CallError(f"{function} cannot be an operator of torch: {why}", function=function, hint=hint)
