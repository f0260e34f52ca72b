"""Where slangpy makes a kernel: the one function that it calls for that, while SlangLab is loaded.

slangpy keeps its kernels by the signature of a call and does not say whether it had one. It asks `FunctionNode.generate_call_data` for
those that it lacks; that method is replaced here by one that takes the time.
"""

from __future__ import annotations

import time
from typing import Any

from slangpy.core.function import FunctionNode

__all__ = ["install", "seconds", "uninstall"]

_original = FunctionNode.generate_call_data
_spent = 0.0


def seconds() -> float:
    """Return the time that went into making kernels since the process began: host code, front end and linking."""
    return _spent


def _timed(self: Any, args: Any, kwargs: Any) -> Any:
    global _spent
    started = time.perf_counter()
    try:
        return _original(self, args, kwargs)
    finally:
        _spent += time.perf_counter() - started


def install() -> None:
    """Put the timed method in place; a second time changes nothing."""
    FunctionNode.generate_call_data = _timed


def uninstall() -> None:
    """Put slangpy's own method back."""
    FunctionNode.generate_call_data = _original
