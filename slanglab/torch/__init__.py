"""PyTorch: cells and files in the style of slang-torch.

Nothing here is imported before it is used, and PyTorch by no import: it is an optional dependency (`pip install slanglab[torch]`).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slanglab.torch.entry_points.session import generated, load

__all__ = ["generated", "load"]

_HOMES = {
    "generated": "slanglab.torch.entry_points.session",
    "load": "slanglab.torch.entry_points.session",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'slanglab.torch' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
