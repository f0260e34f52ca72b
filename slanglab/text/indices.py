"""Tensor indices that crash the compiler, made such that they do not.

Slang as it comes with slangpy 0.43.1 ends the process (SIGSEGV) when it compiles the backward of a function in which tensors given as
`IDiffTensor`, `IWDiffTensor` or `IRWDiffTensor` are indexed in two ways: here by separate ints (`W[i, j]`, `x[i]`), there by one value
that holds all indices (`W[int2(j, i)]`, `W[array]`). An index of a 1-D tensor whose type is not `int` counts as the latter: slangpy
offers `x[int]` and `x[vector<I, 1>]`, and a `uint` fits the second better. So `bias[idx]` beside `input[i]` crashes where `idx` is an int
and `i` a uint. It takes both ways in the differentiable functions that one backward call reaches, on one tensor or several, reading or
writing. Forward calls, functions that are not differentiable, concrete types (`DiffTensor`), generic parameters and `W[int, uint]`,
which has one meaning only, are no trouble.

Each index of a 1-D tensor that counts as a vector only for its type is therefore compiled as `int(index)`. Where that cannot be told,
and where real vectors and arrays stand beside single ints, the text is left alone; the report says what to write.
"""

from __future__ import annotations

from dataclasses import dataclass

from slanglab.text.accesses import Access, Accesses
from slanglab.text.diagnostics import Diagnostic
from slanglab.text.edits import Edit, rewrite
from slanglab.text.reading import values

__all__ = ["Conversions", "convert"]


@dataclass(frozen=True)
class Conversions:
    """What is done about the indices of a text.

    Attributes
    ----------
    indices : frozenset of (int, int)
        The tokens of each index that is compiled as `int(index)`.
    diagnostics : tuple of Diagnostic
        Lines count in the text that was read; `cell` is left empty. Codes: "mixed-index-types" (a note: it is taken care of) and
        "mixed-index-kinds" (a warning: the backward crashes).
    """

    indices: frozenset[tuple[int, int]]
    diagnostics: tuple[Diagnostic, ...]


def convert(accesses: Accesses) -> Conversions:
    """Find the indices that crash the compiler of slangpy 0.43.1, and decide which of them are converted.

    Parameters
    ----------
    accesses : Accesses

    Returns
    -------
    Conversions
    """
    groups = _groups(accesses)
    if not groups:
        return Conversions(frozenset(), ())
    converted = _converted(groups)
    edits = [e for a in converted for e in _as_int(accesses, a)]
    lines = rewrite(accesses.words.text, edits).text.split("\n")
    notes: dict[tuple[str, int], Diagnostic] = {}
    for group in groups:
        plain = next((a for a in group if _is_plain(a)), None)
        if plain is None:
            continue
        for access in group:
            line = accesses.line(access)
            if access in converted:
                notes.setdefault(
                    ("mixed-index-types", line), _types(accesses, access, plain, lines[line - 1].strip())
                )
            elif access.whole:
                notes.setdefault(("mixed-index-kinds", line), _kinds(accesses, access, plain))
    found = sorted(notes.values(), key=lambda d: (d.line, d.column))
    return Conversions(frozenset(a.indices[0] for a in converted), tuple(found))


def _groups(accesses: Accesses) -> list[list[Access]]:
    """Return, for each differentiable function, the accesses that its backward compiles: its own and those of what it calls."""
    functions = accesses.outline.functions
    own: dict[tuple[int, int], list[Access]] = {}
    for access in accesses.found:
        if access.tensor.dynamic:
            own.setdefault((access.function.line, access.function.column), []).append(access)
    groups = []
    for root, function in enumerate(functions):
        if not function.differentiable or not own:
            continue
        reached, pending = {root}, [root]
        while pending:
            for other in accesses.calls.get(pending.pop(), ()):
                if other not in reached and functions[other].differentiable:
                    reached.add(other)
                    pending.append(other)
        group = [a for n in sorted(reached) for a in own.get((functions[n].line, functions[n].column), ())]
        if group:
            groups.append(group)
    return groups


def _is_plain(access: Access) -> bool:
    """Tell whether an access is one by separate ints, whatever is done about it."""
    return len(access.indices) != 1 or (access.whole is False and not _is_convertible(access))


