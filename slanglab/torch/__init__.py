"""PyTorch: torch tensors in calls, in torch's autograd graph; modules and launches; cells in the style of slang-torch.

Nothing here is imported before it is used, and PyTorch by no import: it is an optional dependency (`pip install slanglab[torch]`).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slanglab.torch.entry_points.session import generated, load
    from slanglab.torch.functions import function
    from slanglab.torch.launching import RankError, launch
    from slanglab.torch.module import Module
    from slanglab.torch.ranks import local_device

__all__ = ["Module", "RankError", "function", "generated", "launch", "load", "local_device"]

_HOMES = {
    "Module": "slanglab.torch.module",
    "RankError": "slanglab.torch.launching",
    "function": "slanglab.torch.functions",
    "generated": "slanglab.torch.entry_points.session",
    "launch": "slanglab.torch.launching",
    "load": "slanglab.torch.entry_points.session",
    "local_device": "slanglab.torch.ranks",
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
