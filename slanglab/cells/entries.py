"""Doors for functions that slangpy cannot call by their own name.

slangpy refuses overloaded functions, confuses a function named like one of Slang's own with all of Slang's, and takes parameters called
`self` or `_result` for its own. For each such function a small one under a name of its own is appended to the cell, which calls it;
the Slang compiler, which has no such trouble, does the rest.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from slanglab.text.intrinsics import INTRINSICS
from slanglab.text.keywords import CALL_WORDS
from slanglab.text.symbols import Function, Outline

__all__ = ["DOORS", "Entry", "entries", "text"]

DOORS = "/doors"
"""Ends the file name of the doors in the compiler's messages: a message there is about none of the user's lines."""


@dataclass(frozen=True)
class Entry:
    """One door: the name that slangpy calls, and the function behind it."""

    name: str
    function: Function


def entries(
    parsed: Outline, internal: str, also: frozenset[str] = frozenset()
) -> dict[str, tuple[Entry, ...]]:
    """Return the doors that the functions of a cell need, by the qualified name of the function.

    Parameters
    ----------
    parsed : Outline
    internal : str
        The version's name, part of each door's: doors are visible to importers, which may have some of their own.
    also : frozenset of str
        Qualified names of functions that turned out to need one: Slang has more functions of that name than are known here.
    """
    candidates = [f for f in parsed.functions if not f.generics and not f.in_struct and not f.is_entry_point]
    count = Counter(f.qualified for f in candidates)
    found: dict[str, list[Entry]] = {}
    for function in candidates:
        overloaded = count[function.qualified] > 1
        intrinsic = function.name in INTRINSICS
        reserved = any(p.name in CALL_WORDS for p in function.parameters)
        if overloaded or intrinsic or reserved or function.qualified in also:
            doors = found.setdefault(function.qualified, [])
            doors.append(
                Entry(f"{function.qualified.replace('::', '_')}__{internal}_door{len(doors)}", function)
            )
    return {name: tuple(doors) for name, doors in found.items()}


def _declare(entry: Entry) -> str:
    function = entry.function
    parameters = []
    for i, p in enumerate(function.parameters):
        words = ["no_diff"] if p.no_diff else []
        if p.direction != "in":
            words.append(p.direction)
        parameters.append(" ".join([*words, p.type, f"p{i}"]))
    arguments = ", ".join(f"p{i}" for i in range(len(function.parameters)))
    attribute = "[Differentiable] " if function.differentiable else ""
    result = function.result or "void"
    body = f"{'' if result == 'void' else 'return '}{function.qualified}({arguments});"
    return f"{attribute}{result} {entry.name}({', '.join(parameters)}) {{ {body} }}"


def text(doors: dict[str, tuple[Entry, ...]], internal: str) -> str:
    """Return the declarations of all doors, to stand behind the cell's own text."""
    if not doors:
        return ""
    lines = [_declare(entry) for group in doors.values() for entry in group]
    return f'\n#line 1 "{internal}{DOORS}"\n' + "\n".join(lines) + "\n"
