"""Torch tensors of the CPU: one copy to the device, one copy back.

A software renderer computes in the memory of the processor: there a tensor in "upload" memory is written by one copy, one in "read-back"
memory is read by one, and kernels take both as quickly as any other (measured with Mesa's llvmpipe on 2 cores, 2^22 floats: 1.3 ms in
and 2.8 ms out, where tensors in device memory take 9.4 and 10.6). What has been given back is used again, as fresh memory of that size
costs another 5 ms for its pages. Elementwise calls like earlier ones do without both copies (`slanglab.torch.ready`).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import slangpy as spy
import torch

from slanglab import waiting
from slanglab.device import is_software
from slanglab.engine.straight import bare
from slanglab.tensors import kernels, mended
from slanglab.tensors.create import allocate
from slanglab.torch.pool import USAGE, Pool

__all__ = ["HostExchange", "exchange"]

_MOST_KEPT = 1 << 28
"""Bytes of tensors at most that are kept for later calls, on each device."""

_LOCAL = spy.MemoryType.device_local
_MAPPED = spy.MemoryType.read_back
_copy, _read = mended.own("copy_from_numpy"), mended.own("to_numpy")


class HostExchange:
    """The way of torch tensors of the CPU to one device.

    Parameters
    ----------
    device : slangpy.Device

    Attributes
    ----------
    direct : bool
        True for a device that computes in torch's memory.
    """

    def __init__(self, device: spy.Device) -> None:
        self._device = device
        self._software = is_software(device)
        self.direct = bare.shares_addresses(device)
        self.lock = threading.RLock()
        self._pool = Pool(_MOST_KEPT)

    def upload(self, tensor: Any, element: str, shape: tuple[int, ...]) -> Any:
        """Return a slangpy.Tensor with the numbers of a torch tensor; see `Exchange`."""
        # Of a contiguous tensor this is the same memory; bits that stand for a sign or a conjugate are written out.
        array = tensor.resolve_neg().contiguous().numpy()
        made = self._tensor(shape, element, spy.MemoryType.upload)
        if not array.size:
            return made
        if element == "bool" or made.memory_type == _LOCAL:
            made.copy_from_numpy(array.reshape((*shape, *made.dtype.shape.as_tuple())))
        else:  # mapped memory, where there is nothing to wait for; slangpy copies the bytes, whatever the shape
            waiting.told(_copy, made, array.reshape(-1))
        return made

    def room(self, shape: tuple[int, ...], element: str) -> Any:
        """Return a slangpy.Tensor for a call to write; see `Exchange`."""
        return self._tensor(shape, element, spy.MemoryType.read_back)

    def download(self, tensor: Any) -> Any:
        """Return a torch tensor with a tensor's numbers; see `Exchange`."""
        if tensor.element_count == 0:
            return _nothing(tensor)
        if tensor.memory_type == _MAPPED and tensor.dtype.full_name != "bool":
            return torch.from_numpy(_read(tensor))  # `end` has waited
        return torch.from_numpy(tensor.to_numpy())

    def begin(self) -> None:
        """Do nothing: what torch does on the CPU is done."""

    def end(self) -> None:
        """Wait for the device, in a way that Interrupt ends."""
        waiting.wait(self._device)

    def free(self, tensors: Sequence[Any]) -> None:
        """Keep tensors for later calls; see `Exchange`."""
        for tensor in tensors:
            if tensor.element_count == 0:
                continue
            self._pool.give((tensor.shape.as_tuple(), tensor.dtype.full_name, tensor.memory_type), tensor)
        self._pool.trim()

    def _tensor(self, shape: tuple[int, ...], element: str, memory: Any) -> Any:
        if not self._software or 0 in shape:
            memory = _LOCAL
        kept = self._pool.take((shape, element, memory))
        if kept is not None:
            return kept
        return allocate(self._device, shape, element, usage=USAGE, memory_type=memory)


def _nothing(tensor: Any) -> Any:
    """Return a torch tensor without elements, as a slangpy.Tensor without elements would be read."""
    inner = tensor.dtype.shape.as_tuple()
    array: np.ndarray[Any, Any] = tensor.view((1,), (1,), 0).to_numpy()
    return torch.from_numpy(np.empty((*tensor.shape.as_tuple(), *inner), array.dtype))


def exchange(device: spy.Device) -> HostExchange:
    """Return the way of torch tensors of the CPU to a device."""
    found: HostExchange = kernels.kept(device, ("torch", "host"), lambda: HostExchange(device))
    return found
