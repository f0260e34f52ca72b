"""Running a function forward and backward over its axes, with everything prepared once.

A knob that a gradient is asked for is passed as a tensor of the whole call's shape that holds its value everywhere: so each element of the
call has a gradient of its own, and d f(x_i)/d a is a curve over x instead of one sum. Tensors are made once for each call shape, and
only what was turned is written again.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slanglab.cells.function import SlangFunction
from slanglab.exploring.arrangement import Argument, Arrangement
from slanglab.exploring.knobs import Axis, Knob
from slanglab.tensors import create

__all__ = ["Outcome", "Sheet"]

Floats = NDArray[np.float64]


@dataclass
class Outcome:
    """What a call gave.

    Attributes
    ----------
    value : ndarray of float64
        The call's shape, and one more axis for the components of a vector.
    gradients : dict of str to ndarray of float64
        By path, the call's shape: of each element of the result (of the chosen component, or the sum of all) with respect to its own
        number.
    seconds : float
    notes : list of str
        Warnings of the engine: a gradient that does not agree with difference quotients, a value that did not fit.
    """

    value: Floats
    gradients: dict[str, Floats] = field(default_factory=dict)
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)


class _Slot:
    """One tensor of a call: its parts' values, and their gradients."""

    def __init__(self, argument: Argument, shape: tuple[int, ...], axes: list[Axis], grad: bool) -> None:
        self.parts = argument.parts
        self._vector = argument.spec.kind == "vector"
        self._axes, self._shape = axes, shape
        self.grad = grad
        assert argument.spec.dtype is not None
        self._host = np.zeros((*shape, len(self.parts)), argument.spec.dtype)
        self.tensor = create.empty(shape, argument.spec.type, grad)
        self._written: tuple[float, ...] | None = None

    def set(self, shifts: Mapping[str, float]) -> None:
        """Write the numbers, where they changed since the last time."""
        wanted = tuple(
            (0.0 if isinstance(p, Axis) and p in self._axes else p.value) + shifts.get(p.path, 0.0)
            for p in self.parts
        )
        if wanted == self._written:
            return
        for i, part in enumerate(self.parts):
            if isinstance(part, Axis) and part in self._axes:
                # The first axis runs across, the second down.
                down = len(self._axes) == 2 and self._axes.index(part) == 1
                points = part.points + shifts.get(part.path, 0.0)
                self._host[..., i] = points[:, None] if down else points
            else:
                self._host[..., i] = wanted[i]
        self.tensor.copy_from_numpy(self._host if self._vector else self._host[..., 0])
        self._written = wanted

    def clear(self) -> None:
        if self.grad:
            self.tensor.grad.clear()

    def read(self, wanted: Callable[[str], bool], into: dict[str, Floats]) -> None:
        """Add the gradients of its parts."""
        if not self.grad or not any(wanted(p.path) for p in self.parts):
            return
        gradient = self.tensor.grad.to_numpy().reshape(self._host.shape)
        for i, part in enumerate(self.parts):
            if wanted(part.path) and part.differentiable:
                into[part.path] = gradient[..., i].astype(np.float64)


