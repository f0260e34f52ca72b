"""A function's body as the rules read it: its statements, what its names mean, and which values are known when it is compiled."""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from slanglab.text.accesses import Access, Accesses
from slanglab.text.outline import Function, Outline
from slanglab.text.reading import values
from slanglab.text.reading.bodies import Local, body_of, read_locals
from slanglab.text.reading.expressions import Expressions, Names
from slanglab.text.reading.words import Words
from slanglab.text.tree import Statement, read_statements, walk

__all__ = ["Body", "Change", "read_bodies"]

_ASSIGNS = frozenset(("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^="))
_FOLDED = frozenset(("min", "max", "abs", "clamp", "select", "sizeof"))
_NUMBER = re.compile(r"(\d+)[uUlL]*")
_LONGEST = 200  # characters of an expression that is evaluated
_DEEPEST = 8  # names that stand for names that stand for names


@dataclass(frozen=True)
class Change:
    """One assignment to a variable, other than its initial value.

    Attributes
    ----------
    name : int
        The token of the variable: of `a` in `a.x[i] += 1`.
    operator : str
        `=`, `+=`, `++`, …
    target, value : (int, int)
        The tokens of the left side and of the right side; the latter is empty for `++` and `--`.
    """

    name: int
    operator: str
    target: tuple[int, int]
    value: tuple[int, int]


