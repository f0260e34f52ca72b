"""The cell graph: which cells there are, which version of each is good, and what follows when one changes.

The graph is by content. Running a cell again with the same text, options and imports compiles nothing; an edit compiles the
cell and every cell that imports it, directly or not, each under a fresh internal name, because a Slang session takes a name
only once, even when the compile fails. A cell whose compile fails keeps its last good version; it and its importers are then
*stale*. Nothing here knows slangpy: `Compiler` is a protocol, and the tests run the graph with a stand-in.
"""

from __future__ import annotations

import itertools
import re
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any, Generic, TypeVar, cast

from slanglab.cells.versions import Cell, CompileError, Compiler, Outcome, Unit, Version
from slanglab.text.diagnostics import Diagnostic

__all__ = ["CellGraph"]

P = TypeVar("P")

_NOT_IDENTIFIER = re.compile(r"\W")


class CellGraph(Generic[P]):
    """All cells of one lab.

    Parameters
    ----------
    compiler : Compiler
        Replaced when the lab opens another device (`rebuild`).
    now : callable
        The clock; tests give their own.
    retire : callable, optional
        Told of each program that another takes the place of, or that is forgotten, before the graph lets go of it.
    """

    def __init__(
        self,
        compiler: Compiler[P],
        now: Callable[[], datetime] = datetime.now,
        retire: Callable[[P], None] = lambda _: None,
    ) -> None:
        self._compiler = compiler
        self._now = now
        self._retire = retire
        self._cells: dict[str, Cell[P]] = {}
        self._held: weakref.WeakSet[Cell[P]] = weakref.WeakSet()
        """Cells that were forgotten, as long as somebody holds a function of theirs: those go on running."""
        self._serial = itertools.count(1)

    # ----- looking -----

    def __contains__(self, key: str) -> bool:
        return key in self._cells

    def __iter__(self) -> Iterator[Cell[P]]:
        return iter(self._cells.values())

    def get(self, key: str) -> Cell[P] | None:
        """Return the cell called `key`, or None."""
        return self._cells.get(key)

    def is_stale(self, cell: Cell[P]) -> bool:
        """Tell whether `cell` runs something else than its latest text over the latest texts of its imports."""
        return bool(self.stale_because(cell))

    def stale_because(self, cell: Cell[P]) -> list[Cell[P]]:
        """Return the cells whose failed compiles make `cell` stale (itself first); empty when it is up to date."""
        return [c for c in (cell, *self._ancestors(cell)) if c.failure]

    def edges(self) -> list[tuple[str, str]]:
        """Return (importer, imported) for every good version."""
        return [(c.key, i) for c in self for i in self._imports(c)]

    def _imports(self, cell: Cell[P]) -> tuple[str, ...]:
        return cell.standing.unit.imported if cell.standing else ()

    def _ancestors(self, cell: Cell[P]) -> list[Cell[P]]:
        """Return every cell that `cell` imports, directly or not."""
        seen: dict[str, Cell[P]] = {}
        pending = list(self._imports(cell))
        while pending:
            key = pending.pop()
            other = self._cells.get(key)
            if other is not None and key not in seen:
                seen[key] = other
                pending.extend(self._imports(other))
        return list(seen.values())

    def _importers(self, cell: Cell[P]) -> list[Cell[P]]:
        """Return every cell that imports `cell`, directly or not, imported ones before their importers."""
        direct: dict[str, list[Cell[P]]] = {}
        for other in self:
            wanted = set(self._imports(other))
            if other.failure:
                wanted.update(
                    other.latest.imported
                )  # its failure may be this cell's fault: it gets another try
            for key in wanted:
                direct.setdefault(key, []).append(other)
        order: list[Cell[P]] = []
        done: set[int] = {id(cell)}
        # Depth first without recursion; a cell is placed after all that imports it, so the reverse is the order of compiles.
        stack: list[tuple[Cell[P], Iterator[Cell[P]]]] = [(cell, iter(direct.get(cell.key, ())))]
        while stack:
            top, rest = stack[-1]
            following = next((c for c in rest if id(c) not in done), None)
            if following is None:
                stack.pop()
                if top is not cell:
                    order.append(top)
            else:
                done.add(id(following))
                stack.append((following, iter(direct.get(following.key, ()))))
        return order[::-1]

    def find_cycle(self, key: str, imports: Iterable[str]) -> list[str] | None:
        """Return the cycle that `key` would close by importing `imports`, as keys from `key` back to `key`."""
        for first in imports:
            if first == key:
                return [key, key]
            path = [first]
            stack = [iter(self._imports(self._cells[first]) if first in self._cells else ())]
            seen = {first}
            while stack:
                nxt = next(stack[-1], None)
                if nxt is None:
                    stack.pop()
                    path.pop()
                elif nxt == key:
                    return [key, *path, key]
                elif nxt in self._cells and nxt not in seen:
                    seen.add(nxt)
                    path.append(nxt)
                    stack.append(iter(self._imports(self._cells[nxt])))
        return None

    # ----- changing -----

    def run(self, key: str, unit: Unit, *, named: bool = True, because: str = "") -> Outcome[P]:
        """Run a cell: compile it if anything changed, then every cell that imports it.

        Parameters
        ----------
        key : str
        unit : Unit
        named : bool
        because : str
            Why it is to be compiled even though nothing changed; empty where there is no reason.

        Raises
        ------
        CompileError
            When it does not compile; its last good version, and that of its importers, stay as they are.
        """
        cell = self._cells.get(key)
        reason = self._why_compile(cell, unit) or because
        if cell is not None and not reason:
            cell.latest = unit
            if cell.good is not None:  # the same text, perhaps under another execution count
                cell.good = replace(cell.good, unit=unit)
            return Outcome(cell, compiled=False)
        if cell is None:
            cell = Cell(key, named, unit)
        cell.latest = unit
        cell.named = named
        cell.failure = ()
        self._cells[key] = cell
        try:
            self._compile(cell, unit)
        except CompileError as error:
            cell.failure = error.diagnostics
            raise
        outcome = Outcome(cell, compiled=True, reason=reason)
        self._follow(cell, outcome)
        return outcome

    def refuse(self, key: str, unit: Unit, diagnostics: Iterable[Diagnostic], *, named: bool = True) -> None:
        """Record that the latest text of `key` cannot even be given to the compiler."""
        cell = self._cells.setdefault(key, Cell(key, named, unit))
        cell.latest = unit
        cell.failure = tuple(diagnostics)

    def forget(self, key: str) -> Cell[P] | None:
        """Remove a cell; its importers keep the version they were compiled against until they are run again."""
        cell = self._cells.pop(key, None)
        if cell is not None:
            cell.forgotten = True
            self._held.add(cell)
            if cell.good is not None:
                self._retire(cell.good.program)
        return cell

    def programs(self) -> list[P]:
        """Return every program that can still be run: those of the cells, and of forgotten ones that somebody holds."""
        return [c.good.program for c in self if c.good is not None] + self.forgotten()

    def forgotten(self) -> list[P]:
        """Return the programs of forgotten cells that somebody holds, or that the collector has not found yet."""
        return [c.good.program for c in self._held if c.good is not None]

    def rebuild(self, compiler: Compiler[P], *, keep: bool = False) -> list[tuple[Cell[P], CompileError]]:
        """Compile every good version again with another compiler, for a new device or a new session.

        Versions keep their names, so that what a cache knows by them is found again.

        Parameters
        ----------
        compiler : Compiler
        keep : bool
            Leave a cell that does not compile there with the program that it has; else it has none any more.

        Returns
        -------
        list of (Cell, CompileError)
            Cells that do not compile there.
        """
        self._compiler = compiler
        failures: list[tuple[Cell[P], CompileError]] = []
        for cell in (*self._topological(), *self._held):
            version = cell.standing
            if version is None:
                continue
            renames = {i: name for i in version.unit.imported if (name := self._current(i)) is not None}
            try:
                program, warnings = compiler.compile(version.internal, version.unit, renames)
            except CompileError as error:
                failures.append((cell, error))
                if not keep:
                    cell.failure = error.diagnostics
                    cell.good = cell.released = None
                continue
            cell.released = None
            if cell.good is not None:
                self._retire(cell.good.program)
            cell.good = replace(version, program=program, warnings=warnings, built_on=renames)
        return failures

    def release(self) -> None:
        """Let go of every program and keep the texts; `rebuild` compiles them again."""
        for cell in (*self, *self._held):
            if cell.good is not None:
                cell.released = replace(cast("Version[Any]", cell.good), program=None)
                cell.good = None

    def _topological(self) -> list[Cell[P]]:
        order: dict[str, Cell[P]] = {}
        for root in self:
            stack = [(root, False)]
            while stack:
                cell, expanded = stack.pop()
                if expanded:
                    order.setdefault(cell.key, cell)
                elif cell.key not in order:
                    stack.append((cell, True))
                    stack.extend((self._cells[i], False) for i in self._imports(cell) if i in self._cells)
        return list(order.values())

    def _why_compile(self, cell: Cell[P] | None, unit: Unit) -> str:
        """Say why `unit` has to be compiled; empty when what runs is already that."""
        if cell is None:
            return "it is new"
        good = cell.good
        if good is None:
            return "it has not compiled before"
        if unit.text != good.unit.text or unit.imports != good.unit.imports:
            return "its text changed"
        if (unit.macros, unit.bounds, unit.check) != (good.unit.macros, good.unit.bounds, good.unit.check):
            return "its options changed"
        changed = [i for i in unit.imported if self._current(i) != good.built_on.get(i)]
        if changed:
            return f"{', '.join(changed)} changed"
        if cell.failure and not cell.latest.same_content(unit):
            # back to the good text after a failed edit: what runs is right already
            cell.failure = ()
        return "it failed last time" if cell.failure else ""

    def _current(self, key: str) -> str | None:
        cell = self._cells.get(key)
        return cell.good.internal if cell is not None and cell.good is not None else None

    def _compile(self, cell: Cell[P], unit: Unit) -> None:
        renames = {i: name for i in unit.imported if (name := self._current(i)) is not None}
        internal = f"{_NOT_IDENTIFIER.sub('_', cell.key)}__v{next(self._serial)}"
        program, warnings = self._compiler.compile(internal, unit, renames)
        number = cell.good.number + 1 if cell.good else 1
        if cell.good is not None:
            self._retire(cell.good.program)
        cell.good = Version(number, internal, unit, renames, program, warnings, self._now())

    def _follow(self, cell: Cell[P], outcome: Outcome[P]) -> None:
        """Bring every importer of `cell` up to date with its new version."""
        changed = {cell.key}
        for importer in self._importers(cell):
            if self._bring_up_to_date(importer, changed):
                changed.add(importer.key)
                outcome.recompiled.append(importer)
            elif importer.good is not None and changed.intersection(self._imports(importer)):
                outcome.gone_stale.append(importer)

    def _bring_up_to_date(self, cell: Cell[P], changed: set[str]) -> bool:
        """Compile `cell` again if it stands on `changed`, its latest text first; tell whether it has a new version."""
        candidates = []
        if cell.failure and changed.intersection(cell.latest.imported):
            candidates.append(cell.latest)
        if cell.good is not None and changed.intersection(self._imports(cell)):
            candidates.append(cell.good.unit)
        for unit in candidates:
            if self.find_cycle(cell.key, unit.imported) or any(
                self._current(i) is None for i in unit.imported
            ):
                continue
            try:
                self._compile(cell, unit)
            except CompileError as error:
                if unit.same_content(cell.latest):
                    cell.failure = error.diagnostics
                continue
            if unit.same_content(cell.latest):
                cell.failure = ()
            return True
        return False
