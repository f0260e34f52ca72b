"""A little of CUDA's driver interface: events, which tell how far a device is, contexts, which devices share, and launches.

slangpy calls each of its submits to a CUDA device finished at once, so that its own answer says nothing about a kernel. And all its
devices of a process live in one context: where a kernel in it does not end, or has failed, none of them can do anything any more.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any

import slangpy as spy

__all__ = [
    "CudaFailedError",
    "Event",
    "Events",
    "Function",
    "abandon",
    "copy",
    "handles",
    "let_wait",
    "ordinal",
    "torchs",
]

_NOT_READY = 600
_One = ctypes.c_char_p * 1
_DISABLE_TIMING = 2
_Pointer = ctypes.c_void_p
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cuCtxPushCurrent_v2": (_Pointer,),
    "cuCtxPopCurrent_v2": (ctypes.POINTER(_Pointer),),
    "cuCtxCreate_v2": (ctypes.POINTER(_Pointer), ctypes.c_uint, ctypes.c_int),
    "cuEventCreate": (ctypes.POINTER(_Pointer), ctypes.c_uint),
    "cuEventRecord": (_Pointer, _Pointer),
    "cuEventQuery": (_Pointer,),
    "cuStreamWaitEvent": (_Pointer, _Pointer, ctypes.c_uint),
    "cuMemcpyDtoD_v2": (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_size_t),
    "cuCtxSynchronize": (),
    "cuModuleLoadData": (ctypes.POINTER(_Pointer), ctypes.c_char_p),
    "cuModuleGetFunction": (ctypes.POINTER(_Pointer), _Pointer, ctypes.c_char_p),
    "cuLaunchKernel": (_Pointer, *(ctypes.c_uint,) * 7, *(_Pointer,) * 3),
}


@cache
def _driver() -> Any:
    """Return the driver's library; ctypes lets go of the interpreter's lock while it is in there."""
    library: Any
    if sys.platform == "win32":
        library = ctypes.WinDLL("nvcuda.dll")
    else:
        library = ctypes.CDLL("libcuda.so.1")
    for name, arguments in _FUNCTIONS.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, ctypes.c_int
    return library


class CudaFailedError(RuntimeError):
    """A kernel has failed in such a way that CUDA can do nothing more in this process."""


def _check(code: int) -> None:
    if code:
        # slangpy's word for it on the other backends, by which the rest of SlangLab knows a lost device.
        raise RuntimeError(f"DEVICE_LOST: CUDA's driver says error {code}")


class Event:
    """A place in the work of a device, which is reached when all before it is done."""

    __slots__ = ("_handle", "_room")

    def __init__(self, handle: Any, room: list[Any]) -> None:
        self._handle = handle
        self._room = room

    def __del__(self) -> None:
        self._room.append(self._handle)

    @property
    def handle(self) -> Any:
        """The driver's."""
        return self._handle


class _Context:
    """The context of one device.

    Parameters
    ----------
    device : slangpy.Device
        A CUDA device.
    """

    def __init__(self, device: spy.Device) -> None:
        context = [h.value for h in device.native_handles if h.type == spy.NativeHandleType.CUcontext]
        self._context = context[0]

    def _call(self, function: Any, *arguments: Any) -> int:
        """Call a function of the driver in the device's context, and return what it says."""
        driver = _driver()
        _check(driver.cuCtxPushCurrent_v2(self._context))
        try:
            code: int = function(*arguments)
        finally:
            driver.cuCtxPopCurrent_v2(ctypes.byref(_Pointer()))
        return code


class Function(_Context):
    """A kernel as the driver launches it.

    Parameters
    ----------
    device : slangpy.Device
    ptx : bytes
        What it is made of; it stays for as long as the context does, since when it was done last nobody knows.
    name : str
        Of its entry point, which has one parameter.
    group : int
        Threads in a group.

    Raises
    ------
    RuntimeError
        When the driver does not take it.
    """

    def __init__(self, device: spy.Device, ptx: bytes, name: str, group: int) -> None:
        super().__init__(device)
        module, function = _Pointer(), _Pointer()
        _check(self._call(_driver().cuModuleLoadData, ctypes.byref(module), ptx))
        _check(self._call(_driver().cuModuleGetFunction, ctypes.byref(function), module, name.encode()))
        self._function = function.value
        self._group = group
        self._launch = _driver().cuLaunchKernel

    def launch(self, arguments: bytes, groups: int, stream: int) -> None:
        """Launch it in a stream of the context that is current in this thread, which has to be the device's.

        Parameters
        ----------
        arguments : bytes
            The bytes of its parameter.
        groups : int
        stream : int
            CUDA's handle.
        """
        given = _One(arguments)
        code = self._launch(self._function, groups, 1, 1, self._group, 1, 1, 0, stream, given, None)
        if code:
            _check(code)


