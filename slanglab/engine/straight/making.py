"""Making the straight kernel that a kind of call needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slanglab.engine.straight import tables
from slanglab.engine.straight.arguments import Refusal, classify
from slanglab.engine.straight.kernel import Straight, check_target, suited
from slanglab.engine.straight.strategy import Strategy
from slanglab.engine.straight.tables import Table
from slanglab.engine.target import Target

__all__ = ["build"]


def build(
    target: Target,
    values: Mapping[str, Any],
    result: Any,
    *,
    strategy: Strategy | None = None,
    fresh: bool = False,
) -> Straight | str:
    """Make the straight kernel for a kind of call.

    Parameters
    ----------
    target : Target
        The function and the mode.
    values : dict of str to object
        The arguments, converted, by parameter.
    result : object
        What was given as `_result`: a tensor, None, "tensor" or `slangpy.Tensor`.
    strategy : Strategy, optional
        How to go through the arrays; by default what suits the device.
    fresh : bool
        Whether the first call writes its gradients (see `Strategy.fresh`); either way the kernel can do both.

    Returns
    -------
    Straight or str
        The kernel, or in words why slangpy has to make this call.
    """
    try:
        check_target(target)
        wanted = target.returned if result is None and not target.backward else result
        found, axes = classify(target, values, wanted, tables=True)
        if axes:
            kernel: Straight = Table(target, found, strategy or tables.suited(target.device), axes)
        elif any(a.kind == "array" or a.kind == "grid" for a in found):
            kernel = Straight(target, found, strategy or suited(target, found))
        else:
            raise Refusal("no argument is an array")
        launch = kernel.prepare(values, wanted)
        if launch is None:
            raise Refusal(kernel.reason(values, wanted))
        kernel.compile(launch.shape, fresh)
        return kernel
    except Refusal as refusal:
        return str(refusal)
