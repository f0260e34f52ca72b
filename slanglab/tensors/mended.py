"""Methods of `slangpy.Tensor` that do something else than they say, replaced while SlangLab is loaded.

`clear` zeroes the whole buffer of a view, and leaves the last bytes of a size that is no multiple of 4, as `zeros` and `zeros_like` do;
`copy_from_numpy` copies bytes of whatever type and shape; `from_numpy` reads past strided ones and fails on read-only ones; a
bool is taken for one byte, which on Vulkan has 4; gaps inside an element, which a half3x3 has on CUDA, are read and written; `with_grads`
zeroes the gradients that the caller brings. `install` puts methods in their place that do not, `uninstall` puts back slangpy's own.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import slangpy as spy

from slanglab import waiting
from slanglab.errors import ArgumentError
from slanglab.scalars import numbers_in, type_name
from slanglab.tensors import dlpack, gaps, writes
from slanglab.tensors.clear import clear as _clear
from slanglab.tensors.clear import clear_end
from slanglab.tensors.kernels import kept
from slanglab.values import describe_value
from slanglab.waiting import reads

__all__ = ["install", "installed", "own", "uninstall"]

_NAMES = (
    "__str__",
    "clear",
    "copy_from_numpy",
    "from_numpy",
    "to_numpy",
    "to_torch",
    "with_grads",
    "zeros",
    "zeros_like",
)
_own = {name: spy.Tensor.__dict__[name] for name in _NAMES}
"""slangpy's methods, by name."""

_DEVICE_LOCAL = spy.MemoryType.device_local
_UPLOAD = spy.MemoryType.upload
_COPY_SOURCE = spy.BufferUsage.copy_source


def _call(name: str, *args: Any, **kwargs: Any) -> Any:
    """Call slangpy's method; where it fails because the device is lost, say that."""
    return waiting.told(_own[name], *args, **kwargs)


@functools.wraps(_own["clear"], updated=())
def _mended_clear(self: Any, cmd: Any = None) -> None:
    _check_there(self)
    waiting.told(_clear, self, cmd)
    if writes.watched and cmd is None:
        writes.wrote(self)


@functools.wraps(_own["zeros"], updated=())
def _mended_zeros(*args: Any, **kwargs: Any) -> Any:
    made = _call("zeros", *args, **kwargs)
    clear_end(made)
    return made


@functools.wraps(_own["zeros_like"], updated=())
def _mended_zeros_like(other: Any) -> Any:
    _check_there(other)
    made = _call("zeros_like", other)
    clear_end(made)
    return made


@functools.wraps(_own["copy_from_numpy"], updated=())
def _mended_copy_from_numpy(self: Any, data: Any) -> None:
    _check_there(self)
    if isinstance(data, np.ndarray):
        data = _uploadable(self, data)
        if data.size == 0:
            return
    waiting.before_copy(self.device)
    apart = gaps.spread_out(self, data) if isinstance(data, np.ndarray) and self.is_contiguous() else None
    _call("copy_from_numpy", *((self, data) if apart is None else apart))
    if writes.watched:
        writes.wrote(self)


@functools.wraps(_own["from_numpy"], updated=())
def _mended_from_numpy(device: Any, ndarray: Any, *args: Any, **kwargs: Any) -> Any:
    if isinstance(ndarray, np.ndarray) and ndarray.ndim and ndarray.dtype.kind in "fiu":
        # slangpy copies as many bytes as there are elements, from the first on, whatever the strides
        ready = np.ascontiguousarray(ndarray, ndarray.dtype.newbyteorder("="))
        ndarray = ready if ready.flags.writeable and ready.flags.c_contiguous else ready.copy()
    waiting.before_copy(device)
    return _call("from_numpy", device, ndarray, *args, **kwargs)


