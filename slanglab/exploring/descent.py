"""Walking downhill over a few numbers, to be looked at: gradient descent, momentum and Adam in float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

__all__ = ["OPTIMIZERS", "Descent", "Walker"]

OPTIMIZERS = ("Adam", "momentum", "GD")

Point = tuple[float, ...]


class Walker:
    """One optimizer's state.

    Parameters
    ----------
    name : {"Adam", "momentum", "GD"}
        Adam as Kingma and Ba give it (ICLR 2015, algorithm 1) with their constants; momentum as Polyak's heavy ball, 0.9.
    """

    def __init__(self, name: str) -> None:
        if name not in OPTIMIZERS:
            raise ValueError(f"no optimizer is called {name!r}: there are {', '.join(OPTIMIZERS)}")
        self.name = name
        self._steps = 0
        self._first: list[float] = []
        self._second: list[float] = []

    def move(self, point: Sequence[float], gradient: Sequence[float], rate: float) -> Point:
        """Return the next point."""
        self._steps += 1
        self._first = self._first or [0.0] * len(point)
        self._second = self._second or [0.0] * len(point)
        after = []
        for i, (at, slope) in enumerate(zip(point, gradient, strict=True)):
            if self.name == "GD":
                after.append(at - rate * slope)
            elif self.name == "momentum":
                self._first[i] = 0.9 * self._first[i] + slope
                after.append(at - rate * self._first[i])
            else:
                self._first[i] = 0.9 * self._first[i] + 0.1 * slope
                self._second[i] = 0.999 * self._second[i] + 0.001 * slope * slope
                mean = self._first[i] / (1 - 0.9**self._steps)
                square = self._second[i] / (1 - 0.999**self._steps)
                after.append(at - rate * mean / (math.sqrt(square) + 1e-8))
        return tuple(after)


@dataclass
class Descent:
    """A path downhill.

    Attributes
    ----------
    path : list of tuple of float
        The start, then the point after each step.
    values : list of float
    gradients : list of tuple of float
    stopped : str
        Why it cannot go on, or empty.
    """

    look: Callable[[Point], tuple[float, Point]]
    """Returns value and gradient at a point."""
    optimizer: str = "Adam"
    rate: float = 0.1
    path: list[Point] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    gradients: list[Point] = field(default_factory=list)
    stopped: str = ""

    def start(self, point: Point) -> None:
        """Begin at a point."""
        self._walker = Walker(self.optimizer)
        self.path, self.values, self.gradients, self.stopped = [], [], [], ""
        self._add(point)

    def _add(self, point: Point) -> None:
        value, gradient = self.look(point)
        self.path.append(point)
        self.values.append(value)
        self.gradients.append(gradient)

    def step(self) -> bool:
        """Go one step; False where it cannot go on."""
        if self.stopped or not self.path:
            return False
        gradient = self.gradients[-1]
        if not all(math.isfinite(g) for g in gradient):
            self.stopped = f"the gradient is not finite at step {len(self.path) - 1}"
            return False
        if not any(gradient):
            self.stopped = f"the gradient is zero at step {len(self.path) - 1}"
            return False
        point = self._walker.move(self.path[-1], gradient, self.rate)
        if not all(math.isfinite(p) and abs(p) < 1e30 for p in point):
            self.stopped = f"step {len(self.path)} leads to infinity: the learning rate is too large"
            return False
        self._add(point)
        return True

    def choose(self, optimizer: str, rate: float) -> None:
        """Take another optimizer, from the start again with as many steps; another rate holds from the next step."""
        self.rate = rate
        if optimizer != self.optimizer:
            steps, self.optimizer = len(self.path) - 1, Walker(optimizer).name
            if self.path:
                self.start(self.path[0])
                for _ in range(steps):
                    if not self.step():
                        break
