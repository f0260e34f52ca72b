"""What `%slang WORD` does."""

from __future__ import annotations

import difflib
import importlib.metadata
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from IPython.core.error import UsageError
from IPython.display import display

from slanglab import __version__, caches
from slanglab import device as devices
from slanglab.errors import SlangLabError
from slanglab.settings import KEYS
from slanglab.widgets import code as code_view

if TYPE_CHECKING:
    from slanglab.cells.versions import Cell, CompileError
    from slanglab.lab import Lab
    from slanglab.torch.entry_points.compiler import TorchProgram

__all__ = ["run"]


def run(lab: Lab, line: str) -> None:
    """Run one line command.

    Raises
    ------
    UsageError
        For a word that is none of them.
    """
    words = line.split()
    if not words:
        print(_overview(lab))
        return
    command = _COMMANDS.get(words[0])
    if command is None:
        near = difflib.get_close_matches(words[0], _COMMANDS, n=1)
        hint = f"did you mean `%slang {near[0]}`?" if near else f"there are {', '.join(_COMMANDS)}"
        raise UsageError(f"%slang: there is no command {words[0]!r}; {hint}")
    command(lab, words[1:], line)


def _overview(lab: Lab) -> str:
    modules, shaders = devices.caches()
    device = devices.describe(lab.device) if lab.is_open else "none open yet; the first cell opens one"
    named = [c for c in lab.cells.cells() if c.named]
    unnamed = sum(not c.named for c in lab.cells.cells())
    cells = ", ".join(c.key for c in named) or "none"
    if unnamed:
        cells += f" and {unnamed} without a name"
    if for_torch := lab.torch_cells.cells():
        names = ", ".join(c.key if c.named else c.latest.label for c in for_torch)
        cells = f"{cells}; for PyTorch: {names}"
    rows = [
        ("slanglab", __version__),
        ("slangpy", importlib.metadata.version("slangpy")),
        ("device", device),
        ("module cache", str(modules or "done without")),
        ("shader cache", f"{shaders}{_cache_use(lab)}" if shaders else "done without"),
        ("modules", cells),
    ]
    rows.extend(("caches", note) for note in caches.report())
    rows.extend(("settings", problem) for problem in lab.settings.problems)
    return "\n".join(f"{label:<13} {value}" for label, value in rows)


def _cache_use(lab: Lab) -> str:
    if not lab.is_open:
        return ""
    try:
        stats = lab.device.shader_cache_stats
    except RuntimeError as error:  # the cache counts its readers, and killed processes leave theirs behind
        return f" (not readable now: {str(error).splitlines()[0]})"
    return f" ({stats.hit_count} hits, {stats.miss_count} misses in this session)"


def _device(lab: Lab, words: list[str], _line: str) -> None:
    if not words:
        print(devices.describe(lab.device))
    elif words == ["list"]:
        current = lab.device.info.type.name if lab.is_open else None
        for name in devices.BACKENDS:
            print(f"{'*' if name == current else ' '} {name:<7} {_answer(lab, name, current)}")
    elif len(words) == 1:
        failures = lab.switch_device(words[0])
        print(f"{devices.describe(lab.device)}; {_recompiled(lab, failures)}")
    else:
        raise UsageError("%slang device: give one name, `list`, or nothing")


def _answer(lab: Lab, name: str, current: str | None) -> str:
    if name == current:
        return devices.describe(lab.device)
    return devices.probe(name)


def _recompiled(lab: Lab, failures: list[tuple[str, CompileError]]) -> str:
    count = sum(c.good is not None for c in lab.cells.cells())
    text = f"{count} cell{'' if count == 1 else 's'} compiled there"
    for name, error in failures:
        text += f"\n{name} does not compile on this device: {error.message}"
    return text


def _modules(lab: Lab, words: list[str], _line: str) -> None:
    if words:
        raise UsageError("%slang modules takes no arguments")
    cells = lab.cells.cells()
    if not cells and not lab.torch_cells.cells():
        print("no cells yet; start one with `%%slang NAME`")
        return
    rows = [("module", "version", "state", "imports", "declares")]
    for cell in cells:
        good = cell.good
        names = lab.cells.access(cell).names() if good is not None else []
        because = lab.cells.stale_because(cell)
        state = "good" if not because else "stale" if good is not None else "does not compile"
        rows.append(
            (
                cell.key if cell.named else cell.latest.label,
                f"{good.number}, {good.description}" if good is not None else "none",
                state,
                ", ".join(written for written, _ in good.unit.imports) if good is not None else "",
                ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else ""),
            )
        )
    rows.extend(_torch_row(lab, cell) for cell in lab.torch_cells.cells())
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def _torch_row(lab: Lab, cell: Cell[TorchProgram]) -> tuple[str, str, str, str, str]:
    good = cell.good
    because = lab.torch_cells.stale_because(cell)
    state = "good" if not because else "stale" if good is not None else "does not compile"
    if good is not None and good.program.library is None:
        state += ", not built"
    names = lab.torch_cells.access(cell).names() if good is not None else []
    return (
        cell.key if cell.named else cell.latest.label,
        f"{good.number}, {good.description}" if good is not None else "none",
        f"{state} (--torch)",
        ", ".join(written for written, _ in good.unit.imports) if good is not None else "",
        ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else ""),
    )


def _code(lab: Lab, words: list[str], line: str) -> None:
    found = {c.key if c.named else c.latest.label: c for c in lab.torch_cells.cells() if c.good is not None}
    if not words:
        raise UsageError("%slang code takes the name of one --torch cell")
    name = line.split(None, 1)[1].strip()  # a file's path may hold spaces
    cell = found.get(name)
    if cell is None or cell.good is None:
        hint = f"there are {', '.join(found)}" if found else "start one with `%%slang --torch NAME`"
        raise SlangLabError(f"there is no --torch cell called {name!r} that compiles", hint=hint)
    code = replace(cell.good.program.generated, name=name)
    display({"text/html": code_view.html(code), "text/plain": code_view.text(code)}, raw=True)  # type: ignore[no-untyped-call]


def _config(lab: Lab, words: list[str], line: str) -> None:
    if not words:
        for name, key in KEYS.items():
            print(f"{name:<9} {lab.settings[name] or '(none)':<10} {key.doc}")
    elif len(words) == 1:
        print(lab.settings[words[0]] or "(none)")
    else:
        value = line.split(None, 2)[2].strip()  # a folder's name may hold spaces
        lab.configure(words[0], value)
        print(f"{words[0]} = {lab.settings[words[0]]}")


def _reset(lab: Lab, words: list[str], _line: str) -> None:
    if words:
        raise UsageError("%slang reset takes no arguments")
    if not lab.is_open:
        print("no device is open, so there is nothing to reset")
        return
    failures = lab.reset()
    print(
        f"{devices.describe(lab.device)}, opened again; tensors made before are gone; {_recompiled(lab, failures)}"
    )


def _forget(lab: Lab, words: list[str], _line: str) -> None:
    if len(words) != 1:
        raise UsageError("%slang forget takes the name of one module")
    if not lab.cells.forget(words[0]) and not lab.torch_cells.forget(words[0]):
        raise SlangLabError(f"there is no module called {words[0]!r}", hint="`%slang modules` lists them")
    print(f"{words[0]} can no longer be imported; functions of it that you hold go on running")


_COMMANDS: dict[str, Callable[[Lab, list[str], str], None]] = {
    "device": _device,
    "modules": _modules,
    "code": _code,
    "config": _config,
    "reset": _reset,
    "forget": _forget,
}
