"""What a Python value is, in words."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import slangpy as spy

__all__ = ["describe_value", "holds_torch", "is_torch", "name_dtype"]


def describe_value(value: object) -> str:
    """Return a value's type, shape and dtype in words, for `given` of an error."""
    if isinstance(value, spy.Tensor):
        try:
            element = value.dtype.full_name
        except RuntimeError:  # its device is closed, and what was known of its type with it
            return f"tensor, shape {value.shape.as_tuple()}"
        return f"tensor of {element}, shape {value.shape.as_tuple()}"
    if isinstance(value, np.ndarray):
        layout = "" if value.flags.c_contiguous else ", strided"
        return f"numpy array of {name_dtype(value.dtype)}, shape {value.shape}{layout}"
    if is_torch(value):
        return f"torch tensor of {getattr(value, 'dtype', '?')}, shape {tuple(getattr(value, 'shape', ()))}"
    text = repr(value)
    if len(text) > 60:
        text = text[:57] + "…"
    return f"{type(value).__name__}, {text}"


def name_dtype(dtype: np.dtype[Any]) -> str:
    """Return a dtype's name, with its byte order when that is not the machine's."""
    return dtype.name if dtype.isnative else f"{dtype.name} in the other byte order ({dtype.str})"


def is_torch(value: object) -> bool:
    """Tell whether a value is a torch tensor, without importing torch."""
    return type(value).__module__.split(".", 1)[0] == "torch" and hasattr(value, "requires_grad")


def holds_torch(args: Iterable[object], kwargs: Mapping[str, object]) -> bool:
    """Tell whether there is a torch tensor among the arguments of a call, inside of dicts and lists too."""
    torch = sys.modules.get("torch")
    kind = getattr(torch, "Tensor", None)  # none as well while torch is being imported
    return kind is not None and (_holds(args, kind) or (bool(kwargs) and _holds(kwargs.values(), kind)))


def _holds(values: Iterable[object], kind: type) -> bool:
    for value in values:
        if isinstance(value, kind):
            return True
        if type(value) is dict:
            if _holds(value.values(), kind):
                return True
        elif type(value) in (list, tuple) and _holds(value, kind):  # type: ignore[arg-type]  # they are iterable
            return True
    return False
