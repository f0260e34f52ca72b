"""From the text of a unit to the text that the compiler is given: other names in imports, and what stands around indices.

Everything is one list of edits, so that a message about the compiled text finds its column in the user's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from slanglab.cells.resolve import MAIN
from slanglab.cells.versions import Unit
from slanglab.engine.outside import Place
from slanglab.text import bounds, indices
from slanglab.text.accesses import Accesses
from slanglab.text.diagnostics import Diagnostic, SourceText
from slanglab.text.edits import Columns, Edit, RewrittenText, rewrite
from slanglab.text.imports import import_edits
from slanglab.text.symbols import Outline, outline

__all__ = ["Lines", "Prepared", "prepare"]

_MARKER = re.compile(r'#line (\d+) "([^"\n]*)"')


class Lines:
    """Which file and line each line of a unit's text is of: the cell's own, or one of an included file.

    Parameters
    ----------
    unit : Unit
    """

    def __init__(self, unit: Unit) -> None:
        tokens = {MAIN, *(token for token, _, _ in unit.included)}
        self._places: list[tuple[str, int]] = []
        file, number = MAIN, unit.first_line
        for line in unit.text.split("\n"):
            self._places.append((file, number))
            marker = _MARKER.fullmatch(line) if unit.included else None
            if marker is not None and marker[2] in tokens:
                file, number = marker[2], int(marker[1])
            else:
                number += 1

    def place(self, line: int) -> tuple[str, int]:
        """Return the file, as `#line` names it, and the number of a line of the text (1-based)."""
        return self._places[line - 1]

    def columns(self, columns: Columns, file: str) -> Columns:
        """Return the columns of one file's lines."""

        def own(line: int) -> int | None:
            where, number = self.place(line)
            return number if where == file else None

        return columns.lines(own)


@dataclass(frozen=True)
class Prepared:
    """A unit's text, ready for the compiler.

    Attributes
    ----------
    rewritten : RewrittenText
    places : dict of int to Place
        Where each checked index stands, by the number in the text.
    diagnostics : tuple of Diagnostic
        What to say about indices.
    checked : bool
        True where the text imports the checks.
    touched : bool
        True where anything stands around an index.
    """

    rewritten: RewrittenText
    places: Mapping[int, Place]
    diagnostics: tuple[Diagnostic, ...]
    checked: bool
    touched: bool


def prepare(
    unit: Unit,
    parsed: Outline,
    mapping: Mapping[str, str],
    sources: Mapping[str, SourceText],
    first_site: int,
    *,
    leave: frozenset[tuple[str, int]] | None = frozenset(),
) -> Prepared:
    """Prepare the text of a unit.

    Parameters
    ----------
    unit : Unit
    parsed : Outline
        Of the cell's own text, `unit.shown`.
    mapping : mapping of str to str
        The names of imports, and the names to write instead.
    sources : mapping of str to SourceText
        By the file's name in `#line`: what messages about indices show.
    first_site : int
        The number of the first checked place; numbers are never used twice.
    leave : frozenset of (str, int) or None
        Lines, by file and number, in which no index is touched; None for all of them.
    """
    if leave is None or "Tensor" not in unit.text:
        return Prepared(rewrite(unit.text, import_edits(unit.text, mapping)), {}, (), False, False)
    accesses = Accesses.read(unit.text, parsed if unit.text == unit.shown else outline(unit.text))
    lines = Lines(unit)
    left = frozenset(n for n in range(1, unit.text.count("\n") + 2) if lines.place(n) in leave)
    conversions = indices.convert(accesses)
    checks = bounds.checks(accesses, left) if unit.bounds else bounds.Checks({}, (), ())
    around = _around(accesses, conversions.indices, checks, first_site, left)
    notes = (*(d for d in conversions.diagnostics if d.line not in left), *checks.unchecked)
    found = [_placed(d, lines, sources) for d in notes]
    places = {}
    for number, access in enumerate(checks.sites, first_site):
        file, line = lines.place(accesses.line(access))
        tensor = accesses.words.source(*access.base)
        places[number] = Place(sources[file].cell, access.function.qualified, tensor, line)
    imports = import_edits(unit.text, mapping, accesses.words.code)
    rewritten = rewrite(unit.text, [*imports, *around])
    return Prepared(rewritten, places, tuple(found), bool(checks.sites), bool(around))


def _around(
    accesses: Accesses,
    converted: frozenset[tuple[int, int]],
    checks: bounds.Checks,
    first_site: int,
    left: frozenset[int],
) -> list[Edit]:
    """Return what is written before and behind each index."""
    words = accesses.words
    edits = []
    for start, end in sorted(converted | checks.wraps.keys()):
        wrap = checks.wraps.get((start, end))
        before = wrap.before if wrap is not None else ""
        after = wrap.after.replace("{site}", str(first_site + wrap.site)) if wrap is not None else ""
        if (start, end) in converted and words.line(start) not in left:
            before, after = f"int({before}", f"{after})"
        if before:
            edits.append(Edit(words.offset(start), words.offset(start), before))
            edits.append(Edit(words.tokens[end - 1].end, words.tokens[end - 1].end, after))
    return edits


def _placed(diagnostic: Diagnostic, lines: Lines, sources: Mapping[str, SourceText]) -> Diagnostic:
    """Return a message about a line of the unit's text as one about the cell or the file that it came from."""
    file, line = lines.place(diagnostic.line)
    source = sources[file]
    return replace(diagnostic, cell=source.cell, line=line, source=source.around(line))
