"""The text of a cell as people paste it: made regular, or refused with the place.

What the compiler would read wrongly, drop or accept in silence is found here: a NUL ends the text for it, a no-break space is a
letter of a name, a comment without an end hides everything after it.
"""

from __future__ import annotations

import keyword
import re
from bisect import bisect_right
from typing import NamedTuple

from slanglab.text.characters import (
    CONTROL,
    INVISIBLE,
    REORDERS,
    describe,
    instead,
    looks_like,
    odd_in_code,
    python_name,
)
from slanglab.text.diagnostics import Diagnostic, Severity, SourceText
from slanglab.text.edits import RewrittenText
from slanglab.text.hazards import find_hazards
from slanglab.text.imports import rewrite_imports
from slanglab.text.keywords import RESERVED_MODULES, RESERVED_NAMES
from slanglab.text.tokens import Positions, Token, code, scan

__all__ = ["RewrittenText", "clean", "python_name", "rewrite_imports", "valid_name"]

_MOST = 20  # messages about one text; what is behind one wrong paste is seen from fewer
_LONGEST_NAME = 100

_SPACES = re.compile("[\v\f\x85\u2028\u2029]")
"""White space that some programs take for the end of a line and neither editors nor Slang do."""
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
_GAP = re.compile(r"[^\x00-\x7f]+")


def clean(text: str, first_line: int = 1) -> tuple[str, list[Diagnostic]]:
    """Make the text of a cell regular, and say what in it cannot be compiled as it stands.

    A byte order mark goes, line ends become newlines, form feed, vertical tab and Unicode's line separators become spaces
    outside strings, and the text ends with one newline; nothing else changes. Lines are those of the editor: JupyterLab,
    like Python, ends a line at LF, CR LF and CR only.

    Parameters
    ----------
    text : str
        As typed or pasted.
    first_line : int
        The number of the text's first line in the notebook cell.

    Returns
    -------
    text : str
        `clean` of it is the same text.
    diagnostics : list of Diagnostic
        In the order of the text, errors and warnings, `cell` left empty. A text with an error is not to be compiled.

    Notes
    -----
    Codes: "control-character", "lone-surrogate", "odd-character", "text-order" (characters that are invisible or change the order
    in which text is shown: an error in code, a warning in comments and strings; see CVE-2021-42574), "look-alike",
    "unterminated-comment", "unterminated-string"; "include-form", "import-form", "macro-name" and "broken-word" (files that the
    compiler would read unseen) and "too-large" (what would end the kernel or not end).
    """
    text = text.lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")
    if not text:
        return "", []
    text += "\n"
    tokens = scan(text)
    if _SPACES.search(text):
        text = _with_spaces(text, tokens)
        tokens = scan(text)
    found = _unterminated(text, tokens)
    if not text.isascii() or CONTROL.search(text):
        found += _characters(text, tokens)
    found += [
        _Found(h.start, h.end, "error", h.code, h.title, h.text, h.hint) for h in find_hazards(text, tokens)
    ]
    return text, _diagnostics(text, sorted(found), first_line)


def _with_spaces(text: str, tokens: list[Token]) -> str:
    """Replace what is white space in every sense but Slang's; strings keep their content."""
    pieces, at = [], 0
    for token in _flat(text, tokens):
        if token.kind in ("string", "character"):
            pieces += [_SPACES.sub(" ", text[at : token.start]), token.text]
            at = token.end
    pieces.append(_SPACES.sub(" ", text[at:]))
    return "".join(pieces)


def _flat(text: str, tokens: list[Token]) -> list[Token]:
    """Return tokens with those inside directives in the place of the directives."""
    if all(token.kind != "directive" for token in tokens):
        return tokens
    flat: list[Token] = []
    for token in tokens:
        if token.kind == "directive":
            flat += scan(text, token.start, token.end, directives=False)
        else:
            flat.append(token)
    return flat


class _Found(NamedTuple):
    """One problem; sorts by its place."""

    start: int
    end: int
    severity: Severity
    code: str
    title: str
    text: str
    hint: str


