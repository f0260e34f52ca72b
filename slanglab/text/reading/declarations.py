"""Reading a whole text: one declaration after the other.

Function bodies are passed over by their brackets; what stands between them is read word by word, so that a mistake costs the
declaration that it is in and not those around it. Nothing recurses: nesting has no limit.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from slanglab.text.imports import find_imports
from slanglab.text.keywords import MODIFIERS
from slanglab.text.outline import Include, Outline
from slanglab.text.reading import types
from slanglab.text.reading.functions import read_constructor, read_func, read_function, read_operator
from slanglab.text.reading.reader import DECLARES, Reader
from slanglab.text.reading.scopes import Lead, Scope, distinct, with_custom_derivatives
from slanglab.text.reading.variables import read_let, read_variables

__all__ = ["read"]

_MOST_ERRORS = 100
_INCLUDE = re.compile(r'#\s*include\s*(?:"([^"\n]*)"|<([^>\n]*)>)')

_Handler = Callable[[Reader, int, Lead], int | None]
_KEYWORDS: dict[str, _Handler] = {
    **dict.fromkeys(("struct", "class", "interface", "enum", "union"), types.read_struct),
    "extension": types.read_extension,
    "namespace": types.read_namespace,
    "cbuffer": types.read_cbuffer,
    "tbuffer": types.read_cbuffer,
    "typealias": types.read_typealias,
    "typedef": types.read_typedef,
    "property": types.read_property,
    "__subscript": types.read_subscript,
    "module": types.read_module,
    "__init": read_constructor,
    "func": read_func,
    "let": read_let,
    "var": read_let,
    **dict.fromkeys(("import", "implementing", "__include", "using", "associatedtype"), types.to_semicolon),
}


def read(text: str) -> Outline:
    """Read the declarations of a text.

    Parameters
    ----------
    text : str
        Any text; lines end at newlines.

    Returns
    -------
    Outline
    """
    reader = Reader(text)
    words, i = reader.words, 0
    while i < words.size:
        scope = reader.scopes[-1]
        word = words.word(i)
        if word == "}":
            i = _closing(reader, i, scope)
        elif word in (";", ","):
            i += 1
        elif not scope.closed and i > scope.opener + 1 and reader.outdented(i, scope.column):
            _close(reader, i)
        else:
            i = max(i + 1, _declaration(reader, i))
    while len(reader.scopes) > 1:
        _close(reader, words.size)
    return _outline(reader)


def _closing(reader: Reader, i: int, scope: Scope) -> int:
    """Leave a scope at its `}`, which is at `i`."""
    words = reader.words
    if len(reader.scopes) == 1 or (scope.closed and words.pair[i] != scope.opener):
        return i + 1  # a stray one; unpaired brackets are noted at the end
    _close(reader, i + 1)
    # `struct S { ... } a, b;` also declares variables; a new line ends the declaration without a semicolon.
    if scope.struct is not None and words.is_name(i + 1) and not words.new_line(i + 1):
        if words.word(i + 1) not in DECLARES and words.word(i + 2) in (";", ",", "=", "["):
            return read_variables(reader, i + 1, (0, 0), Lead(i + 1), type_name=scope.struct.name)
        reader.wrong(i + 1)
    return i + 1


def _close(reader: Reader, i: int) -> None:
    """Leave the innermost scope; `i` is the index after its last token."""
    reader.scopes.pop().end_line = reader.words.last_line(i)


def _declaration(reader: Reader, i: int) -> int:
    lead = Lead(i)
    i = _leading(reader, i, lead)
    handler = _KEYWORDS.get(reader.words.word(i))
    if handler is not None and (end := handler(reader, i, lead)) is not None:
        return end
    return _typed(reader, i, lead)


def _leading(reader: Reader, i: int, lead: Lead) -> int:
    """Read attributes and modifiers."""
    words = reader.words
    while i < words.size:
        word = words.word(i)
        lead.doc = words.code.docs.get(i, lead.doc)
        if word == "[" and words.pair[i] > i:
            inner = (i + 1, words.pair[i])
            if words.word(i + 1) == "[" and words.pair[i + 1] == words.pair[i] - 1:
                inner = (i + 2, words.pair[i] - 1)  # [[vk::binding(0)]]
            lead.attributes += [words.source(a, b) for a, b in words.split(*inner)]
            i = words.pair[i] + 1
        elif word == "__generic" and words.word(i + 1) == "<" and words.angle(i + 1) > 0:
            lead.generics, i = reader.generics_at(i + 1)
        elif word not in _KEYWORDS and (
            word in MODIFIERS or _is_internal_modifier(reader, i) or word == "layout"
        ):
            lead.modifiers.append(word)
            i += 1
            if words.word(i) == "(" and words.pair[i] > i:
                i = words.pair[i] + 1
        else:
            break
    return i


def _is_internal_modifier(reader: Reader, i: int) -> bool:
    """Tell whether a word is one of Slang's own modifiers (`__implicit_conversion(1)`), not a type such as `__Foo<T>`."""
    words = reader.words
    if not words.word(i).startswith("__") or not words.is_name(i) or words.type_end(i) != i + 1:
        return False
    return words.word(i + 1) == "(" or not words.is_name(i + 1) or words.is_name(i + 2)


