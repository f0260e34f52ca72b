"""A notebook without a server: an IPython shell in this process, one method to run a cell."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from slanglab import guard


@dataclass
class Output:
    """What a cell gave."""

    value: Any
    error: BaseException | None
    stdout: str
    stderr: str
    shown: list[dict[str, Any]]

    @property
    def text(self) -> str:
        """Everything that a reader without HTML sees."""
        return self.stdout + self.stderr + "\n".join(str(d.get("text/plain", "")) for d in self.shown)

    @property
    def html(self) -> str:
        return "\n".join(str(d.get("text/html", "")) for d in self.shown)


class Shell:
    def __init__(self) -> None:
        InteractiveShell.clear_instance()
        self.ip = InteractiveShell.instance()  # the one that `display` finds
        self.ip.run_cell("%load_ext slanglab").raise_error()
        self.ns = self.ip.user_ns

    def run(self, cell: str, *, fails: bool = False) -> Output:
        with capture_output() as captured:
            result = self.ip.run_cell(cell, store_history=True)
        error = result.error_before_exec or result.error_in_exec
        shown = [o.data for o in captured.outputs]
        output = Output(result.result, error, captured.stdout, captured.stderr, shown)
        if error is not None and not fails:
            raise AssertionError(f"the cell failed: {error!r}\n{output.text}") from error
        if fails:
            assert error is not None, "the cell should have failed"
        return output

    def __getitem__(self, name: str) -> Any:
        return self.ns[name]

    def close(self) -> None:
        # The worker that tries kernels is kept for the next shell, as a notebook keeps one: to start it takes two seconds.
        with patch.object(guard, "stop_all", lambda: None):
            self.ip.run_cell("%unload_ext slanglab")
        self.ip.user_ns.clear()
        InteractiveShell.clear_instance()
        gc.collect()
