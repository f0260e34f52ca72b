"""Which kernel a call goes to: SlangLab's direct one, or slangpy's generated one with groups and sums that suit the call.

Small calls go to slangpy as they are: there the kernel's time does not matter, and choosing costs more than it saves. Which calls are
small is part of a plan's key (`slanglab.engine.plans`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import slangpy as spy

from slanglab import waiting
from slanglab.engine import callshape, groups, shared, straight
from slanglab.engine.parameters import Parameter, parameter
from slanglab.engine.plans import Plan, adds_halves
from slanglab.engine.prepare import Prepared
from slanglab.engine.runs import Details, Trace, bytes_of
from slanglab.engine.straight import Launch, Straight
from slanglab.engine.target import Target
from slanglab.tensors.create import from_array

__all__ = ["Route", "go", "plan"]

_PLAIN = "slangpy's own call was asked for (`%slang config path slangpy`)"
_SMALL = "the call is small"
_KEPT = 64

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def go(
    target: Target, ready: Prepared, details: Details, encoder: Any = None, fresh: Sequence[Any] = ()
) -> Any:
    """Run a call that was prepared, or append it to an encoder, and say in `details` how it went.

    Of the gradients in `fresh` the contents are anything; the call leaves them as if they had been zero.
    """
    values, result = ready.values, ready.result
    details.bytes = bytes_of((*values.values(), result), target.backward)
    if ready.bound is None:
        details.reason = "it is an overloaded method"
    elif target.plans.is_large((*values.values(), result)):
        route = _route(target, ready)
        call = _Call(
            target,
            ready.node,
            values,
            result,
            lambda v: ready.arguments(target, v),
            ready.this,
            encoder,
            fresh,
        )
        return route.run(call, details)
    else:
        details.reason = _SMALL
    alone = _Call(target, ready.node, values, result, lambda _: ready.arguments(target), None, encoder, fresh)
    return alone.submit(values)


def plan(
    target: Target, ready: Prepared, args: tuple[Any, ...], kwargs: Mapping[str, Any], details: Details
) -> Plan:
    """Return what to do for later calls like one that went the long way."""
    route = None
    if target.plans.is_large((*args, *kwargs.values())):
        route = _Planned(_route(target, ready), target, ready, args, kwargs)
    trace = Trace(target.name, target.backward, Details(reason=details.reason, frozen=details.frozen))
    whole = _whole(target, ready, args, kwargs)
    uploads = waiting.copies_block(target.device) and any(
        type(v) is np.ndarray for v in (*args, *kwargs.values())
    )
    return Plan(
        ready.node,
        trace,
        target.control,
        whole,
        route,
        target.after is None,
        reads=ready.reads,
        uploads=uploads,
        fence=target.fence,
    )


@dataclass(slots=True)
class _Call:
    """One large call.

    Attributes
    ----------
    target : Target
    node : slangpy.FunctionNode
        What to call.
    values : dict of str to object
        The arguments by parameter.
    result : object
        What was given as `_result`.
    arguments : callable
        Takes values in the place of these, and returns slangpy's arguments.
    this : object
        The instance of a method, or None.
    encoder : slangpy.CommandEncoder or None
        What to append the call to.
    fresh : sequence of slangpy.Tensor
        Gradients that hold anything yet: all that the call writes, or none.
    """

    target: Target
    node: Any
    values: Mapping[str, Any]
    result: Any
    arguments: Callable[[Mapping[str, Any]], Arguments]
    this: Any = None
    encoder: Any = None
    fresh: Sequence[Any] = ()

    def submit(self, values: Mapping[str, Any]) -> Any:
        """Hand the call to slangpy with some values in the place of its own; its kernels add to gradients, which start at zero."""
        for gradient in self.fresh:
            gradient.clear(self.encoder)
        positional, named = self.arguments(values)
        fence = self.target.fence
        if self.encoder is not None:
            result = self.node.append_to(self.encoder, *positional, **named)
            if fence is not None:
                fence.after(self.encoder)
            return result
        if fence is not None:
            return fence.run(self.node, positional, named, self.target.backward)
        return self.node(*positional, **named)


class Route:
    """How large calls of one kind are made: same function, mode, types, ranks, gradients.

    Parameters
    ----------
    target : Target
    values : dict of str to object
        The arguments of the first of them.
    result, this : object
    """

    def __init__(self, target: Target, values: Mapping[str, Any], result: Any, this: Any) -> None:
        self._target = target
        words = groups.group_words(target.texts())
        self._fixed = groups.fixed(target, words)
        self._numbered = groups.numbers_threads(values.values())
        function = target.slang_function
        struct = parameter("this", function.this) if this is not None and function.this is not None else None
        specs = (struct, *target.parameters, target.result)
        mappings = [target.mapping.get(s.name) if s is not None else None for s in specs]
        self._read = callshape.reader(specs, _shaped(this, values, result), mappings)
        self._straight: Straight | None = None
        """The kernel that was used last; others are for calls in which other tensors are one value for all, or for a row or column."""
        self._kernels: dict[tuple[tuple[bool, ...], ...], Straight | None] = {}
        self._reason = f"its text uses {words}, which depends on the groups" if words else ""
        self._uploads = [
            s.name for s in target.parameters if isinstance(values.get(s.name), np.ndarray) and not s.writes
        ]
        self._takes = not words
        alone = target.backward and any(_is_alone(v, target.device) for v in (*values.values(), result))
        self._least = 1 if alone else straight.least(target.device)

    @property
    def kernel(self) -> Straight | None:
        """The straight kernel, once it was made."""
        return None if self._uploads else self._straight

    def direct(self, values: Mapping[str, Any], result: Any) -> tuple[Straight, Launch] | None:
        """Return the straight kernel and its launch, or None where it was not made for such arguments."""
        kernel = self._straight
        if kernel is None or self._uploads or self._target.control.policy.path == "slangpy":
            return None
        launch = kernel.prepare(values, result)
        return None if launch is None or launch.count < self._least else (kernel, launch)

    def run(self, call: _Call, details: Details) -> Any:
        """Make a call."""
        if self._target.control.policy.path == "slangpy":
            details.reason = _PLAIN
            return call.submit(call.values)
        direct = self.direct(call.values, call.result)
        if direct is not None:
            return self._start(*direct, call, details)
        shape = self._read(_shaped(call.this, call.values, call.result)) if self._read is not None else None
        if shape is None:
            details.reason = "the shape of the call is not known before"
            return call.submit(call.values)
        threads = math.prod(shape)
        if threads < self._least:
            details.reason = _SMALL
        else:
            values = self._uploaded(call.values)
            kernel = self._kernel_for(values, call.result, bool(call.fresh))
            if kernel is not None:
                launch = kernel.prepare(values, call.result)
                if launch is not None:
                    self._straight = kernel
                    return self._start(kernel, launch, call, details)
                details.reason = kernel.reason(values, call.result)
            else:
                details.reason = self._reason
        return self._generated(call, shape, details)

    @staticmethod
    def _start(kernel: Straight, launch: Launch, call: _Call, details: Details) -> Any:
        details.path, details.group_shape = "straight", kernel.group_shape
        return kernel.start(launch, call.encoder, bool(call.fresh))

    def _generated(self, call: _Call, shape: tuple[int, ...], details: Details) -> Any:
        """Make a call through slangpy's own kernel, with groups that suit it and shared gradients summed."""
        target = self._target
        if not self._fixed and not (self._numbered and len(shape) > 1):
            group = groups.group_shape(shape, target.backward, target.device)
            if group is not None:
                details.group_shape = group
                call.node = target.grouped(call.node, group)
        details.warnings += shared.additions(call.values, target.parameters, shape, target.backward)
        if not target.backward:
            return call.submit(call.values)
        if "cuda_stream" in target.modifiers:  # the last sum would not wait for that stream
            return call.submit(call.values)
        made: list[shared.Shared] = []
        values = {
            name: shared.share(value, shape, target.by_name[name], made)
            for name, value in call.values.items()
        }
        result = call.submit(values)
        if call.encoder is not None:
            for one in made:
                one.finish(call.encoder)
        return result

    def _kernel_for(self, values: Mapping[str, Any], result: Any, fresh: bool) -> Straight | None:
        """Return the straight kernel of calls in which the same tensors have one value along the same axes, made at the first of them."""
        if not self._takes:
            return None
        spread = tuple(_spread(v, self._target.by_name.get(n)) for n, v in values.items())
        if spread not in self._kernels:
            made = straight.build(self._target, values, result, fresh=fresh)
            if isinstance(made, str):
                self._reason = made
            self._kernels[spread] = None if isinstance(made, str) else made
        return self._kernels[spread]

    def _uploaded(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments with tensors for arrays."""
        if not self._uploads:
            return values
        ready = dict(values)
        for name in self._uploads:
            spec = self._target.by_name[name]
            ready[name] = from_array(self._target.device, values[name], spec.type, len(spec.element_shape))
        return ready


def _spread(value: Any, spec: Parameter | None) -> tuple[bool, ...]:
    """Tell along which axes a tensor has one value of what its parameter takes; along none where it has several, and all axes."""
    if not isinstance(value, spy.Tensor) or spec is None:
        return ()
    shape = value.shape.as_tuple()
    numbers = math.prod(value.dtype.shape.as_tuple(), start=value.element_count)
    if numbers == math.prod(spec.element_shape):
        return (True,)
    return tuple(n == 1 for n in shape) if 1 in shape else ()


def _is_alone(value: Any, device: spy.Device) -> bool:
    """Tell whether a value is a tensor for whose gradients slangpy has no kernel that the device takes."""
    if not isinstance(value, spy.Tensor):
        return False
    name = value.dtype.full_name
    return "double" in name or ("half" in name and not adds_halves(device))


def _per_element(tensor: Any, backward: bool) -> int:
    return bytes_of((tensor,), backward) // max(int(tensor.element_count), 1)


def _shaped(this: Any, values: Mapping[str, Any], result: Any) -> tuple[Any, ...]:
    """Return what the shape of a call is read from; a number in the place of what has none."""
    sized = result if isinstance(result, (spy.Tensor, np.ndarray)) else 0.0
    return (0.0 if this is None else this, *values.values(), sized)


def _route(target: Target, ready: Prepared) -> Route:
    """Return the route for calls like one, made at the first of them."""
    signature = target.plans.signature((ready.this, *ready.values.values(), ready.result))
    route = target.routes.get(signature)
    if route is None:
        if len(target.routes) >= _KEPT:
            target.routes.clear()
        route = target.routes[signature] = Route(target, ready.values, ready.result, ready.this)
    return route


class _Planned:
    """A route for calls that need no preparation: which argument is which is known."""

    __slots__ = (
        "_arrays",
        "_frozen",
        "_node",
        "_places",
        "_result",
        "_route",
        "_target",
        "_tensors",
        "_trace",
    )

    def __init__(
        self,
        route: Route,
        target: Target,
        ready: Prepared,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> None:
        self._route = route
        self._target = target
        self._node = ready.node
        self._places: list[tuple[str, int | str]] = [
            (name, name if name in kwargs else i) for i, name in enumerate(target.names)
        ]
        last = ready.bound is not None and ready.bound.result_last
        self._result: int | str = len(args) - 1 if last else "_result"
        given: list[tuple[int | str, Any]] = [*enumerate(args), *kwargs.items()]
        self._tensors = [
            (place, _per_element(v, target.backward)) for place, v in given if type(v) is spy.Tensor
        ]
        self._arrays = sum(v.nbytes for _, v in given if type(v) is np.ndarray)
        self._frozen = ready.frozen
        self._trace: Trace | None = None

    @property
    def kernel(self) -> Straight | None:
        """The straight kernel of such calls, if they have one."""
        return self._route.kernel

    def run(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], fresh: Sequence[Any] = ()
    ) -> tuple[Any, Trace]:
        """Make a call, with numbers as slangpy is to be given them; return what it returns, and how it went."""
        values = {
            name: args[place] if isinstance(place, int) else kwargs[place] for name, place in self._places
        }
        place = self._result
        result = args[place] if isinstance(place, int) else kwargs.get(place)
        size = self._arrays
        for at, each in self._tensors:
            size += each * (args[at] if isinstance(at, int) else kwargs[at]).element_count
        direct = self._route.direct(values, result)
        if direct is not None:
            kernel, launch = direct
            made = kernel.start(launch, fresh=bool(fresh))
            trace = self._trace
            if trace is None or trace.details.bytes != size:  # of a loop's calls one report serves all
                details = Details("straight", "", kernel.group_shape, bytes=size, frozen=self._frozen)
                trace = self._trace = Trace(self._target.name, self._target.backward, details)
            return made, trace
        details = Details(frozen=self._frozen, bytes=size)
        target = self._target
        call = _Call(
            target, self._node, values, result, lambda v: self._arguments(v, args, kwargs), fresh=fresh
        )
        made = self._route.run(call, details)
        return made, Trace(target.name, target.backward, details)

    def _arguments(
        self, values: Mapping[str, Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Arguments:
        positional, named = list(args), dict(kwargs)
        for name, place in self._places:
            if isinstance(place, int):
                positional[place] = values[name]
            else:
                named[place] = values[name]
        return tuple(positional), named


def _whole(
    target: Target, ready: Prepared, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[int | str, ...]:
    """Return where the user gave a whole number and slangpy was given a float."""
    positional, named = ready.arguments(target)
    positions = [i for i, v in enumerate(args) if type(v) is int and type(positional[i]) is float]
    names = [n for n, v in kwargs.items() if type(v) is int and type(named[n]) is float]
    return (*positions, *names)
