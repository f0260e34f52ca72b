"""Shared arguments inside of others: fields of a dict, and of the instance of a method."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import slangpy as spy

from slanglab.engine.parameters import Parameter
from slanglab.engine.shared.argument import Shared, worth, wrap

__all__ = ["share"]


class _Instance:
    """Stands for an InstanceList in one backward call, with shared fields; such a call writes nothing back."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    def get_this(self) -> dict[str, Any]:
        """Return what slangpy binds for the instance."""
        return self._fields

    def update_this(self, value: Any) -> None:
        """Take what slangpy hands back: the same fields."""


def share(value: Any, call_shape: tuple[int, ...], spec: Parameter, made: list[Shared] | None = None) -> Any:
    """Return what slangpy is to be called with for an argument of a backward call: every tensor in it that is worth it, shared.

    Parameters
    ----------
    value : object
        A tensor, a dict of fields (the user's own stays as it is), an `InstanceList`, or anything else.
    call_shape : tuple of int
    spec : Parameter
        What it is for; for an instance, its struct.
    made : list of Shared, optional
        Gets what was made, for a call that is appended to an encoder: each is to be followed by `finish(encoder)`.

    Returns
    -------
    object
        `value` itself where nothing in it is worth it.
    """
    if type(value) is spy.Tensor:
        if not worth(value, call_shape, spec):
            return value
        shared = wrap(value, math.prod(call_shape), spec)
        if made is not None:
            made.append(shared)
        return shared
    if isinstance(value, Mapping):
        fields = _fields(value, call_shape, spec, made)
        return value if fields is None else fields
    inner = getattr(value, "_data", None)
    if hasattr(value, "get_this") and isinstance(inner, Mapping):
        fields = _fields(inner, call_shape, spec, made)
        return value if fields is None else _Instance(fields)
    return value


def _fields(
    values: Mapping[str, Any], call_shape: tuple[int, ...], spec: Parameter, made: list[Shared] | None
) -> dict[str, Any] | None:
    """Return the fields with what is worth it shared; None where that is nothing."""
    found = {
        name: share(value, call_shape, spec.fields[name], made) if name in spec.fields else value
        for name, value in values.items()
    }
    return found if any(found[name] is not value for name, value in values.items()) else None
