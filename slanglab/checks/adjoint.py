"""The adjoint test: forward mode against reverse mode, without a difference quotient."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slanglab.checks.problem import Array
from slanglab.checks.results import Outcome

__all__ = ["adjoint"]

TOLERANCE = 1e-4
"""Rounding in float32 leaves less than this of the scale, in all but some functions of ten thousand."""

SURE = 3e-3
"""More than this only a gradient has whose own rounding is as large: one that cancels almost to nothing."""


def adjoint(
    tangent: Sequence[Array],
    cotangent: Sequence[Array],
    gradient: Sequence[Array],
    direction: Sequence[Array],
) -> Outcome:
    """Compare ⟨c, J·v⟩ of forward mode with ⟨cᵀ·J, v⟩ of reverse mode, which are equal in exact arithmetic.

    It has no truncation error, and so sees errors a hundred times smaller than differences do. An error that both modes share, such as
    a value that was detached, it cannot see.

    Parameters
    ----------
    tangent : sequence of numpy.ndarray
        J·v, one for each output.
    cotangent : sequence of numpy.ndarray
        c, one for each output.
    gradient : sequence of numpy.ndarray
        What the backward call gave for c, one for each input.
    direction : sequence of numpy.ndarray
        v, one for each input.

    Returns
    -------
    Outcome
        Its `error` is relative to the norm of gradient·direction.
    """
    forward = [np.asarray(c, np.float64) * t for c, t in zip(cotangent, tangent, strict=True)]
    reverse = [np.asarray(g, np.float64) * v for g, v in zip(gradient, direction, strict=True)]
    measured, given = (float(sum(p.sum() for p in terms)) for terms in (forward, reverse))
    if not np.isfinite(measured) or not np.isfinite(given):
        return Outcome("cannot tell", reason="a derivative is NaN or infinite", calls=1)
    # Both sums are over many terms that may cancel; each is as exact as its largest terms are.
    scale = max(float(np.sqrt(sum((p**2).sum() for p in terms))) for terms in (forward, reverse))
    error = abs(measured - given) / scale if scale > 0 else 0.0
    if error <= TOLERANCE:
        return Outcome("agrees", error, TOLERANCE, calls=1, measured=measured, given=given)
    sure = error > SURE
    return Outcome(
        "differs" if sure else "cannot tell",
        error,
        TOLERANCE,
        "" if sure else "noise",
        calls=1,
        measured=measured,
        given=given,
    )
