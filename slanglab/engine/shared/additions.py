"""Gradients that take more atomic additions than their type can hold.

Gathers (`w[index]` from many threads) and what cannot be shared are added to cell by cell. A half has 11 significant bits: once a cell
holds 2048 times its addends, another changes nothing. A float has 24; from 2^22 additions of one size on, rounding reaches percents.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import slangpy as spy

from slanglab.engine.parameters import Parameter
from slanglab.engine.shared.argument import worth
from slanglab.scalars import type_name

__all__ = ["additions"]

_HOLDS = {"half": 2**11, "float16_t": 2**11, "float": 2**22}
_DIFFERENTIABLE = frozenset({"IDiffTensor", "DiffTensor", "IRWDiffTensor", "RWDiffTensor"})


def additions(
    values: Mapping[str, Any], specs: Sequence[Parameter], call_shape: tuple[int, ...], backward: bool = True
) -> list[str]:
    """Return a sentence for each argument whose cells take more additions in one call than their type can hold.

    Counted as one addition a thread, spread evenly over the cells; a loop in the function makes more.

    Parameters
    ----------
    values : mapping of str to object
        The arguments by parameter, before they are wrapped.
    specs : sequence of Parameter
    call_shape : tuple of int
    backward : bool
        False for a forward call, in which only an `AtomicTensor` is added to.

    Returns
    -------
    list of str
        Empty as a rule.
    """
    found = []
    threads = math.prod(call_shape)
    for name, value, spec in _leaves("", values, specs):
        target, what = _added_to(value, spec, call_shape, backward)
        if target is None or not target.element_count:
            continue
        element = type_name(target.dtype.full_name)
        scalar = next((s for s in _HOLDS if element.startswith(s)), None)
        # A parameter that is no tensor takes all numbers of its value in each thread; from a tensor a thread takes one element.
        numbers = target.element_count * math.prod(target.dtype.shape.as_tuple())
        each = (
            threads // target.element_count
            if spec.kind == "tensor"
            else threads * math.prod(spec.element_shape) // numbers
        )
        if scalar is None or each <= _HOLDS[scalar]:
            continue
        cells = (
            "its one element" if target.element_count == 1 else f"each of its {target.element_count} elements"
        )
        found.append(
            f"{name}: {cells} takes about {each} additions in this call, and a {scalar} {what} holds about {_HOLDS[scalar]} of one "
            f"size: the rest is lost to rounding. {_remedy(scalar, name)}"
        )
    return found


def _remedy(scalar: str, name: str) -> str:
    if scalar != "float":
        return f"Make {name} a tensor of float and convert where it is read: `half(…)` in the function"
    return f"Call with parts of the data, and add the gradients of {name} in float64: `total += {name}.grad.to_numpy()`"


def _leaves(
    path: str, values: Mapping[str, Any], specs: Sequence[Parameter]
) -> Iterator[tuple[str, Any, Parameter]]:
    for spec in specs:
        value = values.get(spec.name)
        if isinstance(value, Mapping):
            yield from _leaves(f"{path}{spec.name}.", value, tuple(spec.fields.values()))
        elif isinstance(value, spy.Tensor):
            yield f"{path}{spec.name}", value, spec


def _added_to(value: Any, spec: Parameter, call_shape: tuple[int, ...], backward: bool) -> tuple[Any, str]:
    """Return the tensor that the threads add to, and what it is; None where they do not, or not one by one."""
    kind = spec.type.split("<", 1)[0]
    if kind == "AtomicTensor":
        return value, "tensor"
    gradient = value.grad_out
    if not backward or gradient is None:
        return None, ""
    if spec.kind == "tensor":
        return (gradient, "gradient") if kind in _DIFFERENTIABLE else (None, "")
    if spec.writes or spec.no_diff or not spec.differentiable or worth(value, call_shape, spec):
        return None, ""
    return gradient, "gradient"
