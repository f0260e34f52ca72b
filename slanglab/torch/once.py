"""Gradients that cannot be differentiated again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from slanglab.errors import CallError

__all__ = ["at_most_once"]


def at_most_once(name: str, found: Sequence[Any], sources: Sequence[Any]) -> Sequence[Any]:
    """Return gradients as torch is to have them where it keeps the graph of a backward call: their own node says what is not possible.

    Parameters
    ----------
    name : str
        The function's.
    found : sequence of torch.Tensor or None
    sources : sequence of torch.Tensor or None
        What they depend on.
    """
    sources = [t for t in sources if t is not None and t.requires_grad]
    if not sources:
        return found
    given = [g for g in found if g is not None]
    once = iter(_Once.apply(name, len(given), *given, *sources))
    return [None if g is None else next(once) for g in found]


class _Once(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, name: str, count: int, *tensors: Any) -> tuple[Any, ...]:
        ctx.name = name
        return tuple(t.view_as(t) for t in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *seeds: Any) -> tuple[Any, ...]:
        raise CallError(
            f"{ctx.name}: the gradient of a Slang function cannot be differentiated again",
            function=ctx.name,
            hint="Slang differentiates once in reverse. For a second derivative write the first one as a Slang function of its own "
            "and call that, or leave out `create_graph=True`",
        )
