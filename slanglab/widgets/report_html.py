"""The report under a cell as HTML: static, without a script, readable without its style sheet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slanglab import look
from slanglab.cells.report import CellReport, FunctionRow, ParameterRow
from slanglab.text.diagnostics import Diagnostic
from slanglab.widgets.excerpt import Line, excerpt
from slanglab.widgets.markup import attribute, code, escape, highlight, icon, inline
from slanglab.widgets.wording import Wording, main_message, place_from, wording

__all__ = ["frame", "html", "key_values", "messages", "top"]

_MOST_FUNCTIONS = 12
_MOST_FOLDED = 200
_MOST_PARAMETERS = 24
_MOST_MESSAGES = 8
_MOST_NAMES = 12


def html(report: CellReport, *, verbose: bool = False) -> str:
    """Return the report of a cell as one element with its own style.

    Parameters
    ----------
    report : CellReport
    verbose : bool
        Also say why the cell was compiled.
    """
    words = wording(report)
    body = [top(report.name, words)]
    if report.state == "compiled":
        body.append(_functions(report.functions))
        body += [_note(d) for d in report.diagnostics[:_MOST_MESSAGES]]
        body.append(_more(len(report.diagnostics) - _MOST_MESSAGES, "message"))
    elif report.state == "unchanged":
        body += [_note(d) for d in report.diagnostics[:_MOST_MESSAGES]]
        body.append(_more(len(report.diagnostics) - _MOST_MESSAGES, "message"))
    elif report.state == "failed":
        body.append(messages(report.diagnostics))
    body.append(_foot(report, verbose))
    return frame(words.tone, f"report of {report.name}: {words.state}", body)


def frame(tone: str, label: str, body: Iterable[str]) -> str:
    """Return the element around a report; `tone` colours the rule at its left."""
    return (
        f'<section class="slanglab-report" aria-label="{attribute(label)}"><style>{look.style()}</style>'
        f'<div class="rep {tone}">{"".join(body)}</div></section>'
    )


def top(name: str, words: Wording) -> str:
    """Return the status line: name, glyph and word, facts, and at the right where it ran or went wrong."""
    facts = "".join(f" <span>{inline(f)}</span>" for f in words.facts)
    right = "".join(f" <span>{escape(f)}</span>" for f in words.right)
    return (
        f'<div class="top"><b class="name">{escape(name)}</b> '
        f'<span class="state">{icon(words.icon)}<b>{escape(words.state)}</b></span>'
        + (f'<span class="facts">{facts}</span>' if facts else "")
        + (f'<span class="facts r">{right}</span>' if right else "")
        + "</div>"
    )


# ----- functions -----


def _functions(rows: Sequence[FunctionRow]) -> str:
    if not rows:
        return ""
    head = '<thead><tr><th scope="col">declared here</th><th scope="col">gradient</th></tr></thead>'
    shown = "".join(_row(r) for r in rows[:_MOST_FUNCTIONS])
    table = f'<table class="fns">{head}<tbody>{shown}</tbody></table>'
    if len(rows) > _MOST_FUNCTIONS:
        rest = "".join(_row(r) for r in rows[_MOST_FUNCTIONS:_MOST_FOLDED])
        more = f'<table class="fns"><tbody>{rest}</tbody></table>'
        left_out = _more(len(rows) - _MOST_FOLDED, "function")
        title = f"<summary>{look.count(len(rows) - _MOST_FUNCTIONS)} more</summary>"
        table += f'<details class="more">{title}{more}{left_out}</details>'
    return table


def _row(row: FunctionRow) -> str:
    below = ""
    lines = [line for line in row.doc.strip().splitlines() if line.strip()]
    if lines:
        cut = " …" if len(lines) > 1 else ""
        below += f'<div class="doc">{escape(lines[0].strip())}{cut}</div>'
    if row.note:
        below += f'<div class="doc">{inline(row.note)}</div>'
    if row.kind == "struct":
        gradient = "∂ differentiable" if row.differentiable else ""
    else:
        gradient = "∂ differentiable" if row.differentiable else '<span class="dim">no derivative</span>'
    return f'<tr><th scope="row"><div class="sig">{_signature(row)}</div>{below}</th><td class="g">{gradient}</td></tr>'


def _signature(row: FunctionRow) -> str:
    shown = [_parameter(p) for p in row.parameters[:_MOST_PARAMETERS]]
    if (more := len(row.parameters) - _MOST_PARAMETERS) > 0:
        shown.append(f'<span class="dim">… {look.count(more)} more</span>')
    name = f"<b>{escape(row.name)}</b>"
    if row.kind == "struct":
        return f'<span class="dim">struct</span> {name}' + (f" {{ {'; '.join(shown)} }}" if shown else "")
    result = f' <span class="dim">→ {escape(row.result)}</span>' if row.result not in ("", "void") else ""
    return f"{name}({', '.join(shown)}){result}"


def _parameter(p: ParameterRow) -> str:
    direction = f"{escape(p.direction)} " if p.direction else ""
    default = f'<span class="dim"> = {escape(p.default)}</span>' if p.default is not None else ""
    name = f'<u title="receives a gradient">{escape(p.name)}</u>' if p.gradient else escape(p.name)
    return f'<span class="dim">{direction}{escape(p.type)} </span>{name}{default}'


# ----- messages -----


def messages(diagnostics: Sequence[Diagnostic]) -> str:
    """Return the messages of something that does not compile: the first error in full, the others one line each."""
    main = main_message(diagnostics)
    if main is None:
        return ""
    others = [d for d in diagnostics if d is not main]
    also = [_also(d, main) for d in others[:_MOST_MESSAGES]]
    if len(others) > _MOST_MESSAGES:
        also.append(
            f"<div>and {look.plural(len(others) - _MOST_MESSAGES, 'more message').replace('more messages', 'more')}</div>"
        )
    rows = [*_notes(main), ("hint", inline(main.hint) if main.hint else ""), ("also", "".join(also))]
    generated = f'<div class="dim sm">{escape(main.text)}</div>' if main.generated else ""
    return _snippet(main) + generated + key_values(rows)


def _also(d: Diagnostic, main: Diagnostic) -> str:
    place = place_from(d, main.cell)
    word = "warning: " if d.severity == "warning" else ""
    line = f"{escape(place)}: " if place else ""
    line += word + escape(d.title if d.generated else d.text or d.title)
    inside = _snippet(d) + key_values([*_notes(d), ("hint", inline(d.hint) if d.hint else "")])
    return f"<details><summary>{line}</summary>{inside}</details>" if inside else f"<div>{line}</div>"


def _note(d: Diagnostic) -> str:
    """Return a warning in its box."""
    kind, name = {"error": ("e", "cross"), "warning": ("w", "warn"), "note": ("n", "unsure")}[d.severity]
    title = d.title or d.text
    label = "" if d.generated else d.place
    place = f' <span class="at">{escape(label)}</span>' if label else ""
    body = _snippet(d) or (f"<div>{escape(d.text)}</div>" if d.text and d.text != title else "")
    rule = "rule" if d.code and not d.code.startswith("E") else "code"
    rows = [*_notes(d), ("hint", inline(d.hint) if d.hint else ""), (rule, escape(d.code))]
    return (
        f'<div class="note {kind}"><div class="hd"><span class="c">{icon(name)}</span><b>{inline(title)}</b>{place}</div>'
        f"{body}{key_values(rows)}</div>"
    )


def _notes(d: Diagnostic) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for note in d.notes:
        where = place_from(note, d.cell)
        text = escape(note.text or note.title) + (f" ({escape(where)})" if where else "")
        line = next((x.text.strip() for x in excerpt(note) if x.hit), "")
        rows.append(("note" if not rows else "", text + (f"<br>{code(line)}" if line else "")))
    return rows


def _snippet(d: Diagnostic) -> str:
    lines = excerpt(d)
    if not lines:
        return ""
    gutter = max(len(str(line.number)) for line in lines)
    tone = " w" if d.severity == "warning" else ""
    out = []
    for line in lines:
        hit = f" hit{tone}" if line.hit else ""
        number = str(line.number).rjust(gutter)
        out.append(
            f'<span class="ln{hit}">{number} </span><span class="cd{hit}">{highlight(line.text)}</span>\n'
        )
        if line.hit:
            out.append(
                f'<span class="ln{hit}">{" " * gutter} </span><span class="car{hit}">{_carets(line, d)}</span>\n'
            )
    return (
        f'<pre class="snip" tabindex="0" role="group" aria-label="source, line {d.line}">{"".join(out)}</pre>'
    )


def _carets(line: Line, d: Diagnostic) -> str:
    """Return the carets and the message.

    How wide other than ASCII letters are depends on the font, so there the style sheet repeats the text unseen instead of spaces.
    """
    spaces, carets = " " * line.indent, "^" * line.carets
    if line.before:
        place = f'<i data-before="{attribute(line.before)}"><span>{spaces}</span>{carets}</i>'
    else:
        place = f"<i>{spaces}{carets}</i>"
    return f'<span class="fit">{place} <b>{escape(d.text or d.title)}</b></span>'


def key_values(rows: Iterable[tuple[str, str]], kind: str = "") -> str:
    """Return a list of keys and values, the values already HTML; rows without a value are left out."""
    shown = "".join(f"<dt>{escape(key)}</dt><dd>{value}</dd>" for key, value in rows if value)
    return f'<dl class="kv {kind}">{shown}</dl>' if shown else ""


def _more(n: int, word: str) -> str:
    return f'<div class="foot">and {look.plural(n, "more " + word)}</div>' if n > 0 else ""


# ----- the last line -----


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(code(n) for n in names[:_MOST_NAMES])
    more = len(names) - _MOST_NAMES
    return f"{shown} and {look.count(more)} more" if more > 0 else shown


def _foot(report: CellReport, verbose: bool) -> str:
    parts: list[str] = []
    if report.state == "failed" and report.runs_version:
        parts.append(
            f'<span class="ic">{icon("stale")}</span>{code(report.name)} still runs the version of {escape(report.runs_version)}'
        )
    if report.state == "stale":
        parts.append(_stale(report))
    if report.bound and report.state != "unchanged":
        parts.append(f"bound: {_names(report.bound)}")
    if verbose and report.reason and report.state == "compiled":
        parts.append(f"compiled because {inline(report.reason)}")
    if verbose and report.reason and report.state == "unchanged":
        parts.append(f"not compiled again: {inline(report.reason)}")
    if report.recompiled:
        parts.append(f"also recompiled: {_names(report.recompiled)}")
    if report.gone_stale:
        parts.append(f'<span class="warn">stale now:</span> {_names(report.gone_stale)}')
    for name, why in report.left_alone:
        parts.append(f'<span class="warn">left alone:</span> {code(name)} {inline(why)}')
    joined = " ".join(f"<span>{p}</span>" for p in parts)
    return f'<div class="foot">{joined}</div>' if parts else ""


def _stale(report: CellReport) -> str:
    name = code(report.name)
    if report.reason:
        why = inline(report.reason)
    elif report.imports:
        why = f"{_names(report.imports)}, which it imports, does not compile"
    else:
        why = "a cell that it imports does not compile"
    return f"{why}. Once that compiles, {name} follows by itself."
