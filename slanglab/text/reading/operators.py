"""What operators make of the types of their operands, as Slang 2026.12 has it."""

from __future__ import annotations

from slanglab.text.reading import values

__all__ = ["BINARY", "combined", "signed"]

BINARY = {
    "||": 1,
    "&&": 2,
    "|": 3,
    "^": 4,
    "&": 5,
    "==": 6,
    "!=": 6,
    "<": 7,
    "<=": 7,
    ">": 7,
    ">=": 7,
    "<<": 8,
    ">>": 8,
    "+": 9,
    "-": 9,
    "*": 10,
    "/": 10,
    "%": 10,
}
"""The binary operators, and how tightly each binds."""

_TRUTHS = frozenset((1, 2, 6, 7))
_BITS = frozenset((3, 4, 5, 8))
_SHIFT = 8


def combined(precedence: int, one: str, other: str) -> str:
    """Return the type of an operation on two values; empty where it cannot be told."""
    if not one or not other:
        return ""
    if precedence in _TRUTHS:
        return "bool" if values.is_scalar(one) and values.is_scalar(other) else ""
    result = values.promoted(one, other)
    if precedence in _BITS and not values.is_whole_number(result):
        return ""
    if precedence == _SHIFT:
        result = one if values.vector(other) is None else ""
    return result if precedence in _BITS and precedence != _SHIFT else values.counted(result)


def signed(sign: str, type_: str) -> str:
    """Return the type of `-x` and its like; `!` of an integer is an integer."""
    if sign in ("!", "~") and not values.is_whole_number(type_):
        return ""
    return type_ if sign in ("!", "~", "no_diff") else values.counted(type_)
