"""Names in Slang's own spelling: which of them may be given to slangpy's look-up.

`module["gen<float3>"]` and `module["Tensor<float, 1>"]` go to the compiler's look-up of functions and types, which crashes the process
on text that means nothing (`-`, `a<b`, `matrix<S, int>`). So a name is read here first, and only one that is known to mean something
goes on.
"""

from __future__ import annotations

import re

from slanglab.scalars import SCALARS
from slanglab.text.symbols import Outline

__all__ = ["means_something"]

_WORD = re.compile(r"\s*(?:(?P<name>[^\W\d]\w*(?:::[^\W\d]\w*)*)|(?P<number>\d+)|(?P<mark>[<>,\[\]]))\s*")
_BUILT_IN = re.compile(rf"(?:{'|'.join(SCALARS)})(?:[1-4](?:x[1-4])?)?|void")
_VALUE = re.compile(r"let\b|(?!each\b)\w+\s+\w")  # `let N : int`, or `int N`

# The generic types of Slang and slangpy that calls and tensors are made of: for each the kinds of its arguments,
# `s` a scalar type, `t` any type, `n` a number; `v` a number, true or false.
_GENERIC = {
    "vector": "sn",
    "matrix": "snn",
    "Array": "tn",
    **dict.fromkeys(
        (
            *("Tensor", "WTensor", "RWTensor", "AtomicTensor", "ITensor", "IWTensor", "IRWTensor"),
            *("DiffTensor", "WDiffTensor", "RWDiffTensor", "IDiffTensor", "IWDiffTensor", "IRWDiffTensor"),
            *("PrimalTensor", "WPrimalTensor", "RWPrimalTensor"),
        ),
        "tn",
    ),
    **dict.fromkeys(("StructuredBuffer", "RWStructuredBuffer"), "t"),
}
_DEEPEST = 8


def _kinds(generics: tuple[str, ...]) -> str:
    """Return the kinds of the arguments that `<T, let N : int>` takes: of the wrong kind, one crashes the look-up."""
    return "".join("v" if _VALUE.match(written) else "t" for written in generics)


class _Reader:
    """Reads one name; every method returns whether what it read means something."""

    def __init__(self, text: str, parsed: Outline) -> None:
        self._words: list[re.Match[str]] = []
        self._at = 0
        position = 0
        while position < len(text) and (match := _WORD.match(text, position)) is not None:
            self._words.append(match)
            position = match.end()
        self.whole = bool(text) and position == len(text)
        self._functions = {f.qualified: _kinds(f.generics) for f in parsed.functions}
        self._structs = {s.qualified: _kinds(s.generics) for s in parsed.structs}

    def _next(self, group: str) -> str | None:
        if self._at < len(self._words) and (found := self._words[self._at][group]) is not None:
            self._at += 1
            return found
        return None

    def _mark(self, mark: str) -> bool:
        if self._at < len(self._words) and self._words[self._at]["mark"] == mark:
            self._at += 1
            return True
        return False

    def name(self) -> bool:
        """Read the whole text as a function or type."""
        first = self._words[0]["name"] if self._words else None
        if first in self._functions:
            self._at = 1
            return self._arguments(self._functions[first]) and self._ended()
        return self._type(0) and self._ended()

    def _ended(self) -> bool:
        return self._at == len(self._words)

    def _type(self, depth: int) -> bool:
        """Read a type, with the lengths of an array behind it: `float2[4]`."""
        if not self._element(depth):
            return False
        while self._mark("["):
            if self._next("number") is None or not self._mark("]"):
                return False
        return True

    def _element(self, depth: int) -> bool:
        found = self._next("name")
        if found is None or depth > _DEEPEST:
            return False
        if found in self._structs:
            return self._arguments(self._structs[found], depth)
        if found in _GENERIC:
            return self._arguments(_GENERIC[found], depth, needed=True)
        return _BUILT_IN.fullmatch(found) is not None

    def _arguments(self, kinds: str, depth: int = 0, *, needed: bool = False) -> bool:
        """Read `<…>` with arguments of these kinds, or nothing where there may be nothing."""
        if not self._mark("<"):
            return not needed
        for i, kind in enumerate(kinds):
            if i and not self._mark(","):
                return False
            if not self._argument(kind, depth + 1):
                return False
        return bool(kinds) and self._mark(">")

    def _argument(self, kind: str, depth: int) -> bool:
        if kind == "n":
            return self._next("number") is not None
        if kind == "s":
            return self._next("name") in SCALARS
        if kind == "v":
            return self._next("number") is not None or self._truth()
        return self._type(depth)

    def _truth(self) -> bool:
        if self._at < len(self._words) and self._words[self._at]["name"] in ("true", "false"):
            self._at += 1
            return True
        return False


def means_something(name: str, parsed: Outline) -> bool:
    """Tell whether `name` is a function or type that a cell declares, or a type of Slang's own, with arguments that fit.

    Parameters
    ----------
    name : str
        Such as "ns::f", "S::method", "gen<float3>" or "Tensor<float, 1>".
    parsed : Outline
        What the cell declares.
    """
    reader = _Reader(name, parsed)
    return reader.whole and reader.name()