class Sheet:
    """The calls of one function over one shape.

    Parameters
    ----------
    made : Arrangement
    function : SlangFunction, optional
        Another one with the same parameters; by default that of `made`.
    over : list of Axis
        What the call runs over; none for a call at the point that is looked at.
    knobs : bool
        Whether gradients with respect to knobs are wanted, element by element; those with respect to the axes are in any case.
    """

    def __init__(
        self,
        made: Arrangement,
        over: list[Axis],
        *,
        knobs: bool = True,
        function: SlangFunction | None = None,
    ) -> None:
        self.made = made
        self.function = function or made.function
        self.over = over
        self.shape = tuple(len(a.points) for a in reversed(over)) or (1,)
        self._knobs = knobs
        self._slots: list[_Slot] = []
        self._plan = {name: self._planned(argument) for name, argument in made.arguments.items()}
        self._differentiable = made.differentiable and any(s.grad for s in self._slots)
        self._result: Any = create.empty(self.shape, made.result.type, self._differentiable)
        self._seeded: object = None
        self._running, self._set = self.function, dict[str, Any]()

    # ----- arguments -----

    def _planned(self, argument: Argument) -> Callable[[], Any]:
        """Return what gives the argument of a call."""
        if argument.is_fixed:
            return lambda: argument.fixed
        if argument.fields:
            inner = {name: self._planned(part) for name, part in argument.fields.items()}
            return lambda: {name: get() for name, get in inner.items()}
        runs = any(isinstance(p, Axis) and p in self.over for p in argument.parts)
        grad = any(
            p.differentiable and (self._knobs or (isinstance(p, Axis) and p in self.over))
            for p in argument.parts
        )
        if runs or grad:
            slot = _Slot(argument, self.shape, self.over, grad)
            self._slots.append(slot)
            return lambda: slot.tensor
        if argument.spec.kind == "scalar":
            part = argument.parts[0]
            return lambda: part.passed if isinstance(part, Knob) else part.value
        dtype = argument.spec.dtype
        return lambda: np.array([p.passed if isinstance(p, Knob) else p.value for p in argument.parts], dtype)

    def _settings(self) -> dict[str, Any]:
        """Return the values of uniforms."""
        found: dict[str, Any] = {}
        for path, knob in self.made.knobs.items():
            if knob.uniform:
                name, _, letter = path.partition(".")
                if letter:
                    found.setdefault(name, []).append(knob.passed)
                else:
                    found[name] = knob.passed
        return found

    @property
    def shiftable(self) -> frozenset[str]:
        """The paths of the numbers that are passed in tensors."""
        return frozenset(part.path for slot in self._slots for part in slot.parts)

    # ----- running -----

    def value(self, shifts: Mapping[str, float] | None = None) -> Floats:
        """Return the result alone, with some numbers shifted.

        Raises
        ------
        SlangLabError
            When the call is refused.
        """
        self._forward(shifts or {})
        result: Floats = self._result.to_numpy().astype(np.float64)
        return result

    def run(self, component: int | None = None, wanted: Callable[[str], bool] = lambda _: True) -> Outcome:
        """Run forward, and backward where that is possible.

        Parameters
        ----------
        component : int, optional
            Of a vector: whose gradient is taken. By default that of the sum of all.
        wanted : callable
            Tells which paths' gradients are read back.

        Raises
        ------
        SlangLabError
            When a call is refused.
        """
        started = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            function, arguments = self._forward({})
            gradients: dict[str, Floats] = {}
            if self._differentiable:
                self._seed(component)
                for slot in self._slots:
                    slot.clear()
                function.bwds(**arguments)
                for slot in self._slots:
                    slot.read(wanted, gradients)
            value: Floats = self._result.to_numpy().astype(np.float64)
        notes = list(dict.fromkeys(str(w.message) for w in caught))
        return Outcome(value, gradients, time.perf_counter() - started, notes)

    def _forward(self, shifts: Mapping[str, float]) -> tuple[SlangFunction, dict[str, Any]]:
        for slot in self._slots:
            slot.set(shifts)
        settings = self._settings()
        if settings != self._set:
            # A function with uniforms set is looked up and planned anew.
            self._running, self._set = (self.function.set(settings) if settings else self.function), settings
        function = self._running
        arguments = {name: get() for name, get in self._plan.items()}
        arguments[self.made.out or "_result"] = self._result
        function(**arguments)
        return function, arguments

    def _seed(self, component: int | None) -> None:
        """Write the seed: ones, or ones in one component."""
        if self._seeded == (component,):
            return
        count = self.made.components
        seed = np.ones((*self.shape, count), self.made.result.dtype)
        if component is not None and count > 1:
            seed[...] = np.arange(count) == component
        self._result.grad.copy_from_numpy(seed if self.made.result.element_shape else seed[..., 0])
        self._seeded = (component,)
