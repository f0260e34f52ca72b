"""Functions of `--torch` cells in torch's autograd graph: pairs `X_fwd`, `X_bwd`, and launches of kernels that have `.bwd`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from slanglab.errors import SlangLabError
from slanglab.torch.entry_points import staging
from slanglab.torch.entry_points.signatures import Pair

__all__ = ["Launched", "apply_pair", "launch"]


class _Refuse(torch.autograd.Function):  # type: ignore[misc]
    """Passes gradients on, and refuses to be differentiated."""

    @staticmethod
    def forward(ctx: Any, shown: str, count: int, *tensors: torch.Tensor) -> Any:
        ctx.shown = shown
        return tuple(t.view_as(t) for t in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *_gradients: Any) -> Any:
        raise SlangLabError(
            f"{ctx.shown} has no second derivative: its gradient is a function of the cell's, which has none of its own",
            hint="call `.backward()` without `create_graph=True`",
        )


def _once(
    shown: str, gradients: Sequence[torch.Tensor | None], through: Sequence[torch.Tensor]
) -> tuple[Any, ...]:
    """Return gradients that cannot be differentiated again, where the graph of the gradients is asked for."""
    if not torch.is_grad_enabled() or not any(t.requires_grad for t in through):
        return tuple(gradients)
    there = [g for g in gradients if g is not None]
    passed = iter(_Refuse.apply(shown, len(there), *there, *through))
    return tuple(None if g is None else next(passed) for g in gradients)


def _flat(result: Any) -> list[torch.Tensor]:
    return staging.tensors_of(result)


# ----- pairs -----


@dataclass(frozen=True)
class _Calls:
    """What a pair calls: two functions of one version of a cell, with lists of arguments."""

    shown: str
    pair: Pair
    forward: Callable[..., Any]
    backward: Callable[..., Any]
    device: torch.device


class _PairFunction(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, calls: _Calls, *inputs: Any) -> Any:
        with staging.on(calls.device):
            result = calls.forward(*inputs)
        outputs = _flat(result)
        tensors = [t for t in inputs if isinstance(t, torch.Tensor)]
        # A function may return what it was given; autograd has to see another tensor.
        outputs = [o.view_as(o) if any(o is t for t in tensors) else o for o in outputs]
        ctx.calls = calls
        ctx.numbers = [None if isinstance(v, torch.Tensor) else v for v in inputs]
        ctx.mark_non_differentiable(*(o for o in outputs if not o.is_floating_point()))
        ctx.save_for_backward(*tensors, *(outputs if calls.pair.takes_outputs else ()))
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        calls, pair = ctx.calls, ctx.calls.pair
        saved = list(ctx.saved_tensors)
        inputs = [
            saved.pop(0) if kind is not None else number
            for kind, number in zip(pair.elements, ctx.numbers, strict=True)
        ]
        with torch.no_grad(), staging.on(calls.device):
            seeds = [
                staging.fitted(g, kind, calls.device) for g, kind in zip(gradients, pair.outputs, strict=True)
            ]
            found = _flat(calls.backward(*(_plain(v) for v in inputs), *(_plain(v) for v in saved), *seeds))
        by_input: list[torch.Tensor | None] = [None] * len(inputs)
        for at, gradient in zip(pair.differentiable, found, strict=True):
            if ctx.needs_input_grad[at + 1]:
                by_input[at] = _shaped(calls.shown, pair.inputs[at].name, gradient, inputs[at])
        through = [t for t in (*inputs, *gradients) if isinstance(t, torch.Tensor)]
        return None, *_once(calls.shown, by_input, through)


def _plain(value: Any) -> Any:
    return value.detach() if isinstance(value, torch.Tensor) else value


def _shaped(shown: str, name: str, gradient: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
    if gradient.shape != given.shape:
        raise SlangLabError(
            f"{shown}: the gradient of `{name}` has the shape {tuple(gradient.shape)}, and `{name}` has {tuple(given.shape)}",
            hint=f"the backward function has to return gradients in the order of the inputs, each as large as its input; look at `{name}`",
        )
    return gradient


def apply_pair(
    shown: str, pair: Pair, forward: Callable[..., Any], backward: Callable[..., Any], values: Sequence[Any]
) -> Any:
    """Call a pair; the result is in the autograd graph where an input asks for it.

    Parameters
    ----------
    shown : str
        The function, for messages.
    pair : Pair
    forward, backward : callable
        slangtorch's functions.
    values : sequence
        One for each input.

    Returns
    -------
    torch.Tensor, or a tuple of such
    """
    named = [(p.name, v) for p, v in zip(pair.inputs, values, strict=True)]
    device = staging.place(named, shown)
    fitted = [
        staging.fitted(v, kind, device) if isinstance(v, torch.Tensor) else v
        for v, kind in zip(values, pair.elements, strict=True)
    ]
    outputs = _PairFunction.apply(_Calls(shown, pair, forward, backward, device), *fitted)
    return outputs[0] if len(outputs) == 1 else outputs


# ----- kernels -----


@dataclass(frozen=True)
class Launched:
    """A launch that autograd is to follow.

    Attributes
    ----------
    shown : str
    names : tuple of str
        The parameters, in order.
    reads, writes : tuple of str
        The differentiable tensors that the kernel reads, and those that it writes.
    run : callable
        Launch the kernel with arguments by name.
    run_backward : callable
        Launch its `.bwd`, likewise.
    device : torch.device
    """

    shown: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    run: Callable[[dict[str, Any]], None]
    run_backward: Callable[[dict[str, Any]], None]
    others: dict[str, Any]
    device: torch.device


class _LaunchFunction(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, launched: Launched, *tensors: torch.Tensor) -> Any:
        named = dict(zip((*launched.reads, *launched.writes), tensors, strict=True))
        with staging.on(launched.device):
            launched.run({**launched.others, **{k: _plain(v) for k, v in named.items()}})
        outputs = tensors[len(launched.reads) :]
        ctx.mark_dirty(*outputs)
        ctx.launched = launched
        ctx.save_for_backward(*tensors)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        launched = ctx.launched
        saved = ctx.saved_tensors
        count = len(launched.reads)
        with torch.no_grad(), staging.on(launched.device):
            made = [torch.zeros_like(t, memory_format=torch.contiguous_format) for t in saved[:count]]
            # The kernel uses up the gradients of what it wrote, which are not ours.
            seeds = [g.to(launched.device).clone(memory_format=torch.contiguous_format) for g in gradients]
            given = [(_plain(t), g) for t, g in zip(saved, (*made, *seeds), strict=True)]
            launched.run_backward(
                {**launched.others, **dict(zip((*launched.reads, *launched.writes), given, strict=True))}
            )
        through = [*saved, *gradients]
        # What the kernel overwrites has no part in the result.
        return None, *_once(launched.shown, [*made, *(None for _ in seeds)], through)


def launch(launched: Launched, tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Launch a kernel in the autograd graph; return the tensors that it wrote, which are those given, changed in place."""
    found: tuple[torch.Tensor, ...] = _LaunchFunction.apply(launched, *tensors)
    return found
