"""The `import` statements of a text, and putting other names into them."""

from __future__ import annotations

from collections.abc import Mapping

from slanglab.text.characters import python_name
from slanglab.text.edits import Edit, RewrittenText, rewrite
from slanglab.text.outline import Import
from slanglab.text.tokens import Code, Positions, code, string_value

__all__ = ["find_imports", "import_edits", "rewrite_imports"]


def find_imports(text: str, read: Code | None = None, where: Positions | None = None) -> tuple[Import, ...]:
    """Find the `import` statements of a text.

    Every `import NAME;`, `import a.b;` and `import "path";` that the compiler would see counts, also next to code that makes
    no sense; none in a comment, a string, a macro definition or a branch that `#if 0` switches off.

    Parameters
    ----------
    text : str
        Lines end at newlines.
    read : Code, optional
        The result of `slanglab.text.tokens.code`, where it is at hand.
    where : Positions, optional
        Of the same text, where it is at hand.
    """
    read = code(text) if read is None else read
    where = Positions(text) if where is None else where
    tokens = read.tokens
    found: list[Import] = []
    bytes_before, counted = 0, 0
    for i, token in enumerate(tokens):
        if token.text != "import" or i + 1 >= len(tokens):
            continue
        if i and tokens[i - 1].text in (".", "::", "->"):
            continue
        first = tokens[i + 1]
        last = i + 1
        if first.kind == "string":
            name = string_value(first.text)
            inside = first.text.find("(") + 1 if first.text.startswith("R") else 1
            closing = len(first.text) - first.text.rfind(")") if inside > 1 else 1
            start, end = first.start + inside, first.end - (closing if first.closed else 0)
        elif first.kind == "name":
            while last + 2 < len(tokens) and tokens[last + 1].text == "." and tokens[last + 2].kind == "name":
                last += 2
            name = ".".join(t.text for t in tokens[i + 1 : last + 1 : 2])
            start, end = first.start, tokens[last].end
        else:
            continue
        after = tokens[last + 1] if last + 1 < len(tokens) else None
        # Without a semicolon the statement still counts where its line ends: the compiler will say what is missing.
        if after is not None and after.text != ";" and "\n" not in text[tokens[last].end : after.start]:
            continue
        exported = i > 0 and tokens[i - 1].text in ("__exported", "export", "public")
        bytes_before += _bytes(text[counted:start])
        counted = start
        size = _bytes(text[start:end])
        line, column = where.at(start)
        found.append(
            Import(
                name,
                first.kind == "string",
                exported,
                line,
                column,
                bytes_before,
                bytes_before + size,
                start,
                end,
            )
        )
    return tuple(found)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def import_edits(text: str, mapping: Mapping[str, str], read: Code | None = None) -> list[Edit]:
    """Return the edits that put other names into the imports of a text; see `rewrite_imports` and `find_imports`."""
    edits = []
    for imported in find_imports(text, read) if mapping else ():
        internal = mapping.get(imported.name, mapping.get(python_name(imported.name)))
        if internal is not None:
            edits.append(Edit(imported.start, imported.end, internal))
    return edits


def rewrite_imports(text: str, mapping: Mapping[str, str]) -> RewrittenText:
    """Put other names into the imports of a text.

    Parameters
    ----------
    text : str
        Lines end at newlines.
    mapping : mapping of str to str
        The name as `Import.name` gives it, and the name to write instead. Imports of other names stay as they are.

    Returns
    -------
    RewrittenText
    """
    return rewrite(text, import_edits(text, mapping))
