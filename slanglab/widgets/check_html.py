"""The report of a gradient check as HTML: the verdict first, a row for each input, the elements that differ below it."""

from __future__ import annotations

from slanglab import look
from slanglab.checks.results import Verdict
from slanglab.engine.probing.report import GradCheck, InputCheck, number, percent
from slanglab.widgets.markup import code, escape, icon, inline
from slanglab.widgets.report_html import frame, key_values, top
from slanglab.widgets.wording import Wording

__all__ = ["html"]

_MOST_INPUTS = 40
_TONES: dict[Verdict, tuple[str, str]] = {
    "agrees": ("ok", "check"),
    "differs": ("err", "cross"),
    "cannot tell": ("warn", "unsure"),
}


def html(report: GradCheck) -> str:
    """Return a report as one element with its own style; `GradCheck.drawer` is for this."""
    tone, glyph = _TONES[report.verdict]
    facts = (look.plural(report.directions, "direction"), look.plural(report.calls, "call"))
    words = Wording(tone, glyph, f"gradient {report.verdict}", facts, (f"seed {report.seed}",))
    rows = "".join(_row(i) for i in report.inputs[:_MOST_INPUTS])
    head = "".join(f'<th scope="col">{h}</th>' for h in ("input", "verdict"))
    body = [top(report.function, words)]
    if report.inputs:
        body.append(f'<table class="fns"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>')
    if (more := len(report.inputs) - _MOST_INPUTS) > 0:
        body.append(f'<div class="foot">and {look.plural(more, "more input")}</div>')
    body.append(key_values([("note" if k == 0 else "", inline(note)) for k, note in enumerate(report.notes)]))
    return frame(tone, f"gradient check of {report.function}: {report.verdict}", body)


def _row(found: InputCheck) -> str:
    _, glyph = _TONES[found.verdict]
    shape = f'<span class="dim">{escape(str(found.shape))}</span>'
    below = [_compared(found)]
    below += [_element(found.name, e.index, e.value, e.given, e.measured) for e in found.worst]
    described = "".join(f'<div class="doc">{line}</div>' for line in below)
    said = f"{icon(glyph)} {escape(found.verdict)}"
    return (
        f'<tr><th scope="row"><div class="sig"><b>{escape(found.name)}</b> {shape}</div>{described}</th>'
        f'<td class="g">{said}</td></tr>'
    )


def _compared(found: InputCheck) -> str:
    """Say in a line what the comparisons found, and how fine they are."""
    parts = []
    if found.verdict == "agrees":
        parts.append(f"off by {escape(percent(found.error))}, checked to {escape(percent(found.resolution))}")
    elif found.verdict == "differs":
        parts.append(f"off by {escape(percent(found.error))}")
    if found.reason:
        parts.append(escape(found.reason))
    if found.forward is not None:
        if "forward mode" not in found.reason:  # which then says it already
            parts.append(f"forward mode {escape(found.forward.verdict)}")
    else:
        parts.append("no forward mode")
    return "; ".join(parts)


def _element(name: str, index: tuple[int, ...], value: float, given: float, measured: float) -> str:
    at = code(f"{name}[{', '.join(str(n) for n in index)}]")
    return f"{at} = {number(value)}: bwds gives {number(given)}, differences {number(measured)}"
