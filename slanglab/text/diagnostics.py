"""Compiler messages as objects.

A `Diagnostic` points into the text of a cell, as the user sees it in the editor: line 1 is the first line of the notebook
cell (the one with `%%slang`), columns are 1-based code points.

`parse` reads what the compiler writes. The lines that a message shows never come from there: the compiler quotes whatever
file it was told to include, so excerpts are taken from the cell's own text, and of other files only the place is kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

__all__ = ["GENERATED", "Diagnostic", "Severity", "SourceText", "parse"]

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


@dataclass(frozen=True)
class SourceText:
    """The text that messages about one compiled file point into.

    Attributes
    ----------
    cell : str
        The cell as the user knows it ("In[5]"), or a file's path.
    lines : tuple of str
        The cell's own lines, as they stand in the editor.
    first_line : int
        The number of the first of them.
    original : callable
        Return, for a line and a column of what was compiled, the column in the cell's own text. They differ where SlangLab wrote
        something into the text: the name of an imported cell's version, a conversion or a check around an index.
    """

    cell: str
    lines: tuple[str, ...]
    first_line: int = 1
    original: Callable[[int, int], int] = field(
        default=lambda line, column: column, compare=False, repr=False
    )

    def line(self, number: int) -> str | None:
        """Return the line of that number, or None where there is none."""
        at = number - self.first_line
        return self.lines[at] if 0 <= at < len(self.lines) else None

    def around(self, number: int, before: int = 2, after: int = 1) -> tuple[tuple[int, str], ...]:
        """Return a line and its neighbours, with their numbers."""
        first = max(self.first_line, number - before)
        last = min(self.first_line + len(self.lines) - 1, number + after)
        return tuple((n, self.lines[n - self.first_line]) for n in range(first, last + 1))


GENERATED = "in the kernel that slangpy generated around your function; not one of your lines"
"""The place of a message about code that slangpy wrote."""

_MOST_MESSAGES = 100
_MOST_NOTES = 6
_LONGEST_MESSAGE = 600  # characters

_HEAD = re.compile(
    r"(?:slang: )?(?P<severity>fatal error|error|warning|note|info)(?:\[(?P<code>[A-Z]\d+)\])?: (?P<title>.*)"
)
_PLACE = re.compile(r"\s*--[>-] (?P<file>.*):(?P<line>\d+):(?P<column>\d+)\s*")
_ECHO = re.compile(r"\s*\d+ \| ?(?P<source>.*)")
_CARET = re.compile(r"\s*\| *(?P<run>\^+|-+)(?P<text>[^^\n]*)")
_LEXER = re.compile(
    r"(?P<file>.+)\((?P<line>\d+)\): (?P<severity>fatal error|error|warning|note) (?P<code>\d+): (?P<title>.*)"
)
_LEXER_CARET = re.compile(r"\s*\^[~\s]*")
_BOILERPLATE = re.compile(r"import failed due to compilation error|compilation ceased")
_NAME = re.compile(r"[^\W\d]\w*")
_KERNEL_FILE = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_BUILTIN_FILE = re.compile(r"[\w.-]*\.meta\.slang")
_SLANGPY_FILE = re.compile(r".*[/\\](slangpy[/\\]slang[/\\][\w./\\-]+\.slang)")


def parse(
    text: str,
    sources: Callable[[str], SourceText | None],
    rename: Callable[[str], str] = lambda name: name,
) -> list[Diagnostic]:
    """Read the compiler's messages.

    Parameters
    ----------
    text : str
        Of a `SlangCompileError`, of the logger's "Slang compiler warnings:", or of the driver's "RHI messages:".
    sources : callable
        Return the text behind a file name of the compiler, or None for files whose text must not be shown.
    rename : callable
        Turn the compiler's name of a module (`poly__v3`) into the user's; called with every name in a message.

    Returns
    -------
    list of Diagnostic
        In the order of the text, without repetitions; notes hang on the message they follow. At most 100, and a last
        one that counts the others.
    """
    found: list[Diagnostic] = []
    for message in _messages(text):
        if _BOILERPLATE.fullmatch(message.title):
            continue
        diagnostic = _placed(message, sources, rename)
        if message.severity == "note" and found:
            # Where slangpy's kernel calls the function is no news, and nothing that the user can look at.
            if not diagnostic.generated:
                found[-1] = replace(found[-1], notes=(*found[-1].notes, diagnostic))
        else:
            found.append(diagnostic)
    unique = list(dict.fromkeys(replace(d, notes=_folded(d.notes)) for d in found))
    if (more := len(unique) - _MOST_MESSAGES) > 0:
        return [*unique[:_MOST_MESSAGES], Diagnostic("note", "", f"{more} more messages of the compiler")]
    return unique


@dataclass
class _Message:
    """One message as the compiler wrote it."""

    severity: Severity
    code: str
    title: str
    file: str = ""
    line: int = 0
    column: int = 0
    width: int = 1
    text: str = ""
    echo: str | None = None
    rest: list[str] = field(default_factory=list)


def _severity(word: str) -> Severity:
    if "error" in word:
        return "error"
    return "warning" if word == "warning" else "note"


def _messages(text: str) -> Iterator[_Message]:
    """Split the text into messages.

    An echoed source line always has its number and a bar in front, so no source line can pass for a message; only the
    lexer's older form echoes a bare line, which is skipped together with its caret.
    """
    lines = text.split("\n")
    current: _Message | None = None
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if head := _HEAD.fullmatch(line):
            if current is not None:
                yield current
            current = _Message(_severity(head["severity"]), head["code"] or "", head["title"].strip())
        elif lexer := _LEXER.fullmatch(line):
            if current is not None:
                yield current
            current = _Message(
                _severity(lexer["severity"]),
                f"E{lexer['code']}",
                lexer["title"].strip(),
                lexer["file"],
                int(lexer["line"]),
            )
            if at + 1 < len(lines) and _LEXER_CARET.fullmatch(lines[at + 1]):
                current.echo, current.column = lines[at], lines[at + 1].index("^") + 1
                at += 2
        elif current is not None:
            _continue(current, line)
    if current is not None:
        yield current


def _continue(message: _Message, line: str) -> None:
    """Add a line of the picture under a message: place, source line, caret with text."""
    if not message.line:
        if place := _PLACE.fullmatch(line):
            message.file = place["file"]
            message.line, message.column = int(place["line"]), int(place["column"])
    elif message.echo is None:
        if echo := _ECHO.fullmatch(line):
            message.echo = echo["source"]
    elif not message.text and (caret := _CARET.fullmatch(line)):
        message.width = len(caret["run"])
        message.text = caret["text"].strip()


def _placed(
    message: _Message, sources: Callable[[str], SourceText | None], rename: Callable[[str], str]
) -> Diagnostic:
    """Turn a message into a diagnostic about the user's text."""
    title = _readable(message.title, rename)
    text = _readable(message.text, rename)
    if not message.line:
        return Diagnostic(message.severity, message.code, title)
    source = sources(message.file)
    if source is not None:
        return _in_cell(message, source, title, "" if text == title else text)
    if _KERNEL_FILE.fullmatch(message.file):
        return Diagnostic(message.severity, message.code, text or title, GENERATED, generated=True)
    if _BUILTIN_FILE.fullmatch(message.file):
        return Diagnostic(message.severity, message.code, title, "" if text == title else text)
    ours = _SLANGPY_FILE.fullmatch(message.file)
    return Diagnostic(
        message.severity,
        message.code,
        title if ours else _without_tokens(title),
        cell=ours[1] if ours else _readable(message.file, rename),
        line=message.line,
        column=message.column,
        end_column=message.column + 1 if message.column else 0,
    )


