"""Whether torch is to have a call in its graph, and what of its arguments has to be held for the backward call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import slangpy as spy
import torch

from slanglab.engine import gradients
from slanglab.engine.dispatch import GradientWarning, Said
from slanglab.engine.parameters import Parameter
from slanglab.engine.target import Target
from slanglab.errors import CallError
from slanglab.torch.leaves import Arguments, Leaf

__all__ = ["backward_of", "carries_gradient", "hold"]


def carries_gradient(
    target: Target, leaves: Sequence[Leaf], into: Any, is_struct: bool, said: list[Said]
) -> bool:
    """Tell whether torch is to have a call in its graph, and say what a tensor that requires a gradient will not get.

    Parameters
    ----------
    target : Target
    leaves : sequence of Leaf
    into : object
        What the result is written to where that is no torch tensor, else None.
    is_struct : bool
        Whether the result is a struct.
    said : list of Said
        Gets the warnings.

    Raises
    ------
    CallError
        When the result goes where torch cannot follow.
    """
    asking = [leaf for leaf in leaves if leaf.tensor.requires_grad]
    if not asking or not torch.is_grad_enabled():
        return False
    if any(leaf.writes for leaf in asking):
        return True  # torch has to know that they are written
    names = ", ".join(leaf.where for leaf in asking)
    if not target.slang_function.differentiable:
        _once(
            target,
            said,
            "differentiable",
            f"{target.name} is not [Differentiable], so {names} gets no gradient from it; write [Differentiable] before the "
            "function, and before every function that it calls",
        )
        return False
    for leaf in asking:
        if not leaf.receives and leaf.spec is not None and leaf.spec.kind == "tensor":
            _once(
                target,
                said,
                f"tensor {leaf.where}",
                f"{target.name}: {leaf.where} gets no gradient, as a {leaf.spec.type} carries none; declare it as "
                f"I{leaf.spec.type.replace('Tensor', 'DiffTensor', 1)}",
            )
    if is_struct:
        _once(
            target,
            said,
            "struct",
            f"{target.name} returns a struct, whose fields carry no gradient to torch; return a number or a vector, or write "
            "`out` parameters",
        )
        return False
    if into is not None:
        raise CallError(
            f"{target.name}: {names} requires a gradient, and a result that goes to a {type(into).__name__} "
            "is not in torch's graph",
            function=target.name,
            argument="_result",
            hint="leave _result out, or call within `torch.no_grad()`",
        )
    return any(leaf.receives for leaf in asking)


def _once(target: Target, said: list[Said], about: str, text: str) -> None:
    """Say something once for each function."""
    told: set[str] = target.beside.setdefault("torch told", set())
    if about not in told:
        told.add(about)
        said.append((GradientWarning, text))


def hold(target: Target, given: Arguments, said: list[Said]) -> None:
    """Make sure that a backward call reads what the forward call reads: arrays are copied, and gradients that are not torch's left out."""
    for at, value in enumerate(given.args):
        given.args[at] = _constant(target, at, value, said)
    for name, value in given.kwargs.items():
        given.kwargs[name] = _constant(target, name, value, said)


def _constant(target: Target, key: int | str, value: Any, said: list[Said]) -> Any:
    """Return an argument that is no torch tensor as the backward call is to see it: unchanged since, and without a gradient."""
    if type(value) in (float, int, bool):
        return value
    spec = _spec(target, key)
    if spec is not None and spec.writes:
        return value
    if isinstance(value, np.ndarray):
        return value.copy()
    if not isinstance(value, spy.Tensor) or not gradients.has_gradient(value):
        return value
    name = spec.name if spec is not None else f"argument {key}"
    _once(
        target,
        said,
        f"slangpy {key}",
        f"{target.name}: the slangpy tensor {name} gets no gradient from a call with torch tensors; pass it as a torch "
        "tensor for that",
    )
    plain = value.detach()
    return plain.with_grads() if spec is not None and gradients.is_concrete(spec) else plain


def _spec(target: Target, key: int | str) -> Parameter | None:
    if isinstance(key, str):
        return target.by_name.get(key)
    at = key - (1 if target.this_first else 0)
    return target.parameters[at] if 0 <= at < len(target.parameters) else None


def backward_of(target: Target) -> Target:
    """Return what makes the backward calls of a function."""
    known: Target | None = target.beside.get("torch backward")
    if known is None:
        known = target.beside["torch backward"] = target.modified("bwds", target.node.bwds, (), {})
    return known
