"""What a Slang text declares: functions, types, variables, imports, with their places, documentation and defaults.

The compiler's reflection says what types are and what is differentiable. It does not know default values, comments, lines, the
order of fields, and generic functions (slangpy 0.43.1); they come from here.
"""

from __future__ import annotations

from slanglab.text.limitations import limitations
from slanglab.text.outline import (
    Direction,
    Field,
    Function,
    Import,
    Include,
    ModuleDeclaration,
    Outline,
    Parameter,
    Struct,
    StructKind,
    Variable,
    signature,
)
from slanglab.text.reading.declarations import read

__all__ = [
    "Direction",
    "Field",
    "Function",
    "Import",
    "Include",
    "ModuleDeclaration",
    "Outline",
    "Parameter",
    "Struct",
    "StructKind",
    "Variable",
    "limitations",
    "outline",
    "signature",
]


def outline(text: str) -> Outline:
    """Read what a Slang text declares.

    Parameters
    ----------
    text : str
        Any text, best one from `slanglab.text.source.clean`: lines end at newlines. Nothing raises; what makes no sense is
        left out and its place is in `Outline.errors`.

    Returns
    -------
    Outline
        Positions are 1-based code points of `text`.

    Notes
    -----
    The time grows linearly with the text. Macros are not expanded: what a macro declares is not seen, and one that stands
    before a declaration counts as a modifier.
    """
    return read(text)
