"""What slangpy cannot call as it stands, said when the cell is compiled, with the way round it."""

from __future__ import annotations

import keyword
from collections.abc import Iterator

from slanglab.text.diagnostics import Diagnostic
from slanglab.text.intrinsics import INTRINSICS
from slanglab.text.keywords import CALL_WORDS
from slanglab.text.outline import Function, Outline, signature

__all__ = ["limitations", "torch_style"]

_MOST_SIGNATURES = 8


def limitations(outline: Outline) -> list[Diagnostic]:
    """Return what slangpy 0.43.1 cannot call among the functions that a text declares.

    Parameters
    ----------
    outline : Outline

    Returns
    -------
    list of Diagnostic
        Warnings in the order of the text, one for each function or declaration; lines count from the text's first, `cell` is
        left empty. Codes: "module-declaration", "intrinsic-name", "overloaded", "static-method", "parameter-name",
        "operator", "torch-style".

    Notes
    -----
    Each was seen with slangpy 0.43.1: a call of an overloaded function is always refused, a function named like one of
    Slang's joins its overloads, a static method is called by its bare name, `module x;` hides what is not `public`, and a
    parameter called `self` or `_result` collides with slangpy's own.
    """
    found = [*_module(outline), *_functions(outline), *torch_style(outline)]
    return sorted(found, key=lambda d: (d.line, d.column))


_TORCH_ATTRIBUTES = {
    "torchentrypoint": "TorchEntryPoint",
    "autopybindcuda": "AutoPyBindCUDA",
    "cudakernel": "CudaKernel",
    "cudadeviceexport": "CudaDeviceExport",
}


def torch_style(outline: Outline) -> list[Diagnostic]:
    """Return a warning for a text that is for slang-torch: its functions are CUDA's, which slangpy does not call."""
    for function in outline.functions:
        written = {a.partition("(")[0].strip().lower() for a in function.attributes}
        if meant := next((name for word, name in _TORCH_ATTRIBUTES.items() if word in written), None):
            return [
                _at(
                    function,
                    "torch-style",
                    "this is slang-torch style",
                    f"`[{meant}]` makes `{function.name}` a function for PyTorch and CUDA, which slangpy cannot call",
                    "begin the cell with `%%slang --torch NAME`",
                )
            ]
    return []


def _module(outline: Outline) -> Iterator[Diagnostic]:
    declared = outline.module_declaration
    if declared is not None:
        yield _warning(
            "module-declaration",
            "a cell needs no module declaration",
            f"after `module {declared.name};` only what is `public` can be called",
            "delete the line: `%%slang NAME` names the module",
            declared.line,
            declared.column,
            len("module"),
        )


def _functions(outline: Outline) -> Iterator[Diagnostic]:
    groups: dict[tuple[str, bool], list[Function]] = {}
    for function in outline.functions:
        if not function.is_entry_point:
            groups.setdefault((function.qualified, function.name == "__init"), []).append(function)
    for (_, constructor), group in groups.items():
        first = group[0]
        if constructor:
            continue
        if first.name.startswith("operator"):
            if first.in_struct is None:
                yield _operator(first)
            continue
        if first.name in INTRINSICS and first.in_struct is None and not first.namespace:
            yield _intrinsic(first)
        elif len(together := _together(group)) > 1:
            yield _overloaded(together)
        if first.static and first.has_body:
            yield _static(first)
        for function in group:
            yield from _parameters(function)


def _together(group: list[Function]) -> list[Function]:
    """Return the overloads that the compiler sees at once: the first, and what no `#if` keeps apart from it."""
    return [group[0], *(f for f in group[1:] if not f.excludes(group[0]))]


def _operator(function: Function) -> Diagnostic:
    return _at(
        function,
        "operator",
        "an operator cannot be called from Python",
        f"`{function.name}` has no name that Python could use",
        "call it from a function: `float3 add(float3 a, float3 b) { return a + b; }`",
    )


def _intrinsic(function: Function) -> Diagnostic:
    name = function.name
    return _at(
        function,
        "intrinsic-name",
        "a function of Slang has this name",
        f"`{name}` joins the overloads of Slang's own `{name}`, and slangpy cannot tell which one a call means",
        f"give it another name, for example `my_{name}`",
    )


def _overloaded(group: list[Function]) -> Diagnostic:
    first = group[0]
    signatures = [signature(f) for f in group[:_MOST_SIGNATURES]]
    if more := len(group) - len(signatures):
        signatures.append(f"and {more} more")
    return _at(
        group[1],
        "overloaded",
        "overloaded function",
        f"slangpy does not choose among the {len(group)} functions called `{first.name}`: {'; '.join(signatures)}",
        f"give each a name of its own, for example `{first.name}_{_suffix(group[1])}`",
    )


def _suffix(function: Function) -> str:
    """Return what tells an overload apart, as part of a name: its first parameter's type."""
    written = function.parameters[0].type if function.parameters else ""
    return "".join(c if c.isalnum() else "_" for c in written).strip("_") or "2"


def _static(function: Function) -> Diagnostic:
    path = ".".join(function.qualified.split("::"))
    return _at(
        function,
        "static-method",
        "static method",
        f"slangpy calls `{path}` by its bare name, which does not exist",
        f'call it by its full name, `module["{function.qualified}"](...)`, or make it a function outside the struct',
    )


def _parameters(function: Function) -> Iterator[Diagnostic]:
    for parameter in function.parameters:
        name = parameter.name
        if name in CALL_WORDS:
            text = f"`{name}` is an argument of slangpy's own calls"
            hint = f"give it another name, for example `{name.strip('_')}_value`"
        elif keyword.iskeyword(name):
            text = f"`{name}` is a word of the Python language"
            hint = f'pass it by position, or as `**{{"{name}": value}}`'
        else:
            continue
        yield _warning(
            "parameter-name",
            "a parameter that Python cannot name",
            f"{text}: parameter of `{function.name}`",
            hint,
            parameter.line,
            parameter.column,
            len(name),
        )


def _at(function: Function, code: str, title: str, text: str, hint: str) -> Diagnostic:
    return _warning(code, title, text, hint, function.line, function.column, len(function.name))


def _warning(code: str, title: str, text: str, hint: str, line: int, column: int, width: int) -> Diagnostic:
    return Diagnostic(
        "warning", code, title, text, line=line, column=column, end_column=column + max(1, width), hint=hint
    )