def _in_cell(message: _Message, source: SourceText, title: str, text: str) -> Diagnostic:
    line, column, end = message.line, max(1, message.column), max(1, message.column) + message.width
    own = source.line(line)
    if own is None and source.lines:
        # The end of the text is reported on a line that the cell does not have.
        line = source.first_line + len(source.lines) - 1
        own = source.lines[-1]
        column = end = len(own) + 1
    if own is not None:
        column, end = source.original(line, column), source.original(line, end)
        column = min(column, len(own) + 1)
        end = min(max(end, column + 1), max(len(own) + 1, column + 1))
    near = source.around(line, 0, 0) if message.severity == "note" else source.around(line)
    return Diagnostic(
        message.severity,
        message.code,
        title,
        text,
        source.cell,
        line,
        column,
        end,
        source=near if own is not None else (),
    )


def _readable(text: str, rename: Callable[[str], str]) -> str:
    """Put the user's names into a message, drop its full stop, and bound its length."""
    named = _NAME.sub(lambda m: rename(m[0]), text[: 2 * _LONGEST_MESSAGE]).strip()
    if named.endswith(".") and not named.endswith("..."):
        named = named[:-1]
    if len(text) > _LONGEST_MESSAGE:
        return f"{named[:_LONGEST_MESSAGE]}… ({len(text)} characters)"
    return named


def _without_tokens(title: str) -> str:
    """Cut a message about a foreign file before the first word that could have come out of that file."""
    general = re.split(r"['\"`(:]", title, maxsplit=1)[0].strip()
    return general if general == title else f"{general} …"


def _folded(notes: tuple[Diagnostic, ...]) -> tuple[Diagnostic, ...]:
    """Keep a few notes, those about the user's own text first, and count the others."""
    if len(notes) <= _MOST_NOTES:
        return notes
    own = [n for n in notes if n.source and n.code != "E40015"][:_MOST_NOTES]  # E40015 counts, as we do
    foreign = [
        n for n in notes if not n.source and n.code != "E40018"
    ]  # E40018 is why a candidate does not match
    kept = [*own, *foreign[: max(0, _MOST_NOTES // 2 - len(own))]]
    return (*kept, Diagnostic("note", "", f"{len(notes) - len(kept)} more notes of the compiler"))
