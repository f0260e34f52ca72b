"""When a backward call is compared with difference quotients, and what is said when they differ."""

from __future__ import annotations

from typing import Any

import numpy as np
import slangpy as spy

from slanglab.engine.binding import Bound
from slanglab.engine.prepare import Prepared
from slanglab.engine.probing import first
from slanglab.engine.runs import Details
from slanglab.engine.target import Target

__all__ = ["check"]

_SEEDS_READ = 2**20
"""Elements of a seed at most that are read to see whether all are zero."""


def check(target: Target, ready: Prepared, details: Details) -> None:
    """Check a backward call that has run, if that is due: the first of its kind, or each.

    Parameters
    ----------
    target : Target
    ready : Prepared
        The call.
    details : Details
        Gets the check, and a warning where gradient and quotient differ.
    """
    policy = target.control.policy.check
    if ready.bound is None or (policy == "off" and not target.check_always):
        return
    kind = details.path, target.plans.signature((ready.this, *ready.values.values(), ready.result))
    if policy != "always" and not target.check_always and kind in target.checked_kinds:
        return
    target.checked_kinds.add(kind)
    bound = ready.bound
    found = first.first_check(
        target,
        Bound(ready.values, bound.options, False, bound.count, bound.this),
        custom=target.custom(),
    )
    details.check = found
    if found.verdict == "differs":
        details.warnings.append(found.text + _cause(target))
    zero = _zero_seed(target, ready)
    if zero:
        name, shown = ("r", "the result") if zero == "_result" else (zero, zero)
        details.warnings.append(
            f"{target.name}: the seed in {shown} is all zero, so this call adds nothing to any gradient; "
            f"write it first: `slanglab.assign({name}.grad, 1.0)`"
        )


def _cause(target: Target) -> str:
    """Return what the linter sees in the function, as the end of a warning."""
    causes = target.causes()
    if not causes:
        return ""
    likely = causes[0]
    hint = f"; {likely.hint}" if likely.hint else ""
    return f". A likely cause is in line {likely.line}: {likely.text}{hint}"


def _zero_seed(target: Target, ready: Prepared) -> str:
    """Return the name of a seed that is zero everywhere, when all seeds are; else nothing."""
    seeds: list[tuple[str, Any]] = [("_result", ready.result)] if ready.result is not None else []
    seeds += [(s.name, ready.values.get(s.name)) for s in target.parameters if s.writes]
    read = [(n, v.grad_in) for n, v in seeds if isinstance(v, spy.Tensor) and v.grad_in is not None]
    if not read or len(read) < len(seeds) or any(g.element_count > _SEEDS_READ for _, g in read):
        return ""
    return "" if any(np.any(g.to_numpy()) for _, g in read) else read[0][0]
