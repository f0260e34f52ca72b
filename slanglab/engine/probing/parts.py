"""The inputs and outputs of a probe, and one evaluation of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slanglab.checks.problem import Array
from slanglab.engine.parameters import Parameter
from slanglab.errors import SlangLabError

__all__ = ["CannotProbeError", "Leaf", "Made", "Output"]


class CannotProbeError(SlangLabError):
    """A call that cannot be repeated elsewhere: why."""


@dataclass(eq=False)
class Leaf:
    """One input that is differentiated by.

    Attributes
    ----------
    path : str
        "x", "s.k", "this.weights".
    parameter : str
        The parameter that it belongs to; "this" for the instance of a method.
    value : numpy.ndarray
        Where the call is: float16 or float32, axes of the call first, those of an element last.
    element_rank : int or None
        How many axes those of an element are; None where the compiler did not say.
    is_tensor : bool
        True for a parameter that is itself a tensor, of which any thread reads any element.
    spec : Parameter or None
    like : slangpy.Tensor or None
        The user's own tensor, None for numbers and arrays.
    """

    path: str
    parameter: str
    value: Array
    element_rank: int | None
    is_tensor: bool
    spec: Parameter | None
    like: Any = None

    def spans(self, call_shape: tuple[int, ...]) -> bool:
        """Tell whether each element of the call has its own value."""
        shape = self.value.shape
        if self.element_rank is None:
            return bool(shape[: len(call_shape)] == call_shape)
        return bool(shape[: len(shape) - self.element_rank] == call_shape)

    def gradient(self, made: Made) -> Array:
        """Return the gradient that a backward call left."""
        return np.array(made.tensors[self.path].grad_out.to_numpy()).reshape(self.value.shape)

    def held(self, made: Made) -> Array:
        """Return what the input holds after a call."""
        return np.array(made.tensors[self.path].to_numpy()).reshape(self.value.shape)


@dataclass(eq=False)
class Output:
    """One output that is differentiated.

    Attributes
    ----------
    path : str
        "result", or the name of a parameter.
    element_rank : int or None
    is_tensor : bool
        True for a tensor parameter that the function writes.
    like : slangpy.Tensor
        A tensor of its type and shape.
    """

    path: str
    element_rank: int | None
    is_tensor: bool
    like: Any

    def read(self, made: Made) -> Array:
        """Return the values after a forward call, as the device computed them."""
        return np.array(self._tensor(made).to_numpy())

    def call_shape(self, made: Made) -> tuple[int, ...]:
        """Return the axes that are the call's."""
        tensor = self._tensor(made)
        if self.element_rank is None:
            return tuple(tensor.shape.as_tuple())
        shape = (*tensor.shape.as_tuple(), *tensor.dtype.shape.as_tuple())
        return shape[: len(shape) - self.element_rank]

    def _tensor(self, made: Made) -> Any:
        return made.result if self.path == "result" else made.tensors[self.path]


@dataclass(eq=False)
class Made:
    """The arguments of one evaluation, and what came of it.

    Attributes
    ----------
    point : sequence of numpy.ndarray
        Values of the inputs.
    backward : bool
    cotangent, start : dict of str to numpy.ndarray
        By path: what the seeds are, and what the gradients hold before the call.
    tensors : dict of str to slangpy.Tensor
        By path: those made for inputs and outputs.
    positional, named, this
        What to call with.
    result : object
        What a forward call returned.
    """

    point: Sequence[Array]
    backward: bool = False
    cotangent: Mapping[str, Array] = field(default_factory=dict)
    start: Mapping[str, Array] = field(default_factory=dict)
    tensors: dict[str, Any] = field(default_factory=dict)
    positional: tuple[Any, ...] = ()
    named: dict[str, Any] = field(default_factory=dict)
    this: Any = None
    result: Any = None
