"""Default values of parameters, which slangpy ignores.

A number is read from the text. Any other expression (`2.0 * PI`, `float3(1, 0, 0)`) is evaluated by the Slang compiler itself, once
for each version of the cell: a function that returns it is compiled and called.
"""

from __future__ import annotations

import itertools
import re
from typing import Any

from slanglab.cells.compiler import Program
from slanglab.cells.versions import Version
from slanglab.errors import CallError
from slanglab.text import symbols

__all__ = ["Defaults", "literal"]

_NUMBER = re.compile(
    r"(?P<sign>[-+]?)\s*(?:(?P<hex>0[xX][0-9a-fA-F]+)|(?P<float>(?:\d+\.\d*|\.\d+|\d+(?=[eEfFhH]))(?:[eE][-+]?\d+)?)|(?P<int>\d+))"
    r"(?P<suffix>[fFhHuUlL]*)"
)


def literal(text: str) -> bool | int | float | None:
    """Return the value of a literal as Slang reads it, or None when the text is no literal."""
    text = text.strip()
    if text in ("true", "false"):
        return text == "true"
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    sign = -1 if match["sign"] == "-" else 1
    if match["hex"]:
        return sign * int(match["hex"], 16)
    if match["float"]:
        return sign * float(match["float"])
    return sign * (float(match["int"]) if set(match["suffix"]) & set("fFhH") else int(match["int"]))


class Defaults:
    """Values of default expressions, kept for as long as their version may be called."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str, str], Any] = {}
        self._serial = itertools.count(1)

    def value(
        self, version: Version[Program], function: symbols.Function, parameter: symbols.Parameter
    ) -> Any:
        """Return the value of `parameter` when a call leaves it out.

        Raises
        ------
        CallError
            When the expression cannot be evaluated on its own.
        """
        assert parameter.default is not None
        simple = literal(parameter.default)
        if simple is not None:
            return simple
        key = (version.internal, function.qualified, parameter.name)
        if key not in self._values:
            self._values[key] = self._evaluate(version, function, parameter)
        return self._values[key]

    def _evaluate(
        self, version: Version[Program], function: symbols.Function, parameter: symbols.Parameter
    ) -> Any:
        name = f"{version.internal}__default{next(self._serial)}"
        source = (
            f'import "{version.internal}";\n'
            f"{parameter.type} slanglab_default() {{ return ({parameter.default}); }}\n"
        )
        try:
            return version.program.session.load(name, source).slanglab_default()
        except Exception as error:
            raise CallError(
                f"the default of {parameter.name}, {parameter.default}, cannot be evaluated outside {function.name}",
                function=function.name,
                argument=parameter.name,
                hint=f"pass {parameter.name} yourself",
                details=str(error),
            ) from error
