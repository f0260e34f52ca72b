"""The types of expressions in a function's body, as far as indices need them.

Only what can be said for certain is said: a name that is declared in the text, a literal, arithmetic on such, swizzles, elements of
arrays, vectors and tensors, `tensor.shape`, conversions, `min` and its like, and functions that the text declares. Everything else has
the empty type. The compiler's own resolution of overloads and generics is not repeated here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from slanglab.text.outline import Function, Outline
from slanglab.text.reading import values
from slanglab.text.reading.bodies import Local
from slanglab.text.reading.operators import BINARY, combined, signed
from slanglab.text.reading.values import TensorType
from slanglab.text.reading.words import Words

__all__ = ["Expressions", "Names", "Step"]

_DEEPEST = 60  # parentheses and operators inside each other; what lies deeper is not read

_SAME_TYPE = frozenset(("min", "max", "clamp", "abs", "select"))
"""Functions whose result has the type that arithmetic on their arguments has (of the last two, for `select`)."""
_MEMBERS = {"_primal": "Tensor", "_grad_in": "Tensor", "_grad_out": "AtomicTensor"}
_ACCESSES = frozenset(("load", "store", "add", "load_once", "load_uniform"))
_SWIZZLE = frozenset("xyzwrgba")


class _UnknownError(Exception):
    """The type of an expression cannot be told."""


@dataclass(frozen=True)
class Step:
    """One step of a chain such as `net.weights[i, j].x`, that reads or writes a tensor.

    Attributes
    ----------
    tensor : TensorType
    base : (int, int)
        The tokens of the tensor, end exclusive.
    method : str
        Empty for a subscript, otherwise `load`, `store`, `add`, `load_once` or `load_uniform`.
    indices : tuple of (int, int)
        The tokens of each index.
    """

    tensor: TensorType
    base: tuple[int, int]
    method: str
    indices: tuple[tuple[int, int], ...]


class Names:
    """What the names of a text mean outside its functions.

    Parameters
    ----------
    outline : Outline
    """

    def __init__(self, outline: Outline) -> None:
        self.globals = {g.name: g.type for g in outline.globals}
        self.constants = {g.name: g.value for g in outline.globals if "const" in g.modifiers and g.value}
        self.aliases = {s.name: s.bases[0] for s in outline.structs if s.kind == "typealias" and s.bases}
        self.fields: dict[str, Mapping[str, str]] = {}
        for struct in outline.structs:
            members = {f.name: f.type for f in struct.fields} if struct.kind != "enum" else {}
            self.fields[struct.name] = self.fields[struct.qualified] = members
        self.enums = {s.name for s in outline.structs if s.kind == "enum"}
        results: dict[str, set[str]] = {}
        for function in outline.functions:
            result = "" if function.generics else function.result
            results.setdefault(function.name, set()).add(result)
        self.results = {name: found.pop() for name, found in results.items() if len(found) == 1}

    def resolve(self, written: str) -> str:
        """Return a type with the text's own names for types replaced."""
        name = values.plain(written)
        for _ in range(8):
            if name not in self.aliases:
                break
            name = values.plain(self.aliases[name])
        return name


