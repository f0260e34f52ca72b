"""The cells that a worker has compiled, and what it takes to compile them in another one."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from typing import Any

from slanglab.cells.report import CellReport
from slanglab.cells.session import Request
from slanglab.cells.versions import CompileError
from slanglab.errors import SlangLabError
from slanglab.remote.engine import Engine, Reference
from slanglab.remote.proxies import Remote, RemoteFunction, RemoteModule, RemoteStruct
from slanglab.widgets import report as report_views

__all__ = ["RemoteCell", "RemoteCells", "RemoteRan"]


class _Module(Remote):
    """The module of a cell, in the worker."""


@dataclass(eq=False)
class RemoteCell:
    """A cell.

    Attributes
    ----------
    key : str
        The worker's, which gives the same to the same cells.
    request : Request
        Its last run that compiled.
    shown : str
        The name in messages.
    declared : dict of str to str
        What it declares: "function" or "struct", by name.
    module : Reference or None
        Its module in the worker; None where it did not compile in the present one.
    """

    engine: Engine
    key: str
    request: Request
    named: bool = False
    shown: str = ""
    declared: dict[str, str] = field(default_factory=dict)
    module: Reference | None = None
    _functions: dict[str, RemoteFunction] = field(default_factory=dict)

    def names(self) -> list[str]:
        """Return what the cell declares."""
        return list(self.declared)

    def _there(self) -> Reference:
        self.engine.settle()
        if self.module is None or self.module.generation != self.engine.generation:
            raise SlangLabError(
                f"{self.shown} has no version that runs in the worker process", hint="run its cell again"
            )
        return self.module

    def own(self, name: str) -> Any:
        """Return what the cell itself declares under `name`; None where there is no such thing."""
        if self.declared.get(name) == "function":
            shown = f"{self.shown}.{name}" if self.named else name
            return RemoteFunction(self.engine, shown, None, lambda: self._ask("get", name=name), self)
        return self._kept(lambda: self._ask("get", name=name)) if name in self.declared else None

    def _ask(self, do: str, **fields: Any) -> Any:
        return self.engine.ask(do, object=self._there(), **fields)

    def _kept(self, origin: Any) -> Any:
        found = origin()
        if isinstance(found, Remote):
            found._origin = origin
        if isinstance(found, (RemoteFunction, RemoteStruct)):
            found.slanglab_cell = self
        return found

    def lookup(self, name: str) -> Any:
        """Return what a name means in the cell: its own, or what it imports."""
        if self.declared.get(name) == "function":
            found = self._functions.get(name)
            if found is None:
                found = self._functions[name] = self.own(name)
            return found
        return self._kept(lambda: self._ask("get", name=name))

    def item(self, name: str) -> Any:
        """Return what a name in Slang's own spelling means."""
        return self._kept(lambda: self.engine.ask("item", args=(name,), object=self._there()))

    def seen(self) -> list[str]:
        """Return the names that the cell sees."""
        try:
            return [str(n) for n in self._ask("text", what="dir")]
        except SlangLabError:
            return self.names()

    def describe(self) -> str:
        """Return the module's repr."""
        try:
            return str(self._ask("text", what="repr"))
        except SlangLabError:
            return f"<Slang module {self.shown}: not in the worker process>"


@dataclass(frozen=True)
class RemoteRan:
    """What a run gave; see `slanglab.cells.session.Ran`."""

    report: CellReport
    cell: RemoteCell
    module: RemoteModule

    @property
    def access(self) -> RemoteRan:
        """Access to the names: this object."""
        return self

    def names(self) -> list[str]:
        """Return what the cell declares."""
        return self.cell.names()

    def own(self, name: str) -> Any:
        """Return what the cell declares under `name`."""
        return self.cell.own(name)


class RemoteCells:
    """All cells that were compiled in the worker.

    Parameters
    ----------
    engine : Engine
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._cells: dict[str, RemoteCell] = {}
        self._replayed = False

    def run(self, request: Request) -> RemoteRan:
        """Compile a cell.

        Raises
        ------
        CompileError
        """
        try:
            report, cell = self._compile(request)
        except CompileError as error:
            if error.report is not None:
                error.details = report_views.text(error.report)  # a script sees the lines at fault
            raise
        return RemoteRan(report, cell, RemoteModule(cell))

    def _compile(self, request: Request) -> tuple[CellReport, RemoteCell]:
        given = {f.name: getattr(request, f.name) for f in fields(request)}
        given["include"] = [str(path.resolve()) for path in request.include]
        found = self._engine.ask(
            "compile", f"the compile of {request.label or request.name}", kwargs=given, folder=os.getcwd()
        )
        key, named, shown, names, module, report = found
        cell = self._cells.get(key)
        if cell is None:
            cell = self._cells[key] = RemoteCell(self._engine, key, request)
        cell.request, cell.named, cell.shown = request, named, shown
        cell.declared = {str(n): str(kind) for n, kind in names}
        cell.module = module._reference
        for name in [n for n in cell._functions if cell.declared.get(n) != "function"]:
            del cell._functions[name]
        return report, cell

    def forget(self, name: str) -> None:
        """Do not compile the cell called `name` in the next worker."""
        self._cells.pop(name, None)

    def add(self, requests: list[Request]) -> str:
        """Compile cells that another engine has; say which do not compile."""
        return self._all([(None, r) for r in requests])

    def again(self) -> str:
        """Compile every cell in a new worker; say how many, and which do not compile."""
        return self._all([(c, c.request) for c in list(self._cells.values())])

    def _all(self, wanted: list[tuple[RemoteCell | None, Request]]) -> str:
        count, left = len(wanted), wanted
        errors: dict[str, str] = {}
        while left:
            failed = []
            for cell, request in left:
                try:
                    _, made = self._compile(request)
                    if (
                        cell is not None and made is not cell
                    ):  # a cell without a name, which was given another key
                        cell.module = made.module
                except CompileError as error:
                    failed.append((cell, request))
                    errors[request.name or request.label] = error.message
            if len(failed) == len(left):
                break
            left = failed  # one that imports a cell which was compiled after it
        if not count:
            return ""
        text = (
            f", and {count - len(left)} of {count} cells were compiled there"
            if left
            else f", and {'the cells were' if count > 1 else 'the cell was'} compiled there"
        )
        names = [request.name or request.label for _, request in left]
        return text + (f"; not: {', '.join(names)}" if names else "")
