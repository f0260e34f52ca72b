"""Reading functions, methods, constructors and operators from their name to the end of their body."""

from __future__ import annotations

from slanglab.text.outline import Function
from slanglab.text.reading.parameters import read_parameters
from slanglab.text.reading.reader import Reader
from slanglab.text.reading.scopes import Lead, Listed

__all__ = ["read_constructor", "read_func", "read_function", "read_operator"]


def read_function(
    reader: Reader, name: str, at: int, opener: int, result: str, generics: tuple[str, ...], lead: Lead
) -> int:
    """Read a function from its parameters on.

    Parameters
    ----------
    reader : Reader
    name : str
    at, opener : int
        Indices of the name and of the `(`.
    result : str
        The type before the name.
    generics : tuple of str
    lead : Lead

    Returns
    -------
    int
        The index after the function.
    """
    words = reader.words
    close = words.pair[opener]
    after = close + 1
    if close < 0:  # the `)` is missing: the parameters end where the body or something new begins
        close, column = opener + 1, words.where.column(words.offset(lead.start))
        while words.word(close) not in ("{", "}", ";", ""):
            if reader.outdented(close, column) and words.word(close - 1) != ",":
                break
            close = max(words.pair[close], close) + 1
        after = close
    parameters, errors = read_parameters(words, opener + 1, min(close, words.size))
    reader.errors.update(errors)
    i, returned = _trailing(reader, after)
    has_body = words.word(i) == "{"
    if has_body:
        i = reader.body(i, lead.start)
    elif words.word(i) == ";":
        i += 1
    else:
        reader.wrong(i)
    line, column = words.where.at(words.offset(at))
    function = Function(
        name=name,
        qualified=reader.qualify(name),
        parameters=parameters,
        result=returned or result,
        differentiable=lead.differentiable,
        custom_derivative=lead.custom,
        attributes=tuple(lead.attributes),
        doc=reader.doc(lead, i - 1),
        generics=generics,
        static="static" in lead.modifiers,
        mutating=lead.has("mutating"),
        is_entry_point=lead.has("shader"),
        in_struct=reader.path(namespaces=False) or None,
        namespace=reader.path(namespaces=True),
        line=line,
        column=column,
        end_line=max(line, words.last_line(i)),
        has_body=has_body,
        branch=words.code.branch[at],
    )
    listed = Listed(function)
    reader.functions.append(listed)
    if reader.scopes[-1].struct is not None:
        reader.scopes[-1].methods.append(listed)
    return i


def _trailing(reader: Reader, i: int) -> tuple[int, str]:
    """Read what stands between the `)` and the body: a result type, a semantic, `where`, `throws`."""
    words, result = reader.words, ""
    while i < words.size:
        word = words.word(i)
        if word == "->":
            end = words.type_end(i + 1)
            result = words.type_text(i + 1, end)
            i = max(end, i + 1)
        elif word == "throws":
            i = max(i + 1, words.type_end(i + 1))
        elif word == ":" and words.is_name(i + 1):
            i += 2
            if words.word(i) == "(" and words.pair[i] > i:
                i = words.pair[i] + 1
        elif word in ("where", "="):
            while words.word(i) not in ("{", ";", "}", ""):
                i = words.pair[i] + 1 if words.pair[i] > i else i + 1
            break
        elif word == "[" and words.pair[i] > i and not words.new_line(i):
            i = words.pair[i] + 1
        elif word in ("const", "override") or word in reader.macros:
            i += 1
        else:
            break
    return i, result


def read_operator(reader: Reader, i: int, written: tuple[int, int], lead: Lead) -> int:
    """Read `float operator+(...)` from the word `operator` at `i`; `written` is where its type stands."""
    words, end = reader.words, i + 1
    while words.word(end) not in ("", "(", ";", "{", "}"):
        end += 1
    if words.word(end) == "(" and words.pair[end] == end + 1 and words.word(end + 2) == "(":
        end += 2  # operator()
    if words.word(end) != "(":
        return reader.trouble(i)
    name = "".join(words.word(k) for k in range(i, end))
    return read_function(reader, name, i, end, words.type_text(*written), lead.generics, lead)


def read_constructor(reader: Reader, i: int, lead: Lead) -> int | None:
    """Read `__init(...)`."""
    generics, after = reader.generics_at(i + 1)
    if reader.words.word(after) != "(":
        return None
    return read_function(reader, "__init", i, after, reader.path(namespaces=False), generics, lead)


def read_func(reader: Reader, i: int, lead: Lead) -> int | None:
    """Read `func f(x : float) -> float`."""
    words = reader.words
    if not words.is_name(i + 1):
        return None
    generics, after = reader.generics_at(i + 2)
    if words.word(after) != "(":
        return None
    return read_function(reader, words.word(i + 1), i + 1, after, "void", (*lead.generics, *generics), lead)
