"""The user's names for the tensors of a device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import slangpy as spy

__all__ = ["names_on"]

_MOST = 1000  # elements of a list or dict that are looked at


def names_on(namespace: Mapping[str, Any], hidden: Mapping[str, Any], device: spy.Device) -> list[str]:
    """Return how the user would write each tensor of `device`: "x", "params[0]", "state['w']".

    Parameters
    ----------
    namespace : mapping
        The user's variables.
    hidden : mapping
        Those that are IPython's own.
    device : slangpy.Device
    """
    found: list[str] = []
    for name, value in list(namespace.items()):
        if name.startswith("_") or (name in hidden and hidden[name] is value):
            continue
        if isinstance(value, (list, tuple)):
            found.extend(f"{name}[{i}]" for i, v in enumerate(value[:_MOST]) if _is_on(v, device))
        elif isinstance(value, dict):
            found.extend(f"{name}[{k!r}]" for k, v in list(value.items())[:_MOST] if _is_on(v, device))
        elif _is_on(value, device):
            found.append(name)
    return found


def _is_on(value: Any, device: spy.Device) -> bool:
    return type(value) is spy.Tensor and value.device is device
