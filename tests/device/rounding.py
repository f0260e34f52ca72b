"""How far rounding may move a value and its derivative: arithmetic that carries the sizes along."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Floats = Any


class Sized:
    """A value with its derivative, and the sizes of what is rounded on the way to both, as if no term had a sign.

    Where terms cancel, an ulp of a term is many of the result; and where a factor is what has cancelled, its error is that of the
    derivative by the other factor.

    Parameters
    ----------
    value : ndarray
        In float64.
    size : ndarray
        Of what is rounded on the way to `value`.
    slope, slope_size : ndarray
        The derivative if none of its terms had a sign, and the size of what is rounded on the way to it.
    """

    def __init__(self, value: Floats, size: Floats, slope: Floats = 0.0, slope_size: Floats = 0.0) -> None:
        self.value, self.size = value, size
        self.slope, self.slope_size = slope, slope_size

    @classmethod
    def variable(cls, value: Floats, seed: float = 0.0) -> Sized:
        """Return what the derivative is taken by, with seed 1, or any other argument."""
        return cls(value, np.abs(value), np.full(value.shape, seed), np.full(value.shape, seed))

    @classmethod
    def of(cls, other: Any) -> Sized:
        return other if isinstance(other, cls) else cls(np.float64(other), np.float64(abs(other)))

    def __add__(self, other: Any) -> Sized:
        b = self.of(other)
        return Sized(
            self.value + b.value, self.size + b.size, self.slope + b.slope, self.slope_size + b.slope_size
        )

    def __mul__(self, other: Any) -> Sized:
        a, b = self, self.of(other)
        by_value, value_by = np.abs(a.value), np.abs(b.value)
        return Sized(
            a.value * b.value,
            by_value * b.size + value_by * a.size,
            by_value * b.slope + value_by * a.slope,
            np.maximum(by_value * b.slope_size, a.size * b.slope)
            + np.maximum(value_by * a.slope_size, b.size * a.slope),
        )

    def __neg__(self) -> Sized:
        return Sized(-self.value, self.size, self.slope, self.slope_size)

    def __sub__(self, other: Any) -> Sized:
        return self + -self.of(other)

    def __rsub__(self, other: Any) -> Sized:
        return self.of(other) - self

    __radd__, __rmul__ = __add__, __mul__


def functions() -> dict[str, Callable[[Any], Sized]]:
    """Return sine, cosine and the exponential of such values."""

    def applied(f: Any, derivative: Any) -> Callable[[Any], Sized]:
        def call(x: Any) -> Sized:
            x = Sized.of(x)
            found, steep = f(x.value), derivative(x.value)
            slope_size = steep * np.maximum(x.slope_size, x.size * x.slope)
            return Sized(found, steep * x.size + np.abs(found), steep * x.slope, slope_size)

        return call

    # The slopes of sine and cosine as if they were 1: their argument's rounding moves them where their slope is small.
    return {
        "sin": applied(np.sin, lambda x: 1 + 0 * x),
        "cos": applied(np.cos, lambda x: 1 + 0 * x),
        "exp": applied(np.exp, np.exp),
    }
