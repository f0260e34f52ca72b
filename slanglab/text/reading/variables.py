"""Reading variables: fields of a struct, members of a `cbuffer`, globals."""

from __future__ import annotations

from slanglab.text.outline import Field, Variable
from slanglab.text.reading.parameters import declared_type
from slanglab.text.reading.reader import Reader
from slanglab.text.reading.scopes import Lead

__all__ = ["read_let", "read_variables"]

_CONTINUES = frozenset(
    ("=", ",", "+", "-", "*", "/", "%", "?", ":", "&&", "||", "&", "|", "^", "<", "->", ".")
)


def read_variables(
    reader: Reader, i: int, written: tuple[int, int], lead: Lead, *, type_name: str = ""
) -> int:
    """Read one or more variables of one type, up to the `;`.

    Parameters
    ----------
    reader : Reader
    i : int
        Index of the first name.
    written : (int, int)
        Where the type stands.
    lead : Lead
    type_name : str
        The type, where it does not stand before the name.

    Returns
    -------
    int
        The index after the declaration.
    """
    words = reader.words
    while True:
        name_at = i
        start, end = written
        type_, i = declared_type(words, start, end, i + 1)
        type_ = type_name + type_
        value = None
        while words.word(i) == ":" and i + 1 < words.size:  # a semantic, a register, a width in bits
            i += 2
            if words.word(i) == "(" and words.pair[i] > i:
                i = words.pair[i] + 1
        missing = False
        if words.word(i) == "=":
            value_end, missing = _value_end(reader, i + 1)
            value = words.source(i + 1, value_end) or None
            i = value_end
        _list(reader, name_at, type_, value, lead, i)
        word = words.word(i)
        if word == "," and words.is_name(i + 1):
            i += 1
            continue
        if word == ";":
            return i + 1
        if missing or word in ("}", "") or words.new_line(i):
            reader.wrong(i)  # the `;` is missing
            return i
        return reader.trouble(i)


def _value_end(reader: Reader, i: int) -> tuple[int, bool]:
    """Return the index after an initial value, and whether its `;` is missing.

    It is when something follows that no value holds: another `=`, or the body of a function. Then the value ends with its line.
    """
    words = reader.words
    start, line_end = i, -1
    while i < words.size:
        word = words.word(i)
        if word in (",", ";", "}", ")", "]"):
            return i, False
        goes_on = words.word(i - 1) in _CONTINUES and word != "["  # a `[` that begins a line is an attribute
        if line_end < 0 and words.new_line(i) and (not goes_on if i > start else word == "["):
            line_end = i
        if line_end >= 0 and (word == "=" or (word == "{" and words.word(i - 1) != "=")):
            return line_end, True
        i = words.skip(i, words.size)
    return i, False


def _list(reader: Reader, at: int, type_: str, value: str | None, lead: Lead, end: int) -> None:
    words, scope = reader.words, reader.scopes[-1]
    line, column = words.where.at(words.offset(at))
    name, doc = words.word(at), reader.doc(lead, end)
    if scope.struct is not None:
        if "static" not in lead.modifiers:
            scope.fields.append(Field(name, type_, doc, line, column))
        return
    modifiers = ("cbuffer", *lead.modifiers) if scope.kind == "cbuffer" else tuple(lead.modifiers)
    namespace = reader.path(namespaces=True)
    reader.globals.append(
        Variable(name, reader.qualify(name), type_, modifiers, value, doc, namespace, line, column)
    )


def read_let(reader: Reader, i: int, lead: Lead) -> int | None:
    """Read `let x : float = 1;` and `var x = 1;`; `i` is the index of the first word."""
    words = reader.words
    if not words.is_name(i + 1) or words.word(i + 2) not in (":", "="):
        return None
    name_at, i, written = i + 1, i + 2, (0, 0)
    if words.word(i) == ":":
        written = (i + 1, words.type_end(i + 1))
        i = max(written[1], i + 1)
    value = None
    if words.word(i) == "=":
        value_end, _ = _value_end(reader, i + 1)
        value = words.source(i + 1, value_end) or None
        i = value_end
    lead.modifiers.append(words.word(name_at - 1))
    _list(reader, name_at, words.type_text(*written), value, lead, i)
    if words.word(i) == ";":
        return i + 1
    reader.wrong(i)
    return i
