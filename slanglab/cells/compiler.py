"""From the text of a cell to a slangpy module, in the one Slang session of a device."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import slangpy as spy

from slanglab import progress
from slanglab.cells.entries import DOORS, Entry, entries
from slanglab.cells.entries import text as doors_text
from slanglab.cells.prepare import Lines, Prepared, prepare
from slanglab.cells.resolve import MAIN
from slanglab.cells.slang_session import CellModule, SlangSession
from slanglab.cells.versions import CompileError, Unit
from slanglab.engine.outside import Place
from slanglab.log import LogCapture
from slanglab.tensors import kernels
from slanglab.text import bounds, diagnostics
from slanglab.text.diagnostics import Diagnostic, SourceText
from slanglab.text.symbols import Outline, outline

__all__ = ["Program", "SlangCompiler", "defines", "without_version"]

_LONG = 10_000
"""Characters of a cell that is shown while it is compiled from the first moment: some 0.15 s, with the interpreter's lock held."""

_VERSIONED = re.compile(r"\b(\w+?)__v\d+[a-z]*\b")


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
    places: Mapping[int, Place]
    """Where the checked indices of all cells of the session stand, by their number in the printed reports."""

    def function(self, name: str) -> Any:
        """Return slangpy's reflection of the function called `name` (qualified with `::`), or None."""
        return self.module.layout.find_function_by_name(name)


@dataclass(frozen=True)
class _Built:
    module: CellModule
    warnings: tuple[Diagnostic, ...]
    doors: Mapping[str, tuple[Entry, ...]]


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
        self._places: dict[int, Place] = before._places if before is not None else {}
        self._loaded_as: dict[str, str] = {}
        self.session = SlangSession(device)

    def compile(
        self, internal: str, unit: Unit, renames: Mapping[str, str]
    ) -> tuple[Program, tuple[Diagnostic, ...]]:
        """Compile `unit` under the name `internal`; see `slanglab.cells.graph.Compiler`."""
        with progress.work(f"compiling {unit.label}", stoppable=False, at_once=len(unit.shown) > _LONG):
            return self._compile(internal, unit, renames)

    def _compile(
        self, internal: str, unit: Unit, renames: Mapping[str, str]
    ) -> tuple[Program, tuple[Diagnostic, ...]]:
        mapping = {
            written: self._loaded_as.get(renames[key], renames[key])
            for written, key in unit.imports
            if key in renames
        }
        files = self._files(internal, unit)
        sources = {token: self._sources[name] for token, name in files.items()}
        parsed = outline(unit.shown)

        def prepared_for(leave: frozenset[tuple[str, int]] | None) -> Prepared:
            return prepare(unit, parsed, mapping, sources, len(self._places), leave=leave)

        def built_as(suffix: str, prepared: Prepared) -> _Built:
            return self._build(internal, f"{internal}{suffix}", unit, parsed, files, prepared)

        prepared = prepared_for(frozenset())
        try:
            built = built_as("", prepared)
        except CompileError as error:
            if not prepared.touched:
                raise
            # A mistake is told in the user's own text. Where that compiles, it is a check or a conversion that does not.
            prepared = prepared_for(None)
            built = built_as("u", prepared)
            wrong = {
                (token, d.line) for d in error.diagnostics for token in files if d.cell == sources[token].cell
            }
            partly = prepared_for(frozenset(wrong))
            try:
                built, prepared = built_as("v", partly), partly
            except CompileError:
                if unit.bounds:
                    prepared = replace(prepared, diagnostics=(_unchecked(unit),))
        self._places.update(prepared.places)
        program = Program(
            built.module, self.device, self.session, parsed, built.doors, self.messages, self._places
        )
        return program, (*prepared.diagnostics, *built.warnings)

    def _files(self, internal: str, unit: Unit) -> dict[str, str]:
        """Note the texts of a unit, for messages; return the compiler's name of each by its name in `#line`."""
        self._sources[internal] = SourceText(unit.label, tuple(unit.shown.split("\n")), unit.first_line)
        files = {MAIN: internal}
        for token, path, text in unit.included:
            files[token] = f"{internal}/{token}"
            self._sources[files[token]] = SourceText(path, tuple(text.split("\n")), 1)
        return files

    def _build(
        self,
        internal: str,
        name: str,
        unit: Unit,
        parsed: Outline,
        files: Mapping[str, str],
        prepared: Prepared,
    ) -> _Built:
        """Load a prepared text as `name`, with what slangpy needs to call its functions."""
        lines = Lines(unit)
        body = prepared.rewritten.text
        for token, file in files.items():
            columns = lines.columns(prepared.rewritten.columns, token)
            self._sources[file] = replace(self._sources[file], original=columns.original)
            body = body.replace(f'"{token}"', f'"{file}"')
        about = (
            unit,
            without_version(internal),
            tuple(s.qualified for s in parsed.structs if not s.generics),
        )
        doors = entries(parsed, internal)
        source = f'{defines(unit.macros)}#line {unit.first_line} "{internal}"\n{body}'
        end = ""
        if prepared.checked:
            self.session.provide(bounds.MODULE, kernels.source("bounds.slang"))
            end = f'\n#line 1 "{internal}{DOORS}"\nimport {bounds.MODULE};\n'
        loaded_as = name
        try:
            module, warnings = self._load(name, source + doors_text(doors, internal) + end, *about)
        except CompileError as error:
            if not doors or any(not d.generated for d in error.diagnostics if d.severity == "error"):
                raise
            # The cell is right and a door is not: the function is then only what slangpy makes of it.
            doors = {}
            loaded_as = f"{name}p"
            module, warnings = self._load(loaded_as, source + end, *about)
        else:
            hidden = _hidden(module, parsed, doors)
            if hidden:
                doors = entries(parsed, internal, hidden)
                loaded_as = f"{name}p"
                module, warnings = self._load(loaded_as, source + doors_text(doors, internal) + end, *about)
        self._loaded_as[internal] = loaded_as
        return _Built(module, warnings, doors)

    def _load(
        self, name: str, source: str, unit: Unit, cell: str, structs: Sequence[str]
    ) -> tuple[CellModule, tuple[Diagnostic, ...]]:
        earlier = self._log.take()
        try:
            module = self.session.load(name, source, cell, structs)
        except Exception as error:
            # SlangCompileError is no RuntimeError, and a broken session raises RuntimeError
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


def _unchecked(unit: Unit) -> Diagnostic:
    return Diagnostic(
        "warning",
        "unchecked-index",
        "no index is checked",
        "the compiler takes this cell without checks of its indices, but not with them",
        cell=unit.label,
    )


def defines(macros: Iterable[str]) -> str:
    """Return the lines that define macros, given as `NAME` or `NAME=VALUE`."""
    lines = []
    for macro in macros:
        name, _, value = macro.partition("=")
        lines.append(f"#define {name} {value or '1'}\n")
    return "".join(lines)


def without_version(name: str) -> str:
    """Return a text with the names of versions (`poly__v3`) replaced by those of their cells."""
    return _VERSIONED.sub(r"\1", name)
