"""SlangLab's errors as they stand under a cell: the call that was refused, the kernel that does not compile."""

from __future__ import annotations

from typing import Any

from slanglab import look
from slanglab.cells.report import CellReport
from slanglab.errors import CallError, DeviceError, SlangLabError
from slanglab.widgets import report_html, report_text
from slanglab.widgets.excerpt import visible
from slanglab.widgets.markup import code, escape, inline
from slanglab.widgets.report_html import frame, key_values, top
from slanglab.widgets.wording import Wording, compile_fact, main_message

__all__ = ["html", "text"]

_MOST_DETAIL = 200  # lines of the long text


def html(error: SlangLabError) -> str:
    """Return an error as one element with its own style.

    Parameters
    ----------
    error : SlangLabError
        One with a `report` (a cell that does not compile) shows that; one with `diagnostics` its messages.
    """
    report = _report(error)
    if report is not None:
        return report_html.html(report)
    name, words = _words(error)
    body = [top(name, words)]
    if said := _said(error):
        body.append(f'<div class="say">{inline(said)}</div>')
    diagnostics = getattr(error, "diagnostics", ())
    if main_message(diagnostics) is not None:
        body.append(report_html.messages(diagnostics))
    else:
        rows = [*_expected_and_given(error), ("hint", inline(error.hint) if error.hint else "")]
        body.append(key_values(rows, "wide"))
    if error.details:
        body.append(_details(error.details))
    return frame("err", f"{name}: {words.state}", body)


def text(error: SlangLabError) -> str:
    """Return an error as lines of text; the long text behind it is only counted."""
    report = _report(error)
    if report is not None:
        return report_text.text(report)
    name, words = _words(error)
    facts = ", ".join((words.state, *words.facts)).replace("`", "")
    lines = [f"{visible(name)}: {visible(facts)}" if name else visible(facts)]
    if said := _said(error):
        lines.append(f"  {visible(said)}")
    diagnostics = getattr(error, "diagnostics", ())
    if main_message(diagnostics) is not None:
        lines += report_text.messages(diagnostics)
    else:
        for key in ("expected", "given"):
            if (value := getattr(error, key, None)) is not None:
                lines.append(f"  {key}: {visible(str(value))}")
        if error.hint:
            lines.append(f"  hint: {visible(error.hint)}")
    return report_text.bounded(lines)


def _report(error: SlangLabError) -> CellReport | None:
    """Return the report of a cell that does not compile; one is made where the error brings only its messages."""
    report = getattr(error, "report", None)
    if isinstance(report, CellReport):
        return report
    diagnostics = getattr(error, "diagnostics", None)
    if isinstance(error, CallError) or not diagnostics:
        return None
    return CellReport(str(getattr(error, "name", "")), "failed", diagnostics=tuple(diagnostics))


def _words(error: SlangLabError) -> tuple[str, Wording]:
    if isinstance(error, CallError):
        main = main_message(getattr(error, "diagnostics", ()))
        if main is not None:
            fact, place = compile_fact(main), main.place
            return error.function, Wording(
                "err", "cross", "its kernel does not compile", (fact,), (place,) if place else ()
            )
        facts = (f"argument `{error.argument}`",) if error.argument else ()
        return error.function, Wording("err", "cross", "call refused", facts)
    if isinstance(error, DeviceError):
        return "device", Wording("err", "cross", "cannot be used")
    return "SlangLab", Wording("err", "cross", "stopped")


def _said(error: SlangLabError) -> str:
    """Return the message without the function's name, which stands in front of it already."""
    if isinstance(error, CallError) and main_message(getattr(error, "diagnostics", ())) is not None:
        return ""  # the compiler's message says it
    message = error.message
    function = error.function if isinstance(error, CallError) else ""
    if function and message.startswith(f"{function}: "):
        message = message[len(function) + 2 :]
        return (
            message[:1].upper() + message[1:]
            if message[:1].isalpha() and " " in message and _is_word(message)
            else message
        )
    return message


def _is_word(message: str) -> bool:
    """Tell whether a message begins with a word of ours, and not with the name of an argument."""
    return message.split(" ", 1)[0] in ("a", "an", "the", "there", "its", "slangpy", "parameter", "argument")


def _expected_and_given(error: Any) -> list[tuple[str, str]]:
    rows = [(key, getattr(error, key, None)) for key in ("expected", "given")]
    return [(key, code(str(value))) for key, value in rows if value is not None]


def _details(details: str) -> str:
    lines = details.strip("\n").split("\n")
    shown = "\n".join(escape(line) for line in lines[:_MOST_DETAIL])
    if len(lines) > _MOST_DETAIL:
        shown += f"\n… {look.count(len(lines) - _MOST_DETAIL)} more lines"
    title = f"full message, {look.plural(len(lines), 'line')}"
    return f'<details class="full"><summary>{title}</summary><pre>{shown}</pre></details>'
