"""The texts that Slang writes for a `--torch` cell: the CUDA of its kernels, and the C++ that offers its entry points to Python."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

__all__ = ["Generated"]

_LINE = re.compile(r"^[ \t]*#line (\d+)(?: \"([^\"\n]*)\")?[ \t]*$")
_INSIDE = re.compile(r"\n\s*\n(?=[ \t}])")
_BETWEEN = re.compile(r"\n{3,}")
_OFFERED = re.compile(r'^\s*m\.def\("(\w+)"', re.MULTILINE)


@dataclass(frozen=True, repr=False)
class Generated:
    """What Slang wrote.

    Attributes
    ----------
    cuda, host : str
        The texts in full: for nvcc, and for the C++ compiler. Each begins with 9,000 to 16,000 lines that are the same for every cell.
    """

    cuda: str
    host: str
    name: str = ""
    """The cell, as the user knows it."""

    drawer: ClassVar[Callable[[Generated], str] | None] = None
    """Draws it as HTML; set while the extension is loaded."""

    @property
    def kernels(self) -> str:
        """The CUDA of the cell, without what is the same for every cell and without `#line`."""
        return _own(self.cuda)

    @property
    def binding(self) -> str:
        """The C++ of the cell, likewise."""
        return _own(self.host)

    @property
    def offered(self) -> tuple[str, ...]:
        """The functions that Python will see."""
        return tuple(n for n in _OFFERED.findall(self.host) if not n.startswith("__"))

    def __str__(self) -> str:
        return f"// CUDA, for nvcc\n{self.kernels}\n// C++, for Python\n{self.binding}"

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str | None:
        drawer = type(self).drawer
        return drawer(self) if drawer is not None else None


def _own(text: str) -> str:
    """Return the part of a text that stands behind Slang's preamble: it begins with the first `#line`."""
    lines = text.split("\n")
    first = next((i for i, line in enumerate(lines) if _LINE.match(line)), None)
    if first is None:
        # Nothing of the cell was written but, in C++, the list of what is offered.
        first = next((i for i, line in enumerate(lines) if line.startswith("PYBIND11_MODULE")), len(lines))
    kept = [line.rstrip() for line in lines[first:] if not _LINE.match(line)]
    # Where a `#line` stood inside a function nothing is left; between declarations one empty line is.
    packed = _INSIDE.sub("\n", "\n".join(kept))
    return _BETWEEN.sub("\n\n", packed).strip("\n") + "\n"
