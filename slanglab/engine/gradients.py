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

__all__ = [
    "at_its_place",
    "check_backward",
    "check_concrete",
    "clear",
    "frozen",
    "has_gradient",
    "is_concrete",
    "is_in_place",
    "kernel_key",
    "receives",
    "with_scratch",
]


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

    Those are which tensors carry gradients, inside of dicts and lists too, what texture a view is of, and which of slangpy's generators an
    argument is: `thread_id(1)` and a grid of one axis, or `wang_hash()` and `rand_float()`, would run each other's kernels.

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


_GENERATORS = tuple(type(v) for v in (spy.call_id(), spy.thread_id(), spy.wang_hash(), spy.rand_float()))
_PLAIN = frozenset({bool, float, int, np.ndarray, str, type(None)})


def _add_key(found: list[str], value: Any, with_gradients: bool) -> None:
    if type(value) in _PLAIN:
        return
    if isinstance(value, spy.Tensor):
        if with_gradients:
            found.append("r" if value.grad_in is not None else "-")
            found.append("w" if value.grad_out is not None else "-")
    elif isinstance(value, _GENERATORS):
        found.append(f"[{type(value).__name__}]")
    elif isinstance(value, spy.TextureView):
        texture = value.texture.desc
        found.append(f"[{texture.type.name} {texture.array_length} {texture.format.name} {texture.usage}]")
    elif isinstance(value, Mapping):
        for inner in value.values():
            _add_key(found, inner, with_gradients)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            if isinstance(inner, (spy.Tensor, spy.TextureView, Mapping, list, tuple, *_GENERATORS)):
                _add_key(found, inner, with_gradients)
    elif hasattr(value, "get_this"):
        inner = getattr(value, "_data", None)  # InstanceList; its `get_this` may do more than return it
        if isinstance(inner, (spy.Tensor, Mapping)):
            _add_key(found, inner, with_gradients)


def is_concrete(spec: Parameter) -> bool:
    """Tell whether a parameter is a `DiffTensor` by its class, which binds a gradient in every call."""
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
        if is_concrete(spec) and isinstance(value, spy.Tensor) and not has_gradient(value):
            raise _lacks_gradient(
                function,
                spec,
                value,
                f"needs a gradient, as {spec.type} binds its buffer in every call",
                f"pass `{spec.name}.with_grads()`, or declare the parameter as I{spec.type}",
            )


