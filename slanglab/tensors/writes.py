"""Who wants to know that a tensor was written: open views that follow theirs.

A call does not say which of its arguments it writes, so each that is passed counts as written; a view that reads too much is
right, one that reads too little shows what is not so.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from slanglab.tensors import sources

__all__ = ["ignore", "watch", "watched", "wrote"]

_DEPTH = 4
"""How deep in lists and dicts of arguments tensors are looked for."""

watched: dict[int, tuple[frozenset[int], Any]] = {}
"""By the id of whoever watches: what is watched, and a weak reference to the method to call.

Empty most of the time, which then costs a call nothing.
"""


def _parts(value: Any) -> set[int]:
    """Return what a tensor's memory is known by: that of its gradients too."""
    if not sources.is_tensor(value):
        return {id(value)}
    found = {id(value.storage)}
    for gradient in (value.grad_in, value.grad_out):
        if gradient is not None:
            found.add(id(gradient.storage))
    return found


def watch(tensor: Any, told: Callable[[], None]) -> None:
    """Call the method `told` after each call that may have written `tensor`; its object is not kept alive."""
    reference = weakref.WeakMethod(told)
    owner = id(reference().__self__) if reference() is not None else 0  # type: ignore[union-attr]
    watched[owner] = frozenset(_parts(tensor)), reference


def ignore(owner: object) -> None:
    """Tell `owner` no more."""
    watched.pop(id(owner), None)


def wrote(*values: Any) -> None:
    """Say that these values, and what lists and dicts among them hold, may have been written."""
    found: set[int] = set()
    for tensor in _tensors(values, _DEPTH):
        found |= _parts(tensor)
    for owner, (parts, reference) in list(watched.items()):
        told = reference()
        if told is None:
            watched.pop(owner, None)
        elif not parts.isdisjoint(found):
            told()


def _tensors(value: Any, depth: int) -> Iterable[Any]:
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        yield value
        return
    if depth:
        for one in value:
            yield from _tensors(one, depth - 1)
