"""Who wants to know that a cell was run again: open views that follow its code.

They are told after every run of a Slang cell, also one that does not compile, and look for themselves whether it is theirs.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable

__all__ = ["follow", "tell"]

_log = logging.getLogger(__name__)
_followers: list[weakref.WeakMethod[Callable[[], None]]] = []


def follow(told: Callable[[], None]) -> None:
    """Call the method `told` after each run of a cell, as long as its object lives."""
    _followers.append(weakref.WeakMethod(told))


def tell() -> None:
    """Say that a cell was run."""
    for reference in list(_followers):
        told = reference()
        if told is None:
            _followers.remove(reference)
            continue
        try:
            told()
        except Exception:
            # A view must not fail the cell.
            _log.debug("a view could not follow a cell", exc_info=True)
