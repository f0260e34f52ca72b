"""The code view: what Slang wrote for a `--torch` cell, as HTML and as text."""

from __future__ import annotations

from slanglab import look
from slanglab.torch.entry_points.generated import Generated
from slanglab.widgets.excerpt import visible
from slanglab.widgets.markup import escape
from slanglab.widgets.report_html import frame, top
from slanglab.widgets.wording import Wording

__all__ = ["html", "text"]

_MOST_LINES = 2000
_LONGEST = 400  # characters of a line


def html(code: Generated) -> str:
    """Return the texts as one element with its own style: the CUDA open, the C++ folded; `Generated.drawer` is for this."""
    kernels = code.kernels.strip("\n").split("\n")
    words = Wording("ok", "check", "compiled to CUDA", (look.plural(len(kernels), "line"),))
    body = [top(code.name, words)]
    for title, written, opened in (
        ("CUDA, for nvcc", code.kernels, True),
        ("C++, for Python", code.binding, False),
    ):
        lines = written.strip("\n").split("\n")
        shown = "\n".join(escape(line) for line in lines[:_MOST_LINES])
        if (more := len(lines) - _MOST_LINES) > 0:
            shown += f"\n… {look.count(more)} more lines"
        summary = f"{title}, {look.plural(len(lines), 'line')}"
        body.append(
            f'<details class="full"{" open" if opened else ""}><summary>{escape(summary)}</summary><pre>{shown}</pre></details>'
        )
    return frame("ok", f"code of {code.name}", body)


def text(code: Generated) -> str:
    """Return the texts as lines, each under a title."""
    parts = []
    for title, written in (("CUDA, for nvcc", code.kernels), ("C++, for Python", code.binding)):
        lines = [visible(line)[:_LONGEST] for line in written.strip("\n").split("\n")]
        if (more := len(lines) - _MOST_LINES) > 0:
            lines = [*lines[:_MOST_LINES], f"... {more} more lines"]
        parts += [f"// {visible(code.name)}: {title}", *lines, ""]
    return "\n".join(parts).rstrip("\n")
