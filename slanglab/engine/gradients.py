"""What has to be there before a backward call, so that its gradients are right or it says why not.

slangpy runs a backward call without a seed, or without a gradient to write, and leaves zeros behind; worse, the kernel that it builds
then is kept for later calls that do have gradients (its cache key ignores them).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import slangpy as spy

from slanglab.engine.parameters import Parameter
from slanglab.errors import ArgumentError, CallError
from slanglab.values import describe_value

__all__ = ["check_backward", "check_concrete", "has_gradient", "kernel_key"]


def has_gradient(value: Any) -> bool:
    """Tell whether a backward call can write a gradient into `value`, or read a seed from it."""
    if isinstance(value, spy.Tensor):
        return value.grad_in is not None or value.grad_out is not None
    if isinstance(value, Mapping):
        return any(has_gradient(v) for v in value.values())
    if isinstance(value, (list, tuple)):
        return any(has_gradient(v) for v in value)
    # diffPair, and whatever else carries a gradient of its own (InstanceTensor, InstanceList)
    return hasattr(value, "grad") or hasattr(value, "get_this")


def kernel_key(values: Iterable[Any], with_gradients: bool) -> str:
    """Return in which way arguments differ that slangpy's kernel cache takes for the same, as text.

    Those are which tensors carry gradients, inside of dicts and lists too, and what texture a view is of.

    Parameters
    ----------
    values : iterable of object
    with_gradients : bool
        True where a kernel depends on which tensors carry gradients.

    Returns
    -------
    str
        Empty when there is no such difference.
    """
    found: list[str] = []
    for value in values:
        _add_key(found, value, with_gradients)
    return "".join(found)


_PLAIN = frozenset({bool, float, int, np.ndarray, str, type(None)})


def _add_key(found: list[str], value: Any, with_gradients: bool) -> None:
    if type(value) in _PLAIN:
        return
    if isinstance(value, spy.Tensor):
        if with_gradients:
            found.append("r" if value.grad_in is not None else "-")
            found.append("w" if value.grad_out is not None else "-")
    elif isinstance(value, spy.TextureView):
        texture = value.texture.desc
        found.append(f"[{texture.type.name} {texture.array_length} {texture.format.name} {texture.usage}]")
    elif isinstance(value, Mapping):
        for inner in value.values():
            _add_key(found, inner, with_gradients)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            if isinstance(inner, (spy.Tensor, spy.TextureView, Mapping, list, tuple)):
                _add_key(found, inner, with_gradients)
    elif hasattr(value, "get_this"):
        inner = getattr(value, "_data", None)  # InstanceList; its `get_this` may do more than return it
        if isinstance(inner, (spy.Tensor, Mapping)):
            _add_key(found, inner, with_gradients)


def _is_concrete(spec: Parameter) -> bool:
    return spec.type.split("<", 1)[0] in ("DiffTensor", "WDiffTensor", "RWDiffTensor")


def _is_differentiable_tensor(spec: Parameter) -> bool:
    return spec.kind == "tensor" and "DiffTensor" in spec.type.split("<", 1)[0]


def check_concrete(function: str, specs: Sequence[Parameter], values: Mapping[str, Any]) -> None:
    """Refuse a tensor without a gradient where the function names a concrete `DiffTensor`.

    On Vulkan and D3D12 such a parameter binds the gradient's buffer even in a forward call. slangpy lets some of these calls
    pass, depending on what was compiled before.

    Raises
    ------
    ArgumentError
    """
    for spec in specs:
        value = values.get(spec.name)
        if _is_concrete(spec) and isinstance(value, spy.Tensor) and not has_gradient(value):
            raise ArgumentError(
                f"{function}: argument {spec.name} needs a gradient, as {spec.type} binds its buffer in every call",
                function=function,
                argument=spec.name,
                expected=f"{spec.type}: a tensor with a gradient",
                given=f"{describe_value(value)}, without a gradient",
                hint=f"pass `{spec.name}.with_grads()`, or declare the parameter as I{spec.type}",
            )


def check_backward(
    function: str,
    specs: Sequence[Parameter],
    values: Mapping[str, Any],
    result: Any,
    returns: bool,
    this: Any = None,
) -> None:
    """Refuse a backward call that would leave zeros, or nothing.

    Parameters
    ----------
    function : str
        As the user wrote it.
    specs : sequence of Parameter
    values : dict of str to object
        The arguments by name.
    result : object
        What was given as `_result`; None when nothing was.
    returns : bool
        True when the function returns a value, whose cotangent `_result` carries.
    this : object
        The instance that a method is called for.

    Raises
    ------
    CallError
    """
    if returns:
        _check_seed(function, result)
    for spec in specs:
        value = values.get(spec.name)
        if _is_differentiable_tensor(spec) and isinstance(value, spy.Tensor) and not has_gradient(value):
            raise ArgumentError(
                f"{function}.bwds: argument {spec.name} has no gradient attached",
                function=f"{function}.bwds",
                argument=spec.name,
                expected=f"{spec.type}: a tensor with a gradient",
                given=f"{describe_value(value)}, without a gradient",
                hint=f"attach one first: `{spec.name} = {spec.name}.with_grads()`",
            )
    if not any(has_gradient(v) for v in (*values.values(), this)):
        names = [s.name for s in specs if isinstance(values.get(s.name), spy.Tensor)]
        example = names[0] if names else (specs[0].name if specs else "x")
        raise CallError(
            f"{function}.bwds: no argument can receive a gradient",
            function=f"{function}.bwds",
            hint=f"attach one: `{example} = slanglab.tensor({example}, grad=True)`, or "
            f"`{example} = {example}.with_grads()` for a tensor",
        )


def _check_seed(function: str, result: Any) -> None:
    if result is None:
        raise CallError(
            f"{function}.bwds: the seed is missing; without a cotangent of the result there is no gradient",
            function=f"{function}.bwds",
            argument="_result",
            expected="a tensor with a gradient, or a diffPair",
            given="nothing",
            hint=f"run forward into a tensor, seed it and pass it: `r = {function}(…, _result='tensor').with_grads()`, "
            f"`r.grad.copy_from_numpy(ones)`, `{function}.bwds(…, _result=r)`",
        )
    if not has_gradient(result):
        raise CallError(
            f"{function}.bwds: the result has no gradient to start from, so every gradient would be zero",
            function=f"{function}.bwds",
            argument="_result",
            expected="a tensor with a gradient, or a diffPair",
            given=describe_value(result) + (", without a gradient" if isinstance(result, spy.Tensor) else ""),
            hint="attach and seed it: `r = r.with_grads()`, then `r.grad.copy_from_numpy(np.ones(…, np.float32))`"
            if isinstance(result, spy.Tensor)
            else "pass the tensor of the forward call: `_result='tensor'` there, `.with_grads()` and a seed here",
        )