class Events(_Context):
    """Events of one device.

    Parameters
    ----------
    device : slangpy.Device
        A CUDA device.
    """

    def __init__(self, device: spy.Device) -> None:
        super().__init__(device)
        self._room: list[Any] = []

    def mark(self) -> Event:
        """Return an event behind everything that the device was given.

        It is recorded in the stream that waits for all others of the context, but for those that were made not to be waited for.

        Raises
        ------
        RuntimeError
            When the context has failed.
        """
        if self._room:
            handle = self._room.pop()
        else:
            handle = _Pointer()
            _check(self._call(_driver().cuEventCreate, ctypes.byref(handle), _DISABLE_TIMING))
        event = Event(handle, self._room)
        _check(self._call(_driver().cuEventRecord, handle, None))
        return event

    def is_reached(self, event: Event) -> bool:
        """Tell whether all before an event is done.

        Raises
        ------
        RuntimeError
            When some of it failed.
        """
        code = self._call(_driver().cuEventQuery, event.handle)
        if code != _NOT_READY:
            _check(code)
        return code == 0

    def hold(self, stream: int, event: Event) -> None:
        """Make a stream wait for an event: what it is given from now on begins when the event is reached."""
        _check(self._call(_driver().cuStreamWaitEvent, stream, event.handle, 0))

    def copy(self, target: int, source: int, count: int) -> None:
        """Copy bytes from one address on the device to another, behind all that was asked for before, and wait for it."""
        _check(self._call(_driver().cuMemcpyDtoD_v2, target, source, count))
        _check(self._call(_driver().cuCtxSynchronize))


def ordinal(device: spy.Device) -> int:
    """Return which of the machine's CUDA devices this is, as CUDA counts them."""
    return int(next(h.value for h in device.native_handles if h.type == spy.NativeHandleType.CUdevice))


def let_wait(device: spy.Device, stream: int) -> None:
    """Make a stream of another library wait for what the device was given until now.

    Parameters
    ----------
    device : slangpy.Device
    stream : int
        CUDA's handle; 1 for the default stream, 2 for that of each thread.
    """
    events = Events(device)
    events.hold(stream, events.mark())


def copy(device: spy.Device, target: int, source: int, count: int) -> None:
    """Copy bytes between two addresses of a CUDA device, and wait for it."""
    Events(device).copy(target, source, count)


_abandoned = False


def abandon() -> None:
    """Note that a device is left with a kernel that does not end or has failed: its context can do nothing else any more."""
    global _abandoned
    _abandoned = True


def torchs() -> list[spy.NativeHandle] | None:
    """Return torch's CUDA context, for a device that is to share memory with torch; None where torch has none, or it failed.

    Where nobody uses CUDA through torch yet none is made: it takes time and some hundred megabytes of the GPU, and torch is loaded
    wherever it is installed, as slangpy imports it.
    """
    torch: Any = sys.modules.get("torch")
    if _abandoned or getattr(torch, "cuda", None) is None or not torch.cuda.is_initialized():
        return None
    torch.cuda.current_stream()  # makes the context current
    return list(spy.get_cuda_current_context_native_handles())


def handles() -> list[spy.NativeHandle] | None:
    """Return what a new CUDA device is to be made of.

    A context of its own after `abandon`, torch's where torch is loaded, else None for slangpy's choice.
    """
    global _abandoned
    if not _abandoned:
        return torchs()
    driver = _driver()
    context = _Pointer()
    code = driver.cuCtxCreate_v2(ctypes.byref(context), 0, 0)
    if (
        code
    ):  # after a kernel that failed the driver says its error to everything, whatever context is asked for
        raise CudaFailedError(f"it has failed in this process, and can do nothing more in it (error {code})")
    driver.cuCtxPopCurrent_v2(ctypes.byref(_Pointer()))
    _abandoned = False
    kind = spy.NativeHandleType
    given = [spy.NativeHandle(kind.CUdevice, 0), spy.NativeHandle(kind.CUcontext, context.value or 0)]
    return [*given, spy.NativeHandle()]  # slangpy takes three, neither more nor fewer
