"""The check of a backward call that is made by itself: one random direction, two more forward calls as a rule.

It runs on (a sample of) the arguments of the call, and on copies. It finds a gradient that is grossly wrong: a term that was dropped, a
sum that lost updates, a rule of the user's own with a mistake. `slanglab.gradcheck` looks closer.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slanglab.checks.decision import check
from slanglab.checks.flat import check_where_it_moves
from slanglab.checks.problem import Array, random_cotangent
from slanglab.checks.results import Outcome, Verdict
from slanglab.engine.binding import Bound
from slanglab.engine.probing.parts import CannotProbeError
from slanglab.engine.probing.probe import POSITIVE, Probe
from slanglab.engine.probing.report import percent
from slanglab.engine.target import Target

__all__ = ["SAMPLE", "Check", "first_check"]

SAMPLE = 4096
"""Elements of an elementwise call that are checked, of as many as there are."""


@dataclass(frozen=True)
class Check:
    """What the check of one backward call came to.

    Attributes
    ----------
    verdict : {"agrees", "differs", "cannot tell"}
    text : str
        The verdict in a sentence; for "differs" one that can stand in a warning.
    inputs : tuple of str
        The inputs whose gradients differ.
    error, resolution : float
        Relative: how far gradient and difference quotient are apart, and what would not have been seen.
    calls : int
        Forward calls made.
    milliseconds : float
    """

    verdict: Verdict
    text: str
    inputs: tuple[str, ...] = ()
    error: float = float("nan")
    resolution: float = float("nan")
    calls: int = 0
    milliseconds: float = 0.0


def first_check(
    target: Target, bound: Bound, *, custom: Sequence[str] = (), seed: int | None = None, sample: int = SAMPLE
) -> Check:
    """Compare the gradients of a backward call with differences along one random direction.

    Parameters
    ----------
    target : Target
        The backward one.
    bound : Bound
        Its arguments, as the call was given them. They are read, and not changed.
    custom : sequence of str
        Functions with a derivative of their own that take part: where those differ it may be meant, and the text says so.
    seed : int, optional
        Of the random numbers; a fresh one by default.
    sample : int

    Returns
    -------
    Check
        Whatever goes wrong on the way is the reason of a "cannot tell"; nothing is raised but an interrupt.
    """
    started = time.perf_counter()
    function = target.name.removesuffix(".bwds")
    try:
        found = _checked(target, bound, custom, seed, sample, function)
    except CannotProbeError as error:
        found = _undecided(function, error.message)
    except Exception as error:
        found = _undecided(function, f"the call could not be repeated ({type(error).__name__})")
    spent = (time.perf_counter() - started) * 1e3
    return Check(found.verdict, found.text, found.inputs, found.error, found.resolution, found.calls, spent)


def _undecided(function: str, reason: str, calls: int = 0) -> Check:
    return Check(
        "cannot tell", f"{function}: whether the gradient is right cannot be told: {reason}", calls=calls
    )


def _checked(
    target: Target, bound: Bound, custom: Sequence[str], seed: int | None, sample: int, function: str
) -> Check:
    rng = np.random.default_rng(seed)
    probe = Probe.of_bound(target, bound, attached=True, sample=sample)
    try:
        with np.errstate(all="ignore"):
            cotangent = random_cotangent(probe.value, rng, POSITIVE)
            gradients, _ = probe.gradient(cotangent)
            problem = probe.problem(cotangent)
            found = check(problem, gradients, rng)
            if found.verdict == "differs" and custom:
                moving = check_where_it_moves(problem, gradients, rng)
                if moving is not None and moving[0].verdict == "agrees":
                    names = ", ".join(custom)
                    return _undecided(
                        function, f"{names} has a derivative where the value stands still", probe.calls
                    )
            if found.verdict == "differs":
                return _differs(probe, cotangent, gradients, found, rng, function, custom)
    finally:
        probe.finish()
    if found.verdict == "cannot tell":
        return _undecided(function, found.reason, probe.calls)
    text = (
        f"{function}: the gradient agrees with difference quotients (checked to {percent(found.resolution)})"
    )
    return Check("agrees", text, (), found.error, found.resolution, probe.calls)


def _differs(
    probe: Probe,
    cotangent: list[Array],
    gradients: list[Array],
    found: Outcome,
    rng: np.random.Generator,
    function: str,
    custom: Sequence[str],
) -> Check:
    """Find out which inputs it is."""
    each = [
        check(probe.problem(cotangent, k), [gradients[k]], rng) if len(gradients) > 1 else found
        for k in range(len(gradients))
    ]
    guilty = [k for k, o in enumerate(each) if o.verdict == "differs"]
    names = tuple(probe.inputs[k].path for k in guilty) or tuple(leaf.path for leaf in probe.inputs)
    worst = max((each[k] for k in guilty), key=lambda o: o.error, default=found)
    shown = " and ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else names[0]
    if np.isfinite(worst.error):
        apart = f"differs from the difference quotient by {percent(worst.error)}"
    else:
        apart = "is NaN or infinite where the value is finite"
    text = f"{function}.bwds: the gradient by {shown} {apart}"
    if custom:
        verb = "has" if len(custom) == 1 else "have"
        text += f"; {', '.join(custom)} {verb} a derivative of its own, so this may be meant"
    return Check("differs", text, names, worst.error, worst.resolution, probe.calls)
