"""Where the functions of a text read and write tensors, and with what indices.

Why the word reader and not a grammar: tree-sitter-slang 0.3.1 fails on `no_diff f(x)`, `int[2] a` and `__target_switch` inside functions
(52 of 981 bodies in the Slang files that slangpy 0.43.1 ships), and its trees have no types. `slanglab.text.reading` reads
declarations without it already; indices need little more: the variables of a body, and the types of simple expressions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from slanglab.text.outline import Function, Outline
from slanglab.text.reading import values
from slanglab.text.reading.bodies import body_of, read_locals
from slanglab.text.reading.expressions import Expressions, Names
from slanglab.text.reading.values import TensorType
from slanglab.text.reading.words import Words

__all__ = ["Access", "Accesses"]

_CHANGES = frozenset(("++", "--", "=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "("))


@dataclass(frozen=True)
class Access:
    """One place where a function reads or writes elements of a tensor.

    Attributes
    ----------
    function : Function
    tensor : TensorType
    base : (int, int)
        The tokens of the tensor: `t`, `net.weights`, `x._grad_out`; end exclusive.
    method : str
        Empty for a subscript, otherwise `load`, `store`, `add`, `load_once` or `load_uniform`.
    indices : tuple of (int, int)
        The tokens of each index.
    types : tuple of str
        Their types; empty where the text does not tell.
    pure : bool
        False where reading the tensor's expression twice could do something twice.
    """

    function: Function
    tensor: TensorType
    base: tuple[int, int]
    method: str
    indices: tuple[tuple[int, int], ...]
    types: tuple[str, ...]
    pure: bool

    @property
    def whole(self) -> bool | None:
        """True where one value holds all indices (a vector or an array), None where that is not known."""
        if len(self.indices) != 1:
            return False
        index = self.types[0]
        if values.vector(index) is not None or values.array_element(index) is not None:
            return True
        if self.tensor.rank is not None and self.tensor.rank > 1:
            return True
        return None if not index else False


@dataclass
class Accesses:
    """All accesses of a text.

    Attributes
    ----------
    words : Words
    outline : Outline
        Of the same text.
    found : list of Access
        In the order of the text.
    calls : dict of int to set of int
        For each function, by its place in `outline.functions`, the functions of the text whose names its body calls.
    """

    words: Words
    outline: Outline
    found: list[Access]
    calls: dict[int, set[int]]

    @classmethod
    def read(cls, text: str, outline: Outline) -> Accesses:
        """Read a text; `outline` must be of the same text."""
        words, names = Words(text), Names(outline)
        found: list[Access] = []
        calls: dict[int, set[int]] = {}
        named: dict[str, list[int]] = {}
        for number, function in enumerate(outline.functions):
            named.setdefault(function.name, []).append(number)
        for number, function in enumerate(outline.functions):
            body = body_of(words, function.line, function.column) if function.has_body else None
            if body is None:
                continue
            found += _accesses(words, names, function, body)
            called = {words.word(i) for i in range(*body) if words.is_name(i)} & named.keys()
            calls[number] = {other for name in called for other in named[name]}
        found.sort(key=lambda a: a.base)
        return cls(words, outline, found, calls)

    def source(self, access: Access) -> str:
        """Return an access as written: `W[i, j]`, `x.load(i)`."""
        return self.words.source(access.base[0], self.end(access))

    def end(self, access: Access) -> int:
        """Return the index after the closing bracket of an access."""
        opener = access.base[1] + (2 if access.method else 0)
        return self.words.pair[opener] + 1

    def line(self, access: Access) -> int:
        """Return the line of an access."""
        return self.words.line(access.base[0])


def _accesses(words: Words, names: Names, function: Function, body: tuple[int, int]) -> Iterator[Access]:
    expressions = Expressions(words, names, function, read_locals(words, *body))
    for i in range(*body):
        if not words.is_name(i) or words.word(i - 1) in (".", "::", "->"):
            continue
        accessed = False
        for step in expressions.steps(i):
            changes = any(words.word(k) in _CHANGES for k in range(*step.base))
            types = tuple(expressions.type_of(*index) for index in step.indices)
            yield Access(
                function,
                step.tensor,
                step.base,
                step.method,
                step.indices,
                tuple("enum" if t in names.enums else t for t in types),
                not changes and not accessed,
            )
            accessed = True
