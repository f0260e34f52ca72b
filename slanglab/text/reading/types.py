"""Reading what encloses other declarations (`struct`, `extension`, `namespace`), enums, and other names for types."""

from __future__ import annotations

from slanglab.text.outline import Field, ModuleDeclaration, Struct, StructKind
from slanglab.text.reading.reader import Reader
from slanglab.text.reading.scopes import Lead, Scope
from slanglab.text.tokens import string_value

__all__ = [
    "read_cbuffer",
    "read_extension",
    "read_module",
    "read_namespace",
    "read_property",
    "read_struct",
    "read_subscript",
    "read_typealias",
    "read_typedef",
    "to_semicolon",
]

_DEEPEST = 64
"""Types and namespaces nested deeper are not read: their full names alone would fill the memory."""

_GOES_ON = frozenset((".", ",", "=", "::", ":"))
_KINDS: dict[str, StructKind] = {
    "struct": "struct",
    "class": "class",
    "interface": "interface",
    "enum": "enum",
    "union": "union",
}


def read_struct(reader: Reader, i: int, lead: Lead) -> int | None:
    """Read the head of a struct, class, interface, enum or union, and enter it; an enum is read to its end."""
    words = reader.words
    kind = _KINDS[words.word(i)]
    i += 1
    if kind == "enum" and words.word(i) in ("class", "struct"):
        i += 1
    while words.word(i) == "[" and words.pair[i] > i:
        i = words.pair[i] + 1
    name_at = i
    if words.is_name(i):
        i += 1
    elif words.word(i) != "{":
        return None
    generics, i = reader.generics_at(i)
    bases, i = _bases(reader, i)
    if words.word(i) not in ("{", ";", "="):
        return None if name_at < i and not bases and not generics else reader.trouble(i)
    name = words.word(name_at) if i > name_at else ""
    scope = _declare(reader, kind, name, name_at, (*lead.generics, *generics), bases, lead)
    if words.word(i) != "{":  # a declaration without a body, or `struct X : I = Y;`
        scope.end_line = words.last_line(i + 1)
        return to_semicolon(reader, i, lead)
    if kind == "enum":
        return _cases(reader, i, scope)
    return _enter(reader, scope, i, lead)


def _bases(reader: Reader, i: int) -> tuple[tuple[str, ...], int]:
    """Read `: A, B<C> where ...` and return the bases and the index of what follows, a `{`, `;` or `=`."""
    words = reader.words
    bases: tuple[str, ...] = ()
    if words.word(i) == ":":
        start = i = i + 1
        while words.word(i) not in ("{", ";", "=", "where", "}", ""):
            i = words.skip(i, words.size)
        bases = tuple(words.type_text(a, b) for a, b in words.split(start, i))
    if words.word(i) == "where":
        while words.word(i) not in ("{", ";", "}", ""):
            i = words.pair[i] + 1 if words.pair[i] > i else i + 1
    return bases, i


def _declare(
    reader: Reader,
    kind: StructKind,
    name: str,
    at: int,
    generics: tuple[str, ...],
    bases: tuple[str, ...],
    lead: Lead,
) -> Scope:
    """List a type and return its scope; its members are added to it while it is open."""
    line, column = reader.words.where.at(reader.words.offset(at))
    struct = Struct(
        name=name,
        qualified=reader.qualify(name),
        kind=kind,
        bases=bases,
        doc=reader.doc(lead, -1),
        generics=generics,
        namespace=reader.qualify("").removesuffix("::"),
        line=line,
        column=column,
    )
    scope = Scope(kind, name, struct=struct, end_line=line)
    reader.types.append(scope)
    return scope


def _enter(reader: Reader, scope: Scope, opener: int, lead: Lead) -> int:
    """Open a scope and return the index behind its `{`; one that is nested too deep is passed over instead."""
    words = reader.words
    if len(reader.scopes) > _DEEPEST:
        reader.wrong(opener)
        return reader.body(opener, lead.start)
    scope.opener = opener
    scope.closed = words.pair[opener] > opener
    scope.column = words.where.column(words.offset(lead.start))
    reader.scopes.append(scope)
    return opener + 1


def _cases(reader: Reader, i: int, scope: Scope) -> int:
    words = reader.words
    end = reader.body(i, i)
    close = end - 1 if words.pair[i] > i else end
    for start, stop in words.split(i + 1, close):
        doc = list(words.code.docs.get(start, []))
        at = start
        while words.word(at) == "[" and words.pair[at] > at:
            at = words.pair[at] + 1
        if at < stop and words.is_name(at):
            line, column = words.where.at(words.offset(at))
            lead = Lead(start, doc=doc)
            text = reader.doc(lead, stop if words.word(stop) == "," else stop - 1)
            scope.fields.append(Field(words.word(at), "", text, line, column))
        else:
            reader.wrong(at)
    scope.end_line = words.last_line(end)
    return end


