"""A call as a function of float arrays: what checks of gradients evaluate.

A probe holds the values of a call's differentiable inputs on the host. It runs the function forward at other values, and backward for a
cotangent, always on tensors of its own: what the user passed is read, never written. Nothing is printed or reported.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from slanglab.checks.problem import Array, Problem
from slanglab.engine import dispatch
from slanglab.engine.binding import Bound, bind
from slanglab.engine.probing.parts import CannotProbeError, Leaf, Made, Output
from slanglab.engine.probing.sample import sampled
from slanglab.engine.probing.values import Arguments
from slanglab.engine.target import Target

__all__ = ["POSITIVE", "CannotProbeError", "Probe"]

POSITIVE = 0.75
"""How many of the random cotangents of a check are positive."""


@dataclass(eq=False)
class Probe:
    """One call, to be evaluated anywhere near its arguments.

    Attributes
    ----------
    inputs : tuple of Leaf
        What is differentiated by: "x", "s.k", "this.weights".
    outputs : tuple of Output
        What is differentiated: "result", and parameters that the function writes.
    elements : int or None
        For an elementwise call the number of its elements, see `slanglab.checks.problem.Problem`.
    value : list of numpy.ndarray
        The outputs at the call's own arguments.
    calls : int
        Forward calls made.
    """

    inputs: tuple[Leaf, ...]
    outputs: tuple[Output, ...]
    elements: int | None
    value: list[Array]
    calls: int
    _forward: Target
    _backward: Target
    arguments: Arguments

    @classmethod
    def of(
        cls,
        target: Target,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        wrt: Sequence[str] | None = None,
        *,
        attached: bool = False,
        sample: int = 0,
    ) -> Probe:
        """Look at a call.

        Parameters
        ----------
        target : Target
            The forward or the backward one.
        args, kwargs
            As the user passed them, or as the engine converted them.
        wrt : sequence of str, optional
            Inputs to differentiate by: parameters, or parts of them such as "s.k". All that can be, by default.
        attached : bool
            Only differentiate by tensors that carry a gradient.
        sample : int
            Of an elementwise call take only so many elements; 0 for all.

        Raises
        ------
        CannotProbeError
            When the call cannot be repeated without touching what the user passed, or has nothing to differentiate.
        CallError
            When the function cannot be called so.
        """
        if not target.checked:
            raise CannotProbeError("an overloaded method's parameters are not known")
        return cls.of_bound(target, bind(target, args, kwargs), wrt, attached=attached, sample=sample)

    @classmethod
    def of_bound(
        cls,
        target: Target,
        bound: Bound,
        wrt: Sequence[str] | None = None,
        *,
        attached: bool = False,
        sample: int = 0,
    ) -> Probe:
        """Look at a call whose arguments are assigned to parameters already; the rest is as in `of`."""
        forward, backward = _pair(target)
        if not forward.checked:
            raise CannotProbeError("an overloaded method's parameters are not known")
        bound = Bound(bound.values, dict(bound.options), False, bound.count, bound.this)
        if sample:
            bound = sampled(forward, bound, sample, bound.options.get("_result"))
        arguments = Arguments(forward, bound, wrt, attached)
        if not arguments.leaves:
            raise CannotProbeError("no argument can be differentiated by")
        probe = cls(tuple(arguments.leaves), (), None, [], 0, forward, backward, arguments)
        probe._start()
        return probe

    def _start(self) -> None:
        made = self._run(self.point)
        self.outputs = tuple(self.arguments.outputs(made.result))
        if not self.outputs:
            raise CannotProbeError("the function returns and writes nothing that has a derivative")
        self.value = [o.read(made) for o in self.outputs]
        self.elements = self._elements(made)

    @property
    def point(self) -> list[Array]:
        """The values of the inputs."""
        return [leaf.value for leaf in self.inputs]

    def _elements(self, made: Made) -> int | None:
        if (
            self._forward.mapping
            or any(i.is_tensor for i in self.inputs)
            or any(o.is_tensor for o in self.outputs)
        ):
            return None
        shapes = {o.call_shape(made) for o in self.outputs}
        if len(shapes) != 1:
            return None
        (shape,) = shapes
        if any(not leaf.spans(shape) for leaf in self.inputs):
            return None
        return math.prod(shape)

    def __call__(self, point: Sequence[Array]) -> list[Array]:
        """Run forward, with other values of the inputs, and return the outputs."""
        made = self._run(point)
        return [o.read(made) for o in self.outputs]

    def _run(self, point: Sequence[Array]) -> Made:
        self.calls += 1
        made = self.arguments.make(point)
        made.result = dispatch.run(self._at(self._forward, made), made.positional, made.named)
        return made

    def gradient(
        self,
        cotangent: Sequence[Array],
        start: Sequence[Array] | None = None,
    ) -> tuple[list[Array], list[Array]]:
        """Run backward on copies.

        Parameters
        ----------
        cotangent : sequence of numpy.ndarray
            One for each output.
        start : sequence of numpy.ndarray, optional
            What the gradients hold before the call; zeros by default.

        Returns
        -------
        gradients : list of numpy.ndarray
            One for each input, of its shape.
        held : list of numpy.ndarray
            What the inputs hold after the call.
        """
        made = self.arguments.make(self.point, self.outputs, cotangent, self.value, start)
        dispatch.run(self._at(self._backward, made), made.positional, made.named)
        return [leaf.gradient(made) for leaf in self.inputs], [leaf.held(made) for leaf in self.inputs]

    def _at(self, target: Target, made: Made) -> Target:
        if made.this is None:
            return target
        node = self._forward.node.parent.bind(made.this)
        return replace(target, this=made.this, node=node.bwds if target.backward else node)

    def problem(self, cotangent: Sequence[Array], only: int | None = None) -> Problem:
        """Return what is to be checked: the outputs as a function of all inputs, or of one of them."""
        if only is None:
            return Problem(self, self.point, self.value, cotangent, self.elements)
        return Problem(self._of_one(only), [self.point[only]], self.value, cotangent, self.elements)

    def _of_one(self, index: int) -> Callable[[Sequence[Array]], Sequence[Array]]:
        def function(point: Sequence[Array]) -> Sequence[Array]:
            return self([*self.point[:index], point[0], *self.point[index + 1 :]])

        return function

    def finish(self) -> None:
        """Throw away what the device printed in the meantime."""
        if self._forward.after is not None:
            device = self._forward.device
            device.wait()
            device.flush_print_to_string()


def _pair(target: Target) -> tuple[Target, Target]:
    """Return the forward and the backward target, with a memory of their own for what in-place functions overwrite."""
    forward = target.forward if target.backward else target
    assert forward is not None
    steps: dict[str, Any] = {}
    backward = target if target.backward else forward.modified("bwds", forward.node.bwds, (), {})
    return replace(forward, steps=steps), replace(backward, steps=steps)
