"""What reading declarations needs at every step: the words, the open scopes, what was found, and how to go on after a mistake."""

from __future__ import annotations

import re

from slanglab.text.outline import ModuleDeclaration, Variable
from slanglab.text.reading.scopes import Lead, Listed, Scope
from slanglab.text.reading.words import Words, documentation

__all__ = ["DECLARES", "Reader"]

DECLARES = frozenset(
    (
        "struct",
        "class",
        "interface",
        "enum",
        "union",
        "extension",
        "namespace",
        "typealias",
        "typedef",
        "import",
        "func",
        "let",
        "var",
    )
)
"""Words that begin a declaration."""


_DEFINE = re.compile(r"#\s*define\s+((?:[^\W\d]|[^\x00-\x7f\s])\w*)")


class Reader:
    """One reading of one text.

    Parameters
    ----------
    text : str
        Any text; lines end at newlines.

    Attributes
    ----------
    words : Words
    scopes : list of Scope
        The open ones, outermost first; the first is the file.
    functions, types, globals, module
        What was found so far.
    macros : dict
        The names that the text defines with `#define`, as keys.
    errors : set of int
        Indices of the tokens that made no sense.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.words = Words(text)
        self.scopes = [Scope("file")]
        self.functions: list[Listed] = []
        self.types: list[Scope] = []
        self.globals: list[Variable] = []
        self.module: ModuleDeclaration | None = None
        self.errors: set[int] = set()
        defined = (_DEFINE.match(directive.text) for directive in self.words.code.directives)
        self.macros = dict.fromkeys(match[1] for match in defined if match)

    # ----- names -----

    def path(self, *, namespaces: bool) -> str:
        """Return the enclosing namespaces, or the enclosing types."""
        inside = [
            s.name for s in self.scopes[1:] if (s.kind == "namespace") == namespaces and s.kind != "cbuffer"
        ]
        return "::".join(name for name in inside if name)

    def qualify(self, name: str) -> str:
        """Return a name with everything that encloses it."""
        inside = [s.name for s in self.scopes[1:] if s.kind != "cbuffer" and s.name]
        return "::".join([*inside, name])

    def doc(self, lead: Lead, i: int) -> str:
        """Return the documentation of what is declared: above it, or behind token `i` on its line."""
        trailing = self.words.code.trailing.get(i)
        return documentation(lead.doc or ([trailing] if trailing else []))

    def generics_at(self, i: int) -> tuple[tuple[str, ...], int]:
        """Return the generic parameters that begin at `i`, and the index after them; none where no `<` opens them."""
        words = self.words
        close = words.angle(i) if words.word(i) == "<" else -1
        if close < 0:
            return (), i
        return tuple(words.type_text(a, b) for a, b in words.split(i + 1, close)), close + 1

    # ----- going on after a mistake -----

    def outdented(self, i: int, column: int) -> bool:
        """Tell whether a token begins a line no deeper than `column`: where a `}` is missing, something new begins there."""
        words = self.words
        if not words.new_line(i) or words.word(i) in ("{", "}", ")", "]"):
            return False
        return words.where.column(words.offset(i)) <= column

    def wrong(self, i: int) -> None:
        """Note a token that makes no sense; the last one of the text stands for its end."""
        if self.words.size:
            self.errors.add(min(i, self.words.size - 1))

    def trouble(self, i: int) -> int:
        """Note a place that makes no sense, and return the index of the next one that may begin a declaration."""
        words = self.words
        self.wrong(i)
        start, column = i, words.where.column(words.offset(i))
        while i < words.size:
            word = words.word(i)
            if word == ";":
                return i + 1
            if word == "}":
                return i
            if word == "{":
                return self.body(i, i)
            if i > start and words.new_line(i) and (word in DECLARES or word == "["):
                return i
            if i > start and words.is_name(i) and self.outdented(i, column):
                return i
            i = words.pair[i] + 1 if words.pair[i] > i else i + 1
        return i

    def body(self, i: int, start: int) -> int:
        """Return the index after the body whose `{` is at `i`.

        Where its `}` is missing the body ends at the next line that begins no deeper than the declaration at `start`.
        """
        words = self.words
        if words.pair[i] > i:
            return words.pair[i] + 1
        column = words.where.column(words.offset(start))
        branch = words.code.branch[i]
        i += 1
        while i < words.size and not self.outdented(i, column):
            if branch and words.code.branch[i] != branch:
                return i  # the head is written once for each arm of an `#if`, and this arm ends here
            if words.word(i) == "}" and words.pair[i] < 0:
                return i + 1
            i += 1
        return i
