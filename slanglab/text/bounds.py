"""`--bounds`: every index of a tensor is compared with the tensor's shape, and one outside makes the call fail.

slangpy does not look: a read past the end gives 0 or a neighbour, a write is lost or lands on a neighbour. Here each index of the text
goes through a function of `shaders/bounds.slang`, which returns it, or the nearest one inside together with a line in the device's
print buffer; `slanglab.engine.outside` reads those lines after the call. The number in the line tells the place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from slanglab.text.accesses import Access, Accesses
from slanglab.text.diagnostics import Diagnostic

__all__ = ["MODULE", "Checks", "Wrap", "checks"]

MODULE = "slanglab_bounds"
"""What the checked text imports: the module in `shaders/bounds.slang`."""

_PAST_THE_SHAPE = frozenset(("read_buffer", "write_buffer", "_data"))
_DEFINE = re.compile(r"#\s*define\b")
_MACRO_ACCESS = re.compile(r"\w\s*\[|\)\s*\[|\.\s*(?:load|store|add)(?:_once|_uniform)?\s*\(")


@dataclass(frozen=True)
class Wrap:
    """What is written around one index; `{site}` in the second part stands for the number of the place."""

    before: str
    after: str
    site: int


@dataclass(frozen=True)
class Checks:
    """The checks of a text.

    Attributes
    ----------
    wraps : dict of (int, int) to Wrap
        By the tokens of the index.
    sites : tuple of Access
        The places, numbered from 0.
    unchecked : tuple of Diagnostic
        The places that cannot be checked, as warnings of code "unchecked-index"; lines count in the text that was read.
    """

    wraps: dict[tuple[int, int], Wrap]
    sites: tuple[Access, ...]
    unchecked: tuple[Diagnostic, ...]


def checks(accesses: Accesses, leave: frozenset[int] = frozenset()) -> Checks:
    """Return the checks of every tensor access of a text.

    Parameters
    ----------
    accesses : Accesses
    leave : frozenset of int
        Lines in which nothing is to be changed; they are named as unchecked.
    """
    wraps: dict[tuple[int, int], Wrap] = {}
    sites: list[Access] = []
    unchecked: list[Diagnostic] = []
    for access in accesses.found:
        if not access.indices:
            continue
        if not access.pure:
            unchecked.append(_unchecked(accesses, access, "the tensor's own expression does something"))
            continue
        if _lines(accesses, access) & leave:
            unchecked.append(_unchecked(accesses, access, "the compiler does not take the check there"))
            continue
        shape = f"{accesses.words.source(*access.base)}.shape"
        for axis, index in enumerate(access.indices):
            if len(access.indices) == 1:
                wraps[index] = Wrap("slanglab_in(", f", {shape}, {{site}})", len(sites))
            else:
                wraps[index] = Wrap("slanglab_at(", f", {shape}, {axis}, {{site}})", len(sites))
        sites.append(access)
    unchecked += _past_the_shape(accesses)
    unchecked += _in_macros(accesses)
    return Checks(wraps, tuple(sites), tuple(sorted(unchecked, key=lambda d: (d.line, d.column))))


def _lines(accesses: Accesses, access: Access) -> frozenset[int]:
    words = accesses.words
    return frozenset(range(words.line(access.base[0]), words.line(accesses.end(access) - 1) + 1))


def _unchecked(accesses: Accesses, access: Access, why: str) -> Diagnostic:
    words = accesses.words
    start, end = words.offset(access.base[0]), words.tokens[accesses.end(access) - 1].end
    return _at(accesses, start, end, f"`{accesses.source(access)}` is not compared with the shape: {why}")


def _past_the_shape(accesses: Accesses) -> Iterator[Diagnostic]:
    """Name the accesses to a tensor's buffer, which have no shape."""
    words = accesses.words
    for i in range(2, words.size):
        if words.word(i) in _PAST_THE_SHAPE and words.word(i - 1) == "." and words.word(i + 1) in "([":
            text = f"`{words.source(i - 2, i + 1)}` indexes the buffer itself, which is not compared with anything"
            yield _at(accesses, words.offset(i - 2), words.tokens[i].end, text)


def _in_macros(accesses: Accesses) -> Iterator[Diagnostic]:
    """Name the macros that may index a tensor: what they become is not seen here."""
    for directive in accesses.words.code.directives:
        if _DEFINE.match(directive.text) and _MACRO_ACCESS.search(directive.text):
            first = directive.text.split("\n", 1)[0]
            yield _at(
                accesses,
                directive.start,
                directive.start + len(first),
                "what this macro indexes is not compared with a shape",
            )


def _at(accesses: Accesses, start: int, end: int, text: str) -> Diagnostic:
    line, column = accesses.words.where.at(start)
    end_line, end_column = accesses.words.where.at(end)
    return Diagnostic(
        "warning",
        "unchecked-index",
        "an index is not checked",
        text,
        line=line,
        column=column,
        end_column=end_column if end_line == line else column + 1,
        hint="the option --bounds leaves this line as it is",
    )