class Expressions:
    """Expressions in one function.

    Parameters
    ----------
    words : Words
    names : Names
    function : Function
    variables : list of Local
    """

    def __init__(self, words: Words, names: Names, function: Function, variables: list[Local]) -> None:
        self._words = words
        self._names = names
        self._locals: dict[str, list[Local]] = {}
        for local in variables:
            self._locals.setdefault(local.name, []).append(local)
        self._parameters = {p.name: p.type for p in function.parameters if p.name}
        self._struct = function.in_struct or ""
        self._constraints = dict(_constraints(function.generics))
        self._lets: dict[int, str] = {}
        self._depth = 0

    # ----- what a name means -----

    def variable(self, i: int) -> str | None:
        """Return the type of the variable that a token names, empty if it cannot be told; None if it names none."""
        name = self._words.word(i)
        seen = [v for v in self._locals.get(name, ()) if v.start <= i < v.end]
        if seen:
            local = max(seen, key=lambda v: v.start)
            return self._names.resolve(local.type) if local.type else self._inferred(local)
        if name in self._parameters:
            return self._names.resolve(self._parameters[name])
        if name == "this":
            return self._struct
        if self._struct and name in self._names.fields.get(self._struct, ()):
            return self._names.resolve(self._names.fields[self._struct][name])
        if name in self._names.globals:
            return self._names.resolve(self._names.globals[name])
        return None

    def _inferred(self, local: Local) -> str:
        """Return the type of a variable that is declared with `let` or `var`; each is worked out once."""
        if local.start not in self._lets:
            self._lets[local.start] = ""
            depth = self._depth
            if local.value is not None:
                try:
                    self._lets[local.start] = self._nested(*local.value)
                except _UnknownError:
                    self._depth = depth
        return self._lets[local.start]

    def tensor(self, name: str) -> TensorType | None:
        """Return what a type says if it is a tensor: itself, or through the constraint of a generic parameter."""
        found = values.tensor_type(name)
        if found is None and name in self._constraints:
            constraint = values.tensor_type(self._constraints[name])
            if constraint is not None:
                return TensorType(constraint.name, constraint.element, constraint.rank, generic=True)
        if found is not None and found.rank is None:
            rank = self._names.constants.get(_last_argument(name), "")
            if rank.isdigit():
                return TensorType(found.name, found.element, int(rank))
        return found

    # ----- chains -----

    def steps(self, i: int) -> list[Step]:
        """Return the tensor accesses of the chain that begins with the variable at `i`, outermost last."""
        found: list[Step] = []
        self._depth = 0
        type_ = self.variable(i)
        if type_ is not None:
            self._chain(i, i + 1, type_, found.append)
        return found

    def _chain(self, start: int, i: int, type_: str, found: Callable[[Step], object]) -> tuple[str, int]:
        """Follow `[...]`, `.name` and `.name(...)` from `i` on; return the type of it all, and the index after it."""
        words = self._words
        while True:
            tensor = self.tensor(type_)
            word = words.word(i)
            if word == "[" and words.pair[i] > i:
                indices = tuple(words.split(i + 1, words.pair[i]))
                if tensor is not None:
                    found(Step(tensor, (start, i), "", indices))
                    type_ = self._names.resolve(tensor.element)
                else:
                    type_ = self._element(type_)
                i = words.pair[i] + 1
            elif word == "." and words.is_name(i + 1):
                name, base, i = words.word(i + 1), (start, i), i + 2
                if words.word(i) == "(" and words.pair[i] > i:
                    arguments = tuple(words.split(i + 1, words.pair[i]))
                    if tensor is not None and name in _ACCESSES:
                        indices = arguments[:-1] if name in ("store", "add") else arguments
                        found(Step(tensor, base, name, indices))
                    reads = tensor is not None and name.startswith("load")
                    type_ = self._names.resolve(tensor.element) if tensor is not None and reads else ""
                    i = words.pair[i] + 1
                else:
                    type_ = self._member(type_, tensor, name)
            else:
                return type_, i

    def _element(self, type_: str) -> str:
        if (element := values.array_element(type_)) is not None:
            return self._names.resolve(element)
        found = values.vector(type_)
        return found[0] if found is not None else ""

    def _member(self, type_: str, tensor: TensorType | None, name: str) -> str:
        if tensor is not None:
            if name == "shape":
                return f"uint[{tensor.rank or ''}]"
            if name in _MEMBERS:
                rank = "" if tensor.rank is None else str(tensor.rank)
                element = tensor.element if name == "_primal" else f"{tensor.element}.Differential"
                return f"{_MEMBERS[name]}<{element}, {rank}>"
            return ""
        swizzled = values.vector(type_)
        if swizzled is not None and set(name) <= _SWIZZLE and len(name) <= 4:
            return values.with_size(swizzled[0], len(name) if len(name) > 1 else 0)
        fields = self._names.fields.get(type_, {})
        return self._names.resolve(fields[name]) if name in fields else ""

    # ----- expressions -----

    def type_of(self, start: int, end: int) -> str:
        """Return the plain type of the expression in a stretch of tokens; empty where it cannot be told."""
        self._depth = 0
        try:
            return self._nested(start, end)
        except _UnknownError:
            return ""

    def _nested(self, start: int, end: int) -> str:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _UnknownError
        type_, i = self._conditional(start, end)
        self._depth -= 1
        if i != end:
            raise _UnknownError
        return type_

    def _conditional(self, i: int, end: int) -> tuple[str, int]:
        type_, i = self._binary(i, end, 1)
        if i >= end or self._words.word(i) != "?":
            return type_, i
        first, i = self._conditional_part(i + 1, end)
        if self._words.word(i) != ":":
            raise _UnknownError
        other, i = self._conditional_part(i + 1, end)
        if first != other and any(t.startswith("bool") for t in (first, other)):
            return "", i
        return values.promoted(first, other), i

    def _conditional_part(self, i: int, end: int) -> tuple[str, int]:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _UnknownError
        found = self._conditional(i, end)
        self._depth -= 1
        return found

    def _operator(self, i: int) -> tuple[str, int]:
        """Return the binary operator at `i` and its length; `>` is always a token of its own."""
        words = self._words
        word = words.word(i)
        if word == ">" and i + 1 < words.size and words.tokens[i].end == words.tokens[i + 1].start:
            if words.word(i + 1) == ">":
                return ">>", 2
            if words.word(i + 1) == "=":
                return ">=", 2
        return word, 1

    def _binary(self, i: int, end: int, lowest: int) -> tuple[str, int]:
        type_, i = self._unary(i, end)
        while i < end:
            operator, size = self._operator(i)
            precedence = BINARY.get(operator, 0)
            if precedence < lowest:
                break
            self._depth += 1
            if self._depth > _DEEPEST:
                raise _UnknownError
            other, i = self._binary(i + size, end, precedence + 1)
            self._depth -= 1
            type_ = combined(precedence, type_, other)
        return type_, i

    def _unary(self, i: int, end: int) -> tuple[str, int]:
        words = self._words
        signs = []
        while words.word(i) in ("-", "+", "~", "!", "++", "--", "no_diff"):
            signs.append(words.word(i))
            i += 1
        if i >= end:
            raise _UnknownError
        if words.word(i) == "(" and words.pair[i] > i and (cast := self._cast(i, end)) is not None:
            self._depth += 1
            if self._depth > _DEEPEST:
                raise _UnknownError
            _, i = self._unary(words.pair[i] + 1, end)
            self._depth -= 1
            type_ = cast
        else:
            type_, i = self._postfix(i, end)
        for sign in reversed(signs):
            type_ = signed(sign, type_)
        return type_, i

    def _cast(self, i: int, end: int) -> str | None:
        """Return the type that `(type)value` at `i` converts to, or None where the parentheses hold no type."""
        words = self._words
        close = words.pair[i]
        name = values.plain(words.type_text(i + 1, close))
        if close + 1 >= end or not (values.is_scalar(name) or values.vector(name)):
            return None
        return name if words.tokens[close + 1].kind != "symbol" or words.word(close + 1) in "(-+~" else None

    def _postfix(self, i: int, end: int) -> tuple[str, int]:
        words, start = self._words, i
        token = words.tokens[i]
        if token.kind == "number":
            type_, i = values.literal(token.text), i + 1
        elif token.text == "(" and words.pair[i] > i:
            type_, i = self._nested(i + 1, words.pair[i]), words.pair[i] + 1
        elif token.text in ("true", "false"):
            type_, i = "bool", i + 1
        elif token.kind == "name":
            type_, i = self._named(i)
        else:
            raise _UnknownError
        type_, i = self._chain(start, i, type_, lambda step: None)
        while words.word(i) in ("++", "--"):
            i += 1
        return type_, i

    def _named(self, i: int) -> tuple[str, int]:
        """Return the type of a name, a call or a constructor at `i`, and the index after it."""
        words, name = self._words, self._words.word(i)
        if words.word(i + 1) == "." and name in self._names.enums:
            return "enum", i + 3
        after = words.type_end(i) if words.word(i + 1) in ("<", "::") else i + 1
        opener = after if words.word(after) == "(" else i + 1
        if words.word(opener) == "(" and words.pair[opener] > opener:
            if words.word(i + 1) == "::":
                name = words.word(opener - 1)
            return self._call(name, i, opener), words.pair[opener] + 1
        type_ = self.variable(i)
        if type_ is None:
            raise _UnknownError
        return type_, i + 1

    def _call(self, name: str, i: int, opener: int) -> str:
        words = self._words
        made = self._names.resolve(words.type_text(i, opener))
        if values.is_scalar(made) or values.vector(made):
            return made
        if name in self._names.results:
            return self._names.resolve(self._names.results[name])
        if name in _SAME_TYPE:
            arguments = words.split(opener + 1, words.pair[opener])
            types = [self._nested(*a) for a in (arguments[1:] if name == "select" else arguments)]
            result = types[0] if types else ""
            for other in types[1:]:
                result = values.promoted(result, other)
            return "" if "bool" in types else result  # which overload takes a bool is another matter
        return ""


def _constraints(generics: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield each generic parameter and its constraint: `T : IDiffTensor<float, 1>`."""
    for generic in generics:
        name, colon, constraint = generic.partition(":")
        if colon:
            yield name.strip(), constraint.split("=", 1)[0].strip()


def _last_argument(name: str) -> str:
    return name.rstrip("> ").rpartition(",")[2].strip()
