"""Compiler messages as objects.

A `Diagnostic` points into the text of a cell, as the user sees it in the editor: line 1 is the first line of the notebook
cell (the one with `%%slang`), columns are 1-based code points.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

__all__ = ["Diagnostic", "Severity"]

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Diagnostic:
    """One message about a place in a cell.

    Attributes
    ----------
    severity : {"error", "warning", "note"}
    code : str
        The compiler's code (`"E30015"`) or the name of SlangLab's own rule (`"unknown-import"`); may be empty.
    title : str
        The message in general: "undefined identifier".
    text : str
        The message at the place: "undefined identifier 'y'". May be empty.
    cell : str
        The cell that `line` counts in, as the user knows it: "In[5]", "poly", or a file's path. Empty when no place is known.
    line, column, end_column : int
        1-based position, `end_column` exclusive; 0 when no place is known.
    source : tuple of (int, str)
        The lines around the place, with their numbers; empty when the text is not at hand or not to be shown.
    notes : tuple of Diagnostic
        What belongs to this message ("see previous definition").
    hint : str
        What to do, where SlangLab knows it; may hold `code` in backticks.
    generated : bool
        True for a message about the kernel that slangpy wrote around the user's function: no line of the user's is at fault.
    """

    severity: Severity
    code: str
    title: str
    text: str = ""
    cell: str = ""
    line: int = 0
    column: int = 0
    end_column: int = 0
    source: tuple[tuple[int, str], ...] = ()
    notes: tuple[Diagnostic, ...] = ()
    hint: str = ""
    generated: bool = False

    @property
    def place(self) -> str:
        """The place in words: "In[5], line 2, column 28"; empty when none is known."""
        if not self.line:
            return self.cell
        return f"{self.cell}, line {self.line}, column {self.column}"

    def with_hint(self, hint: str) -> Diagnostic:
        """Return the same message with what to do about it."""
        return replace(self, hint=hint)
