"""How many words the macros of a text expand to, without expanding them.

Thirty lines of `#define A1 A0 A0` make 2^30 words, and the compiler goes on until the memory is full; nothing can stop it. Each macro
has a linear form: a number of words of its own, and how often each argument appears. The forms of the macros inside its body add up
to its own, so the size of any expansion costs one pass. It errs upwards: both arms of an `#if` count, and every definition of a name.
It may miss a few words of macros that use each other in a ring (rings that grow are refused), and of a name that becomes a call when
an argument is read the second time: `F` before a macro whose body begins with a bracket. To count these too, any two words side by side
would be taken for a call, and lists of fields that are in use would be refused.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from slanglab.text.diagnostics import Diagnostic
from slanglab.text.tokens import Positions, Token, scan

__all__ = ["Expansion", "expansion_problems", "largest_expansion", "pasted"]

_MOST_WORDS = 8192
"""Of one use of a macro: some 6 000 operations in one expression already end the compiler, and the kernel with it."""
_MOST_IN_ALL = 2_000_000

_STEPS = 400_000  # words looked at, besides some passes over the text itself
_ENDLESS = 10**12
_DEFINE = re.compile(r"#\s*define\s+([^\W\d]\w*)(\(([^)]*)\))?", re.ASCII)

_Form = list[int]
"""Words of its own, then how often each parameter appears."""


class Expansion(NamedTuple):
    """The macro use with the largest expansion: what stands there, its offset in the text, and an upper bound of its words."""

    name: str
    start: int
    words: int
    total: int
    """Of all uses in the text."""


@dataclass(frozen=True)
class _Macro:
    parameters: tuple[str, ...] | None
    body: tuple[Token, ...]


def largest_expansion(text: str, macros: Iterable[str] = ()) -> Expansion | None:
    """Bound the expansion of a text.

    Parameters
    ----------
    text : str
        Cleaned.
    macros : iterable of str
        Those of the command line, "NAME" or "NAME=VALUE".

    Returns
    -------
    Expansion or None
        None for a text without macros.
    """
    lines = [f"#define {m.replace('=', ' ', 1)}" for m in macros]
    tokens = scan(text)
    directives = [t.text for t in tokens if t.kind == "directive"]
    defined: dict[str, list[_Macro]] = {}
    for directive in [*lines, *directives]:
        _define(directive, defined)
    if not defined:
        return None
    code: list[Token] = []
    for token in tokens:
        if token.kind == "directive" and not _DEFINE.match(token.text):  # conditions are expanded too
            code += scan(text, token.start, token.end, directives=False)
        elif token.kind not in ("comment", "directive"):
            code.append(token)
    try:
        return _Sizes(defined, code).largest(code)
    except RecursionError:  # calls in calls, a hundred deep
        return Expansion(next(iter(defined)), 0, _ENDLESS, _ENDLESS)


def expansion_problems(text: str, macros: Iterable[str], first_line: int) -> list[Diagnostic]:
    """Refuse macros that become more than the compiler can take.

    Parameters
    ----------
    text : str
        Cleaned, its includes in place.
    macros : iterable of str
        Those of the command line.
    first_line : int
        The number of the first line of the text in the notebook cell; 0 when its lines are not those of the cell.
    """
    largest = largest_expansion(text, macros)
    if largest is None or (largest.words <= _MOST_WORDS and largest.total <= _MOST_IN_ALL):
        return []
    words = largest.words if largest.words > _MOST_WORDS else largest.total
    what = f"`{largest.name}` becomes" if largest.words > _MOST_WORDS else "the macros of this text become"
    counted = f"{words} words" if words < _ENDLESS else "more words than can be counted"
    line, column = Positions(text).at(largest.start) if first_line else (0, 0)
    return [
        Diagnostic(
            "error",
            "too-large",
            "more than the compiler can take",
            f"{what} {counted}",
            line=line + first_line - 1 if first_line else 0,
            column=column,
            end_column=column + len(largest.name) if first_line else 0,
            hint="write a function or a loop instead of the macro",
        )
    ]


def _define(directive: str, defined: dict[str, list[_Macro]]) -> None:
    joined = directive.replace("\\\n", " ")
    match = _DEFINE.match(joined)
    if match is None:
        return
    parameters = None
    if match[2] is not None:
        words = [word.strip() for word in match[3].split(",")]
        # A variable number of arguments is one parameter that takes the rest.
        parameters = tuple("__VA_ARGS__" if word.endswith("...") else word for word in words if word)
    body = tuple(t for t in scan(joined, match.end(), directives=False) if t.kind != "comment")
    defined.setdefault(match[1], []).append(_Macro(parameters, body))


def pasted(word: str, pieces: set[str]) -> bool:
    """Tell whether `##` could make a word out of others."""
    reachable = {0}
    for end in range(1, len(word) + 1):
        if any(
            start in reachable and word[start:end] in pieces
            for start in range(end)
            if (start, end) != (0, len(word))
        ):
            reachable.add(end)
    return len(word) in reachable


class _Sizes:
    """The forms of all macros of a text."""

    def __init__(self, defined: dict[str, list[_Macro]], code: Sequence[Token]) -> None:
        self._defined = defined
        self._known: dict[str, _Form] = {}
        self._steps = _STEPS + 20 * len(code)
        self._cut: set[str] = set()
        """Names that were not expanded because they were being expanded: what was computed meanwhile holds only there."""
        bodies = [code, *(m.body for macros in defined.values() for m in macros)]
        pieces = {t.text for body in bodies for t in body if t.kind in ("name", "number")}
        pastes = any(
            a.text == b.text == "#" and a.end == b.start
            for body in bodies
            for a, b in itertools.pairwise(body)
        )
        made = {name for name in defined if pastes and pasted(name, pieces)}
        self._made = sorted(made)
        # A function-like macro whose name stands alone may be called wherever brackets follow something that is expanded.
        alone = {
            token.text
            for body in bodies
            for token, after in itertools.zip_longest(body, body[1:])
            if token.text in defined and (after is None or after.text != "(")
        }
        self._loose = sorted(n for n in alone | made if any(m.parameters is not None for m in defined[n]))

    def largest(self, code: Sequence[Token]) -> Expansion | None:
        """Return the use with the most words."""
        best = Expansion("", 0, 0, 0)
        total = 0
        for start, form in self._pieces(code, (), frozenset()):
            total += form[0]
            if form[0] > best.words:
                best = Expansion(code[start].text, code[start].start, form[0], 0)
        return best._replace(total=min(total, _ENDLESS)) if best.words else None

    def _form(self, name: str, stack: frozenset[str]) -> _Form:
        """Return the form of a macro; of several definitions the largest of each number."""
        if name in self._known:
            return self._known[name]
        outer, self._cut = self._cut, set()
        inside = stack | {name}
        forms = [self._sum(m.body, m.parameters or (), inside) for m in self._defined[name]]
        length = max(len(f) for f in forms)
        form = [max((f[i] for f in forms if i < len(f)), default=0) for i in range(length)]
        self._cut.discard(name)
        if not self._cut:
            self._known[name] = form
        self._cut |= outer
        return form

    def _sum(self, tokens: Sequence[Token], parameters: tuple[str, ...], stack: frozenset[str]) -> _Form:
        total = [0] * (len(parameters) + 1)
        for _, form in self._pieces(tokens, parameters, stack):
            total = [min(a + b, _ENDLESS) for a, b in zip(total, form, strict=True)]
        return total

    def _pieces(
        self, tokens: Sequence[Token], parameters: tuple[str, ...], stack: frozenset[str]
    ) -> list[tuple[int, _Form]]:
        """Return where each word, or call with its arguments, begins, and its form in terms of `parameters`."""
        self._steps -= len(tokens)
        if self._steps < 0:
            return [(0, [_ENDLESS] * (len(parameters) + 1))]
        pair = _pairs(tokens)
        found = []
        at = 0
        while at < len(tokens):
            token = tokens[at]
            end = at + 1
            form = self._word(tokens, at, parameters, stack)
            called = pair.get(end) if form is not None or token.text in self._defined else None
            if called is not None:
                arguments = [self._sum(a, parameters, stack) for a in _split(tokens[end + 1 : called])]
                form = self._call(token.text, form, arguments, stack)
                end = called + 1
                while (again := pair.get(end)) is not None:  # F(x)(y): what F(x) gives may be called in turn
                    rest = [self._sum(a, parameters, stack) for a in _split(tokens[end + 1 : again])]
                    form = _added(form, self._loosely(rest, len(form), stack))
                    end = again + 1
            elif form is None:
                form = [1, *[0] * len(parameters)]
            found.append((at, form))
            at = end
        return found

    def _word(
        self, tokens: Sequence[Token], at: int, parameters: tuple[str, ...], stack: frozenset[str]
    ) -> _Form | None:
        """Return the form of one word that is expanded without arguments; None for one that is not."""
        text = tokens[at].text
        width = len(parameters) + 1
        if text in parameters:
            form = [0] * width
            form[parameters.index(text) + 1] = 1
        elif text in self._defined and text in stack:
            self._cut.add(text)
            return None
        elif text in self._defined and any(m.parameters is None for m in self._defined[text]):
            form = [self._form(text, stack)[0], *[0] * (width - 1)]
        elif text == "#" and self._made:  # an end of `##`: what it makes is a word that may be a macro
            form = [
                max(self._form(n, stack)[0] for n in self._made if n not in stack)
                if set(self._made) - stack
                else 1
            ]
            form += [0] * (width - 1)
        else:
            return None
        return form

    def _call(self, name: str, word: _Form | None, arguments: list[_Form], stack: frozenset[str]) -> _Form:
        """Return the form of a word with brackets after it."""
        width = len(arguments[0])
        form = [0] * width if word is None else word
        plain = _added(*arguments, [2 + len(arguments), *[0] * (width - 1)])
        if (
            name in self._defined
            and name not in stack
            and any(m.parameters is not None for m in self._defined[name])
        ):
            return _added(form, _applied(self._form(name, stack), arguments))
        if name in self._defined and name in stack:
            self._cut.add(name)
            return _added(form, plain)
        return _added(form, self._loosely(arguments, width, stack))

    def _loosely(self, arguments: list[_Form], width: int, stack: frozenset[str]) -> _Form:
        """Return the most that any macro whose name stands alone somewhere makes of arguments."""
        most = _added(*arguments, [2 + len(arguments), *[0] * (width - 1)])
        for name in self._loose:
            if name in stack:
                self._cut.add(name)
                continue
            made = _applied(self._form(name, stack), arguments)
            most = [max(a, b) for a, b in zip(most, made, strict=True)]
        return most


def _added(*forms: _Form) -> _Form:
    return [min(sum(column), _ENDLESS) for column in zip(*forms, strict=True)]


def _applied(form: _Form, arguments: list[_Form]) -> _Form:
    """Put arguments into a form; arguments beyond its parameters go to the last one."""
    total = [form[0], *[0] * (len(arguments[0]) - 1)]
    for i, argument in enumerate(arguments):
        times = form[min(i + 1, len(form) - 1)] if len(form) > 1 else 0
        total = [min(a + times * b, _ENDLESS) for a, b in zip(total, argument, strict=True)]
    return total


def _pairs(tokens: Sequence[Token]) -> dict[int, int]:
    """Return for each opening round bracket that is closed the index of its partner."""
    pairs: dict[int, int] = {}
    opened: list[int] = []
    for i, token in enumerate(tokens):
        if token.text == "(":
            opened.append(i)
        elif token.text == ")" and opened:
            pairs[opened.pop()] = i
    return pairs


def _split(tokens: Sequence[Token]) -> list[Sequence[Token]]:
    """Split arguments at the commas outside brackets."""
    parts: list[Sequence[Token]] = []
    depth = start = 0
    for i, token in enumerate(tokens):
        if token.text == "(":
            depth += 1
        elif token.text == ")":
            depth -= 1
        elif token.text == "," and depth == 0:
            parts.append(tokens[start:i])
            start = i + 1
    return [*parts, tokens[start:]]
