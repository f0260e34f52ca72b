"""What stands in the notebook for modules, functions, structs and other objects of the worker.

Each remembers how it was come by, so that it can be looked up again in a new worker; an object that cannot (the result of a call)
is gone with its worker.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from slanglab.cells.function import KEPT_MODIFIERS, MODIFIED_KEPT, AsWritten
from slanglab.errors import DeviceGoneError
from slanglab.remote.engine import Engine, Reference

if TYPE_CHECKING:
    from slanglab.remote.cells import RemoteCell

__all__ = ["Remote", "RemoteFunction", "RemoteModule", "RemoteObject", "RemoteStruct", "cell_of"]


class Remote:
    """An object of the worker.

    Parameters
    ----------
    engine : Engine
    reference : Reference, optional
        Where it is; looked up when it is needed, unless given.
    origin : callable, optional
        Looks it up in the present worker.
    """

    slanglab_remade = True

    def __init__(
        self,
        engine: Engine,
        reference: Reference | None = None,
        origin: Callable[[], Remote] | None = None,
    ) -> None:
        self._engine = engine
        self._reference = reference
        self._origin = origin

    def slanglab_reference(self) -> Reference:
        """Return where the object is, in the worker that there is now.

        Raises
        ------
        DeviceGoneError
            For one that was the result of a call to a worker that is gone.
        """
        found = self._reference
        engine = self._engine
        if found is not None and (
            self._origin is None or (found.generation == engine.generation and engine.present)
        ):
            return found
        assert self._origin is not None
        self._engine.settle()
        found = self._reference
        if found is None or found.generation != self._engine.generation:
            found = self._reference = self._origin()._reference
        assert found is not None
        return found

    def _get(self, name: str) -> Any:
        """Return an attribute, which can be looked up again."""
        if name.startswith("_") or name.startswith("slanglab_"):
            raise AttributeError(name)
        return self._again(lambda: self._engine.ask("get", object=self.slanglab_reference(), name=name))

    def _again(self, origin: Callable[[], Any]) -> Any:
        found = origin()
        if isinstance(found, Remote) and self._origin is not None:
            found._origin = origin
        return found

    def _text(self, what: str) -> Any:
        return self._engine.ask("text", object=self.slanglab_reference(), what=what)

    def slanglab_there(self: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one of SlangLab's functions where its argument is."""
        raise NotImplementedError  # replaced by `slanglab.remote`, which knows the engine

    def __dir__(self) -> list[str]:
        return [str(name) for name in self._text("dir")]

    def __repr__(self) -> str:
        try:
            return str(self._text("repr"))
        except DeviceGoneError as error:
            return f"<{type(self).__name__}: gone, {error.message}>"


