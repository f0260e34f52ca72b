"""Making tensors: contiguous, of the dtype that Slang functions take, on the lab's device.

There is no tensor class of our own; these functions return `slangpy.Tensor`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import slangpy as spy

from slanglab import elsewhere
from slanglab.device import current_device
from slanglab.errors import SlangLabError
from slanglab.scalars import SCALARS, numbers_in, type_name
from slanglab.tensors import foreign

__all__ = [
    "TensorError",
    "allocate",
    "assign",
    "empty",
    "from_array",
    "full",
    "linspace",
    "ones",
    "random",
    "tensor",
    "with_grad",
    "zeros",
]

Shape = int | Sequence[int]

_BY_DTYPE = {dtype: name for name, dtype in reversed(SCALARS.items()) if name != "float16_t"}
_LARGEST = 4 * 1024**3  # bytes; a single buffer of more is refused by Vulkan drivers


class TensorError(SlangLabError, ValueError):
    """A tensor that cannot be made: shape, dtype or size."""


def _checked_shape(shape: Any) -> tuple[int, ...]:
    axes = (shape,) if isinstance(shape, (int, float, np.number)) else tuple(shape)
    for n in axes:
        if isinstance(n, bool) or not isinstance(n, (int, np.integer)):
            raise TensorError(f"a shape holds whole numbers, and {axes} does not")
        if n < 0:
            raise TensorError(f"a shape cannot hold a negative number: {axes}")
    return tuple(int(n) for n in axes)


def _element(dtype: Any) -> Any:
    """Return what slangpy takes for `dtype`: a Slang type name, a numpy dtype, a Python type or a slangpy type."""
    if dtype is None:
        return "float"
    if isinstance(dtype, str) and dtype not in np.sctypeDict:
        return dtype
    if isinstance(dtype, str) and dtype in SCALARS:
        return dtype
    if dtype in (float, int, bool):
        return {float: "float", int: "int", bool: "bool"}[dtype]
    try:
        numpy_dtype = np.dtype(dtype)
    except TypeError:
        return dtype
    if numpy_dtype == np.dtype(object):  # numpy takes any class for `object`; slangpy knows its own
        return dtype
    if numpy_dtype not in _BY_DTYPE:
        raise TensorError(
            f"Slang has no type for {numpy_dtype.name}", hint=f"choose one of {', '.join(SCALARS)}"
        )
    return _BY_DTYPE[numpy_dtype]


def allocate(
    device: spy.Device,
    shape: tuple[int, ...],
    element: Any,
    **placed: Any,
) -> Any:
    """Return an uninitialised tensor; one without elements is a view of a buffer of one, as slangpy allocates no empty ones.

    Parameters
    ----------
    device, shape, element
        As slangpy has them.
    **placed
        slangpy's `usage` and `memory_type`.
    """
    real = shape if shape else (1,)
    count = math.prod(real)
    if count == 0:
        one = spy.Tensor.empty(device, (1,), element)
        strides = np.ones(len(real), dtype=np.int64)
        return one.view(real, tuple(int(s) for s in strides), 0)
    try:
        # Padded to 4 bytes: slangpy's clear leaves the last bytes of other sizes as they were.
        return spy.Tensor.empty(device, real, element, **placed)
    except (RuntimeError, TypeError, ValueError) as error:
        text = str(error)
        if "createBuffer" in text or "incompatible function arguments" in text or count >= 2**31:
            raise TensorError(
                f"a tensor of shape {shape} has {count:_} elements, which is too large for one buffer of this device",
                hint=f"a buffer holds less than {_LARGEST // 2**30} GiB and 2 147 483 648 elements; split the data",
            ) from error
        raise TensorError(
            f"{_name(element)!r} cannot be the element type of a tensor: {text.splitlines()[0]}"
        ) from error


def _name(element: Any) -> str:
    return type_name(element if isinstance(element, str) else str(getattr(element, "full_name", element)))


def with_grad(result: Any, grad: bool) -> Any:
    """Return a tensor with a gradient of zeros, where that is wanted."""
    if not grad:
        return result
    if result.element_count == 0:
        gradient = result.view(result.shape.as_tuple(), tuple([1] * len(result.shape.as_tuple())), 0)
        return result.with_grads(gradient, gradient, zero=False)
    try:
        made = result.with_grads(zero=True)
    except RuntimeError as error:
        raise TensorError(
            f"a tensor of {_name(result.dtype)} cannot have a gradient: {str(error).splitlines()[0]}",
            hint="gradients exist for float, half, and their vectors, matrices and arrays",
        ) from error
    _clear(made.grad)
    return made


def _clear(target: Any) -> None:
    """Fill a tensor with zeros, the last bytes too: slangpy's own `clear` leaves those of a size that is no multiple of 4."""
    if target.element_count == 0:
        return
    if target.storage.size % 4:
        nothing = np.zeros(target.to_numpy().shape, dtype=target.to_numpy().dtype)
        target.copy_from_numpy(nothing)
    else:
        target.clear()


