"""Messages of the browser while a cell runs, on kernels that keep them until the cell has ended.

From ipykernel 7 on a subshell's thread takes them. Before, all messages wait in the queue of the one shell: those for a widget are picked
out here, between steps of a run, and the others stay in their order.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

__all__ = ["poller"]

_log = logging.getLogger(__name__)


def poller(widget: Any) -> Callable[[], None] | None:
    """Return what takes the waiting messages for a widget, or None where they come by themselves or cannot be had."""
    from IPython.core.getipython import get_ipython

    kernel = getattr(get_ipython(), "kernel", None)
    if kernel is None or getattr(kernel, "_supports_kernel_subshells", False):
        return None
    stream, queue = getattr(kernel, "shell_stream", None), getattr(kernel, "msg_queue", None)
    if stream is None or not callable(getattr(queue, "get_nowait", None)):
        return None

    def poll() -> None:
        try:
            _take(kernel, stream, queue, widget)
        except Exception:
            _log.debug("messages could not be polled", exc_info=True)

    return poll


def _take(kernel: Any, stream: Any, queue: Any, widget: Any) -> None:
    import zmq

    # From the socket into the kernel's queue.
    stream.flush(zmq.POLLIN)
    waiting = []
    while not queue.empty():
        waiting.append(queue.get_nowait())
    comm = getattr(widget.comm, "comm_id", None)
    for item in waiting:
        message = _message(kernel, item)
        if message is None or not _is_ours(message, comm):
            queue.put_nowait(item)
            continue
        kernel.comm_manager.comm_msg(None, None, message)


def _message(kernel: Any, item: Any) -> Any:
    """Return the message of an entry of the queue; None for what is none."""
    try:
        parts = list(item[-1][0])
        _, rest = kernel.session.feed_identities(parts, copy=False)
        # Signatures are accepted once: the kernel checks again what is put back.
        digest = kernel.session.digest_history
        before = set(digest)
        message = kernel.session.deserialize(rest, content=True, copy=False)
        digest -= set(digest) - before
        return message
    except Exception:
        return None


def _is_ours(message: Any, comm: str | None) -> bool:
    return bool(message.get("msg_type") == "comm_msg" and message["content"].get("comm_id") == comm)