def _lacks_gradient(
    function: str, spec: Parameter, value: Any, message: str, hint: str | None = None
) -> ArgumentError:
    """Make the error for a tensor that has to have a gradient."""
    return ArgumentError(
        f"{function}: argument {spec.name} {message}",
        function=function,
        argument=spec.name,
        expected=f"{spec.type}: a tensor with a gradient",
        given=f"{describe_value(value)}, without a gradient",
        hint=hint or f"attach one first: `{spec.name} = {spec.name}.with_grads()`",
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
        _check_argument(function, spec, values.get(spec.name))
    received = [values.get(s.name) for s in specs if receives(s)]
    if not any(has_gradient(v) for v in (*received, this)):
        raise _nothingreceives(function, specs, values)


def _nothingreceives(function: str, specs: Sequence[Parameter], values: Mapping[str, Any]) -> CallError:
    could = [s for s in specs if receives(s)]
    lacking = next((s for s in could if isinstance(values.get(s.name), spy.Tensor)), None)
    if lacking is not None:
        return _lacks_gradient(
            f"{function}.bwds",
            lacking,
            values[lacking.name],
            "has no gradient attached, and no other argument has one",
        )
    example = could[0].name if could else (specs[0].name if specs else "x")
    return CallError(
        f"{function}.bwds: no argument can receive a gradient",
        function=f"{function}.bwds",
        hint=f"attach one: `{example} = slanglab.tensor({example}, grad=True)`",
    )


def _check_argument(function: str, spec: Parameter, value: Any) -> None:
    """Refuse an argument whose gradient slangpy would leave at zero, or spoil."""
    function = f"{function}.bwds"
    if spec.kind != "tensor":
        if spec.reads and spec.writes and spec.differentiable and not spec.no_diff:
            raise CallError(
                f"{function}: slangpy gives every argument of a call with an inout parameter ({spec.name}) a gradient of zero",
                function=function,
                argument=spec.name,
                hint=f"take the old value and return the new one: `{spec.type} f(…, {spec.type} {spec.name})`, or use an "
                f"`out` parameter beside it, or `IRWDiffTensor<{spec.type}, 1>` with two gradient buffers",
            )
        if spec.kind == "struct" and not spec.differentiable and has_gradient(value):
            raise ArgumentError(
                f"{function}: argument {spec.name} has gradients, but {spec.type} is not differentiable, so they would stay as they are",
                function=function,
                argument=spec.name,
                expected=f"{spec.type} : IDifferentiable",
                given=describe_value(value),
                hint=f"declare it as `struct {spec.type} : IDifferentiable`",
            )
        return
    if not _is_differentiable_tensor(spec) or not isinstance(value, spy.Tensor):
        return
    if spec.writes and not has_gradient(value):
        raise _lacks_gradient(function, spec, value, "has no gradient attached")
    if is_in_place(spec) and value.grad_in is not None and value.grad_in is value.grad_out:
        raise ArgumentError(
            f"{function}: argument {spec.name} is overwritten by the function, and its seed and its gradient share one buffer",
            function=function,
            argument=spec.name,
            expected=f"{spec.type}: a tensor whose grad_in (the seed) and grad_out (the gradient) are two tensors",
            given=describe_value(value),
            hint=f"attach two: `{spec.name} = {spec.name}.with_grads(grad_in=slanglab.ones(…), grad_out=slanglab.zeros(…), zero=False)`",
        )


def receives(spec: Parameter) -> bool:
    """Tell whether a backward call writes gradients of what is passed for a parameter.

    Reflection calls everything `no_diff` that is not differentiable, tensors among it, whether the text says so or not.
    """
    if not spec.reads:
        return False
    if spec.kind in ("tensor", "other"):
        return spec.kind == "other" or _is_differentiable_tensor(spec)
    return spec.differentiable and not spec.no_diff


def is_in_place(spec: Parameter) -> bool:
    """Tell whether a parameter is a differentiable tensor that is read and written: `IRWDiffTensor` and its kin."""
    return spec.reads and spec.writes and _is_differentiable_tensor(spec)


def frozen(specs: Sequence[Parameter], values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the differentiable parameters whose arguments cannot receive a gradient: numbers, arrays, tensors without one."""
    return tuple(
        s.name for s in specs if receives(s) and s.kind != "other" and not has_gradient(values.get(s.name))
    )


def with_scratch(specs: Sequence[Parameter], values: dict[str, Any]) -> dict[str, Any]:
    """Give tensors that are frozen a gradient for the time of a call.

    Outside of CUDA slangpy has no kernel for an `IDiffTensor` without a gradient (on CUDA it writes through a null pointer): the
    gradient is made, and thrown away.

    Parameters
    ----------
    specs : sequence of Parameter
    values : dict of str to object
        The arguments by name; left as they are.

    Returns
    -------
    dict of str to object
        The same dict when nothing had to be done.
    """
    lacking = [
        s.name
        for s in specs
        if _is_differentiable_tensor(s)
        and s.reads
        and isinstance(v := values.get(s.name), spy.Tensor)
        and not has_gradient(v)
    ]
    return {**values, **{name: values[name].with_grads() for name in lacking}} if lacking else values


def at_its_place(function: str, name: str, value: Any) -> Any:
    """Return a value of a backward call such that the gradient of a view is the same part of its owner's gradient.

    A view that slangpy makes keeps the gradient of its owner whole: what one element of the view receives would land in another of the
    owner's, or all of it in the first.

    Parameters
    ----------
    function, name : str
        For the message.
    value : object
        An argument, or what was given as `_result`.

    Returns
    -------
    object
        `value` itself where nothing had to be done.

    Raises
    ------
    ArgumentError
        When the owner's gradient does not lie as the owner does.
    """
    if isinstance(value, Mapping):
        placed = {k: at_its_place(function, f"{name}.{k}", v) for k, v in value.items()}
        return placed if any(placed[k] is not v for k, v in value.items()) else value
    if not isinstance(value, spy.Tensor):
        return value
    given = (value.grad_in, value.grad_out)
    if all(g is None or g.shape == value.shape for g in given):
        return value
    stride = int(value.dtype.buffer_layout.stride)
    parts: list[Any] = []
    for gradient in given:
        if gradient is None or gradient.shape == value.shape:
            parts.append(gradient)
            continue
        whole = gradient.element_count * stride == value.storage.size and not gradient.offset
        if not whole or not gradient.is_contiguous():
            raise ArgumentError(
                f"{function}: argument {name} is a view, and its gradient has the shape {gradient.shape.as_tuple()} of another tensor",
                function=function,
                argument=name,
                expected=f"a gradient of shape {value.shape.as_tuple()}",
                given=describe_value(value),
                hint=f"give the view a gradient of its own: `{name} = {name}.detach().with_grads()`",
            )
        parts.append(gradient.view(value.shape.as_tuple(), value.strides.as_tuple(), value.offset))
    if given[0] is given[1]:
        parts[1] = parts[0]
    return value.detach().with_grads(parts[0], parts[1], zero=False)


def clear(specs: Sequence[Parameter], values: Mapping[str, Any], result: Any, this: Any = None) -> None:
    """Zero the gradients that a backward call is about to write; the seeds stay.

    Parameters
    ----------
    specs : sequence of Parameter
    values : dict of str to object
        The arguments by name.
    result, this : object
        What was given as `_result`, whose gradient is a seed, and the instance of a method.
    """
    seeds: list[Any] = []
    found: list[Any] = []
    _collect(result, seeds, "grad_in")
    for spec in specs:
        value = values.get(spec.name)
        if spec.writes:
            _collect(value, seeds, "grad_in")
        if receives(spec):
            _collect(value, found, "grad_out")
    _collect(getattr(this, "_data", None), found, "grad_out")
    done: list[Any] = [*seeds]
    for gradient in found:
        if not any(gradient is other for other in done):
            gradient.clear()
            done.append(gradient)


def _collect(value: Any, found: list[Any], which: str) -> None:
    if isinstance(value, spy.Tensor):
        gradient = getattr(value, which)
        if gradient is not None:
            found.append(gradient)
    elif isinstance(value, Mapping):
        for inner in value.values():
            _collect(inner, found, which)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            if not isinstance(inner, (int, float)):
                _collect(inner, found, which)


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
