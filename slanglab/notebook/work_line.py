"""The line in a cell that says what is going on, and leaves nothing in the saved notebook.

A front end keeps what a cell puts out, so that the line has to be taken back without touching what the user put out. Where nothing
else stands in the cell, the line's output is cleared, and nothing is saved. Where something does, clearing would take that too: the
line's output is then made empty, and stays as a bundle without any data, which every front end shows as nothing; at most one in a run
of a cell.

Whether something else was put out is decided on the thread that sends all output, behind whatever was sent before, so that no output
of another thread can get in between.
"""

from __future__ import annotations

import html
import sys
import threading
import uuid
from collections.abc import Callable
from typing import Any

from slanglab import look, progress
from slanglab.progress import DELAY, Work

__all__ = ["WorkLine"]

_NOT_OUTPUT = (b"status", b"execute_input", b"iopub_welcome")


class WorkLine:
    """Shows work in the running cell of an ipykernel; a `slanglab.progress.Shower`.

    Parameters
    ----------
    shell : ZMQInteractiveShell
        The kernel's shell.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._kernel = shell.kernel
        self._thread = shell.kernel.iopub_thread
        self._parent: Any = None
        """The request of the running cell; None between cells, when there is no place for a line."""
        self._alone = False
        """Whether nothing but the line was put out by the running cell."""
        self._id: str | None = None
        """Of the line's output in the running cell; None as long as there is none."""
        self._visible = False

    @staticmethod
    def fits(shell: Any) -> bool:
        """Tell whether a shell is that of a kernel that sends its output on a thread, as ipykernel's does."""
        thread = getattr(getattr(shell, "kernel", None), "iopub_thread", None)
        return callable(getattr(thread, "schedule", None)) and callable(
            getattr(thread, "send_multipart", None)
        )

    def install(self) -> None:
        """Show work in cells from now on."""
        self._thread.send_multipart = self._sending
        self._shell.events.register("pre_run_cell", self._before_cell)
        self._shell.events.register("post_run_cell", self._after_cell)
        self._begin()
        self._alone = self._first_of_its_cell()
        progress.show_with(self)

    def remove(self) -> None:
        """Show nothing any more."""
        progress.show_with(None)
        self._shell.events.unregister("pre_run_cell", self._before_cell)
        self._shell.events.unregister("post_run_cell", self._after_cell)
        vars(self._thread).pop("send_multipart", None)

    # ----- the running cell -----

    def _begin(self) -> None:
        parent = self._shell.get_parent()
        asked = parent.get("header", {}).get("msg_type") if parent else None
        self._parent = parent if asked == "execute_request" else None
        self._id, self._visible = None, False

    def _before_cell(self, _info: Any) -> None:
        self._begin()

    def _after_cell(self, _result: Any) -> None:
        progress.end_all()
        self._parent = None

    def _first_of_its_cell(self) -> bool:
        """Tell whether the running cell begins by loading the extension, so that it cannot have put out anything yet."""
        history = getattr(self._shell.history_manager, "input_hist_raw", None) or [""]
        lines = (line.strip() for line in history[-1].splitlines())
        first = next((line for line in lines if line and not line.startswith("#")), "")
        return first.split() == ["%load_ext", "slanglab"]

    def _sending(self, message: Any, *args: Any, **kwargs: Any) -> Any:
        """Note what goes to the front end, on its way there."""
        kind = bytes(message[0]).rpartition(b".")[2]
        if kind == b"execute_input":
            self._alone = True  # what begins a cell comes before all that it puts out
        elif kind not in _NOT_OUTPUT:
            self._alone = False
            if kind == b"clear_output":
                self._id = None  # the user's; the line went with the rest
        return type(self._thread).send_multipart(self._thread, message, *args, **kwargs)

    # ----- the line -----

    def show(self, work: Work) -> None:
        """Show a work in the running cell; nothing between cells."""
        if self._parent is None:
            return
        if not self._visible:
            for stream in (sys.stdout, sys.stderr):  # what was printed before stands before the line
                stream.flush()
        parent = self._parent
        content: dict[str, Any] = {
            "data": {"text/html": _html(work), "text/plain": work.line},
            "metadata": {},
        }

        def send() -> None:
            kind = "update_display_data" if self._id else "display_data"
            self._id = self._id or f"slanglab-work-{uuid.uuid4().hex}"
            self._send(kind, {**content, "transient": {"display_id": self._id}}, parent)
            self._visible = True

        self._on_thread(send, wait=work.at_once)

    def hide(self) -> None:
        """Take the line out of the cell, and leave what else it put out."""
        parent = self._parent

        def send() -> None:
            if not self._visible or self._id is None:
                return
            if self._alone:
                self._send("clear_output", {"wait": False}, parent)
                self._id = None
            else:
                empty = {"data": {}, "metadata": {}, "transient": {"display_id": self._id}}
                self._send("update_display_data", empty, parent)
            self._visible = False

        self._on_thread(send, wait=False)

    def _on_thread(self, send: Callable[[], None], *, wait: bool) -> None:
        sent = threading.Event()

        def run() -> None:
            try:
                if self._thread.socket is not None:
                    send()
            finally:
                sent.set()

        self._thread.schedule(run)
        if wait:  # native code that holds the interpreter's lock leaves the thread no other moment to send it
            sent.wait(DELAY)

    def _send(self, kind: str, content: dict[str, Any], parent: Any) -> None:
        ident = f"kernel.{self._kernel.ident}.{kind}".encode()
        self._kernel.session.send(self._thread.socket, kind, content, parent=parent, ident=ident)


def _html(work: Work) -> str:
    """Return the line as an element with its own style; a line that is shown at once counts the seconds by itself."""
    colors = look.tokens()["colors"]
    line = html.escape(work.line)
    if work.at_once and work.seconds < DELAY:
        stop = " · interrupt to stop" if work.stoppable else ""
        line = f'{html.escape(work.title)} · <span class="n"></span>{stop}'
    edge, ink = (",".join(colors[name]) for name in ("edge", "ink2"))
    return f'<div class="slanglab-work" aria-live="off"><style>{_STYLE % (edge, ink)}</style>{line}</div>'


_STYLE = (
    ".slanglab-work{color-scheme:light dark;border-left:3px solid light-dark(%s);color:light-dark(%s);padding:1px 0 1px 9px;"
    "font:13px/18px var(--jp-ui-font-family,system-ui,sans-serif);font-variant-numeric:tabular-nums}"
    'body[data-jp-theme-light="true"] .slanglab-work{color-scheme:light}'
    'body[data-jp-theme-light="false"] .slanglab-work{color-scheme:dark}'
    '@property --slanglab-s{syntax:"<integer>";initial-value:0;inherits:false}'
    "@keyframes slanglab-s{to{--slanglab-s:3600}}"
    ".slanglab-work .n{animation:slanglab-s 3600s linear .5s;counter-reset:n var(--slanglab-s)}"
    '.slanglab-work .n::after{content:counter(n) " s"}'
)
