"""What is said under a cell: plain data, made by the lab, drawn by `slanglab.widgets.report`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from slanglab.text.diagnostics import Diagnostic

__all__ = ["CellReport", "FunctionRow", "ParameterRow", "State"]

State = Literal["compiled", "unchanged", "failed", "stale"]


@dataclass(frozen=True)
class ParameterRow:
    """One parameter of a signature, as the report shows it."""

    name: str
    type: str
    direction: str = ""
    """"", "out", "inout" or "no_diff" (what stands before the type)."""
    default: str | None = None
    gradient: bool = False
    """True when a backward call gives this parameter a gradient."""


@dataclass(frozen=True)
class FunctionRow:
    """One function that the cell declares."""

    name: str
    parameters: tuple[ParameterRow, ...]
    result: str
    """The return type; "void" when there is none."""
    differentiable: bool
    doc: str = ""
    kind: Literal["function", "struct"] = "function"
    note: str = ""
    """What to know about calling it ("one of 3 overloads: …"), or empty."""


@dataclass(frozen=True)
class CellReport:
    """Everything that a report shows; no behaviour.

    Attributes
    ----------
    name : str
        The module's name, or the cell's label ("In[5]") for a cell without one.
    state : {"compiled", "unchanged", "failed", "stale"}
    device : str
        "Vulkan, llvmpipe"; empty when nothing was compiled.
    milliseconds : float
        Time of the compile, or of finding that nothing changed.
    functions : tuple of FunctionRow
    imports : tuple of str
        Cells that this one imports directly.
    bound : tuple of str
        Python names that now hold something of this cell.
    left_alone : tuple of (str, str)
        Python names that were not overwritten, and why.
    reason : str
        Why it was compiled ("the text changed", "poly changed"); shown with `--verbose`.
    recompiled, gone_stale : tuple of str
        Cells that followed this one, and cells that could not.
    diagnostics : tuple of Diagnostic
    runs_version : str
        For failed and stale cells: the version that still runs ("In[5], 14:02:11"); empty when there is none.
    """

    name: str
    state: State
    device: str = ""
    milliseconds: float = 0.0
    functions: tuple[FunctionRow, ...] = ()
    imports: tuple[str, ...] = ()
    bound: tuple[str, ...] = ()
    left_alone: tuple[tuple[str, str], ...] = ()
    reason: str = ""
    recompiled: tuple[str, ...] = ()
    gone_stale: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    runs_version: str = ""
