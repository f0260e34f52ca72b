"""Torch tensors of CUDA: on a CUDA device in torch's own context, and by shared memory on a device of another backend.

slangpy 0.43 cannot make a tensor of memory that it has not allocated. So a tensor of torch's is copied within the GPU's memory to one of
slangpy's, and what a call wrote on a CUDA device becomes a torch tensor where it lies. Elementwise calls like earlier ones do without
slangpy there (`slanglab.torch.ready`). On other backends slangpy's memory is shared with CUDA, and a result is copied out of it, so
that it can be used for the next call: memory stays as it is after the first.

The order of work is that of torch's current stream. A CUDA device submits to CUDA's default stream: where torch is in another one, each
waits for the other. Other backends and CUDA wait for each other by a semaphore that slangpy has for that.
"""

from __future__ import annotations

import atexit
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import slangpy as spy
import torch

from slanglab.device import describe, shares_memory
from slanglab.errors import CallError
from slanglab.tensors import kernels
from slanglab.tensors.create import allocate
from slanglab.torch.leaves import torch_of
from slanglab.torch.pool import USAGE, Pool
from slanglab.waiting import methods

__all__ = ["GpuExchange", "check", "exchange", "view"]

_KEPT_SHARE = 16
"""Of the GPU's memory one part in so many is kept at most in tensors for later calls, on each device. On an H200 a call of 2^26 floats,
forward and backward, took 9.9 ms through Vulkan where its five tensors were allocated at each call."""

_TYPES = {
    torch.float16: "<f2",
    torch.float32: "<f4",
    torch.float64: "<f8",
    torch.int8: "|i1",
    torch.int16: "<i2",
    torch.int32: "<i4",
    torch.int64: "<i8",
    torch.uint8: "|u1",
    torch.bool: "|b1",
}
"""By torch's dtype, what CUDA's array interface calls it; torch takes unsigned numbers of more bits by their signed kin."""

_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}


class _Array:
    """Memory of CUDA as torch takes it, by version 3 of CUDA's array interface; torch holds this for as long as its tensor lives."""

    def __init__(self, address: int, shape: tuple[int, ...], kind: str, owner: Any) -> None:
        self.owner = owner
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": kind,
            "data": (address, False),
            "strides": None,
            "version": 3,
        }


def view(address: int, shape: tuple[int, ...], dtype: Any, where: Any, owner: Any) -> Any:
    """Return a torch tensor over contiguous memory of CUDA.

    Parameters
    ----------
    address : int
    shape : tuple of int
    dtype : torch.dtype
    where : torch.device
    owner : object
        What the memory belongs to; the tensor holds it.
    """
    own = _SIGNED.get(dtype, dtype)
    made = torch.as_tensor(_Array(address, shape, _TYPES[own], owner), device=where)
    return made if own is dtype else made.view(dtype)


def check(function: str, argument: str, device: spy.Device, where: Any) -> None:
    """Refuse a tensor of CUDA for a device that shares no memory with torch there.

    Raises
    ------
    CallError
    """
    if device.info.type == spy.DeviceType.cuda:
        with torch.cuda.device(where):
            torch.cuda.current_stream()  # makes the context, and makes it current
            torchs = _context(spy.get_cuda_current_context_native_handles())
        if _context(device.native_handles) == torchs:
            return
        what = f"is not in torch's context of {where}: it is on another GPU, or was opened before torch used CUDA"
    elif shares_memory(device):
        return
    else:
        what = "shares no memory with CUDA"
    raise CallError(
        f"{function}: argument {argument} is a torch tensor of CUDA, and the function's device, {describe(device)}, {what}",
        function=function,
        argument=argument,
        hint="with torch imported, `%slang reset` opens the device again beside it, and `%slang device cuda` one that computes in "
        "torch's memory; or pass the tensor on the CPU: `t.cpu()`",
    )


def _context(handles: Sequence[Any]) -> int | None:
    return next((int(h.value) for h in handles if h.type == spy.NativeHandleType.CUcontext), None)


