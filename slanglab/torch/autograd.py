"""A call of a Slang function as a node of torch's graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from slanglab.engine.dispatch import Said
from slanglab.torch.once import at_most_once
from slanglab.torch.single import Single

__all__ = ["through"]

Warn = Callable[[Sequence[Said]], None]


def through(one: Single, said: list[Said], warn: Warn) -> list[Any]:
    """Make a call within torch's graph; return its outputs, as `Single.forward` does.

    Parameters
    ----------
    one : Single
    said : list of Said
        Gets the warnings of the forward call.
    warn : callable
        Gives those of a backward call, which come when torch makes it.
    """
    one.keep(said)
    tensors = [leaf.tensor for leaf in one.leaves]
    return list(_Through.apply(one, said, warn, *tensors))


class _Through(torch.autograd.Function):  # type: ignore[misc]
    """The node: its inputs are all torch tensors of the call, its outputs the result and the tensors that the call writes."""

    @staticmethod
    def forward(ctx: Any, one: Single, said: list[Said], warn: Warn, *tensors: Any) -> tuple[Any, ...]:
        outputs = one.forward(said, kept=True)
        # Saved so that torch notices a change in place before the backward call; the numbers are on the device already.
        ctx.save_for_backward(*(t for t, leaf in zip(tensors, one.leaves, strict=True) if not leaf.writes))
        ctx.mark_dirty(*(t for t, leaf in zip(tensors, one.leaves, strict=True) if leaf.writes))
        differentiable = bool(one.target.slang_function.differentiable)
        ctx.mark_non_differentiable(*(t for t in outputs if not (differentiable and t.is_floating_point())))
        ctx.set_materialize_grads(False)
        ctx.one, ctx.warn = one, warn
        one.let_go()
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *seeds: Any) -> tuple[Any, ...]:
        one: Single = ctx.one
        saved = ctx.saved_tensors  # raises where one was changed in place
        nothing = (None, None, None)
        if all(seed is None for seed in seeds):
            return nothing + (None,) * len(one.leaves)
        said: list[Said] = []
        with torch.no_grad():
            found = one.backward(saved, ctx.needs_input_grad[3:], seeds, said)
        ctx.warn(said)
        if torch.is_grad_enabled():  # create_graph=True
            found = list(at_most_once(one.target.name, found, (*saved, *seeds)))
        return nothing + tuple(found)
