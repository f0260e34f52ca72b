"""`slanglab.gradcheck`: the gradients of one call against forward mode and difference quotients."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import slangpy as spy

from slanglab import elsewhere
from slanglab.checks.adjoint import adjoint
from slanglab.checks.decision import ONE_DIRECTION, SEVERAL_DIRECTIONS, check
from slanglab.checks.flat import check_where_it_moves
from slanglab.checks.problem import Array, random_cotangent, random_direction
from slanglab.checks.results import Outcome, Verdict, overall
from slanglab.checks.worst import worst
from slanglab.device import check_process
from slanglab.engine.probing import custom_rules
from slanglab.engine.probing.forward_mode import NoForwardModeError, tangent
from slanglab.engine.probing.probe import POSITIVE, Probe
from slanglab.engine.probing.report import GradCheck, InputCheck, percent
from slanglab.engine.target import Target
from slanglab.errors import CallError

__all__ = ["gradcheck"]

_REPEATS = 1e-5
"""Atomic additions come in another order each time; their sum then differs in the last digits."""

_ADDS = 1e-3


@elsewhere.by_value
def gradcheck(
    function: Any,
    /,
    *args: Any,
    wrt: str | Iterable[str] | None = None,
    directions: int = 2,
    seed: int | None = None,
    cotangent: npt.ArrayLike | Sequence[npt.ArrayLike] | None = None,
    custom: Sequence[str] | None = None,
    **kwargs: Any,
) -> GradCheck:
    """Compare the gradients of a call with forward mode and with difference quotients.

    Everything runs on copies: tensors that are passed keep their values and their gradients.

    Parameters
    ----------
    function : SlangFunction
        A differentiable function of a cell, or its `.bwds`.
    *args, **kwargs
        Arguments of the forward call, or of the backward one. Tensors need no gradient here; numbers and numpy arrays are differentiated by
        as well.
    wrt : str or iterable of str, optional
        The inputs to check: parameters ("x") or parts of them ("spring.k"). All that have a derivative, by default.
    directions : int
        Random directions for each input; more find smaller errors, at two calls each as a rule.
    seed : int, optional
        Of the random numbers; a fresh one by default. The report says which.
    cotangent : array_like or sequence of array_like, optional
        Of the outputs (result first, then parameters in order). A seed passed to `.bwds`, else random numbers, by default.
    custom : sequence of str, optional
        Functions with a derivative of their own that take part; found in the text by default.

    Returns
    -------
    GradCheck
        `.verdict`, `.inputs`, `.ok`; it shows itself as a table.

    Raises
    ------
    CallError
        When the function is not differentiable, or cannot be called so.
    CannotProbeError
        When the call cannot be repeated without touching what was passed.
    """
    check_process()
    if directions < 1:
        raise CallError("gradcheck needs at least one direction", function="gradcheck", argument="directions")
    target = function if isinstance(function, Target) else function._target(args, kwargs)
    if not target.slang_function.differentiable:
        raise CallError(
            f"{target.name} is not differentiable",
            function="gradcheck",
            hint="write [Differentiable] before the function, and before every function that it calls",
        )
    drawn = int(np.random.default_rng().integers(2**32)) if seed is None else seed
    wanted = None if wrt is None else [wrt] if isinstance(wrt, str) else list(wrt)
    _check_wanted(target, wanted)
    rules = custom_rules.of_proxy(function) if custom is None else tuple(custom)
    probe = Probe.of(target, args, kwargs, wanted)
    try:
        with np.errstate(all="ignore"):
            return _checked(probe, target, cotangent, rules, directions, drawn)
    finally:
        probe.finish()


def _check_wanted(target: Target, wanted: Sequence[str] | None) -> None:
    for name in wanted or ():
        if name.split(".")[0] not in (*target.names, "this"):
            raise CallError(
                f"gradcheck: {target.name} has no parameter {name}",
                function="gradcheck",
                argument="wrt",
                expected=", ".join(target.names),
                given=name,
            )


def _checked(
    probe: Probe,
    target: Target,
    cotangent: Any,
    rules: tuple[str, ...],
    directions: int,
    seed: int,
) -> GradCheck:
    rng = np.random.default_rng(seed)
    # Another cotangent for each direction: for a parameter of one number all directions are the same.
    seeds = [_cotangents(probe, cotangent, rng) for _ in range(directions)]
    gradients, held = probe.gradient(seeds[0])
    taken = [(seeds[0], gradients), *((c, probe.gradient(c)[0]) for c in seeds[1:])]
    notes, verdict = _habits(probe, seeds[0], gradients, held, rng)
    forward = target.forward if target.backward else target
    assert forward is not None
    inputs = tuple(_input(probe, forward, k, taken, rules, rng) for k in range(len(probe.inputs)))
    if rules:
        verb = "has a derivative of its own" if len(rules) == 1 else "have derivatives of their own"
        notes.append(f"{', '.join(rules)} {verb}, which may be meant to differ from the difference quotient")
    notes += [f"{path} was not checked: {why}" for path, why in probe.arguments.skipped.items()]
    name = target.name.removesuffix(".bwds")
    return GradCheck(
        name,
        overall([*(i.verdict for i in inputs), *verdict]),
        inputs,
        tuple(notes),
        rules,
        directions,
        seed,
        probe.calls,
    )


def _cotangents(probe: Probe, given: Any, rng: np.random.Generator) -> list[Array]:
    """Return one cotangent for each output."""
    if given is None:
        given = probe.arguments.seed()
    if given is None:
        return random_cotangent(probe.value, rng, POSITIVE)
    several = list(given) if len(probe.outputs) > 1 and isinstance(given, (list, tuple)) else [given]
    if len(several) != len(probe.outputs):
        names = ", ".join(o.path for o in probe.outputs)
        raise CallError(
            f"gradcheck: {len(several)} cotangents for {len(probe.outputs)} outputs ({names})",
            function="gradcheck",
            argument="cotangent",
        )
    found = []
    for value, y in zip(several, probe.value, strict=True):
        array = np.asarray(value.to_numpy() if isinstance(value, spy.Tensor) else value, dtype=y.dtype)
        try:
            found.append(np.array(np.broadcast_to(array, y.shape)))
        except ValueError:
            raise CallError(
                f"gradcheck: a cotangent of shape {array.shape} does not fit a result of shape {y.shape}",
                function="gradcheck",
                argument="cotangent",
            ) from None
    return found


def _habits(
    probe: Probe, seeds: list[Array], gradients: list[Array], held: list[Array], rng: np.random.Generator
) -> tuple[list[str], list[Verdict]]:
    """Repeat both calls, with gradients that are not zero before: what does not repeat, does not add up, or was changed."""
    notes: list[str] = []
    verdicts: list[Verdict] = []
    again = probe(probe.point)
    for output, first, second in zip(probe.outputs, probe.value, again, strict=True):
        if not np.array_equal(first, second, equal_nan=True):
            notes.append(f"{output.path} is not the same when the call is repeated")
            verdicts.append("cannot tell")
    start = [_beside(g, rng) for g in gradients]
    added, _ = probe.gradient(seeds, start)
    repeated, _ = probe.gradient(seeds)
    for leaf, g, r, a, s, h in zip(probe.inputs, gradients, repeated, added, start, held, strict=True):
        exact = g.astype(np.float64)
        if _off(r, exact) > (_REPEATS if g.dtype == np.float32 else _ADDS):
            notes.append(f"the gradient by {leaf.path} is not the same when bwds is repeated")
            verdicts.append("cannot tell")
        elif _off(a, exact + s) <= (_ADDS if g.dtype == np.float32 else 10 * _ADDS):
            pass
        elif _off(a, exact) <= _ADDS:
            notes.append(f"bwds overwrites the gradient by {leaf.path} instead of adding to it")
        else:
            notes.append(
                f"bwds neither adds to the gradient by {leaf.path} that is there, nor replaces it: "
                f"{percent(_off(a, exact + s))} off the sum"
            )
            verdicts.append("differs")
        if not np.array_equal(h, leaf.value, equal_nan=True):
            notes.append(f"bwds changed the values of {leaf.path}")
            verdicts.append("differs")
    return notes, verdicts


def _beside(gradient: Array, rng: np.random.Generator) -> Array:
    """Return numbers as large as a gradient is."""
    finite = gradient[np.isfinite(gradient)].astype(np.float64)
    size = float(np.sqrt(np.mean(finite**2))) if finite.size else 0.0
    return np.asarray((size or 1.0) * rng.uniform(0.5, 1.5, gradient.shape), dtype=gradient.dtype)


def _off(found: Array, expected: Array) -> float:
    """Return the relative distance of two arrays; NaN and infinity agree with themselves."""
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    if np.all(same):
        return 0.0
    if not np.all(np.isfinite(found[~same])) or not np.all(np.isfinite(expected[~same])):
        return float("inf")
    finite = np.isfinite(expected)
    size = float(np.linalg.norm(expected[finite]))
    off = float(np.linalg.norm((found.astype(np.float64) - expected)[~same]))
    return off / size if size else float("inf")


def _input(
    probe: Probe,
    forward: Target,
    index: int,
    taken: Sequence[tuple[list[Array], list[Array]]],
    rules: tuple[str, ...],
    rng: np.random.Generator,
) -> InputCheck:
    """Check one input with every cotangent and its gradients; what differs, or is least certain, decides."""
    leaf = probe.inputs[index]
    fine = ONE_DIRECTION if len(taken) == 1 else SEVERAL_DIRECTIONS
    outcomes: list[Outcome] = []
    for cotangent, given in taken:
        outcomes.append(check(probe.problem(cotangent, index), [given[index]], rng, rules=fine))
        if outcomes[-1].verdict == "differs":
            break
    joint = overall(o.verdict for o in outcomes)
    found = max((o for o in outcomes if o.verdict == joint), key=lambda o: np.nan_to_num(o.resolution))
    seeds, gradients = taken[outcomes.index(found)]
    gradient, problem, directions = gradients[index], probe.problem(seeds, index), len(taken)
    other, no_forward = _forward(probe, forward, index, seeds, gradient, rng)
    verdict, reason = _verdict(found, other)
    elements = tuple(worst(problem, gradient, rng)) if verdict == "differs" else ()
    if verdict == "differs" and rules and np.all(np.isfinite(gradient)):
        moving = check_where_it_moves(problem, [gradient], rng, directions)
        if moving is not None and moving[0].verdict == "agrees":
            verdict = "cannot tell"
            reason = f"custom: agrees but for {moving[1]} elements where the value does not move"
    deciding = found
    if other is not None and found.verdict == "cannot tell" and other.verdict != "cannot tell":
        deciding = other
    return InputCheck(
        leaf.path,
        leaf.value.shape,
        verdict,
        reason,
        deciding.error,
        deciding.resolution,
        found,
        other,
        no_forward,
        elements,
    )


def _forward(
    probe: Probe,
    forward: Target,
    index: int,
    seeds: list[Array],
    gradient: Array,
    rng: np.random.Generator,
) -> tuple[Outcome | None, str]:
    if not np.all(np.isfinite(gradient)):
        return None, "the gradient is not finite"
    value = probe.inputs[index].value
    (direction,) = random_direction([value], rng)
    rounded = direction.astype(value.dtype)  # as the device has it
    try:
        moved = tangent(probe, forward, index, rounded)
    except NoForwardModeError as error:
        return None, str(error)
    return adjoint(moved, seeds, [gradient], [rounded.astype(np.float64)]), ""


def _verdict(found: Outcome, other: Outcome | None) -> tuple[Verdict, str]:
    """Join what differences and forward mode say.

    Differences see what both modes share (a value detached, a term dropped); forward mode sees errors that are smaller than differences
    resolve, and works where a function is too rough or too noisy for them.
    """
    if found.verdict == "differs" or other is None:
        return found.verdict, found.reason
    if other.verdict == "cannot tell":
        return found.verdict, found.reason
    if found.verdict == "agrees":
        if other.verdict == "agrees":
            return "agrees", ""
        if other.error <= found.resolution:
            return "differs", "forward and backward mode differ"
        return "agrees", "forward mode differs, differences side with bwds"
    if other.verdict == "differs":
        flat = found.reason.startswith("flat")
        return ("cannot tell", found.reason) if flat else ("differs", "forward and backward mode differ")
    # Where nothing moves, both modes may share a rule that is not the derivative.
    return ("cannot tell", found.reason) if found.reason.startswith("flat") else ("agrees", found.reason)
