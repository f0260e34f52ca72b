"""Reading the parameters of a function: `(float x, no_diff out float3 y[2] : SEMANTIC = 0)`."""

from __future__ import annotations

from slanglab.text.outline import Direction, Parameter
from slanglab.text.reading.words import Words

__all__ = ["declared_type", "read_parameters"]

_DIRECTIONS: dict[str, Direction] = {
    "in": "in",
    "out": "out",
    "inout": "inout",
    "ref": "inout",
    "constref": "in",
}
_WORDS = """
no_diff const uniform borrow __ref __constref row_major column_major precise nointerpolation noperspective centroid sample
linear globallycoherent volatile unorm snorm groupshared let vertices indices primitives payload
"""
_MODIFIERS = frozenset(_WORDS.split())
_SHAPES = frozenset(("point", "line", "triangle", "lineadj", "triangleadj"))


def read_parameters(words: Words, start: int, end: int) -> tuple[tuple[Parameter, ...], list[int]]:
    """Read the parameters between two indices.

    Parameters
    ----------
    words : Words
    start, end : int
        Behind the `(`, and at the `)`.

    Returns
    -------
    parameters : tuple of Parameter
    errors : list of int
        Indices of the tokens that made no sense.
    """
    found: list[Parameter] = []
    errors: list[int] = []
    for first, last in words.split(start, end):
        parameter, stopped = _parameter(words, first, last)
        if stopped < last:
            errors.append(stopped)
        if parameter is not None:
            found.append(parameter)
    if len(found) == 1 and found[0].type == "void" and not found[0].name:
        return (), errors
    return tuple(found), errors


def _parameter(words: Words, i: int, end: int) -> tuple[Parameter | None, int]:
    """Read one parameter; return it and the index of the first token that does not belong to it."""
    direction: Direction = "in"
    no_diff = constant = False
    while i < end:
        word = words.word(i)
        if word == "[" and words.pair[i] > i:
            i = words.pair[i] + 1
        elif word in _DIRECTIONS and words.word(i + 1) != ":":
            # `in out` means inout.
            direction = (
                "inout"
                if {direction, word} == {"in", "out"} and words.word(i - 1) == "in"
                else _DIRECTIONS[word]
            )
            i += 1
        elif (word in _MODIFIERS or (word in _SHAPES and words.is_name(i + 2))) and words.is_name(i + 1):
            direction = "inout" if word == "__ref" else direction
            no_diff, constant = no_diff or word == "no_diff", constant or word == "const"
            i += 1
        else:
            break
    if constant and direction == "inout":
        direction = "in"  # `const ref` is read only
    hinted = words.is_name(i) and words.word(i + 1) == ":" and words.type_end(i) == i + 1
    if hinted:
        name_at, type_start = i, i + 2
        if words.word(type_start) == "no_diff":
            no_diff, type_start = True, type_start + 1
        type_end = i = words.type_end(type_start)
    else:
        type_start, name_at = i, -1
        type_end = words.type_end(i)
        while words.is_modifier(type_start, end):
            type_start += 1
            type_end = words.type_end(type_start)
        i = type_end
        if i < end and words.is_name(i):
            name_at = i
            i += 1
    if type_end == type_start or type_end > end:
        return None, min(i, end - 1)
    written, i = declared_type(words, type_start, type_end, i)
    semantic = ""
    if words.word(i) == ":" and words.is_name(i + 1) and i + 1 < end and not hinted:
        semantic = words.word(i + 1)
        i += 2
        if words.word(i) == "(" and words.pair[i] > i:
            i = words.pair[i] + 1
    default = None
    if words.word(i) == "=" and i < end:
        default = words.source(i + 1, end) or None
        i = end
    place = name_at if name_at >= 0 else type_start
    line, column = words.where.at(words.offset(place))
    name = words.word(name_at) if name_at >= 0 else ""
    return Parameter(name, written, direction, no_diff, default, line, column, semantic), i


def declared_type(words: Words, start: int, end: int, i: int) -> tuple[str, int]:
    """Return a type together with the `[...]` behind the declared name, and the index after them.

    The compiler reads `float x[2][3]` as it reads `float[3][2] x`.
    """
    sizes: list[str] = []
    while words.word(i) == "[" and words.pair[i] > i:
        sizes.append(words.type_text(i, words.pair[i] + 1))
        i = words.pair[i] + 1
    return words.type_text(start, end) + "".join(reversed(sizes)), i
