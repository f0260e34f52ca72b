"""The words of a Slang text: one linear pass, no recursion, nothing dropped, never an error.

`scan` splits a text into tokens; what cannot be a token is still one, of kind "symbol". `code` keeps what the compiler
reads: it takes out comments, directives and the branches that `#if 0` switches off, and pairs the brackets that are left.

Why not a grammar: tree-sitter-slang 0.3.1 reports errors in 82 of the 96 Slang files that slangpy 0.43.1 ships (two attributes
in a row, `no_diff`, `public`, `int[2] x` are enough), so its tree does not say which declarations there are.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

__all__ = ["Branch", "Code", "Kind", "Positions", "Token", "code", "scan", "string_value"]

Kind = Literal["name", "number", "string", "character", "comment", "directive", "symbol"]

Branch = tuple[tuple[int, int], ...]
"""Where a token stands among `#if` branches: pairs of (number of the `#if`, number of its arm), outermost first."""

_DEPTH = 64
"""`#if` nesting beyond this is not told apart: a limit that keeps the cost of hostile text linear."""

# No possessive quantifiers: Python before 3.11.5 (Debian 12 has 3.11.2) gets those on groups wrong. Each alternative is unrolled instead,
# so that what one part of it takes no other part can, and no text makes the expression go back and forth.
_TOKEN = re.compile(
    r"""
      (?P<space> (?: [\s\ufeff] | \\\n )+ )
    | (?P<comment> //[^\n\\]* (?: \\\n? [^\n\\]* )* | /\*[^*]* (?: \*(?!/) [^*]* )* (?:\*/)? )
    | (?P<raw> R"(?P<delimiter>[^()\\\s"]{0,16})\( )
    | (?P<string> "[^"\\\n]* (?: \\[\s\S] [^"\\\n]* )* "? )
    | (?P<character> '[^'\\\n]* (?: \\[\s\S] [^'\\\n]* )* '? )
    | (?P<number> \.?[0-9](?: [eEpP][+-] | [\w.] )* )
    | (?P<name> (?: [^\W\d] | [^\x00-\x7f\s\ufeff] )(?: \w | [^\x00-\x7f\s\ufeff] )* )
    | (?P<symbol> :: | -> | && | \|\| | << | \+\+ | -- | \.\.\. | [<=!+\-*/%&|^]= | [\s\S] )
    """,
    re.VERBOSE,
)
# A directive runs to the end of its line; a comment inside it belongs to it, one that ends the line does not.
_DIRECTIVE = re.compile(
    r"""
    \#[^\n\\/"]*
    (?: (?: \\\n? | /\*[^*]* (?: \*(?!/) [^*]* )* \*/ | /(?![/*]) | "[^"\\\n]* (?: \\[\s\S] [^"\\\n]* )* " | " )
        [^\n\\/"]* )*
    """,
    re.VERBOSE,
)
_OPENERS = frozenset("([{")
_CLOSERS = {")": "(", "]": "[", "}": "{"}


class Token(NamedTuple):
    """One word of a text.

    Attributes
    ----------
    kind : {"name", "number", "string", "character", "comment", "directive", "symbol"}
    text : str
        As written. `>` is always a symbol of its own, so that `>>` can close two lists of generic arguments.
    start, end : int
        Offsets in code points, `end` exclusive.
    closed : bool
        False for a comment or a string that the text ends before.
    """

    kind: Kind
    text: str
    start: int
    end: int
    closed: bool = True


class Positions:
    """Turns offsets of a text into 1-based lines and columns, both counted in code points.

    Lines end at newlines, as in `clean` text.
    """

    def __init__(self, text: str) -> None:
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def line(self, offset: int) -> int:
        """Return the line of an offset."""
        return bisect_right(self._starts, offset)

    def column(self, offset: int) -> int:
        """Return the column of an offset."""
        return offset - self._starts[self.line(offset) - 1] + 1

    def at(self, offset: int) -> tuple[int, int]:
        """Return line and column of an offset."""
        line = self.line(offset)
        return line, offset - self._starts[line - 1] + 1


def scan(text: str, start: int = 0, end: int | None = None, *, directives: bool = True) -> list[Token]:
    """Split a text into tokens; white space and line continuations lie between them.

    Parameters
    ----------
    text : str
        Any text; lines end at newlines.
    start, end : int
        The part of the text to read.
    directives : bool
        Whether a `#` that begins a line begins a directive. False reads the inside of a directive as code.

    Returns
    -------
    list of Token
        In order; two tokens never overlap.
    """
    stop = len(text) if end is None else end
    tokens: list[Token] = []
    fresh = True  # Only white space and comments so far on this line: a `#` here begins a directive.
    at = start
    while at < stop:
        match = _TOKEN.match(text, at, stop)
        assert match is not None
        kind, end_of = match.lastgroup, match.end()
        if kind == "space":
            # The newline of a continuation does not begin a line.
            fresh = fresh or "\n" in match.group().replace("\\\n", "")
        elif kind == "comment":
            word = match.group()
            closed = word.startswith("//") or (len(word) > 3 and word.endswith("*/"))
            tokens.append(Token("comment", word, at, end_of, closed))
        elif kind == "symbol" and fresh and directives and match.group() == "#":
            directive = _DIRECTIVE.match(text, at, stop)
            assert directive is not None
            end_of = directive.end()
            tokens.append(Token("directive", directive.group(), at, end_of))
        elif match["raw"] is not None:
            close = f'){match["delimiter"]}"'
            found = text.find(close, end_of, stop)
            end_of = stop if found < 0 else found + len(close)
            tokens.append(Token("string", text[at:end_of], at, end_of, found >= 0))
            fresh = False
        else:
            word = match.group()
            closed = kind not in ("string", "character") or (len(word) > 1 and _ends(word))
            tokens.append(Token(kind, word, at, end_of, closed))  # type: ignore[arg-type]
            fresh = False
        at = end_of
    return tokens


def _ends(literal: str) -> bool:
    """Tell whether a literal's last character closes it, which an escaped quote does not."""
    if literal[-1] != literal[0]:
        return False
    body = literal[1:-1]
    return (len(body) - len(body.rstrip("\\"))) % 2 == 0


_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|\n|([\s\S]))")
_NAMED = {"n": "\n", "r": "\r", "t": "\t", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


def string_value(literal: str) -> str:
    r"""Return what a string literal means: quotes off, escapes decoded, as Slang reads the name in `import "\x61";`."""
    if literal.startswith("R"):
        return literal[literal.find("(") + 1 : literal.rfind(")")]

    def decode(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        if match[2]:
            return chr(int(match[2], 8))
        return _NAMED.get(match[3], match[3]) if match[3] else ""

    return _ESCAPE.sub(decode, literal[1:].removesuffix('"'))


@dataclass
class Code:
    """The tokens that the compiler reads, with what hangs on them.

    Attributes
    ----------
    tokens : list of Token
        Without comments, directives and dead branches.
    pair : list of int
        For each token that is a bracket the index of its partner, otherwise -1. A bracket without a partner has -1 too.
    branch : list of Branch
        For each token its place among `#if` branches.
    docs, trailing : dict of int to str
        Index of a token to the raw documentation comment that stands directly above it, or after it on its line (`///<`).
    directives : list of Token
        The live directives.
    dead : list of (int, int)
        Offsets of the stretches that `#if 0` switches off.
    """

    tokens: list[Token] = field(default_factory=list)
    pair: list[int] = field(default_factory=list)
    branch: list[Branch] = field(default_factory=list)
    docs: dict[int, list[str]] = field(default_factory=dict)
    trailing: dict[int, str] = field(default_factory=dict)
    directives: list[Token] = field(default_factory=list)
    dead: list[tuple[int, int]] = field(default_factory=list)


class _Stack(NamedTuple):
    """Open brackets as a linked list: saving and restoring it at `#if` and `#else` costs nothing.

    Each entry knows the nearest one of each sort below it, so that a stray bracket costs no search. Round and square
    ones are not looked for below a brace.
    """

    token: int
    opener: str
    below: _Stack | None
    nearest: dict[str, _Stack]


@dataclass
class _If:
    """One open `#if`."""

    number: int
    brackets: _Stack | None
    arm: int
    outer: Branch
    outer_dead: bool
    taken: bool
    """True once an arm is known to be the one that the compiler reads (`#if 1`): the later ones are dead."""


_CONDITION = re.compile(r"#\s*(ifdef|ifndef|if|elifdef|elifndef|elif|else|endif)\b(.*)", re.DOTALL)
_COMMENTS = re.compile(r"/\*.*?\*/|\\\n", re.DOTALL)
_TRAILING = ("///<", "//!<", "/**<", "/*!<")
_DOC = ("///", "//!", "/**", "/*!")
_NO_DOC = ("////", "/***", "/**/", *_TRAILING)


def code(text: str, tokens: list[Token] | None = None) -> Code:
    """Keep what the compiler reads of a text.

    All branches of a conditional are kept, except those that a literal 0 or 1 switches off. Each arm of a conditional
    begins with the brackets that were open at its `#if`, so a function head written twice does not unbalance the rest.

    Parameters
    ----------
    text : str
        Any text; lines end at newlines.
    tokens : list of Token, optional
        The result of `scan`, where it is at hand.
    """
    result = Code()
    ifs: list[_If] = []
    brackets: _Stack | None = None
    branch: Branch = ()
    dead = False
    dead_from = 0
    count = 0
    above: list[Token] = []
    for token in scan(text) if tokens is None else tokens:
        if token.kind == "directive":
            above = []
            match = _CONDITION.match(token.text)
            if match is None:
                if not dead:
                    result.directives.append(token)
                continue
            word, was_dead = match[1], dead
            if word.startswith("if"):
                value = _value(match[2]) if word == "if" else None
                ifs.append(_If(count, brackets, 0, branch, dead, value is True))
                count += 1
                dead = dead or value is False
            elif ifs and word == "endif":
                closed = ifs.pop()
                branch, dead = closed.outer, closed.outer_dead
            elif ifs:
                opened = ifs[-1]
                value = _value(match[2]) if word == "elif" else None
                brackets = opened.brackets
                opened.arm += 1
                dead = opened.outer_dead or opened.taken or value is False
                opened.taken = opened.taken or value is True
            if ifs:
                branch = (*ifs[-1].outer, (ifs[-1].number, ifs[-1].arm))[:_DEPTH]
            if dead and not was_dead:
                dead_from = token.end
            elif was_dead and not dead:
                result.dead.append((dead_from, token.start))
            continue
        if dead:
            continue
        if token.kind == "comment":
            _comment(text, result, above, token)
            continue
        index = len(result.tokens)
        if above:
            if _touches(text, above[-1], token) and (doc := _documentation(above)):
                result.docs[index] = doc
            above = []
        result.tokens.append(token)
        result.branch.append(branch)
        result.pair.append(-1)
        if token.kind == "symbol":
            brackets = _pair(result, brackets, index, token.text)
    if dead:
        result.dead.append((dead_from, len(text)))
    return result


def _value(condition: str) -> bool | None:
    """Return what a condition that is a literal says, or None for one that depends on macros."""
    word = _COMMENTS.sub(" ", condition).strip().strip("()").strip()
    return {"0": False, "1": True, "false": False, "true": True}.get(word)


def _touches(text: str, comment: Token, token: Token) -> bool:
    """Tell whether a token follows a comment on the same line or the next."""
    return text.count("\n", comment.end, token.start) <= 1


def _comment(text: str, result: Code, above: list[Token], token: Token) -> None:
    """Add one more comment to those that stand together above the next token, or hang it on the token before it."""
    last = result.tokens[-1] if result.tokens else None
    if last is not None and "\n" not in text[last.end : token.start]:
        if token.text.startswith(_TRAILING):
            result.trailing[len(result.tokens) - 1] = token.text
        return
    if above and not _touches(text, above[-1], token):
        above.clear()
    above.append(token)


def _documentation(above: list[Token]) -> list[str]:
    """Return the documentation among comments that stand together: the last block, or the last lines."""
    found: list[str] = []
    for comment in above:
        written = comment.text
        if not written.startswith(_DOC) or written.startswith(_NO_DOC):
            continue
        if written.startswith("/*") or (found and found[-1].startswith("/*")):
            found.clear()
        found.append(written)
    return found


def _pair(result: Code, brackets: _Stack | None, index: int, symbol: str) -> _Stack | None:
    """Pair one bracket and return the stack after it.

    A closing brace ends whatever round and square brackets are open inside it; a closing round or square bracket
    that has no partner inside the nearest open brace is a stray one.
    """
    if symbol in _OPENERS:
        if brackets is None:
            return _Stack(index, symbol, None, {})
        if brackets.opener == "{":
            return _Stack(index, symbol, brackets, {"{": brackets})
        return _Stack(index, symbol, brackets, {**brackets.nearest, brackets.opener: brackets})
    if symbol not in _CLOSERS or brackets is None:
        return brackets
    wanted = _CLOSERS[symbol]
    partner = brackets if brackets.opener == wanted else brackets.nearest.get(wanted)
    if partner is None:
        return brackets
    result.pair[partner.token] = index
    result.pair[index] = partner.token
    return partner.below