def _typed(reader: Reader, i: int, lead: Lead) -> int:
    """Read what begins with a type: a function or variables."""
    words = reader.words
    if words.word(i) in reader.macros and words.new_line(i + 1):
        return i + 1  # a macro that stands for whole declarations
    # `float x` without a semicolon, then the next declaration on its own line, is no modifier and a variable
    while words.is_modifier(i, words.size) and not words.new_line(words.type_end(i + 1)):
        lead.modifiers.append(words.word(i))
        i += 1
    end = words.type_end(i)
    if end == i:
        return reader.trouble(i)
    if words.word(end) == "operator":
        return read_operator(reader, end, (i, end), lead)
    if not words.is_name(end):
        if words.word(end) == "(" and end == i + 1:
            return _macro(reader, i)
        return reader.trouble(end)
    generics, after = reader.generics_at(end + 1)
    if words.word(after) == "(":
        result = words.type_text(i, end)
        return read_function(reader, words.word(end), end, after, result, (*lead.generics, *generics), lead)
    return read_variables(reader, end, (i, end), lead)


def _macro(reader: Reader, i: int) -> int:
    """Pass over `NAME(...)`: a macro that stands for declarations, or a function that lacks its type."""
    words = reader.words
    if words.pair[i + 1] < 0:
        return reader.trouble(i)
    after = words.pair[i + 1] + 1
    if words.word(after) == "{":
        reader.wrong(i)
        return reader.body(after, i)
    return after


def _outline(reader: Reader) -> Outline:
    words = reader.words
    for i, token in enumerate(words.tokens):
        unpaired = words.pair[i] < 0 and token.kind == "symbol" and token.text in "()[]{}"
        if unpaired and not words.code.branch[i]:  # arms of an `#if` may each open what one `}` closes
            reader.wrong(i)
    with_custom_derivatives(reader.functions)
    functions = distinct(reader.functions)
    kept = {id(listed) for listed in functions}
    declared = [scope.finished(kept) for scope in reader.types]
    return Outline(
        functions=tuple(listed.function for listed in functions),
        structs=tuple(t for t in declared if t.kind != "extension"),
        extensions=tuple(t for t in declared if t.kind == "extension"),
        globals=tuple(reader.globals),
        imports=find_imports(reader.text, words.code, words.where),
        includes=_includes(reader),
        macros=tuple(reader.macros),
        module_declaration=reader.module,
        errors=tuple(words.where.at(words.offset(i)) for i in sorted(reader.errors)[:_MOST_ERRORS]),
    )


def _includes(reader: Reader) -> tuple[Include, ...]:
    found: list[Include] = []
    for directive in reader.words.code.directives:
        if match := _INCLUDE.match(directive.text):
            group = 2 if match[1] is None else 1
            line, column = reader.words.where.at(directive.start + match.start(group))
            found.append(Include(match[group], group == 2, line, column))
    return tuple(found)
