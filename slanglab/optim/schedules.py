"""Learning rates that change with the steps: functions of the number of steps that were made before.

An optimizer takes one as its `lr`, and any other callable `i -> rate` as well. The formulas are those of torch.optim.lr_scheduler.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from slanglab.errors import ArgumentError

__all__ = ["Constant", "Cosine", "Exponential", "Linear", "OneCycle", "Schedule", "Step"]

Schedule = Callable[[int], float]
"""What an optimizer takes for its `lr` instead of a number."""

_COUNTS = ("every", "steps", "warmup")


class _Checked:
    """Numbers that are checked when they are given."""

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            value: Any = getattr(self, field.name)
            fault = _fault(field.name, value)
            if fault:
                raise ArgumentError(
                    f"{type(self).__name__}: {field.name} is {value!r}.",
                    function=type(self).__name__,
                    argument=field.name,
                    expected=fault,
                    given=repr(value),
                )


def _fault(name: str, value: Any) -> str:
    """Say what a number should be; empty where it is that."""
    if name in _COUNTS:
        least = 0 if name == "warmup" else 1
        right = isinstance(value, int) and not isinstance(value, bool) and value >= least
        return "" if right else f"a whole number of steps, {least} at least"
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or not math.isfinite(value)
        or value < 0
    ):
        return "a number, 0 at least"
    if name.startswith("divide") and value == 0:
        return "a number above 0"
    return "a share between 0 and 1" if name == "rise" and value > 1 else ""


def _annealed(start: float, end: float, share: float) -> float:
    """Return what lies between two rates, along half a cosine."""
    return end + (start - end) * 0.5 * (1 + math.cos(math.pi * share))


@dataclass(frozen=True)
class Constant(_Checked):
    """The same rate at each step.

    Parameters
    ----------
    lr : float
    """

    lr: float

    def __call__(self, i: int) -> float:
        """Return the rate of step `i`."""
        return self.lr


@dataclass(frozen=True)
class Step(_Checked):
    """A rate that is multiplied by `gamma` after each `every` steps (torch's StepLR).

    Parameters
    ----------
    lr : float
        At first.
    every : int
    gamma : float
    """

    lr: float
    every: int
    gamma: float = 0.1

    def __call__(self, i: int) -> float:
        """Return the rate of step `i`."""
        return self.lr * self.gamma ** (i // self.every)


@dataclass(frozen=True)
class Exponential(_Checked):
    """A rate that is multiplied by `gamma` after each step (torch's ExponentialLR).

    Parameters
    ----------
    lr : float
        At first.
    gamma : float
    """

    lr: float
    gamma: float

    def __call__(self, i: int) -> float:
        """Return the rate of step `i`."""
        return self.lr * self.gamma**i


@dataclass(frozen=True)
class Linear(_Checked):
    """A rate that goes from `lr` to `end` in a straight line over `steps` steps, and stays there (torch's LinearLR).

    Parameters
    ----------
    lr : float
        At first.
    end : float
    steps : int
    """

    lr: float
    end: float
    steps: int

    def __call__(self, i: int) -> float:
        """Return the rate of step `i`."""
        return self.lr + (self.end - self.lr) * min(i / self.steps, 1.0)


@dataclass(frozen=True)
class Cosine(_Checked):
    """A rate that falls from `lr` to `end` along half a cosine, and stays there; before that it may rise from 0 in a straight line.

    Without warm-up it is torch's CosineAnnealingLR with `T_max=steps`.

    Parameters
    ----------
    lr : float
        The largest.
    steps : int
        All of them, the warm-up included.
    end : float
    warmup : int
        Steps until the rate is `lr`; step `i` of them has the rate `lr * (i + 1) / warmup`, as a first step at rate 0 would do nothing.

    References
    ----------
    I. Loshchilov, F. Hutter: SGDR: Stochastic Gradient Descent with Warm Restarts. ICLR 2017.
    P. Goyal et al.: Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour. 2017 (the warm-up).
    """

    lr: float
    steps: int
    end: float = 0.0
    warmup: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.warmup >= self.steps:
            raise ArgumentError(
                f"Cosine: a warm-up of {self.warmup} steps leaves nothing of {self.steps}.",
                function="Cosine",
                argument="warmup",
                expected="fewer than `steps`",
                given=str(self.warmup),
            )

    def __call__(self, i: int) -> float:
        """Return the rate of step `i`."""
        if i < self.warmup:
            return self.lr * (i + 1) / self.warmup
        share = (i - self.warmup) / (self.steps - self.warmup)
        return _annealed(self.lr, self.end, min(share, 1.0))


@dataclass(frozen=True)
class OneCycle(_Checked):
    """A rate that rises along half a cosine and falls along another, far below where it began.

    It is torch's OneCycleLR, which also moves momentum.

    Parameters
    ----------
    lr : float
        The largest.
    steps : int
        All of them; the last one has the smallest rate, which stays.
    rise : float
        The share of the steps until the largest.
    divide, divide_end : float
        The first rate is `lr / divide`, the last that over `divide_end`.

    References
    ----------
    L. N. Smith, N. Topin: Super-Convergence: Very Fast Training of Neural Networks Using Large Learning Rates. 2018.
    """

    lr: float
    steps: int
    rise: float = 0.3
    divide: float = 25.0
    divide_end: float = 1e4

    def __call__(self, i: int) -> float:
        """Return the rate of step `i`."""
        first = self.lr / self.divide
        last = first / self.divide_end
        top = self.rise * self.steps - 1
        if i <= top:
            return _annealed(first, self.lr, i / top if top > 0 else 1.0)
        end = self.steps - 1
        if i >= end or end <= top:
            return last
        return _annealed(self.lr, last, (i - top) / (end - top))
