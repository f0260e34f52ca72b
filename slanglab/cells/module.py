"""The module proxy: the Slang names of a cell, and nothing else."""

from __future__ import annotations

import difflib
import re
import weakref
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import slangpy as spy

from slanglab.cells.compiler import Program
from slanglab.cells.function import SlangFunction
from slanglab.cells.units import moved
from slanglab.cells.versions import Cell, Version
from slanglab.engine import outside
from slanglab.engine.control import Control
from slanglab.engine.dispatch import Target
from slanglab.engine.parameters import parameters
from slanglab.engine.probing import custom_rules, due
from slanglab.errors import DeviceError, NameNotFoundError, SlangLabError
from slanglab.scalars import SCALARS
from slanglab.text import symbols
from slanglab.text.diagnostics import Diagnostic
from slanglab.text.lint import causes
from slanglab.text.names import means_something

__all__ = ["CellAccess", "SlangModule", "SlangStruct", "cell_of"]

_BUILT_IN = re.compile(rf"({'|'.join(SCALARS)})([1-4](x[1-4])?)?$")
"""Types that a module offers without declaring them: `module.float`, `module.float3`, `module.float2x2`."""


class Surroundings(Protocol):
    """What a cell's names need from the lab."""

    @property
    def control(self) -> Control:
        """How calls are made."""
        ...

    def cell(self, key: str) -> Cell[Program] | None:
        """Return the cell called `key`."""
        ...

    def finished(self, program: Program) -> str:
        """Do what follows a call: show what the kernel printed; return it with the reports of index checks."""
        ...

    def default(
        self, version: Version[Program], function: symbols.Function, parameter: symbols.Parameter
    ) -> Any:
        """Return the value of a parameter's default expression."""
        ...

    def prints(self, cell: Cell[Program]) -> bool:
        """Tell whether a cell, or one that it imports, may print."""
        ...

    def ready(self) -> None:
        """See to it that the device can be used: one that is lost or was given up is replaced, with every version."""
        ...


