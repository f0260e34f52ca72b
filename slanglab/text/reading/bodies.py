"""Reading the body of a function: which variables it declares, of what type, and how far they can be seen."""

from __future__ import annotations

from dataclasses import dataclass

from slanglab.text.keywords import MODIFIERS
from slanglab.text.reading.parameters import declared_type
from slanglab.text.reading.words import Words

__all__ = ["Local", "body_of", "read_locals"]

_BEFORE_STATEMENT = frozenset(("{", "}", ";", ":"))
_AFTER_NAME = frozenset(("=", ";", ",", "[", "{"))
_HEADED = frozenset(("for", "while", "switch"))


@dataclass(frozen=True)
class Local:
    """One variable that a body declares.

    Attributes
    ----------
    name : str
    type : str
        As written; empty for `let x = ...` and `var x = ...`.
    value : (int, int) or None
        The tokens of its initial value, end exclusive.
    start, end : int
        The tokens between which the name means this variable.
    """

    name: str
    type: str
    value: tuple[int, int] | None
    start: int
    end: int


def body_of(words: Words, line: int, column: int) -> tuple[int, int] | None:
    """Return the tokens of the body of the function whose name stands at a place, braces included; None without a body."""
    at = _at(words, line, column)
    if at is None:
        return None
    while at < words.size and words.word(at) not in ("(", ";", "{"):
        at += 1
    if words.word(at) != "(" or words.pair[at] < 0:
        return None
    at = words.pair[at] + 1
    while at < words.size and words.word(at) not in ("{", ";", "}"):
        at = words.pair[at] + 1 if words.pair[at] > at else at + 1
    if words.word(at) != "{" or words.pair[at] < 0:
        return None
    return at, words.pair[at] + 1


def _at(words: Words, line: int, column: int) -> int | None:
    """Return the token that begins at a place."""
    low, high = 0, words.size
    while low < high:
        middle = (low + high) // 2
        if words.where.at(words.offset(middle)) < (line, column):
            low = middle + 1
        else:
            high = middle
    return low if low < words.size and words.where.at(words.offset(low)) == (line, column) else None


def read_locals(words: Words, start: int, end: int) -> list[Local]:
    """Read the variables that a body declares.

    Parameters
    ----------
    words : Words
    start, end : int
        Its tokens, braces included, end exclusive.

    Returns
    -------
    list of Local
        In the order of the text.
    """
    found: list[Local] = []
    blocks = [end]  # where the open blocks end, innermost last
    i = start + 1
    while i < end - 1:
        while len(blocks) > 1 and i >= blocks[-1]:
            blocks.pop()
        word = words.word(i)
        if word == "{" and words.pair[i] > i:
            blocks.append(words.pair[i] + 1)
        elif words.word(i - 1) in _BEFORE_STATEMENT:
            i = _declaration(words, i, blocks[-1], found)
            continue
        elif words.word(i - 1) == "(" and words.word(i - 2) in ("for", "if", "while"):
            i = _declaration(words, i, min(blocks[-1], _statement_end(words, i - 2)), found)
            continue
        i += 1
    return found


def _declaration(words: Words, i: int, end: int, found: list[Local]) -> int:
    """Read one declaration that may begin at `i`; return the index at which to go on."""
    start = i
    while words.word(i) in MODIFIERS:
        i += 1
    written = (i, i)
    if words.word(i) in ("let", "var") and words.is_name(i + 1):
        name = i + 1
        if words.word(name + 1) == ":":
            written = (name + 2, words.type_end(name + 2))
        after = max(name + 1, written[1])
    else:
        written = (i, words.type_end(i))
        name = written[1]
        if name == i or not words.is_name(name) or words.word(name + 1) not in _AFTER_NAME:
            return start + 1
        if words.word(name - 1) in ("*", "&", "?") and words.word(start - 1) == ":":
            return start + 1  # `c ? a : b * d;` declares nothing
        after = name + 1
    while True:
        type_, after = declared_type(words, *written, after)
        value = None
        if words.word(after) == "=":
            stop = after + 1
            while stop < end and words.word(stop) not in (",", ";", ")", "}"):
                stop = words.skip(stop, end)
            value = (after + 1, stop)
            after = stop
        found.append(Local(words.word(name), type_ if type_ != "auto" else "", value, after, end))
        if words.word(after) != "," or not words.is_name(after + 1):
            break
        name, after = after + 1, after + 2
    # The values may hold blocks (of a lambda): they are read again for what they declare.
    return name + 1


def _statement_end(words: Words, i: int) -> int:
    """Return the index after the statement that begins at `i`."""
    ifs = 0  # open `if` statements whose `else` may follow
    while i < words.size:
        word = words.word(i)
        if word == "[" and words.pair[i] > i:
            i = words.pair[i] + 1
            continue
        if word in _HEADED or word == "if":
            ifs += word == "if"
            if words.pair[i + 1 : i + 2] and words.pair[i + 1] > i:
                i = words.pair[i + 1] + 1
                continue
        if word == "do":
            i += 1
            continue
        if word == "{" and words.pair[i] > i:
            i = words.pair[i] + 1
            if words.word(i) == "while" and words.word(words.pair[i + 1] + 1) == ";":
                i = words.pair[i + 1] + 2  # of `do { } while (...);`
        else:
            while i < words.size and words.word(i) not in (";", "}"):
                i = words.pair[i] + 1 if words.pair[i] > i else i + 1
            i += words.word(i) == ";"
        if not (ifs and words.word(i) == "else"):
            return i
        ifs -= 1
        i += 1
    return i