def _unterminated(text: str, tokens: list[Token]) -> list[_Found]:
    """Find comments and strings that the text, or their line, ends before. Slang accepts the comments."""
    found = []
    opened = [token for token in tokens if not token.closed]
    dead = [stretch for stretch in code(text, tokens).dead] if opened else []
    for token in opened:
        if token.kind == "comment":
            what, mark = "comment", "*/"
        elif _inside(dead, token.start):
            continue  # An apostrophe in prose behind `#if 0` opens nothing.
        else:
            what, mark = "string", token.text[0] if token.text[0] in "\"'" else token.text.split("(")[0][1:]
        end = token.start + 2 if what == "comment" else min(token.end, token.start + len(mark))
        found.append(
            _Found(
                token.start,
                end,
                "error",
                f"unterminated-{what}",
                f"{what} without an end",
                f"this {what} is never closed",
                f"write `{mark}` where it should end",
            )
        )
    return found


def _inside(stretches: list[tuple[int, int]], offset: int) -> bool:
    index = bisect_right(stretches, offset, key=lambda s: s[0]) - 1
    return index >= 0 and offset < stretches[index][1]


def _characters(text: str, tokens: list[Token]) -> list[_Found]:
    """Find characters that do not belong where they stand."""
    found = [_control(text, match) for match in CONTROL.finditer(text)]
    dead = code(text, tokens).dead
    at = 0
    for token in [*_flat(text, tokens), Token("symbol", "", len(text), len(text))]:
        for gap in _GAP.finditer(text, at, token.start):
            stretch = range(gap.start(), gap.end())
            found += (
                _in_text(text, gap.start(), gap.end())
                if _inside(dead, gap.start())
                else _in_code(text, stretch)
            )
        at = token.end
        if token.text.isascii():
            continue
        if token.kind in ("comment", "string", "character") or _inside(dead, token.start):
            found += _in_text(text, token.start, token.end)
        else:
            found += _in_name(text, token)
    return found


def _control(text: str, match: re.Match[str]) -> _Found:
    character, start = match.group(), match.start()
    if "\ud800" <= character <= "\udfff":
        kind, title = "lone-surrogate", "half of a character"
        hint = "delete it; the text was cut or decoded in the wrong place before it was pasted"
    else:
        kind, title = "control-character", "control character"
        hint = "delete it" if character != "\0" else "delete it; the compiler would not read what follows it"
    return _Found(start, start + 1, "error", kind, title, describe(character), hint)


def _in_text(text: str, start: int, end: int) -> list[_Found]:
    """Judge a comment or string: any script is welcome, characters that hide something are named."""
    found = []
    for match in INVISIBLE.finditer(text, start, end):
        character, at = match.group(), match.start()
        if "\ufe00" <= character <= "\ufe0f":
            continue  # chooses between two pictures of the character before it
        neighbours = text[at - 1], text[at + 1] if at + 1 < len(text) else " "
        if character in "\u200c\u200d" and not any(c.isascii() for c in neighbours):
            continue  # joins letters in Persian and Indic scripts, and emoji
        found.append(_hidden(at, character, "warning"))
    return found


def _hidden(at: int, character: str, severity: Severity) -> _Found:
    reorders = character in REORDERS
    title = "text order" if reorders or severity == "warning" else "invisible character"
    what = "changes the order in which the text is shown" if reorders else "is invisible"
    return _Found(at, at + 1, severity, "text-order", title, f"{describe(character)} {what}", "delete it")


def _in_code(text: str, places: range, *, start_of_name: int = -1) -> list[_Found]:
    """Judge characters of code one by one."""
    found = []
    for at in places:
        character = text[at]
        if not odd_in_code(character, first=at == start_of_name) or CONTROL.match(character):
            continue
        if INVISIBLE.match(character):
            found.append(_hidden(at, character, "error"))
            continue
        meant = instead(character)
        if meant is None:
            hint = "delete it, or keep it in a comment"
            if character in "\N{SUPERSCRIPT TWO}\N{SUPERSCRIPT THREE}":
                hint = "write the product itself, for example `x * x`"
        else:
            hint = (
                "write a space" if meant == " " else f"write `{meant}`" if "`" not in meant else "delete it"
            )
        title = "character that is not part of Slang"
        found.append(_Found(at, at + 1, "error", "odd-character", title, describe(character), hint))
    return found