class Body:
    """The body of one function.

    Parameters
    ----------
    words : Words
    outline : Outline
    names : Names
    number : int
        The function's place in `outline.functions`.
    tokens : (int, int)
        Of the body, braces included.
    accesses : tuple of Access
        Its own.
    """

    def __init__(
        self,
        words: Words,
        outline: Outline,
        names: Names,
        number: int,
        tokens: tuple[int, int],
        accesses: tuple[Access, ...],
    ) -> None:
        self.words = words
        self.outline = outline
        self.number = number
        self.function: Function = outline.functions[number]
        self.start, self.end = tokens
        self.accesses = accesses
        self.statements = read_statements(words, *tokens)
        self.walked = list(walk(self.statements))
        # Statements that may leave the function or a loop: by their first tokens, as most hold no such thing.
        self.leaving = frozenset(
            s.start
            for inner, above in self.walked
            if inner.kind in ("return", "break", "continue")
            for s in (*above, inner)
        )
        self.variables = read_locals(words, *tokens)
        self.expressions = Expressions(words, names, self.function, self.variables)
        self._locals: dict[str, list[Local]] = {}
        for variable in self.variables:
            self._locals.setdefault(variable.name, []).append(variable)
        self.changes = list(self._read_changes())
        self._changes: dict[str, list[Change]] = {}
        for change in self.changes:
            self._changes.setdefault(words.word(change.name), []).append(change)
        self._names = names
        self._parameters = {p.name for p in self.function.parameters}
        self._numbers = {_generic_name(g) for g in self.function.generics if _is_number(g)}
        struct = next(
            (s for s in outline.structs if s.qualified.endswith(self.function.in_struct or "\0")), None
        )
        if struct is not None:
            self._numbers |= {_generic_name(g) for g in struct.generics if _is_number(g)}
        self._constants = {
            g.name: g.value for g in outline.globals if "const" in g.modifiers and "static" in g.modifiers
        }
        self._unrolled = [
            (s.init, (s.start, s.end))
            for s, _ in self.walked
            if s.kind == "for" and s.unrolled and s.init is not None
        ]
        # `$for (i in Range(0, 8))`
        self._counted = {words.word(init[0]) for init, _ in self._unrolled if words.word(init[0] + 1) == "in"}

    # ----- names -----

    def named(self, start: int, end: int) -> Iterator[int]:
        """Yield the tokens that name a variable or a function, not a member."""
        for i in range(start, end):
            if self.words.is_name(i) and self.words.word(i - 1) not in (".", "::", "->"):
                yield i

    def local(self, i: int) -> Local | None:
        """Return the variable of the body that a token names, or None."""
        name = self.words.word(i)
        seen = [v for v in self._locals.get(name, ()) if v.start <= i < v.end or self._declares(v, i)]
        return max(seen, key=lambda v: v.start) if seen else None

    def _declares(self, variable: Local, i: int) -> bool:
        """Tell whether a token is the one that declares a variable."""
        after = variable.value[0] - 1 if variable.value is not None else variable.start
        return i == after - 1 or (
            i < after and self.words.word(i + 1) == "[" and self.words.pair[i + 1] == after - 1
        )

    def is_parameter(self, i: int) -> bool:
        """Tell whether a token names a parameter of the function."""
        return self.words.word(i) in self._parameters and self.local(i) is None

    def is_call(self, i: int) -> bool:
        """Tell whether a name is followed by arguments."""
        return self.words.word(i + 1) == "("

    def changes_of(self, variable: Local | None, name: str) -> list[Change]:
        """Return the assignments to a variable of the body, or to a parameter where `variable` is None."""
        return [c for c in self._changes.get(name, ()) if self.local(c.name) == variable]

    def _read_changes(self) -> Iterator[Change]:
        words = self.words
        initial = {v.value[0] - 1 for v in self.variables if v.value is not None}
        for i in range(self.start, self.end):
            word = words.word(i)
            if word in ("++", "--"):
                before = words.tokens[i - 1]
                if before.kind == "name" or before.text == "]":
                    first = self._chain_start(i - 1)
                    target = (first, i)
                else:
                    first = i + 1
                    target = (first, self._chain_end(first))
                if words.is_name(first):
                    yield Change(first, word, target, (i + 1, i + 1))
            elif word in _ASSIGNS and i not in initial:
                first = self._chain_start(i - 1)
                if words.is_name(first):
                    stop = i + 1
                    while stop < self.end and words.word(stop) not in (";", ",", ")", "}"):
                        stop = words.skip(stop, self.end)
                    yield Change(first, word, (first, i), (i + 1, stop))

    def _chain_start(self, i: int) -> int:
        """Return where `a.b[i].c`, whose last token is at `i`, begins."""
        words = self.words
        while i > self.start:
            if words.word(i) in ("]", ")") and 0 <= words.pair[i] < i:
                i = words.pair[i] - 1
            elif words.word(i - 1) in (".", "::"):
                i -= 2
            else:
                break
        return i

    def _chain_end(self, i: int) -> int:
        words = self.words
        i += 1
        while i < self.end:
            if words.word(i) == "[" and words.pair[i] > i:
                i = words.pair[i] + 1
            elif words.word(i) == "." and words.is_name(i + 1):
                i += 2
            else:
                break
        return i

    def type_of(self, i: int) -> str:
        """Return the type of the variable that a token names; empty where it cannot be told."""
        return self.expressions.variable(i) or ""

    def changed_type(self, change: Change) -> str:
        """Return the type of what an assignment changes; empty where it cannot be told."""
        start, end = change.target
        return self.type_of(start) if end - start == 1 else self.expressions.type_of(start, end)

    def is_differentiated(self, loop: Statement) -> bool:
        """Tell whether a loop changes anything but whole numbers."""
        return any(
            loop.start <= c.name < loop.end and not self.is_integer(self.changed_type(c))
            for c in self.changes
        )

    def counts(self, change: Change) -> bool:
        """Tell whether an assignment adds the same to a variable each time: `k++`, `k += 2`, `k = k + 1`."""
        words = self.words
        if change.target[1] - change.target[0] != 1:
            return False
        if change.operator in ("++", "--"):
            return True
        if change.operator in ("+=", "-="):
            return self.evaluate(*change.value) is not None
        start, end = change.value
        return (
            change.operator == "="
            and end - start == 3
            and words.word(start) == words.word(change.name)
            and words.word(start + 1) in ("+", "-")
            and self.evaluate(start + 2, end) is not None
        )

    def path(self, at: int) -> tuple[Statement, ...]:
        """Return the statements that a token stands in, outermost first."""
        found: list[Statement] = []
        held: tuple[Statement, ...] = self.statements
        while held:
            near = bisect_right(held, at, key=lambda s: s.start) - 1
            if near < 0 or at >= held[near].end:
                break
            found.append(held[near])
            other = held[near].otherwise
            held = other if other and other[0].start <= at else held[near].body
        return tuple(found)

    # ----- what is known when the function is compiled -----

    def is_constant(self, start: int, end: int, depth: int = 0) -> bool:
        """Tell whether an expression's value is known when the function is compiled."""
        return all(self._known(i, depth) for i in self.named(start, end))

    def _known(self, i: int, depth: int) -> bool:
        words, name = self.words, self.words.word(i)
        if depth > _DEEPEST:
            return False
        variable = self.local(i)
        if variable is not None:
            if self._in_unrolled(variable, i):
                return True
            if variable.value is None or self.changes_of(variable, name):
                return False
            return self.is_constant(*variable.value, depth + 1)
        if name in self._parameters:
            return False
        if self.is_call(i):
            return name in _FOLDED or values.is_scalar(values.plain(name)) or values.vector(name) is not None
        return (
            name in self._numbers
            or name in self._constants
            or name in self._counted
            or name in self.outline.macros
            or name in self._names.enums
            or values.is_scalar(values.plain(name))
            or words.word(i + 1) == "::"
        )

    def _in_unrolled(self, variable: Local, i: int) -> bool:
        return any(
            init[0] <= variable.start - 1 <= init[1] and where[0] <= i < where[1]
            for init, where in self._unrolled
        )

    def evaluate(self, start: int, end: int, depth: int = 0) -> int | None:
        """Return the value of a whole-number expression that is known when the function is compiled, or None."""
        parts: list[str] = []
        for i in range(start, end):
            token = self.words.tokens[i]
            if token.kind == "number" and (match := _NUMBER.fullmatch(token.text)):
                parts.append(str(int(match[1])))
            elif token.kind == "name" and depth < _DEEPEST and (value := self._value(i, depth)) is not None:
                parts.append(f"({value})")
            elif token.text in ("+", "-", "*", "/", "(", ")"):
                parts.append("//" if token.text == "/" else token.text)
            else:
                return None
        return _folded(" ".join(parts))

    def _value(self, i: int, depth: int) -> int | None:
        variable = self.local(i)
        if variable is not None:
            if variable.value is None or self.changes_of(variable, variable.name):
                return None
            return self.evaluate(*variable.value, depth + 1)
        if self.words.word(i) in self._parameters:
            return None
        written = self._constants.get(self.words.word(i)) or ""
        match = _NUMBER.fullmatch(written.strip())
        return int(match[1]) if match is not None else None

    def is_integer(self, name: str) -> bool:
        """Tell whether a type is a whole number, or a vector of such."""
        return values.is_whole_number(values.plain(name))


