r"""Source lines under a message: what of a line is shown, and where the carets stand.

A line of somebody else's text can be hostile or just odd: control characters and direction marks are written as `\u202e`, tabs
become spaces, wide characters count two columns, and of a line of a megabyte only the part around the place is kept.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from itertools import accumulate

from slanglab.text.diagnostics import Diagnostic

__all__ = ["Line", "excerpt", "visible", "width"]

_TAB = 4
_WIDEST = 160  # columns of a line that are shown; the rest is marked by an ellipsis
_LEAD = 24  # of these, before the place: it stands in view in a narrow cell too
_REACH = 1000  # characters on each side of the place that are looked at
_HIDDEN = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))


@dataclass(frozen=True)
class Line:
    """One line of an excerpt.

    Attributes
    ----------
    number : int
    text : str
        As shown.
    hit : bool
        True for the line of the message.
    indent, carets : int
        Columns before the carets, and how many there are; 0 for other lines.
    before : str
        The text above the indent, where its width depends on the font.
    """

    number: int
    text: str
    hit: bool = False
    indent: int = 0
    carets: int = 0
    before: str = ""


def _shown(character: str) -> str:
    if character == "\t":
        return character
    category = unicodedata.category(character)
    if category in _HIDDEN or (category == "Zs" and character != " "):
        code = ord(character)
        return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
    return character


def visible(text: str) -> str:
    """Return a text whose every character can be seen: what would reorder or hide others is written as its code."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(c) for c in text.replace("\t", " " * _TAB))


def width(text: str) -> int:
    """Return how many columns of a fixed-width font a text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


def _pieces(line: str) -> list[str]:
    """Return what is shown for each character of a line; tabs reach to the next stop."""
    pieces: list[str] = []
    column = 0
    for character in line:
        piece = _shown(character)
        if piece == "\t":
            piece = " " * (_TAB - column % _TAB)
        column += width(piece)
        pieces.append(piece)
    return pieces


def excerpt(diagnostic: Diagnostic) -> tuple[Line, ...]:
    """Return the lines of a message as they are shown, all cut to the same columns when one is too long."""
    # Only the neighbourhood of the place is looked at: a line can be a megabyte long.
    offset = max(0, diagnostic.column - 1 - _REACH)
    parts = {number: text[offset : diagnostic.column + _REACH] for number, text in diagnostic.source}
    if diagnostic.line not in parts:
        return ()
    whole = {number: len(text) - offset for number, text in diagnostic.source}
    cut = {number: _pieces(text) for number, text in parts.items()}
    hit = cut[diagnostic.line]
    start = min(max(diagnostic.column - 1 - offset, 0), len(hit))
    stops = [0, *accumulate(width(p) for p in hit)]
    left = 0
    if stops[-1] > _WIDEST and stops[start] > _WIDEST - _LEAD:
        left = stops[start] - _LEAD
    lines = []
    for number, pieces in cut.items():
        text, first, last = _window(pieces, left)
        before_it = "…" if (first or offset) and whole[number] > -offset else ""
        after_it = "…" if last < len(pieces) or whole[number] > len(pieces) else ""
        if number != diagnostic.line:
            lines.append(Line(number, before_it + text + after_it))
            continue
        end = min(max(diagnostic.end_column - 1 - offset, start + 1), last)
        before = before_it + "".join(pieces[first:start])
        carets = sum(width(p) for p in pieces[start:end]) if end > start else 1
        odd = "" if before.strip("…").isascii() else before
        lines.append(Line(number, before_it + text + after_it, True, width(before), max(1, carets), odd))
    # Blank lines show nothing at the edges.
    while len(lines) > 1 and not lines[0].hit and not lines[0].text.strip():
        del lines[0]
    while len(lines) > 1 and not lines[-1].hit and not lines[-1].text.strip():
        del lines[-1]
    return tuple(lines)


def _window(pieces: list[str], left: int) -> tuple[str, int, int]:
    """Return the part of a line from column `left` on, and which pieces it holds."""
    column, first = 0, 0
    while first < len(pieces) and column < left:
        column += width(pieces[first])
        first += 1
    last, used = first, 0
    while last < len(pieces) and used + width(pieces[last]) <= _WIDEST:
        used += width(pieces[last])
        last += 1
    return "".join(pieces[first:last]), first, last