def read_extension(reader: Reader, i: int, lead: Lead) -> int | None:
    """Read the head of `extension T : I`, and enter it."""
    words = reader.words
    generics, start = reader.generics_at(i + 1)
    end = words.type_end(start)
    if end == start:
        return None
    bases, after = _bases(reader, end)
    if words.word(after) != "{":
        return reader.trouble(after) if words.word(end) in (":", "where") else None
    name = words.type_text(start, end)
    scope = _declare(reader, "extension", name, start, (*lead.generics, *generics), bases, lead)
    return _enter(reader, scope, after, lead)


def read_namespace(reader: Reader, i: int, lead: Lead) -> int | None:
    """Read the head of `namespace a::b`, and enter it."""
    words = reader.words
    names: list[str] = []
    at = i + 1
    while words.is_name(at):
        names.append(words.word(at))
        at += 1
        if words.word(at) in ("::", "."):
            at += 1
    if words.word(at) != "{":
        return None
    return _enter(reader, Scope("namespace", "::".join(names)), at, lead)


def read_cbuffer(reader: Reader, i: int, lead: Lead) -> int | None:
    """Read the head of `cbuffer C : register(b0)`, and enter it: its members are globals."""
    words, at = reader.words, i + 1
    if words.is_name(at):
        at += 1
    if words.word(at) == ":":
        at += 2
        if words.word(at) == "(" and words.pair[at] > at:
            at = words.pair[at] + 1
    if words.word(at) != "{":
        return None
    return _enter(reader, Scope("cbuffer"), at, lead)


def read_typealias(reader: Reader, i: int, lead: Lead) -> int | None:
    """Read `typealias A = B;`."""
    words = reader.words
    if not words.is_name(i + 1):
        return None
    generics, at = reader.generics_at(i + 2)
    if words.word(at) != "=":
        return to_semicolon(reader, at, lead)
    end = words.type_end(at + 1)
    _declare(reader, "typealias", words.word(i + 1), i + 1, generics, (words.type_text(at + 1, end),), lead)
    return to_semicolon(reader, end if end > at + 1 else at, lead)


def read_typedef(reader: Reader, i: int, lead: Lead) -> int | None:
    """Read `typedef B A;`."""
    words = reader.words
    end = words.type_end(i + 1)
    if end == i + 1 or not words.is_name(end):
        return None
    _declare(reader, "typealias", words.word(end), end, (), (words.type_text(i + 1, end),), lead)
    return to_semicolon(reader, end, lead)


def read_property(reader: Reader, i: int, lead: Lead) -> int | None:
    """Read `property float x { get; set; }` and `property x : float { ... }`."""
    words = reader.words
    scope = reader.scopes[-1]
    start = i + 1
    if words.is_name(start) and words.word(start + 1) == ":":
        name_at, start = start, start + 2
        end = after = words.type_end(start)
    else:
        end = name_at = words.type_end(start)
        after = end + 1
    if end == start or not words.is_name(name_at) or words.word(after) not in ("{", ";", "->"):
        return None
    if scope.struct is not None:
        line, column = words.where.at(words.offset(name_at))
        type_ = words.type_text(start, end)
        scope.properties.append(Field(words.word(name_at), type_, reader.doc(lead, after), line, column))
    return reader.body(after, lead.start) if words.word(after) == "{" else to_semicolon(reader, after, lead)


def read_subscript(reader: Reader, i: int, lead: Lead) -> int | None:
    """Pass over `__subscript(int i) -> T { get; }`."""
    words = reader.words
    _, at = reader.generics_at(i + 1)
    if words.word(at) != "(":
        return None
    while words.word(at) not in ("{", ";", "}", ""):
        at = words.skip(at, words.size)
    return (
        reader.body(at, lead.start)
        if words.word(at) == "{"
        else min(at + (words.word(at) == ";"), words.size)
    )


def read_module(reader: Reader, i: int, lead: Lead) -> int | None:
    """Read `module x;`."""
    words = reader.words
    named = i + 1 < words.size and words.tokens[i + 1].kind in ("name", "string")
    if not named or words.word(i + 2) not in (";", "", "."):
        return None
    line, column = words.where.at(words.offset(i))
    token = words.tokens[i + 1]
    name = string_value(token.text) if token.kind == "string" else token.text
    if reader.module is None:
        reader.module = ModuleDeclaration(name, line, column)
    return to_semicolon(reader, i + 1, lead)


def to_semicolon(reader: Reader, i: int, lead: Lead) -> int:
    """Return the index after the `;` that ends a declaration; where it is missing, that of what follows on another line."""
    words = reader.words
    first = i
    while i < words.size:
        word = words.word(i)
        if word == ";":
            return i + 1
        goes_on = words.word(i - 1) in _GOES_ON and word != "["  # a `[` that begins a line is an attribute
        if word == "}" or (i > first and words.new_line(i) and not goes_on):
            break
        i = words.pair[i] + 1 if words.pair[i] > i else i + 1
    reader.wrong(i)
    return i
