"""Which views stand in the output of which cell, so that those whose output is gone are closed.

ipywidgets keeps every open widget alive, and an inspector keeps its tensor. When a cell runs again its output is replaced: a view
that opened by itself there has nobody else to close it, and one that a variable holds is closed too unless it is shown again, by
this run or by another cell.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any, Protocol

__all__ = ["View", "replace", "running", "show", "sweep"]


class View(Protocol):
    """What is kept of a view: an ipywidget."""

    comm: Any

    def close(self) -> None:
        """Take it out of every output."""
        ...


_shown: dict[str, tuple[str, list[weakref.ref[View]]]] = {}
"""By cell: its last execution that showed a view, and the views that stand in its output."""

_replaced: list[weakref.ref[View]] = []
"""Views of outputs that the running cell has replaced: it may show them again."""

_ours: weakref.WeakSet[Any] = weakref.WeakSet()
_listening: weakref.WeakSet[Any] = weakref.WeakSet()
"""The event managers of shells that tell when a cell has ended."""


def running(shell: Any) -> tuple[str, str]:
    """Return the running cell and its execution, as the front end names them; "" where it does not."""
    parent = getattr(shell, "parent_header", None)
    if not isinstance(parent, Mapping):
        return "", ""
    metadata, header = parent.get("metadata"), parent.get("header")
    cell = metadata.get("cellId") if isinstance(metadata, Mapping) else None
    execution = header.get("msg_id") if isinstance(header, Mapping) else None
    return (cell, execution) if isinstance(cell, str) and isinstance(execution, str) else ("", "")


def replace(shell: Any) -> None:
    """Note that the running cell shows something: what an earlier execution of it showed is replaced."""
    cell, execution = running(shell)
    if not cell or _shown.get(cell, ("", []))[0] == execution:
        return
    _, before = _shown.pop(cell, ("", []))
    _shown[cell] = execution, []
    for reference in before:
        view = reference()
        # Nobody but us can show again what opened by itself.
        if view is not None and view in _ours:
            view.close()
        elif view is not None:
            _replaced.append(reference)
    events = getattr(shell, "events", None)
    if events is not None and events not in _listening:
        events.register("post_run_cell", _ended)
        _listening.add(events)


def show(view: View, shell: Any, *, ours: bool = False) -> None:
    """Note that a view is shown under the running cell.

    Parameters
    ----------
    view : View
    shell : InteractiveShell or None
    ours : bool
        It opened by itself: no variable holds it.
    """
    replace(shell)
    cell, _ = running(shell)
    if cell:
        _shown[cell][1].append(weakref.ref(view))
    if ours:
        _ours.add(view)


def _ended(_result: object = None) -> None:
    """Close what was replaced and is shown nowhere now."""
    standing = {id(reference()) for _, views in _shown.values() for reference in views}
    while _replaced:
        view = _replaced.pop()()
        if view is not None and id(view) not in standing:
            view.close()


def sweep(views: Any) -> None:
    """Close those of `views` whose comm the host has closed, as marimo does when their cell runs again."""
    for view in list(views):
        if getattr(view.comm, "_closed", False) is True:
            view.close()
