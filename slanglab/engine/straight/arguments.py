"""Which argument reaches a straight kernel in which way, or why it cannot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Literal

import slangpy as spy

from slanglab.engine.straight.layouts import Layout, layout
from slanglab.engine.target import Target
from slanglab.scalars import type_name

__all__ = [
    "Argument",
    "Refusal",
    "Side",
    "call_shape",
    "classify",
    "makes_tensor",
    "side",
    "table_shape",
    "values_of",
]

Side = Literal["array", "one", "row", "column"]
Kind = Literal[Side, "number", "grid"]
Role = Literal["in", "out", "result"]

_Tensor = spy.Tensor
_Grid = type(spy.grid((1,)))


class Refusal(Exception):  # noqa: N818 - no error: slangpy's call takes over
    """Why a call is not straight, for the user to read."""


@dataclass(frozen=True)
class Argument:
    """One parameter of the function, or its result.

    Attributes
    ----------
    name : str
        The parameter's; `_result` for the result.
    key : str
        What the kernel calls it.
    kind : str
        `array`: one value for each element. `one`: a tensor of one value. `row`, `column`: a tensor with a value for each row, for each
        column of a call over two axes. `number`: a Python number or vector. `grid`: the index.
    role : str
        `in`, `out` or `result`.
    layout : Layout
    inner : int
        How many of the tensor's last axes make one value.
    rank : int
        Of the tensor or grid, without those.
    differentiable : bool
        True when a backward call has a derivative for it.
    gradient : bool
        True when a backward call adds to its gradient.
    """

    name: str
    key: str
    kind: Kind
    role: Role
    layout: Layout
    inner: int = 0
    rank: int = 0
    differentiable: bool = False
    gradient: bool = False

    @property
    def writes(self) -> bool:
        """Whether a forward call writes it."""
        return self.role != "in"

    @property
    def bytes(self) -> int:
        """What a call reads and writes for each of its values; gradients are read, and written."""
        return self.layout.count * self.layout.size * (3 if self.gradient else 1)


def values_of(target: Target, values: Mapping[str, Any], result: Any) -> list[Any]:
    """Return the arguments in order, and the result where the function has one."""
    found = [values[name] for name in target.names]
    if target.slang_function.have_return_value:
        found.append(result)
    return found


def classify(
    target: Target, values: Mapping[str, Any], result: Any, *, tables: bool = False
) -> tuple[list[Argument], int]:
    """Describe the arguments of a call, and the result last.

    Parameters
    ----------
    target : Target
    values : dict of str to object
    result : object
    tables : bool
        Whether tensors may have a value for each row or each column of the call only.

    Returns
    -------
    list of Argument
    int
        How many of the call's axes are those of its rows; 0 where nothing is a row or a column.

    Raises
    ------
    Refusal
        When one of them cannot be read or written straight.
    """
    function = target.slang_function
    bool_size = _bool_size(target)
    found = []
    for i, (spec, reflected) in enumerate(zip(target.parameters, function.parameters, strict=True)):
        io = reflected.io_type.name
        if io == "inout":
            raise Refusal(f"{spec.name} is inout")
        differentiable = bool(function.differentiable and spec.differentiable and not spec.no_diff)
        role: Role = "out" if io == "out" else "in"
        found.append(
            _argument(
                spec.name, f"a{i}", role, reflected.type, values[spec.name], differentiable, target, bool_size
            )
        )
    if function.have_return_value:
        differentiable = bool(function.return_type.differentiable)
        found.append(
            _argument(
                "_result", "r", "result", function.return_type, result, differentiable, target, bool_size
            )
        )
    shape = call_shape(
        [
            (a, outer(v, a))
            for a, v in zip(found, values_of(target, values, result), strict=True)
            if not (a.role == "result" and a.kind == "number")
        ]
    )
    given = values_of(target, values, result)
    rows = (
        _split([outer(v, a) for a, v in zip(found, given, strict=True) if a.kind == "array"], shape)
        if tables
        else 0
    )
    return [_placed(a, v, shape, rows) for a, v in zip(found, given, strict=True)], rows


def _bool_size(target: Target) -> int:
    found = target.node.module.layout.find_type_by_name("bool")
    return int(found.buffer_layout.stride) if found is not None else 4


def _argument(
    name: str,
    key: str,
    role: Role,
    slang_type: Any,
    value: Any,
    differentiable: bool,
    target: Target,
    bool_size: int,
) -> Argument:
    form = layout(slang_type, bool_size)
    if form is None:
        what = "the result" if role == "result" else name
        raise Refusal(f"{what} is of type {type_name(slang_type.full_name)}")
    backward = target.backward
    if role != "in" and backward and not differentiable:
        raise Refusal(f"{_shown(name)} has no derivative")
    if isinstance(value, _Tensor):
        inner = _inner(name, value, form)
        gradient = differentiable and backward and role == "in" and value.grad_out is not None
        rank = len(value.shape) - inner
        return Argument(name, key, "array", role, form, inner, rank, differentiable, gradient)
    if role == "result":
        if backward or not makes_tensor(value):
            raise Refusal(f"the result goes to {_kind(value)}")
        return Argument(name, key, "number", role, form, 0, 0, differentiable)
    if role == "out":
        raise Refusal(f"{name} is written to {_kind(value)}")
    if isinstance(value, _Grid):
        _check_grid(name, value, form)
        return Argument(name, key, "grid", role, form, 0, len(value.shape), False)
    _check_number(name, value, form)
    return Argument(name, key, "number", role, form, 0, 0, differentiable)


def makes_tensor(wanted: Any) -> bool:
    """Tell whether what was given as `_result` asks for a new tensor."""
    return wanted is None or wanted is _Tensor or (isinstance(wanted, str) and wanted == "tensor")


def _shown(name: str) -> str:
    return "the result" if name == "_result" else name


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"


def _inner(name: str, tensor: Any, form: Layout) -> int:
    """Return how many of a tensor's last axes make one value of the parameter."""
    element = str(tensor.dtype.full_name)
    width = int(tensor.dtype.buffer_layout.stride)
    if element == form.name:
        if width != form.count * form.size:
            raise Refusal(f"the values of {_shown(name)} lie apart in memory on this device")
        return 0
    shape = tensor.shape.as_tuple()
    inner = len(form.shape)
    if inner and element == form.scalar and shape[-inner:] == form.shape and width == form.size:
        return inner
    raise Refusal(
        f"{_shown(name)} is a tensor of {type_name(element)}, shape {shape}, for a {type_name(form.name)}"
    )