class CellAccess:
    """The names of one cell, in whichever version it runs now; a `FunctionSource` for the proxies."""

    def __init__(self, cell: Cell[Program], shown: str, around: Surroundings) -> None:
        self.cell = cell
        self.shown = shown
        self._around = around
        self._functions: dict[str, SlangFunction] = {}
        # Weakly: a version holds its whole Slang session, and nobody may ask for a name again after an edit.
        self._functions_of: weakref.ref[Version[Program]] | None = None

    def version(self) -> Version[Program]:
        """Return the version that runs.

        Raises
        ------
        SlangLabError
            When there is none.
        """
        self._around.ready()
        if self.cell.good is None:
            raise SlangLabError(
                f"{self.shown} has no version that runs", hint="run its cell again; its last compile failed"
            )
        return self.cell.good

    def outline(self) -> symbols.Outline:
        """Return the declarations in the text of the version that runs."""
        return self.version().program.outline

    # ----- names -----

    def names(self) -> list[str]:
        """Return what the cell declares and can be reached from Python, in the order of the text."""
        parsed = self.outline()
        functions = [f.name for f in parsed.functions if not f.in_struct and not f.namespace]
        return list(dict.fromkeys([*functions, *(s.name for s in parsed.structs if not s.namespace)]))

    def imported(self) -> list[CellAccess]:
        """Return access to the cells whose names this one sees: those that it imports, and what they export again."""
        found: dict[str, CellAccess] = {}
        pending = [(key, True) for key in self.version().unit.imported]
        while pending:
            key, _ = pending.pop(0)
            cell = self._around.cell(key)
            if cell is None or cell.good is None or key in found:
                continue
            found[key] = CellAccess(cell, key, self._around)
            exported = {i.name for i in cell.good.program.outline.imports if i.exported}
            pending.extend((k, True) for written, k in cell.good.unit.imports if written in exported)
        return list(found.values())

    def lookup(self, name: str) -> Any:
        """Return the function, struct or type called `name`, or None."""
        version = self.version()
        if self._functions_of is None or version is not self._functions_of():
            self._functions, self._functions_of = {}, weakref.ref(version)
        if (known := self._functions.get(name)) is not None:
            return known
        owner = next((a for a in (self, *self.imported()) if name in a.names()), None)
        if owner is not None:
            found = owner.own(name)
            if isinstance(found, SlangFunction):
                self._functions[name] = found
            return found
        if _BUILT_IN.fullmatch(name):
            return self.version().program.module.find_struct(name)
        return None

    def own(self, name: str) -> Any:
        """Return what the cell itself declares under `name`."""
        parsed = self.outline()
        if any(f.name == name and not f.in_struct and not f.namespace for f in parsed.functions):
            return SlangFunction(self, (name,), f"{self.shown}.{name}" if self.cell.named else name)
        return self._struct(name)

    def item(self, name: str) -> Any:
        """Return what a name in Slang's own spelling means: `ns::f`, `S::method`, `gen<float3>`, `Tensor<float, 1>`."""
        if (found := self.lookup(name)) is not None:
            return found
        base = re.split(r"[<(]", name, maxsplit=1)[0].strip()
        if "(" in name:
            # slangpy looks up `f(float)` among overloads and crashes the process where there are some
            raise NameNotFoundError(
                f"{self.shown}[{name!r}] names one overload by its parameters, which slangpy cannot look up",
                hint=f"call `{self.shown}[{base!r}](…)`: the arguments choose the overload",
            )
        for access in (self, *self.imported()):
            if not means_something(name, access.outline()):
                continue
            if base in {f.qualified for f in access.outline().functions}:
                return SlangFunction(access, (name,), f"{access.shown}[{name!r}]")
            if base in {s.qualified for s in access.outline().structs}:
                return access._struct(name)
            return access.version().program.module.find_struct(name)
        return None

    def _struct(self, name: str) -> SlangStruct | None:
        program = self.version().program
        slang_type = program.module.layout.find_type_by_name(name)
        return SlangStruct(program.module, slang_type, self) if slang_type is not None else None

    # ----- functions -----

    def targets(self, path: tuple[str, ...]) -> list[tuple[Target, symbols.Function | None]]:
        """Return the overloads of a function; see `FunctionSource`."""
        version = self.version()
        try:
            return self._found(version, path)
        except RuntimeError as error:
            if "invalidated" not in str(error):
                raise
            raise DeviceError(
                f"the device that {self.shown} was compiled for is closed",
                hint="`%slang reset` opens it again and compiles every cell there; tensors made before are gone",
            ) from error

    def _found(
        self, version: Version[Program], path: tuple[str, ...]
    ) -> list[tuple[Target, symbols.Function | None]]:
        if len(path) == 2:
            return [self._method(version, *path)]
        doors = version.program.doors.get(path[0])
        if doors:
            return [self._target(version, path, door.name, door.function) for door in doors]
        declared = next((f for f in version.program.outline.functions if f.qualified == path[0]), None)
        return [self._target(version, path, path[0], declared)]

    def _target(
        self, version: Version[Program], path: tuple[str, ...], name: str, declared: symbols.Function | None
    ) -> tuple[Target, symbols.Function | None]:
        module = version.program.module
        node = module.find_function(name)
        if node is None:
            raise SlangLabError(
                f"{self.shown} no longer has a function {path[0]}",
                hint=f"it declares {', '.join(self.names()) or 'nothing'}",
            )
        if node.name != name:
            # slangpy names a static method after whichever look-up came first, `st` or `S::st`; only the latter compiles
            node._name = name
            node.slangpy_signature = f"{name}\n{node._options}"
        door = name != path[0]
        return self._made(version, node, ".".join((self.shown, *path)), declared, door), declared

    def _method(
        self, version: Version[Program], struct: str, name: str
    ) -> tuple[Target, symbols.Function | None]:
        program = version.program
        qualified = f"{struct}::{name}"
        declared = next((f for f in program.outline.functions if f.qualified == qualified), None)
        if declared is not None and declared.static:
            # slangpy writes a bare name for a static method; under its full name it is a function like any other
            return self._target(version, (qualified,), qualified, declared)
        slang_type = program.module.layout.find_type_by_name(struct)
        plain = spy.Struct(program.module, slang_type) if slang_type is not None else None
        node = plain.try_get_child(name) if plain is not None else None
        if node is None:
            raise SlangLabError(f"{self.shown}.{struct} no longer has a method {name}")
        target = self._made(version, node, f"{self.shown}.{struct}.{name}", declared, False)
        function = target.slang_function
        target.this_first = target.checked and not function.static and not function.is_constructor
        return target, declared

    def _defaults(
        self, version: Version[Program], declared: symbols.Function
    ) -> dict[str, Callable[[], Any]]:
        return {
            p.name: partial(self._around.default, version, declared, p)
            for p in declared.parameters
            if p.default is not None
        }

    def _made(
        self, version: Version[Program], node: Any, shown: str, declared: symbols.Function | None, door: bool
    ) -> Target:
        slang_function = node._slang_func
        specs = () if slang_function.is_overloaded else parameters(slang_function)
        if door and declared is not None:
            specs = tuple(replace(s, name=p.name) for s, p in zip(specs, declared.parameters, strict=True))
        defaults = self._defaults(version, declared) if declared is not None else {}
        program = version.program
        called = shown if self.cell.named else shown.removeprefix(f"{self.shown}.")
        return Target(
            called,
            node,
            slang_function,
            specs,
            program.device,
            defaults=defaults,
            by_position=door,
            checked=not slang_function.is_overloaded,
            messages=program.messages,
            after=partial(self._after, program, called) if self._around.prints(self.cell) else None,
            control=self._around.control,
            texts=partial(self._texts, version),
            checker=due.check,
            custom=partial(self._custom, version, declared.qualified) if declared is not None else tuple,
            causes=partial(_causes, version, declared.qualified) if declared is not None else tuple,
            check_always=version.unit.check,
        )

    def _texts(self, version: Version[Program]) -> list[str]:
        """Return the texts that a version was compiled from: its own, and those of the cells and files that it imports."""
        return [v.unit.text for v in self._sources(version)]

    def _custom(self, version: Version[Program], function: str) -> tuple[str, ...]:
        """Return the functions with a derivative of their own that a function is or calls."""
        return custom_rules.reached(
            [(v.unit.text, v.program.outline) for v in self._sources(version)], function
        )

    def _sources(self, version: Version[Program]) -> list[Version[Program]]:
        found, seen, pending = [version], set(), list(version.unit.imported)
        while pending:
            key = pending.pop()
            cell = self._around.cell(key)
            if key in seen or cell is None or cell.good is None:
                continue
            seen.add(key)
            found.append(cell.good)
            pending.extend(cell.good.unit.imported)
        return found

    def _after(self, program: Program, called: str) -> str:
        """Follow a call and return what it printed; raise CallError when a checked index was outside."""
        printed = self._around.finished(program)
        error = outside.error(printed, program.places, called)
        if error is not None:
            raise error
        return printed


