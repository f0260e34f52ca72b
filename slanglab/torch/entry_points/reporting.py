"""What the report of a `--torch` cell shows: what Python can call, what the build lacks, and pairs that are none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from slanglab.cells.report import FunctionRow, ParameterRow
from slanglab.text.diagnostics import Diagnostic
from slanglab.torch.entry_points.compiler import TorchProgram

__all__ = ["notes", "rows"]


def notes(program: TorchProgram) -> list[Diagnostic]:
    """Return what to say of a cell beside the compiler's messages: what the build lacks, and pairs that are none."""
    found = []
    if program.missing:
        lacking = "; ".join(m.what for m in program.missing)
        found.append(
            Diagnostic(
                "warning",
                "not-built",
                "the cell is compiled to CUDA and cannot run here",
                f"not built: {lacking}",
                hint=f"{'; then '.join(m.command for m in program.missing)}; `%slang code NAME` shows its CUDA",
            )
        )
    for stem, why in program.unpaired.items():
        function = program.callables[f"{stem}_bwd"].function
        own = function in program.outline.functions
        found.append(
            Diagnostic(
                "warning",
                "no-pair",
                "not offered as one function with its gradient",
                f"`{stem}_fwd` and `{stem}_bwd` are not offered as `{stem}`: {why}",
                line=function.line if own else 0,
                column=function.column if own else 0,
                end_column=function.column + len(function.name) if own else 0,
                hint=f"`{stem}_bwd` takes the inputs of `{stem}_fwd` and a gradient for each result, and returns one for each input",
            )
        )
    if not program.callables:
        found.append(
            Diagnostic(
                "note",
                "nothing-offered",
                "nothing here can be called from Python",
                "nothing here can be called from Python, though other cells may import it",
                hint="write [TorchEntryPoint] above a function of `TorchTensor`s, or [AutoPyBindCUDA] above a kernel",
            )
        )
    return found


def rows(program: TorchProgram) -> Iterable[FunctionRow]:
    """Return the functions that Python can call, as the report shows them."""
    for pair in program.pairs.values():
        function = program.callables[pair.forward].function
        parameters = tuple(
            ParameterRow(p.name, p.type, gradient=i in pair.differentiable) for i, p in enumerate(pair.inputs)
        )
        note = (
            f"{pair.forward}, and {pair.backward} for its gradient, as one function in torch's autograd graph"
        )
        yield FunctionRow(pair.name, parameters, function.result, True, note=note)
    for called in program.callables.values():
        function = called.function
        parameters = tuple(ParameterRow(p.name, p.type) for p in function.parameters)
        derivative = called.kind == "kernel" and function.differentiable
        note = ""
        if called.kind == "kernel":
            note = "a kernel: call it with its arguments, then .launchRaw(blockSize=(x, y, z), gridSize=(x, y, z))"
            parameters = tuple(
                replace(p, gradient=derivative and p.type.startswith("DiffTensorView")) for p in parameters
            )
        yield FunctionRow(
            called.name, parameters, function.result or "void", derivative, function.doc, note=note
        )
