"""Changes to a text before it is compiled, and the way back from its columns.

Whatever SlangLab writes into the user's text (names of versions in imports, conversions and checks around indices) is an `Edit`. All
edits of a text are applied at once, so that one map leads from the compiled columns to those that the user sees.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from slanglab.text.tokens import Positions

__all__ = ["Columns", "Edit", "RewrittenText", "rewrite"]


class Edit(NamedTuple):
    """One change: the code points from `start` to `end` become `text`; an insertion where both are the same."""

    start: int
    end: int
    text: str


class _Stretch(NamedTuple):
    """One replaced stretch of a line: 0-based columns and lengths, new and old."""

    column: int
    length: int
    old_column: int
    old_length: int


@dataclass(frozen=True)
class Columns:
    """Where the columns of a rewritten text stood before."""

    _stretches: Mapping[int, list[_Stretch]] = field(default_factory=dict)

    def original(self, line: int, column: int) -> int:
        """Return where a column stands in the text that was given.

        Parameters
        ----------
        line, column : int
            1-based.

        Returns
        -------
        int
            1-based. A place inside a replacement gives the place inside what was replaced, its last character at most; one inside
            an insertion gives the character that follows it.
        """
        stretches = self._stretches.get(line)
        if not stretches:
            return column
        at = column - 1
        index = bisect_right(stretches, at, key=lambda s: s.column) - 1
        if index < 0:
            return column
        found = stretches[index]
        if at < found.column + found.length:
            return found.old_column + min(at - found.column, max(0, found.old_length - 1)) + 1
        return at - (found.column + found.length) + found.old_column + found.old_length + 1

    def lines(self, place: Callable[[int], int | None]) -> Columns:
        """Return the columns of those lines for which `place` gives another number, under that number."""
        moved = {place(line): stretches for line, stretches in self._stretches.items()}
        return Columns({line: stretches for line, stretches in moved.items() if line is not None})


@dataclass(frozen=True)
class RewrittenText:
    """A text with edits applied, and the way back.

    Attributes
    ----------
    text : str
        It has the lines of the text that was given.
    columns : Columns
    """

    text: str
    columns: Columns = field(default_factory=Columns, repr=False)

    def original_column(self, line: int, column: int) -> int:
        """Return where a column of the rewritten text stands in the text that was given; see `Columns.original`."""
        return self.columns.original(line, column)


def rewrite(text: str, edits: Iterable[Edit]) -> RewrittenText:
    """Apply edits to a text; no line moves.

    Parameters
    ----------
    text : str
        Lines end at newlines.
    edits : iterable of Edit
        In any order; two of them do not overlap, and of two insertions at one place the first given comes first. Their texts
        hold no newline: those of what is replaced are kept, behind the new text.

    Returns
    -------
    RewrittenText
    """
    where = Positions(text)
    pieces: list[str] = []
    stretches: dict[int, list[_Stretch]] = {}
    done = 0
    for edit in sorted(edits, key=lambda e: (e.start, e.end)):
        written = text[edit.start : edit.end]
        pieces += [text[done : edit.start], edit.text, "\n" * written.count("\n")]
        done = edit.end
        line, column = where.at(edit.start)
        same = stretches.setdefault(line, [])
        last = same[-1] if same else _Stretch(0, 0, 0, 0)
        shift = last.column + last.length - last.old_column - last.old_length
        head, *rest = written.split("\n")
        same.append(_Stretch(column - 1 + shift, len(edit.text), column - 1, len(head)))
        for below, gone in enumerate(
            rest, line + 1
        ):  # what follows the replaced text begins a line of its own
            stretches.setdefault(below, []).append(_Stretch(0, 0, 0, len(gone)))
    pieces.append(text[done:])
    return RewrittenText("".join(pieces), Columns(stretches))
