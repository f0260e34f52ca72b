"""Large elementwise calls on the memory of torch itself: SlangLab's straight kernels take addresses, so that nothing is copied.

The first call of a kind goes the way of all calls, with its checks; if a straight kernel came of it, later calls like it are launched
here. A call whose tensors do not lie as that kernel needs them goes the way of all calls again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from slanglab.engine import routes
from slanglab.engine.binding import bind
from slanglab.engine.plans import least
from slanglab.engine.runs import Details, Trace
from slanglab.engine.straight import Memory, Straight
from slanglab.engine.target import Target
from slanglab.torch.exchange import Exchange
from slanglab.torch.leaves import Arguments, torch_dtype

__all__ = ["Direct", "direct", "kind_of"]

_KEPT = 64


class Direct:
    """The straight kernels of one function for tensors of torch's.

    Parameters
    ----------
    target : Target
        Forward or backward.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._kernels: dict[object, Straight] = {}

    def has(self, kind: object) -> bool:
        """Tell whether there is a kernel for a kind of call that may be used now."""
        control = self._target.control
        return kind in self._kernels and control.plain and control.policy.path != "slangpy"

    def learn(self, kind: object, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Look whether a call that went the way of all calls has a straight kernel, and keep it for its kind."""
        if kind is None or kind in self._kernels or self._target.after is not None:
            return
        kernel = routes.straight_of(self._target, args, kwargs)
        if kernel is not None and kernel.strategy.pointers:
            if len(self._kernels) >= _KEPT:
                self._kernels.clear()
            self._kernels[kind] = kernel

    def launch(self, kind: object, values: Mapping[str, Any], result: Memory, fresh: bool = False) -> bool:
        """Launch the kernel for a kind of call if it takes these arguments; tell whether it did."""
        kernel, target = self._kernels[kind], self._target
        started = time.perf_counter()
        launch = kernel.prepare(values, result)
        if launch is None or launch.count < least(target.device):
            return False
        kernel.start(launch, fresh=fresh)
        details = Details("straight", "", kernel.group_shape, bytes=kernel.bytes(values, result))
        trace = Trace(target.name, target.backward, details)
        target.control.last = trace, time.perf_counter() - started, (), {}
        return True


def direct(target: Target) -> Direct:
    """Return what is known of a function's straight kernels for torch."""
    found: Direct | None = target.beside.get("torch direct")
    if found is None:
        found = target.beside["torch direct"] = Direct(target)
    return found


def kind_of(arguments: Arguments) -> object | None:
    """Return what a call is like, as far as its kernel depends on that; None for one that has no such kernel."""
    if not arguments.simple or arguments.result is not None:
        return None
    found: list[object] = [len(arguments.args), *arguments.kwargs]
    for leaf in arguments.leaves:
        if leaf.spec is None or leaf.given != leaf.dtype or leaf.writes or leaf.spec.kind == "tensor":
            return None
        found += (leaf.where, leaf.given, len(leaf.shape))
    return tuple(found)


def forward(
    target: Target, kind: object, arguments: Arguments, shape: tuple[int, ...], exchange: Exchange
) -> Any:
    """Make a forward call on torch's memory; return its result as a torch tensor, or None where that cannot be.

    Parameters
    ----------
    target : Target
    kind : object
        Of the call.
    arguments : Arguments
    shape : tuple of int
        Of the call.
    exchange : Exchange
    """
    spec = target.result
    tensors = [leaf.tensor.detach() for leaf in arguments.leaves]
    if spec is None or spec.dtype is None or not all(t.is_contiguous() for t in tensors):
        return None
    made = torch.empty((*shape, *spec.element_shape), dtype=torch_dtype(spec.dtype), device=tensors[0].device)
    values = _values(target, arguments, [exchange.memory(t) for t in tensors])
    exchange.begin()
    launched = direct(target).launch(kind, values, exchange.memory(made))
    exchange.end()
    return made if launched else None


def backward(
    target: Target,
    kind: object,
    arguments: Arguments,
    tensors: Sequence[Any],
    wanted: Sequence[bool],
    seed: Any,
    exchange: Exchange,
) -> list[Any] | None:
    """Make a backward call on torch's memory; return the gradients that are wanted, or None where that cannot be.

    Parameters
    ----------
    target : Target
        The backward one.
    kind, arguments, exchange
        As for `forward`.
    tensors : sequence of torch.Tensor
        The inputs.
    wanted : sequence of bool
        For each of them.
    seed : torch.Tensor
    """
    tensors = [t.detach() for t in tensors]
    if not all(t.is_contiguous() for t in tensors):
        return None
    seed = seed.detach().contiguous()
    found = [torch.empty_like(t) if w else None for t, w in zip(tensors, wanted, strict=True)]
    inputs = [
        exchange.memory(t, None, exchange.memory(g) if g is not None else None)
        for t, g in zip(tensors, found, strict=True)
    ]
    given = exchange.memory(seed)
    values = _values(target, arguments, inputs)
    exchange.begin()
    launched = direct(target).launch(kind, values, exchange.memory(seed, given), fresh=True)
    exchange.end()
    return found if launched else None


def _values(target: Target, arguments: Arguments, memories: Sequence[Memory]) -> dict[str, Any]:
    """Return the arguments by parameter."""
    args, kwargs = arguments.filled(memories)
    named = {k: v for k, v in kwargs.items() if k != "_result"}
    return bind(target, args, named).values
