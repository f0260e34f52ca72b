"""What is said under a cell: `html` for the notebook, `text` for everything else."""

from __future__ import annotations

from slanglab.widgets.report_html import html
from slanglab.widgets.report_text import text

__all__ = ["html", "text"]
