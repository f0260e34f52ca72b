"""Elements of a call where the value does not move at all.

A derivative of the user's own is often meant to differ there: a straight-through estimator passes the gradient on where a clamp or a
step has none. What is left can still be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from slanglab.checks.decision import check
from slanglab.checks.problem import Array, Line, Problem, random_direction
from slanglab.checks.results import Outcome

__all__ = ["check_where_it_moves"]

_STEP = 2.0**-9
"""Less than the steps of the check: an element that is flat here and moves there has its kink in between, where the check sees it."""


def check_where_it_moves(
    problem: Problem, gradient: Sequence[Array], rng: np.random.Generator, directions: int = 1
) -> tuple[Outcome, int] | None:
    """Check an elementwise call without the elements whose value stands still around them.

    Returns
    -------
    (Outcome, int) or None
        What the others show, and how many elements were left out; None where that is none, or where the call is not elementwise.
    """
    count = problem.elements
    if count is None:
        return None
    line = Line(problem, random_direction(problem.point, rng))
    step = line.nearest(_STEP)
    here = line.value(0)
    flat = np.all((line.value(step) == here) & (line.value(-step) == here), axis=1)
    left_out = int(flat.sum())
    if not left_out:
        return None
    kept = [
        np.where(flat[:, np.newaxis], 0.0, np.asarray(g, np.float64).reshape(count, -1)).reshape(g.shape)
        for g in gradient
    ]
    weights = [
        np.where(flat[:, np.newaxis], 0.0, np.asarray(c, np.float64).reshape(count, -1)).reshape(c.shape)
        for c in problem.cotangent
    ]
    found = check(replace(problem, cotangent=weights), kept, rng, directions)
    return replace(found, calls=found.calls + line.calls), left_out
