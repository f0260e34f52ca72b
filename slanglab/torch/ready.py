"""Calls with torch tensors like earlier ones: launched at once, on torch's own memory, and on CUDA in torch's own stream.

The first calls of a kind go the way of all calls, with its checks, its conversions and its copies. Where the device sees torch's memory
and a straight kernel can make them, one is compiled, and later calls need little more than what torch needs for an operator of its own:
a look at each argument, memory for the result, a launch. A call that is unlike in anything that matters goes the way of all calls again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
from torch.autograd import forward_ad

from slanglab.engine.binding import bind
from slanglab.engine.groups import group_words
from slanglab.engine.quick import MISSED
from slanglab.engine.runs import Details, Trace
from slanglab.engine.straight import bare
from slanglab.engine.straight.bare import Bare
from slanglab.engine.target import Target
from slanglab.torch.graph import backward_of
from slanglab.torch.inputs import Inputs
from slanglab.torch.leaves import Arguments, torch_dtype
from slanglab.torch.once import at_most_once

__all__ = ["Kind", "Ready", "is_transformed"]

Backward = Callable[[Target, "Kind", Sequence[Any], Sequence[Any], Sequence[bool], Any], list[Any]]
"""Makes a backward call the way of all calls: (target, kind, arguments, tensors, wanted, seed)."""

_KEPT = 64
_USES_SMALL = 8
_USES_LARGE = 2
"""Calls of a kind, the last of which compiles its kernel: that takes as long as thousands of small calls gain by it."""

_TENSORS: Final = (torch.Tensor, torch.nn.Parameter)
_raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)
_current = getattr(torch._C, "_cuda_getDevice", torch.cuda.current_device)
_transforms = getattr(torch._C, "_are_functorch_transforms_active", lambda: False)


def _stream(index: int) -> int:
    """Return the handle of torch's current stream of a GPU; torch's own public way to it takes 4 µs, as long as a launch."""
    if _raw_stream is not None:
        return int(_raw_stream(index))
    return int(torch.cuda.current_stream(index).cuda_stream)


def is_transformed() -> bool:
    """Tell whether torch is in a transform of torch.func, or differentiates forward: neither sees into a Slang function."""
    return bool(_transforms() or forward_ad._current_level >= 0)


class Ready:
    """What is known of the calls of one function.

    Parameters
    ----------
    target : Target
        The forward one.
    otherwise : callable
        Makes a backward call the way of all calls.
    """

    def __init__(self, target: Target, otherwise: Backward) -> None:
        self.target = target
        self.backward = backward_of(target)
        self.otherwise = otherwise
        self._control = target.control
        self._kinds: dict[object, Kind] = {}
        self._may = _may_be_ready(target)

    def call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Make a call for whose kind there is a kernel; `MISSED` where it has to go the way of all calls."""
        values = (*args, *kwargs.values()) if kwargs else args
        kind = self.find(len(args), kwargs, values)
        return MISSED if kind is None or is_transformed() else kind.call(values)

    def find(self, positional: int, names: Mapping[str, Any], values: Sequence[Any]) -> Kind | None:
        """Return the kind of a call, if there is a kernel for it that may be used now.

        Parameters
        ----------
        positional : int
            How many of its arguments come by position.
        names : mapping of str to object
            The others.
        values : sequence of object
            All of them.
        """
        control = self._control
        if not self._kinds or not control.plain or control.policy.path == "slangpy":
            return None
        kind = self._kinds.get(_key(positional, names, values))
        return None if kind is None or kind.kernel is None else kind

    def kind(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], arguments: Arguments, direct: bool
    ) -> Kind | None:
        """Return the kind of a call that goes the way of all calls, None where that will always be so.

        Parameters
        ----------
        args, kwargs
            As the user gave them.
        arguments : Arguments
        direct : bool
            Whether the device sees torch's memory.
        """
        if not (self._may and direct and arguments.simple) or arguments.result is not None:
            return None
        if len(args) + len(kwargs) != len(self.target.parameters):
            return None  # the others have default values
        for leaf in arguments.leaves:
            if leaf.spec is None or leaf.given != leaf.dtype or leaf.writes or leaf.spec.kind == "tensor":
                return None
        values = (*args, *kwargs.values())
        key = _key(len(args), kwargs, values)
        if key is None:
            return None
        found = self._kinds.get(key)
        if found is None:
            if len(self._kinds) >= _KEPT:
                self._kinds.clear()
            found = self._kinds[key] = Kind(self, len(args), tuple(kwargs), arguments)
        return found


def _may_be_ready(target: Target) -> bool:
    """Tell whether nothing has to be done around the calls of a function."""
    return (
        target.checked and target.after is None and not target.overwrites and target.this is None
        and not target.this_first and not target.mapping and target.result is not None and target.returned is None
        and not group_words(target.texts())
    )  # fmt: skip


