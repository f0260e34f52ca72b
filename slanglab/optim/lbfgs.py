"""L-BFGS, for small problems: the loss and its gradient are the device's work, the direction the host's."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from slanglab import waiting
from slanglab.errors import ArgumentError, CallError
from slanglab.optim import states
from slanglab.optim.optimizer import Optimizer, checked
from slanglab.optim.places import Place
from slanglab.optim.programs import NUMBERS, way
from slanglab.optim.schedules import Schedule
from slanglab.optim.sweeps import Sweep, Table
from slanglab.optim.wolfe import Point, search
from slanglab.tensors import create, layout, passes, sources
from slanglab.values import describe_value

__all__ = ["LBFGS"]

_LEAST_CURVATURE = 1e-10
_ALL = "all"
Vector = NDArray[np.float64]


class LBFGS(Optimizer):
    """L-BFGS: quasi-Newton steps from the last changes of the gradient.

    Parameters
    ----------
    params, lr
        See `Optimizer`. All numbers together should be few (up to some 10^5): each evaluation brings the gradients to the host and new
        parameters to the device. In return the two-loop recursion is in float64 whatever the tensors are of, where in float32 its sums
        of products lose the small curvatures that it is made for.
    max_iter : int
        Iterations of a step at most.
    max_eval : int, optional
        Evaluations of a step at most; by default 1.25 `max_iter`.
    tolerance_grad : float
        A step ends when no gradient is larger.
    tolerance_change : float
        A step ends when no parameter, or the loss, changes more.
    history_size : int
        Changes that are kept.
    line_search_fn : {"strong_wolfe", None}
        How the length of a step is found; None: it is `lr`. (torch's default is None.)

    References
    ----------
    J. Nocedal: Updating Quasi-Newton Matrices with Limited Storage. Mathematics of Computation 35, 1980.
    D. C. Liu, J. Nocedal: On the limited memory BFGS method for large scale optimization. Mathematical Programming 45, 1989.
    """

    hyper: ClassVar[tuple[str, ...]] = (
        "max_iter",
        "max_eval",
        "tolerance_grad",
        "tolerance_change",
        "history_size",
    )

    def __init__(
        self,
        params: Any,
        lr: float | Schedule = 1.0,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = "strong_wolfe",
    ) -> None:
        self.max_iter = _whole("max_iter", max_iter)
        self.max_eval = max_iter * 5 // 4 if max_eval is None else _whole("max_eval", max_eval)
        self.tolerance_grad = checked("LBFGS", "tolerance_grad", tolerance_grad)
        self.tolerance_change = checked("LBFGS", "tolerance_change", tolerance_change)
        self.history_size = _whole("history_size", history_size)
        if line_search_fn not in (None, "strong_wolfe"):
            raise ArgumentError(
                f"LBFGS: there is no line search called {line_search_fn!r}.",
                function="LBFGS",
                argument="line_search_fn",
                expected="'strong_wolfe' or None",
                given=repr(line_search_fn),
            )
        self.line_search_fn = line_search_fn
        super().__init__(params, lr)
        self._count = sum(place.count for place in self._places)
        self._forget()

    def _forget(self) -> None:
        self._moves: list[Vector] = []
        self._changes: list[Vector] = []
        self._direction: Vector | None = None
        self._gradient: Vector | None = None
        self._length = 0.0
        self._scale = 1.0
        self.evaluations = 0
        """How often the closure was called."""

    # ----- to and from the device -----

    def zero_grad(self) -> None:
        """Fill the gradients of all parameters with zeros, in one dispatch."""
        waiting.check(self._device)
        self._moved()
        table = Table(self._places, [()] * len(self._places), way(self._device))
        encoder = self._device.create_command_encoder()
        Sweep(table, ("optim_gradient",), ACTION=0).record(encoder, (0.0,) * NUMBERS)
        waiting.told(self._device.submit_command_buffer, encoder.finish())
        waiting.until_idle(self._device, table)
        self._tell()

    def _gradients(self) -> Vector:
        self._moved()
        return np.concatenate([_read(place, gradient=True) for place in self._places])

    def _put(self, values: Vector) -> Vector:
        """Write the parameters; return what they are, rounded to their types."""
        start, rounded = 0, []
        for place in self._places:
            own = values[start : start + place.count]
            start += place.count
            with np.errstate(over="ignore"):
                stored = own.astype(place.format)
            if place.count:
                create.assign(place.tensor, stored.reshape(place.shape))
            rounded.append(stored.astype(np.float64))
        self._tell()
        return np.concatenate(rounded)

    # ----- steps -----

    def step(self, closure: Callable[[], Any] | None = None) -> float:
        """Make up to `max_iter` iterations.

        Parameters
        ----------
        closure : callable
            Clears the gradients, runs the function and its backward call, and returns the loss: a number, or a tensor or an array of one.

        Returns
        -------
        float
            The loss before the step.

        Raises
        ------
        CallError
            Without a closure, or for a loss that is not one number.
        """
        if not callable(closure):
            raise CallError(
                "LBFGS.step needs a closure: it evaluates the loss and the gradients several times in each step.",
                function="LBFGS.step",
                argument="closure",
                hint="`def closure(): opt.zero_grad(); …; f.bwds(…); return loss`, then `opt.step(closure)`",
            )
        waiting.check(self._device)

        def evaluate() -> tuple[float, Vector]:
            self.evaluations += 1
            return _loss(closure()), self._gradients()

        rate = self.lr
        first, gradient = evaluate()
        loss, evaluations = first, 1
        place = np.concatenate([_read(p, gradient=False) for p in self._places])
        self.steps += 1
        for iteration in range(1, self.max_iter + 1):
            if not np.abs(gradient).max(initial=0.0) > self.tolerance_grad:
                break
            direction, fresh = self._next(gradient)
            slope = float(gradient @ direction)
            length = min(1.0, 1.0 / float(np.abs(gradient).sum())) * rate if fresh else rate
            self._direction, self._gradient, self._length = direction, gradient, length
            if slope > -self.tolerance_change:
                break
            before = loss
            if self.line_search_fn is None:
                place = self._put(place + length * direction)
                if iteration < self.max_iter:
                    loss, gradient = evaluate()
                    evaluations += 1
            else:
                most = self.max_eval - evaluations
                found, tried = self._search(
                    evaluate, place, direction, Point(0.0, loss, slope, gradient), length, most
                )
                evaluations += tried
                loss, gradient, length = found.loss, found.gradient, found.at
                place = self._put(place + length * direction)
            self._length = length
            if (
                evaluations >= self.max_eval
                or np.abs(length * direction).max() <= self.tolerance_change
                or abs(loss - before) < self.tolerance_change
            ):
                break
        return first

    def _search(
        self,
        evaluate: Callable[[], tuple[float, Vector]],
        place: Vector,
        direction: Vector,
        start: Point,
        length: float,
        most: int,
    ) -> tuple[Point, int]:
        def at(t: float) -> Point:
            self._put(place + t * direction)
            loss, gradient = evaluate()
            return Point(t, loss, float(gradient @ direction), gradient)

        size = float(np.abs(direction).max())
        try:
            return search(at, start, length, size, self.tolerance_change, most)
        except (
            BaseException
        ):  # an interrupt, an error in the closure: the parameters are those of the last iteration again
            self._put(place)
            raise

    def _next(self, gradient: Vector) -> tuple[Vector, bool]:
        """Take the last change in; return the direction, and whether it is the first."""
        if self._direction is None or self._gradient is None:
            return -gradient, True
        change, move = gradient - self._gradient, self._length * self._direction
        curvature = float(change @ move)
        if curvature > _LEAST_CURVATURE:
            self._changes.append(change)
            self._moves.append(move)
            del self._changes[: -self.history_size], self._moves[: -self.history_size]
            self._scale = curvature / float(change @ change)
        direction = -gradient
        shares = []
        for change, move in zip(reversed(self._changes), reversed(self._moves), strict=True):
            share = float(move @ direction) / float(change @ move)
            direction = direction - share * change
            shares.append(share)
        direction = direction * self._scale
        for change, move, share in zip(self._changes, self._moves, reversed(shares), strict=True):
            direction = direction + (share - float(change @ direction) / float(change @ move)) * move
        return direction, False

    # ----- state -----

    def state_dict(self) -> dict[str, Any]:
        """Return what is needed to go on: numbers, and arrays; see `StepOptimizer.state_dict`."""
        none = np.zeros(0)
        rows = (len(self._moves), self._count)
        return {
            "steps": self.steps,
            "skipped": 0,
            "hyper": self._hyper(),
            "state": {
                _ALL: {
                    "moves": np.array(self._moves).reshape(rows),
                    "changes": np.array(self._changes).reshape(rows),
                    "direction": none if self._direction is None else self._direction.copy(),
                    "gradient": none if self._gradient is None else self._gradient.copy(),
                    "numbers": np.array([self._length, self._scale, self.evaluations]),
                }
            },
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` returned; see `StepOptimizer.load_state_dict`."""
        try:
            given = state["state"][_ALL]
            kept, seen = len(given["moves"]), len(given["direction"])
        except (KeyError, TypeError):
            kept = seen = 0
        rows, one = (kept, self._count), (self._count if seen else 0,)
        shapes = {_ALL: {"moves": rows, "changes": rows, "direction": one, "gradient": one, "numbers": (3,)}}
        found = states.checked(state, self._hyper(), shapes)
        own = {name: array.astype(np.float64) for name, array in found.arrays[_ALL].items()}
        self._load_hyper(found.hyper)
        self.steps = found.steps
        self._moves, self._changes = list(own["moves"]), list(own["changes"])
        self._direction = own["direction"] if seen else None
        self._gradient = own["gradient"] if seen else None
        self._length, self._scale = (float(x) for x in own["numbers"][:2])
        self.evaluations = int(own["numbers"][2])


def _whole(name: str, value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    raise ArgumentError(
        f"LBFGS: {name} is {value!r}.",
        function="LBFGS",
        argument=name,
        expected="a whole number, 1 at least",
        given=repr(value),
    )


def _read(place: Place, gradient: bool) -> Vector:
    """Return the numbers of a parameter or of its gradient, one after another."""
    tensor, like = place.tensor, None
    if gradient:
        pair = sources.gradient_of(tensor)
        assert pair is not None
        tensor, like = pair
    if not place.count:
        return np.zeros(0)
    view = layout.view(tensor, layout.fields(tensor)[0], like)
    return passes.gather(place.tensor.device, view).astype(np.float64).reshape(-1)


def _loss(value: Any) -> float:
    """Return a loss as a number."""
    array = value.to_numpy() if sources.is_tensor(value) else np.asarray(value)
    if array.size != 1 or array.dtype.kind not in "fiu":
        raise CallError(
            "The closure of LBFGS.step returned no loss.",
            function="LBFGS.step",
            argument="closure",
            expected="one number, or a tensor or an array of one",
            given=describe_value(value),
            hint="sum the loss in the function, or return `float(loss.to_numpy().sum())`",
        )
    found = float(array.reshape(-1)[0])
    return found if not math.isnan(found) else math.inf
