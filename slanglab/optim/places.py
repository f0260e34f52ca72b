"""The parameters of an optimizer: which tensors, and where the scalars of each and of its gradient lie."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from slanglab import waiting
from slanglab.errors import ArgumentError
from slanglab.scalars import type_name
from slanglab.tensors import layout, sources
from slanglab.tensors.layout import View
from slanglab.values import describe_value

__all__ = ["FORMS", "Place", "collect", "place", "places"]

FORMS = {"float16": 0, "float32": 1, "float64": 2}
"""The scalar types that can be optimized, and their numbers in the kernels."""

_GRADIENT_HINT = (
    "optimize a tensor that has one: `t = t.with_grads()`, or `slanglab.tensor(data, grad=True)`; "
    "pass the same tensor to the function"
)


@dataclass(frozen=True, eq=False)
class Place:
    """One parameter.

    Attributes
    ----------
    name : str
    tensor : slangpy.Tensor
    gradient : slangpy.Tensor
    value_storage, gradient_storage : slangpy.Buffer
    value_base, gradient_base : int
        Where the first scalar lies in them, in scalars.
    count : int
        Scalars.
    shape : tuple of int
        The tensor's, with the axes of its elements behind.
    format : str
        numpy's name of the scalar type.
    """

    name: str
    tensor: Any
    gradient: Any
    value_storage: Any
    gradient_storage: Any
    value_base: int
    gradient_base: int
    count: int
    shape: tuple[int, ...]
    format: str

    @property
    def size(self) -> int:
        """Bytes of a scalar."""
        return int(self.format[5:]) // 8


def collect(params: Any) -> dict[str, Any]:
    """Return parameters by name: a tensor and the tensors of a list are called "0", "1" and so on.

    Raises
    ------
    ArgumentError
        For what holds no tensors.
    """
    if isinstance(params, Mapping):
        found = {name: tensor for name, tensor in params.items()}
        wrong = next((name for name in found if not isinstance(name, str)), None)
        if wrong is not None:
            raise ArgumentError(
                f"The name {wrong!r} of a parameter is no string.",
                argument="params",
                given=describe_value(wrong),
            )
    elif sources.is_tensor(params) or not isinstance(params, Iterable) or _is_array(params):
        found = {"0": params}
    else:
        found = {str(i): tensor for i, tensor in enumerate(params)}
    if not found:
        raise ArgumentError(
            "There are no parameters.",
            argument="params",
            expected="a tensor, a list of tensors, or a dict of names and tensors",
            given=describe_value(params),
        )
    for name, tensor in found.items():
        _check_tensor(name, tensor)
    return found


def _is_array(value: Any) -> bool:
    return hasattr(value, "__array__") or hasattr(value, "slanglab_there") or isinstance(value, (str, bytes))


def _check_tensor(name: str, tensor: Any) -> None:
    if sources.is_tensor(tensor):
        return
    if hasattr(type(tensor), "slanglab_there"):
        raise ArgumentError(
            f"The parameter {name!r} lies in the worker process, and optimizers run on a device of this one.",
            argument=f"params[{name!r}]",
            hint="turn the worker engine off: `%slang config engine notebook`, then make the tensors again",
        )
    raise ArgumentError(
        f"The parameter {name!r} is no slangpy.Tensor.",
        argument=f"params[{name!r}]",
        expected="a slangpy.Tensor with a gradient",
        given=describe_value(tensor),
        hint="make one with `slanglab.tensor(data, grad=True)`",
    )


def place(name: str, tensor: Any) -> Place:
    """Return where a parameter and its gradient lie.

    Raises
    ------
    ArgumentError
        If it has no gradient, is no tensor of floats, or its scalars do not lie one after another.
    DeviceGoneError
        If its device is lost or closed.
    """
    waiting.check(tensor.device)
    argument = f"params[{name!r}]"
    if tensor.grad_out is None:
        raise ArgumentError(
            f"The parameter {name!r} has no gradient.",
            argument=argument,
            given=describe_value(tensor),
            hint=_GRADIENT_HINT,
        )
    found = layout.fields(tensor)
    if len(found) != 1 or found[0].name:
        raise _wrong_type(name, tensor, "its elements are structs")
    if found[0].form.name not in FORMS:
        raise _wrong_type(name, tensor, f"its numbers are {found[0].form.name}")
    pair = sources.gradient_of(tensor)
    assert pair is not None
    gradient, like = pair
    others = layout.fields(gradient)
    if len(others) != 1 or others[0].form != found[0].form or others[0].shape != found[0].shape:
        raise _wrong_type(
            name, tensor, f"its gradient has elements of type {type_name(gradient.dtype.full_name)}"
        )
    value = layout.view(tensor, found[0])
    own = layout.view(gradient, others[0], like)
    return Place(
        name,
        tensor,
        gradient,
        tensor.storage,
        gradient.storage,
        _dense(name, tensor, value, "The parameter"),
        _dense(name, gradient, own, "The gradient of the parameter"),
        value.all.count,
        value.all.shape,
        found[0].form.name,
    )


def _wrong_type(name: str, tensor: Any, why: str) -> ArgumentError:
    return ArgumentError(
        f"The parameter {name!r} cannot be optimized: {why}.",
        argument=f"params[{name!r}]",
        expected="elements of type half, float or double, or vectors, matrices and arrays of them",
        given=describe_value(tensor),
    )


def _dense(name: str, tensor: Any, found: View, what: str) -> int:
    """Return where the scalars begin, which have to lie one after another."""
    axes = found.all.merged()
    if axes.count and len(axes.shape) > 0 and axes.strides != (1,):
        given = f"shape {tensor.shape.as_tuple()}, strides {tensor.strides.as_tuple()}"
        if tensor.is_contiguous():
            raise ArgumentError(
                f"{what} {name!r} has gaps between its elements: a {tensor.dtype.full_name} is longer in memory than its numbers.",
                argument=f"params[{name!r}]",
                given=given,
                hint="use a type that fills its place: on CUDA a half3 takes 8 bytes, a half4 or a float3 has no gap",
            )
        raise ArgumentError(
            f"{what} {name!r} is a strided view: its numbers do not lie one after another.",
            argument=f"params[{name!r}]",
            given=given,
            hint="optimize the tensor that it is a view of, or a contiguous copy of the part",
        )
    return axes.base


def places(params: Mapping[str, Any]) -> list[Place]:
    """Return where all parameters lie; they are on one device, and no two share memory.

    Raises
    ------
    ArgumentError, DeviceGoneError
    """
    found = [place(name, tensor) for name, tensor in params.items()]
    device = found[0].tensor.device
    for one in found:
        if one.tensor.device != device:
            raise ArgumentError(
                f"The parameters {found[0].name!r} and {one.name!r} are on two devices.",
                argument=f"params[{one.name!r}]",
                hint="use an optimizer for each device",
            )
    _check_apart(found)
    return found


def _check_apart(found: list[Place]) -> None:
    """Refuse the same memory twice: two threads would write one number, and the step be taken twice."""
    held = [one for one in found if one.count]
    values = [(one, one.value_storage, one.value_base, "value") for one in held]
    gradients = [(one, one.gradient_storage, one.gradient_base, "gradient") for one in held]
    for memory in (values, gradients, [*values, *gradients]):
        spans = sorted(
            (id(storage), base * one.size, (base + one.count) * one.size, one.name, what)
            for one, storage, base, what in memory
        )
        for (buffer, _, end, name, what), (other, start, _, second, its) in pairwise(spans):
            if buffer == other and start < end:
                raise _shared(name, what, second, its)


def _shared(name: str, what: str, second: str, its: str) -> ArgumentError:
    first, last = sorted((name, second))
    if what == its == "value":
        said = f"The parameters {first!r} and {last!r} are the same tensor, or share memory."
    elif what == its:
        said = f"The parameters {first!r} and {last!r} have the same gradient."
    else:
        said = f"The {what} of the parameter {name!r} and the {its} of {second!r} share memory."
    return ArgumentError(
        said, argument=f"params[{second!r}]", hint="give each tensor once; a view of it is part of it"
    )
