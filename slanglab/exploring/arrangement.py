"""What a function is called with: knobs, axes and fixed arguments, by parameter."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from slanglab.cells.function import SlangFunction
from slanglab.engine.parameters import Parameter
from slanglab.engine.target import Target
from slanglab.exploring.knobs import Axis, Knob

__all__ = ["Argument", "Arrangement"]


@dataclass
class Argument:
    """What is passed for one parameter, or one field of a struct.

    Attributes
    ----------
    spec : Parameter
    parts : list of (Knob or Axis)
        One for a number, one for each component of a vector.
    fields : dict of str to Argument
        Of a struct.
    fixed : object
        Passed as it is, where `is_fixed`.
    """

    spec: Parameter
    parts: list[Knob | Axis] = field(default_factory=list)
    fields: dict[str, Argument] = field(default_factory=dict)
    fixed: Any = None
    is_fixed: bool = False


@dataclass
class Arrangement:
    """Everything that a function is called with.

    Attributes
    ----------
    function : SlangFunction
    target : Target
        Of the version that was looked at.
    name, signature : str
    result : Parameter
        What is drawn: what the function returns, or its one `out` parameter.
    out : str
        The name of that parameter, or empty.
    arguments : dict of str to Argument
        By parameter.
    knobs : dict of str to Knob
        By path, uniforms too.
    axes : list of Axis
        At most two; the first runs across.
    differentiable : bool
    """

    function: SlangFunction
    target: Target
    name: str
    signature: str
    result: Parameter
    out: str
    arguments: dict[str, Argument] = field(default_factory=dict)
    knobs: dict[str, Knob] = field(default_factory=dict)
    axes: list[Axis] = field(default_factory=list)
    differentiable: bool = True

    @property
    def components(self) -> int:
        """How many numbers the result has."""
        return self.result.element_shape[0] if self.result.element_shape else 1
