"""Ranges that stand in the source: `// @slider(min, max, default)`, and Slang Playground's `[playground::SLIDER(default, min, max)]`.

An annotation belongs to a parameter or to a `uniform` global: a comment behind its name on the same line, or either form before it. The
compiler ignores both (seen with slangpy 0.43.1: an attribute that it does not know is no error).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from slanglab.text.symbols import Function, Outline
from slanglab.text.tokens import Positions, Token, scan

__all__ = ["Annotation", "read_annotations"]

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_NUMBERS = rf"\(\s*({_NUMBER}(?:\s*[fF])?(?:\s*,\s*{_NUMBER}(?:\s*[fF])?)*)?\s*\)"
_COMMENT = re.compile(rf"@(slider|color|range)\b\s*(?:{_NUMBERS})?")
_ATTRIBUTE = re.compile(rf"\[\s*playground\s*(?:::|_)\s*(SLIDER|COLOR_PICK)\s*{_NUMBERS}\s*\]")


@dataclass(frozen=True)
class Annotation:
    """What the source says about a parameter.

    Attributes
    ----------
    low, high : float or None
        The ends of the slider.
    start : tuple of float
        The first setting: one number, three for a colour, or none.
    color : bool
        To be chosen as a colour.
    """

    low: float | None = None
    high: float | None = None
    start: tuple[float, ...] = ()
    color: bool = False


def read_annotations(text: str, outline: Outline, function: Function) -> Mapping[str, Annotation]:
    """Return the annotations of a function's parameters and of the uniform globals, by name.

    Parameters
    ----------
    text : str
        The text that `outline` was made of.
    outline : Outline
    function : Function
        One of its functions.
    """
    where = Positions(text)
    tokens = scan(text)
    at = {where.at(token.start): i for i, token in enumerate(tokens)}
    places = [(p.name, p.line, p.column) for p in function.parameters]
    places += [(v.name, v.line, v.column) for v in outline.globals if "uniform" in v.modifiers]
    found: dict[str, Annotation] = {}
    for name, line, column in places:
        index = at.get((line, column))
        if index is not None and (annotation := _read(text, tokens, index, where)) is not None:
            found[name] = annotation
    return found


def _read(text: str, tokens: list[Token], index: int, where: Positions) -> Annotation | None:
    """Return what stands about the name at `index`: behind it up to the end of its line, or before it."""
    line = where.line(tokens[index].start)
    separated = False
    for token in tokens[index + 1 :]:
        # Behind the separator the next declaration begins, and what stands there is its own.
        if where.line(token.start) != line or token.text == "{" or (separated and token.kind != "comment"):
            break
        if token.kind == "comment" and (found := _comment(token.text)) is not None:
            # `float a, /* @slider(…) */ float b`: the comment belongs to what follows it.
            behind = text[token.end : (text + "\n").index("\n", token.end)].strip()
            if not separated or not behind or behind.startswith(")"):
                return found
        separated = separated or token.text in (",", ";")
    return _before(text, tokens, index)


def _before(text: str, tokens: list[Token], index: int) -> Annotation | None:
    """Return what stands between the separator before a declaration and its name."""
    depth = 0
    for i in range(index - 1, -1, -1):
        token = tokens[i]
        if token.text == "]":
            depth += 1
        elif token.text == "[":
            depth -= 1
            if match := _ATTRIBUTE.match(text, token.start):
                return _annotation(match[1], match[2])
        elif depth == 0 and token.text in (",", "(", ";", "{", "}"):
            return None
        elif token.kind == "comment" and (found := _comment(token.text)) is not None:
            # A comment on the line of the parameter before belongs to that one.
            start = text.rfind("\n", 0, token.start) + 1
            return found if not text[start : token.start].strip(" \t([") else None
    return None


def _comment(text: str) -> Annotation | None:
    match = _COMMENT.search(text)
    return None if match is None else _annotation(match[1], match[2])


def _annotation(kind: str, numbers: str | None) -> Annotation | None:
    given = tuple(float(n.strip().rstrip("fF")) for n in numbers.split(",")) if numbers else ()
    if kind in ("COLOR_PICK", "color"):
        return Annotation(start=given if len(given) in (3, 4) else (), color=True)
    if kind == "SLIDER":  # the default stands first there
        return Annotation(given[1], given[2], given[:1]) if len(given) == 3 else None
    if len(given) < 2:
        return None
    return Annotation(given[0], given[1], given[2:3])
