"""What a summary is made from: the field of a tensor or of its gradient, a NumPy array, a torch tensor."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from slanglab.errors import ArgumentError
from slanglab.tensors import host, kernels, layout
from slanglab.tensors.layout import View

__all__ = ["Arrays", "Source", "arrays", "gradient_of", "is_tensor", "part", "source"]

Source: TypeAlias = View | NDArray[Any]
"""One field of a tensor as the kernels read it, or a plain array."""


@dataclass(frozen=True, eq=False)
class Arrays:
    """A value and its gradient on the host.

    Attributes
    ----------
    value : ndarray
    gradient : ndarray or None
        Of the same shape.
    device : str
        Where they came from, in words.
    """

    value: NDArray[Any]
    gradient: NDArray[Any] | None = None
    device: str = "host"


def arrays(value: Any) -> Arrays:
    """Return what is no slangpy.Tensor as arrays; those of a torch tensor on the host share its memory.

    Raises
    ------
    ArgumentError
        If the elements are no real numbers.
    """
    if isinstance(value, Arrays):
        return value
    torch: Any = sys.modules.get("torch")
    if not isinstance(value, getattr(torch, "Tensor", ())):
        return Arrays(np.asarray(value))
    return _of_torch(value)


def _of_torch(value: Any) -> Arrays:
    # Of other tensors than leaves torch has no gradient, unless it was told to keep it, and warns about the question.
    grad = value.grad if value.is_leaf or value.retains_grad else None
    same = grad is not None and grad.shape == value.shape
    return Arrays(_numbers(value), _numbers(grad) if same else None, f"torch {value.device}")


def _numbers(value: Any) -> NDArray[Any]:
    plain = value.detach()
    if plain.is_complex():
        raise ArgumentError(
            f"A tensor of {plain.dtype} holds no real numbers.",
            given=str(plain.dtype),
            hint="pass its .real and .imag parts",
        )
    if "strided" not in str(plain.layout):
        plain = plain.to_dense()
    if plain.is_quantized:
        plain = plain.dequantize()
    try:
        found: NDArray[Any] = plain.resolve_neg().cpu().numpy()
    except TypeError:
        # numpy has no such type (bfloat16, the floats of 8 bits): float32 holds each of its numbers.
        found = plain.float().cpu().numpy()
    return found


def gradient_of(tensor: Any) -> tuple[Any, Any] | None:
    """Return a tensor's gradient and the tensor whose shape and strides it is read with.

    slangpy does not slice gradients: `t[0].grad` is the gradient of all of `t`. Where the two memories are alike, the
    part that belongs to the view is read.

    Returns
    -------
    (slangpy.Tensor, slangpy.Tensor or None) or None
        None where the tensor has no gradient. The second is None where the gradient has a layout of its own.

    Raises
    ------
    ArgumentError
        If the gradient has another shape than the tensor and is not that of a tensor this one is a view of.
    """
    grad = tensor.grad_out if tensor.grad_out is not None else tensor.grad_in
    if grad is None:
        return None
    if grad.shape.as_tuple() == tensor.shape.as_tuple():
        return grad, None
    if grad.storage.size == tensor.storage.size and grad.offset == 0:
        return grad, tensor
    raise ArgumentError(
        f"The gradient has shape {grad.shape.as_tuple()} and the tensor {tensor.shape.as_tuple()}: "
        "which parts belong together is not known.",
        hint="slice the gradient itself: t.grad[0]",
    )


def is_tensor(value: Any) -> bool:
    """Tell whether a value is a slangpy.Tensor; all else is taken for arrays."""
    import slangpy as spy

    return isinstance(value, spy.Tensor)


def _named(found: dict[str, Callable[[], Source]], field: str | None) -> Source:
    if field is None and len(found) == 1:
        return next(iter(found.values()))()
    if field in found:
        return found[field]()
    names = ", ".join(name for name in found if name)
    said = (
        "Elements are structs: name one of their fields."
        if field is None
        else f"Elements have no field {field!r}."
    )
    raise ArgumentError(said, argument="field", expected=names or "no field: elements are plain numbers")


def source(tensor: Any, field: str | None, gradient: bool) -> Source:
    """Return the numbers to look at: of a tensor, of its gradient, or of an array; of one field where there are several.

    Raises
    ------
    ArgumentError
        If there are no numbers, `field` is missing or unknown, or there is no gradient.
    """
    if not is_tensor(tensor):
        both = arrays(tensor)
        plain = both.gradient if gradient else both.value
        if plain is None:
            raise ArgumentError("This array has no gradient.", argument="gradient")
        return _named({name: lambda a=a: a for name, a in host.fields(plain).items()}, field)  # type: ignore[misc]
    like = None
    if gradient:
        grad = gradient_of(tensor)
        if grad is None:
            raise ArgumentError(
                "This tensor has no gradient.", argument="gradient", hint="make one with t = t.with_grads()"
            )
        tensor, like = grad
    return _named({f.name: lambda f=f: part(tensor, f, like) for f in layout.fields(tensor)}, field)  # type: ignore[misc]


def part(tensor: Any, field: layout.Field, like: Any = None) -> Source:
    """Return one field of a tensor, with the shape and strides of `like`.

    On the host where the device cannot compute with its type.
    """
    found = layout.view(tensor, field, like)
    if not field.form.wide or kernels.has_wide(tensor.device):
        return found
    whole = found.all
    if whole.count == 0:
        return np.zeros(whole.shape, field.form.name)
    size = field.form.bits // 8
    memory = found.storage.to_numpy().tobytes()
    flat = np.frombuffer(memory, field.form.name, count=whole.end - whole.base, offset=whole.base * size)
    return np.lib.stride_tricks.as_strided(
        flat, whole.shape, tuple(s * size for s in whole.strides), writeable=False
    )