def from_array(device: spy.Device, array: np.ndarray[Any, Any], element: Any, element_rank: int = 0) -> Any:
    """Upload a contiguous array as a tensor of `element`, whose last `element_rank` axes make one element."""
    shape = array.shape[: array.ndim - element_rank]
    result = allocate(device, shape, element)
    if array.size:
        result.copy_from_numpy(np.ascontiguousarray(_as_stored(array, result)))
    return result


def _as_stored(array: np.ndarray[Any, Any], target: Any) -> np.ndarray[Any, Any]:
    """Return an array as the device stores it: a bool takes 4 bytes on Vulkan and one on CUDA."""
    if array.dtype != np.bool_:
        return array
    wide = target.storage.size // max(1, array.size) >= 4
    return array.astype(np.uint32 if wide else np.uint8)


@elsewhere.by_engine
def tensor(data: Any, grad: bool = False, dtype: Any = None) -> Any:
    """Make a tensor from numbers.

    Parameters
    ----------
    data : array_like
        Numbers, nested lists, a numpy array of any layout and byte order, a `slangpy.Tensor`, or an array of another library
        that speaks DLPack (torch, cupy, jax); always copied.
    grad : bool
        Attach a gradient, filled with zeros.
    dtype : optional
        A Slang type ("float", "half", "float3", `module.float3`), a numpy dtype or a Python type. By default float64 becomes
        float32, and int64 becomes int32; with `grad`, integers become float32. For a vector, a matrix or an array of
        them ("half3[2]") the last axes of `data` are the element's.

    Returns
    -------
    slangpy.Tensor
        Contiguous, on the lab's device; `()` becomes `(1,)`, since slangpy has no 0-d tensors with gradients.

    Raises
    ------
    TensorError
        For data without a Slang type, values that do not fit, or a shape that does not match `dtype`.
    """
    if isinstance(data, spy.Tensor):
        data = data.to_numpy()
    if foreign.is_foreign(data):
        data = foreign.on_host(data)
    try:
        array = np.asarray(data)
    except ValueError as error:
        raise TensorError(f"the data is no array: {error}") from None
    if array.dtype.kind not in "fiub":
        raise TensorError(
            f"Slang has no type for {array.dtype.name}",
            hint="pass real numbers, for example `.astype(np.float32)`",
        )
    if dtype is None:
        element = _default_element(array, grad)
        return with_grad(_upload(array, element, ()), grad)
    element = _element(dtype)
    return with_grad(_upload(array, element, _element_shape(element)), grad)


def _default_element(array: np.ndarray[Any, Any], grad: bool) -> str:
    if array.dtype.kind == "f":
        return "half" if array.dtype.itemsize == 2 else "float"
    if grad:
        return "float"
    return (
        {8: "int"}.get(array.dtype.itemsize, _BY_DTYPE[array.dtype])
        if array.dtype == np.int64
        else _BY_DTYPE[array.dtype]
    )


def _element_shape(element: Any) -> tuple[int, ...]:
    return _numbers(element)[1]


