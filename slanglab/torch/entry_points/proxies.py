"""What Python holds of a `--torch` cell: its module and functions, which follow it from version to version."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from slanglab.cells.versions import Cell, Version
from slanglab.errors import DeviceError, NameNotFoundError, SlangLabError
from slanglab.text.outline import signature
from slanglab.torch.entry_points.compiler import TorchProgram
from slanglab.torch.entry_points.generated import Generated

__all__ = ["TorchAccess", "TorchFunction", "TorchModule", "access_of", "cell_of", "generated_of"]


class TorchAccess:
    """The names of one cell, in whichever version it runs now."""

    def __init__(self, cell: Cell[TorchProgram], shown: str) -> None:
        self.cell = cell
        self.shown = shown

    def version(self) -> Version[TorchProgram]:
        """Return the version that runs.

        Raises
        ------
        SlangLabError
            When there is none.
        """
        if self.cell.good is None:
            raise SlangLabError(
                f"{self.shown} has no version that runs", hint="run its cell again; its last compile failed"
            )
        return self.cell.good

    def names(self) -> list[str]:
        """Return what Python can call: functions with their gradients first, then entry points and kernels."""
        program = self.version().program
        return [*program.pairs, *program.callables]

    def own(self, name: str) -> Any:
        """Return the function called `name`, or None."""
        program = self.version().program
        return TorchFunction(self, name) if name in program.pairs or name in program.callables else None

    def lookup(self, name: str) -> Any:
        """Return a function, or a type that slangtorch offers (`DiffTensorView`, structs of kernels); None for another name."""
        found = self.own(name)
        if found is None:
            library = self.version().program.library
            value = getattr(library, name, None) if not name.startswith("_") else None
            found = value if isinstance(value, type) else None
        return found

    def missing(self, name: str) -> NameNotFoundError:
        """Return the error for a name that it does not have."""
        program = self.version().program
        functions = {f.name for _, o in program.sources for f in o.functions}
        if name in program.unpaired:
            hint = f"{name}_fwd and {name}_bwd are no pair: {program.unpaired[name]}"
        elif name in functions:
            hint = f"`{name}` is not for Python: write [TorchEntryPoint] or [AutoPyBindCUDA] above what is to be called"
        else:
            near = difflib.get_close_matches(name, self.names(), n=1)
            hint = f"did you mean `{near[0]}`?" if near else f"it has {', '.join(self.names()) or 'none'}"
        return NameNotFoundError(f"the cell {self.shown} has no function named {name!r}", hint=hint)


class TorchFunction:
    """A function of a `--torch` cell.

    An entry point is called with its arguments, by position or name. A kernel (`[AutoPyBindCUDA]`) is called with its arguments and then
    launched: `f(input=x, output=y).launchRaw(blockSize=(256, 1, 1), gridSize=(4, 1, 1))`; `f.bwd(…)` and `f.fwd(…)` are its derivatives.
    A pair `X_fwd`, `X_bwd` is also `X`, whose result is in torch's autograd graph.
    """

    __slots__ = ("__weakref__", "_access", "_name")

    def __init__(self, access: TorchAccess, name: str) -> None:
        self._access = access
        self._name = name

    @property
    def __name__(self) -> str:
        return self._name

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        lines = [s for s in (self.signature, self._text()) if s]
        return "\n\n".join(lines)

    @property
    def signature(self) -> str:
        """The signature in Slang's words."""
        program = self._access.version().program
        pair = program.pairs.get(self._name)
        function = program.callables[pair.forward if pair is not None else self._name].function
        return signature(function).replace(function.name, self._name, 1)

    def _text(self) -> str:
        program = self._access.version().program
        pair = program.pairs.get(self._name)
        if pair is not None:
            names = ", ".join(pair.inputs[i].name for i in pair.differentiable)
            return f"{pair.forward}, with the gradient of {names} by {pair.backward}."
        return program.callables[self._name].function.doc

    def _program(self) -> TorchProgram:
        """Return what runs.

        Raises
        ------
        NameNotFoundError
            When the cell no longer has the function.
        DeviceError
            When the cell could not be built, with what is missing.
        """
        program = self._access.version().program
        if self._name not in program.pairs and self._name not in program.callables:
            raise self._access.missing(self._name)
        if program.library is None:
            what = "; ".join(m.what for m in program.missing) or "it is not built"
            hint = "; then ".join(m.command for m in program.missing)
            raise DeviceError(
                f"{self._shown} needs CUDA and cannot run here: {what}",
                hint=f"{hint}; then run its cell again",
            )
        return program

    @property
    def _shown(self) -> str:
        return f"{self._access.shown}.{self._name}" if self._access.cell.named else self._name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it; a kernel gives what is to be launched."""
        program = self._program()
        from slanglab.torch.entry_points import calling

        function = program.callables.get(self._name)
        if self._name not in program.pairs and function is not None and function.kind == "kernel":
            return calling.kernel_call(self._shown, self._name, program, args, kwargs)
        return calling.call(self._shown, self._name, program, args, kwargs)

    @property
    def fwd(self) -> Callable[..., Any]:
        """The kernel's forward derivative."""
        return self._derivative("fwd")

    @property
    def bwd(self) -> Callable[..., Any]:
        """The kernel's backward derivative: tensors are given as pairs of value and gradient."""
        return self._derivative("bwd")

    def _derivative(self, mode: str) -> Callable[..., Any]:
        program = self._access.version().program
        function = program.callables.get(self._name)
        if function is None or function.kind != "kernel":
            raise AttributeError(
                f"{self._shown} has no .{mode}, which only kernels have ([AutoPyBindCUDA] [CudaKernel] [Differentiable])"
            )

        def derivative(*args: Any, **kwargs: Any) -> Any:
            program = self._program()
            from slanglab.torch.entry_points import calling

            return calling.kernel_call(self._shown, self._name, program, args, kwargs, mode)

        return derivative

    def __repr__(self) -> str:
        try:
            return f"<Slang function for PyTorch {self._shown}: {self.signature}>"
        except (SlangLabError, KeyError):
            return f"<Slang function for PyTorch {self._shown}>"


