"""The `import` statements of a text, and putting other names into them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from slanglab.cells.characters import python_name
from slanglab.cells.outline import Import
from slanglab.cells.tokens import Code, Positions, code, string_value

__all__ = ["RewrittenText", "find_imports", "rewrite_imports"]


def find_imports(text: str, read: Code | None = None, where: Positions | None = None) -> tuple[Import, ...]:
    """Find the `import` statements of a text.

    Every `import NAME;`, `import a.b;` and `import "path";` that the compiler would see counts, also next to code that makes
    no sense; none in a comment, a string, a macro definition or a branch that `#if 0` switches off.

    Parameters
    ----------
    text : str
        Lines end at newlines.
    read : Code, optional
        The result of `slanglab.cells.tokens.code`, where it is at hand.
    where : Positions, optional
        Of the same text, where it is at hand.
    """
    read = code(text) if read is None else read
    where = Positions(text) if where is None else where
    tokens = read.tokens
    found: list[Import] = []
    bytes_before, counted = 0, 0
    for i, token in enumerate(tokens):
        if token.text != "import" or i + 1 >= len(tokens):
            continue
        if i and tokens[i - 1].text in (".", "::", "->"):
            continue
        first = tokens[i + 1]
        last = i + 1
        if first.kind == "string":
            name = string_value(first.text)
            inside = first.text.find("(") + 1 if first.text.startswith("R") else 1
            closing = len(first.text) - first.text.rfind(")") if inside > 1 else 1
            start, end = first.start + inside, first.end - (closing if first.closed else 0)
        elif first.kind == "name":
            while last + 2 < len(tokens) and tokens[last + 1].text == "." and tokens[last + 2].kind == "name":
                last += 2
            name = ".".join(t.text for t in tokens[i + 1 : last + 1 : 2])
            start, end = first.start, tokens[last].end
        else:
            continue
        after = tokens[last + 1] if last + 1 < len(tokens) else None
        # Without a semicolon the statement still counts where its line ends: the compiler will say what is missing.
        if after is not None and after.text != ";" and "\n" not in text[tokens[last].end : after.start]:
            continue
        exported = i > 0 and tokens[i - 1].text in ("__exported", "export", "public")
        bytes_before += _bytes(text[counted:start])
        counted = start
        size = _bytes(text[start:end])
        line, column = where.at(start)
        found.append(
            Import(
                name,
                first.kind == "string",
                exported,
                line,
                column,
                bytes_before,
                bytes_before + size,
                start,
                end,
            )
        )
    return tuple(found)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


class _Edit(NamedTuple):
    """One replaced stretch of a line: 0-based columns and lengths, new and old."""

    column: int
    length: int
    old_column: int
    old_length: int


@dataclass(frozen=True)
class RewrittenText:
    """A text with other names in its imports, and the way back.

    Attributes
    ----------
    text : str
        It has the lines of the text that was given.
    """

    text: str
    _edits: Mapping[int, list[_Edit]] = field(default_factory=dict, repr=False)

    def original_column(self, line: int, column: int) -> int:
        """Return where a column of the rewritten text stands in the text that was given.

        Parameters
        ----------
        line, column : int
            1-based.

        Returns
        -------
        int
            1-based. A place inside a replaced name gives the place inside the old name, its last character at most.
        """
        edits = self._edits.get(line)
        if not edits:
            return column
        at = column - 1
        index = bisect_right(edits, at, key=lambda e: e.column) - 1
        if index < 0:
            return column
        edit = edits[index]
        if at < edit.column + edit.length:
            return edit.old_column + min(at - edit.column, max(0, edit.old_length - 1)) + 1
        return at - (edit.column + edit.length) + edit.old_column + edit.old_length + 1


def rewrite_imports(text: str, mapping: Mapping[str, str]) -> RewrittenText:
    """Put other names into the imports of a text.

    Parameters
    ----------
    text : str
        Lines end at newlines.
    mapping : mapping of str to str
        The name as `Import.name` gives it, and the name to write instead. Imports of other names stay as they are.

    Returns
    -------
    RewrittenText
    """
    where = Positions(text)
    pieces: list[str] = []
    edits: dict[int, list[_Edit]] = {}
    done = 0
    for imported in find_imports(text, where=where):
        internal = mapping.get(imported.name, mapping.get(python_name(imported.name)))
        if internal is None:
            continue
        written = text[imported.start : imported.end]
        breaks = written.count("\n")
        pieces += [text[done : imported.start], internal, "\n" * breaks]
        done = imported.end
        line, column = imported.line, imported.column - 1
        same = edits.setdefault(line, [])
        shift = sum(e.length - e.old_length for e in same)
        head = written.split("\n", 1)[0]
        same.append(_Edit(column + shift, len(internal), column, len(head)))
        if breaks:  # a dotted name over several lines: what follows it now begins its own line
            tail = written.rsplit("\n", 1)[1]
            edits.setdefault(line + breaks, []).append(_Edit(0, 0, 0, len(tail)))
    pieces.append(text[done:])
    return RewrittenText("".join(pieces), edits)
