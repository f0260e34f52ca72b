"""Several tensors in one table, a line each; and a summary by itself. Nothing in it needs a kernel: it is HTML and text."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slanglab import look
from slanglab.errors import ArgumentError, SlangLabError
from slanglab.tensors import sources
from slanglab.tensors import summary as summaries
from slanglab.tensors.records import Histogram, Statistics, Summary
from slanglab.tensors.wording import dtype_name, flags, norm, range_text, summary_text
from slanglab.widgets.automatic import name_of
from slanglab.widgets.markup import attribute, escape

__all__ = ["TensorTable", "inside", "summary_html", "table"]

_BARS = 24
_MOST = 200
"""Lines at most."""


@dataclass(frozen=True)
class Row:
    """One tensor of a table: its name, and its summary or why there is none."""

    name: str
    summary: Summary | None
    trouble: str = ""


class TensorTable:
    """Tensors in a table: name, shape, histogram and range of the value, histogram and norm of the gradient, what is wrong.

    Attributes
    ----------
    summaries : dict of str to Summary
        By name, of the tensors that could be read.
    """

    def __init__(self, rows: Sequence[Row], more: int = 0) -> None:
        self._rows = tuple(rows)
        self._more = more
        self.summaries: dict[str, Summary] = {r.name: r.summary for r in rows if r.summary is not None}

    def __repr__(self) -> str:
        heads = ["name", "shape", "dtype", "value", "gradient", "norm", ""]
        cells = [heads, *(_texts(row) for row in self._rows)]
        widths = [max(len(row[k]) for row in cells) for k in range(len(heads))]
        lines = [
            "  ".join(cell.ljust(n) for cell, n in zip(row, widths, strict=True)).rstrip() for row in cells
        ]
        if self._more:
            lines.append(f"and {look.count(self._more, ascii=True)} more")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        wide = ("shape", "dtype", "range")  # are left out where there is no room
        heads = "".join(
            f'<th scope="col" class="{"wide" if head in wide else ""}">{head}</th>'
            for head in ("name", "shape", "dtype", "value", "range", "gradient", "norm", "")
        )
        body = "".join(_row(row) for row in self._rows)
        foot = f'<div class="foot">and {look.count(self._more)} more</div>' if self._more else ""
        return _framed(
            "tensors", f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>{foot}"
        )


def table(*tensors: Any, **named: Any) -> TensorTable:
    """Show several tensors in one table, a line each.

    Parameters
    ----------
    *tensors : slangpy.Tensor, ndarray, torch.Tensor, or lists and dicts of them
        Named after the variables of the caller that hold them, else by their place.
    **named
        Tensors under names of their own.

    Returns
    -------
    TensorTable
        Shown when it is the last line of a cell; as text it is the same table.

    Examples
    --------
    >>> slanglab.table(weights, bias, loss=losses)  # doctest: +SKIP
    """
    caller = sys._getframe(1)
    namespace = {**caller.f_globals, **caller.f_locals}
    found: list[tuple[str, Any]] = []
    for k, one in enumerate(tensors):
        name = name_of(one, namespace)
        if isinstance(one, Mapping | list | tuple):
            found += [(f"{name}{place}", part) for place, part in _parts(one)]
        else:
            found.append((name or f"[{k}]", one))
    found += list(named.items())
    return TensorTable([_read(name, one) for name, one in found[:_MOST]], max(0, len(found) - _MOST))


def inside(container: Any) -> TensorTable | None:
    """Return the table of the tensors in a list, tuple or dict; None where it holds anything else or nothing."""
    if not isinstance(container, Mapping | list | tuple) or not container:
        return None
    parts = list(_parts(container))
    if not parts or not all(sources.is_tensor(part) for _, part in parts):
        return None
    return TensorTable([_read(place, part) for place, part in parts[:_MOST]], max(0, len(parts) - _MOST))


def _parts(container: Any, place: str = "", depth: int = 3) -> Any:
    """Yield what a container holds, with its place in it, as Python writes it."""
    pairs = container.items() if isinstance(container, Mapping) else enumerate(container)
    for key, part in pairs:
        at = f"{place}[{key!r}]"
        if depth and isinstance(part, Mapping | list | tuple):
            yield from _parts(part, at, depth - 1)
        else:
            yield at, part


def _read(name: str, tensor: Any) -> Row:
    try:
        return Row(name, summaries.summary(tensor, bins=_BARS))
    except ArgumentError as error:
        return Row(name, None, error.message)
    except SlangLabError as error:
        return Row(name, None, str(error).partition("\n")[0])


def _texts(row: Row) -> list[str]:
    s = row.summary
    if s is None:
        return [row.name, "", "", row.trouble, "", "", ""]
    size = norm(s.gradient)
    return [
        row.name,
        look.shape(s.shape),
        dtype_name(s.dtype),
        range_text(s.value, ascii=True) or ("fields: " + ", ".join(s.fields) if s.fields else "-"),
        "none" if s.gradient is None else range_text(s.gradient, ascii=True) or "-",
        "" if size is None else look.number(float(size), ascii=True),
        ", ".join(flags(s)),
    ]


def _row(row: Row) -> str:
    s = row.summary
    if s is None:
        return f'<tr><th scope="row">{escape(row.name)}</th><td class="why" colspan="7">{escape(row.trouble)}</td></tr>'
    shape, dtype = look.shape(s.shape), dtype_name(s.dtype)
    size = norm(s.gradient)
    gradient = '<span class="dim">none</span>' if s.gradient is None else _bars(s.gradient_histogram, True)
    value = _bars(s.histogram, False)
    if s.fields:
        value = f'<span class="dim">{escape(look.plural(len(s.fields), "field"))}</span>'
    said = "".join(
        f'<div class="{"warn" if text == "gradient all zero" else "bad"}">'
        f"{'' if text == 'gradient all zero' else '× ' if 'NaN' in text else '∧ ' if '+' in text else '∨ '}"
        f"{escape(text.replace('-Inf', look.MINUS + 'Inf'))}</div>"
        for text in flags(s)
    )
    return (
        f'<tr><th scope="row">{escape(row.name)}<span class="shape">{escape(shape)}</span></th>'
        f'<td class="n wide">{escape(shape)}</td><td class="dim wide">{escape(dtype)}</td><td>{value}</td>'
        f'<td class="n wide">{escape(range_text(s.value))}</td><td>{gradient}</td>'
        f'<td class="n">{"" if size is None else look.number(float(size))}</td><td class="flags">{said}</td></tr>'
    )


def _bars(histogram: Histogram | None, signed: bool) -> str:
    """Draw a histogram as small bars, their heights by the logarithm of the counts."""
    if histogram is None or not histogram.counts.sum():
        return '<span class="dim">–</span>'
    counts = histogram.counts
    heights = np.log1p(counts) / np.log1p(counts.max())
    middle = (histogram.edges[:-1] + histogram.edges[1:]) / 2
    bars = []
    for k, (height, at) in enumerate(zip(heights.tolist(), middle.tolist(), strict=True)):
        if height > 0:
            tall = max(1.0, height * 17)
            kind = "v" if not signed else "m" if at < 0 else "p"
            bars.append(
                f'<rect class="{kind}" x="{3 * k}" y="{18 - tall:.1f}" width="2" height="{tall:.1f}"/>'
            )
    said = f"{look.number(float(histogram.edges[0]))} to {look.number(float(histogram.edges[-1]))}"
    return (
        f'<svg width="{3 * len(counts)}" height="18" role="img" '
        f'aria-label="histogram from {attribute(said)}"><title>{escape(said)}</title>{"".join(bars)}</svg>'
    )


def _framed(label: str, body: str) -> str:
    return (
        f'<section class="slanglab-table" aria-label="{attribute(label)}">'
        f"<style>{look.style('table.css')}</style>{body}</section>"
    )


def summary_html(summary: Summary) -> str:
    """Return a summary as one element with its own style; `Summary.drawer` is for this."""
    facts = "".join(
        f"<span>{escape(text)}</span>"
        for text in (
            look.shape(summary.shape),
            dtype_name(summary.dtype),
            look.bytes(summary.bytes),
            summary.device,
        )
        if text
    )
    heads = (
        "whole tensor",
        "min",
        "max",
        "mean",
        "std",
        "zero",
        "NaN",
        "+Inf",
        f"{look.MINUS}Inf",
        "histogram",
    )
    top = "".join(f'<th scope="col">{head}</th>' for head in heads)
    rows: list[tuple[str, Statistics | None, Histogram | None, bool]] = [
        ("value", summary.value, summary.histogram, False),
        ("gradient", summary.gradient, summary.gradient_histogram, True),
        ("|gradient| / |value|", summary.ratio, None, False),
    ]
    for name, part in summary.fields.items():
        rows.append((f"{name} {dtype_name(part.dtype)}", part.value, part.histogram, False))
    body = "".join(
        _statistics(name, known, histogram, signed)
        for name, known, histogram, signed in rows
        if known is not None
    )
    notes = "".join(f'<div class="foot">{escape(note)}</div>' for note in summary.notes)
    if not body:
        notes += f'<div class="foot">{escape(summary_text(summary).splitlines()[-1])}</div>'
    shown = f'<table class="r"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>' if body else ""
    return _framed("summary of a tensor", f'<div class="head n">{facts}</div>{shown}{notes}')


def _statistics(name: str, known: Statistics, histogram: Histogram | None, signed: bool) -> str:
    drawn = _bars(histogram, signed) if histogram else ""
    measured = (known.minimum, known.maximum, known.mean, known.std)
    counts = (known.zeros, known.nan, known.posinf, known.neginf)
    cells = "".join(f'<td class="n">{"–" if x is None else look.number(x)}</td>' for x in measured)
    cells += "".join(
        f'<td class="n{" bad" if k and n else ""}">{look.count(n)}</td>' for k, n in enumerate(counts)
    )
    return f'<tr><th scope="row">{escape(name)}</th>{cells}<td>{drawn}</td></tr>'
