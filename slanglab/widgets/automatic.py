"""Views that open by themselves: what a tensor shows as the last line of a cell.

ipywidgets keeps every open widget alive, and an inspector keeps its tensor. A view that nobody asked for has nobody to
close it, so it belongs to its cell: when the cell runs again, its output is replaced and the old view is closed.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

from slanglab.errors import SlangLabError
from slanglab.widgets.inspector import TensorInspector

__all__ = ["mimebundle", "name_of"]

_open: dict[str, tuple[str, list[weakref.ref[TensorInspector]]]] = {}
"""By cell: the execution that opened the views, and the views."""


def mimebundle(tensor: Any, shell: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what a display formatter answers for a tensor: data and metadata by MIME type.

    Parameters
    ----------
    tensor : slangpy.Tensor
    shell : InteractiveShell, optional
        Where the variable's name and the running cell are looked up.

    Returns
    -------
    (dict, dict)
        The widget, a PNG and text; text alone where the tensor cannot be read.
    """
    cell, execution = _cell(shell)
    if cell:
        _retire(cell, execution)
    try:
        view = TensorInspector(tensor, name_of(tensor, getattr(shell, "user_ns", {})))
    except SlangLabError as error:
        return {"text/plain": f"{tensor!r}\n{error}"}, {}
    if cell:
        _open.setdefault(cell, (execution, []))[1].append(weakref.ref(view))
    return view._repr_mimebundle_()


def name_of(value: object, namespace: Mapping[str, object]) -> str:
    """Return the name of the variable that holds this very object; "" where there is none.

    IPython's own names for results (`_`, `_3`, `Out`) do not count.
    """
    # A copy: another thread may define a variable meanwhile.
    names = [name for name, held in list(namespace.items()) if held is value and not name.startswith("_")]
    return names[0] if names else ""


def _cell(shell: Any) -> tuple[str, str]:
    """Return the running cell and its execution, as the front end names them; "" where it does not."""
    parent = getattr(shell, "parent_header", None)
    if not isinstance(parent, Mapping):
        return "", ""
    metadata, header = parent.get("metadata"), parent.get("header")
    cell = metadata.get("cellId") if isinstance(metadata, Mapping) else None
    execution = header.get("msg_id") if isinstance(header, Mapping) else None
    return (cell, execution) if isinstance(cell, str) and isinstance(execution, str) else ("", "")


def _retire(cell: str, execution: str) -> None:
    """Close the views that an earlier execution of the cell opened."""
    if cell in _open and _open[cell][0] != execution:
        for reference in _open.pop(cell)[1]:
            if (view := reference()) is not None:
                view.close()
