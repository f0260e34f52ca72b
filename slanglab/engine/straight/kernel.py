"""A straight kernel: compiled once for a kind of call, then launched for each call of that kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import slangpy as spy
from slangpy.core.function import PipelineType
from slangpy.core.native import FunctionNodeType

from slanglab.engine.straight.arguments import Argument, Refusal, makes_tensor, traffic
from slanglab.engine.straight.extents import Extents, Flat
from slanglab.engine.straight.loading import Loaded, load
from slanglab.engine.straight.strategy import Strategy, choose
from slanglab.engine.target import Target

__all__ = ["Access", "Launch", "Straight", "check_target", "suited"]

_Tensor = spy.Tensor
_MOST = 2**31 - 1


@dataclass(eq=False, slots=True)
class Launch:
    """One call, ready to go.

    Attributes
    ----------
    shape : tuple of int
        The call's.
    count : int
        Elements.
    variables : dict
        What the kernel is given.
    aligned : bool
        True when packs of elements may be read with one load.
    result : object
        What was given for it.
    """

    shape: tuple[int, ...]
    count: int
    variables: dict[str, Any]
    aligned: bool
    result: Any


class Access:
    """How the arguments of one tensor parameter are looked at in each call."""

    __slots__ = (
        "backward", "cotangent", "differentiable", "form", "gradient", "inner", "is_result", "name", "one", "primal",
        "seed", "shown", "stride", "writes",
    )  # fmt: skip

    def __init__(self, a: Argument, backward: bool) -> None:
        self.name = a.name
        self.shown = "the result" if a.role == "result" else a.name
        self.is_result = a.role == "result"
        self.backward = backward
        self.one = a.kind == "one"
        self.inner = a.inner
        self.form = a.layout.shape
        self.stride = a.layout.size * (1 if a.inner else a.layout.count)
        self.differentiable = a.differentiable
        self.seed = backward and a.writes
        """True where a backward call reads a cotangent."""
        self.gradient = self.seed or a.gradient
        self.writes = a.writes
        self.primal = None if self.seed else a.key
        self.cotangent = f"d_{a.key}" if self.gradient else None


def suited(target: Target, arguments: Sequence[Argument]) -> Strategy:
    """Return the strategy for calls with such arguments on the function's device."""
    shared = any(a.kind == "one" and a.gradient for a in arguments)
    return choose(target.device, shared, max(a.layout.count for a in arguments))


def check_target(target: Target) -> None:
    """Refuse functions and modifiers that slangpy's own kernel has to see to."""
    function = target.slang_function
    if not target.checked or target.this is not None or target.this_first or function.this is not None:
        raise Refusal("it is a method, or an overloaded one")
    if function.is_constructor:
        raise Refusal("it is a constructor")
    info = target.node.calc_build_info()
    if target.mapping or info.map_args or info.map_kwargs:
        raise Refusal("`.map` says how its arguments go together")
    for set_, modifier in (
        (info.constants, "constants"),
        (info.prelude, "prelude"),
        (info.type_conformances, "type_conformances"),
        (info.thread_group_size, "thread_group_size"),
        (info.call_group_shape, "call_group_shape"),
    ):
        if set_:
            raise Refusal(f"`.{modifier}` is set")
    if info.pipeline_type != PipelineType.compute:
        raise Refusal("it is a ray tracing pipeline")
    node = target.node
    while node is not None:
        if node._native_type == FunctionNodeType.uniforms:
            raise Refusal("`.set` gives values to its uniforms")
        if node._native_type == FunctionNodeType.cuda_stream:
            raise Refusal("it has a CUDA stream of its own")
        node = node._native_parent
    if target.backward and not function.differentiable:
        raise Refusal("it is not differentiable")
    if "<" in str(function.full_name):
        raise Refusal("it is generic")


