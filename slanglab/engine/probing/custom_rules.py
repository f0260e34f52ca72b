"""Which derivatives of a function are the user's own: found in the text, as reflection does not say.

The rule that a user writes is the derivative by definition. It may differ from the difference quotient on purpose, so whoever compares
the two has to say where a rule took part.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from slanglab.text.outline import Function, Outline

__all__ = ["of_proxy", "reached"]

_WORD = re.compile(r"[^\W\d]\w*")


def reached(texts: Sequence[tuple[str, Outline]], name: str) -> tuple[str, ...]:
    """Return the functions with a derivative of their own that a function is or calls, by way of others too.

    Parameters
    ----------
    texts : sequence of (str, Outline)
        The text that declares the function, and those it imports.
    name : str
        Qualified.

    Returns
    -------
    tuple of str
        Qualified names, sorted. A name in a comment counts as a call: better a mark too many.
    """
    functions: dict[str, list[tuple[Function, list[str]]]] = {}
    for text, parsed in texts:
        lines = text.split("\n")
        for function in parsed.functions:
            functions.setdefault(function.name, []).append((function, lines))
    found: set[str] = set()
    pending = [name.rpartition("::")[2].partition("<")[0]]
    seen: set[str] = set()
    while pending:
        word = pending.pop()
        if word in seen:
            continue
        seen.add(word)
        for function, lines in functions.get(word, ()):
            if function.custom_derivative:
                found.add(function.qualified)
            body = "\n".join(lines[function.line - 1 : function.end_line])
            pending += [w for w in set(_WORD.findall(body)) if w in functions]
    return tuple(sorted(found))


def of_proxy(function: Any) -> tuple[str, ...]:
    """Return the same for a function proxy; nothing for a function of which there is no text."""
    source, path = getattr(function, "_source", None), getattr(function, "_path", ())
    if source is None or not path or not hasattr(source, "imported"):
        return ()
    texts = [(v.unit.text, v.program.outline) for v in (a.version() for a in (source, *source.imported()))]
    return reached(texts, path[-1])
