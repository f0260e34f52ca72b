"""From a signature, the annotations of the source and what the user gave to an arrangement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slanglab.cells.function import SlangFunction, declarations_of, source_of
from slanglab.cells.module import CellAccess
from slanglab.engine.parameters import Parameter
from slanglab.engine.target import Target
from slanglab.exploring.annotations import Annotation, read_annotations
from slanglab.exploring.arguments import Builder, is_float
from slanglab.exploring.arrangement import Arrangement
from slanglab.exploring.knobs import ExploreError
from slanglab.text import symbols
from slanglab.text.tokens import scan

__all__ = ["arrange"]


def arrange(function: SlangFunction, given: Mapping[str, Any]) -> Arrangement:
    """Look at a function and what the user gave for its parameters.

    Raises
    ------
    ExploreError
        For a parameter that is neither given nor has a default, and for what no control can be made of.
    """
    name = getattr(function, "name", str(function))
    targets = function.targets()
    if len(targets) != 1 or not targets[0].checked:
        raise ExploreError(
            name,
            f"the function has {len(targets)} overloads, or is generic",
            hint="write a function of another name that calls the one you mean, and explore that",
        )
    target = targets[0]
    declared = declarations_of(function)
    source = source_of(function)
    notes: Mapping[str, Annotation] = {}
    outline = source.outline() if isinstance(source, CellAccess) else symbols.Outline()
    result, out = _result(target, name)
    made = Arrangement(
        function,
        target,
        target.name,
        symbols.signature(declared[0]) if declared else target.name,
        result,
        out,
        differentiable=bool(target.slang_function.differentiable) and is_float(result),
    )
    text = source.version().unit.shown if isinstance(source, CellAccess) else ""
    reached = _reached(text, outline, declared[0]) if declared else frozenset()
    uniforms = {v.name: v for v in outline.globals if "uniform" in v.modifiers and v.name in reached}
    known = [p.name for p in target.parameters if p.name != out]
    for unknown in given:
        if unknown not in known and unknown not in uniforms:
            raise ExploreError(
                name,
                f"there is no parameter {unknown!r}",
                argument=unknown,
                hint=f"it takes {', '.join(known) or 'none'}",
            )
    if declared:
        notes = read_annotations(text, outline, declared[0])
    Builder(made, name, notes, outline).build(given, uniforms)
    return made


def _reached(text: str, outline: symbols.Outline, function: symbols.Function) -> frozenset[str]:
    """Return the names in the body of a function, and in those of the functions that it may call."""
    lines = text.split("\n")
    pending, seen, found = [function], {function.qualified}, set()
    while pending:
        one = pending.pop()
        names = {t.text for t in scan("\n".join(lines[one.line - 1 : one.end_line])) if t.kind == "name"}
        found |= names
        for other in outline.functions:
            if other.name in names and other.qualified not in seen:
                seen.add(other.qualified)
                pending.append(other)
    return frozenset(found)


def _result(target: Target, name: str) -> tuple[Parameter, str]:
    """Return what is drawn, and the `out` parameter that it is, if it is one."""
    for spec in target.parameters:
        if spec.writes and spec.reads and spec.kind != "tensor":
            raise ExploreError(
                name,
                f"{spec.name} is inout: each call would change its own argument",
                argument=spec.name,
                hint="write a function that takes it by value and returns the result",
            )
    outs = [p for p in target.parameters if p.writes and not p.reads and p.kind != "tensor"]
    result = target.result
    if result is None and len(outs) == 1:
        result = outs[0]
    elif result is None or outs:
        raise ExploreError(
            name,
            f"it returns {'nothing' if result is None else 'a value'} and has {len(outs)} out parameters",
            hint="one result can be drawn: return it, or write it to one `out` parameter",
        )
    if result.kind not in ("scalar", "vector") or result.dtype is None:
        raise ExploreError(
            name,
            f"the result is {result.type}; a number or a vector can be drawn",
            hint="write a function that returns the part to look at",
        )
    return result, outs[0].name if outs else ""