def _key(positional: int, names: Mapping[str, Any], values: Sequence[Any]) -> object | None:
    """Return what the arguments of a call are like; None where more is among them than numbers and torch tensors."""
    found: list[object] = [positional, *names]
    add = found.append
    for value in values:
        kind = type(value)
        if kind in _TENSORS:
            add(value.dtype)
            add(value.device)
            add(value.ndim)
        elif kind is float or kind is int or kind is bool:
            add(kind)
        else:
            return None
    return tuple(found)


class Kind:
    """Calls with arguments of one kind.

    Parameters
    ----------
    ready : Ready
    positional : int
        How many of the arguments come by position.
    names : tuple of str
        Of the others.
    arguments : Arguments
        Of such a call.

    Attributes
    ----------
    kernel : Bare or None
        That of forward calls, where there is one by now.
    """

    def __init__(self, ready: Ready, positional: int, names: tuple[str, ...], arguments: Arguments) -> None:
        self.ready = ready
        self.positional = positional
        self.names = names
        self.kernel: Bare | None = None
        self._forward = _Learning()
        self._receives = tuple(leaf.receives for leaf in arguments.leaves)
        self._backward: dict[tuple[bool, ...], _Backward] = {}
        self._where = arguments.leaves[0].tensor.device
        spec = ready.target.result
        assert spec is not None
        self._element = spec.element_shape
        self._dtype = torch_dtype(spec.dtype) if spec.dtype is not None else None
        self.integral = self._dtype is None or not self._dtype.is_floating_point
        dtypes = (*(leaf.dtype for leaf in arguments.leaves), self._dtype)
        self._sizes = tuple(d.itemsize if d is not None else 0 for d in dtypes)
        self._inputs: Inputs | None = None

    # ----- learning -----

    def forward_made(self, args: Sequence[Any], kwargs: Mapping[str, Any], large: bool) -> None:
        """Take note of a forward call that went the way of all calls.

        Parameters
        ----------
        args, kwargs
            As the engine was given them.
        large : bool
        """
        if not self._forward.is_due(_USES_LARGE if large else _USES_SMALL) or self._dtype is None:
            return
        target = self.ready.target
        values = bind(target, args, {k: v for k, v in kwargs.items() if k != "_result"}).values
        made = bare.build(target, values, "tensor")
        if isinstance(made, Bare):
            inputs = Inputs(target, self.positional, self.names, made)
            if inputs.sizes == self._sizes:  # a bool takes 4 bytes on some devices
                self._inputs, self.kernel = inputs, made

    def backward_made(
        self, wanted: Sequence[bool], args: Sequence[Any], kwargs: Mapping[str, Any], large: bool
    ) -> None:
        """Take note of a backward call that went the way of all calls, likewise; for `wanted` see `Single.backward`."""
        target = self.ready.backward
        if target.check_always or self.kernel is None:
            return
        found = self._backward.setdefault(tuple(wanted), _Backward())
        if not found.is_due(1 if large else _USES_LARGE):
            return
        values = bind(target, args, {k: v for k, v in kwargs.items() if k != "_result"}).values
        made = bare.build(target, values, kwargs.get("_result"), fresh=True)
        if isinstance(made, Bare):
            found.inputs = Inputs(target, self.positional, self.names, made)
            found.kernel = made

    # ----- calling -----

    def call(self, values: Sequence[Any]) -> Any:
        """Make a call with arguments of this kind; `MISSED` where it has to go the way of all calls."""
        inputs = self._inputs
        assert inputs is not None
        read = inputs.read(values)
        if read is None:
            return MISSED
        tensors, shape, given = read
        if torch.is_grad_enabled():
            asks = False
            for tensor, receives in zip(tensors, self._receives, strict=True):
                if tensor.requires_grad:
                    if not receives:
                        return MISSED  # which says so
                    asks = True
            if asks:
                if not self.ready.target.slang_function.differentiable:
                    return MISSED
                return _Node.apply(self, values, shape, given, *tensors)
        return self.forward(tensors, shape, given)

    def forward(self, tensors: Sequence[Any], shape: tuple[int, ...], given: list[Any]) -> Any:
        """Launch the forward kernel, and return its result."""
        started = time.perf_counter()
        kernel = self.kernel
        assert kernel is not None
        inputs = self._inputs
        assert inputs is not None
        if inputs.like >= 0:  # takes half the time of naming all that
            made = torch.empty_like(tensors[inputs.like], requires_grad=False)
        else:
            made = torch.empty((*shape, *self._element), dtype=self._dtype, device=self._where)
        given[inputs.result] = made.data_ptr()
        self._launch(kernel, shape, given, (*tensors, made))
        self._left(self.ready.target, kernel, inputs, shape, started)
        return made

    def backward(
        self, values: Sequence[Any], tensors: Sequence[Any], wanted: Sequence[bool], seed: Any
    ) -> list[Any]:
        """Return the gradient of each tensor, None for those that are not wanted.

        Parameters
        ----------
        values : sequence of object
            The arguments of the forward call; what stands in the places of tensors does not matter.
        tensors : sequence of torch.Tensor
        wanted : sequence of bool
        seed : torch.Tensor
        """
        found = self._backward.get(tuple(wanted))
        control = self.ready.target.control
        if (
            found is not None
            and found.kernel is not None
            and control.plain
            and control.policy.path != "slangpy"
        ):
            made = self._launched(found.kernel, found.inputs, values, tensors, wanted, seed)
            if made is not None:
                return made
        return self.ready.otherwise(self.ready.target, self, values, tensors, wanted, seed)

    def filled(self, values: Sequence[Any], tensors: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return arguments by position and by name, with these tensors in the places of the tensors."""
        assert self._inputs is not None
        whole = list(values)
        for at, tensor in zip(self._inputs.places, tensors, strict=True):
            whole[at] = tensor
        return tuple(whole[: self.positional]), dict(zip(self.names, whole[self.positional :], strict=True))

    def _launched(
        self, kernel: Bare, inputs: Inputs | None, values: Sequence[Any], tensors: Sequence[Any], wanted: Sequence[bool],
        seed: Any,
    ) -> list[Any] | None:  # fmt: skip
        started = time.perf_counter()
        assert inputs is not None
        whole = list(values)
        for at, tensor in zip(inputs.places, tensors, strict=True):
            whole[at] = tensor
        read = inputs.read(whole)
        if read is None:
            return None
        _, shape, given = read
        seed = seed.contiguous()
        at = seed.data_ptr()
        if seed.is_neg() or at % kernel.alignment:
            seed = seed.clone(memory_format=torch.contiguous_format)
            at = seed.data_ptr()
        found = [torch.empty_like(t) if w else None for t, w in zip(tensors, wanted, strict=True)]
        given[inputs.result] = at
        for gradient, place in zip(found, inputs.gradients, strict=True):
            if gradient is not None:
                given[place] = gradient.data_ptr()
        self._launch(kernel, shape, given, (*tensors, seed, *found))
        self._left(self.ready.backward, kernel, inputs, shape, started)
        return found

    def _launch(
        self, kernel: Bare, shape: tuple[int, ...], given: Sequence[Any], owners: Sequence[Any]
    ) -> None:
        bytes_ = kernel.room(shape)
        # Torch gives memory that is let go of to what comes later in the same stream.
        room = torch.empty(bytes_, dtype=torch.uint8, device=self._where) if bytes_ else None
        address = room.data_ptr() if room is not None else 0
        owners = (*owners, room)
        index = self._where.index
        if index is None:
            kernel.launch(shape, given, 0, address, owners)
        elif _current() == index:
            kernel.launch(shape, given, _stream(index), address, owners)
        else:
            with torch.cuda.device(index):
                kernel.launch(shape, given, _stream(index), address, owners)

    def _left(
        self, target: Target, kernel: Bare, inputs: Inputs, shape: tuple[int, ...], started: float
    ) -> None:
        """Leave what the report of the call needs."""
        seconds = time.perf_counter() - started
        known = inputs.trace
        if known is None or known[0] != shape:
            details = Details("straight", "", kernel.group_shape, bytes=inputs.bytes(shape))
            known = inputs.trace = shape, Trace(target.name, target.backward, details)
        target.control.last = known[1], seconds, (), {}


class _Learning:
    """How many calls have gone the way of all calls."""

    def __init__(self) -> None:
        self._uses = 0
        self._tried = False

    def is_due(self, uses: int) -> bool:
        """Count one more call; tell, once, whether they are so many that a kernel is to be made."""
        self._uses += 1
        if self._tried or self._uses < uses:
            return False
        self._tried = True
        return True


class _Backward(_Learning):
    """The kernel of backward calls with gradients for certain tensors, where there is one by now."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel: Bare | None = None
        self.inputs: Inputs | None = None


class _Node(torch.autograd.Function):  # type: ignore[misc]
    """A call in torch's graph."""

    @staticmethod
    def forward(
        ctx: Any, kind: Kind, values: Sequence[Any], shape: tuple[int, ...], given: list[Any], *tensors: Any
    ) -> Any:
        made = kind.forward(tensors, shape, given)
        ctx.save_for_backward(*tensors)
        if kind.integral:
            ctx.mark_non_differentiable(made)
        ctx.set_materialize_grads(False)
        # The tensors themselves could hold the graph that holds this.
        ctx.values = [None if type(v) in _TENSORS else v for v in values]
        ctx.kind = kind
        return made

    @staticmethod
    def backward(ctx: Any, seed: Any) -> tuple[Any, ...]:
        nothing = (None, None, None, None)
        saved = ctx.saved_tensors  # raises where one was changed in place
        if seed is None:
            return nothing + (None,) * len(saved)
        with torch.no_grad():
            found = ctx.kind.backward(ctx.values, saved, ctx.needs_input_grad[4:], seed)
        if torch.is_grad_enabled():
            found = list(at_most_once(ctx.kind.ready.target.name, found, (*saved, seed)))
        return nothing + tuple(found)