class SlangStruct(spy.Struct):  # type: ignore[misc]
    """A struct of a cell: slangpy's own, with methods that go through the engine."""

    def __init__(self, module: spy.Module, slang_type: Any, access: CellAccess) -> None:
        super().__init__(module, slang_type)
        self._access = access
        # Holds nothing of this struct, which holds its module natively, and with it a device.
        self.again: Callable[[], SlangStruct | None] = partial(access._struct, slang_type.full_name)

    def try_get_child(self, name: str) -> Any:
        """Return a method or nested type, or None; slangpy asks this for `S.method` and for instances."""
        child = super().try_get_child(name)
        if child is None:
            qualified = f"{self.full_name}::{name}"
            if not any(f.qualified == qualified and f.static for f in self._access.outline().functions):
                return None
        elif isinstance(child, spy.Struct):
            return SlangStruct(self.module, child.struct, self._access)
        return SlangFunction(self._access, (self.full_name, name), f"{self._access.shown}.{self.name}.{name}")


class SlangModule:
    """The Slang names of a cell as attributes, and nothing else.

    A Slang function called `device`, `name` or `layout` is that function; `module["ns::f"]` finds what is no Python name, and
    `dir(module)` lists what there is. The object follows its cell: after an edit it has the new names.
    """

    __slots__ = ("__access", "__weakref__")

    def __init__(self, access: CellAccess) -> None:
        object.__setattr__(self, "_SlangModule__access", access)

    def __getattr__(self, name: str) -> Any:
        access: CellAccess = object.__getattribute__(self, "_SlangModule__access")
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        found = access.lookup(name)
        if found is None:
            raise _missing(access, name)
        return found

    def __getitem__(self, name: str) -> Any:
        access: CellAccess = object.__getattribute__(self, "_SlangModule__access")
        found = access.item(name)
        if found is None:
            raise _missing(access, name)
        return found

    def __setattr__(self, name: str, value: object) -> None:
        access: CellAccess = object.__getattribute__(self, "_SlangModule__access")
        raise AttributeError(
            f"{access.shown}.{name} cannot be set; uniform globals are set for a call: `{access.shown}.f.set({name}=…)(…)`"
        )

    def __dir__(self) -> list[str]:
        access: CellAccess = object.__getattribute__(self, "_SlangModule__access")
        return [n for a in (access, *access.imported()) for n in a.names()]

    def __repr__(self) -> str:
        access: CellAccess = object.__getattribute__(self, "_SlangModule__access")
        if access.cell.good is None:
            return f"<Slang module {access.shown}: has not compiled>"
        return f"<Slang module {access.shown}, {access.cell.good.description}: {', '.join(access.names())}>"


def cell_of(value: object) -> Cell[Program] | None:
    """Return the cell that a module, function or struct proxy came from; None for anything else."""
    if type(value) is SlangModule:
        access = object.__getattribute__(value, "_SlangModule__access")
        return access.cell  # type: ignore[no-any-return]
    if type(value) is SlangFunction:
        source = value._source
        return source.cell if isinstance(source, CellAccess) else None
    if type(value) is SlangStruct:
        return value._access.cell
    return None


def _causes(version: Version[Program], function: str) -> list[Diagnostic]:
    """Return the traps that the linter sees in a function, its lines as the notebook counts."""
    found = causes(version.program.outline, version.unit.shown, function)
    return [moved(d, version.unit.first_line) for d in found]


def _missing(access: CellAccess, name: str) -> NameNotFoundError:
    known = [n for a in (access, *access.imported()) for n in a.names()]
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean `{near[0]}`?" if near else f"it has {', '.join(known) or 'none'}"
    return NameNotFoundError(f"the cell {access.shown} has no function or type named {name!r}", hint=hint)
