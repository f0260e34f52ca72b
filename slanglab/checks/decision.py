"""What may be concluded from difference quotients in float32.

Three stages, each only where the one before did not settle it:

1. Two calls, a plain central difference at 2⁻⁷. Most right gradients agree within a third of a percent, and that is that.
2. Four more calls at the same step: order six with an estimate of truncation and noise. The step is moved towards the smaller error
   until the gradient agrees within what was measured, or looks wrong.
3. Six more at a step that shares no multiple with the first, before "differs" is said: sin(200 x) looks perfectly smooth at some
   steps, and its differences are then consistent and wrong. And six at a coarse step, which must not side with the gradient:
   a value that rounding holds back on its way, inside the function, stands still at fine steps.

When no step brings the error under a tenth of the derivative, nothing is concluded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from slanglab.checks.differences import ENOUGH, UNIT, Comparison, compare, scale
from slanglab.checks.problem import Array, Line, Problem, random_direction
from slanglab.checks.results import Outcome, Verdict, overall

__all__ = ["ONE_DIRECTION", "SEVERAL_DIRECTIONS", "Rules", "check", "check_line"]

_INCOMMENSURABLE = 0.3719
_COARSE = 2.0**-4
_GRAINS = 8
"""The first step along a line of halves: of so many grains; the second is then of three."""

_WORST = 5


@dataclass(frozen=True)
class Rules:
    """The constants of the decision; `docs/gradient-check.md` has the rates that come of them.

    Attributes
    ----------
    quick : float
        Stage 1 agrees up to this relative difference.
    tolerance : float
        Later stages agree up to this one, or up to the error estimate.
    settled : float
        …as long as the estimate is no larger than this.
    limit : float
        With a larger relative error estimate nothing is concluded.
    noise_factor : float
        Standard deviations of noise that are allowed for.
    first_step : float
    rounds : int
        How many steps are tried.
    """

    quick: float = 0.003
    tolerance: float = 0.005
    settled: float = 0.02
    limit: float = 0.1
    noise_factor: float = 5.0
    first_step: float = 2.0**-7
    rounds: int = 6

    def error(self, found: Comparison) -> float:
        """Return the error that is to be allowed for in `measured`."""
        return self.noise_factor * found.quotient.noise + 2 * found.quotient.truncation

    def agrees(self, found: Comparison) -> bool:
        """Tell whether the residual is within the tolerance, or within the error."""
        return found.residual <= max(self.tolerance * found.scale, self.error(found))

    def contradicts(self, found: Comparison) -> bool:
        """Tell whether the residual is out of reach of a known error; the estimate is one, so there is room between this and `agrees`."""
        error = self.error(found)
        clear = found.residual > 2 * max(self.tolerance * found.scale, error)
        return clear and error <= self.limit * found.scale


ONE_DIRECTION = Rules()
"""For the check of a first backward call."""

SEVERAL_DIRECTIONS = replace(ONE_DIRECTION, quick=0.001)
"""For `gradcheck`, which spends more calls to miss less."""


def check(
    problem: Problem,
    gradient: Sequence[Array],
    rng: np.random.Generator,
    directions: int = 1,
    rules: Rules | None = None,
    lines: Sequence[Line] | None = None,
) -> Outcome:
    """Compare a gradient with differences along random directions.

    Parameters
    ----------
    problem : Problem
    gradient : sequence of numpy.ndarray
        One for each input, of its shape: the product of the cotangent with the Jacobian.
    rng : numpy.random.Generator
        Draws the directions.
    directions : int
        How many. An error of relative size ρ, spread over many elements, is missed with a chance of about (0.8·tolerance/ρ)^directions.
    rules : Rules, optional
    lines : sequence of Line, optional
        Directions to use instead of random ones; what was evaluated on them is used again.

    Returns
    -------
    Outcome
        Of the direction that differs, if one does, else of the least certain one.
    """
    if not all(np.all(np.isfinite(g)) for g in gradient):
        return _not_finite(problem)
    if rules is None:
        rules = ONE_DIRECTION if directions == 1 else SEVERAL_DIRECTIONS
    exact = [np.asarray(g, dtype=np.float64) for g in gradient]
    found: list[Outcome] = []
    for k in range(directions):
        line = lines[k] if lines else Line(problem, random_direction(problem.point, rng))
        found.append(check_line(line, exact, rules))
        if found[-1].verdict == "differs":
            break
    if directions == 1 and _falls_between(found[0], rules):
        second = check_line(Line(problem, random_direction(problem.point, rng)), exact, rules)
        found = [replace(second, calls=second.calls + found[0].calls)]
    verdict = overall(o.verdict for o in found)
    deciding = max((o for o in found if o.verdict == verdict), key=lambda o: np.nan_to_num(o.resolution))
    return replace(deciding, calls=sum(o.calls for o in found))


def _falls_between(found: Outcome, rules: Rules) -> bool:
    """Tell whether a deviation was too much for "agrees" and too little for "differs", though its error is small.

    That is a chance of the direction: another one decides.
    """
    told = found.verdict != "cannot tell" or found.kinks or found.reason.startswith("flat")
    return not told and found.resolution <= rules.settled and found.error > rules.tolerance


def _not_finite(problem: Problem) -> Outcome:
    if all(np.all(np.isfinite(y)) for y in problem.value):
        return Outcome(
            "differs", float("inf"), 0.0, "the gradient is NaN or infinite where the value is finite"
        )
    return Outcome("cannot tell", reason="the value is NaN or infinite")


def check_line(line: Line, gradient: Sequence[Array], rules: Rules) -> Outcome:
    """Compare a gradient, as float64, with differences along one line."""
    places: set[float] = set()  # a line may serve several gradients; each is charged what it needs
    step = max(rules.first_step, _GRAINS * line.grain)
    quick = _first_look(line, gradient, step, rules)
    places |= {step, -step}
    if quick is not None:
        return replace(quick, calls=len(places))
    best: Comparison | None = None
    flat = False
    for _ in range(rules.rounds):
        step = line.nearest(step)
        found = compare(line, gradient, step)
        places |= _places(step)
        if found is None:
            step /= 8
            continue
        if found.scale == 0:
            return _outcome(found, rules, "agrees", len(places))  # both are zero
        if best is None or rules.error(found) / found.scale < rules.error(best) / best.scale:
            best = found
        error = rules.error(found) / found.scale
        agrees = rules.agrees(found)
        if agrees and error <= max(rules.tolerance, rules.settled):
            return _outcome(found, rules, "agrees", len(places))
        if rules.contradicts(found) and _may_accuse(found):
            other = _second_step(line, step)
            second = compare(line, gradient, other)
            places |= _places(other)
            if second is not None and second.scale > 0:
                flat = found.quotient.is_flat(second.quotient)
                if flat:
                    break
                if _confirms(found, second, rules):
                    coarse = line.nearest(max(_COARSE, 2.0 * step))
                    places |= _places(coarse)
                    if not _sides_with_the_gradient(compare(line, gradient, coarse), found):
                        return _outcome(found, rules, "differs", len(places))
            step /= 6
            continue
        if 2 * found.quotient.truncation >= rules.noise_factor * found.quotient.noise:
            step /= 5
        else:
            step *= 3.1
        if not 2.0**-17 <= step <= 0.4:
            break
    if best is not None and not flat and rules.error(best) <= rules.limit * best.scale and rules.agrees(best):
        return _outcome(best, rules, "agrees", len(places))
    return _undecided(best, flat, rules, len(places))


def _second_step(line: Line, step: float) -> float:
    smaller = line.nearest(step * _INCOMMENSURABLE)
    return smaller if smaller < step else line.nearest(step / _INCOMMENSURABLE)


def _places(step: float) -> set[float]:
    return {k * step for k in (-3, -2, -1, 1, 2, 3)}


def _first_look(line: Line, gradient: Sequence[Array], step: float, rules: Rules) -> Outcome | None:
    """Stage 1: agree, or go on."""
    weight = line.problem.weight
    difference = weight * (line.value(step) - line.value(-step)) / (2 * step)
    given = line.slope(gradient, step, (0.5,))
    measured = np.array([difference.sum()]) if line.problem.elements is None else difference.sum(axis=1)
    size = scale(line, gradient, measured, given)
    residual = float(np.linalg.norm(measured - given))
    rounding = 4 * UNIT * float(np.linalg.norm(weight * line.value(0))) / step
    if not (np.isfinite(residual) and residual <= rules.quick * size and rounding < rules.limit * size):
        return None
    return Outcome(
        "agrees",
        residual / size if size else 0.0,
        rules.quick,
        step=step,
        measured=float(measured.sum()),
        given=float(given.sum()),
    )


def _may_accuse(found: Comparison) -> bool:
    """Tell whether the step is one where rounding and curvature are both out of reach, and kinks are few.

    Elements at a kink are left out, so there must not be many. In a sum over all outputs they stay, and the error allows for them.
    """
    seen = found.quotient
    return 2.0**-13 <= seen.step <= 2.0**-4 and (
        seen.used.size == 1 or seen.kinks <= max(1, 0.1 * seen.used.size)
    )


def _confirms(found: Comparison, second: Comparison, rules: Rules) -> bool:
    """Tell whether a second step says the same: differs too, and both differences agree far better than either does with the gradient."""
    error, second_error = rules.error(found), rules.error(second)
    return rules.contradicts(second) and found.quotient.distance(second.quotient) <= min(
        error + second_error, 0.3 * min(found.residual, second.residual)
    )


def _sides_with_the_gradient(coarse: Comparison | None, found: Comparison) -> bool:
    """Tell whether a coarse step contradicts the fine ones, which then saw a step of a staircase.

    log(1 + x²) for a small x stands still over many fine steps, as 1 + x² does in float32; when other inputs move the value, its
    differences are smooth, consistent and wrong.
    """
    if coarse is None:
        return False
    off = coarse.quotient.distance(found.quotient)
    return 2 * coarse.residual < off and 2 * coarse.quotient.truncation < off


def _outcome(found: Comparison, rules: Rules, verdict: Verdict, calls: int, reason: str = "") -> Outcome:
    seen, size = found.quotient, found.scale or 1.0
    off = np.abs(seen.measured - found.given) * seen.used
    count = min(_WORST, off.size) if off.size > 1 else 0
    error = rules.error(found) / size
    return Outcome(
        verdict,
        found.residual / size,
        error if verdict == "cannot tell" else max(rules.tolerance, error),
        reason,
        calls,
        seen.step,
        seen.kinks,
        float(seen.measured.sum()),
        float(found.given.sum()),
        tuple(int(i) for i in np.argsort(-off)[:count]),
    )


def _undecided(best: Comparison | None, flat: bool, rules: Rules, calls: int) -> Outcome:
    if best is None:
        return Outcome("cannot tell", reason="the value is NaN or infinite close by", calls=calls)
    if flat:
        reason = "flat: the value does not move, though the gradient is not zero"
    elif best.quotient.kinks:
        reason = "kink"
    elif rules.noise_factor * best.quotient.noise > 2 * best.quotient.truncation:
        reason = "noise" if best.quotient.used.size >= ENOUGH else "kink or noise"
    else:
        reason = "curvature"
    return _outcome(best, rules, "cannot tell", calls, reason)
