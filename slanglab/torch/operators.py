"""Operators of torch's library that run a Slang function, with what torch's compiler wants to know of them.

An operator has a fixed schema: which arguments are tensors and which are numbers. There is one for each way that a function is called,
made when it is called so first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from slanglab.errors import CallError
from slanglab.torch.signature import Signature

__all__ = ["NAMESPACE", "make"]

NAMESPACE = "slanglab"

_TYPES = {"t": "Tensor", "f": "float", "i": "SymInt", "b": "bool", "F": "float[]", "I": "int[]"}

Run = Callable[[Signature, Sequence[Any]], list[Any]]
Gradients = Callable[[Signature, Sequence[Any], Sequence[int], Sequence[Any]], list[Any]]


def make(qualified: str, signature: Signature, key: str, run: Run, gradients: Gradients) -> Any:
    """Register an operator, and return it.

    Parameters
    ----------
    qualified : str
        "slanglab::name", which must be free.
    signature : Signature
    key : str
        A letter for each of its slots: t for a tensor, f, i and b for a number, F and I for a list of them.
    run : callable
        Makes a call: takes the signature and the arguments, returns the results.
    gradients : callable
        Makes a backward call: takes the signature, the arguments, the places of those whose gradients are wanted, and the seeds of the
        results; returns the gradients, None for zero.
    """
    parameters = ", ".join(
        f"{_TYPES[letter]} {slot.name}" for letter, slot in zip(key, signature.slots, strict=True)
    )
    results = ", ".join("Tensor" for _ in signature.outputs)
    single = len(signature.outputs) == 1
    schema = f"({parameters}) -> {results if single else f'({results})'}"

    def forward(*flat: Any) -> Any:
        with torch.no_grad():
            found = run(signature, flat)
        return found[0] if single else tuple(found)

    def imagined(*flat: Any) -> Any:
        found = signature.results(flat)
        return found[0] if single else tuple(found)

    operator = torch.library.custom_op(qualified, forward, mutates_args=(), schema=schema)
    operator.register_fake(imagined)
    if signature.differentiable:
        _differentiate(operator, qualified, signature, key, parameters, gradients)
    operator.register_vmap(_mapped(operator, signature, key))
    return operator


def _differentiate(
    operator: Any, qualified: str, signature: Signature, key: str, parameters: str, gradients: Gradients
) -> None:
    """Give an operator its gradient: another operator, whose own gradient is an error that says so."""
    receiving = [
        i
        for i, (letter, slot) in enumerate(zip(key, signature.slots, strict=True))
        if letter == "t" and slot.receives
    ]

    def backward(seeds: list[Any], wanted: list[int], *flat: Any) -> list[Any]:
        found = gradients(signature, flat, wanted, seeds)
        return [
            torch.zeros_like(flat[i]) if g is None else g.contiguous().clone()
            for i, g in zip(wanted, found, strict=True)
        ]

    def imagined(seeds: list[Any], wanted: list[int], *flat: Any) -> list[Any]:
        return [flat[i].new_empty(flat[i].shape) for i in wanted]

    def again(ctx: Any, *seeds: Any) -> Any:
        raise CallError(
            f"{signature.function}: the gradient of a Slang function cannot be differentiated again",
            function=signature.function,
            hint="Slang differentiates once in reverse. For a second derivative write the first one as a Slang function of its own "
            "and call that, or leave out `create_graph=True`",
        )

    name = f"{qualified}_backward"
    schema = f"(Tensor[] seeds_, int[] wanted_, {parameters}) -> Tensor[]"
    gradient = torch.library.custom_op(name, backward, mutates_args=(), schema=schema)
    gradient.register_fake(imagined)
    gradient.register_autograd(again)

    def keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*(v for letter, v in zip(key, inputs, strict=True) if letter == "t"))
        ctx.numbers = [v for letter, v in zip(key, inputs, strict=True) if letter != "t"]
        outputs = (output,) if isinstance(output, torch.Tensor) else output
        ctx.mark_non_differentiable(*(o for o in outputs if not o.is_floating_point()))

    def differentiate(ctx: Any, *seeds: Any) -> tuple[Any, ...]:
        tensors, numbers = iter(ctx.saved_tensors), iter(ctx.numbers)
        flat = [next(tensors) if letter == "t" else next(numbers) for letter in key]
        wanted = [i for i in receiving if ctx.needs_input_grad[i]]
        found: list[Any] = [None] * len(flat)
        if wanted:
            for i, g in zip(wanted, gradient(list(seeds), wanted, *flat), strict=True):
                found[i] = g
        return tuple(found)

    operator.register_autograd(differentiate, setup_context=keep)


def _mapped(operator: Any, signature: Signature, key: str) -> Callable[..., Any]:
    """Return the rule for `torch.func.vmap`: a function over elements runs over one axis more."""

    def rule(info: Any, in_dims: Sequence[Any], *flat: Any) -> Any:
        ranks = [
            v.ndim - (dim is not None) - slot.rank if letter == "t" else 0
            for letter, v, dim, slot in zip(key, flat, in_dims, signature.slots, strict=True)
        ]
        most = max(ranks, default=0)
        given = []
        for letter, value, dim, slot, rank in zip(key, flat, in_dims, signature.slots, ranks, strict=True):
            if letter != "t" or dim is None:
                given.append(value)
                continue
            if slot.is_tensor:
                raise CallError(
                    f"{signature.function}: vmap cannot run over {slot.where}, which the function takes whole",
                    function=signature.function,
                    argument=slot.where,
                    hint="loop over that axis, or let the Slang function take one dimension more",
                )
            moved = value.movedim(dim, 0)
            given.append(moved.reshape(moved.shape[0], *[1] * (most - rank), *moved.shape[1:]))
        found = operator(*given)
        return found, (0 if isinstance(found, torch.Tensor) else (0,) * len(found))

    return rule
