"""The cells of one lab: from a text to a module proxy and a report.

This is the first of the three flows: clean the text, find its names, resolve what it imports, give it a place in the graph, compile
what has to be compiled, and say what happened.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import slangpy as spy

from slanglab import waiting
from slanglab.cells import defaults, following
from slanglab.cells.compiler import Program, SlangCompiler, without_version
from slanglab.cells.function import release_all, suspend_all
from slanglab.cells.graph import CellGraph
from slanglab.cells.module import CellAccess, SlangModule
from slanglab.cells.report import CellReport
from slanglab.cells.rows import function_rows
from slanglab.cells.slang_session import Loads, SlangSession
from slanglab.cells.units import Pasted, UnitMaker, moved, placed
from slanglab.cells.unnamed import Unnamed
from slanglab.cells.versions import Cell, CompileError, Outcome, Unit, Version
from slanglab.engine.control import Control
from slanglab.errors import SlangLabError
from slanglab.log import LogCapture
from slanglab.memory import give_back
from slanglab.messages.hints import hint
from slanglab.text import source, symbols
from slanglab.text.diagnostics import Diagnostic, SourceText
from slanglab.text.limitations import limitations, torch_style
from slanglab.text.lint import lint

__all__ = ["CellSession", "Ran", "Request"]


_UNTIL_IDLE = 0.1
"""Seconds that a new session waits for the device to be idle: on a busy machine even an idle one takes a moment to say so."""


@dataclass(frozen=True)
class Request:
    """One run of one cell.

    Attributes
    ----------
    text : str
        As pasted.
    name : str or None
        What other cells import it by; None for a cell without a name.
    label : str
        Where the text stands, for messages: "In[5]"; the name where there is no notebook.
    identity : str
        For a cell without a name, what stays the same when it is edited: the notebook's cell id.
    first_line : int
        Number of the first line of `text` in the notebook cell.
    macros : tuple of str
        "NAME" or "NAME=VALUE".
    include : tuple of Path
        Folders to search first for imports and includes.
    bounds : bool
        Whether every index of a tensor is compared with the shape.
    check : bool
        Whether every backward call is checked, not only the first.
    """

    text: str
    name: str | None = None
    label: str = ""
    identity: str = ""
    first_line: int = 1
    macros: tuple[str, ...] = ()
    include: tuple[Path, ...] = ()
    bounds: bool = False
    check: bool = False


@dataclass(frozen=True)
class Ran:
    """What a run gave: the report, and access to the names."""

    report: CellReport
    access: CellAccess
    module: SlangModule


class CellSession:
    """All cells of a lab on its device.

    Parameters
    ----------
    device : callable
        Return the device, opened if need be.
    describe : callable
        Return the device in words.
    log : LogCapture
    roots : callable
        Return the folders that cells may read files in, the notebook's own first.
    finished : callable
        What follows a call of a function that may print; it returns what was printed.
    control : Control
        How calls are made.
    ready : callable
        See to it that the device can be used; it may call `release` and `rebuild`.
    """

    def __init__(
        self,
        device: Callable[[], spy.Device],
        describe: Callable[[], str],
        log: LogCapture,
        roots: Callable[[], Sequence[Path]],
        finished: Callable[[Program], str],
        control: Control,
        ready: Callable[[], None],
    ) -> None:
        self._device = device
        self.ready = ready
        self._describe = describe
        self._log = log
        self.finished = finished
        self.control = control
        self._graph: CellGraph[Program] | None = None
        self._units = UnitMaker(lambda: self.graph, roots)
        self._compiler: SlangCompiler | None = None
        self._unnamed = Unnamed()
        self._defaults = defaults.Defaults()
        self._earlier: list[SlangSession] = []
        """Sessions that were replaced and not ended, as a cell that cannot follow its import still runs there."""

    # ----- what the proxies ask (module.Surroundings) -----

    def cell(self, key: str) -> Cell[Program] | None:
        """Return the cell called `key`, or None."""
        return self._graph.get(key) if self._graph is not None else None

    def cells(self) -> list[Cell[Program]]:
        """Return all cells, in the order of their first run."""
        return list(self._graph) if self._graph is not None else []

    def stale_because(self, cell: Cell[Program]) -> list[Cell[Program]]:
        """Return the cells whose failures make `cell` stale."""
        return self.graph.stale_because(cell)

    def prints(self, cell: Cell[Program]) -> bool:
        """Tell whether a cell, or one that it imports, may print."""
        pending, seen = [cell], set()
        while pending:
            one = pending.pop()
            if one.key in seen or one.good is None:
                continue
            seen.add(one.key)
            if one.good.unit.bounds or any(
                i.name == "sgl.device.print" for i in one.good.program.outline.imports
            ):
                return True
            pending.extend(c for k in one.good.unit.imported if (c := self.cell(k)) is not None)
        return False

    def default(
        self, version: Version[Program], function: symbols.Function, parameter: symbols.Parameter
    ) -> Any:
        """Return the value of a parameter's default expression, evaluated once for each version."""
        return self._defaults.value(version, function, parameter)

    @property
    def graph(self) -> CellGraph[Program]:
        """The graph; the first use opens the device."""
        if self._graph is None:
            self._compiler = SlangCompiler(self._device(), self._log)
            self._graph = CellGraph(self._compiler, retire=_retire)
        return self._graph

    def access(self, cell: Cell[Program]) -> CellAccess:
        """Return access to the names of a cell."""
        return CellAccess(cell, cell.key if cell.named else cell.latest.label, self)

    def module(self, name: str) -> SlangModule:
        """Return the module proxy of the cell called `name`.

        Raises
        ------
        SlangLabError
            When there is no such cell.
        """
        cell = self.cell(name)
        if cell is None:
            names = ", ".join(c.key for c in self.cells() if c.named)
            raise SlangLabError(f"there is no cell called {name!r}", hint=f"there are: {names or 'none yet'}")
        return SlangModule(self.access(cell))

    @property
    def is_released(self) -> bool:
        """Whether there are cells whose programs were let go of, and not compiled again."""
        return self._graph is not None and self._compiler is None

    def rebuild(self) -> list[tuple[str, CompileError]]:
        """Compile every cell again on the lab's device, which has changed; return the cells that do not compile there."""
        self._defaults = defaults.Defaults()
        if self._graph is None:
            return []
        self._compiler = SlangCompiler(self._device(), self._log)
        return [(cell.key, error) for cell, error in self._graph.rebuild(self._compiler)]

    def suspend(self) -> None:
        """Make every function ask `ready` at its next call."""
        suspend_all()

    def release(self) -> None:
        """Let go of every compiled program, so that the device can be closed; the texts stay and `rebuild` compiles them."""
        self._defaults = defaults.Defaults()
        self.control.forget()
        if self._compiler is not None:
            for session in (self._compiler.session, *self._earlier):
                session.close()
        self._compiler = None
        self._earlier = []
        if self._graph is not None:
            self._graph.release()
        release_all()

    def _renew_session(self) -> None:
        """Go on in a new Slang session once much of the old one is of no use any more, which then gives its memory back.

        What is of use has to be made again in the new one. As at least as much is let go of, the time that takes is in proportion to what
        was compiled since the last time.
        """
        graph, old = self._graph, self._compiler
        if graph is None or old is None:
            return
        if not _is_mostly_dead(old.session, graph):
            return
        if not waiting.is_idle(old.device, within=_UNTIL_IDLE):
            return  # what runs holds on to the old session
        self._compiler = SlangCompiler(self._device(), self._log, old)
        graph.rebuild(self._compiler, keep=True)
        self._defaults = defaults.Defaults()
        release_all()
        # A cell that cannot follow its import goes on running where it is, so that its session must stay until the cell is run again.
        in_use = {id(p.session) for p in graph.programs()}
        replaced = [*self._earlier, old.session]
        self._earlier = [s for s in replaced if id(s) in in_use]
        current = {
            without_version(cell.good.internal): cell.good.program.module
            for cell in graph
            if cell.good is not None
        }
        for session in replaced:
            if id(session) not in in_use:
                session.end(self._compiler.session, current)
        del old, replaced
        give_back()

    def forget(self, name: str) -> bool:
        """Remove a cell; tell whether there was one."""
        return self._graph is not None and self._graph.forget(name) is not None

    # ----- running a cell -----

    def run(self, request: Request) -> Ran:
        """Run a cell.

        Raises
        ------
        CompileError
            When it does not compile; the error carries a report, with the version that still runs.
        """
        try:
            return self._run(request)
        finally:
            following.tell()

    def _run(self, request: Request) -> Ran:
        started = time.perf_counter()
        self._renew_session()
        name = request.name
        if name is not None and (problem := _name_problem(name)) is not None:
            raise SlangLabError(problem, hint="for example `%%slang poly`")
        label = request.label or name or "the cell"
        text, complaints = source.clean(request.text, request.first_line)
        parsed = symbols.outline(text)
        declared = [*(f.qualified for f in parsed.functions), *(s.qualified for s in parsed.structs)]
        key = name or self._unnamed.key(request.identity, declared)
        outline_shown = SourceText(label, tuple(text.split("\n")), request.first_line)
        try:
            errors = [d for d in complaints if d.severity == "error"]
            if errors:
                raise self._refused(key, request, text, label, complaints)
            pasted = Pasted(
                key,
                text,
                parsed,
                label,
                request.first_line,
                request.macros,
                request.include,
                request.bounds,
                request.check,
            )
            unit, warnings = self._units.make(pasted)
            if any(d.severity == "error" for d in warnings):
                raise self._refused(key, request, text, label, warnings)
            try:
                outcome = self.graph.run(key, unit, named=name is not None)
            except CompileError as error:
                found = [*complaints, *warnings, *error.diagnostics]
                found += [moved(d, request.first_line) for d in torch_style(parsed)]
                raise CompileError(
                    name or label, self._with_hints(found, parsed, request.first_line)
                ) from error
        except CompileError as error:
            told = [placed(d, outline_shown) for d in error.diagnostics]
            raise self._reported(CompileError(name or label, told), key, name or label, started) from error
        limits = [d for d in limitations(parsed) if not _served(d, parsed)]
        limits = [
            moved(d, request.first_line)
            for d in (*limits, *lint(parsed, text, self._device().info.type.name))
        ]
        warnings = [placed(d, outline_shown) for d in (*complaints, *warnings, *limits)]
        return self._ran(outcome, name or label, warnings, parsed, started)

    def report(self, ran: Ran) -> CellReport:
        """Return the report of a run; that of a cell which cannot follow what it imports says so."""
        cell, report = ran.access.cell, ran.report
        failed = self.stale_because(cell)
        if report.state != "unchanged" or not failed or cell.good is None:
            return report
        names = tuple(c.key if c.named else c.latest.label for c in failed)
        return replace(report, state="stale", imports=names, reason="", runs_version=cell.good.description)

    def _refused(
        self, key: str, request: Request, text: str, label: str, found: Iterable[Diagnostic]
    ) -> CompileError:
        """Record a text that cannot be given to the compiler, and return the error."""
        unit = Unit(text, label=label, shown=text, first_line=request.first_line, macros=request.macros)
        self.graph.refuse(key, unit, found, named=request.name is not None)
        return CompileError(request.name or label, found)

    # ----- saying what happened -----

    def _with_hints(
        self, found: Iterable[Diagnostic], parsed: symbols.Outline, first_line: int
    ) -> list[Diagnostic]:
        return [d if d.hint else d.with_hint(hint(d, parsed, first_line) or "") for d in found]

    def _reported(self, error: CompileError, key: str, shown: str, started: float) -> CompileError:
        cell = self.cell(key)
        good = cell.good if cell is not None else None
        stale = [
            self._units.name_of(c.key)
            for c in self.cells()
            if c is not cell and cell in self.graph.stale_because(c)
        ]
        error.report = CellReport(
            name=shown,
            state="failed",
            device="",
            milliseconds=(time.perf_counter() - started) * 1e3,
            diagnostics=error.diagnostics,
            gone_stale=tuple(stale),
            runs_version=good.description if good is not None else "",
        )
        return error

    def _ran(
        self,
        outcome: Outcome[Program],
        shown: str,
        found: list[Diagnostic],
        parsed: symbols.Outline,
        started: float,
    ) -> Ran:
        cell = outcome.cell
        version = cell.good
        assert version is not None
        access = self.access(cell)
        warnings = self._with_hints([*found, *version.warnings], parsed, version.unit.first_line)
        report = CellReport(
            name=shown,
            state="compiled" if outcome.compiled else "unchanged",
            device=self._describe(),
            milliseconds=(time.perf_counter() - started) * 1e3,
            functions=function_rows(version.program),
            imports=tuple(written for written, _ in version.unit.imports),
            reason=outcome.reason or "nothing changed",
            recompiled=tuple(self._units.name_of(c.key) for c in outcome.recompiled),
            gone_stale=tuple(self._units.name_of(c.key) for c in outcome.gone_stale),
            diagnostics=tuple(warnings),
        )
        return Ran(report, access, SlangModule(access))


def _is_mostly_dead(session: SlangSession, graph: CellGraph[Program]) -> bool:
    def loads(programs: Sequence[Program]) -> list[Loads]:
        return [p.module.loads for p in programs if p.session is session]

    return session.is_mostly_dead(lambda: loads(graph.programs()), lambda: loads(graph.forgotten()))


def _retire(program: Program) -> None:
    waiting.until_idle(program.device, program)


_SERVED_BY_DOORS = frozenset({"overloaded", "intrinsic-name", "parameter-name", "static-method"})


def _served(limit: Diagnostic, parsed: symbols.Outline) -> bool:
    """Tell whether a limit of slangpy's is lifted here: by a door (`slanglab.cells.entries`), or by a method's full name."""
    if limit.code not in _SERVED_BY_DOORS:
        return False
    function = next((f for f in parsed.functions if f.line == limit.line), None)
    return function is not None and (
        limit.code == "static-method" or (function.in_struct is None and not function.generics)
    )


def _name_problem(name: str) -> str | None:
    """Say why a source cannot have this name.

    A name that is no identifier is free text; `import "free text";` finds it. The magic, which binds a Python name, asks for more.
    """
    if name.strip() and not name.isidentifier() and name.isprintable():
        return None
    return source.valid_name(name)
