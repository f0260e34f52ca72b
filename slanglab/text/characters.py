"""Characters that do not belong into Slang code: what they are called, and what was meant.

Slang takes every character beyond ASCII for a letter, so that `x−1` with a typographic minus is an undefined identifier `x−1`.
"""

from __future__ import annotations

import re
import unicodedata

__all__ = [
    "CONTROL",
    "INVISIBLE",
    "REORDERS",
    "describe",
    "instead",
    "looks_like",
    "odd_in_code",
    "python_name",
]

REORDERS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that change the order in which text is shown: what is seen is not what is compiled."""

INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Characters without a picture, those that reorder text among them."""

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters other than tab and newline, and halves of surrogate pairs."""

_SPELLED: dict[str, str] = {
    "\N{LEFT DOUBLE QUOTATION MARK}": '"',
    "\N{RIGHT DOUBLE QUOTATION MARK}": '"',
    "\N{DOUBLE LOW-9 QUOTATION MARK}": '"',
    "\N{DOUBLE HIGH-REVERSED-9 QUOTATION MARK}": '"',
    "\N{LEFT-POINTING DOUBLE ANGLE QUOTATION MARK}": '"',
    "\N{RIGHT-POINTING DOUBLE ANGLE QUOTATION MARK}": '"',
    "\N{LEFT SINGLE QUOTATION MARK}": "'",
    "\N{RIGHT SINGLE QUOTATION MARK}": "'",
    "\N{SINGLE LOW-9 QUOTATION MARK}": "'",
    "\N{ACUTE ACCENT}": "'",
    "\N{MODIFIER LETTER APOSTROPHE}": "'",
    "\N{MINUS SIGN}": "-",
    "\N{HYPHEN}": "-",
    "\N{NON-BREAKING HYPHEN}": "-",
    "\N{FIGURE DASH}": "-",
    "\N{EN DASH}": "-",
    "\N{EM DASH}": "-",
    "\N{HORIZONTAL BAR}": "-",
    "\N{SMALL HYPHEN-MINUS}": "-",
    "\N{MULTIPLICATION SIGN}": "*",
    "\N{ASTERISK OPERATOR}": "*",
    "\N{DOT OPERATOR}": "*",
    "\N{MIDDLE DOT}": "*",
    "\N{BULLET OPERATOR}": "*",
    "\N{DIVISION SIGN}": "/",
    "\N{DIVISION SLASH}": "/",
    "\N{FRACTION SLASH}": "/",
    "\N{LESS-THAN OR EQUAL TO}": "<=",
    "\N{GREATER-THAN OR EQUAL TO}": ">=",
    "\N{NOT EQUAL TO}": "!=",
    "\N{IDENTICAL TO}": "==",
    "\N{LOGICAL AND}": "&&",
    "\N{LOGICAL OR}": "||",
    "\N{NOT SIGN}": "!",
    "\N{RIGHTWARDS ARROW}": "->",
    "\N{RATIO}": ":",
    "\N{GREEK QUESTION MARK}": ";",
    "\N{IDEOGRAPHIC COMMA}": ",",
    "\N{IDEOGRAPHIC FULL STOP}": ".",
    "\N{LEFT BLACK LENTICULAR BRACKET}": "[",
    "\N{RIGHT BLACK LENTICULAR BRACKET}": "]",
    "\N{MATHEMATICAL LEFT ANGLE BRACKET}": "<",
    "\N{MATHEMATICAL RIGHT ANGLE BRACKET}": ">",
    "\N{LEFT ANGLE BRACKET}": "<",
    "\N{RIGHT ANGLE BRACKET}": ">",
    "\N{SQUARE ROOT}": "sqrt",
    "\N{INFINITY}": "1.0 / 0.0",
}
# Cyrillic letters that look like Latin ones.
_CYRILLIC = dict(zip("аеорсухіјѕԁһѵАВЕКМНОРСТХІЈЅ", "aeopcyxijsdhvABEKMHOPCTXIJS", strict=True))


_NAMES = {"\0": "NUL", "\f": "form feed", "\v": "vertical tab", "\x1b": "escape", "\x85": "next line"}


def describe(character: str) -> str:
    r"""Return a character in words that can be shown safely: "no-break space (U+00A0)".

    What is invisible, controls the terminal or reorders text is given as it would be escaped: `right-to-left override (\u202e)`.
    """
    category, number = unicodedata.category(character), ord(character)
    escaped = (
        f"\\x{number:02x}"
        if number < 0x100
        else f"\\u{number:04x}"
        if number < 0x10000
        else f"\\U{number:08x}"
    )
    if category == "Cs":
        return f"half of a surrogate pair ({escaped})"
    kind = "control character" if category == "Cc" else "character without a name"
    name = unicodedata.name(character, "").lower() or _NAMES.get(character, kind)
    hidden = category in ("Cc", "Cf", "Co", "Cn") or INVISIBLE.match(character)
    return f"{name} ({escaped if hidden else f'U+{number:04X}'})"


def instead(character: str) -> str | None:
    """Return what was probably meant by a character that is odd in code, or None."""
    if character in _SPELLED:
        return _SPELLED[character]
    if unicodedata.category(character) == "Zs":
        return " "
    if unicodedata.category(character) == "No":  # a superscript two is no digit of a number
        return None
    digit = unicodedata.decimal(character, None)
    if digit is not None:
        return str(digit)
    plain = unicodedata.normalize("NFKC", character)
    return plain if plain.isascii() and plain.isprintable() and plain.strip() else None


def odd_in_code(character: str, *, first: bool = False) -> bool:
    """Tell whether a character has no place in an identifier, as its first character or later."""
    if character.isascii():
        return False
    return not (character if first else f"a{character}").isidentifier() or bool(INVISIBLE.match(character))


def looks_like(name: str) -> str | None:
    """Return the ASCII name that an identifier passes for, or None where it passes for nothing but itself.

    That is a name that Python would turn into ASCII (`𝑥`, `ｘ`), and one that mixes Latin letters with Cyrillic ones of the same
    shape. Greek letters, and names in one script, are what they are.
    """
    if name.isascii():
        return None
    plain = python_name(name)
    if plain.isascii():
        return plain
    latin = any(c.isascii() and c.isalpha() for c in name)
    folded = "".join(_CYRILLIC.get(c, c) for c in name)
    return folded if latin and folded.isascii() else None


def python_name(name: str) -> str:
    """Return the name that Python makes of an identifier: `m.µ` (U+00B5) looks up `μ` (U+03BC).

    Parameters
    ----------
    name : str
        A Slang name.

    Returns
    -------
    str
        In normalisation form NFKC, as the Python language reference says (section 2.3, Identifiers and keywords).
    """
    return name if name.isascii() else unicodedata.normalize("NFKC", name)