class Straight:
    """The kernel of one kind of call.

    Parameters
    ----------
    target : Target
    arguments : sequence of Argument
    strategy : Strategy

    Attributes
    ----------
    group_shape : tuple of int
        Threads in a group.
    extents : Extents
    text : str
        The kernel in Slang.
    """

    def __init__(self, target: Target, arguments: Sequence[Argument], strategy: Strategy) -> None:
        self._target = target
        self.arguments = tuple(arguments)
        self.strategy = strategy
        self.group_shape: tuple[int, ...] = (strategy.group,)
        self.text = ""
        function = target.slang_function
        self._device = target.device
        self._returned = function.return_type if function.have_return_value and not target.backward else None
        self.extents: Extents = Flat(self.arguments, strategy)
        self._axes = 0
        """How many of a call's axes are those of its rows."""
        self._cells: Any = None
        self._kernels: dict[tuple[bool, bool, bool], Loaded] = {}
        """By whether packs are read with one load, whether gradients are written, and whether threads take rows."""
        self._tensors = [
            Access(a, target.backward)
            for a in self.arguments
            if a.kind not in ("number", "grid") or a.role == "result"
        ]
        self._grids = [(a.name, a.key, a.rank) for a in self.arguments if a.kind == "grid"]
        self._numbers = [
            (a.name, a.key, int if a.layout.scalar == "bool" and not a.layout.shape else None)
            for a in self.arguments
            if a.kind == "number" and a.role == "in"
        ]

    # ----- does it fit -----

    def fits(self, values: Mapping[str, Any], result: Any) -> bool:
        """Tell whether the kernel can make this call: one with the same types, ranks and gradients as that it was made for."""
        return not isinstance(self._launch(values, result), str)

    def prepare(self, values: Mapping[str, Any], result: Any) -> Launch | None:
        """Return the launch of a call, or None when its arguments do not lie as the kernel needs them."""
        launch = self._launch(values, result)
        return None if isinstance(launch, str) else launch

    def reason(self, values: Mapping[str, Any], result: Any) -> str:
        """Say why the kernel cannot make this call; empty when it can."""
        launch = self._launch(values, result)
        return launch if isinstance(launch, str) else ""

    def _shape(self, values: Mapping[str, Any], result: Any) -> tuple[int, ...] | str:
        """Return the shape of a call, or why the kernel cannot make it."""
        shape: tuple[int, ...] = ()
        rank = 0
        for a in self._tensors:
            own = self._own(a, values, result)
            if own is None:
                continue
            if isinstance(own, str):
                return own
            if a.one:
                if prod(own) != 1:
                    return f"{a.shown} is broadcast over part of the call"
                if len(own) > rank:
                    rank = len(own)
            elif own != shape:
                if not shape:
                    shape = own
                elif prod(own) != prod(shape) or not _alike(own, shape):
                    return f"{a.shown} is broadcast over part of the call: {own} over {shape}"
                elif len(own) > len(shape):
                    shape = own
        for name, _, _ in self._grids:
            grid = values[name]
            own = grid.shape.as_tuple()
            if not _is_plain(grid, own):
                return f"{name} is a grid with steps or an offset"
            if own != shape:
                if not shape:
                    shape = own
                elif not _alike(own, shape):
                    return f"{name} is a grid of {own}, and the call has {shape}"
                elif len(own) > len(shape):
                    shape = own
        return (1,) * (rank - len(shape)) + shape if len(shape) < rank else shape

    @staticmethod
    def _own(a: Access, values: Mapping[str, Any], result: Any) -> tuple[int, ...] | str | None:
        """Return the shape of an argument without the axes of its value, None for a result that is made, or what is wrong with it."""
        value = result if a.is_result else values[a.name]
        if type(value) is not _Tensor:
            return (
                None if a.is_result and not a.backward and makes_tensor(value) else f"{a.shown} is no tensor"
            )
        own: tuple[int, ...] = value.shape.as_tuple()
        if a.inner:
            return own[: -a.inner] if own[-a.inner :] == a.form else f"{a.shown} has shape {own}"
        return own

    def _launch(self, values: Mapping[str, Any], result: Any) -> Launch | str:
        shape = self._shape(values, result)
        if isinstance(shape, str):
            return shape
        variables: dict[str, Any] = {}
        ranges: list[tuple[int, int]] = []
        written: list[tuple[int, int, str]] = []
        pointers = self.strategy.pointers
        low = 0
        for a in self._tensors:
            value = result if a.is_result else values[a.name]
            if type(value) is not _Tensor:
                continue
            gradient = value.grad_in if a.seed else value.grad_out if a.backward else None
            if a.backward and (gradient is not None) is not a.gradient and (a.seed or a.differentiable):
                return f"{a.shown} has {'no' if gradient is None else 'a'} gradient"
            for tensor, key, write in (
                (value, a.primal, a.writes),
                (gradient if a.gradient else None, a.cotangent, not a.seed),
            ):
                if tensor is None or key is None:
                    continue
                if not tensor.is_contiguous():
                    return f"{a.shown} is not contiguous"
                if tensor is not value and tensor.shape != value.shape:
                    return f"the gradient of {a.shown} has another shape: it is a view"
                storage, offset, count = tensor.storage, tensor.offset, tensor.element_count
                at = storage.device_address + offset * a.stride
                span = (at, at + count * a.stride)
                if write:
                    written.append((*span, a.shown))
                else:
                    ranges.append(span)
                if pointers:
                    if not a.one:
                        low |= at
                    variables[key] = at
                    variables["keep_" + key] = storage
                else:
                    variables[key] = storage
                    variables["at_" + key] = offset
        for name, key, axes in self._grids:
            if axes > 1:
                variables[key] = list(values[name].shape.as_tuple())
        count = prod(shape)
        if not 0 < count <= _MOST:
            return f"{count} elements"
        for i, (start, end, name) in enumerate(written):
            for other_start, other_end in ranges:
                if start < other_end and other_start < end:
                    return f"{name} is written where another argument is read"
            for other_start, other_end, _ in written[:i]:
                if start < other_end and other_start < end:
                    return f"{name} is written where another argument is written"
        for name, key, convert in self._numbers:
            variables[key] = convert(values[name]) if convert is not None else values[name]
        return Launch(shape, count, variables, low & 15 == 0, result)

    # ----- running -----

    def run(self, values: Mapping[str, Any], result: Any, encoder: Any = None) -> Any:
        """Make the call, and return what slangpy's would.

        Parameters
        ----------
        values : dict of str to object
            The arguments, converted, by parameter.
        result : object
            What was given as `_result`.
        encoder : slangpy.CommandEncoder, optional
            To append the call to, instead of submitting it.

        Raises
        ------
        ValueError
            When the arguments do not fit.
        """
        launch = self._launch(values, result)
        if isinstance(launch, str):
            raise ValueError(f"{self._target.name}: no straight call, as {launch}")
        return self.start(launch, encoder)

    def start(self, launch: Launch, encoder: Any = None, fresh: bool = False) -> Any:
        """Run what `prepare` returned; see `run`. With `fresh` a backward call writes its gradients, and adds to none."""
        extent = self.extents.of(launch.shape)
        loaded = self._loaded(launch.aligned, fresh, extent.rows)
        variables = launch.variables
        returned = self._result(launch)
        variables.update(zip(self.extents.names, extent.numbers, strict=True))
        into = self._device.create_command_encoder() if encoder is None else encoder
        if loaded.last is None:
            loaded.main.record(into, variables, extent.groups)
        else:
            self._give_cells(variables, extent.cells)
            loaded.main.record(into, variables, extent.groups)
            # The second kernel reads through pointers what the first has written, which the driver cannot know.
            into.global_barrier()
            loaded.last.record(into, variables, extent.last)
        if encoder is None:
            self._device.submit_command_buffer(into.finish())
        return self._answer(returned)

    def _answer(self, returned: Any) -> Any:
        return returned if self._returned is not None else None

    def _result(self, launch: Launch) -> Any:
        """Return what the result goes to, a new tensor where none was given, which the kernel is told of."""
        returned, variables = launch.result, launch.variables
        if self._returned is None or type(returned) is _Tensor:
            return returned
        returned = _Tensor.empty(self._device, launch.shape, self._returned)
        storage = returned.storage
        if self.strategy.pointers:
            variables["r"] = storage.device_address
            variables["keep_r"] = storage
        else:
            variables["r"] = storage
            variables["at_r"] = 0
        return returned

    def _give_cells(self, variables: dict[str, Any], count: int) -> None:
        """Give a launch room for so many partial sums, kept from call to call: later calls wait for earlier ones."""
        if self._cells is None or self._cells.element_count < count:
            self._cells = _Tensor.empty(self._device, (count,), "float2")  # a double is as large
        storage = self._cells.storage
        if self.strategy.pointers:
            variables["cells"] = storage.device_address
            variables["keep_cells"] = storage
        else:
            variables["cells"] = storage

    def bytes(self, values: Mapping[str, Any], result: Any = None) -> int:
        """Return how many bytes a call reads and writes."""
        launch = self._launch(values, result)
        return 0 if isinstance(launch, str) else traffic(self.arguments, launch.shape, self._axes)

    # ----- compiling -----

    def compile(self, shape: tuple[int, ...], fresh: bool = False) -> None:
        """Compile the kernel for calls over a shape like this one, whose arguments lie as those of most calls.

        Raises
        ------
        Refusal
            When the compiler does not take it, or the function needs values that only slangpy's call sets.
        """
        self._loaded(True, fresh, self.extents.of(shape).rows)

    def _loaded(self, aligned: bool, fresh: bool, rows: bool) -> Loaded:
        kind = aligned or self.strategy.width == 1, fresh, rows
        loaded = self._kernels.get(kind)
        if loaded is None:
            s = replace(self.strategy, fresh=fresh, rows=rows)
            loaded = self._load(s if kind[0] else replace(s, width=1, packs=s.at_once))
            self._kernels[kind] = loaded
        return loaded

    def _load(self, strategy: Strategy) -> Loaded:
        loaded = load(self._target, self.arguments, strategy)
        self.text = loaded.text
        return loaded


def _alike(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Tell whether two shapes are the same but for leading axes of length 1."""
    longer, shorter = (a, b) if len(a) >= len(b) else (b, a)
    extra = len(longer) - len(shorter)
    return longer[extra:] == shorter and all(n == 1 for n in longer[:extra])


def _is_plain(grid: Any, shape: tuple[int, ...]) -> bool:
    return grid.stride.as_tuple() == (1,) * len(shape) and not any(grid.offset.as_tuple())