@functools.wraps(_own["to_numpy"], updated=())
def _mended_to_numpy(self: Any) -> Any:
    _check_there(self)  # first: of a closed device nothing can be asked
    array = _small(self)
    if array is not None:
        return array
    self = _without_gaps(self)
    if self.memory_type == _UPLOAD and self.storage.desc.usage.value & _COPY_SOURCE.value:
        self = _copied(self)  # of such memory slangpy reads nothing
    array = reads.around(self.device, lambda: _own["to_numpy"](self))
    if array.dtype != np.bool_:
        return array
    storage = self.storage
    stored = np.frombuffer(storage.to_numpy().tobytes(), _stored_bool(storage))
    inner = self.dtype.shape.as_tuple()  # a bool3 has three
    element = storage.struct_size
    strides = [int(s) * element for s in self.strides.as_tuple()]
    strides += [math.prod(inner[i + 1 :]) * stored.itemsize for i in range(len(inner))]
    start = stored[int(self.offset) * element // stored.itemsize :]
    return np.asarray(np.lib.stride_tricks.as_strided(start, (*self.shape.as_tuple(), *inner), strides) != 0)


@functools.wraps(_own["to_torch"], updated=())
def _mended_to_torch(self: Any, *args: Any, **kwargs: Any) -> Any:
    return reads.around(self.device, lambda: _own["to_torch"](_without_gaps(self), *args, **kwargs))


@functools.wraps(_own["__str__"], updated=())
def _mended_str(self: Any) -> Any:
    if (what := waiting.gone(self.device)) is not None:
        # A string that raises would break tracebacks and debuggers; this one says it.
        return f"<{describe_value(self)}; its values are gone: {what}>"
    if numbers_in(self.dtype.full_name) is not None:
        return str(_mended_to_numpy(self))
    return reads.around(self.device, lambda: _own["__str__"](self))


@functools.wraps(_own["with_grads"], updated=())
def _mended_with_grads(self: Any, grad_in: Any = None, grad_out: Any = None, zero: bool | None = None) -> Any:
    if grad_in is None and grad_out is None:
        made = _call("with_grads", self, zero=False)
        if zero is None or zero:
            _clear(made.grad_out)
        return made
    for name, gradient in (("grad_in", grad_in), ("grad_out", grad_out)):
        if gradient is not None:
            _check_gradient(self, name, gradient)
    made = _own["with_grads"](self, grad_in, grad_out, False)
    if zero:
        if grad_in is not None:
            _clear(grad_in)
        if grad_out is not None and grad_out is not grad_in:
            _clear(grad_out)
    return made


_MENDED: dict[str, Any] = {
    "__str__": _mended_str,
    "clear": _mended_clear,
    "copy_from_numpy": _mended_copy_from_numpy,
    "from_numpy": staticmethod(_mended_from_numpy),
    "to_numpy": _mended_to_numpy,
    "to_torch": _mended_to_torch,
    "with_grads": _mended_with_grads,
    "zeros": staticmethod(_mended_zeros),
    "zeros_like": staticmethod(_mended_zeros_like),
}


def own(name: str) -> Any:
    """Return slangpy's own method, whatever stands in its place."""
    return _own[name]


def installed() -> bool:
    """Tell whether the methods of `slangpy.Tensor` are the mended ones."""
    return spy.Tensor.__dict__["clear"] is _mended_clear


def install() -> None:
    """Replace the methods of `slangpy.Tensor` that are mended here; again does nothing.

    They take what slangpy's take. What differs:

    - `clear` of a view clears the view; the last bytes are cleared as well, also by `zeros` and `zeros_like`.
    - `copy_from_numpy` takes an array of the tensor's dtype and shape, the axes of its elements behind (a flat one, or one that differs
      by axes of length 1, is taken as well), in any layout and byte order; else it raises `ArgumentError`.
    - `from_numpy` takes arrays of any layout and byte order, read-only ones too.
    - `to_numpy`, `copy_from_numpy`, `to_torch` and `str` mind the gaps inside an element (`slanglab.tensors.gaps`).
    - `to_numpy` reads bools as they are kept, and tensors in upload memory that may be copied (`BufferUsage.copy_source`).
    - `to_numpy`, `to_torch` and `str` wait so that Interrupt works, and refuse tensors of a device that is lost, given up or closed.
    - `__dlpack__` and `__dlpack_device__` are there; see `slanglab.tensors.dlpack`.
    - `with_grads` leaves the values of gradients that it is given, unless `zero=True` is written out, and refuses gradients of
      another shape, element type or device with `ArgumentError`.
    """
    for name, method in _MENDED.items():
        setattr(spy.Tensor, name, method)
    dlpack.install()


def uninstall() -> None:
    """Give `slangpy.Tensor` its own methods back."""
    dlpack.uninstall()
    for name, method in _own.items():
        setattr(spy.Tensor, name, method)


def _check_gradient(tensor: Any, name: str, gradient: Any) -> None:
    if not isinstance(gradient, spy.Tensor):
        return  # slangpy refuses it
    wanted = tensor.dtype.derivative
    if (
        gradient.shape != tensor.shape
        or gradient.device != tensor.device
        or (wanted is not None and gradient.dtype.full_name != wanted.full_name)
    ):
        where = "" if gradient.device == tensor.device else " on another device"
        raise ArgumentError(
            f"with_grads: {name} is no gradient of this tensor",
            function="with_grads",
            argument=name,
            expected=f"{type_name((wanted or tensor.dtype).full_name)}, shape {tensor.shape.as_tuple()}",
            given=f"{type_name(gradient.dtype.full_name)}, shape {gradient.shape.as_tuple()}{where}",
            hint="pass `slangpy.Tensor.zeros_like(t)` or nothing: `t.with_grads()` makes one",
        )


def _check_there(tensor: Any) -> None:
    if isinstance(tensor, spy.Tensor):
        waiting.check(tensor.device)


def _without_gaps(tensor: Any) -> Any:
    """Return the tensor, or one of its scalars where slangpy would read the gaps inside its elements."""
    apart = gaps.as_scalars(tensor)
    return tensor if apart is None else apart


def _copied(tensor: Any) -> Any:
    """Return a tensor with the memory of another, copied on the device."""
    storage, device = tensor.storage, tensor.device
    copy = device.create_buffer(size=storage.size, struct_size=storage.struct_size, usage=storage.desc.usage)
    encoder = device.create_command_encoder()
    encoder.copy_buffer(copy, 0, storage, 0, storage.size)
    device.submit_command_buffer(encoder.finish())
    return spy.Tensor(copy, tensor.dtype, tensor.shape, tensor.strides, tensor.offset)


def _small(tensor: Any) -> np.ndarray[Any, Any] | None:
    """Return the values of a small contiguous tensor of numbers; None for others."""
    count = tensor.element_count
    if not 0 < count <= reads.SMALL:
        return None
    numbers = numbers_in(tensor.dtype.full_name)
    if numbers is None:
        return None
    dtype, inner = numbers
    size = dtype.itemsize * math.prod(inner)
    storage = tensor.storage
    if (
        dtype == np.bool_
        or size != storage.struct_size
        or tensor.memory_type != _DEVICE_LOCAL
        or not tensor.is_contiguous()
    ):
        return None
    found = reads.small(storage, int(tensor.offset) * size, count * size)
    return None if found is None else found.view(dtype).reshape((*tensor.shape.as_tuple(), *inner))


def _uploadable(tensor: Any, data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the array as slangpy can upload it to `tensor`: the same numbers, contiguous, in the machine's byte order."""
    element = tensor.dtype
    numbers = numbers_in(element.full_name)
    dtype = None if numbers is None else numbers[0]
    shape = (*tensor.shape.as_tuple(), *element.shape.as_tuple())
    # slangpy looks at the strides of axes of length 1 too, which may be anything.
    if (
        data.dtype == dtype
        and data.shape == shape
        and data.flags.carray
        and 1 not in shape
        and dtype != np.bool_
    ):
        return data
    storage = tensor.storage
    room = tensor.element_count * storage.struct_size
    if dtype is None:  # a struct: bytes, as `to_numpy` gives them
        if data.nbytes != room:
            raise _refused(tensor, data, f"{room} bytes")
        return np.require(data, requirements=["C", "A", "W"])
    fits = data.shape == shape or (
        data.size == math.prod(shape)
        and (data.ndim == 1 or _without_ones(data.shape) == _without_ones(shape))
    )
    stored = _stored_bool(storage) if dtype == np.bool_ else dtype
    if not fits or data.dtype.newbyteorder("=") not in (dtype, stored):
        raise _refused(tensor, data, f"{dtype.name}, shape {shape}")
    if data.dtype != stored or not data.dtype.isnative:
        data = data.astype(stored)
    return np.require(data, requirements=["C", "A", "W"]).reshape(-1).reshape(shape)


def _stored_bool(storage: Any) -> np.dtype[Any]:
    """Return how a buffer of bools, or of vectors of them, keeps one: in 4 bytes on Vulkan, in one on CUDA."""
    device = storage.device
    size = kept(device, ("bool",), lambda: _own["zeros"](device, (1,), "bool").storage.struct_size)
    return np.dtype(f"u{size}")


def _without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(n for n in shape if n != 1)


def _refused(tensor: Any, data: np.ndarray[Any, Any], expected: str) -> ArgumentError:
    what = f"a tensor of {type_name(tensor.dtype.full_name)}, shape {tensor.shape.as_tuple()}"
    room = tensor.element_count * tensor.storage.struct_size
    # The first words of slangpy's own message, for code that looks for them.
    larger = f"Numpy array is larger than {what}" if data.nbytes > room else f"the array does not fit {what}"
    return ArgumentError(
        f"copy_from_numpy: {larger}",
        function="copy_from_numpy",
        argument="data",
        expected=expected,
        given=describe_value(data),
        hint="`slanglab.assign(t, data)` converts numbers of another type; an array of another shape has to be reshaped first",
    )
