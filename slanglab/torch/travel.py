"""What goes from a notebook to the processes that it launches: a function of a cell, with all that it uses.

pickle sends functions and classes by name, and a name in a notebook means nothing elsewhere. Here those of the notebook are sent whole:
a function as its code (`marshal`, since both sides are the same Python) with the globals it reads, a class as its bases and its
attributes, a Slang module as the cell it stands for, a `slangpy.Tensor` as its numbers. What can be imported is imported.

Only the notebook's own children read what is written here; bytes from elsewhere must never get there.
"""

from __future__ import annotations

import dataclasses
import dis
import functools
import io
import linecache
import marshal
import pickle
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import slangpy as spy

from slanglab.cells.function import SlangFunction
from slanglab.cells.module import CellAccess, SlangModule, SlangStruct, cell_of
from slanglab.cells.versions import Unit
from slanglab.errors import SlangLabError
from slanglab.scalars import type_name
from slanglab.tensors import create
from slanglab.torch.functions import SlangOperator, function

__all__ = ["Arrival", "Parcel", "TravelError", "pack", "unpack"]


class TravelError(SlangLabError, TypeError):
    """Something that a function uses cannot be sent to another process."""


@dataclass
class Parcel:
    """What is sent.

    Attributes
    ----------
    cells : list of (str, Unit, bool)
        Key, text with what it imports, and whether it has a name; what is imported comes first.
    lines : dict of str to list of str
        The source of code that is in no file, for tracebacks.
    call : bytes
        The pickled function and its arguments.
    """

    cells: list[tuple[str, Unit, bool]]
    lines: dict[str, list[str]]
    call: bytes


def pack(lab: Any, called: Callable[..., Any], arguments: tuple[Any, ...]) -> Parcel:
    """Pack a call.

    Parameters
    ----------
    lab : Lab
        Whose cells the function may use.
    called : callable
    arguments : tuple
        What it is called with, behind the rank.

    Raises
    ------
    TravelError
        Names what cannot be sent.
    """
    buffer = io.BytesIO()
    pickler = _Pickler(buffer)
    try:
        pickler.dump((called, arguments))
    except Exception as error:
        raise _named(called, arguments, error) from error
    return Parcel(_with_imports(lab, pickler.cells), pickler.lines, buffer.getvalue())


def _with_imports(lab: Any, keys: list[str]) -> list[tuple[str, Unit, bool]]:
    """Return the cells, each behind those that it imports."""
    found: dict[str, tuple[str, Unit, bool]] = {}

    def add(key: str) -> None:
        cell = lab.cells.cell(key)
        if key in found or cell is None or cell.standing is None:
            return
        unit = cell.standing.unit
        for imported in unit.imported:
            add(imported)
        found[key] = key, unit, cell.named

    for key in keys:
        add(key)
    return list(found.values())


def _named(called: Callable[..., Any], arguments: tuple[Any, ...], error: Exception) -> TravelError:
    """Return the error that says which of the things that a call uses cannot be sent."""
    name = getattr(called, "__name__", type(called).__name__)
    for place, value in _parts(called, arguments):
        try:
            _Pickler(io.BytesIO()).dump(value)
        except TravelError as why:
            return TravelError(f"{name} cannot be launched: {place}: {why.message}", hint=why.hint)
        except Exception as why:
            return TravelError(
                f"{name} cannot be launched: {place} is a {type(value).__name__}, which cannot be sent to another process ({why})",
                hint=f"make it inside {name}, or pass numbers, arrays, tensors, modules of torch and Slang cells",
            )
    return TravelError(f"{name} cannot be sent to another process: {error}")