def _check_grid(name: str, grid: Any, form: Layout) -> None:
    rank = len(grid.shape)
    fits = form.scalar == "int" and form.shape == (() if rank == 1 else (rank,)) and form.kind != "ArrayType"
    if not fits or any(n < 1 for n in grid.shape.as_tuple()):
        raise Refusal(f"{name} is a grid of {rank} axes for a {type_name(form.name)}")
    if any(s != 1 for s in grid.stride.as_tuple()) or (
        grid.offset is not None and any(grid.offset.as_tuple())
    ):
        raise Refusal(f"{name} is a grid with steps or an offset")


def _check_number(name: str, value: Any, form: Layout) -> None:
    if type(value) in (bool, int, float):
        if form.kind == "ScalarType" and (type(value) is not float or form.scalar in _FLOATS):
            return
    elif type(value).__module__ == "slangpy.math" and type(value).__name__ == type_name(form.name):
        return
    raise Refusal(f"{name} is {_kind(value)} for a {type_name(form.name)}")


_FLOATS = frozenset({"half", "float16_t", "float", "double"})


def outer(value: Any, argument: Argument) -> tuple[int, ...]:
    """Return the shape of an argument, without the axes that make one value."""
    if argument.kind == "number":
        return ()
    shape: tuple[int, ...] = value.shape.as_tuple()
    return shape[: len(shape) - argument.inner]


def call_shape(shapes: Sequence[tuple[Argument, tuple[int, ...]]]) -> tuple[int, ...]:
    """Return the shape of a call: that of its arguments, as numpy would broadcast them.

    Raises
    ------
    Refusal
        When they do not go together.
    """
    rank = max((len(s) for _, s in shapes), default=0)
    found = [1] * rank
    for argument, shape in shapes:
        for axis, length in enumerate(shape, rank - len(shape)):
            if length != 1 and found[axis] == 1:
                found[axis] = length
            elif length not in (1, found[axis]):
                raise Refusal(f"{_shown(argument.name)} does not have the shape of the others")
    return tuple(found)


def side(own: tuple[int, ...], shape: tuple[int, ...], rows: int) -> Side | None:
    """Tell of what in a call over `shape` a tensor has a value each, where the first `rows` axes are those of its rows."""
    own = (1,) * (len(shape) - len(own)) + own
    if own == shape:
        return "array"
    if prod(own) == 1:
        return "one"
    if rows and own[:rows] == shape[:rows] and prod(own[rows:]) == 1:
        return "row"
    if rows and own[rows:] == shape[rows:] and prod(own[:rows]) == 1:
        return "column"
    return None


def table_shape(shapes: Sequence[tuple[int, ...]], rank: int) -> tuple[int, ...]:
    """Return the shape of a call over rows and columns, where each length but 1 is the call's; whether it is so `side` tells."""
    found = [1] * rank
    for own in shapes:
        for axis, length in enumerate(own, rank - len(own)):
            if length != 1:
                found[axis] = length
    return tuple(found)


def traffic(arguments: Sequence[Argument], shape: tuple[int, ...], rows: int) -> int:
    """Return how many bytes a call over `shape` reads and writes, the first `rows` axes being those of its rows."""
    counts = {"array": prod(shape), "one": 1, "row": prod(shape[:rows]), "column": prod(shape[rows:])}
    return sum(a.bytes * counts.get("array" if a.role == "result" else a.kind, 0) for a in arguments)


def _split(shapes: Sequence[tuple[int, ...]], shape: tuple[int, ...]) -> int:
    """Return how many leading axes are those of rows, so that each tensor is whole, one value, or one of rows or of columns."""
    if all(side(own, shape, 0) for own in shapes):
        return 0
    return next((k for k in range(1, len(shape)) if all(side(own, shape, k) for own in shapes)), 0)


def _placed(argument: Argument, value: Any, shape: tuple[int, ...], rows: int) -> Argument:
    """Tell of what a tensor has a value each."""
    if argument.kind not in ("array", "grid"):
        return argument
    own = outer(value, argument)
    found = side(own, shape, rows)
    if found is None or (found != "array" and (argument.writes or argument.kind == "grid")):
        raise Refusal(f"{_shown(argument.name)} is broadcast over part of the call: {own} over {shape}")
    if argument.role == "result" and len(own) != len(shape):
        raise Refusal(f"the result has shape {own}, and the call has {shape}")
    return argument if found == "array" else replace(argument, kind=found)