def _is_convertible(access: Access) -> bool:
    """Tell whether an index counts as a vector only because of its type."""
    if access.whole is not False or len(access.indices) != 1:
        return False
    return values.is_integer(access.types[0]) and access.types[0] != "int"


def _converted(groups: list[list[Access]]) -> list[Access]:
    """Choose what is converted: what stands beside single ints, and what could, in a function that another cell calls."""
    chosen: set[int] = set()
    changed = True
    while changed:
        changed = False
        for group in groups:
            if not any(_is_plain(a) or id(a) in chosen for a in group):
                continue
            more = {id(a) for a in group if _is_convertible(a)} - chosen
            chosen |= more
            changed = changed or bool(more)
    apart = {id(a) for group in groups for a in group if any(b.whole is not False for b in group)}
    every = {id(a): a for group in groups for a in group if _is_convertible(a)}
    return [a for key, a in every.items() if key in chosen or key not in apart]


def _as_int(accesses: Accesses, access: Access) -> list[Edit]:
    start, end = access.indices[0]
    tokens = accesses.words.tokens
    return [
        Edit(tokens[start].start, tokens[start].start, "int("),
        Edit(tokens[end - 1].end, tokens[end - 1].end, ")"),
    ]


def _types(accesses: Accesses, access: Access, beside: Access, line: str) -> Diagnostic:
    written, other = accesses.source(access), accesses.source(beside)
    text = (
        f"`{written}` has an index of type {access.types[0]} and `{other}` is indexed by int; the backward of both together "
        "crashes the compiler of slangpy 0.43.1, so this one is compiled with int(...)"
    )
    return _at(
        accesses, access, "note", "mixed-index-types", "index types are mixed", text, f"write `{line}`"
    )


def _kinds(accesses: Accesses, access: Access, beside: Access) -> Diagnostic:
    written, other = accesses.source(access), accesses.source(beside)
    text = (
        f"`{written}` is indexed by one vector or array and `{other}` by single numbers; compiling the backward of both "
        "together ends the Python process (slangpy 0.43.1)"
    )
    single = _single(accesses, access)
    if single is None:
        hint = "index with single numbers, in the order of the shape: for `int2 p` write `[p.y, p.x]`"
    else:
        edit = Edit(
            accesses.words.offset(access.indices[0][0]),
            accesses.words.tokens[access.indices[0][1] - 1].end,
            single,
        )
        rewritten = rewrite(accesses.words.text, [edit]).text.split("\n")[accesses.line(access) - 1]
        hint = f"write `{rewritten.strip()}`"
    return _at(accesses, access, "warning", "mixed-index-kinds", "indices of two kinds", text, hint)


def _single(accesses: Accesses, access: Access) -> str | None:
    """Return a vector's or an array's indices one by one, where the text allows that: `p.y, p.x` for `p`."""
    words = accesses.words
    start, end = access.indices[0]
    written = words.source(start, end)
    vector = values.vector(access.types[0])
    if end == start + 1 and words.is_name(start):
        if vector is not None:
            return ", ".join(f"{written}.{c}" for c in reversed("xyzw"[: vector[1]]))
        rank = access.tensor.rank
        if rank is not None and values.array_element(access.types[0]) is not None:
            return ", ".join(f"{written}[{k}]" for k in range(rank))
        return None
    if vector is not None and words.word(start + 1) == "(" and words.pair[start + 1] == end - 1:
        arguments = words.split(start + 2, end - 1)
        if len(arguments) == vector[1]:
            return ", ".join(words.source(*a) for a in reversed(arguments))
    return None


def _at(
    accesses: Accesses, access: Access, severity: str, code: str, title: str, text: str, hint: str
) -> Diagnostic:
    words = accesses.words
    line, column = words.where.at(words.offset(access.base[0]))
    end_line, end_column = words.where.at(words.tokens[accesses.end(access) - 1].end)
    return Diagnostic(
        "note" if severity == "note" else "warning",
        code,
        title,
        text,
        line=line,
        column=column,
        end_column=end_column if end_line == line else column + 1,
        hint=hint,
    )
