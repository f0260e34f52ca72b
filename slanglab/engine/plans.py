"""The short way for calls like earlier ones.

A call goes the long way once (`dispatch`): every argument is checked and, where need be, converted. Where nothing had to be converted,
and nothing that was checked can differ for arguments of the same kind, the call's key (what its arguments are like) is kept with
the node to call; the next call with that key goes to slangpy with its arguments as they are. What can differ from call to call
(the device of a tensor, its having no elements, the size of a number, the layout of an array) is looked at each time, and sends the
call the long way. A plan that is used over and over is written out as one Python function (`slanglab.engine.quick`): a call of
slangpy's takes 10 to 40 µs, and a loop over the arguments 3 of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import slangpy as spy
from slangpy.core.native import get_value_signature

from slanglab import waiting
from slanglab.device import is_software
from slanglab.engine.control import Control
from slanglab.engine.fences import Fence
from slanglab.engine.parameters import Parameter
from slanglab.engine.quick import FIXED, LARGEST, Grid, Quick, is_flat, never, write_out
from slanglab.engine.runs import Trace

__all__ = ["Plan", "Plans", "adds_halves", "least", "may_plan"]

_Tensor = spy.Tensor
_KEPT = 256
"""Arrays are planned by their shapes, of which a loop may bring any number."""

_LEAST_SOFTWARE = 2**12
_LEAST_HARDWARE = 2**21
"""Elements of an array from which the choice of a kernel pays (`slanglab.engine.routes`): on an H200 another kernel than slangpy's costs
20 to 40 µs more to launch, and at 2^20 elements slangpy's takes 20 µs."""
_LEAST_SHARED = 2**16
"""The same at most for a backward call with a tensor of one element, whose gradient may be a sum over all others: slangpy adds its terms
one by one, which takes 120 µs at 2^16."""
_LEAST_HALF = 2**11
"""The same at most for a backward call with a tensor of halves: as many additions one of its gradients holds."""
# A backward call with a tensor of doubles is always large: slangpy has no kernel for their gradients. So is one with halves on a GPU
# through Vulkan.
_LEAST_SPREAD = 64
"""The same where arrays may be spread over a larger call, each along an axis of its own: one has an axis of length 1, or `.map` is used.
Without those each shape is the end of the largest one, and the call is as large as that."""


def least(device: spy.Device) -> int:
    """Return the elements from which a call on a device is large, whatever it is."""
    return _LEAST_SOFTWARE if is_software(device) else _LEAST_HARDWARE


def adds_halves(device: spy.Device) -> bool:
    """Tell whether a device takes slangpy's kernels for gradients of halves, which add to them atomically.

    NVIDIA's driver 580 for Vulkan ends the process at some of them, and fails at others ("NVVM compilation failed").
    """
    return bool(device.info.type != spy.DeviceType.vulkan or is_software(device))


_USES_BEFORE_WRITTEN_OUT = 8
"""Writing a key out costs as much as some 50 calls gain by it."""

Key = tuple[object, ...]