class TorchModule:
    """The functions of a `--torch` cell as attributes, and nothing else; it follows its cell."""

    __slots__ = ("__access", "__weakref__")

    def __init__(self, access: TorchAccess) -> None:
        object.__setattr__(self, "_TorchModule__access", access)

    def __getattr__(self, name: str) -> Any:
        access = access_of(self)
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        found = access.lookup(name)
        if found is None:
            raise access.missing(name)
        return found

    def __getitem__(self, name: str) -> Any:
        return self.__getattr__(name)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{access_of(self).shown}.{name} cannot be set")

    def __dir__(self) -> list[str]:
        return access_of(self).names()

    def __repr__(self) -> str:
        access = access_of(self)
        if access.cell.good is None:
            return f"<Slang module for PyTorch {access.shown}: has not compiled>"
        of = access.cell.good.description
        if not of.startswith(f"{access.shown}, "):  # a file, or a cell without a name, is known by its place
            of = f"{access.shown}, {of}"
        built = "" if access.cell.good.program.library is not None else ", not built"
        return f"<Slang module for PyTorch {of}{built}: {', '.join(access.names())}>"


def access_of(module: TorchModule) -> TorchAccess:
    """Return the access behind a module."""
    found: TorchAccess = object.__getattribute__(module, "_TorchModule__access")
    return found


def cell_of(value: object) -> Cell[TorchProgram] | None:
    """Return the cell that a module or function came from; None for anything else."""
    if type(value) is TorchModule:
        return access_of(value).cell
    if type(value) is TorchFunction:
        return value._access.cell
    return None


def generated_of(value: TorchModule | TorchFunction) -> Generated:
    """Return the texts that Slang wrote for a module's cell."""
    access = access_of(value) if isinstance(value, TorchModule) else value._access
    return replace(access.version().program.generated, name=access.shown)
