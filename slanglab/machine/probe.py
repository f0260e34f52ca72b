"""Ask, in a process of its own, whether a backend opens a device.

A driver is foreign code: it may end the process, print, or never come back, and slangpy may not even import. So each
question is asked of a child process that writes what it finds, line by line, as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slanglab.machine import libraries, vulkan

__all__ = ["BACKENDS", "Answer", "ask", "backends_here"]

BACKENDS = ("vulkan", "cuda", "d3d12", "metal")
_MARK = "slanglab-probe: "
_PATIENCE = 120.0
"""Seconds after which a driver counts as hanging; the first start of a cold driver on a slow disk takes some."""


@dataclass(frozen=True)
class Answer:
    """What one backend answered.

    Attributes
    ----------
    backend : str
        "vulkan", "cuda", "d3d12" or "metal".
    opened : bool
        Whether a device could be created.
    imported : bool
        Whether slangpy could be imported.
    slangpy : str or None
        Version of slangpy.
    adapter : str or None
        The adapter of the device that was opened.
    adapters : tuple of str
        All adapters that slangpy lists for this backend.
    drivers : tuple of vulkan.PhysicalDevice
        For "vulkan": what the loader finds, without slangpy.
    loader : str or None
        For "vulkan": why the loader finds nothing, or None.
    unpacked : tuple of str
        The libraries that were loaded from the cache folder.
    driver : str or None
        The driver file that `libraries.preload` pointed the Vulkan loader to.
    unusable : str or None
        Why unpacked libraries could not be used.
    error : str or None
        What went wrong last, or None.
    """

    backend: str
    opened: bool = False
    imported: bool = False
    slangpy: str | None = None
    adapter: str | None = None
    adapters: tuple[str, ...] = ()
    drivers: tuple[vulkan.PhysicalDevice, ...] = ()
    loader: str | None = None
    unpacked: tuple[str, ...] = ()
    driver: str | None = None
    unusable: str | None = None
    error: str | None = None

    @property
    def software(self) -> bool:
        """Whether the device that opened is known to be a software one."""
        return any(device.name == self.adapter and "software" in device.kind for device in self.drivers)


def backends_here(platform: str = sys.platform) -> tuple[str, ...]:
    """Return the backends that slangpy has on an operating system, the one to prefer without a GPU first."""
    return {"win32": ("d3d12", "vulkan", "cuda"), "darwin": ("metal",)}.get(platform, ("vulkan", "cuda"))


def ask(backend: str, *, driver: str | None = None, cache: Path | None = None) -> Answer:
    """Ask a child process whether `backend` opens a device.

    Parameters
    ----------
    backend : str
        One of `BACKENDS`.
    driver : str, optional
        Value of `SLANGLAB_DRIVER` for the child; "system" asks the system's own driver even where one is unpacked.
    cache : Path, optional
        Cache folder for the child, to try unpacked libraries before they take their place.
    """
    environ = dict(os.environ)
    if driver is not None:
        environ[libraries.DRIVER_VARIABLE] = driver
        if driver == "system" and libraries.user_driver_files() is None:
            environ.pop("VK_DRIVER_FILES", None)
            environ.pop("VK_ICD_FILENAMES", None)
    if cache is not None:
        environ["SLANGLAB_CACHE"] = str(cache)
    # The child must import this very slanglab, also where it is used from a folder and not installed.
    package = str(Path(__file__).resolve().parents[2])
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, [package, environ.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "slanglab.machine.probe", backend]
    try:
        child = subprocess.run(  # noqa: S603  (our own interpreter and module)
            command,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        told = late.stdout or b""
        out = told.decode(errors="replace") if isinstance(told, bytes) else told
        return read_answer(backend, out, f"the driver did not answer within {_PATIENCE:.0f} s")
    failure = None
    if child.returncode < 0:
        failure = f"the process was ended by signal {-child.returncode} inside the driver"
    elif child.returncode:
        lines = child.stderr.strip().splitlines()
        failure = lines[-1] if lines else f"the process ended with status {child.returncode}"
    return read_answer(backend, child.stdout, failure)


def read_answer(backend: str, output: str, failure: str | None) -> Answer:
    """Put together what a child wrote before it ended.

    Parameters
    ----------
    backend : str
        What it was asked.
    output : str
        Its standard output; lines that it did not mark (a driver's own) are left out.
    failure : str or None
        How it ended, where it did not end well.
    """
    told: dict[str, Any] = {}
    for line in output.splitlines():
        _, mark, text = line.partition(_MARK)
        if mark:
            try:
                told |= json.loads(text)
            except ValueError:
                continue
    return Answer(
        backend=backend,
        opened=bool(told.get("opened")) and failure is None,
        imported=bool(told.get("imported")),
        slangpy=told.get("slangpy"),
        adapter=told.get("adapter"),
        adapters=tuple(told.get("adapters", ())),
        drivers=tuple(vulkan.PhysicalDevice(**device) for device in told.get("drivers", ())),
        loader=told.get("loader"),
        unpacked=tuple(told.get("unpacked", ())),
        driver=told.get("driver"),
        unusable=told.get("unusable"),
        error=failure or told.get("error"),
    )


def _tell(**facts: Any) -> None:
    print(f"\n{_MARK}{json.dumps(facts)}", flush=True)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _child(backend: str) -> None:
    done = libraries.preload()
    _tell(unpacked=done.libraries, driver=done.driver, unusable=done.problem)
    if backend == "vulkan":
        try:
            found = vulkan.physical_devices()
        except OSError as error:
            _tell(loader=_first_line(error))
        else:
            _tell(drivers=[vars(device) for device in found])
    try:
        import slangpy
    except (ImportError, OSError) as error:
        _tell(error=_first_line(error))
        return
    _tell(imported=True, slangpy=getattr(slangpy, "__version__", None))
    kind = getattr(slangpy.DeviceType, backend)
    try:
        _tell(adapters=[adapter.name for adapter in slangpy.Device.enumerate_adapters(kind)])
        device = slangpy.create_device(type=kind, enable_debug_layers=False)
    except RuntimeError as error:
        _tell(error=_first_line(error))
        return
    _tell(opened=True, adapter=device.info.adapter_name)
    device.close()


if __name__ == "__main__":
    _child(sys.argv[1])
