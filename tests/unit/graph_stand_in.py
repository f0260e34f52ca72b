"""A stand-in for the Slang compiler: a cell is a number plus the sum of what it imports, or it does not compile.

The text of a cell is `value N` with one `import NAME` line for each import; `broken` anywhere makes it fail. Programs are numbers, so
an oracle of a few lines knows what every handle must give.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from slanglab.cells.versions import CompileError, Unit
from slanglab.text.diagnostics import Diagnostic


def unit(value: int, imports: tuple[str, ...] = (), *, broken: bool = False, label: str = "In[1]") -> Unit:
    lines = [f"import {name}" for name in imports] + [f"value {value}"] + (["broken"] if broken else [])
    text = "\n".join(lines)
    return Unit(text, tuple((name, name) for name in imports), label=label, shown=text)


class StandIn:
    """Counts its compiles and remembers every name that it was given."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.programs: dict[str, int] = {}
        self.fail_next = False

    def compile(
        self, internal: str, unit: Unit, renames: Mapping[str, str]
    ) -> tuple[int, tuple[Diagnostic, ...]]:
        assert internal not in self.names, f"{internal} was used before"
        self.names.append(internal)
        missing = [key for key in unit.imported if key not in renames]
        if "broken" in unit.text or missing or self.fail_next:
            self.fail_next = False
            raise CompileError(
                internal, [Diagnostic("error", "E1", "broken", cell=unit.label, line=1, column=1)]
            )
        match = re.search(r"value (\d+)", unit.text)
        assert match is not None
        value = int(match[1]) + sum(self.programs[renames[key]] for key in unit.imported)
        self.programs[internal] = value
        return value, ()
