"""The `--torch` cells of one process: from a text to a module proxy and a report, as `slanglab.cells.session` is for ordinary ones."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from slanglab.cells.graph import CellGraph
from slanglab.cells.report import CellReport
from slanglab.cells.resolve import file_key
from slanglab.cells.session import Request
from slanglab.cells.units import Pasted, UnitMaker, placed
from slanglab.cells.unnamed import Unnamed
from slanglab.cells.versions import Cell, CompileError, Outcome, Unit
from slanglab.errors import SlangLabError
from slanglab.text import source, symbols
from slanglab.text.diagnostics import Diagnostic, SourceText
from slanglab.text.lint import lint
from slanglab.torch.entry_points import machine
from slanglab.torch.entry_points.compiler import TorchCompiler, TorchProgram
from slanglab.torch.entry_points.generated import Generated
from slanglab.torch.entry_points.messages import shifted
from slanglab.torch.entry_points.proxies import TorchAccess, TorchFunction, TorchModule, generated_of
from slanglab.torch.entry_points.reporting import notes, rows

__all__ = ["TorchCells", "TorchRan", "current_cells", "generated", "load", "provide_cells"]

_LIBRARY_HINT = (
    "a `--torch` cell is compiled for CUDA alone and has no `slangpy`, `sgl` or SlangLab modules; move what both need into a cell of "
    "plain Slang and import that"
)


@dataclass(frozen=True)
class TorchRan:
    """What a run gave: the report, and access to the names."""

    report: CellReport
    access: TorchAccess
    module: TorchModule


class TorchCells:
    """All `--torch` cells.

    Parameters
    ----------
    roots : callable
        Return the folders that cells may read files in.
    ordinary : callable
        Return the ordinary cell called by a name, or None: its text may be imported.
    """

    def __init__(
        self,
        roots: Callable[[], Sequence[Path]],
        ordinary: Callable[[str], Cell[Any] | None] = lambda _: None,
    ) -> None:
        self._graph: CellGraph[TorchProgram] = CellGraph(TorchCompiler())
        self._ordinary = ordinary
        self._borrowed: set[str] = set()
        self._first: dict[str, int] = {}
        """The number of the first line of each text, by its label."""
        self._roots = roots
        self._unnamed = Unnamed()

    # ----- looking -----

    def cells(self) -> list[Cell[TorchProgram]]:
        """Return the cells, in the order of their first run; those that were borrowed from ordinary cells left out."""
        return [c for c in self._graph if c.key not in self._borrowed]

    def cell(self, name: str) -> Cell[TorchProgram] | None:
        """Return the cell called by a name, or None."""
        return self._graph.get(name) if name not in self._borrowed else None

    def access(self, cell: Cell[TorchProgram]) -> TorchAccess:
        """Return access to the names of a cell."""
        return TorchAccess(cell, cell.key if cell.named else cell.latest.label)

    def stale_because(self, cell: Cell[TorchProgram]) -> list[Cell[TorchProgram]]:
        """Return the cells whose failures make `cell` stale."""
        return self._graph.stale_because(cell)

    def forget(self, name: str) -> bool:
        """Remove a cell; tell whether there was one. Functions of it that are held go on running."""
        return self.cell(name) is not None and self._graph.forget(name) is not None

    # ----- running a cell -----

    def run(self, request: Request, file: Path | None = None) -> TorchRan:
        """Run a cell.

        Parameters
        ----------
        request : Request
        file : Path, optional
            The file that the text is of.

        Raises
        ------
        CompileError
            When it does not compile or cannot be built; the error carries a report, with the version that still runs.
        """
        started = time.perf_counter()
        name = request.name
        if name is not None and (problem := source.valid_name(name)) is not None:
            raise SlangLabError(problem, hint="for example `%%slang --torch square`")
        if request.bounds or request.check:
            raise SlangLabError(
                "--bounds and --check are for ordinary cells: a `--torch` cell launches its kernels itself",
                hint="`torch.autograd.gradcheck` compares the gradients of a pair with difference quotients",
            )
        label = request.label or name or "the cell"
        text, complaints = source.clean(request.text)
        parsed = symbols.outline(text)
        key = name or (file_key(file) if file is not None else "")
        key = key or self._unnamed.key(request.identity, (f.qualified for f in parsed.functions))
        shown = SourceText(label, tuple(text.split("\n")))
        try:
            if any(d.severity == "error" for d in complaints):
                raise self._refused(key, request, text, label, complaints)
            complaints = [*complaints, *(d for i in parsed.imports for d in self._borrow(i.name))]
            if any(d.severity == "error" for d in complaints):
                raise self._refused(key, request, text, label, complaints)
            unit, found = self._unit(
                key, request, text, parsed, label, file.parent if file is not None else None
            )
            complaints = [*complaints, *found]
            if any(d.severity == "error" for d in found):
                raise self._refused(key, request, text, label, complaints)
            outcome = self._graph.run(key, unit, named=name is not None, because=self._can_be_built(key))
        except CompileError as error:
            told = (
                error.diagnostics
                if set(complaints) & set(error.diagnostics)
                else (*complaints, *error.diagnostics)
            )
            raise self._reported(
                CompileError(name or label, self._told(told, shown, request)), key, started
            ) from error
        return self._ran(outcome, request, [*complaints, *lint(parsed, text, "cuda")], shown, started)

    def load(self, path: Path, macros: Sequence[str] = ()) -> TorchModule:
        """Compile a file; see `slanglab.torch.load`."""
        path = path.expanduser().resolve()
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SlangLabError(f"{str(path)!r} cannot be read: {error}") from error
        return self.run(Request(text, label=str(path), macros=tuple(macros)), path).module

    def _can_be_built(self, key: str) -> str:
        """Say why a cell that was not built is to be compiled again: what was missing is there now."""
        cell = self._graph.get(key)
        program = cell.good.program if cell is not None and cell.good is not None else None
        return (
            "it can be built now" if program is not None and program.missing and not machine.missing() else ""
        )

    def _unit(
        self, key: str, request: Request, text: str, parsed: symbols.Outline, label: str, base: Path | None
    ) -> tuple[Unit, list[Diagnostic]]:
        def roots() -> Sequence[Path]:
            return [*([base] if base is not None else []), *self._roots()]

        units = UnitMaker(cast(Any, lambda: self._graph), roots, libraries=())
        pasted = Pasted(key, text, parsed, label, 1, request.macros, request.include, base=base)
        unit, found = units.make(pasted)
        found = [
            d.with_hint(_LIBRARY_HINT) if d.code == "unknown-import" and _is_of_slangpy(d) else d
            for d in found
        ]
        return unit, found

    def _borrow(self, key: str, chain: tuple[str, ...] = ()) -> list[Diagnostic]:
        """Bring an ordinary cell that a text imports into the graph, with what it imports itself: plain Slang serves both.

        Returns
        -------
        list of Diagnostic
            Why it does not compile for CUDA.
        """
        known = self._graph.get(key)
        if key in chain or (known is not None and key not in self._borrowed):
            return []
        cell = self._ordinary(key)
        standing = cell.standing if cell is not None else None
        if cell is None or standing is None:
            if key in self._borrowed:
                self._borrowed.discard(key)
                self._graph.forget(key)
            return []
        found = [d for _, other in standing.unit.imports for d in self._borrow(other, (*chain, key))]
        unit = replace(
            standing.unit, first_line=1, text=_from_line_one(standing.unit), bounds=False, check=False
        )
        self._borrowed.add(key)
        self._first[unit.label] = standing.unit.first_line
        try:
            self._graph.run(key, unit, named=cell.named)
        except CompileError as error:
            found += [d.with_hint(_LIBRARY_HINT) if _is_of_slangpy(d) else d for d in error.diagnostics]
        return found

    def _refused(
        self, key: str, request: Request, text: str, label: str, found: Iterable[Diagnostic]
    ) -> CompileError:
        unit = Unit(text, label=label, shown=text, macros=request.macros)
        self._graph.refuse(key, unit, found, named=request.name is not None)
        return CompileError(request.name or label, found)

    # ----- saying what happened -----

    def _told(self, found: Iterable[Diagnostic], shown: SourceText, request: Request) -> list[Diagnostic]:
        """Return messages with their places, in the numbers of the notebook."""
        self._first[shown.cell] = request.first_line
        return [shifted(placed(d, shown), self._first) for d in found]

    def _reported(self, error: CompileError, key: str, started: float) -> CompileError:
        cell = self._graph.get(key)
        good = cell.good if cell is not None else None
        stale = [
            self._name(c) for c in self.cells() if c is not cell and cell in self._graph.stale_because(c)
        ]
        error.report = CellReport(
            name=error.name,
            state="failed",
            milliseconds=(time.perf_counter() - started) * 1e3,
            diagnostics=error.diagnostics,
            gone_stale=tuple(stale),
            runs_version=good.description if good is not None else "",
        )
        return error

    def _name(self, cell: Cell[TorchProgram]) -> str:
        return cell.key if cell.named else cell.latest.label

    def _ran(
        self,
        outcome: Outcome[TorchProgram],
        request: Request,
        found: list[Diagnostic],
        shown: SourceText,
        started: float,
    ) -> TorchRan:
        cell = outcome.cell
        version = cell.good
        assert version is not None
        program = version.program
        access = self.access(cell)
        messages = [*found, *version.warnings, *notes(program)]
        failed = [c for c in self._graph.stale_because(cell) if c is not cell]
        report = CellReport(
            name=request.name or shown.cell,
            state="stale" if failed else "compiled" if outcome.compiled else "unchanged",
            device="CUDA, for PyTorch" if program.library is not None else "to CUDA text, not built",
            milliseconds=(time.perf_counter() - started) * 1e3,
            functions=tuple(rows(program)),
            imports=tuple(self._name(c) for c in failed)
            or tuple(written for written, _ in version.unit.imports),
            reason=outcome.reason or "nothing changed",
            recompiled=tuple(self._name(c) for c in outcome.recompiled if c.key not in self._borrowed),
            gone_stale=tuple(self._name(c) for c in outcome.gone_stale if c.key not in self._borrowed),
            diagnostics=tuple(self._told(messages, shown, request)),
            runs_version=version.description if failed else "",
        )
        return TorchRan(report, access, TorchModule(access))


def _from_line_one(unit: Unit) -> str:
    """Return a unit's text with the `#line` behind its includes counting from 1, as in every text here."""
    if not unit.included or unit.first_line == 1:
        return unit.text
    from slanglab.cells.prepare import Lines
    from slanglab.cells.resolve import MAIN

    lines = Lines(replace(unit, first_line=1))
    out = []
    by = unit.first_line - 1
    for number, line in enumerate(unit.text.split("\n"), 1):
        mark = line.startswith("#line ") and line.endswith(f'"{MAIN}"') and lines.place(number)[0] != MAIN
        out.append(f'#line {int(line.split()[1]) - by} "{MAIN}"' if mark else line)
    return "\n".join(out)


