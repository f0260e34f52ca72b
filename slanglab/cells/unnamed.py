"""Graph keys of cells without a name."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

__all__ = ["Unnamed"]


class Unnamed:
    """Hands out keys, the same one for each run of the same notebook cell."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self._serial = itertools.count(1)

    def key(self, identity: str, declared: Iterable[str]) -> str:
        """Return the key of a cell: known by its identity, and where the front end gives none by what it declares."""
        known_by = identity or f"declares {','.join(sorted(set(declared)))}"
        if known_by not in self._known:
            self._known[known_by] = f"cell_{next(self._serial)}"
        return self._known[known_by]
