"""How values, reports and errors reach the output of a cell."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import slangpy as spy
from IPython.display import display

from slanglab import waiting
from slanglab.cells.report import CellReport
from slanglab.cells.versions import CompileError
from slanglab.errors import CallError, SlangLabError
from slanglab.tensors import summary as summaries
from slanglab.tensors.wording import line
from slanglab.values import describe_value
from slanglab.widgets import automatic, tables
from slanglab.widgets import errors as error_views
from slanglab.widgets import report as report_views

__all__ = ["Formatters", "show", "show_error"]


def show(report: CellReport, *, short: bool = False, verbose: bool = False) -> None:
    """Show a report under the running cell, as HTML with its text twin, or as one line."""
    if short:
        print(report_views.text(report).split("\n", 1)[0])
        return
    html, text = report_views.html(report, verbose=verbose), report_views.text(report, verbose=verbose)
    _display({"text/html": html, "text/plain": text})


def _display(bundle: dict[str, str]) -> None:
    display(bundle, raw=True)  # type: ignore[no-untyped-call]


def show_error(error: SlangLabError) -> bool:
    """Show an error as the report of a refused call; False for errors that have no view of their own."""
    if isinstance(error, CompileError) and error.report is not None:
        show(error.report)
        return True
    if isinstance(error, CallError):
        _display({"text/html": error_views.html(error), "text/plain": error_views.text(error)})
        return True
    return False


def _line(tensor: Any) -> str:
    """Return a tensor in one line, or why it cannot be read."""
    try:
        return line(summaries.summary(tensor, bins=1))
    except SlangLabError as error:
        return f"<{describe_value(tensor)}: {error.message}>"


def _table(container: Any) -> str | None:
    """Return a list, tuple or dict of tensors as a table; None, so that its text is shown, for any other."""
    try:
        found = tables.inside(container)
    except (SlangLabError, RuntimeError):  # a device that is gone: the text says so
        return None
    return None if found is None else found._repr_html_()


class Formatters:
    """The display formatters of slangpy's types: slangpy's own, and ours where they show more. `remove` undoes `install`."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._before: dict[str, dict[type, Any]] = {}
        self._twin: tuple[int, str] | None = None

    def install(self) -> None:
        """Register the formatters."""
        from slangpy.core.jupyter import setup_in_jupyter

        formatter = self._shell.display_formatter
        touched = {**formatter.formatters, "mimebundle": formatter.mimebundle_formatter}
        self._before = {name: dict(f.type_printers) for name, f in touched.items()}
        # All that it asks of a device is whether to watch files, and ours does not.
        setup_in_jupyter(SimpleNamespace(desc=SimpleNamespace(enable_hot_reload=False)))
        formatter.mimebundle_formatter.for_type(spy.Tensor, self._tensor)
        # A printer for text wins over the bundle's text. Inside lists and dicts a tensor is one line, and a list of tensors
        # alone is a table as well.
        plain, html = formatter.formatters["text/plain"], formatter.formatters["text/html"]

        def text(tensor: Any, printer: Any, cycle: bool) -> None:
            if len(printer.stack) == 1 and self._twin and self._twin[0] == id(tensor):
                printer.text(self._twin[1])
                self._twin = None
            else:
                printer.text(_line(tensor))

        plain.for_type(spy.Tensor, text)
        for kind in (list, tuple, dict):
            if kind not in html.type_printers:
                html.for_type(kind, _table)

    def remove(self) -> None:
        """Put back what was registered before."""
        formatter = self._shell.display_formatter
        touched = {**formatter.formatters, "mimebundle": formatter.mimebundle_formatter}
        for name, printers in self._before.items():
            touched[name].type_printers.clear()
            touched[name].type_printers.update(printers)
        self._before = {}

    def _tensor(self, tensor: Any, **_kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        if waiting.gone(tensor.device) is not None:
            self._twin = id(tensor), str(tensor)
            return {"text/plain": self._twin[1]}, {}
        data, metadata = automatic.mimebundle(tensor, self._shell)
        self._twin = id(tensor), data["text/plain"]
        return data, metadata
