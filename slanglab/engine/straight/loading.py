"""Compiling a straight kernel, in the Slang session of the function that it calls."""

from __future__ import annotations

import hashlib
import secrets
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import slangpy as spy

from slanglab import guard
from slanglab.engine.building import Guarded, count_kernel
from slanglab.engine.straight.arguments import Argument, Refusal
from slanglab.engine.straight.array_text import ArrayWriter
from slanglab.engine.straight.launching import Launcher
from slanglab.engine.straight.strategy import Strategy
from slanglab.engine.straight.table_text import TableWriter
from slanglab.engine.straight.writer import ARGUMENTS, ENTRY, LAST, sums_module
from slanglab.engine.straight.writer import Kernel as Text
from slanglab.engine.target import Target
from slanglab.guard import Kernel, KernelRefusedError, texts_of
from slanglab.tensors import kernels

__all__ = ["Code", "Loaded", "code", "has_double", "load"]

_KNOWN_GLOBALS = frozenset({ARGUMENTS, "g_debug_printer"})
"""Globals that are set here, or by slangpy in every dispatch."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What was compiled.

    Attributes
    ----------
    main : Launcher
    last : Launcher or None
        Adds up the sums of all groups.
    strategy : Strategy
    text : str
        The kernels in Slang.
    """

    main: Launcher
    last: Launcher | None
    strategy: Strategy
    text: str


@dataclass(frozen=True, slots=True)
class Code:
    """What CUDA's driver makes a kernel of.

    Attributes
    ----------
    entry : str
    ptx : bytes
    places : dict of str to int
        Where each argument lies in the kernel's one parameter, in bytes.
    """

    entry: str
    ptx: bytes
    places: dict[str, int]


def load(target: Target, arguments: Sequence[Argument], strategy: Strategy) -> Loaded:
    """Write and compile the kernel of calls of `target` with such arguments.

    Raises
    ------
    Refusal
        When the compiler does not take it, or the function needs values that only slangpy's call sets.
    KernelRefusedError
        When the compiler crashes on it, or does not finish it.
    """
    kernel, loaded = _load(target, arguments, strategy)
    make = target.device.create_compute_kernel
    launchers = [
        Launcher(make(program), kernel.fields, ARGUMENTS if kernel.block else "") for program in loaded
    ]
    return Loaded(launchers[0], launchers[1] if kernel.sums else None, strategy, kernel.text)


def code(target: Target, arguments: Sequence[Argument], strategy: Strategy) -> tuple[Text, list[Code]]:
    """Write the same kernel for CUDA's driver, and compile it to what that takes; see `Strategy.bare`.

    slangpy gives no target code away, but Slang writes what it makes to files when it is told to. It makes none for a kernel in the
    shader cache; the number in this one's text is drawn anew, so that it never is.

    Returns
    -------
    Text
        The kernel.
    list of Code
        Its entry points: the kernel, and the second one of a kernel with sums.

    Raises
    ------
    Refusal
    KernelRefusedError
    """
    kernel, _ = _load(target, arguments, strategy)  # the guard has compiled it when this returns
    module = target.node.module
    text = f"{kernel.text}// {secrets.token_hex(8)}\n"
    made = []
    try:
        count_kernel(module)
        loaded = module.session.load_module_from_source(f"slanglab/bare-{_digest(text)}", text)
        for entry in _entries(kernel):
            with tempfile.TemporaryDirectory(prefix="slanglab-") as folder:
                options = {"dump_intermediates": True, "dump_intermediates_prefix": f"{folder}/"}
                program = _linked(target, loaded, entry, options)
                target.device.create_compute_kernel(program).pipeline  # noqa: B018 - it is compiled when it is asked for
                found = [f.read_bytes() for f in sorted(Path(folder).glob("*.ptx"))]
            if len(found) != 1:
                raise Refusal("the compiler left no PTX")
            made.append(Code(entry, found[0], _places(program)))
    except Refusal:
        raise
    except Exception as error:
        raise Refusal(f"its kernel for CUDA's driver does not compile ({_first_line(error)})") from error
    return kernel, made


def _load(target: Target, arguments: Sequence[Argument], strategy: Strategy) -> tuple[Text, list[Any]]:
    """Write a kernel, and return it with a program for each of its entry points; the guard has compiled them."""
    module = target.node.module
    session = module.session
    modules = [module.name, *(linked.name for linked in module.link)]
    function = str(target.node.calc_build_info().name)
    writer = TableWriter if any(a.kind in ("row", "column") for a in arguments) else ArrayWriter
    kernel = writer(modules, function, arguments, target.backward, strategy).kernel()
    # The text says which version of which module it is for: the same name is the same kernel.
    name = f"slanglab/straight-{_digest(kernel.text)}"
    shown = f"{target.name} backward" if target.backward else target.name
    entries = _entries(kernel)
    try:
        with Guarded(texts_of(session)) as guarded:
            if target.backward:
                text = _sums_text(target.device, strategy.group)
                guard.load(session, sums_module(strategy.group), text)
            programs = [[("kernel", entry)] for entry in entries]
            guarded.submit(Kernel.of(shown, name, kernel.text, module.device_module, programs))
            count_kernel(module)
            loaded = session.load_module_from_source(name, kernel.text)
            linked = [_linked(target, loaded, entry) for entry in entries]
    except (Refusal, KernelRefusedError):  # slangpy's own kernel has the same function in it
        raise
    except Exception as error:  # SlangCompileError is no RuntimeError
        raise Refusal(f"its direct kernel does not compile ({_first_line(error)})") from error
    return kernel, linked


def _entries(kernel: Text) -> tuple[str, ...]:
    return (ENTRY, LAST) if kernel.sums else (ENTRY,)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _linked(target: Target, loaded: Any, entry: str, options: Mapping[str, Any] | None = None) -> Any:
    module = target.node.module
    entries = [loaded.entry_point(entry)]
    program = module.session.link_program([loaded, module.device_module], entries, link_options=options)
    for parameter in program.layout.parameters:
        if parameter.name not in _KNOWN_GLOBALS:
            raise Refusal(f"it reads the uniform {parameter.name}")
    return program


def _places(program: Any) -> dict[str, int]:
    """Return where each argument of the entry point lies in the struct that they are."""
    (found,) = (p for p in program.layout.entry_points[0].parameters if p.name == "sl")
    return {str(field.name): int(field.offset) for field in found.type_layout.fields}


def _sums_text(device: Any, group: int) -> str:
    """Return the module with the sums over groups of `group` threads for a device."""
    return f"#define GROUP {group}\n#define DOUBLE {int(has_double(device))}\n" + kernels.source("sums.slang")


def has_double(device: Any) -> bool:
    """Tell whether a device computes in double precision."""
    return bool(device.has_feature(spy.Feature.double))


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if "error[" in line or "error:" in line]
    return lines[0] if lines else (str(error).splitlines() or [type(error).__name__])[0]