_sharing: weakref.WeakSet[GpuExchange] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Close what shares memory before the devices go, which do so when the interpreter does."""
    for one in list(_sharing):
        one.close()


def _most(where: Any) -> int:
    """Return how many bytes are kept at most."""
    return int(torch.cuda.get_device_properties(where).total_memory) // _KEPT_SHARE


class GpuExchange:
    """The way of torch tensors of one GPU to one device.

    Parameters
    ----------
    device : slangpy.Device
    where : torch.device

    Attributes
    ----------
    direct : bool
        True for a CUDA device, whose memory is torch's.
    """

    def __init__(self, device: spy.Device, where: Any) -> None:
        self._device = device
        self._where = where
        self.direct = device.info.type == spy.DeviceType.cuda
        self.lock = threading.RLock()
        self._usage = USAGE if self.direct else USAGE | spy.BufferUsage.shared
        self._pool = Pool(_most(where), lambda gone: self._lent.pop(id(gone)))
        self._lent: dict[int, tuple[Any, Any]] = {}
        """By id the tensors that may come back, with what torch sees of them."""
        if not self.direct:
            _sharing.add(self)

    def upload(self, tensor: Any, element: str, shape: tuple[int, ...]) -> Any:
        """Return a slangpy.Tensor with the numbers of a torch tensor; see `Exchange`."""
        made = self._tensor(shape, element)
        if made.element_count:
            into = self._lent[id(made)][1]
            into.copy_(tensor.reshape(into.shape))  # a bool may have 4 bytes there
        return made

    def room(self, shape: tuple[int, ...], element: str) -> Any:
        """Return a slangpy.Tensor for a call to write; see `Exchange`."""
        if self.direct:  # it will be torch's
            return allocate(self._device, shape, element, usage=self._usage)
        return self._tensor(shape, element)

    def download(self, tensor: Any) -> Any:
        """Return a torch tensor with a tensor's numbers; `end` has to come before."""
        dtype, shape = torch_of(tensor)
        if tensor.element_count == 0:
            return torch.empty(shape, dtype=dtype, device=self._where)
        if self.direct:
            return self._seen(tensor, dtype, shape)
        known = self._lent.get(id(tensor))
        if known is None:  # slangpy made it, and shares it with nobody
            known = self._shared_copy(tensor), None
            known = known[0], self._seen(known[0], dtype, shape)
        seen = known[1]
        return seen.clone() if seen.dtype == dtype else seen.to(dtype)

    def begin(self) -> None:
        """Make the device wait for torch; see `Exchange`."""
        stream = torch.cuda.current_stream(self._where)
        if not self.direct:
            self._device.sync_to_cuda(stream.cuda_stream)
        elif stream.cuda_stream:
            torch.cuda.default_stream(self._where).wait_stream(stream)

    def end(self) -> None:
        """Make torch wait for the device; see `Exchange`."""
        stream = torch.cuda.current_stream(self._where)
        if not self.direct:
            self._device.sync_to_device(stream.cuda_stream)
        elif stream.cuda_stream:
            stream.wait_stream(torch.cuda.default_stream(self._where))

    def free(self, tensors: Sequence[Any]) -> None:
        """Keep tensors for later calls; see `Exchange`."""
        for tensor in tensors:
            if id(tensor) in self._lent:
                self._pool.give((tensor.shape.as_tuple(), tensor.dtype.full_name), tensor)
        self._pool.trim()

    def close(self) -> None:
        """Let go of all memory that is shared with CUDA: where some is left when its device goes, slangpy ends the process."""
        self._pool.clear()
        self._lent.clear()

    def _tensor(self, shape: tuple[int, ...], element: str) -> Any:
        kept = self._pool.take((shape, element))
        if kept is not None:
            return kept
        made = allocate(self._device, shape, element, usage=self._usage)
        if made.element_count:
            dtype, whole = torch_of(made)
            self._lent[id(made)] = made, self._seen(made, dtype, whole)
        return made

    def _seen(self, tensor: Any, dtype: Any, shape: tuple[int, ...]) -> Any:
        """Return a torch tensor over the memory of one of slangpy's; a bool that has 4 bytes there is an int32."""
        storage = tensor.storage
        if dtype == torch.bool and storage.struct_size == 4:
            dtype = torch.int32
        if self.direct:
            return view(storage.device_address, shape, dtype, self._where, storage)
        own = _SIGNED.get(dtype, dtype)
        kind = getattr(spy.DataType, str(own).removeprefix("torch."))
        # slangpy's own method, not the one that waits for the device: the streams are in order.
        made = torch.as_tensor(_to_torch(storage, kind, list(shape)))
        return made if own is dtype else made.view(dtype)

    def _shared_copy(self, tensor: Any) -> Any:
        storage = tensor.storage
        shared = self._device.create_buffer(
            size=storage.size, struct_size=storage.struct_size, usage=self._usage
        )
        encoder = self._device.create_command_encoder()
        encoder.copy_buffer(shared, 0, storage, 0, storage.size)
        self._device.submit_command_buffer(encoder.finish())
        self.end()
        return spy.Tensor(shared, tensor.dtype, tensor.shape, tensor.strides, tensor.offset)


_to_torch = methods.own(spy.Buffer, "to_torch")


def exchange(function: str, argument: str, device: spy.Device, where: Any) -> GpuExchange:
    """Return the way of torch tensors of a GPU to a device.

    Parameters
    ----------
    function, argument : str
        For the message.
    device : slangpy.Device
    where : torch.device

    Raises
    ------
    CallError
        For a device that shares no memory with torch there.
    """

    def make() -> GpuExchange:
        check(function, argument, device, where)
        return GpuExchange(device, where)

    found: GpuExchange = kernels.kept(device, ("torch", str(where)), make)
    return found
