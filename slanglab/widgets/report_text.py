"""The report under a cell as plain text: the same words, for terminals, for screen readers and for what is copied."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from slanglab import look
from slanglab.cells.report import CellReport, FunctionRow, ParameterRow
from slanglab.text.diagnostics import Diagnostic
from slanglab.widgets.excerpt import excerpt, visible
from slanglab.widgets.wording import main_message, place_from, wording

__all__ = ["bounded", "messages", "text"]

_MOST_LINES = 190
_MOST_FUNCTIONS = 30
_MOST_PARAMETERS = 24
_MOST_MESSAGES = 12
_MOST_NAMES = 30
_WIDEST = 400  # characters of a line


def text(report: CellReport, *, verbose: bool = False) -> str:
    """Return the report of a cell as lines of text, fewer than 200 whatever the cell holds.

    Parameters
    ----------
    report : CellReport
    verbose : bool
        Also say why the cell was compiled.
    """
    lines = [_status(report)]
    if report.state == "compiled":
        for row in report.functions[:_MOST_FUNCTIONS]:
            lines += _function(row)
        if (more := len(report.functions) - _MOST_FUNCTIONS) > 0:
            lines.append(f"  and {look.count(more, ascii=True)} more")
    if report.state == "failed":
        lines += messages(report.diagnostics)
    elif report.state != "stale":
        for d in report.diagnostics[:_MOST_MESSAGES]:
            lines += _message(d, f"  {d.severity}: ")
        if (more := len(report.diagnostics) - _MOST_MESSAGES) > 0:
            lines.append(f"  and {look.plural(more, 'more message', ascii=True)}")
    lines += _foot(report, verbose)
    return bounded(lines)


def bounded(lines: Sequence[str]) -> str:
    """Join lines, each of bounded length, and fewer than 200 of them; what is left out is counted."""
    cut = [
        line if len(line) <= _WIDEST else f"{line[:_WIDEST]}... ({len(line)} characters)"
        for line in lines[:_MOST_LINES]
    ]
    if len(lines) > _MOST_LINES:
        cut.append(f"  ... {len(lines) - _MOST_LINES} more lines")
    return "\n".join(cut)


def _status(report: CellReport) -> str:
    words = wording(report, ascii=True)
    name = visible(report.name)
    if report.state == "failed":
        facts = ", ".join((words.state, *words.facts)).replace("`", "")
        return f"{name}: {visible(facts)}"
    if report.state == "stale":
        return f"{name}: {', '.join((words.state, *words.facts))}"
    took = look.time(report.milliseconds / 1e3, ascii=True)
    device = f" ({visible(report.device)})" if report.device and report.state == "compiled" else ""
    return f"{name}: {words.state}, {took}{device}"


# ----- functions -----


def _function(row: FunctionRow) -> list[str]:
    shown = [_parameter(p) for p in row.parameters[:_MOST_PARAMETERS]]
    if (more := len(row.parameters) - _MOST_PARAMETERS) > 0:
        shown.append(f"... {look.count(more, ascii=True)} more")
    name = visible(row.name)
    if row.kind == "struct":
        fields = f" {{ {'; '.join(shown)} }}" if shown else ""
        lines = [f"  struct {name}{fields}"]
    else:
        result = f" -> {visible(row.result)}" if row.result not in ("", "void") else ""
        receiving = [visible(p.name) for p in row.parameters if p.gradient]
        more_names = len(receiving) - _MOST_PARAMETERS
        names = ", ".join(receiving[:_MOST_PARAMETERS]) + (
            f" and {more_names} more" if more_names > 0 else ""
        )
        gradient = "no derivative"
        if row.differentiable:
            gradient = f"differentiable in {names}" if receiving else "differentiable"
        lines = [f"  {name}({', '.join(shown)}){result}", f"      {gradient}"]
    if row.note:
        lines.append(f"      {visible(row.note)}")
    return lines


def _parameter(p: ParameterRow) -> str:
    direction = f"{p.direction} " if p.direction else ""
    default = f" = {p.default}" if p.default is not None else ""
    return visible(f"{direction}{p.type} {p.name}{default}")


# ----- messages -----


def messages(diagnostics: Sequence[Diagnostic]) -> list[str]:
    """Return the messages of something that does not compile: the first error in full, the others a line each."""
    main = main_message(diagnostics)
    if main is None:
        return []
    lines = _message(main, "  ")
    others = [d for d in diagnostics if d is not main]
    for d in others[:_MOST_MESSAGES]:
        place = place_from(d, main.cell)
        word = "warning: " if d.severity == "warning" else ""
        lines.append(
            f"  also: {f'{place}: ' if place else ''}{word}{visible(d.title if d.generated else d.text or d.title)}"
        )
        if d.hint and d.hint != main.hint:
            lines.append(f"        hint: {visible(d.hint)}")
    if len(others) > _MOST_MESSAGES:
        lines.append(f"  and {look.count(len(others) - _MOST_MESSAGES, ascii=True)} more")
    return lines


def _message(d: Diagnostic, start: str) -> list[str]:
    """Return a message: its place, the line, the caret with the text, the notes and the hint."""
    said = visible(d.text or d.title)
    lines = []
    if d.generated:
        lines += [f"{start}{visible(d.title)}", f"    {said}"]
    elif picture := excerpt(d):
        lines.append(f"{start}{visible(d.place)}")
        gutter = max(4, *(len(str(line.number)) + 1 for line in picture))
        for line in picture:
            lines.append(f"{line.number:>{gutter}} | {line.text}".rstrip())
            if line.hit:
                lines.append(f"{'':>{gutter}} | {' ' * line.indent}{'^' * line.carets} {said}")
    else:
        place = f"{visible(d.place)}: " if d.place else ""
        lines.append(f"{start}{place}{said}")
    for note in d.notes:
        where = place_from(note, d.cell)
        lines.append(f"  note: {visible(note.text or note.title)}{f' ({visible(where)})' if where else ''}")
    if d.hint:
        lines += textwrap.wrap(
            visible(d.hint), 110, initial_indent="  hint: ", subsequent_indent="        ",
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
    return lines


# ----- the last lines -----


def _names(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return visible(", ".join(names[:_MOST_NAMES])) + (
        f" and {look.count(more, ascii=True)} more" if more > 0 else ""
    )


def _foot(report: CellReport, verbose: bool) -> list[str]:
    parts = []
    lines = []
    name = visible(report.name)
    if report.state == "failed" and report.runs_version:
        lines.append(f"  {name} still runs the version of {visible(report.runs_version)}")
    if report.state == "stale":
        why = visible(report.reason) if report.reason else "a cell that it imports does not compile"
        lines.append(f"  {why}. Once that compiles, {name} follows by itself.")
    if report.bound and report.state != "unchanged":
        parts.append(f"bound: {_names(report.bound)}")
    if verbose and report.reason and report.state == "compiled":
        parts.append(f"compiled because {visible(report.reason)}")
    if verbose and report.reason and report.state == "unchanged":
        parts.append(f"not compiled again: {visible(report.reason)}")
    if report.recompiled:
        parts.append(f"also recompiled: {_names(report.recompiled)}")
    if report.gone_stale:
        parts.append(f"stale now: {_names(report.gone_stale)}")
    if parts:
        lines.append("  " + "; ".join(parts))
    lines += [f"  left alone: {visible(n)} {visible(why)}" for n, why in report.left_alone[:_MOST_NAMES]]
    return lines
