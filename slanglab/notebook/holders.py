"""What IPython and the notebook hold of a device that is to be closed: one tensor keeps some 200 MB of it, one struct 290.

A tensor of slangpy's cannot be emptied, so what holds one has to let go of it. What the user named is the user's; the rest is not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import slangpy as spy

from slanglab.cells.module import SlangStruct

__all__ = ["Holders"]

_GONE = "<a result that was on a closed device>"


class Holders:
    """The names of one shell.

    Parameters
    ----------
    shell : InteractiveShell
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    def let_go(self, devices: Sequence[spy.Device]) -> Callable[[], None]:
        """Let go of tensors in `Out`, `_` and their like, of the last traceback, and of structs by name.

        Returns
        -------
        callable
            Binds the structs again, as they are on the device that follows.
        """
        namespace = self._shell.user_ns
        outputs = namespace.get("Out")
        if isinstance(outputs, dict):
            for number, value in list(outputs.items()):
                if _holds(value, devices):
                    outputs[number] = _GONE
        for names in (namespace, self._shell.user_ns_hidden):
            for name, value in list(names.items()):
                if (name.strip("_") == "" or name.strip("_").isdigit()) and _holds(value, devices):
                    names[name] = _GONE
        hook = self._shell.displayhook
        for name in ("_", "__", "___"):
            if _holds(getattr(hook, name, None), devices):
                setattr(hook, name, _GONE)
        # Frames of the last error, and their variables; `%debug` has nothing more to show.
        for name in ("last_traceback", "last_value", "last_exc"):
            if getattr(sys, name, None) is not None:
                setattr(sys, name, None)
        structs = {n: v for n, v in list(namespace.items()) if type(v) is SlangStruct}
        again = {name: struct.again for name, struct in structs.items()}
        for name in structs:
            namespace[name] = None

        def restore() -> None:
            for name, find in again.items():
                if namespace.get(name, "") is None:
                    found = find()
                    if found is None:
                        del namespace[name]
                    else:
                        namespace[name] = found

        return restore


def _holds(value: Any, devices: Sequence[spy.Device]) -> bool:
    if type(value) is spy.Tensor:
        return any(value.device is d for d in devices)
    if type(value) is SlangStruct:
        return True
    if isinstance(value, (list, tuple)):
        return any(_holds(v, devices) for v in value[:1000])
    if isinstance(value, Mapping):
        return any(_holds(v, devices) for v in list(value.values())[:1000])
    return False