def _numbers(element: Any) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Return the scalar type of an element, and its shape; refuse what holds no numbers."""
    name = _name(element)
    found = numbers_in(name)
    if found is None:
        raise TensorError(
            f"numbers cannot fill a tensor of {name}",
            hint=f"make it with `slanglab.empty(shape, dtype=…)` and write it from a Slang function, "
            f"or pass a dict of tensors where a function takes {name}",
        )
    return found


def _upload(array: np.ndarray[Any, Any], element: Any, element_shape: tuple[int, ...]) -> Any:
    rank = len(element_shape)
    if rank and array.shape[-rank:] != element_shape:
        raise TensorError(
            f"data of shape {array.shape} does not hold {_name(element)}: its last axes must be {element_shape}"
        )
    ready = _converted(array, element)
    if ready.ndim == rank:
        ready = ready.reshape(1, *ready.shape)
    return from_array(current_device(), ready, element, rank)


def _converted(array: np.ndarray[Any, Any], element: Any) -> np.ndarray[Any, Any]:
    """Return the numbers in the scalar type of `element`, contiguous; values that do not fit an integer type are refused."""
    wanted, _ = _numbers(element)
    if wanted.kind in "iu" and array.size:
        _check_integers(array, wanted)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.array(array, dtype=wanted, order="C")


def _check_integers(array: np.ndarray[Any, Any], wanted: np.dtype[Any]) -> None:
    limits = np.iinfo(wanted)
    if array.dtype.kind == "f" and not np.all(np.isfinite(array) & (array == np.floor(array))):
        raise TensorError(
            f"the data holds fractions, and {wanted.name} does not", hint="round it, or choose float"
        )
    low, high = array.min(), array.max()
    if low < limits.min or high > limits.max:
        raise TensorError(f"the data holds {low} to {high}; {wanted.name} holds {limits.min} to {limits.max}")


@elsewhere.by_engine
def empty(shape: Shape, dtype: Any = None, grad: bool = False) -> Any:
    """Return a tensor whose contents are not set.

    Parameters
    ----------
    shape : int or sequence of int
    dtype : optional
        As for `tensor`; also a struct of a cell.
    grad : bool
        Attach a gradient, filled with zeros.

    Returns
    -------
    slangpy.Tensor
    """
    return with_grad(allocate(current_device(), _checked_shape(shape), _element(dtype)), grad)


@elsewhere.by_engine
def zeros(shape: Shape, dtype: Any = None, grad: bool = False) -> Any:
    """Return a tensor of zeros; parameters as for `empty`."""
    result = allocate(current_device(), _checked_shape(shape), _element(dtype))
    _clear(result)
    return with_grad(result, grad)


@elsewhere.by_engine
def full(shape: Shape, value: Any, dtype: Any = None, grad: bool = False) -> Any:
    """Return a tensor that holds `value` everywhere; for a vector type one number or one vector. Else as for `empty`."""
    element = _element(dtype)
    cell = _element_shape(element)
    data = np.broadcast_to(np.asarray(value, dtype=np.float64), (*_checked_shape(shape), *cell))
    return with_grad(_upload(data, element, cell), grad)


@elsewhere.by_engine
def ones(shape: Shape, dtype: Any = None, grad: bool = False) -> Any:
    """Return a tensor of ones; parameters as for `empty`."""
    return full(shape, 1, dtype, grad)


@elsewhere.by_engine
def linspace(start: float, stop: float, num: int = 50, dtype: Any = None, grad: bool = False) -> Any:
    """Return `num` evenly spaced numbers from `start` to `stop`, both included, computed in float64."""
    return tensor(np.linspace(start, stop, num), grad=grad, dtype=dtype)


@elsewhere.by_engine
def random(
    shape: Shape,
    low: float = 0.0,
    high: float = 1.0,
    seed: int | np.random.Generator | None = None,
    dtype: Any = None,
    grad: bool = False,
) -> Any:
    """Return uniform random numbers from `low` (included) to `high` (excluded), from numpy's generator.

    Parameters
    ----------
    shape : int or sequence of int
    low, high : float
    seed : int or numpy.random.Generator, optional
        The same seed gives the same numbers on every device.
    dtype, grad
        As for `empty`.
    """
    element = _element(dtype)
    cell = _element_shape(element)
    generator = np.random.default_rng(seed)
    values: npt.NDArray[np.float64] = generator.uniform(low, high, (*_checked_shape(shape), *cell))
    return with_grad(_upload(values, element, cell), grad)


@elsewhere.by_value
def assign(target: Any, data: Any) -> None:
    """Overwrite the values of a tensor, converted to its dtype.

    slangpy's own `copy_from_numpy` copies bytes: it takes integers for floats, and fewer numbers than there is room for.

    Parameters
    ----------
    target : slangpy.Tensor
        Contiguous.
    data : array_like
        Of the tensor's shape (with the axes of its elements behind), or a number.

    Raises
    ------
    TensorError
        When the shapes differ, or values do not fit; the tensor is then as it was.
    """
    element = target.dtype
    cell = _element_shape(element)
    shape = (*target.shape.as_tuple(), *cell)
    array = np.asarray(data)
    if array.dtype.kind not in "fiub":
        raise TensorError(f"Slang has no type for {array.dtype.name}")
    if array.ndim == 0:
        array = np.broadcast_to(array, shape)
    if array.shape != shape:
        raise TensorError(f"data of shape {array.shape} does not fit a tensor of shape {shape}")
    if not target.is_contiguous():
        raise TensorError(
            "a strided view cannot be assigned to", hint="assign to the tensor that it is a view of"
        )
    ready = _converted(array, element)
    if ready.size:
        target.copy_from_numpy(_as_stored(ready, target))
