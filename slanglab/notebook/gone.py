"""The user's names for tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import slangpy as spy

__all__ = ["names_of", "names_on", "variables"]

_MOST = 1000  # elements of a list or dict that are looked at


def variables(shell: Any) -> dict[str, Any]:
    """Return the user's variables, without IPython's own."""
    hidden = shell.user_ns_hidden
    return {
        name: value
        for name, value in list(shell.user_ns.items())
        if not name.startswith("_") and not (name in hidden and hidden[name] is value)
    }


def names_of(namespace: Mapping[str, Any], wanted: Callable[[Any], bool]) -> list[str]:
    """Return how the user would write each value that is wanted: "x", "params[0]", "state['w']"."""
    found: list[str] = []
    for name, value in namespace.items():
        if isinstance(value, (list, tuple)):
            found.extend(f"{name}[{i}]" for i, v in enumerate(value[:_MOST]) if wanted(v))
        elif isinstance(value, dict):
            found.extend(f"{name}[{k!r}]" for k, v in list(value.items())[:_MOST] if wanted(v))
        elif wanted(value):
            found.append(name)
    return found


def names_on(namespace: Mapping[str, Any], device: spy.Device) -> list[str]:
    """Return the names of a device's tensors."""
    return names_of(namespace, lambda value: type(value) is spy.Tensor and value.device is device)