def _is_of_slangpy(diagnostic: Diagnostic) -> bool:
    said = diagnostic.text or diagnostic.title
    return any(f"'{word}" in said for word in ("slangpy", "sgl", "slanglab"))


_provider: Callable[[], TorchCells] | None = None


def provide_cells(provider: Callable[[], TorchCells]) -> None:
    """Say where `current_cells` gets them; the lab does."""
    global _provider
    _provider = provider


def current_cells() -> TorchCells:
    """Return the `--torch` cells of the kernel's lab."""
    if _provider is None:
        importlib.import_module("slanglab.lab")  # registers itself
    assert _provider is not None
    return _provider()


def load(path: str | os.PathLike[str], defines: Mapping[str, object] | None = None) -> TorchModule:
    """Compile a file in the style of slang-torch; `slangtorch.loadModule` with messages, and with pairs as one function.

    Parameters
    ----------
    path : path-like
        A `.slang` file. It may import and include files of its folder, of the current folder and of those that
        `%slang config include` opened, and other `--torch` cells.
    defines : mapping of str to object, optional
        Preprocessor macros.

    Returns
    -------
    TorchModule
        Loading the file again after an edit brings it up to date, with every function of it that is held.

    Raises
    ------
    CompileError
        When it does not compile or cannot be built.
    SlangLabError
        When it cannot be read.
    """
    macros = [f"{name}={value}" for name, value in (defines or {}).items()]
    return current_cells().load(Path(path), macros)


def generated(module: TorchModule | TorchFunction) -> Generated:
    """Return the CUDA and C++ that Slang wrote for a `--torch` cell.

    Parameters
    ----------
    module : TorchModule or TorchFunction

    Returns
    -------
    Generated
        `kernels` and `binding` hold what is the cell's own; `cuda` and `host` the texts in full.
    """
    if not isinstance(module, (TorchModule, TorchFunction)):
        raise SlangLabError(
            f"this is no module of a --torch cell, but {type(module).__name__}",
            hint="pass what `%%slang --torch NAME` bound to NAME",
        )
    return generated_of(module)
