"""A device that is lost, as far as that can be had without breaking one: the driver's submit answers VK_ERROR_DEVICE_LOST from a moment on.

The first bytes of the driver's own `vkQueueSubmit` are written over with a jump to a function of ours, which answers for the queues
that are lost and lets the others through. What slang-rhi, slangpy and SlangLab make of the answer is then the real thing. Linux on
x86-64.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import sys
from types import TracebackType
from typing import Any

__all__ = ["Loss", "possible"]

_DEVICE_LOST = -4
_SUBMIT = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_void_p
)  # VkQueue, submitCount, VkSubmitInfo*, VkFence


def possible(device: Any) -> bool:
    """Tell whether the loss of this device can be simulated here."""
    return sys.platform == "linux" and platform.machine() == "x86_64" and device.info.type.name == "vulkan"


class Loss:
    """Loses Vulkan devices; a context manager.

    Parameters
    ----------
    device : slangpy.Device
        Any device of the driver; `lose` loses the one that submits next, `after` more submits from now.

    Attributes
    ----------
    happened : bool
        Whether a device was lost.
    """

    def __init__(self, device: Any) -> None:
        self.happened = False
        self._lost: set[int] = set()
        self.submits = 0
        self._due: int | None = None
        handle = next(h.value for h in device.native_handles if h.type.name == "VkDevice")
        loader = ctypes.CDLL("libvulkan.so.1")
        loader.vkGetDeviceProcAddr.restype = ctypes.c_void_p
        loader.vkGetDeviceProcAddr.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
        self._address = loader.vkGetDeviceProcAddr(handle, b"vkQueueSubmit")
        self._hook = _SUBMIT(self._submit)
        self._original = _SUBMIT(self._address)
        target = ctypes.cast(self._hook, ctypes.c_void_p).value
        assert target is not None
        # movabs rax, target; jmp rax
        self._jump = b"\x48\xb8" + target.to_bytes(8, "little") + b"\xff\xe0"
        self._before = ctypes.string_at(self._address, len(self._jump))
        page = self._address & ~(mmap.PAGESIZE - 1)
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        assert protect(page, 2 * mmap.PAGESIZE, 7) == 0, ctypes.get_errno()
        self._write(self._jump)

    def _write(self, code: bytes) -> None:
        ctypes.memmove(self._address, code, len(code))

    def __enter__(self) -> Loss:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._write(self._before)  # at the end of Python nothing of ours may be called any more

    def lose(self, device: Any, after: int = 0) -> None:
        """Lose the device that makes the submit `after` the next one, which is this."""
        # The next device's queue may lie where this one's was.
        device.register_device_close_callback(lambda _: self._lost.clear())
        self._due = self.submits + after

    def _submit(self, queue: int, count: int, infos: int, fence: int) -> int:
        mine, self.submits = self.submits, self.submits + 1
        if self._due is not None and mine >= self._due:
            self._lost.add(queue)
            self.happened = True
            self._due = None
        if queue in self._lost:
            return _DEVICE_LOST
        self._write(self._before)
        try:
            return int(self._original(queue, count, infos, fence))
        finally:
            self._write(self._jump)
