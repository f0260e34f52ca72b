"""The setting as Python code, and what was found as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from slanglab.exploring.arrangement import Argument, Arrangement
from slanglab.exploring.knobs import Axis, Knob

__all__ = ["call_code", "number"]


def number(x: float) -> str:
    """Write a number as short as reads back as the same float32."""
    if x == int(x) and abs(x) < 1e15:
        return f"{int(x)}.0"
    for digits in range(1, 10):
        text = f"{x:.{digits}g}"
        if np.float32(text) == np.float32(x):
            return str(float(text))
    return repr(float(x))


def call_code(made: Arrangement, names: Mapping[str, str]) -> str:
    """Return the call that gives what is shown, axes and all.

    Parameters
    ----------
    made : Arrangement
    names : mapping of str to str
        By path of an axis the variable that holds it; others are written out.
    """
    plane = len(made.axes) == 2
    written = [
        f"{name}={_argument(made, argument, names, plane)}" for name, argument in made.arguments.items()
    ]
    uniforms: dict[str, list[str]] = {}
    for path, knob in made.knobs.items():
        if knob.uniform:
            uniforms.setdefault(path.partition(".")[0], []).append(_passed(knob))
    settings = ", ".join(
        f'"{n}": {v[0] if len(v) == 1 else "[" + ", ".join(v) + "]"}' for n, v in uniforms.items()
    )
    changed = f".set({{{settings}}})" if settings else ""
    return f"{made.name}{changed}({', '.join(written)})"


def _argument(made: Arrangement, argument: Argument, names: Mapping[str, str], plane: bool) -> str:
    if argument.is_fixed:
        return argument.spec.name
    if argument.fields:
        inner = (f'"{n}": {_argument(made, part, names, plane)}' for n, part in argument.fields.items())
        return "{" + ", ".join(inner) + "}"
    parts = [_part(made, part, names, plane) for part in argument.parts]
    if argument.spec.kind == "scalar":
        return parts[0]
    if not any(isinstance(part, Axis) for part in argument.parts):
        return f"[{', '.join(parts)}]"
    # A tensor of vectors: every component over the whole call.
    return f"np.stack(np.broadcast_arrays({', '.join(parts)}), axis=-1)"


def _part(made: Arrangement, part: Axis | Knob, names: Mapping[str, str], plane: bool) -> str:
    if isinstance(part, Knob):
        return _passed(part)
    text = names.get(part.path) or part.written
    if not plane:
        return text
    return f"{text}[:, None]" if made.axes.index(part) == 1 else f"{text}[None, :]"


def _passed(knob: Knob) -> str:
    value: Any = knob.passed
    return number(value) if isinstance(value, float) else repr(value)
