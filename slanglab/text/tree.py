"""The statements of a function's body as a tree: blocks, branches, loops, and what leaves them.

Words become statements by their brackets and keywords alone; what lies inside an expression stays a stretch of tokens. The grammar of
tree-sitter cannot be used for this: it does not read a body with `no_diff`, `int[2] a` or two attributes in a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from slanglab.text.reading.words import Words

__all__ = ["Statement", "StatementKind", "read_statements", "walk"]

StatementKind = Literal[
    "block",
    "if",
    "for",
    "while",
    "do",
    "switch",
    "case",
    "return",
    "break",
    "continue",
    "discard",
    "plain",
]

_DEEPEST = 150
"""Statements inside each other; what lies deeper is one plain statement. It keeps hostile text from exhausting the stack."""

_DECLARES_TYPE = frozenset(("struct", "class", "enum", "interface", "extension"))
_LEAVES = {"return": "return", "break": "break", "continue": "continue", "discard": "discard"}


@dataclass(frozen=True)
class Statement:
    """One statement.

    Attributes
    ----------
    kind : str
        "plain" is a declaration, an expression, or whatever is not told apart.
    start, end : int
        Its tokens, attributes included, end exclusive.
    keyword : int
        The token that it begins with, behind attributes and labels.
    attributes : tuple of str
        As written, without brackets: `MaxIters(8)`.
    condition : (int, int) or None
        The tokens of what an `if`, a loop or a `switch` asks; None where there is nothing, as in `for (;;)`.
    init, step : (int, int) or None
        The first and the third part of a `for`.
    body : tuple of Statement
        What a block, a loop or a `switch` holds; a single statement without braces counts like a block of one. For an `if`
        what is done where the condition holds.
    otherwise : tuple of Statement
        What an `if` does else.
    unrolled : bool
        True for a loop that the compiler unrolls: `[ForceUnroll]` or `$for`.
    """

    kind: StatementKind
    start: int
    end: int
    keyword: int
    attributes: tuple[str, ...] = ()
    condition: tuple[int, int] | None = None
    init: tuple[int, int] | None = None
    step: tuple[int, int] | None = None
    body: tuple[Statement, ...] = ()
    otherwise: tuple[Statement, ...] = ()
    unrolled: bool = False

    @property
    def is_loop(self) -> bool:
        """True for `for`, `while` and `do`."""
        return self.kind in ("for", "while", "do")

    def attribute(self, name: str) -> str | None:
        """Return what an attribute holds between its parentheses, empty where it has none; None where it is not there."""
        for written in self.attributes:
            word, _, rest = written.partition("(")
            if word.strip().lower() == name.lower():
                return rest.rstrip().removesuffix(")").strip()
        return None


def read_statements(words: Words, start: int, end: int) -> tuple[Statement, ...]:
    """Read the statements of a body.

    Parameters
    ----------
    words : Words
    start, end : int
        Its tokens, braces included, end exclusive: the result of `slanglab.text.reading.bodies.body_of`.

    Returns
    -------
    tuple of Statement
        In the order of the text. Nothing raises; what makes no sense becomes plain statements.
    """
    return _block(words, start + 1, end - 1, 0)


def walk(
    statements: Sequence[Statement], above: tuple[Statement, ...] = ()
) -> Iterator[tuple[Statement, tuple[Statement, ...]]]:
    """Yield each statement with those that it stands in, outermost first, in the order of the text."""
    for statement in statements:
        yield statement, above
        inner = (*above, statement)
        yield from walk(statement.body, inner)
        yield from walk(statement.otherwise, inner)


def _block(words: Words, i: int, end: int, depth: int) -> tuple[Statement, ...]:
    found = []
    while i < end:
        statement = _statement(words, i, end, depth)
        found.append(statement)
        i = max(statement.end, i + 1)
    return tuple(found)


def _statement(words: Words, start: int, end: int, depth: int) -> Statement:
    """Read the statement that begins at `start`."""
    attributes: list[str] = []
    i = start
    while i < end and words.word(i) == "[" and words.pair[i] > i:
        inner = (i + 1, words.pair[i])
        if words.word(i + 1) == "[" and words.pair[i + 1] == words.pair[i] - 1:
            inner = (i + 2, words.pair[i] - 1)
        attributes += [words.source(a, b) for a, b in words.split(*inner)]
        i = words.pair[i] + 1
    while words.is_name(i) and words.word(i + 1) == ":" and i + 1 < end:
        i += 2  # a label
    counted = words.word(i) == "$" and words.word(i + 1) == "for"
    if counted:
        i += 1
    word = words.word(i)
    if depth > _DEEPEST or i >= end:
        return Statement("plain", start, _plain_end(words, i, end), i, tuple(attributes))
    if word == "{" and words.pair[i] > i:
        inside = _block(words, i + 1, min(words.pair[i], end), depth + 1)
        return Statement("block", start, min(words.pair[i] + 1, end), i, tuple(attributes), body=inside)
    if word in ("if", "for", "while", "switch") and words.word(i + 1) == "(" and words.pair[i + 1] > i:
        return _headed(words, start, i, end, depth, tuple(attributes), counted)
    if word == "do":
        return _do(words, start, i, end, depth, tuple(attributes))
    if word in ("__target_switch", "__stage_switch") and words.word(i + 1) == "{":
        inner_block = _statement(words, i + 1, end, depth + 1)
        return Statement("switch", start, inner_block.end, i, tuple(attributes), body=(inner_block,))
    if word in ("case", "default"):
        after = i + 1
        while after < end and words.word(after) not in (":", ";", "}"):
            after = words.skip(after, end)
        return Statement(
            "case", start, min(after + (words.word(after) == ":"), end), i, condition=(i + 1, after)
        )
    kind = _LEAVES.get(word, "plain")
    return Statement(
        kind,  # type: ignore[arg-type]  # the values of _LEAVES are kinds
        start,
        _plain_end(words, i, end),
        i,
        tuple(attributes),
    )


def _headed(
    words: Words, start: int, i: int, end: int, depth: int, attributes: tuple[str, ...], counted: bool
) -> Statement:
    """Read `if (...)`, `for (...)`, `while (...)` or `switch (...)` at `i`."""
    word, close = words.word(i), words.pair[i + 1]
    body, after = _inside(words, close + 1, end, depth)
    if word == "if":
        otherwise: tuple[Statement, ...] = ()
        if words.word(after) == "else" and after < end:
            otherwise, after = _inside(words, after + 1, end, depth)
        return Statement(
            "if", start, after, i, attributes, _part(i + 2, close), body=body, otherwise=otherwise
        )
    if word != "for":
        kind: StatementKind = "while" if word == "while" else "switch"
        unrolled = kind == "while" and _unrolled(attributes)
        return Statement(kind, start, after, i, attributes, _part(i + 2, close), body=body, unrolled=unrolled)
    parts: list[tuple[int, int] | None] = []
    begin = at = i + 2
    while at < close:
        if words.word(at) == ";":
            parts.append(_part(begin, at))
            begin = at + 1
        at = words.skip(at, close)
    parts += [_part(begin, close), None, None]
    return Statement(
        "for",
        start,
        after,
        i,
        attributes,
        parts[1],
        parts[0],
        parts[2],
        body,
        unrolled=counted or _unrolled(attributes),
    )


def _inside(words: Words, i: int, end: int, depth: int) -> tuple[tuple[Statement, ...], int]:
    """Read what a branch or a loop holds: the statements of a block, or one statement; return the index after it too."""
    if i >= end:
        return (), end
    inside = _statement(words, i, end, depth + 1)
    return (inside.body if inside.kind == "block" else (inside,)), inside.end


def _do(words: Words, start: int, i: int, end: int, depth: int, attributes: tuple[str, ...]) -> Statement:
    body, after = _inside(words, i + 1, end, depth)
    condition = None
    if words.word(after) == "while" and words.word(after + 1) == "(" and words.pair[after + 1] > after:
        close = words.pair[after + 1]
        condition = _part(after + 2, close)
        after = min(close + 1 + (words.word(close + 1) == ";"), end)
    return Statement("do", start, after, i, attributes, condition, body=body, unrolled=_unrolled(attributes))


def _part(start: int, end: int) -> tuple[int, int] | None:
    return (start, end) if start < end else None


def _unrolled(attributes: tuple[str, ...]) -> bool:
    return any(a.partition("(")[0].strip().lower() in ("forceunroll", "unroll") for a in attributes)


def _plain_end(words: Words, i: int, end: int) -> int:
    """Return the index after the `;` of a plain statement."""
    declares_type = words.word(i) in _DECLARES_TYPE
    while i < end:
        word = words.word(i)
        if word == ";":
            return i + 1
        if word == "}":
            return i + 1  # a stray one
        i = words.pair[i] + 1 if words.pair[i] > i else i + 1
        if declares_type and word == "{" and words.word(i) != ";":
            return min(i, end)
    return end
