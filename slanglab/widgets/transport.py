"""Frames and requests between a kernel and the views of a widget.

A frame (a picture, the state of a plot) goes out only when the browser has drawn the one before; between the two only
the latest frame is kept. `send` of a comm never blocks, so without that gate frames would pile up without end.
Messages of the browser arrive on whatever thread the kernel gives them (a subshell's, while a cell runs), so what
handles them here sets flags or schedules work on the thread that made the widget: only that one touches the device.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import threading
import warnings
from collections import deque
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import anywidget
import traitlets
from numpy.typing import NDArray

from slanglab.widgets.gate import Frame, FrameGate, pack
from slanglab.widgets.raster import SCALE

__all__ = ["SlangWidget", "bundle"]

_log = logging.getLogger(__name__)

_FOR_THE_ANSWER = 0.02
"""Seconds for which the thread that a request came on waits for it to be served."""

_MOST_KEYS = 32

_MOST_CALLS = 64
"""Greetings of views that are known again when they come once more."""

_LONGEST_CALL = 32


@cache
def bundle(name: str) -> str | None:
    """Return the text of a browser module, read once per process.

    Parameters
    ----------
    name : str
        As in `slanglab/static/NAME.js`.

    Returns
    -------
    str or None
        None where the package was installed without its browser side; a warning says so once.
    """
    path = Path(__file__).parents[1] / "static" / f"{name}.js"
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        warnings.warn(
            f"SlangLab's widgets show still pictures only: {path.name} was not built. "
            "In a clone: npm --prefix js ci && npm --prefix js run build",
            stacklevel=2,
        )
        return None


class SlangWidget(anywidget.AnyWidget):
    """Base of SlangLab's widgets: frames out, requests in, no array and nothing executable of ours in saved state.

    A subclass names its bundle in `_bundle` and its requests in `_requests`: a mapping from the kind of a message to
    a method that takes the message's content. These methods run on the thread that made the widget, the latest
    request of a kind only, and may touch the device. `_controls` is a mapping of the same form whose methods run at once,
    on whatever thread a message comes: while a cell is busy too, so they only set flags.
    """

    _bundle = ""
    _trust = 0.0
    """As for `FrameGate`."""
    _requests: Mapping[str, str] = {}
    _controls: Mapping[str, str] = {}

    _esm = traitlets.Unicode().tag(sync=True)

    @traitlets.default("_esm")
    def _load_esm(self) -> str:
        return bundle(self._bundle) or "export default { render() {} }"

    def __init__(self, **traits: Any) -> None:
        self._home = threading.get_ident()
        try:
            self._loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            self._loop = None
        self._inbox: dict[str, dict[str, Any]] = {}
        self._inbox_lock = threading.Lock()
        self._calls: deque[str] = deque(maxlen=_MOST_CALLS)
        self._served = threading.Event()
        self._home_is_free = True
        self._gate = FrameGate(self._transmit, trust=self._trust)
        super().__init__(**traits)
        comm = self.comm
        # ipykernel 7.4.0 routes the browser's messages to the shell that sent last, which is the busy one while a
        # cell runs: Stop would wait for the cell. Going by the message's own header is what other versions do.
        if comm is not None and hasattr(comm, "_reply_subshell_for"):
            comm._reply_subshell_for = _by_header
        self.on_msg(_receive)

    @property
    def interactive(self) -> bool:
        """Whether there is a browser side to show; without, the still picture stands alone."""
        return bundle(self._bundle) is not None

    def with_twins(
        self, text: str, image: bytes | None, **kwargs: Any
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the widget, for an output, with its twins.

        Parameters
        ----------
        text : str
        image : bytes or None
            A PNG, to be shown at 1 / `SCALE` of its size.
        **kwargs
            As for `_repr_mimebundle_`.

        Returns
        -------
        data, metadata : dict
            By type. No text/html: JupyterLab would prefer it to the PNG in a saved notebook.
        """
        data: dict[str, Any] = {}
        metadata: dict[str, Any] = {}
        if self.interactive:
            found: Any = super()._repr_mimebundle_(**kwargs) or {}
            given, more = found if isinstance(found, tuple) else (found, {})
            data.update(given)
            metadata.update(more)
        data.pop("text/html", None)
        data["text/plain"] = text
        if image is not None:
            data["image/png"] = base64.b64encode(image).decode("ascii")
            width, height = (int.from_bytes(image[at : at + 4], "big") // SCALE for at in (16, 20))
            metadata["image/png"] = {"width": width, "height": height}
        return data, metadata

    # ----- out -----

    def push(
        self, kind: str, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]] | None = None
    ) -> bool:
        """Show a frame as soon as the view can; a later frame of the same kind replaces it until then.

        Parameters
        ----------
        kind, meta, arrays
            As for `pack`. The arrays are copied.

        Returns
        -------
        bool
            True if it was sent at once, False if it waits.
        """
        return self._gate.push(pack(kind, meta, arrays))

    def flush(self) -> None:
        """Send the frame that waits, without waiting for the view."""
        self._gate.flush()

    def tell(
        self, kind: str, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]] | None = None
    ) -> None:
        """Send a small message past the gate: the answer to a request, of which the browser has one on its way."""
        self._transmit(pack(kind, meta, arrays))

    def answer(
        self, kind: str, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]] | None = None
    ) -> None:
        """Show a frame that was asked for, now: the next request, not an acknowledgement, says that it was drawn.

        One message less on its way back counts: the server between kernel and browser takes milliseconds for each. A frame of the same
        kind that waits is older, and is dropped.
        """
        self._gate.clear(kind)
        self.tell(kind, meta, arrays)

    def _transmit(self, frame: Frame) -> None:
        try:
            self.send(frame.content, buffers=frame.buffers)
        except Exception:
            # A view that cannot be reached must not end a training run.
            _log.debug("a frame could not be sent", exc_info=True)

    # ----- in -----

    def _ready(self, known: object = None) -> None:
        """Answer a view that has opened: overridden to push what it shows. Runs on any thread, so from memory only.

        Parameters
        ----------
        known : object
            What the view says that it shows already.
        """

    def _take(self, content: object) -> None:
        """Sort one message of the browser; unknown and malformed ones are ignored."""
        if not isinstance(content, dict) or len(content) > _MOST_KEYS:
            return
        kind = content.get("kind")
        if not isinstance(kind, str):
            return
        if kind == "ack":
            seq = content.get("seq")
            if type(seq) is int:
                self._gate.acknowledge(seq)
        elif kind == "ready":
            if self._hears(content.get("call")):
                self._gate.reopen()
                self._ready(content.get("take"))
        elif kind in self._controls:
            getattr(self, self._controls[kind])(content)
        elif kind in self._requests:
            self._schedule(kind, content)

    def _hears(self, call: object) -> bool:
        """Tell a view that it was heard, and return whether this is the first time.

        It says that it is there until it knows (`js/src/lib/greeting.ts`).
        """
        if not isinstance(call, str) or len(call) > _LONGEST_CALL:
            return True
        with self._inbox_lock:
            if call in self._calls:
                return False
            self._calls.append(call)
        self.tell("heard", {"call": call})
        return True

    def _schedule(self, kind: str, content: dict[str, Any]) -> None:
        with self._inbox_lock:
            idle = not self._inbox
            self._inbox[kind] = content
        if threading.get_ident() == self._home or self._loop is None or self._loop.is_closed():
            self._work()
        elif idle:
            self._served.clear()
            self._loop.call_soon_threadsafe(self._work)
            # This thread would go on to say that it is idle: in competition for the interpreter with the work itself, and with a
            # message that the answer would stand behind in every queue to the browser. Where the thread at home is busy there is
            # nothing to wait for.
            if self._home_is_free:
                self._home_is_free = self._served.wait(_FOR_THE_ANSWER)

    def _work(self) -> None:
        """Serve the latest request of each kind."""
        with self._inbox_lock:
            requests, self._inbox = self._inbox, {}
        try:
            for kind, content in requests.items():
                if self.comm is None:
                    return
                try:
                    getattr(self, self._requests[kind])(content)
                except Exception:
                    _log.debug("request %r was not served", kind, exc_info=True)
        finally:
            self._home_is_free = True
            self._served.set()

    # ----- end -----

    def close(self) -> None:
        """Take the widget out of every view and let go of all it holds."""
        if "_gate" not in self.__dict__:
            return  # the constructor of a subclass failed before there was anything to close
        self._gate.clear()
        self.on_msg(_receive, remove=True)
        layout = self.layout
        super().close()
        # ipywidgets keeps each open widget alive; the layout is one of its own.
        if layout is not None:
            layout.close()


def _by_header(_data: object, default: Any) -> Any:
    return default


def _receive(widget: SlangWidget, content: object, _buffers: Sequence[memoryview]) -> None:
    """Hand a message to its widget. A function, not a method: a bound method would hold the widget in a cycle."""
    try:
        widget._take(content)
    except Exception:
        _log.debug("a message of the browser was not understood", exc_info=True)
