"""The words of a text as a reader of declarations needs them: brackets, generic arguments, types, and pieces as text."""

from __future__ import annotations

import re

from slanglab.text.keywords import STATEMENTS
from slanglab.text.tokens import Positions, code, scan

__all__ = ["Words", "documentation"]

_TYPE_PREFIXES = frozenset(
    ("const", "expand", "each", "some", "dyn", "volatile", "struct", "enum", "class", "interface")
)
_SIGNS = frozenset(("unsigned", "signed"))
_SIGNED = frozenset(("int", "char", "short", "long"))
_ENDS_GENERICS = frozenset((";", "{", "}", ")", "]", "&&", "||", ""))
_AFTER_GENERICS = frozenset(
    ("(", ")", ",", ".", "::", "{", ">", "=", ";", ":", "[", "]", "?", "*", "where", "throws", "")
)
_NO_SPACE_AFTER = frozenset(("<", "(", "[", "::", ".", "!", "~"))
_NO_SPACE_BEFORE = frozenset((">", ")", "]", ",", "<", "(", "[", "::", ".", "*", "?"))


class Words:
    """Random access to the tokens of a text by index; an index beyond the end is an empty word.

    Parameters
    ----------
    text : str
        Any text; lines end at newlines.

    Attributes
    ----------
    code : Code
    tokens : list of Token
    pair : list of int
    where : Positions
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.code = code(text, scan(text))
        self.tokens = self.code.tokens
        self.pair = self.code.pair
        self.where = Positions(text)
        self.size = len(self.tokens)
        self._angles: dict[int, int] = {}

    def word(self, i: int) -> str:
        """Return a token's text."""
        return self.tokens[i].text if 0 <= i < self.size else ""

    def is_name(self, i: int) -> bool:
        """Tell whether a token is a name and may name something that is declared or used in a declaration."""
        return 0 <= i < self.size and self.tokens[i].kind == "name" and self.tokens[i].text not in STATEMENTS

    def new_line(self, i: int) -> bool:
        """Tell whether a token begins its line."""
        if i <= 0 or i >= self.size:
            return True
        return "\n" in self.text[self.tokens[i - 1].end : self.tokens[i].start]

    def offset(self, i: int) -> int:
        """Return where a token begins; the end of the text beyond the last one."""
        return self.tokens[i].start if i < self.size else len(self.text)

    def line(self, i: int) -> int:
        """Return the line on which a token begins."""
        return self.where.line(self.offset(i))

    def last_line(self, i: int) -> int:
        """Return the line on which the token before index `i` ends."""
        return self.where.line(max(0, self.tokens[min(i, self.size) - 1].end - 1)) if self.size and i else 1

    # ----- pieces as text -----

    def source(self, start: int, end: int) -> str:
        """Return tokens as they stand in the text, comments left out and white space made single spaces."""
        parts: list[str] = []
        for i in range(start, min(end, self.size)):
            if i > start and self.tokens[i].start > self.tokens[i - 1].end:
                parts.append(" ")
            parts.append(self.tokens[i].text)
        return "".join(parts)

    def type_text(self, start: int, end: int) -> str:
        """Return tokens as a type is written: `IDiffTensor<float, 2>`, `T : IFloat`."""
        parts: list[str] = []
        for i in range(start, min(end, self.size)):
            token, before = self.tokens[i], self.tokens[i - 1] if i > start else None
            if before is not None and self._spaced(before.text, token.text, token.start > before.end):
                parts.append(" ")
            parts.append(token.text)
        return "".join(parts)

    @staticmethod
    def _spaced(before: str, word: str, written: bool) -> bool:
        if before in _NO_SPACE_AFTER or word in _NO_SPACE_BEFORE:
            return False
        if before in (",", ":") or word == ":":
            return True
        wordlike = (before[-1].isalnum() or before[-1] in "_>]") and (word[0].isalnum() or word[0] == "_")
        return wordlike or written

    # ----- structure -----

    def angle(self, i: int) -> int:
        """Return the index of the `>` that closes the generic arguments which begin at `i`, or -1.

        What is found out about one `<` is found out about those inside it too, so that no text is read twice.
        """
        if i in self._angles:
            return self._angles[i]
        opened: list[int] = []
        at = i
        while at < self.size:
            word = self.word(at)
            if word == "<":
                opened.append(at)
            elif word == ">":
                self._angles[opened.pop()] = at
                if not opened:
                    return at
            elif word in ("(", "[") and self.pair[at] > at:
                at = self.pair[at]
            elif word in _ENDS_GENERICS:
                break
            at += 1
        for unclosed in opened:
            self._angles[unclosed] = -1
        return -1

    def split(self, start: int, end: int) -> list[tuple[int, int]]:
        """Split a stretch at its commas, those inside brackets and generic arguments left alone."""
        pieces: list[tuple[int, int]] = []
        begin = at = start
        while at < end:
            at, piece_end = self.skip(at, end), at
            if self.word(piece_end) == ",":
                pieces.append((begin, piece_end))
                begin = at
        if begin < end:
            pieces.append((begin, end))
        return pieces

    def skip(self, i: int, end: int) -> int:
        """Return the index after a token, or after the bracket or the generic arguments that it opens."""
        if self.pair[i] > i:
            return min(self.pair[i] + 1, end)
        if self.word(i) == "<" and i and self.tokens[i - 1].kind == "name":
            close = self.angle(i)
            # `a < b` in a default value: generic arguments are followed by what can follow a type.
            if 0 <= close < end and (self.word(close + 1) in _AFTER_GENERICS or self.is_name(close + 1)):
                return close + 1
        return i + 1

    def type_end(self, i: int) -> int:
        """Return the index after the type that begins at `i`; `i` itself where no type begins."""
        start = i
        while self.word(i) in _TYPE_PREFIXES and self.is_name(i + 1):
            i += 1
        if self.word(i) in _SIGNS:
            i += 1
            while self.word(i) in _SIGNED:
                i += 1
            return self._type_suffixes(i)
        if self.word(i) == "::":
            i += 1
        if not self.is_name(i):
            return start
        i += 1
        while True:
            word = self.word(i)
            if word == "<" and self.angle(i) >= 0:
                i = self.angle(i) + 1
            elif word in ("::", ".") and self.is_name(i + 1):
                i += 2
            else:
                return self._type_suffixes(i)

    def is_modifier(self, i: int, end: int) -> bool:
        """Tell whether a word that is no known modifier is one all the same: a type and a name follow it, before `end`.

        That is a macro, or one of the formats that GLSL puts before a texture.
        """
        if not self.is_name(i) or not self.is_name(i + 1) or self.type_end(i) != i + 1:
            return False
        after = self.type_end(i + 1)
        return after > i + 1 and after < end and (self.is_name(after) or self.word(after) == "operator")

    def _type_suffixes(self, i: int) -> int:
        while True:
            if self.word(i) == "[" and self.pair[i] > i:
                i = self.pair[i] + 1
            elif self.word(i) in ("*", "?", "&"):
                i += 1
            else:
                return i


_LINE_MARK = re.compile(r"^[ \t]*(?:///<?|//!<?)[ \t]?")
_STAR = re.compile(r"^[ \t]*\*(?!/) ?")


def documentation(comments: list[str]) -> str:
    """Return the text of documentation comments: marks and common indentation off, otherwise untouched.

    Parameters
    ----------
    comments : list of str
        `///` lines, or one block comment.
    """
    lines: list[str] = []
    for comment in comments:
        if comment.startswith("//"):
            lines += [_LINE_MARK.sub("", line) for line in comment.split("\n")]
            continue
        body = re.sub(r"^/\*[*!]<?", "", comment).removesuffix("*/")
        first, *rest = body.split("\n")
        starred = bool(rest) and all(_STAR.match(line) or not line.strip() for line in rest)
        if starred:
            rest = [_STAR.sub("", line) for line in rest]
        else:
            margin = min((len(line) - len(line.lstrip()) for line in rest if line.strip()), default=0)
            rest = [line[margin:] for line in rest]
        lines += [first.lstrip(), *rest]
    return "\n".join(line.rstrip() for line in lines).strip("\n").strip()
