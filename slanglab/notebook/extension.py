"""`%load_ext slanglab`, and everything that unloading it takes back."""

from __future__ import annotations

import sys
from typing import Any

from slanglab import caches
from slanglab.engine.probing.report import GradCheck
from slanglab.errors import SlangLabError
from slanglab.lab import current
from slanglab.notebook import engines
from slanglab.notebook.display import Formatters
from slanglab.notebook.gone import names_on, variables
from slanglab.notebook.holders import Holders
from slanglab.notebook.magics import SlangMagics, lift_comments, wrap_errors
from slanglab.notebook.raised import Raised
from slanglab.notebook.work_line import WorkLine
from slanglab.tensors.records import Summary
from slanglab.torch.entry_points.generated import Generated
from slanglab.waiting import explain_loss
from slanglab.widgets import check_html, code, tables

__all__ = ["Extension", "load_ipython_extension", "unload_ipython_extension"]


class Extension:
    """What is loaded into one IPython shell."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._lab = current()
        self._formatters = Formatters(shell)
        self._holders = Holders(shell)
        self._raised = Raised(shell)
        self._magics = SlangMagics(shell, self._lab)
        self._work_line = WorkLine(shell) if WorkLine.fits(shell) else None

    def load(self) -> None:
        """Register magics, formatters and hooks."""
        if self._work_line is not None:
            self._work_line.install()
        self._shell.register_magics(self._magics)
        self._shell.input_transformers_cleanup.insert(0, lift_comments)
        self._formatters.install()
        self._raised.install()
        # post_run_cell and not post_execute: the latter also fires for messages of widgets, on another thread.
        self._shell.events.register("post_run_cell", self._after_cell)
        SlangLabError.presenter = wrap_errors
        GradCheck.drawer = check_html.html
        Summary.drawer = tables.summary_html
        Generated.drawer = code.html
        engines.start(self._lab, self._shell)
        self._lab.log.install()
        self._lab.mend()
        self._lab.succession.names = self._names
        self._lab.succession.holders.append(self._holders.let_go)

    def unload(self) -> None:
        """Take back what `load` registered; the lab stays, so that a reload finds its device and cells."""
        engines.leave()
        self._lab.unmend()
        self._lab.succession.names = None
        self._lab.succession.holders.remove(self._holders.let_go)
        self._lab.log.remove()
        SlangLabError.presenter = None
        GradCheck.drawer = None
        Summary.drawer = None
        Generated.drawer = None
        if self._work_line is not None:
            self._work_line.remove()
        self._shell.events.unregister("post_run_cell", self._after_cell)
        self._raised.remove()
        self._formatters.remove()
        self._shell.input_transformers_cleanup.remove(lift_comments)
        manager = self._shell.magics_manager
        for kind in ("line", "cell"):
            manager.magics[kind].pop("slang", None)
        manager.registry.pop(type(self._magics).__name__, None)

    def _names(self, device: Any) -> list[str]:
        return names_on(variables(self._shell), device)

    def _after_cell(self, result: Any) -> None:
        """Replace a device that was lost or given up in this cell, then show what slangpy logged."""
        error = getattr(result, "error_in_exec", None)
        if isinstance(error, Exception):
            explain_loss(error)  # also where nobody of ours saw it, as in a dispatch of the user's own
        try:
            self._lab.succession.replace_if_gone()
        except SlangLabError as failure:  # no device opens any more; the next use says so again
            print(f"slanglab: {failure}", file=sys.stderr)
        self._show_log()

    def _show_log(self) -> None:
        """Show what slangpy logged and nobody claimed, such as messages of the user's own devices."""
        for record in self._lab.log.take():
            if record.level in ("warn", "error", "fatal") and not caches.heard(record.text):
                print(f"slangpy {record.level}: {record.text.strip()}", file=sys.stderr)


_loaded: dict[int, Extension] = {}


def load_ipython_extension(shell: Any) -> None:
    """Load SlangLab into an IPython shell; loading it twice changes nothing."""
    if id(shell) not in _loaded:
        extension = Extension(shell)
        extension.load()
        _loaded[id(shell)] = extension


def unload_ipython_extension(shell: Any) -> None:
    """Take SlangLab out of an IPython shell."""
    extension = _loaded.pop(id(shell), None)
    if extension is not None:
        extension.unload()