class RemoteObject(Remote):
    """Something of the worker that has no class of its own here: attributes, items and calls are passed on."""

    def __init__(self, engine: Engine, reference: Reference, facts: dict[str, Any]) -> None:
        super().__init__(engine, reference)
        self._facts = facts

    def __getattr__(self, name: str) -> Any:
        return self._get(name)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call it."""
        return self._engine.ask("call", args=args, kwargs=kwargs, object=self.slanglab_reference())

    def __getitem__(self, key: Any) -> Any:
        return self._engine.ask("item", args=(key,), object=self.slanglab_reference())


class RemoteStruct(Remote):
    """A struct of a cell, or a type of slangpy's: called, it makes a value; its attributes are methods and nested types."""

    def __init__(self, engine: Engine, reference: Reference, facts: dict[str, Any]) -> None:
        super().__init__(engine, reference)
        self.full_name = str(facts["name"])
        self.slanglab_cell: RemoteCell | None = None

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Make a value of it."""
        return self._engine.ask(
            "call", self.full_name, args=args, kwargs=kwargs, object=self.slanglab_reference()
        )

    def __getattr__(self, name: str) -> Any:
        return self._get(name)


class RemoteFunction(Remote):
    """A Slang function of a cell, to be called from Python; it runs in the worker.

    Calling it runs it forward; `.bwds(...)` runs it backward. The modifiers are slangpy's: `.map`, `.set`, `.constants`,
    `.return_type`, `.call_group_shape`, `.prelude` and the others return a new function.
    """

    def __init__(
        self,
        engine: Engine,
        shown: str,
        reference: Reference | None = None,
        origin: Callable[[], Remote] | None = None,
        cell: RemoteCell | None = None,
    ) -> None:
        super().__init__(engine, reference, origin)
        self._shown = shown
        self.slanglab_cell = cell
        self._made: dict[Any, RemoteFunction] = {}
        self._backward: RemoteFunction | None = None

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run the function over its arguments; see the function's own signature."""
        return self._engine.ask(
            "call", self._shown, args=args, kwargs=kwargs, object=self.slanglab_reference()
        )

    def call(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run the function; the same as calling it."""
        return self(*args, **kwargs)

    def dispatch(self, thread_count: Any, vars: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Run the function as a kernel of `thread_count` threads, past slangpy's own indexing."""
        self._method("dispatch", thread_count, vars or {}, **kwargs)

    def debug_build_call_data(self, /, *args: Any, **kwargs: Any) -> Any:
        """Return what slangpy would dispatch for these arguments; its `code` is the text of the kernel."""
        return self._method("debug_build_call_data", *args, **kwargs)

    def _method(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return self._engine.ask(
            "call", self._shown, args=args, kwargs=kwargs, object=self.slanglab_reference(), name=name
        )

    # ----- modifiers -----

    def _modified(self, name: str, *args: Any, **kwargs: Any) -> RemoteFunction:
        key = None
        if name in KEPT_MODIFIERS:
            try:
                key = (name, args, tuple(kwargs.items()))
                if (known := self._made.get(key)) is not None:
                    return known
            except TypeError:  # an argument that cannot be hashed
                key = None

        def origin() -> Any:
            return self._engine.ask(
                "modify", args=args, kwargs=kwargs, object=self.slanglab_reference(), name=name
            )

        shown = f"{self._shown}.bwds" if name == "bwds" else self._shown
        made = RemoteFunction(self._engine, shown, None, origin, self.slanglab_cell)
        made.slanglab_reference()  # what cannot be applied is an error here, as it is without a worker
        if key is not None:
            if len(self._made) >= MODIFIED_KEPT:
                self._made.clear()
            self._made[key] = made
        return made

    @property
    def bwds(self) -> RemoteFunction:
        """The backward call: the same arguments, gradients written to those that carry one."""
        if self._backward is None:
            self._backward = self._modified("bwds")
        return self._backward

    def bind(self, this: Any) -> RemoteFunction:
        """Return the method bound to an instance."""
        return self._modified("bind", this)

    def map(self, *args: Any, **kwargs: Any) -> RemoteFunction:
        """Return the function with arguments mapped to dimensions or types."""
        return self._modified("map", *args, **kwargs)

    def set(self, *args: Any, **kwargs: Any) -> RemoteFunction:
        """Return the function with values for the module's `uniform` globals."""
        return self._modified("set", *args, **kwargs)

    def constants(self, constants: dict[str, Any]) -> RemoteFunction:
        """Return the function with values for its `extern static const` constants; another value compiles another kernel."""
        return self._modified("constants", constants)

    def prelude(self, code: str) -> RemoteFunction:
        """Return the function with Slang text at the top of its kernel."""
        return self._modified("prelude", code)

    def type_conformances(self, type_conformances: Any) -> RemoteFunction:
        """Return the function with type conformances for its interfaces."""
        return self._modified("type_conformances", type_conformances)

    def return_type(self, return_type: Any) -> RemoteFunction:
        """Return the function with another result type: `slangpy.Tensor`, `numpy.ndarray`, "tensor", "numpy" or "texture"."""
        return self._modified("return_type", return_type)

    def call_group_shape(self, call_group_shape: Any) -> RemoteFunction:
        """Return the function with a shape for its groups of threads."""
        return self._modified("call_group_shape", call_group_shape)

    def thread_group_size(self, thread_group_size: Any) -> RemoteFunction:
        """Return the function with a group size for `dispatch`."""
        return self._modified("thread_group_size", thread_group_size)

    def as_func(self) -> RemoteFunction:
        """Return the function itself."""
        return self

    # ----- describing -----

    @property
    def name(self) -> str:
        """The function's name."""
        return self._shown.removesuffix(".bwds").rpartition(".")[2]

    @property
    def __name__(self) -> str:
        return self.name

    @property
    def __signature__(self) -> inspect.Signature:
        rows, returned = self._text("signature")

        def written(text: str | None) -> Any:
            return inspect.Parameter.empty if text is None else AsWritten(text)

        parameters = [
            inspect.Parameter(n, inspect._ParameterKind(k), default=written(d), annotation=written(a))
            for n, k, d, a in rows
        ]
        return inspect.Signature(parameters, return_annotation=written(returned))

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        return str(self._text("doc"))

    def __getattr__(self, name: str) -> Any:
        return self._get(name)


class RemoteModule:
    """The Slang names of a cell as attributes, and nothing else; see `slanglab.cells.module.SlangModule`."""

    __slots__ = ("__cell", "__weakref__")

    def __init__(self, cell: RemoteCell) -> None:
        object.__setattr__(self, "_RemoteModule__cell", cell)

    def __getattr__(self, name: str) -> Any:
        cell: RemoteCell = object.__getattribute__(self, "_RemoteModule__cell")
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return cell.lookup(name)

    def __getitem__(self, name: str) -> Any:
        cell: RemoteCell = object.__getattribute__(self, "_RemoteModule__cell")
        return cell.item(name)

    def __setattr__(self, name: str, value: object) -> None:
        cell: RemoteCell = object.__getattribute__(self, "_RemoteModule__cell")
        raise AttributeError(
            f"{cell.shown}.{name} cannot be set; uniform globals are set for a call: `{cell.shown}.f.set({name}=…)(…)`"
        )

    def __dir__(self) -> list[str]:
        cell: RemoteCell = object.__getattribute__(self, "_RemoteModule__cell")
        return cell.seen()

    def __repr__(self) -> str:
        cell: RemoteCell = object.__getattribute__(self, "_RemoteModule__cell")
        return cell.describe()


def cell_of(value: object) -> RemoteCell | None:
    """Return the cell that a module, function or struct came from; None for anything else."""
    if type(value) is RemoteModule:
        found: RemoteCell = object.__getattribute__(value, "_RemoteModule__cell")
        return found
    if type(value) in (RemoteFunction, RemoteStruct):
        return value.slanglab_cell  # type: ignore[attr-defined, no-any-return]
    return None
