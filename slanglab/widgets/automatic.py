"""Views that open by themselves: what a tensor shows as the last line of a cell.

A view that nobody asked for has nobody to close it: it goes when its cell runs again (`slanglab.widgets.outputs`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slanglab.errors import SlangLabError
from slanglab.widgets import outputs
from slanglab.widgets.inspector import TensorInspector

__all__ = ["mimebundle", "name_of"]


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
    # Before the new view is made, so that the old one's tensor may go first.
    outputs.replace(shell)
    try:
        view = TensorInspector(tensor, name_of(tensor, getattr(shell, "user_ns", {})))
    except SlangLabError as error:
        return {"text/plain": f"{tensor!r}\n{error}"}, {}
    outputs.show(view, shell, ours=True)
    return view.bundle()


def name_of(value: object, namespace: Mapping[str, object]) -> str:
    """Return the name of the variable that holds this very object; "" where there is none.

    IPython's own names for results (`_`, `_3`, `Out`) do not count.
    """
    # A copy: another thread may define a variable meanwhile.
    names = [name for name, held in list(namespace.items()) if held is value and not name.startswith("_")]
    return names[0] if names else ""
