"""Calls with torch tensors: as slangpy tensors they go through the engine's own call, and the results come back as torch tensors.

What a call needs is looked at here: which of its tensors carry a gradient, and whether torch is to be told of it. `slanglab.torch.autograd`
makes it a node of torch's graph; without gradients it is made as it is.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from slanglab.device import check_process
from slanglab.engine.dispatch import Said
from slanglab.engine.quick import MISSED
from slanglab.engine.target import Target
from slanglab.errors import CallError
from slanglab.torch import autograd, leaves
from slanglab.torch.exchange import choose
from slanglab.torch.ready import Kind, Ready, is_transformed
from slanglab.torch.single import Single

__all__ = ["backward", "call", "warn"]

_OURS = (str(Path(__file__).parents[1]), str(Path(torch.__file__).parent))


def call(target: Target, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Call a function with torch tensors among its arguments.

    Returns
    -------
    torch.Tensor, dict or None
        What the function returns, on the device of the tensors, in the dtype of the function's result and in the autograd graph; of a
        function that returns a struct a dict of tensors, one for each field. What was given as `_result` where something was.

    Raises
    ------
    CallError
        When the call cannot be made.
    """
    if is_transformed():
        raise CallError(
            f"{target.name} was called within a transform of torch.func (vmap, grad, jvp, …) or forward-mode differentiation, which a "
            "Slang function cannot take part in",
            function=target.name,
            hint="a call is vectorised by itself: pass the whole batch; for gradients use `torch.autograd.grad`",
        )
    known: Ready | None = target.beside.get("torch ready")
    if known is not None:
        result = known.call(args, kwargs)
        if result is not MISSED:
            # It is asked first for calls to come, which are like this one more often than not.
            target.plans.quick = known.call
            return result
    check_process()
    if target.backward:
        raise CallError(
            f"{target.name}.bwds got a torch tensor; with torch tensors the backward call is `result.backward()`",
            function=f"{target.name}.bwds",
            hint=f"call `{target.name}(…)` with tensors that require a gradient, then `.backward()` of what it returns; or pass "
            "slangpy tensors: `slanglab.tensor(t.detach(), grad=True)`",
        )
    found = leaves.collect(target, args, kwargs)
    exchange = choose(target.name, target.device, found.leaves)
    one = Single(target, found, exchange, _ready(target).kind(args, kwargs, found, exchange.direct))
    said: list[Said] = []
    if one.carries_gradient(said):
        outputs = autograd.through(one, said, warn)
    else:
        with torch.no_grad():
            outputs = one.forward(said)
        one.finish()
    warn(said)
    return one.answer(outputs)


def _ready(target: Target) -> Ready:
    """Return what is known of the calls of a function."""
    known: Ready | None = target.beside.get("torch ready")
    if known is None:
        known = target.beside["torch ready"] = Ready(target, _backward)
    return known


def backward(
    target: Target,
    args: tuple[Any, ...],
    tensors: Sequence[Any],
    wanted: Sequence[bool],
    seed: Any,
    shape: tuple[int, ...],
    dtype: Any,
) -> list[Any]:
    """Make the backward call of a forward call that was made elsewhere.

    Parameters
    ----------
    target : Target
        The forward one.
    args : tuple
        The arguments.
    tensors : sequence of torch.Tensor
        Those among them.
    wanted : sequence of bool
        Which of them gets a gradient.
    seed : torch.Tensor or None
        The gradient of the result; None for zero.
    shape : tuple of int
        Of the result on the device, which has no tensors without axes.
    dtype : torch.dtype
        Of the result.

    Returns
    -------
    list of torch.Tensor or None
    """
    known: Ready | None = target.beside.get("torch ready")
    kind = known.find(len(args), {}, args) if known is not None and seed is not None else None
    if kind is not None:
        return kind.backward(args, tensors, wanted, seed)
    return _resumed(target, args, {}, tensors, wanted, seed, shape, dtype, None)


def _backward(
    target: Target,
    kind: Kind,
    values: Sequence[Any],
    tensors: Sequence[Any],
    wanted: Sequence[bool],
    seed: Any,
) -> list[Any]:
    """Make the backward call of a forward call that was launched at once."""
    args, kwargs = kind.filled(values, tensors)
    return _resumed(target, args, kwargs, tensors, wanted, seed, tuple(seed.shape), seed.dtype, kind)


def _resumed(
    target: Target,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    tensors: Sequence[Any],
    wanted: Sequence[bool],
    seed: Any,
    shape: tuple[int, ...],
    dtype: Any,
    kind: Kind | None,
) -> list[Any]:
    """Make a backward call the way of all calls."""
    found = leaves.collect(target, args, kwargs)
    one = Single(target, found, choose(target.name, target.device, found.leaves), kind)
    one.resume(shape, dtype)
    said: list[Said] = []
    gradients = one.backward([t.detach() for t in tensors], wanted, [seed], said)
    one.finish()
    warn(said)
    return gradients


def warn(said: Sequence[Said]) -> None:
    """Give warnings at the line of the user's that called, or that called `backward`."""
    if not said:
        return
    level = 1
    frame = sys._getframe(0)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
        level += 1
    for category, text in said:
        warnings.warn(text, category, stacklevel=level)
