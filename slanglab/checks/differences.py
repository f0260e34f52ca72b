"""A central difference of order six with an estimate of its own error, from seven values of a function on a line.

The derivative is that of φ(t) = ⟨cotangent, f(x + t·v)⟩. Its error has two parts: truncation, seen as the difference between order six and
order four, and noise (rounding, approximate intrinsics, half storage), seen in the differences of high order, where a smooth function
leaves nothing (Moré and Wild, "Estimating Computational Noise", SIAM J. Sci. Comput. 33, 2011).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np

from slanglab.checks.problem import Array, Line

__all__ = ["ENOUGH", "UNIT", "Comparison", "Quotient", "compare", "quotient", "scale"]

UNIT = 2.0**-24
"""Half the distance from 1 to the next float32."""

ENOUGH = 16
"""Elements from which a median says something, and a kink can be told from noise."""

ORDER_4 = (2 / 3, -1 / 12)
ORDER_6 = (3 / 4, -3 / 20, 1 / 60)
_NOISE_GAIN = 1.08  # √(2·Σ ORDER_6²): how noise of one value enters the difference

_MANTISSA = 23
_UNEVEN = 1e-3  # from here on the steps of an element are no basis for differences of high order
_JUMP_THAT_MATTERS = 0.005  # of the slope: below the tolerance of the decision


@dataclass(frozen=True)
class Quotient:
    """The derivative as one step shows it, and how exact it is; no gradient takes part.

    Attributes
    ----------
    step : float
    measured : numpy.ndarray
        Shape (elements,) where the call is elementwise, so that nothing cancels; else (1,): the sum over all outputs.
    used : numpy.ndarray of bool
        False for elements that are left out of the norms: at a kink or jump, or with steps that a half cannot take.
    kinks : int
        How many kinks or jumps were seen, left out or not.
    noise, truncation : float
        The two parts of the error of `measured`, as norms.
    """

    step: float
    measured: Array
    used: Array
    kinks: int
    noise: float
    truncation: float

    def distance(self, other: Quotient) -> float:
        """Return the norm of the difference between two measured derivatives, where both count."""
        both = self.used & other.used
        return float(np.linalg.norm((self.measured - other.measured)[both]))

    def is_flat(self, other: Quotient) -> bool:
        """Tell whether the function did not move at all, at either step."""
        both = self.used & other.used
        return not (np.any(self.measured[both]) or np.any(other.measured[both]))


@dataclass(frozen=True)
class Comparison:
    """A quotient beside a gradient.

    Attributes
    ----------
    quotient : Quotient
    given : numpy.ndarray
        What the gradient says of it, of the same shape.
    residual, scale : float
        Norm of the difference, and what it is relative to.
    """

    quotient: Quotient
    given: Array
    residual: float
    scale: float


def compare(line: Line, gradient: Sequence[Array], step: float) -> Comparison | None:
    """Measure the derivative with a step and compare it with a gradient.

    Parameters
    ----------
    line : Line
    gradient : sequence of numpy.ndarray
        float64, one for each input.
    step : float

    Returns
    -------
    Comparison or None
        None where the function is not finite at one of the seven places.
    """
    if step not in line.quotients:
        line.quotients[step] = quotient(line, step)
    found = line.quotients[step]
    if found is None:
        return None
    given = line.slope(gradient, step, ORDER_6)
    off = float(np.linalg.norm((found.measured - given)[found.used]))
    return Comparison(found, given, off, scale(line, gradient, found.measured[found.used], given[found.used]))


def scale(line: Line, gradient: Sequence[Array], measured: Array, given: Array) -> float:
    """Return what a difference between the two derivatives is relative to."""
    of_measured = float(np.linalg.norm(measured))
    if line.problem.elements is not None:
        return max(of_measured, float(np.linalg.norm(given)))
    # Not |⟨g, v⟩|, which is small by chance: the norm is what ⟨g, v⟩ is for random signs, in the mean square.
    squares = (float(((g * d) ** 2).sum()) for g, d in zip(gradient, line.direction, strict=True))
    return max(of_measured, float(np.sqrt(sum(squares))))


def quotient(line: Line, step: float) -> Quotient | None:
    """Measure the derivative along a line; None where the function is not finite at one of the seven places."""
    weight = line.problem.weight
    values = np.stack([line.value(k * step) for k in range(-3, 4)])
    if not np.all(np.isfinite(values)):
        return None
    products = weight * values
    grid = 0.6 * _granularity(values, weight)
    if line.problem.elements is None:
        terms = products.reshape(7, -1)
        return _together(terms, np.maximum(UNIT * np.abs(terms).max(initial=0.0), grid.reshape(-1)), step)
    rounding = UNIT * np.sqrt((products**2).sum(axis=2)).max(initial=0.0)
    floor = np.maximum(rounding, np.sqrt((grid**2).sum(axis=1)))
    return _by_element(products.sum(axis=2), floor, step, line.unevenness(step))


def _together(terms: Array, floor: Array, step: float) -> Quotient:
    sixth, fourth = _difference(terms, ORDER_6) / step, _difference(terms, ORDER_4) / step
    sigma = np.maximum(_noise(terms), floor)
    kinked, jump = _kinks(terms, sigma)
    return Quotient(
        step=step,
        measured=np.array([sixth.sum()]),
        used=np.array([True]),
        kinks=int(kinked.sum()),
        noise=float(np.sqrt((sigma**2).sum())) * _NOISE_GAIN / step,
        # At a kink any slope between the two is right: half the jump from their mean, which twice the truncation allows for.
        truncation=abs(float((sixth - fourth).sum())) + float(jump.sum()) / (2 * step),
    )


def _by_element(terms: Array, floor: Array, step: float, uneven: Array) -> Quotient:
    sixth, fourth = _difference(terms, ORDER_6) / step, _difference(terms, ORDER_4) / step
    many = terms.shape[1] >= ENOUGH
    sigma = np.maximum(_typical_noise(terms) if many else _noise(terms), floor)
    even = uneven < _UNEVEN
    kinked, jump = _kinks(terms, sigma)
    if many:
        # Elements whose own differences do not fit together: a kink, a jump or a pole within three steps. The gradient is not
        # looked at, so this does not favour it.
        off = np.abs(sixth - fourth)
        kinked = kinked | (off > 30 * np.maximum(np.median(off), 5 * sigma / step))
    kinked = kinked & even  # unequal steps look like a kink, and are none
    used = even if even.mean() > 0.5 else np.ones_like(even)
    if kinked.any() and kinked.mean() < 0.3:
        used = used & ~kinked
    return Quotient(
        step=step,
        measured=sixth,
        used=used,
        kinks=int(kinked.sum()),
        noise=float(np.linalg.norm(sigma[used])) * _NOISE_GAIN / step,
        truncation=float(np.linalg.norm((np.abs(sixth - fourth) + jump / (2 * step))[used])),
    )


def _difference(terms: Array, coefficients: Sequence[float]) -> Array:
    """Return the central difference, times the step."""
    total = np.zeros(terms.shape[1])
    for k, weight in enumerate(coefficients, 1):
        total += weight * (terms[3 + k] - terms[3 - k])
    return total


def _sixth_differences(terms: Array) -> Array:
    found: Array = np.abs(np.diff(terms, 6, axis=0)[0]) / np.sqrt(comb(12, 6))
    return found


def _noise(terms: Array) -> Array:
    """Return the noise of one value for each output, pooled over the outputs where they are enough."""
    sixth = _sixth_differences(terms)
    if terms.shape[1] >= 8:
        return np.full_like(sixth, np.sqrt((sixth**2).mean()))
    # One difference of order six is a single sample; those of order five and four make it six.
    fifth = (np.diff(terms, 5, axis=0) ** 2).sum(axis=0) / comb(10, 5)
    fourth = (np.diff(terms, 4, axis=0) ** 2).sum(axis=0) / comb(8, 4)
    pooled: Array = np.sqrt((sixth**2 + fifth + fourth) / 6)
    return pooled


def _typical_noise(terms: Array) -> Array:
    """Return the noise of one value from the median, which kinks and jumps at some elements do not move."""
    sixth = _sixth_differences(terms)
    return np.full_like(sixth, 1.4826 * np.median(sixth))


def _kinks(terms: Array, sigma: Array) -> tuple[Array, Array]:
    """Tell which outputs have a kink within the step, and by how much their slopes jump there, times the step.

    The second difference grows like h at a kink, like h² where the function is smooth. A kink close to the centre leaves no other trace:
    differences of order four and six agree on the mean of both slopes. A jump that is small beside the slope itself does not matter.
    """
    first = np.abs(terms[4] - terms[2])
    second = np.abs(terms[4] - 2 * terms[3] + terms[2])
    wide = np.abs(terms[6] - 2 * terms[3] + terms[0])
    found = (second > _JUMP_THAT_MATTERS * first) & (wide < 6 * second) & (second > 12 * sigma)
    return found, np.where(found, second, 0.0)


def _granularity(values: Array, weight: Array) -> Array:
    """Return the largest power of two that divides all seven values of an output, times its cotangent.

    Values stored as half, or read from a table, lie on a grid far coarser than float32's; their differences of high order can vanish
    all the same.
    """
    exact = np.ascontiguousarray(values.astype(np.float32))
    bits = exact.view(np.uint32) & np.uint32(0x7FFFFF) | np.uint32(0x800000)
    trailing = np.log2((bits & (~bits + np.uint32(1))).astype(np.float64))
    spacing = np.spacing(np.maximum(np.abs(exact), np.float32(1e-30))).astype(np.float64)
    grid = np.where(exact == 0, np.inf, spacing * 2.0 ** np.minimum(trailing, _MANTISSA)).min(axis=0)
    grid[~np.isfinite(grid)] = 0
    grid[np.ptp(values, axis=0) == 0] = 0  # an output that does not move says nothing about its grid
    found: Array = grid * np.abs(weight)
    return found