def _parts(called: Any, arguments: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    for i, value in enumerate(arguments):
        yield f"argument {i + 1}", value
    if isinstance(called, types.FunctionType):
        for name, value in _globals_of(called).items():
            yield f"its global `{name}`", value
        for name, cell in zip(called.__code__.co_freevars, called.__closure__ or (), strict=True):
            try:
                yield f"`{name}`, which it closes over,", cell.cell_contents
            except ValueError:
                continue


# ----- what code uses -----

_READS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL"})


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _globals_of(function: types.FunctionType) -> dict[str, Any]:
    """Return the globals that a function, and functions in it, name."""
    names: dict[str, None] = {}
    for code in _codes(function.__code__):
        for instruction in dis.get_instructions(code):
            if instruction.opname in _READS:
                names[instruction.argval] = None
    return {name: function.__globals__[name] for name in names if name in function.__globals__}


def _submodules(function: types.FunctionType, used: dict[str, Any]) -> list[str]:
    """Return the modules that are reached as attributes of others (`torch.nn.functional`) and were imported somewhere."""
    words = {name for code in _codes(function.__code__) for name in code.co_names}
    pending = [m.__name__ for m in used.values() if isinstance(m, types.ModuleType)]
    found = []
    while pending:
        for word in words:
            inner = f"{pending[0]}.{word}"
            if inner in sys.modules and inner not in found:
                found.append(inner)
                pending.append(inner)
        pending.pop(0)
    return found


def _importable(value: Any) -> bool:
    """Tell whether a function or class is found in the other process by its name."""
    module = sys.modules.get(getattr(value, "__module__", None) or "")
    if module is None or module.__name__ == "__main__" or getattr(module, "__spec__", None) is None:
        return False
    found: Any = module
    for part in value.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is value


# ----- sending -----


class _Pickler(pickle.Pickler):
    """pickle, and what it does not know.

    Attributes
    ----------
    cells : list of str
        Keys of the cells that were met.
    lines : dict of str to list of str
    """

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.cells: list[str] = []
        self.lines: dict[str, list[str]] = {}

    def reducer_override(self, value: Any) -> Any:
        """Return how a value is made again; pickle calls this for every object."""
        kind = type(value)
        if kind is types.FunctionType:
            return NotImplemented if _importable(value) else self._function(value)
        if kind is types.ModuleType:
            if value.__name__ == "__main__":
                raise TravelError("the module __main__ cannot be sent as a whole")
            return _import, (value.__name__,)
        if kind in (SlangModule, SlangFunction, SlangStruct):
            return self._slang(value)
        if kind in _PARTS_OF_CLASSES:
            return _part(value)
        if isinstance(value, spy.Tensor):
            return _tensor(value)
        if kind is SlangOperator:
            return function, (value.slang,)
        if isinstance(value, (spy.Device, spy.Buffer, spy.Texture, spy.Module)):
            raise TravelError(
                f"a slangpy.{kind.__name__} belongs to this process",
                hint="send numbers or tensors; each process has a device of its own",
            )
        if isinstance(value, type) and not _importable(value) and value.__module__ != "builtins":
            return self._class(value)
        return NotImplemented

    def _function(self, function: types.FunctionType) -> Any:
        code = function.__code__
        for inner in _codes(code):
            known = linecache.cache.get(inner.co_filename)
            if known is not None and len(known) == 4 and inner.co_filename not in self.lines:
                self.lines[inner.co_filename] = list(known[2])
        used = _globals_of(function)
        state = {
            "imports": _submodules(function, used),
            "globals": used,
            "closure": _contents(function),
            "defaults": function.__defaults__,
            "keyword_defaults": function.__kwdefaults__,
            "attributes": dict(function.__dict__),
            "doc": function.__doc__,
            "qualname": function.__qualname__,
        }
        space = id(function.__globals__), str(function.__globals__.get("__name__", ""))
        made = (marshal.dumps(code), function.__name__, space, len(code.co_freevars))
        return _new_function, made, state, None, None, _fill_function

    def _class(self, kind: type) -> Any:
        left_out = {"__dict__", "__weakref__", "__abstractmethods__", "_abc_impl"}
        slots = kind.__dict__.get("__slots__", ())
        left_out |= {slots} if isinstance(slots, str) else set(slots)
        attributes = {name: value for name, value in kind.__dict__.items() if name not in left_out}
        first = {
            name: attributes.pop(name)
            for name in ("__slots__", "__module__", "__doc__")
            if name in attributes
        }
        made = (type(kind), kind.__name__, kind.__qualname__, kind.__bases__, first)
        return _new_class, made, attributes, None, None, _fill_class

    def _slang(self, value: Any) -> Any:
        cell = cell_of(value)
        if cell is None:
            raise TravelError("a Slang function of no cell cannot be sent")
        self.cells.append(cell.key)
        if type(value) is SlangModule:
            return _cell_module, (cell.key,)
        if type(value) is SlangStruct:
            return _cell_struct, (cell.key, value.full_name)
        modifiers: list[tuple[str, Any, Any]] = []
        while value._modifier is not None and value._parent is not None:
            modifiers.insert(0, (value._modifier.name, value._modifier.args, value._modifier.kwargs))
            value = value._parent
        return _cell_function, (cell.key, value._path, value._shown, tuple(modifiers))


_PARTS_OF_CLASSES = (
    property,
    staticmethod,
    classmethod,
    functools.cached_property,
    types.MappingProxyType,
    type(dataclasses.MISSING),
    dataclasses._FIELD_BASE,  # type: ignore[attr-defined]
)


def _part(value: Any) -> Any:
    """Return how something that stands in classes is made again; pickle knows none of these."""
    if isinstance(value, property):
        return property, (value.fget, value.fset, value.fdel, value.__doc__)
    if isinstance(value, (staticmethod, classmethod)):
        return type(value), (value.__func__,)
    if isinstance(value, functools.cached_property):
        return _new_cached_property, (value.func, value.attrname)
    if isinstance(value, types.MappingProxyType):
        return types.MappingProxyType, (dict(value),)
    # What dataclasses know by its identity.
    name = "MISSING" if value is dataclasses.MISSING else value.name
    return getattr, (dataclasses, name)


def _new_cached_property(function: Callable[..., Any], name: str | None) -> Any:
    made: Any = functools.cached_property(function)
    made.attrname = name
    return made


def _contents(function: types.FunctionType) -> list[tuple[bool, Any]]:
    found: list[tuple[bool, Any]] = []
    for cell in function.__closure__ or ():
        try:
            found.append((True, cell.cell_contents))
        except ValueError:
            found.append((False, None))
    return found


def _tensor(tensor: Any) -> Any:
    element = type_name(str(tensor.dtype.full_name))
    array = tensor.to_numpy()
    if tensor.dtype.shape.as_tuple() == () and array.dtype == np.uint8 and element != "uint8_t":
        raise TravelError(
            f"a slangpy.Tensor of {element} cannot be sent: its elements are structs",
            hint="send tensors of numbers, and make structs of them there",
        )
    gradient = tensor.grad_out if tensor.grad_out is not None else tensor.grad_in
    return _new_tensor, (array, element, None if gradient is None else gradient.to_numpy())


# ----- arriving -----


@dataclass
class Arrival:
    """The cells that came with a parcel, compiled here.

    Attributes
    ----------
    accesses : dict of str to CellAccess
        By key.
    spaces : dict of (int, str) to dict
        Namespaces of functions, by those that they came from.
    """

    accesses: dict[str, CellAccess] = field(default_factory=dict)
    spaces: dict[tuple[int, str], dict[str, Any]] = field(default_factory=dict)


_arrival = Arrival()


def unpack(lab: Any, parcel: Parcel) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Compile the cells of a parcel in a lab, and return the function and its arguments."""
    for name, lines in parcel.lines.items():
        linecache.cache[name] = (sum(map(len, lines)), None, lines, name)
    for key, unit, named in parcel.cells:
        cell = lab.cells.graph.run(key, unit, named=named).cell
        _arrival.accesses[key] = lab.cells.access(cell)
    found: tuple[Callable[..., Any], tuple[Any, ...]] = pickle.loads(parcel.call)  # noqa: S301  (from our parent)
    return found


def _import(name: str) -> types.ModuleType:
    __import__(name)
    return sys.modules[name]


def _new_function(code: bytes, name: str, space: tuple[int, str], cells: int) -> types.FunctionType:
    namespace = _arrival.spaces.get(space)
    if namespace is None:
        namespace = _arrival.spaces[space] = {"__builtins__": __builtins__, "__name__": space[1]}
    closure = tuple(types.CellType() for _ in range(cells))
    return types.FunctionType(marshal.loads(code), namespace, name, None, closure)  # noqa: S302  (from our parent)


def _fill_function(function: types.FunctionType, state: dict[str, Any]) -> None:
    for name in state["imports"]:
        _import(name)
    function.__globals__.update(state["globals"])
    for cell, (filled, value) in zip(function.__closure__ or (), state["closure"], strict=True):
        if filled:
            cell.cell_contents = value
    function.__defaults__, function.__kwdefaults__ = state["defaults"], state["keyword_defaults"]
    function.__dict__.update(state["attributes"])
    function.__doc__, function.__qualname__ = state["doc"], state["qualname"]


def _new_class(meta: Any, name: str, qualname: str, bases: tuple[type, ...], first: dict[str, Any]) -> type:
    made: type = types.new_class(name, bases, {"metaclass": meta}, lambda space: space.update(first))
    made.__qualname__ = qualname
    return made


def _fill_class(kind: type, attributes: dict[str, Any]) -> None:
    for name, value in attributes.items():
        setattr(kind, name, value)


def _access(key: str) -> CellAccess:
    return _arrival.accesses[key]


def _cell_module(key: str) -> SlangModule:
    return SlangModule(_access(key))


def _cell_struct(key: str, name: str) -> Any:
    return _access(key)._struct(name)


def _cell_function(
    key: str, path: tuple[str, ...], shown: str, modifiers: tuple[tuple[str, Any, Any], ...]
) -> SlangFunction:
    function = SlangFunction(_access(key), path, shown)
    for name, args, kwargs in modifiers:
        function = function._modified(name, *args, **dict(kwargs))
    return function


def _new_tensor(array: np.ndarray[Any, Any], element: str, gradient: np.ndarray[Any, Any] | None) -> Any:
    made = create.tensor(array, dtype=element, grad=gradient is not None)
    if gradient is not None and gradient.size:
        create.assign(made.grad, gradient)
    return made
