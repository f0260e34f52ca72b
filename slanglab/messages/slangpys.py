"""Refusals of our own that are slangpy's too: of its class, and with its sentence, so that code which looks for either works."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar, cast

from slangpy.bindings.boundvariable import BoundVariableException
from slangpy.core.callsignature import ResolveException

from slanglab.errors import CallError

__all__ = ["of_class", "unresolved", "unsupported"]


_Error = TypeVar("_Error", bound=CallError)


@cache
def _joined(ours: Any, theirs: Any) -> Any:
    return type(ours.__name__, (ours, theirs), {"__module__": ours.__module__, "__doc__": ours.__doc__})


def of_class(error: _Error, theirs: type[BaseException]) -> _Error:
    """Make an error one of slangpy's class too."""
    if not isinstance(error, theirs):
        joined = _joined(cast(Any, type(error)), cast(Any, theirs))
        error.__class__ = joined
    return error


def unresolved(error: _Error, sentence: str) -> _Error:
    """Return the error for a call that slangpy would refuse as one that fits no signature, with its sentence for it."""
    error.slangpys = sentence
    return of_class(error, ResolveException)


def unsupported(error: _Error, value: object) -> _Error:
    """Return the error for a value of a type that slangpy knows nothing of."""
    error.slangpys = f"Unsupported type {type(value)}"
    return of_class(error, BoundVariableException)
