"""The function proxy: a Slang function that follows its cell.

A proxy holds the name of a function and the modifiers applied to it, not slangpy's object; it looks those up in the version that its
cell runs now, so a handle that the user kept sees the new code after an edit.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import slangpy as spy
from slangpy.core.function import FunctionNode
from slangpy.core.native import FunctionNodeType, Shape

from slanglab import waiting
from slanglab.engine import dispatch, overloads
from slanglab.engine.dispatch import Target
from slanglab.engine.fences import fence_for
from slanglab.engine.quick import MISSED
from slanglab.errors import ArgumentError, SlangLabError
from slanglab.text import symbols

__all__ = [
    "KEPT_MODIFIERS",
    "MODIFIED_KEPT",
    "AsWritten",
    "FunctionSource",
    "SlangFunction",
    "declarations_of",
    "release_all",
    "source_of",
    "suspend_all",
]

_resolved: weakref.WeakSet[SlangFunction] = weakref.WeakSet()
"""Proxies that hold slangpy's objects: one of them alone would keep a closed device's memory."""


def _group_shape(given: Any) -> Any:
    """Return slangpy's `Shape`, which alone it takes, of sizes."""
    if isinstance(given, Shape):
        return given
    sizes = tuple(given) if isinstance(given, (list, tuple)) else (given,)
    if not sizes or any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in sizes):
        raise ArgumentError(
            "call_group_shape: a group has a whole number of threads, 1 or more, along each axis of the call",
            argument="call_group_shape",
            expected="a tuple such as (8, 32)",
            given=repr(given),
        )
    return _shape_of(sizes)


@functools.lru_cache(maxsize=64)
def _shape_of(sizes: tuple[int, ...]) -> Any:
    """Return the same `Shape` for the same sizes, so that a function with it is found again."""
    return Shape(sizes)


def release_all() -> None:
    """Make every proxy let go of slangpy's objects, before their device is closed."""
    for function in list(_resolved):
        function.release()
    _resolved.clear()


def suspend_all() -> None:
    """Make every proxy ask for its version again at its next call, by way of the lab, and keep what it has until then."""
    for function in list(_resolved):
        function.suspend()


class Running(Protocol):
    """A cell."""

    @property
    def good(self) -> object:
        """The version that runs, or None."""
        ...


class FunctionSource(Protocol):
    """Where a proxy finds its function: one cell, whichever version it runs now."""

    @property
    def cell(self) -> Running:
        """The cell."""
        ...

    def version(self) -> object:
        """Return something that changes identity with every new version of the cell.

        Raises
        ------
        SlangLabError
            When the cell has no version that runs.
        """
        ...

    def targets(self, path: tuple[str, ...]) -> list[tuple[Target, symbols.Function | None]]:
        """Return what `path` ("f",) or ("S", "method") names: one target for each overload, and where it was declared."""
        ...


@dataclass(frozen=True)
class _Modifier:
    name: str
    args: tuple[Any, ...] = ()
    kwargs: tuple[tuple[str, Any], ...] = ()

    def apply(self, target: Target) -> Target:
        attribute = getattr(target.node, self.name)
        kwargs = dict(self.kwargs)
        node = attribute if self.name == "bwds" else attribute(*self.args, **kwargs)
        return target.modified(self.name, node, self.args, kwargs)


KEPT_MODIFIERS = frozenset({"bwds", "map", "return_type", "call_group_shape", "thread_group_size", "prelude"})
"""Modifiers whose results are kept, for code that writes `f.map(…)(…)` in a loop; those of `.set` would keep tensors alive."""

MODIFIED_KEPT = 16
"""Results that a function keeps."""