def _generic_name(written: str) -> str:
    before = written.partition(":")[0].partition("=")[0].split()
    return before[-1] if before else ""


def _is_number(written: str) -> bool:
    """Tell a generic parameter that is a number: `let N : int`, or `int N`."""
    return written.startswith("let ") or len(written.partition(":")[0].split()) == 2


def _folded(text: str) -> int | None:
    if not text or len(text) > _LONGEST:
        return None
    try:
        return _fold(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError):
        return None


def _fold(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        inner = _fold(node.operand)
        return -inner if isinstance(node.op, ast.USub) else inner
    if isinstance(node, ast.BinOp):
        left, right = _fold(node.left), _fold(node.right)
        if isinstance(node.op, ast.Add):
            return left + right
        if isinstance(node.op, ast.Sub):
            return left - right
        if isinstance(node.op, ast.Mult):
            return left * right
        if isinstance(node.op, ast.FloorDiv):
            quotient = abs(left) // abs(right)  # as in Slang, towards zero
            return quotient if (left < 0) == (right < 0) else -quotient
    raise ValueError


def read_bodies(accesses: Accesses) -> Iterator[Body]:
    """Yield the bodies of the functions of a text."""
    names = Names(accesses.outline)
    own: dict[tuple[int, int], list[Access]] = {}
    for access in accesses.found:
        own.setdefault((access.function.line, access.function.column), []).append(access)
    for number, function in enumerate(accesses.outline.functions):
        tokens = body_of(accesses.words, function.line, function.column) if function.has_body else None
        if tokens is not None:
            mine = tuple(own.get((function.line, function.column), ()))
            yield Body(accesses.words, accesses.outline, names, number, tokens, mine)