@dataclass(eq=False, slots=True)
class Plan:
    """What to do for calls with one key.

    Attributes
    ----------
    node : slangpy.FunctionNode
        What to call.
    whole : tuple of int or str
        Where a whole number is given for a float, by position or name: it goes as a float, so that 2 and 2.0 share a kernel.
    trace : Trace
        For the report of a small call that goes this way.
    control : Control
        Where it is left.
    route : Route or None
        What chooses the kernel of a large call.
    may_be_written_out : bool
        False where something follows each call.
    uses : int
        How often it was found by its key.
    written : callable or None
        It as one function, once it was used often.
    reads : bool
        True where the result is a tensor that is to be read as a numpy array.
    uploads : bool
        True where slangpy copies an array to the device in a way that waits for it natively.
    fence : Fence or None
        What goes after slangpy's kernel.
    """

    node: Any
    trace: Trace
    control: Control
    whole: tuple[int | str, ...] = ()
    route: Any = None
    may_be_written_out: bool = True
    uses: int = 0
    written: Quick | None = None
    reads: bool = False
    uploads: bool = False
    fence: Fence | None = None

    def run(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], fresh: Sequence[Any] = ()) -> Any:
        """Make a call, and leave what its report needs; for `fresh` see `slanglab.engine.routes.go`."""
        if self.uploads:
            self.wait()
        started = time.perf_counter()
        positional, named = self.converted(args, kwargs) if self.whole else (args, kwargs)
        if self.reads:
            named = {**named, "_result": _Tensor}
        if self.route is None:
            for gradient in fresh:
                gradient.clear()
            if self.fence is None:
                result = self.node(*positional, **named)
            else:
                result = self.fence.run(self.node, positional, named, self.trace.backward)
            self.control.last = self.trace, time.perf_counter() - started, args, kwargs
        else:
            result, trace = self.route.run(positional, named, fresh)
            self.control.last = trace, time.perf_counter() - started, (), {}
        return result.to_numpy() if self.reads else result

    def wait(self) -> None:
        """Wait until the device is idle, in a way that Interrupt ends."""
        waiting.wait(self.node.module.device)

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
    mapped : bool
        True where `.map` may spread small arguments over a large call.
    backward : bool
        True for backward calls.

    Attributes
    ----------
    quick : callable
        Makes a call, given as (args, kwargs), when it is like that of the written-out plan that was used last; returns `MISSED` otherwise.
    """

    __slots__ = (
        "_adds_halves",
        "_backward",
        "_device",
        "_known",
        "_limit",
        "_mapped",
        "binds_gradients",
        "quick",
    )

    def __init__(
        self, device: spy.Device, binds_gradients: bool, mapped: bool = False, backward: bool = False
    ) -> None:
        self._device = device
        self._limit = least(device)
        self._adds_halves = adds_halves(device)
        self._backward = backward
        self._mapped = mapped
        self._known: dict[Key, Plan] = {}
        self.binds_gradients = binds_gradients
        self.quick: Quick = never

    def find(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Key | None, Plan | None]:
        """Return the key of a call, None for one that always goes the long way, and its plan, if there is one."""
        key = self.key(args, kwargs)
        plan = self._known.get(key) if key is not None else None
        if plan is None:
            return key, None
        plan.uses += 1
        if plan.written is not None:
            self.quick = plan.written  # calls of one kind come in runs
        elif plan.uses == _USES_BEFORE_WRITTEN_OUT and plan.may_be_written_out:
            limit = self._limit_for((*args, *kwargs.values()))
            ones = not self._backward or limit <= _LEAST_SHARED
            plan.written = write_out(plan, args, kwargs, self._device, self.binds_gradients, limit, ones)
            self.quick = plan.written or self.quick
        return key, plan

    def _limit_for(self, values: Iterable[Any]) -> int:
        """Return the elements from which a call with such arguments is large."""
        limit = self._limit
        if self._mapped:
            return _LEAST_SPREAD
        for value in values:
            shape = _shape(value)
            if shape is None:
                continue
            if _spreads(shape):
                limit = min(limit, _LEAST_SPREAD)
            if self._backward and type(value) is _Tensor:
                limit = min(limit, self._limit_of(value.element_count, get_value_signature(value)))
        return limit

    def _limit_of(self, count: int, signature: str) -> int:
        """Return the elements from which a backward call with such a tensor is large."""
        if "double" in signature:
            return 1
        if "half" in signature:
            return min(self._limit, _LEAST_HALF) if self._adds_halves else 1
        return min(self._limit, _LEAST_SHARED) if count == 1 else self._limit

    def keep(self, key: Key, plan: Plan) -> None:
        """Remember what to do for calls with such arguments."""
        if len(self._known) >= _KEPT:
            self._known.clear()
        self._known[key] = plan

    def key(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Key | None:
        """Return what the arguments of a call are like, or None for a call that has to go the long way."""
        found: list[object] = [len(args), *kwargs]
        add = found.append
        most, spreads, limit = 0, self._mapped, self._limit
        for value in (*args, *kwargs.values()):
            kind = type(value)
            if kind is _Tensor:
                count = value.element_count
                if value.device is not self._device or not count:
                    return None
                signature = get_value_signature(value)
                add(signature)
                most = count if count > most else most
                if self._backward:
                    limit = min(limit, self._limit_of(count, signature))
                flat = is_flat(signature)
                if not flat:
                    shape = value.shape.as_tuple()
                    spreads = spreads or _spreads(shape)
                    add(shape[-2:])
                if self.binds_gradients:
                    for gradient in (value.grad_in, value.grad_out):
                        add(gradient is not None)
                        if gradient is None or (flat and gradient.element_count == count):
                            continue
                        if flat or gradient.shape != value.shape:
                            return None  # a view, with the gradient of its owner
            elif kind is float:
                if not -LARGEST <= value <= LARGEST:
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
                most = max(most, value.size)
            elif kind is str:
                add(value)
            elif kind is Grid:
                shape = value.shape.as_tuple()
                add(len(shape))
                most = max(most, prod(shape))
                spreads = spreads or _spreads(shape)
            elif kind in FIXED:
                add(kind)
            else:
                return None
        add(most >= (min(_LEAST_SPREAD, limit) if spreads else limit))
        return tuple(found)

    def is_large(self, values: Iterable[Any]) -> bool:
        """Tell whether a call with such arguments is large enough for a choice of its kernel to pay."""
        given = list(values)
        most = 0
        for value in given:  # which grows by the fields of what it holds
            if isinstance(value, Mapping):
                given += value.values()
            elif hasattr(value, "get_this") and not isinstance(value, type):
                return True  # an instance, whose tensors are looked at later
            elif (shape := _shape(value)) is not None:
                most = max(most, prod(shape))
        return most >= self._limit_for(given)

    def signature(self, values: Iterable[Any]) -> tuple[object, ...]:
        """Return what kind the arguments of a call are, whatever way it goes: types, ranks, gradients."""
        found: list[object] = []
        for value in values:
            _add_signature(found, value)
        return tuple(found)


def _shape(value: Any) -> tuple[int, ...] | None:
    """Return the shape of an argument that has one."""
    shape: tuple[int, ...] | None = None
    if isinstance(value, np.ndarray):
        shape = value.shape
    elif isinstance(value, (_Tensor, Grid)):
        shape = value.shape.as_tuple()
    return shape


def _spreads(shape: tuple[int, ...]) -> bool:
    """Tell whether a call may be larger than an argument of this shape, along an axis of length 1."""
    return len(shape) > 1 and 1 in shape


def _add_signature(found: list[object], value: Any) -> None:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            found.append(name)
            _add_signature(found, inner)
        return
    found.append(type(value))
    if isinstance(value, _Tensor):
        found += (get_value_signature(value), value.grad_in is not None, value.grad_out is not None)
    elif isinstance(value, np.ndarray):
        found += (value.dtype, value.ndim)
    elif isinstance(value, Grid):
        found.append(len(value.shape.as_tuple()))
    elif isinstance(value, (list, tuple)):
        found.append(len(value))
    elif isinstance(value, str):
        found.append(value)


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
    # The last axes of a tensor of numbers make a vector or a matrix: the key has the last two of a tensor with more than one.
    rank = len(spec.element_shape)
    own = len(value.dtype.shape.as_tuple()) if rank else 0
    return value is given and (spec.kind == "tensor" or rank <= own or (rank <= 2 and len(value.shape) > 1))


def _is_settled_number(value: Any, given: Any, spec: Parameter | None) -> bool:
    """Tell whether every number with the same key fits as this one did, unchanged or as a float."""
    if spec is None or spec.dtype is None or spec.dtype.itemsize < 4:
        return False
    if value is given:
        return spec.dtype.kind in ("f" if type(value) is float else "iu")
    return type(value) is int and type(given) is float and spec.dtype.kind == "f"
