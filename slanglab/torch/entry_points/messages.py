"""What the C++ compilers of a build say, as messages about the lines of a cell."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from slanglab.text.diagnostics import Diagnostic, Severity, SourceText

__all__ = ["build_messages", "shifted"]

_NVCC = re.compile(
    r"(?P<file>[^\n(]+)\((?P<line>\d+)\): (?P<severity>error|warning)(?: #[\w-]+)?: (?P<text>.*)"
)
_GCC = re.compile(r"(?P<file>[^\n:]+):(?P<line>\d+):(?:\d+:)? (?:fatal )?(?P<severity>error): (?P<text>.*)")
_LINKER = re.compile(
    r"(?:\S*ld(?:\.\w+)?|collect2|LINK) ?: (?P<text>.*(?:cannot find|undefined reference|error).*)"
)
_PTXAS = re.compile(r"ptxas (?:\S+ )?(?P<severity>error|fatal) *: (?P<text>.*)")
_FAILED = re.compile(
    r"^(?:RuntimeError|OSError|ValueError|ImportError|\w*Error): (?P<text>.+)$", re.MULTILINE
)
_MOST = 20
_LONGEST = 300


def build_messages(text: str, sources: Callable[[str], SourceText | None]) -> list[Diagnostic]:
    """Read what ninja, nvcc, a C++ compiler and a linker wrote.

    Parameters
    ----------
    text : str
    sources : callable
        Return the text behind a file name, or None; Slang writes the names of cells into what it generates.

    Returns
    -------
    list of Diagnostic
        Errors alone, each once; at least one.
    """
    found: list[Diagnostic] = []
    for line in text.split("\n"):
        if (placed := _NVCC.fullmatch(line.strip()) or _GCC.fullmatch(line.strip())) is not None:
            if placed["severity"] == "error":
                found.append(_placed(placed, sources))
        elif (other := _LINKER.fullmatch(line.strip()) or _PTXAS.fullmatch(line.strip())) is not None:
            found.append(_error("the build failed", other["text"], _hint(other["text"])))
    unique = list(dict.fromkeys(found))
    if not unique:
        reason = _FAILED.search(text)
        said = (
            reason["text"]
            if reason is not None
            else next((w for w in reversed(text.split("\n")) if w.strip()), "")
        )
        unique = [_error("the build failed", said or "the build ended without a word", _hint(said))]
    if (more := len(unique) - _MOST) > 0:
        return [*unique[:_MOST], Diagnostic("note", "", f"{more} more messages of the build")]
    return unique


def _placed(match: re.Match[str], sources: Callable[[str], SourceText | None]) -> Diagnostic:
    line, said = int(match["line"]), _short(match["text"])
    source = sources(match["file"])
    own = source.line(line) if source is not None else None
    if source is None or own is None:
        return _error("the C++ compiler refuses what Slang wrote", said, _hint(said))
    column = len(own) - len(own.lstrip()) + 1
    severity: Severity = "error"
    return Diagnostic(
        severity,
        "nvcc",
        "refuses what Slang wrote for this line",
        said,
        source.cell,
        line,
        column,
        max(column + 1, len(own.rstrip()) + 1),
        source=source.around(line),
    )


def _error(title: str, text: str, hint: str) -> Diagnostic:
    return Diagnostic("error", "", title, _short(text), hint=hint)


def _short(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _hint(text: str) -> str:
    if "-lc10_cuda" in text or "-ltorch_cuda" in text:
        return "this PyTorch is built without CUDA: install a build of PyTorch for CUDA"
    if "-lcudart" in text:
        return "set CUDA_HOME to the folder of the CUDA toolkit, whose `lib64` holds libcudart"
    if "unsupported GNU version" in text or "host compiler" in text:
        return "nvcc does not take this C++ compiler: set CXX (or NVCC_CCBIN) to an older one"
    if "Unsupported gpu architecture" in text or "compute_" in text:
        return "this CUDA toolkit does not know the GPU: install a newer one, or set TORCH_CUDA_ARCH_LIST"
    if "CUDA version" in text and "mismatch" in text:
        return "the CUDA toolkit and the CUDA that PyTorch was built with differ: set CUDA_HOME to one of the same major version"
    return ""


def shifted(diagnostic: Diagnostic, labels: dict[str, int]) -> Diagnostic:
    """Return a message that counts lines from 1 in a cell with the notebook's own numbers.

    Parameters
    ----------
    diagnostic : Diagnostic
    labels : dict of str to int
        For each cell's label the number of its first line.
    """
    by = labels.get(diagnostic.cell, 1) - 1
    notes = tuple(shifted(n, labels) for n in diagnostic.notes)
    if not by or not diagnostic.line:
        return replace(diagnostic, notes=notes) if notes != diagnostic.notes else diagnostic
    around = tuple((number + by, text) for number, text in diagnostic.source)
    return replace(diagnostic, line=diagnostic.line + by, source=around, notes=notes)
