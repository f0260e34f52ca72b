"""From the text of a cell or file to the unit that is compiled: what it imports and includes, and whether that can be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import slangpy as spy

from slanglab.cells.compiler import Program
from slanglab.cells.graph import CellGraph
from slanglab.cells.resolve import FileModule, Resolver
from slanglab.cells.versions import CompileError, Unit
from slanglab.text import source, symbols
from slanglab.text.diagnostics import Diagnostic, SourceText
from slanglab.text.expansion import expansion_problems

__all__ = ["Pasted", "UnitMaker", "moved", "placed"]

_LIBRARIES = (Path(spy.SHADER_PATH), Path(spy.__file__).parent / "shaders")
"""Where slangpy keeps its own Slang: the functional API, and `sgl`."""


@dataclass(frozen=True)
class Pasted:
    """A cleaned text, with what was asked for it.

    Attributes
    ----------
    key : str
        In the graph.
    text : str
    parsed : Outline
    label : str
        Where it stands: "In[5]", or a file's path.
    first_line : int
        The number of its first line in the notebook cell.
    macros : tuple of str
    include : tuple of Path
        Folders to search first.
    bounds, check : bool
    base : Path or None
        The folder of a file, which its imports start from.
    """

    key: str
    text: str
    parsed: symbols.Outline
    label: str
    first_line: int = 1
    macros: tuple[str, ...] = ()
    include: tuple[Path, ...] = ()
    bounds: bool = False
    check: bool = False
    base: Path | None = None


class UnitMaker:
    """Makes units for one graph.

    Parameters
    ----------
    graph : callable
        Return the graph; an imported file becomes a node of it.
    roots : callable
        Return the folders that cells may read files in.
    libraries : sequence of Path
        Where modules lie that the compiler itself finds.
    """

    def __init__(
        self,
        graph: Callable[[], CellGraph[Program]],
        roots: Callable[[], Sequence[Path]],
        libraries: Sequence[Path] = _LIBRARIES,
    ) -> None:
        self._graph = graph
        self._roots = roots
        self._libraries = libraries
        self._library: dict[str, bool] = {}

    def make(self, pasted: Pasted) -> tuple[Unit, list[Diagnostic]]:
        """Return the unit of a text, and what is to be said of it; with an error among that it must not be compiled."""
        resolver = Resolver(tuple(self._roots()), self._importable, self._is_library)
        return self._make(pasted, resolver, ())

    def name_of(self, key: str) -> str:
        """Return a cell as the user knows it."""
        cell = self._graph().get(key)
        return key if cell is None or cell.named else cell.latest.label

    def _make(
        self, pasted: Pasted, resolver: Resolver, chain: tuple[FileModule, ...]
    ) -> tuple[Unit, list[Diagnostic]]:
        first_line = pasted.first_line
        resolved = resolver.resolve(
            pasted.key,
            pasted.text,
            pasted.parsed,
            first_line=first_line,
            base=pasted.base,
            extra=pasted.include,
        )
        found = [moved(d, first_line) for d in resolved.diagnostics]
        for module in resolved.files:
            found.extend(self._run_file(module, resolver, chain))
        found.extend(self._import_problems(pasted.key, pasted.parsed, resolved.imports, first_line))
        found.extend(expansion_problems(resolved.text, pasted.macros, 0 if resolved.included else first_line))
        unit = Unit(
            _without_module_declaration(resolved.text, pasted.parsed),
            tuple(resolved.imports.items()),
            pasted.macros,
            pasted.label,
            pasted.text,
            first_line,
            tuple((f.token, str(f.path), f.text) for f in resolved.included),
            pasted.bounds,
            pasted.check,
        )
        return unit, found

    def _run_file(
        self, module: FileModule, resolver: Resolver, chain: tuple[FileModule, ...]
    ) -> list[Diagnostic]:
        """Bring the graph's node of an imported file up to date; return why it cannot be."""
        if module in chain:
            cycle = " → ".join(m.path.name for m in (*chain[chain.index(module) :], module))
            return [Diagnostic("error", "import-cycle", "these files import each other", cycle)]
        label = str(module.path)
        try:
            raw = module.path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            return [Diagnostic("error", "import-unreadable", f"{label!r} cannot be read: {error}")]
        text, found = source.clean(raw)
        pasted = Pasted(module.key, text, symbols.outline(text), label, base=module.path.parent)
        unit, problems = self._make(pasted, resolver, (*chain, module))
        found.extend(problems)
        if any(d.severity == "error" for d in found):
            shown = SourceText(label, tuple(text.split("\n")))
            return [placed(d, shown) for d in found]
        try:
            self._graph().run(module.key, unit, named=False)
        except CompileError as error:
            return list(error.diagnostics)
        return []

    def _importable(self) -> list[str]:
        return [c.key for c in self._graph() if c.named]

    def _is_library(self, name: str) -> bool:
        known = self._library.get(name)
        if known is None:
            file = f"{name.replace('.', '/')}.slang"
            known = name in ("glsl", "neural") or any((folder / file).is_file() for folder in self._libraries)
            self._library[name] = known
        return known

    def _import_problems(
        self, key: str, parsed: symbols.Outline, imports: dict[str, str], first_line: int
    ) -> list[Diagnostic]:
        """Name cycles, and imports that have no version to stand on."""
        places = {i.name: i for i in parsed.imports}
        found = []
        for written, imported in imports.items():
            at = places.get(written)
            line, column = (at.line + first_line - 1, at.column) if at is not None else (0, 0)
            cycle = self._graph().find_cycle(key, [imported])
            cell = self._graph().get(imported)
            if cycle:
                path = " → ".join(self.name_of(k) for k in cycle)
                found.append(
                    Diagnostic(
                        "error",
                        "import-cycle",
                        "these cells import each other",
                        path,
                        line=line,
                        column=column,
                        end_column=column + len(written),
                        hint="move what both need into a third cell, and import that",
                    )
                )
            elif cell is None or cell.good is None:
                where = cell.latest.label if cell is not None else written
                found.append(
                    Diagnostic(
                        "error",
                        "import-failed",
                        "the imported cell does not compile",
                        f"{written} ({where}) has no version that compiles",
                        line=line,
                        column=column,
                        end_column=column + len(written),
                        hint=f"mend {where} first, then run this cell again",
                    )
                )
        return found


def moved(diagnostic: Diagnostic, first_line: int) -> Diagnostic:
    """Return a message that counts lines from 1 with the notebook cell's own numbers."""
    if not diagnostic.line or diagnostic.cell:
        return diagnostic
    return replace(diagnostic, line=diagnostic.line + first_line - 1)


def placed(diagnostic: Diagnostic, shown: SourceText) -> Diagnostic:
    """Return a message of SlangLab's own with the cell it is about and the lines around it."""
    if diagnostic.cell:
        return diagnostic
    around = diagnostic.source or (shown.around(diagnostic.line) if diagnostic.line else ())
    return replace(diagnostic, cell=shown.cell, source=around)


def _without_module_declaration(text: str, parsed: symbols.Outline) -> str:
    """Blank out `module x;`, which would make everything that is not `public` unreachable; the report says so."""
    declared = parsed.module_declaration
    if declared is None:
        return text
    lines = text.split("\n")
    line = lines[declared.line - 1]
    end = line.find(";", declared.column - 1)
    start = line.rfind("module", 0, declared.column + 6)
    if end >= 0 and start >= 0:
        lines[declared.line - 1] = line[:start] + " " * (end + 1 - start) + line[end + 1 :]
    return "\n".join(lines)
