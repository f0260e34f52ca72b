"""From the text of a cell to a slangpy module, in the one Slang session of a device."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import slangpy as spy

from slanglab.cells.entries import DOORS, Entry, entries
from slanglab.cells.entries import text as doors_text
from slanglab.cells.resolve import MAIN
from slanglab.cells.slang_session import CellModule, SlangSession
from slanglab.cells.source import rewrite_imports
from slanglab.cells.symbols import Outline, outline
from slanglab.cells.versions import CompileError, Unit
from slanglab.log import LogCapture
from slanglab.messages import diagnostics
from slanglab.messages.diagnostics import Diagnostic, SourceText

__all__ = ["Program", "SlangCompiler", "without_version"]

_VERSIONED = re.compile(r"\b(\w+?)__v\d+\b")


@dataclass(frozen=True)
class Program:
    """One compiled version of a cell."""

    module: CellModule
    device: spy.Device
    session: SlangSession
    outline: Outline
    doors: Mapping[str, tuple[Entry, ...]]
    messages: Callable[[str], list[Diagnostic]]
    """Reads the compiler's messages about this and other cells, for kernels that do not compile."""

    def function(self, name: str) -> Any:
        """Return slangpy's reflection of the function called `name` (qualified with `::`), or None."""
        return self.module.layout.find_function_by_name(name)


class SlangCompiler:
    """Compiles units on one device.

    Parameters
    ----------
    device : slangpy.Device
    log : LogCapture
        Where slangpy's warnings arrive; they do not come any other way.
    before : SlangCompiler, optional
        The compiler that this one takes over from, on the same device.
    """

    def __init__(self, device: spy.Device, log: LogCapture, before: SlangCompiler | None = None) -> None:
        self.device = device
        self._log = log
        self._sources: dict[str, SourceText] = dict(before._sources) if before is not None else {}
        self._loaded_as: dict[str, str] = {}
        self.session = SlangSession(device)

    def compile(
        self, internal: str, unit: Unit, renames: Mapping[str, str]
    ) -> tuple[Program, tuple[Diagnostic, ...]]:
        """Compile `unit` under the name `internal`; see `slanglab.cells.graph.Compiler`."""
        mapping = {
            written: self._loaded_as.get(renames[key], renames[key])
            for written, key in unit.imports
            if key in renames
        }
        rewritten = rewrite_imports(unit.text, mapping)
        self._sources[internal] = SourceText(unit.label, tuple(unit.shown.split("\n")), unit.first_line)
        tokens = {MAIN: internal}
        for token, path, text in unit.included:
            tokens[token] = f"{internal}/{token}"
            self._sources[tokens[token]] = SourceText(path, tuple(text.split("\n")), 1)
        body = rewritten.text
        for token, name in tokens.items():
            body = body.replace(f'"{token}"', f'"{name}"')
        parsed = outline(unit.shown)
        about = (
            unit,
            without_version(internal),
            tuple(s.qualified for s in parsed.structs if not s.generics),
        )
        doors = entries(parsed, internal)
        source = f'{_defines(unit.macros)}#line {unit.first_line} "{internal}"\n{body}'
        try:
            module, warnings = self._load(internal, source + doors_text(doors, internal), *about)
        except CompileError as error:
            if not doors or any(not d.generated for d in error.diagnostics if d.severity == "error"):
                raise
            # The cell is right and a door is not: the function is then only what slangpy makes of it.
            doors = {}
            self._loaded_as[internal] = f"{internal}p"
            module, warnings = self._load(f"{internal}p", source, *about)
        else:
            hidden = _hidden(module, parsed, doors)
            if hidden:
                doors = entries(parsed, internal, hidden)
                self._loaded_as[internal] = f"{internal}p"
                module, warnings = self._load(f"{internal}p", source + doors_text(doors, internal), *about)
        return Program(module, self.device, self.session, parsed, doors, self.messages), warnings

    def _load(
        self, name: str, source: str, unit: Unit, cell: str, structs: Sequence[str]
    ) -> tuple[CellModule, tuple[Diagnostic, ...]]:
        earlier = self._log.take()
        try:
            module = self.session.load(name, source, cell, structs)
        except (
            Exception
        ) as error:  # SlangCompileError is no RuntimeError, and a broken session raises RuntimeError
            found = self.messages(str(error)) or [Diagnostic("error", "", str(error).split("\n", 1)[0])]
            raise CompileError(unit.label, found) from error
        finally:
            logged = self._log.take()
            self._log.put_back(earlier)
        text = "\n".join(r.text for r in logged if r.level in ("warn", "error", "fatal"))
        return module, tuple(d for d in self.messages(text) if not d.generated)

    def messages(self, text: str) -> list[Diagnostic]:
        """Read the compiler's messages about any version of any cell."""
        found = diagnostics.parse(text, self._sources.get, without_version)
        return [replace(d, generated=True) if d.cell.endswith(DOORS) else d for d in found]


def _hidden(module: spy.Module, parsed: Outline, doors: Mapping[str, object]) -> frozenset[str]:
    """Return the functions that slangpy takes for overloaded, as Slang itself has others of their name."""
    found = set()
    for function in parsed.functions:
        if function.qualified in doors or function.in_struct or function.generics or function.is_entry_point:
            continue
        reflected = module.layout.find_function_by_name(function.qualified)
        if reflected is not None and reflected.is_overloaded:
            found.add(function.qualified)
    return frozenset(found)


def _defines(macros: Iterable[str]) -> str:
    lines = []
    for macro in macros:
        name, _, value = macro.partition("=")
        lines.append(f"#define {name} {value or '1'}\n")
    return "".join(lines)


def without_version(name: str) -> str:
    """Return a text with the names of versions (`poly__v3`) replaced by those of their cells."""
    return _VERSIONED.sub(r"\1", name)
