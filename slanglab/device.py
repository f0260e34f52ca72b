"""Choosing, opening and describing the device."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import slangpy as spy

from slanglab import caches as on_disk
from slanglab import progress, slang_library
from slanglab.errors import DeviceError
from slanglab.machine import contexts, cuda

__all__ = [
    "BACKENDS",
    "caches",
    "candidates",
    "check_process",
    "current_device",
    "describe",
    "is_software",
    "open_device",
    "probe",
    "provide_current",
    "shares_memory",
    "slang_session",
]

BACKENDS = ("vulkan", "cuda", "d3d12", "metal")
"""The backends that slangpy can run calls on; its `cpu` and `wgpu` devices cannot."""

_FIRST = "setting up the caches, once"

_TITLES = {"vulkan": "Vulkan", "cuda": "CUDA", "d3d12": "D3D12", "metal": "Metal"}


def caches() -> tuple[Path | None, Path | None]:
    """Return the folders of the module and shader caches that this process uses; None for what is done without."""
    return on_disk.current()


def _has_cuda_driver() -> bool:
    try:
        ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return False
    return True


def candidates() -> tuple[str, ...]:
    """Return the backends worth trying on this machine, the usual one first."""
    if sys.platform == "win32":
        return ("d3d12", "vulkan", "cuda")
    if sys.platform == "darwin":
        return ("metal",)
    return ("vulkan", "cuda") if _has_cuda_driver() else ("vulkan",)


def is_software(device: spy.Device) -> bool:
    """Tell whether the device is a software renderer, which computes on the processor."""
    adapter = device.info.adapter_name.lower()
    return any(word in adapter for word in ("llvmpipe", "lavapipe", "swiftshader", "basic render"))


def describe(device: spy.Device) -> str:
    """Return the device in words: "Vulkan, llvmpipe (LLVM 15.0.6, 256 bits)"."""
    return f"{_TITLES.get(device.info.type.name, device.info.type.name)}, {device.info.adapter_name}"


def _open(backend: str) -> spy.Device:
    found = on_disk.prepare()
    cold = found.cold or slang_library.is_new(backend, on_disk.place())
    try:
        device = _open_with(backend, found.modules, found.shaders)
        if cold:
            with progress.work(_FIRST, stoppable=False, at_once=True):
                slang_session(device, found.modules).load_module("slangpy")
    finally:
        on_disk.settle()
    return device


def slang_session(device: spy.Device, modules: Path | None) -> spy.SlangSession:
    """Return a new Slang session for cells; what one of them puts in the cache of modules, the others find there."""
    options = {"include_paths": slang_library.include_paths(device.info.type.name, on_disk.place())}
    return device.create_slang_session(compiler_options=options, cache_path=modules)


def _open_with(backend: str, modules: Path | None, shaders: Path | None) -> spy.Device:
    shared = cuda.torchs() if backend in ("vulkan", "d3d12") else None
    if shared is not None:
        # Beside torch with CUDA, memory can be shared with it, if the adapter is a GPU of CUDA's.
        with contextlib.suppress(RuntimeError):
            return _made(backend, modules, shaders, enable_cuda_interop=True, existing_device_handles=shared)
    given = cuda.handles() if backend == "cuda" else None
    return _made(backend, modules, shaders, existing_device_handles=given)


def _made(backend: str, modules: Path | None, shaders: Path | None, **shared: Any) -> spy.Device:
    device = spy.Device(
        type=getattr(spy.DeviceType, backend),
        # Hot reload watches folders that cells do not have, and one bad reload invalidates every module.
        enable_hot_reload=False,
        enable_print=True,
        compiler_options={"include_paths": slang_library.include_paths(backend, on_disk.place())},
        module_cache_path=modules,
        shader_cache_path=shaders,
        shader_cache_size=on_disk.SHADERS_SIZE,
        **shared,
    )
    contexts.opened(device)
    return device


_SETUP = (
    "`slanglab doctor` says what is missing; `slanglab setup-device` installs the software Vulkan driver (Mesa lavapipe), which "
    "needs no GPU"
)
_RESTART = (
    "restart the kernel, or go on with `%slang device vulkan`; with `%slang config engine worker` a kernel that fails costs the "
    "tensors, and nothing of Python's"
)


def open_device(name: str = "auto") -> spy.Device:
    """Open the device called `name`.

    Parameters
    ----------
    name : str
        One of `BACKENDS`, or "auto": the first of `candidates()` that answers, hardware before software.

    Raises
    ------
    DeviceError
        When the name is unknown or nothing answers; the message says what to install.
    """
    if name == "cpu":
        raise DeviceError(
            "slangpy's cpu backend cannot run calls",
            hint="for a machine without a GPU use software Vulkan: `slanglab setup-device` installs it",
        )
    if name != "auto" and name not in BACKENDS:
        raise DeviceError(
            f"there is no device called {name!r}", hint=f"choose one of {', '.join(('auto', *BACKENDS))}"
        )
    wanted: Iterable[str] = candidates() if name == "auto" else (name,)
    software: spy.Device | None = None
    failures: list[str] = []
    hint = _SETUP
    for backend in wanted:
        try:
            with progress.work("opening the device", stoppable=False, at_once=True):
                device = _open(backend)
        except Exception as error:  # slangpy raises RuntimeError, the driver whatever it likes
            said = str(error).splitlines() or [repr(error)]
            failures.append(f"{_TITLES[backend]}: {said[0]}")
            hint = _RESTART if isinstance(error, cuda.CudaFailedError) else hint
            continue
        if not is_software(device) or name != "auto":
            return device
        software = device
    if software is not None:
        return software
    tried = "; ".join(failures)
    raise DeviceError(f"no device answers ({tried})", hint=hint)


def shares_memory(device: spy.Device) -> bool:
    """Tell whether a device of another backend was opened beside torch, and can share memory with CUDA."""
    return device.info.type != spy.DeviceType.cuda and bool(device.supports_cuda_interop)


def probe(backend: str) -> str:
    """Say in a line what answers for a backend, without keeping it open."""
    try:
        adapters = [a.name for a in spy.Device.enumerate_adapters(getattr(spy.DeviceType, backend))]
    except Exception as error:  # a missing driver raises RuntimeError; a broken one anything
        return f"not here ({str(error).splitlines()[0]})"
    return ", ".join(adapters) if adapters else "not here"


_process = os.getpid()


def check_process() -> None:
    """Raise in a forked child, where a call on the parent's device would block for ever.

    Raises
    ------
    DeviceError
    """
    if os.getpid() != _process:
        raise DeviceError(
            "this process was forked, and a device cannot be used on both sides of a fork",
            hint="start the worker with multiprocessing's 'spawn' method: `multiprocessing.get_context('spawn')`",
        )


_provider: Callable[[], spy.Device] | None = None


def provide_current(provider: Callable[[], spy.Device]) -> None:
    """Say where `current_device` gets its device; the lab does, so that nothing below it has to know the lab."""
    global _provider
    _provider = provider


def current_device() -> spy.Device:
    """Return the device of the kernel's lab, opened if need be."""
    if _provider is None:
        import slanglab.lab  # registers itself

        slanglab.lab.current()
    assert _provider is not None
    return _provider()