def _in_name(text: str, token: Token) -> list[_Found]:
    places = [match.start() for match in _BEYOND_ASCII.finditer(text, token.start, token.end)]
    found = []
    for at in places:
        found += _in_code(text, range(at, at + 1), start_of_name=token.start)
    if not found and token.kind == "name" and (meant := looks_like(token.text)) is not None:
        odd = next(c for c in token.text if not c.isascii())
        title = "letter that looks like another one"
        words = f"{token.text!r} holds {describe(odd)}"
        found.append(_Found(token.start, token.end, "error", "look-alike", title, words, f"write `{meant}`"))
    return found


def _diagnostics(text: str, found: list[_Found], first_line: int) -> list[Diagnostic]:
    """Turn problems into messages: a run of the same character is one, and there are not more than a page of them."""
    if not found:
        return []
    where = Positions(text)
    shown = SourceText("", tuple(text.split("\n")), first_line)
    runs: list[_Found] = []
    for problem in found:
        last = runs[-1] if runs else None
        if last is not None and last.end == problem.start and last[2:] == problem[2:]:
            runs[-1] = last._replace(end=problem.end)
        else:
            runs.append(problem)
    kept = runs[:_MOST] if any(r.severity == "error" for r in runs[:_MOST]) else _errors_first(runs)
    messages = []
    for run in kept:
        line, column = where.at(run.start)
        line += first_line - 1
        width = min(run.end - run.start, text.find("\n", run.start) - run.start) or 1
        messages.append(
            Diagnostic(
                run.severity,
                run.code,
                run.title,
                run.text,
                line=line,
                column=column,
                end_column=column + width,
                source=shown.around(line),
                hint=run.hint,
            )
        )
    if more := len(runs) - len(kept):
        kinds = ", ".join(sorted({r.code for r in runs}))
        messages.append(Diagnostic("note", "more", f"{more} more places like these ({kinds})"))
    return messages


def _errors_first(runs: list[_Found]) -> list[_Found]:
    """Choose what is shown so that a late error is not lost behind many warnings."""
    errors = [r for r in runs if r.severity == "error"]
    warnings = [r for r in runs if r.severity != "error"]
    return sorted([*errors[:_MOST], *warnings[: max(0, _MOST - len(errors))]])


def valid_name(name: str) -> str | None:
    """Say why a name cannot be that of a module.

    Parameters
    ----------
    name : str
        As given to `%%slang`.

    Returns
    -------
    str or None
        None for a name that both `import NAME;` in Slang and `NAME` in Python accept, otherwise a sentence. Characters that
        cannot be seen stand escaped in it.
    """
    if not name:
        return "a module needs a name"
    short = name if len(name) <= 60 else f"{name[:59]}…"
    quoted = repr(short)
    if len(name) > _LONGEST_NAME:
        return f"{quoted} is too long for a module's name: {len(name)} characters, {_LONGEST_NAME} at most"
    odd = next((c for i, c in enumerate(name) if odd_in_code(c, first=not i) or _not_in_names(c, i)), None)
    if odd is not None:
        place = name.index(odd) + 1
        what = repr(odd) if odd.isascii() and odd.isprintable() else describe(odd)
        return f"{quoted} is no name for a module: {what} at character {place}; use letters, digits and _"
    if (meant := looks_like(name)) is not None:
        return f"{quoted} looks like {meant!r} but holds other letters; write {meant!r}"
    if name in RESERVED_MODULES:
        return f"{quoted} is the name of a module that comes with Slang or slangpy; choose another"
    if name in RESERVED_NAMES:
        return f"{quoted} is a word of the Slang language; choose another name"
    if keyword.iskeyword(python_name(name)):
        return f"{quoted} is a word of the Python language; choose another name"
    if re.search(r"__v\d+$", name) or name.startswith("__") or name == "_":
        return f"{quoted} is kept for internal names; choose another"
    return None


def _not_in_names(character: str, index: int) -> bool:
    return character.isascii() and not (
        character.isalpha() or character == "_" or (index > 0 and character.isdigit())
    )
