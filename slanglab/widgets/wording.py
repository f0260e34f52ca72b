"""The words of a report, the same in HTML and in plain text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slanglab import look
from slanglab.cells.report import CellReport, FunctionRow
from slanglab.text.diagnostics import Diagnostic

__all__ = ["Wording", "compile_fact", "functions_in", "main_message", "place_from", "wording"]


@dataclass(frozen=True)
class Wording:
    """The status line in parts.

    Attributes
    ----------
    tone : {"ok", "warn", "err", "stale"}
    icon : str
    state : str
        "compiled, 1 warning".
    facts : tuple of str
        What follows the state.
    right : tuple of str
        What stands at the end of the line: the device, or the place of the error.
    """

    tone: str
    icon: str
    state: str
    facts: tuple[str, ...] = ()
    right: tuple[str, ...] = ()


def functions_in(rows: Sequence[FunctionRow]) -> str:
    """Return how much is declared: "3 functions, 1 struct"; empty for nothing."""
    structs = sum(r.kind == "struct" for r in rows)
    functions = len(rows) - structs
    counts = [look.plural(n, w) for n, w in ((functions, "function"), (structs, "struct")) if n]
    return ", ".join(counts)


def main_message(diagnostics: Sequence[Diagnostic]) -> Diagnostic | None:
    """Return the message to show in full: the first error that the user can act on."""
    errors = [d for d in diagnostics if d.severity == "error"]
    own = [d for d in errors if not d.generated]
    return next(iter(own or errors or list(diagnostics)), None)


def compile_fact(d: Diagnostic) -> str:
    """Return the compiler's code and general message: "`E30015` undefined identifier"."""
    title = d.title.replace("`", "'")  # as a mark of code it would pair with ours
    return f"`{d.code}` {title}" if d.code else title


def place_from(d: Diagnostic, cell: str) -> str:
    """Return the place of a message, without its cell when that has been named."""
    if d.generated or not d.line:
        return "" if d.generated or d.cell == cell else d.cell
    return f"line {d.line}, column {d.column}" if d.cell == cell else d.place


def wording(report: CellReport, *, ascii: bool = False) -> Wording:
    """Return the words of a report's status line.

    Parameters
    ----------
    report : CellReport
    ascii : bool
        For text that is copied.
    """
    took = look.time(report.milliseconds / 1e3, ascii=ascii)
    imports = (f"imports {', '.join(report.imports)}",) if report.imports else ()
    device = (report.device,) if report.device else ()
    if report.state == "failed":
        main = main_message(report.diagnostics)
        if main is None:
            return Wording("err", "cross", "does not compile")
        return Wording(
            "err", "cross", "does not compile", (compile_fact(main),), (main.place,) if main.place else ()
        )
    if report.state == "stale":
        facts = (
            (f"runs the version of {report.runs_version}",) if report.runs_version else ("never compiled",)
        )
        return Wording("stale", "stale", "stale", facts)
    warnings = sum(d.severity == "warning" for d in report.diagnostics)
    state = report.state + (f", {look.plural(warnings, 'warning', ascii=ascii)}" if warnings else "")
    declared = functions_in(report.functions)
    if report.state == "unchanged":
        declared += ", bound again" if declared and report.bound else ""
        imports = device = ()
    return Wording(
        "warn" if warnings else "ok",
        "warn" if warnings else "check",
        state,
        tuple(x for x in (declared, took) if x),
        (*device, *imports),
    )
