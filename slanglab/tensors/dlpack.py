"""DLPack for `slangpy.Tensor`: torch, numpy, cupy and jax take tensors by `from_dlpack`, and `slanglab.from_dlpack` takes theirs.

On CUDA both sides see one memory. What is on another backend is not reachable for them, so that they get a copy on the host, and are
told: a warning, once, unless the copy was asked for.
"""

from __future__ import annotations

import math
import sys
import warnings
from typing import Any

import numpy as np
import slangpy as spy

from slanglab import elsewhere, waiting
from slanglab.device import current_device
from slanglab.errors import ArgumentError, SlangLabError, is_library
from slanglab.machine import cuda
from slanglab.scalars import SCALARS, type_name
from slanglab.tensors import capsules, create, foreign, layout
from slanglab.tensors.capsules import CPU, CUDA, CUDA_MANAGED

__all__ = ["CopyWarning", "ExportError", "device_of", "export", "from_dlpack", "install", "uninstall"]

_NAMES = ("__dlpack__", "__dlpack_device__")
_SCALAR_NAMES = {dtype: name for name, dtype in reversed(SCALARS.items()) if name != "float16_t"}


class CopyWarning(UserWarning):
    """An array was copied where memory could have been expected to be shared."""


class ExportError(SlangLabError, BufferError):
    """A tensor that cannot be handed over as it was asked for. DLPack's consumers know BufferError."""


def _is_cuda(tensor: Any) -> bool:
    return bool(tensor.device.info.type == spy.DeviceType.cuda)


def _ordinal(tensor: Any) -> int:
    return cuda.ordinal(tensor.device)


def _wait_for(tensor: Any, stream: int | None) -> None:
    """See to it that what a consumer does in its stream follows what the tensor's device was given."""
    if stream == -1:
        return
    if stream == 0:
        raise ExportError(
            "__dlpack__: stream 0 is ambiguous on CUDA",
            hint="1 is the legacy default stream, 2 that of each thread, -1 asks for no order",
        )
    cuda.let_wait(tensor.device, 1 if stream is None else stream)


def device_of(tensor: Any) -> tuple[int, int]:
    """Return DLPack's kind and number of the device that a tensor is handed over on; `__dlpack_device__`.

    Returns
    -------
    (int, int)
        (2, n) for CUDA, where n is CUDA's number of the device; (1, 0), the host, for every other backend.
    """
    return (CUDA, _ordinal(tensor)) if _is_cuda(tensor) else (CPU, 0)


