"""What a text must not ask of the compiler: files that nobody looked at, and work that ends the kernel.

SlangLab resolves every `import` and `#include` itself, because the compiler reads any file of the machine. So each of them must be
written where it can be seen, not made by the preprocessor. The limits are below what ends Slang 2026.12 with a stack of 8 MB (some
6 000 operations in one expression, 10 000 brackets) or keeps it busy for minutes (5 000 nested blocks, 32 000 parameters), and far
above what anybody writes.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from slanglab.text.expansion import pasted
from slanglab.text.tokens import Token, scan

__all__ = ["MOST_WORDS", "Hazard", "find_hazards", "reads_files"]

MOST_WORDS = 4096
"""In one expression, and in what one use of a macro becomes."""
_DEEPEST = 1000
_MOST_PARAMETERS = 8192
_MOST_ELSE = 1000

_PLAIN_INCLUDE = re.compile(r'#[ \t]*include[ \t]*(?:"[^"\n]*"|<[^>\n]*>)')
_INCLUDE = re.compile(r"#\s*include\b")
_DEFINE = re.compile(r"#\s*define\s+(\w+)")
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_BROKEN_WORD = re.compile(r"\w\\\n\w")
_CONTINUED = re.compile(r"(\\\n)+")
_READERS = frozenset(("import", "__import", "__include"))
_ENDS = frozenset(";{},")
_CLOSERS = {")": "(", "]": "[", "}": "{"}


class Hazard(NamedTuple):
    """One problem: offsets, then what a message consists of."""

    start: int
    end: int
    code: str
    title: str
    text: str
    hint: str


def find_hazards(text: str, tokens: Sequence[Token]) -> list[Hazard]:
    """Find what would make the compiler read a file unseen, crash, or go on for minutes.

    Parameters
    ----------
    text : str
        Lines end at newlines.
    tokens : sequence of Token
        The result of `slanglab.text.tokens.scan`.

    Returns
    -------
    list of Hazard
        One of each kind of size at most.
    """
    directives = [token for token in tokens if token.kind == "directive"]
    found = [hazard for token in directives if (hazard := _directive(token)) is not None]
    found += _words(text, tokens, directives)
    found += _sizes([token for token in tokens if token.kind not in ("comment", "directive")])
    return found


def reads_files(text: str) -> bool:
    """Tell whether the value of a macro holds a word that makes the compiler read a file."""
    return any(token.text in _READERS for token in scan(text, directives=False))


# ----- files -----


def _directive(token: Token) -> Hazard | None:
    joined = _COMMENT.sub(" ", token.text.replace("\\\n", ""))
    if _INCLUDE.match(joined):
        if _PLAIN_INCLUDE.match(token.text):
            return None
        said = "the name of the file must stand in the directive itself, on one line"
        hint = 'write `#include "file"`, without a macro or a comment'
        return Hazard(token.start, token.end, "include-form", "include that cannot be followed", said, hint)
    define = _DEFINE.match(joined)
    if define is None:
        return None
    if define[1] in ("true", "false"):
        said = f"{define[1]!r} is a word of the Slang language"
        return Hazard(
            token.start,
            token.end,
            "macro-name",
            "macro with a name that is taken",
            said,
            "choose another name",
        )
    if reads_files(joined[define.end() :]):
        said = "an import out of a macro cannot be followed"
        return Hazard(
            token.start,
            token.end,
            "import-form",
            "import in a macro",
            said,
            "write the import itself, without a macro",
        )
    return None


def _words(text: str, tokens: Sequence[Token], directives: Sequence[Token]) -> list[Hazard]:
    """Find imports in other spellings, and those that `##` or a broken line would put together."""
    found = []
    for token in tokens:
        if token.kind == "name" and token.text in ("__import", "__include"):
            said = f"`{token.text}` reads a file that SlangLab does not see"
            hint = "write `import NAME;`" if token.text == "__import" else 'write `#include "file"`'
            found.append(
                Hazard(token.start, token.end, "import-form", "import that cannot be followed", said, hint)
            )
    code = [token for token in tokens if token.kind not in ("comment", "directive")]
    for before, after in itertools.pairwise(code):
        # The compiler reads both as one word.
        broken = _CONTINUED.fullmatch(text, before.end, after.start)
        if broken and before.kind == "name" and after.kind in ("name", "number"):
            said = "a word that goes on in the next line"
            found.append(
                Hazard(
                    before.start, after.end, "broken-word", "word in two lines", said, "write it in one line"
                )
            )
    for token in directives:
        if _BROKEN_WORD.search(token.text):
            said = "a word that goes on in the next line"
            found.append(
                Hazard(
                    token.start, token.end, "broken-word", "word in two lines", said, "write it in one line"
                )
            )
    pasting = next((token for token in directives if "##" in token.text and _DEFINE.match(token.text)), None)
    if pasting is not None:
        flat = [*code, *(t for d in directives for t in scan(d.text, directives=False))]
        pieces = {token.text for token in flat if token.kind in ("name", "number")}
        made = next((word for word in sorted(_READERS) if pasted(word, pieces)), None)
        if made is not None:
            said = f"`##` could make `{made}` out of words of this text"
            hint = "write the import itself, or rename those words"
            found.append(Hazard(pasting.start, pasting.end, "import-form", "import in a macro", said, hint))
    return found


# ----- sizes -----


@dataclass
class _Bracket:
    """One open bracket: what is counted between it and its partner."""

    symbol: str
    commas: int = 0
    elses: int = 0
    """Of the chain of `if … else if …` that goes on here."""


def _sizes(code: Sequence[Token]) -> list[Hazard]:
    found: dict[str, Hazard] = {}

    def say(what: str, token: Token, hint: str) -> None:
        found.setdefault(what, _too_large(token, what, hint))

    opened = [_Bracket("")]
    run = 0
    before = ""
    for token in code:
        text, inner = token.text, opened[-1]
        if before in (";", "}") and text != "else":
            inner.elses = 0
        if text in ("(", "[", "{"):
            opened.append(_Bracket(text))
            if len(opened) > _DEEPEST:
                say(f"brackets more than {_DEEPEST} deep", token, "split it")
        elif text in _CLOSERS and inner.symbol == _CLOSERS[text]:
            opened.pop()
        elif text == "," and inner.symbol == "(":
            inner.commas += 1
            if inner.commas > _MOST_PARAMETERS:
                say(f"more than {_MOST_PARAMETERS} parameters", token, "pass a tensor or a struct")
        elif text == "else":
            inner.elses += 1
            if inner.elses > _MOST_ELSE:
                say(f"more than {_MOST_ELSE} branches in one chain", token, "use `switch` or a table")
        run = 0 if text in _ENDS else run + 1
        if run > MOST_WORDS:
            say(f"more than {MOST_WORDS} words in one expression", token, "split it into several statements")
        before = text
    return list(found.values())


def _too_large(token: Token, what: str, hint: str) -> Hazard:
    return Hazard(
        token.start,
        token.end,
        "too-large",
        "more than the compiler can take",
        f"{what}: the compiler could crash, and the kernel with it",
        hint,
    )
