"""Which tensors a kernel reads and which it writes, as far as its text tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slanglab.text.outline import Function, Outline
from slanglab.text.reading.bodies import body_of
from slanglab.text.reading.words import Words

__all__ = ["Use", "uses"]

_ASSIGNS = frozenset(("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "++", "--"))
_READS = frozenset(("load", "loadOnce"))
_WRITES = frozenset(("store", "storeOnce"))
_SIZES = frozenset(("size", "stride", "dims", "dim", "data_ptr"))
_DEEPEST = 8


@dataclass(frozen=True)
class Use:
    """What a function does with a tensor.

    Attributes
    ----------
    reads, writes : bool
    known : bool
        False where the tensor goes somewhere that the text does not show.
    """

    reads: bool = False
    writes: bool = False
    known: bool = True

    def __or__(self, other: Use) -> Use:
        return Use(self.reads or other.reads, self.writes or other.writes, self.known and other.known)


def uses(sources: Sequence[tuple[str, Outline]], function: Function) -> dict[str, Use]:
    """Return what a function does with each of its parameters.

    Parameters
    ----------
    sources : sequence of (str, Outline)
        The texts in which it, and what it calls, may stand; its own first.
    function : Function
    """
    words = [(Words(text), outline) for text, outline in sources]
    return _Reader(words).uses(function, 0)


class _Reader:
    def __init__(self, sources: Sequence[tuple[Words, Outline]]) -> None:
        self._sources = sources

    def uses(self, function: Function, depth: int) -> dict[str, Use]:
        source = next(((w, o) for w, o in self._sources if function in o.functions), None)
        found = {p.name: Use() for p in function.parameters}
        body = (
            body_of(source[0], function.line, function.column)
            if source is not None and function.has_body
            else None
        )
        if source is None or body is None or depth > _DEEPEST:
            return {name: Use(known=False) for name in found}
        words = source[0]
        for i in range(*body):
            name = words.word(i)
            if name in found and words.is_name(i) and words.word(i - 1) not in (".", "::"):
                found[name] |= self._use(words, i, body, depth)
        return found

    def _use(self, words: Words, i: int, body: tuple[int, int], depth: int) -> Use:
        following = words.word(i + 1)
        if following == "[" and words.pair[i + 1] > i:
            after = words.word(words.pair[i + 1] + 1)
            changes = after in _ASSIGNS or words.word(i - 1) in ("++", "--")
            return Use(reads=not changes or after != "=", writes=changes)
        if following == ".":
            method = words.word(i + 2)
            if method in _READS or method in _SIZES:
                return Use(reads=method in _READS)
            if method in _WRITES:
                return Use(writes=True)
            if method.startswith("Interlocked"):
                return Use(reads=True, writes=True)
            return Use(known=False)
        return self._passed(words, i, body, depth)

    def _passed(self, words: Words, i: int, body: tuple[int, int], depth: int) -> Use:
        """Return what a function does with a tensor that it is given whole."""
        before, after = words.word(i - 1), words.word(i + 1)
        if before not in ("(", ",") or after not in (",", ")"):
            return Use(known=False)
        opener = next(
            (k for k in range(i - 1, body[0], -1) if words.word(k) == "(" and words.pair[k] > i), None
        )
        if opener is None or not words.is_name(opener - 1):
            return Use(known=False)
        place = next(n for n, (a, b) in enumerate(words.split(opener + 1, words.pair[opener])) if a <= i < b)
        called = [f for _, o in self._sources for f in o.functions if f.name == words.word(opener - 1)]
        if len(called) != 1 or place >= len(called[0].parameters):
            return Use(known=False)
        return self.uses(called[0], depth + 1)[called[0].parameters[place].name]
