"""Copies of tensors and differences between two, made on the device where both are on one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slanglab.errors import ArgumentError
from slanglab.tensors import kernels, passes, sources
from slanglab.tensors.layout import View
from slanglab.tensors.sources import Arrays, Source

__all__ = ["copy", "difference"]


def copy(tensor: Any) -> Any:
    """Return a copy of a tensor's numbers, and of its gradient's; components of its elements become axes.

    Parameters
    ----------
    tensor : slangpy.Tensor, ndarray or torch.Tensor

    Raises
    ------
    ArgumentError
        If the elements are structs, or no numbers.
    """
    return _both(tensor, lambda gradient: _copied(sources.source(tensor, None, gradient)))


def difference(tensor: Any, other: Any) -> Any:
    """Return the difference of two tensors' numbers, and of their gradients' where both have one.

    Parameters
    ----------
    tensor, other : slangpy.Tensor, ndarray or torch.Tensor
        Of the same shape, components of elements counted as axes.

    Raises
    ------
    ArgumentError
        If the shapes differ, or the elements are structs, or no numbers.
    """

    def minus(gradient: bool) -> Any:
        a, b = (sources.source(one, None, gradient) for one in (tensor, other))
        if _shape(a) != _shape(b):
            raise ArgumentError(
                "A difference is between tensors of one shape.",
                argument="other",
                expected=str(_shape(a)),
                given=str(_shape(b)),
            )
        if isinstance(a, View) and isinstance(b, View) and a.storage.device == b.storage.device:
            return _subtracted(a, b)
        left, right = _host(a), _host(b)
        kind = np.result_type(left, right, np.float32)
        with np.errstate(all="ignore"):  # as on a device: Inf less Inf is NaN, and shown as such
            less = left.astype(kind) - right.astype(kind)
        return np.asarray(less)  # NumPy makes a scalar of arrays without axes

    return _both(tensor, minus, _has_gradient(other))


def _has_gradient(tensor: Any) -> bool:
    if sources.is_tensor(tensor):
        return sources.gradient_of(tensor) is not None
    return sources.arrays(tensor).gradient is not None


def _both(tensor: Any, made: Any, wanted: bool = True) -> Any:
    """Return what `made` makes of the value and of the gradient as one tensor, or as arrays."""
    value = made(False)
    gradient = made(True) if wanted and _has_gradient(tensor) else None
    if isinstance(value, np.ndarray):
        if gradient is not None and not isinstance(gradient, np.ndarray):
            gradient = gradient.to_numpy()
        return Arrays(value, gradient)
    if gradient is None or isinstance(gradient, np.ndarray):
        return value
    return value.with_grads(gradient, gradient, zero=False)


def _shape(source: Source) -> tuple[int, ...]:
    return source.all.shape if isinstance(source, View) else source.shape


def _host(source: Source) -> NDArray[Any]:
    found = passes.gather(source.storage.device, source) if isinstance(source, View) else source
    return found.astype(np.float64) if found.dtype.kind in "biu" else found


def _copied(source: Source) -> Any:
    if not isinstance(source, View):
        return np.array(source)
    device = source.storage.device
    name = {"float16": "half", "float32": "float", "float64": "double"}.get(source.form.name)
    kind = name or (source.form.name if source.form.form == "BOOL" else f"{source.form.name}_t")
    made = _room(device, source.all.shape, kind)
    if source.all.count:
        passes.gather_into(device, source, made.storage)
    return made


def _subtracted(a: View, b: View) -> Any:
    """Return the difference of two views of one device: in double precision where a float32 does not hold the elements."""
    device = a.storage.device
    if a.form != b.form or (a.form.wide and not kernels.has_wide(device)):
        left, right = _host(a), _host(b)
        return left.astype(np.float64) - right.astype(np.float64)
    made = _room(device, a.all.shape, "double" if a.form.wide else "float")
    if a.all.count:
        passes.subtract_into(device, a, b, made.storage)
    return made


def _room(device: Any, shape: tuple[int, ...], kind: str) -> Any:
    import slangpy as spy

    if math.prod(shape) == 0:
        one = spy.Tensor.empty(device, (1,), kind)
        return one.view(shape, (1,) * len(shape), 0)
    if not shape:
        return spy.Tensor.empty(device, (1,), kind).view((), (), 0)
    return spy.Tensor.empty(device, shape, kind)
