"""Compiling a straight kernel, in the Slang session of the function that it calls."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import slangpy as spy

from slanglab import guard
from slanglab.engine.building import Guarded, count_kernel
from slanglab.engine.straight.arguments import Argument, Refusal
from slanglab.engine.straight.launching import Launcher
from slanglab.engine.straight.strategy import Strategy
from slanglab.engine.straight.text import ARGUMENTS, ENTRY, LAST, generate, sums_module
from slanglab.engine.target import Target
from slanglab.guard import Kernel, KernelRefusedError, texts_of
from slanglab.tensors import kernels

__all__ = ["Loaded", "has_double", "load"]

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


def load(target: Target, arguments: Sequence[Argument], strategy: Strategy) -> Loaded:
    """Write and compile the kernel of calls of `target` with such arguments.

    Raises
    ------
    Refusal
        When the compiler does not take it, or the function needs values that only slangpy's call sets.
    KernelRefusedError
        When the compiler crashes on it, or does not finish it.
    """
    module = target.node.module
    session = module.session
    modules = [module.name, *(linked.name for linked in module.link)]
    function = str(target.node.calc_build_info().name)
    kernel = generate(modules, function, arguments, target.backward, strategy)
    # The text says which version of which module it is for: the same name is the same kernel.
    name = f"slanglab/straight-{hashlib.sha256(kernel.text.encode()).hexdigest()}"
    shown = f"{target.name} backward" if target.backward else target.name
    entries = (ENTRY, LAST) if kernel.sums else (ENTRY,)
    try:
        with Guarded(texts_of(session)) as guarded:
            if target.backward:
                text = _sums_text(target.device, strategy.group)
                guard.load(session, sums_module(strategy.group), text)
            programs = [[("kernel", entry)] for entry in entries]
            guarded.submit(Kernel.of(shown, name, kernel.text, module.device_module, programs))
            count_kernel(module)
            loaded = session.load_module_from_source(name, kernel.text)
            main = _linked(target, loaded, ENTRY)
            last = _linked(target, loaded, LAST) if kernel.sums else None
    except (Refusal, KernelRefusedError):  # slangpy's own kernel has the same function in it
        raise
    except Exception as error:  # SlangCompileError is no RuntimeError
        raise Refusal(f"its direct kernel does not compile ({_first_line(error)})") from error
    block = ARGUMENTS if kernel.block else ""
    launchers = [Launcher(k, kernel.fields, block) if k is not None else None for k in (main, last)]
    assert launchers[0] is not None
    return Loaded(launchers[0], launchers[1], strategy, kernel.text)


def _linked(target: Target, loaded: Any, entry: str) -> Any:
    module = target.node.module
    program = module.session.link_program([loaded, module.device_module], [loaded.entry_point(entry)])
    for parameter in program.layout.parameters:
        if parameter.name not in _KNOWN_GLOBALS:
            raise Refusal(f"it reads the uniform {parameter.name}")
    return target.device.create_compute_kernel(program)


def _sums_text(device: Any, group: int) -> str:
    """Return the module with the sums over groups of `group` threads for a device."""
    return f"#define GROUP {group}\n#define DOUBLE {int(has_double(device))}\n" + kernels.source("sums.slang")


def has_double(device: Any) -> bool:
    """Tell whether a device computes in double precision."""
    return bool(device.has_feature(spy.Feature.double))


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if "error[" in line or "error:" in line]
    return lines[0] if lines else (str(error).splitlines() or [type(error).__name__])[0]