def export(
    tensor: Any,
    *,
    stream: int | None = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """Return a tensor as a DLPack capsule; `__dlpack__`.

    Parameters
    ----------
    tensor : slangpy.Tensor
        Of numbers, vectors, matrices or arrays of them: float3 in shape (n,) is handed over in shape (n, 3). Its gradient is a tensor
        of its own (`t.grad`).
    stream : int, optional
        For CUDA: the stream that the consumer uses, which is made to wait for the tensor's device; None is the default stream, -1
        asks for no order.
    max_version : (int, int), optional
        The latest DLPack that the consumer knows.
    dl_device : (int, int), optional
        Where it is wanted: where it is (`__dlpack_device__`), or the host, (1, 0).
    copy : bool, optional
        True for memory of its own, False for no copy at all. None shares memory where that is possible: on CUDA.

    Returns
    -------
    capsule
        It keeps the tensor's memory alive. Closing the device ends that memory all the same.

    Raises
    ------
    ExportError
        For structs, for a device that the tensor cannot be handed over on, and where `copy=False` cannot be had.
    DeviceGoneError
        When the tensor's device is lost or closed.

    Notes
    -----
    The array API standard, 2023.12, says what `__dlpack__` takes.
    """
    waiting.check(tensor.device)
    field = _numbers(tensor)
    own = device_of(tensor)
    wanted = own if dl_device is None else (int(dl_device[0]), int(dl_device[1]))
    versioned = max_version is not None and int(max_version[0]) >= 1
    if wanted == own and own[0] == CUDA and not copy:
        return _shared(tensor, field, stream, own, versioned)
    if wanted == own and own[0] == CUDA:
        _copy = spy.Tensor.empty(tensor.device, tensor.shape, tensor.dtype)
        _copied_on_device(tensor, _copy)
        return _shared(_copy, field, stream, own, versioned, copied=True)
    if wanted[0] != CPU:
        raise ExportError(
            f"__dlpack__: a tensor on {tensor.device.info.type.name} cannot be handed over on DLPack device {wanted}",
            hint="leave dl_device out, or ask for the host: (1, 0)",
        )
    if copy is False:
        raise ExportError(
            f"__dlpack__: memory of {tensor.device.info.type.name} cannot be shared with the host, and copy=False forbids a copy",
            hint="leave copy out, or pass copy=True",
        )
    if copy is None:
        _say(
            f"from_dlpack copied a tensor of {tensor.device.info.type.name} to the host: its memory is not reachable for other "
            "libraries; later changes on either side are not seen on the other"
        )
    return _of_array(tensor.to_numpy(), versioned)


def _numbers(tensor: Any) -> layout.Field:
    """Return how the scalars of an element lie; refuse elements that are structs."""
    name = type_name(str(tensor.dtype.full_name))
    fields = layout.fields(tensor)
    if len(fields) != 1 or fields[0].name:
        raise ExportError(
            f"__dlpack__: elements of type {name} are structs, which DLPack has no type for",
            hint="`t.to_numpy()` gives their bytes; a function that writes one field to a tensor of numbers gives that",
        )
    return fields[0]


def _of_array(array: np.ndarray[Any, Any], versioned: bool) -> Any:
    """Return a capsule that owns an array which nobody else has."""
    array = np.require(array, requirements=["C", "A", "W"])
    strides = tuple(s // array.dtype.itemsize for s in array.strides)
    return capsules.make(
        array,
        array.ctypes.data,
        array.shape,
        strides,
        array.dtype,
        (CPU, 0),
        versioned=versioned,
        copied=True,
    )


def _shared(
    tensor: Any,
    field: layout.Field,
    stream: int | None,
    device: tuple[int, int],
    versioned: bool,
    copied: bool = False,
) -> Any:
    """Return a capsule over the tensor's own memory."""
    axes = layout.view(tensor, field).all
    kind = {"FLOAT": "f", "SIGNED": "i", "UNSIGNED": "u", "BOOL": "b"}[field.form.form]
    dtype = np.dtype(f"{kind}{field.form.bits // 8}")
    _wait_for(tensor, stream)
    address = int(tensor.storage.device_address) + axes.base * dtype.itemsize
    return capsules.make(
        tensor, address, axes.shape, axes.strides, dtype, device, versioned=versioned, copied=copied
    )


def _copied_on_device(source: Any, target: Any) -> None:
    """Copy a tensor on its device; a strided one by way of the host, as slangpy has no copy of such."""
    if source.element_count == 0:
        return
    if not source.is_contiguous():
        target.copy_from_numpy(source.to_numpy())
        return
    size = int(source.storage.struct_size)
    encoder = source.device.create_command_encoder()
    encoder.copy_buffer(
        target.storage, 0, source.storage, int(source.offset) * size, source.element_count * size
    )
    source.device.submit_command_buffer(encoder.finish())


_said: set[str] = set()


def _say(text: str) -> None:
    """Warn, once in a process."""
    if text not in _said:
        _said.add(text)
        warnings.warn(text, CopyWarning, stacklevel=_users_level())


def _users_level() -> int:
    """Return how far the user's own line is above `_say`: numpy calls from C, torch from Python."""
    level, frame = 2, sys._getframe(2)
    while frame.f_back is not None and is_library(frame.f_code.co_filename):
        level, frame = level + 1, frame.f_back
    return level


# ----- the other way -----


def from_dlpack(x: Any, grad: bool = False) -> Any:
    """Make a tensor from an array of another library that speaks DLPack: torch, cupy, jax, numpy.

    Parameters
    ----------
    x : object
        With `__dlpack__` and `__dlpack_device__`. A torch tensor is taken without its gradient.
    grad : bool
        Attach a gradient, filled with zeros.

    Returns
    -------
    slangpy.Tensor
        Contiguous, on the lab's device, of the array's own type (bfloat16, which Slang lacks, becomes float). It is always a copy:
        slangpy 0.43.1 makes no buffer out of memory of another library. From CUDA to CUDA it is made on the GPU, else by way of the
        host; a warning says so, once, where the array was on a GPU.

    Raises
    ------
    ArgumentError
        If `x` does not speak DLPack, or cannot be handed over.
    TensorError
        If Slang has no type for its elements.
    """
    if isinstance(x, spy.Tensor):
        return create.tensor(x, grad=grad, dtype=x.dtype)
    if not foreign.is_foreign(x) and not isinstance(x, np.ndarray):
        raise ArgumentError(
            f"{type(x).__name__} has no __dlpack__",
            function="from_dlpack",
            argument="x",
            expected="an array of torch, cupy, jax, numpy or another library that speaks DLPack",
            given=type(x).__name__,
            hint="`slanglab.tensor` takes lists and numbers",
        )
    if not isinstance(x, np.ndarray):
        kind, number = foreign.place(x)
        if kind in (CUDA, CUDA_MANAGED):
            made = _on_device(x, number)
            if made is not None:
                return create.with_grad(made, grad)
            _say(
                "from_dlpack copied an array of a GPU by way of the host: SlangLab's device is not the CUDA device that it is on"
            )
        x = foreign.on_host(x)
    return create.tensor(x, grad=grad, dtype=_element(x.dtype))


def _element(dtype: np.dtype[Any]) -> str:
    found = _SCALAR_NAMES.get(dtype)
    if found is None:
        raise create.TensorError(f"Slang has no type for {dtype.name}")
    return found


def _on_device(x: Any, number: int) -> Any:
    """Return a copy made on the GPU; None where the lab's device is another one, or in another process."""
    if elsewhere.is_sent():
        return None
    device = current_device()
    if device.info.type != spy.DeviceType.cuda or cuda.ordinal(device) != number:
        return None
    held = foreign.opened(x, stream=1)
    if not _in_order(held) and hasattr(x, "contiguous"):  # torch's; cupy's copy is in order by itself
        held = foreign.opened(x.contiguous(), stream=1)
    elif not _in_order(held):
        held = foreign.opened(x.copy(), stream=1)
    if held.dtype is None or held.dtype not in _SCALAR_NAMES or not _in_order(held):
        return None
    made = create.empty(held.shape or (1,), dtype=_element(held.dtype))
    count = math.prod(held.shape) * held.dtype.itemsize
    if count:
        cuda.copy(device, int(made.storage.device_address), held.address, count)
    held.close()
    _say(
        "from_dlpack copied an array on the GPU: slangpy 0.43.1 makes no buffer out of memory of another library"
    )
    return made


def _in_order(held: capsules.Opened) -> bool:
    """Tell whether the elements lie one behind another."""
    expected = 1
    for size, stride in zip(reversed(held.shape), reversed(held.strides), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


# ----- methods of slangpy.Tensor -----


def install() -> None:
    """Give `slangpy.Tensor` the methods by which other libraries take it."""
    spy.Tensor.__dlpack__ = export
    spy.Tensor.__dlpack_device__ = device_of


def uninstall() -> None:
    """Take them away."""
    for name in _NAMES:
        if name in spy.Tensor.__dict__:
            delattr(spy.Tensor, name)
