"""The functions of a cell, as its report shows them: names from the text, differentiability from the compiler."""

from __future__ import annotations

from typing import Any

from slanglab.cells.compiler import Program
from slanglab.cells.report import FunctionRow, ParameterRow
from slanglab.text import symbols
from slanglab.text.keywords import CALL_WORDS

__all__ = ["function_rows"]


def function_rows(program: Program) -> tuple[FunctionRow, ...]:
    """Return one row for each function and struct that the cell declares, in the order of the text."""
    rows: list[tuple[int, FunctionRow]] = []
    for function in program.outline.functions:
        if not function.in_struct:
            rows.append((function.line, _function(program, function)))
    for struct in program.outline.structs:
        fields = tuple(ParameterRow(f.name, f.type) for f in struct.fields)
        rows.append(
            (struct.line, FunctionRow(struct.qualified, fields, "", False, struct.doc, kind="struct"))
        )
    return tuple(row for _, row in sorted(rows, key=lambda pair: pair[0]))


def _function(program: Program, function: symbols.Function) -> FunctionRow:
    reflected = _reflected(program, function)
    differentiable = bool(reflected.differentiable) if reflected is not None else function.differentiable
    receives = _receivers(reflected) if differentiable else set()
    parameters = tuple(
        ParameterRow(
            p.name,
            p.type,
            "no_diff" if p.no_diff else "" if p.direction == "in" else p.direction,
            p.default,
            i in receives and not p.no_diff and p.direction != "out",
        )
        for i, p in enumerate(function.parameters)
    )
    return FunctionRow(
        function.qualified,
        parameters,
        function.result or "void",
        differentiable,
        function.doc,
        note=_note(program, function),
    )


def _note(program: Program, function: symbols.Function) -> str:
    """Say what a door makes possible, for whoever takes the text to plain slangpy."""
    doors = program.doors.get(function.qualified, ())
    if len(doors) > 1:
        return f"one of {len(doors)} overloads: a call takes the one that its arguments match; slangpy itself refuses them"
    if not doors:
        return ""
    taken = [p.name for p in function.parameters if p.name in CALL_WORDS]
    if taken:
        return f"{taken[0]} is also a word of slangpy's own call; here it is passed like any other"
    return f"Slang has a {function.name} of its own: a call from Python takes this one; slangpy itself cannot tell"


def _reflected(program: Program, function: symbols.Function) -> Any:
    """Return slangpy's reflection of a function; None where it has none (generic functions)."""
    if function.generics:
        return None
    for door in program.doors.get(function.qualified, ()):
        if door.function is function:
            return program.function(door.name)
    found = program.function(function.qualified)
    return None if found is None or found.is_overloaded else found


def _receivers(reflected: Any) -> set[int]:
    """Return the positions of the parameters that a backward call can give a gradient."""
    if reflected is None:
        return set()
    return {
        i
        for i, p in enumerate(reflected.parameters)
        if not p.no_diff and (p.type.differentiable or "DiffTensor" in p.type.full_name.split("<", 1)[0])
    }
