"""One line of the table of runs that `tests/survival/table.py` prints."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Row"]


@dataclass(frozen=True)
class Row:
    """What one run came to.

    Attributes
    ----------
    name : str
        The situation; runs of the same name are counted together.
    ok : bool
        Whether all that the situation asks for was seen.
    detail : str
        What was seen: figures of a good run, what was missing in a bad one.
    """

    name: str
    ok: bool
    detail: str = ""
