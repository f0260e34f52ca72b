"""CUDA's context in each thread.

CUDA knows for each thread which context it works in, and slangpy makes a device's current in the thread that opens it alone: where work
for a CUDA device comes from another one, slangpy ends the process ("Unexpected cuStreamQuery error"). Notebooks have several: what
widgets ask for is answered by one, training goes on in another, torch goes back through its graph in a third.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

import slangpy as spy

__all__ = ["entered", "opened"]


class _Here(threading.local):
    """What a thread has entered: the count of devices opened by then."""

    count = 0


_here = _Here()
_opened = 0
_device: Callable[[], Any] | None = None


def opened(device: Any) -> None:
    """Take note of a new device, whose context is current in this thread."""
    global _opened, _device
    if device.info.type == spy.DeviceType.cuda:
        _device = weakref.ref(device)
        _opened += 1
        _here.count = _opened


def entered() -> None:
    """Make the context of CUDA devices current in this thread, where there are any; all of a process have one context."""
    if _here.count != _opened:
        _enter()


def _enter() -> None:
    device = _device() if _device is not None else None
    if device is not None:
        device.set_cuda_context_current()
    _here.count = _opened
