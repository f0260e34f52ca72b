"""The parts of the cell graph: texts, versions, cells, and what a compile can come to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from slanglab.cells.report import CellReport
from slanglab.errors import SlangLabError
from slanglab.text.diagnostics import Diagnostic

__all__ = ["Cell", "CompileError", "Compiler", "Outcome", "Unit", "Version"]

P = TypeVar("P")
"""The compiled program: a slangpy module in earnest, anything in tests."""
P_co = TypeVar("P_co", covariant=True)


class CompileError(SlangLabError):
    """A cell does not compile.

    Attributes
    ----------
    name : str
        The cell, as the user knows it.
    diagnostics : tuple of Diagnostic
        Errors and warnings, in the order of the text.
    report : CellReport or None
        What to show under the cell.
    """

    report: CellReport | None = None

    def __init__(self, name: str, diagnostics: Iterable[Diagnostic], text: str = "") -> None:
        self.name = name
        self.diagnostics = tuple(diagnostics)
        errors = [d for d in self.diagnostics if d.severity == "error"]
        first = errors[0] if errors else None
        summary = f"{name} does not compile"
        if first is not None:
            where = f" ({first.place})" if first.place else ""
            summary += f": {first.text or first.title}{where}"
            if len(errors) > 1:
                summary += f", and {len(errors) - 1} more"
        super().__init__(summary, hint=(first.hint or None) if first else None, details=text or None)

    def __str__(self) -> str:
        return self.details or super().__str__()


@dataclass(frozen=True)
class Unit:
    """What a compile starts from: one text of one cell, ready for the compiler but for the names of its imports.

    Attributes
    ----------
    text : str
        The cleaned text, with includes in place.
    imports : tuple of (str, str)
        For each imported cell the name as written and its key, in the order of the text.
    macros : tuple of str
        Definitions from the cell's options, "NAME" or "NAME=VALUE".
    label : str
        Where the text stands: "In[5]", or a path.
    shown : str
        The text as the user sees it, without the included files; what messages quote.
    first_line : int
        The number of its first line in the notebook cell.
    included : tuple of (str, str, str)
        For each included file its name in `#line`, its path and its text.
    bounds : bool
        True where every index of a tensor is to be compared with the shape.
    check : bool
        True where every backward call is to be checked, not only the first.
    """

    text: str
    imports: tuple[tuple[str, str], ...] = ()
    macros: tuple[str, ...] = ()
    label: str = ""
    shown: str = ""
    first_line: int = 1
    included: tuple[tuple[str, str, str], ...] = ()
    bounds: bool = False
    check: bool = False

    @property
    def imported(self) -> tuple[str, ...]:
        """The keys of the imported cells."""
        return tuple(dict.fromkeys(key for _, key in self.imports))

    def same_content(self, other: Unit) -> bool:
        """Tell whether both compile to the same thing, given the same imports."""
        return self._content == other._content

    @property
    def _content(self) -> tuple[object, ...]:
        return self.text, self.imports, self.macros, self.bounds, self.check


@dataclass(frozen=True)
class Version(Generic[P]):
    """One successful compile.

    Attributes
    ----------
    number : int
        1 for a cell's first good version.
    internal : str
        The name of this version in the Slang session, never used again.
    unit : Unit
    built_on : dict of str to str
        For each imported cell the internal name of the version that this one was compiled against.
    program : P
    warnings : tuple of Diagnostic
    time : datetime
    """

    number: int
    internal: str
    unit: Unit
    built_on: Mapping[str, str]
    program: P
    warnings: tuple[Diagnostic, ...]
    time: datetime

    @property
    def description(self) -> str:
        """The version in the words of a report: "In[5], 14:02:11"."""
        return f"{self.unit.label}, {self.time:%H:%M:%S}"


@dataclass(eq=False)
class Cell(Generic[P]):
    """One cell of the graph; handles that users hold point at it, and so see every new version.

    Attributes
    ----------
    key : str
        What other cells import, or a name made for a cell without one.
    named : bool
        False for a cell that nobody can import.
    latest : Unit
        The text that was run last, good or not.
    good : Version or None
        The version that runs.
    failure : tuple of Diagnostic
        Why `latest` is not what runs; empty when it is.
    """

    key: str
    named: bool
    latest: Unit
    good: Version[P] | None = None
    failure: tuple[Diagnostic, ...] = ()
    forgotten: bool = False
    released: Version[Any] | None = None
    """The good version without its program, while its device is closed."""

    @property
    def standing(self) -> Version[Any] | None:
        """The good version, whether it is compiled at present or not."""
        return self.good if self.good is not None else self.released


class Compiler(Protocol[P_co]):
    """Turns text into a program, under a name that the session has not seen."""

    def compile(
        self, internal: str, unit: Unit, renames: Mapping[str, str]
    ) -> tuple[P_co, tuple[Diagnostic, ...]]:
        """Compile `unit` as `internal`, its imports renamed; return the program and the warnings.

        Raises
        ------
        CompileError
            With the diagnostics, when the text does not compile.
        """
        ...


@dataclass
class Outcome(Generic[P]):
    """What running a cell did.

    Attributes
    ----------
    cell : Cell
    compiled : bool
        False when nothing had changed.
    reason : str
        Why it was compiled, in words.
    recompiled : list of Cell
        Importers that have a new version, in the order of their compiles.
    gone_stale : list of Cell
        Importers that do not compile against the new version; they run the old one.
    """

    cell: Cell[P]
    compiled: bool
    reason: str = ""
    recompiled: list[Cell[P]] = field(default_factory=list)
    gone_stale: list[Cell[P]] = field(default_factory=list)