class AsWritten:
    """Shows a default value or a type in a signature as it stands in the source."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


class SlangFunction(spy.Function):  # type: ignore[misc]
    """A Slang function of a cell, to be called from Python.

    Calling it runs it forward; `.bwds(...)` runs it backward. The modifiers are slangpy's: `.map`, `.set`, `.constants`,
    `.return_type`, `.call_group_shape`, `.prelude` and the others return a new function.

    It is a `slangpy.Function`, as slangpy's instances and the user's own code ask for that; nothing of the class is used.
    """

    def __init__(
        self,
        source: FunctionSource,
        path: tuple[str, ...],
        shown: str,
        parent: SlangFunction | None = None,
        modifier: _Modifier | None = None,
    ) -> None:
        FunctionNode.__init__(self, None, FunctionNodeType.kernelgen, None)
        self._source = source
        # The cell, the version that `_cached` is of, and the target of a function that has one: one attribute for what each call reads.
        self._current: tuple[Running, object, Target | None] = source.cell, None, None
        self._suspended: tuple[Running, object, Target | None] | None = None
        self._path = path
        self._shown = shown
        self._parent = parent
        self._modifier = modifier
        self._cached: list[Target] = []
        self._declared: list[symbols.Function] = []
        self._made: dict[_Modifier, SlangFunction] = {}
        self._backward: SlangFunction | None = None

    # ----- finding the function -----

    def targets(self) -> list[Target]:
        """Return what a call may run: one target for each overload."""
        version = self._source.version()
        if self._suspended is not None:
            self._current, self._suspended = self._suspended, None
        if version is not self._current[1]:
            if self._cached:  # kernels of the old version may still be running
                waiting.until_idle(self._cached[0].device, self._cached)
            if self._parent is None or self._modifier is None:
                found = self._source.targets(self._path)
                self._cached = [target for target, _ in found]
                self._declared = [f for _, f in found if f is not None]
            else:
                self._cached = [self._modifier.apply(target) for target in self._parent.targets()]
                self._declared = self._parent._declared
            _resolved.add(self)
            only = self._cached[0] if len(self._cached) == 1 else None
            self._current = self._source.cell, version, only
        return self._cached

    def release(self) -> None:
        """Let go of slangpy's objects; the next call looks them up again."""
        self._current, self._cached, self._declared = (self._source.cell, None, None), [], []
        self._suspended = None

    def suspend(self) -> None:
        """Ask for the version at the next call, even where it has not changed."""
        if self._suspended is None:
            self._suspended, self._current = self._current, (self._source.cell, None, None)

    def _target(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Target:
        targets = self.targets()
        return targets[0] if len(targets) == 1 else overloads.choose(self._shown, targets, args, kwargs)

    def _modified(self, name: str, *args: Any, **kwargs: Any) -> SlangFunction:
        modifier = _Modifier(name, args, tuple(kwargs.items()))
        if name not in KEPT_MODIFIERS:
            return SlangFunction(self._source, self._path, self._shown, self, modifier)
        try:
            made = self._made.get(modifier)
        except TypeError:  # an argument that cannot be hashed, such as the dict of `.map(x={...})`
            return SlangFunction(self._source, self._path, self._shown, self, modifier)
        if made is None:
            if len(self._made) >= MODIFIED_KEPT:
                self._made.clear()
            made = self._made[modifier] = SlangFunction(self._source, self._path, self._shown, self, modifier)
        return made

    # ----- calling -----

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run the function over its arguments; see the function's own signature."""
        running, version, only = self._current
        if only is None or running.good is not version:
            only = self._target(args, kwargs)
            return dispatch.call(only, args, kwargs)
        # What `dispatch.call` begins with, here without a step between: of a small call's time every step is some percent.
        try:
            result = only.plans.quick(args, kwargs)
        except SlangLabError:
            raise
        except Exception as error:
            told = dispatch.explained(only, args, kwargs, error)
            if told is error:
                raise
            raise told from error
        return dispatch.call(only, args, kwargs) if result is MISSED else result

    def call(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run the function; the same as calling it."""
        return self(*args, **kwargs)

    def append_to(self, command_encoder: Any, /, *args: Any, **kwargs: Any) -> None:
        """Append the call to a command encoder, to be submitted later; nothing is returned."""
        dispatch.append_to(self._target(args, kwargs), command_encoder, args, kwargs)

    def dispatch(self, thread_count: Any, vars: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Run the function as a kernel of `thread_count` threads, past slangpy's own indexing."""
        target = self._target((), {})
        # What it reaches by an address is not told by its parameters: its arguments may be any struct.
        fence = fence_for(target.device, True, ())
        target.node.dispatch(thread_count, vars or {}, **kwargs)
        if fence is not None:
            fence.after(kwargs.get("command_encoder"))

    def debug_build_call_data(self, /, *args: Any, **kwargs: Any) -> Any:
        """Return what slangpy would dispatch for these arguments; its `code` is the text of the kernel."""
        return self._target(args, kwargs).node.debug_build_call_data(*args, **kwargs)

    def _single(self) -> Any:
        return self._target((), {}).node

    # ----- modifiers -----

    @property
    def bwds(self) -> SlangFunction:
        """The backward call: the same arguments, gradients written to those that carry one."""
        made = self._backward
        if made is None:
            made = self._backward = self._modified("bwds")
        return made

    def bind(self, this: Any) -> SlangFunction:
        """Return the method bound to an instance; slangpy's InstanceList and InstanceTensor do this."""
        return self._modified("bind", this)

    def map(self, *args: Any, **kwargs: Any) -> SlangFunction:
        """Return the function with arguments mapped to dimensions or types."""
        return self._modified("map", *args, **kwargs)

    def set(self, *args: Any, **kwargs: Any) -> SlangFunction:
        """Return the function with values for the module's `uniform` globals."""
        return self._modified("set", *args, **kwargs)

    def write(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> SlangFunction:
        """Return the function with a writer for its uniforms."""
        return self._modified("write", fn, *args, **kwargs)

    def constants(self, constants: dict[str, Any]) -> SlangFunction:
        """Return the function with values for its `extern static const` constants; another value compiles another kernel."""
        return self._modified("constants", constants)

    def prelude(self, code: str) -> SlangFunction:
        """Return the function with Slang text at the top of its kernel."""
        return self._modified("prelude", code)

    def type_conformances(self, type_conformances: Any) -> SlangFunction:
        """Return the function with type conformances for its interfaces."""
        return self._modified("type_conformances", type_conformances)

    def ray_tracing(self, *args: Any, **kwargs: Any) -> SlangFunction:
        """Return the function as a ray tracing pipeline."""
        return self._modified("ray_tracing", *args, **kwargs)

    def return_type(self, return_type: Any) -> SlangFunction:
        """Return the function with another result type: `slangpy.Tensor`, `numpy.ndarray`, "tensor", "numpy" or "texture"."""
        return self._modified("return_type", return_type)

    def call_group_shape(self, call_group_shape: Any) -> SlangFunction:
        """Return the function with a shape for its groups of threads: a size for each axis of the call, as a tuple or slangpy's `Shape`."""
        return self._modified("call_group_shape", _group_shape(call_group_shape))

    def thread_group_size(self, thread_group_size: Any) -> SlangFunction:
        """Return the function with a group size for `dispatch`."""
        return self._modified("thread_group_size", thread_group_size)

    def cuda_stream(self, stream: Any) -> SlangFunction:
        """Return the function on a CUDA stream."""
        return self._modified("cuda_stream", stream)

    def as_func(self) -> SlangFunction:
        """Return the function itself; slangpy has this for type checkers."""
        return self

    def as_struct(self) -> Any:
        """Raise ValueError: this is no struct."""
        raise ValueError(f"{self._shown} is a function, not a struct")

    @property
    def name(self) -> str:
        """The function's name."""
        return self._path[-1]

    @property
    def module(self) -> Any:
        """The slangpy module that the function runs in now."""
        return self._single().module

    @property
    def root(self) -> Any:
        """The slangpy function without modifiers."""
        return self._single().root

    @property
    def parent(self) -> Any:
        """What the last modifier was applied to, or None."""
        return self._parent

    def calc_build_info(self) -> Any:
        """Return what slangpy's code generator is told of the function."""
        return self._single().calc_build_info()

    def torch(self) -> Any:
        """Return slangpy's wrapper for PyTorch."""
        return self._single().torch()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._single().root, name)  # what slangpy's function has beyond the above

    # ----- describing -----

    def _declarations(self) -> list[symbols.Function]:
        self.targets()
        return self._declared

    @property
    def __name__(self) -> str:
        return self._path[-1]

    @property
    def __signature__(self) -> inspect.Signature:
        declared = self._declarations()
        if len(declared) != 1:
            parameters = [
                inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL),
                inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD),
            ]
            return inspect.Signature(parameters)
        function = declared[0]
        required = [p.default is None for p in function.parameters]
        return inspect.Signature(
            [
                inspect.Parameter(
                    p.name if p.name.isidentifier() else f"p{i}",
                    inspect.Parameter.POSITIONAL_OR_KEYWORD,
                    # Slang may have a required parameter after one with a default; Python's signatures may not.
                    default=AsWritten(p.default)
                    if p.default is not None and not any(required[i:])
                    else inspect.Parameter.empty,
                    annotation=AsWritten(_written_type(p)),
                )
                for i, p in enumerate(function.parameters)
            ],
            return_annotation=AsWritten(function.result or "void"),
        )

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        declared = self._declarations()
        lines = [symbols.signature(f) for f in declared] or [self._shown]
        docs = [f.doc for f in declared if f.doc]
        where = self.targets()
        gradient = (
            "Differentiable: call .bwds for its gradient."
            if any(t.slang_function.differentiable for t in where)
            else "Not differentiable."
        )
        return "\n\n".join(["\n".join(lines), *docs, gradient])

    def __repr__(self) -> str:
        try:
            declared = [symbols.signature(f) for f in self._declarations()]
        except Exception:  # a repr must not raise, also when the cell has gone
            declared = []
        what = "; ".join(declared) or self._shown
        return f"<Slang function {self._shown}{self._applied()}: {what}>"

    def _applied(self) -> str:
        """Return the modifiers as they would be written."""
        if self._parent is None or self._modifier is None:
            return ""
        name = self._modifier.name
        return f"{self._parent._applied()}.{name}" + ("" if name == "bwds" else "(…)")


def _written_type(parameter: symbols.Parameter) -> str:
    words = ["no_diff"] if parameter.no_diff else []
    if parameter.direction != "in":
        words.append(parameter.direction)
    return " ".join([*words, parameter.type])


def declarations_of(function: SlangFunction) -> list[symbols.Function]:
    """Return where the text declares a function: one declaration for each overload, none for what is not in the text."""
    return function._declarations()


def source_of(function: SlangFunction) -> FunctionSource:
    """Return where a function is found: its cell."""
    return function._source
