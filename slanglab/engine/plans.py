"""The short way for calls like earlier ones.

A call goes the long way once (`dispatch`): every argument is checked and, where need be, converted. Where nothing had to be converted,
and nothing that was checked can differ for arguments of the same kind, the call's key (what its arguments are like) is kept with
the node to call; the next call with that key goes to slangpy with its arguments as they are. What can differ from call to call
(the device of a tensor, its having no elements, the size of a number, the layout of an array) is looked at each time, and sends the
call the long way. A plan that is used over and over gets its key's comparisons written out as one Python function: a call of
slangpy's takes 20 to 40 µs, and a loop over the arguments 3 of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import slangpy as spy
from slangpy.core.native import get_value_signature

from slanglab.engine.parameters import Parameter
from slanglab.engine.runs import Details

__all__ = ["Plan", "Plans", "may_plan"]

_Tensor = spy.Tensor
_LARGEST = float(np.finfo(np.float32).max)
_FIXED = frozenset(
    type(v) for v in (spy.grid((1,)), spy.call_id(), spy.thread_id(), spy.wang_hash(), spy.rand_float())
) | {spy.float2, spy.float3, spy.float4, spy.int2, spy.int3, spy.int4, spy.uint2, spy.uint3, spy.uint4}
"""Values that are passed on as they are, whatever they hold."""

_KEPT = 256
"""Arrays are planned by their shapes, of which a loop may bring any number."""

_USES_BEFORE_WRITTEN_OUT = 8
"""Writing a key out costs as much as some 50 calls gain by it."""

Key = tuple[object, ...]
Matches = Callable[[tuple[Any, ...], Mapping[str, Any]], bool]


@dataclass(eq=False, slots=True)
class Plan:
    """What to do for calls with one key.

    Attributes
    ----------
    node : slangpy.FunctionNode
        What to call.
    whole : tuple of int or str
        Where a whole number is given for a float, by position or name: it goes as a float, so that 2 and 2.0 share a kernel.
    details : Details
        For the report of a call that goes this way.
    route : Route or None
        What chooses the kernel of a large call.
    uses : int
        How often it was used.
    """

    node: Any
    whole: tuple[int | str, ...] = ()
    details: Details = field(default_factory=Details)
    route: Any = None
    uses: int = 0

    def converted(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """Return the arguments with floats for such whole numbers."""
        positional, named = list(args), dict(kwargs)
        for place in self.whole:
            if isinstance(place, int):
                positional[place] = float(positional[place])
            else:
                named[place] = float(named[place])
        return positional, named


class Plans:
    """The plans of one function.

    Parameters
    ----------
    device : slangpy.Device
        The function's.
    binds_gradients : bool
        True where a kernel depends on which tensors carry gradients.

    Attributes
    ----------
    written_out : (callable, Plan or None)
        Tells whether a call, as (args, kwargs), is like the plan that was written out last; and that plan.
    """

    __slots__ = ("_device", "_known", "binds_gradients", "written_out")

    def __init__(self, device: spy.Device, binds_gradients: bool) -> None:
        self._device = device
        self._known: dict[Key, Plan] = {}
        self.binds_gradients = binds_gradients
        self.written_out: tuple[Matches, Plan | None] = (_never, None)

    def find(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Key | None, Plan | None]:
        """Return the key of a call, None for one that always goes the long way, and its plan, if there is one."""
        key = self.key(args, kwargs)
        plan = self._known.get(key) if key is not None else None
        if plan is None:
            return key, None
        plan.uses += 1
        if plan.uses == _USES_BEFORE_WRITTEN_OUT:
            self.written_out = (self._write_out(args, kwargs), plan)
        return key, plan

    def keep(self, key: Key, plan: Plan) -> None:
        """Remember what to do for calls with such arguments."""
        if len(self._known) >= _KEPT:
            self._known.clear()
        self._known[key] = plan

    def key(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Key | None:
        """Return what the arguments of a call are like, or None for a call that has to go the long way."""
        found: list[object] = [len(args), *kwargs]
        add = found.append
        for value in (*args, *kwargs.values()):
            kind = type(value)
            if kind is _Tensor:
                if value.device is not self._device or not value.element_count:
                    return None
                add(get_value_signature(value))
                if self.binds_gradients:
                    add(value.grad_in is not None)
                    add(value.grad_out is not None)
            elif kind is float:
                if not -_LARGEST <= value <= _LARGEST:
                    return None
                add(kind)
            elif kind is int:
                if not -(2**31) <= value < 2**31:
                    return None
                add(kind if value >= 0 else "-")
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

    def _write_out(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Matches:
        """Return a function that tells whether a call has the key of this one: the comparisons of `key`, one after the other."""
        scope: dict[str, Any] = {
            "Tensor": _Tensor,
            "array": np.ndarray,
            "device": self._device,
            "signature": get_value_signature,
            "largest": _LARGEST,
        }
        names = [f"a{i}" for i in range(len(args))]
        lines = [f"if len(args) != {len(args)} or len(kwargs) != {len(kwargs)}: return False"]
        if names:
            lines.append(f"{', '.join(names)}, = args")
        for i, name in enumerate(kwargs):
            lines.append(f"k{i} = kwargs.get({name!r})")
            names.append(f"k{i}")
        conditions = []
        for name, value in zip(names, (*args, *kwargs.values()), strict=True):
            conditions.extend(self._conditions(name, value, scope))
        lines.append(f"return {' and '.join(conditions) or 'True'}")
        # The text holds names of this function's own and, quoted, those of the arguments; values are in the scope.
        exec("def matches(args, kwargs):\n " + "\n ".join(lines), scope)  # noqa: S102
        return scope["matches"]  # type: ignore[no-any-return]

    def _conditions(self, name: str, value: Any, scope: dict[str, Any]) -> list[str]:
        kind = type(value)
        if kind is _Tensor:
            scope[f"is_{name}"] = get_value_signature(value)
            found = [
                f"type({name}) is Tensor",
                f"{name}.device is device",
                f"{name}.element_count",
                f"signature({name}) == is_{name}",
            ]
            if self.binds_gradients:
                found.append(f"{name}.grad_in is {'not ' if value.grad_in is not None else ''}None")
                found.append(f"{name}.grad_out is {'not ' if value.grad_out is not None else ''}None")
            return found
        if kind is float:
            return [f"type({name}) is float", f"-largest <= {name} <= largest"]
        if kind is int:
            limits = f"0 <= {name} < {2**31}" if value >= 0 else f"{-(2**31)} <= {name} < 0"
            return [f"type({name}) is int", limits]
        if kind is np.ndarray:
            scope[f"dtype_{name}"], scope[f"shape_{name}"] = value.dtype, value.shape
            return [
                f"type({name}) is array",
                f"{name}.shape == shape_{name}",
                f"{name}.dtype == dtype_{name}",
                f"{name}.flags.carray",
            ]
        scope[f"is_{name}"] = value if kind is str else kind
        return [f"{name} == is_{name}" if kind is str else f"type({name}) is is_{name}"]


def _never(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    return False


def may_plan(before: Sequence[Any], after: Sequence[Any], specs: Sequence[Parameter | None]) -> bool:
    """Tell whether a call that has gone the long way stands for all with its key.

    Parameters
    ----------
    before, after : sequence of object
        The arguments as the user passed them, and as they were given to slangpy.
    specs : sequence of Parameter or None
        What each is for.
    """
    return all(_is_settled(b, a, s) for b, a, s in zip(before, after, specs, strict=True))


def _is_settled(value: Any, given: Any, spec: Parameter | None) -> bool:
    if spec is None or spec.dtype is None or type(value) is not _Tensor:
        if type(value) is float or type(value) is int:
            return _is_settled_number(value, given, spec)
        return value is given
    # The last axes of a tensor of numbers make a vector: then its shape counts, which is no part of the key.
    rank = len(spec.element_shape)
    own = len(value.dtype.shape.as_tuple()) if rank else 0
    return value is given and (spec.kind == "tensor" or rank <= own)


def _is_settled_number(value: Any, given: Any, spec: Parameter | None) -> bool:
    """Tell whether every number with the same key fits as this one did, unchanged or as a float."""
    if spec is None or spec.dtype is None or spec.dtype.itemsize < 4:
        return False
    if value is given:
        return spec.dtype.kind in ("f" if type(value) is float else "iu")
    return type(value) is int and type(given) is float and spec.dtype.kind == "f"
