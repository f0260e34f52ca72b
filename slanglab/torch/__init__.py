"""PyTorch: torch tensors in calls, in torch's autograd graph.

Nothing here is imported before a torch tensor reaches a call: torch is an optional dependency (`pip install slanglab[torch]`).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slanglab.torch.functions import function
    from slanglab.torch.launching import RankError, launch
    from slanglab.torch.module import Module
    from slanglab.torch.ranks import local_device

__all__ = ["Module", "RankError", "function", "launch", "local_device"]

_HOMES = {
    "Module": "slanglab.torch.module",
    "RankError": "slanglab.torch.launching",
    "function": "slanglab.torch.functions",
    "launch": "slanglab.torch.launching",
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
