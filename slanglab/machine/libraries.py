"""Make `import slangpy` and the Vulkan loader find what `slanglab setup-device` unpacked into the user's cache.

slangpy needs libatomic.so.1 and libX11.so.6 to be imported at all and a Vulkan driver to open a device. On a machine
where the user may not install packages, `software_vulkan` unpacks them into `slanglab.paths.cache() / "system"`:

    manifest.json   what is there, in the order in which it must be loaded
    icd.json        tells the Vulkan loader of the driver beside it
    lib/            the libraries, by the names that others ask for

A running process cannot add a folder to the dynamic linker's search path, but the linker does not look for a library
that is already loaded under the name asked for. So `preload` loads them by path, dependencies first. It loads them with
local scope: what needs them finds them by name, and their symbols stay out of the way of other extension modules.
The driver itself and all other drivers and layers are left to the Vulkan loader, which loads the one in icd.json.
"""

from __future__ import annotations

import ctypes
import glob
import hashlib
import json
import os
import platform
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slanglab import paths

__all__ = [
    "DRIVER_VARIABLE",
    "GPU_NODES",
    "SYSTEM_LIBRARIES",
    "Preloaded",
    "available",
    "driver_choice",
    "fingerprint",
    "folder",
    "preload",
    "remember_system_driver",
    "user_driver_files",
]

DRIVER_VARIABLE = "SLANGLAB_DRIVER"
"""`auto` (the default), `system` (never the unpacked driver) or `software` (the software driver even beside a GPU)."""

SYSTEM_LIBRARIES = {
    "libatomic.so.1": "libatomic1",
    "libX11.so.6": "libx11-6",
    "libvulkan.so.1": "libvulkan1",
}
"""What slangpy 0.43 takes from the system, and the Debian packages that have it; the first two for its very import."""

_LOADER_VARIABLES = ("VK_DRIVER_FILES", "VK_ICD_FILENAMES")
GPU_NODES = ("/dev/dri/renderD*", "/dev/nvidia[0-9]*", "/dev/dxg", "/dev/kfd")


@dataclass(frozen=True)
class Preloaded:
    """What `preload` did in this process.

    Attributes
    ----------
    libraries : tuple of str
        Names of the libraries that were loaded from the cache folder; empty where the system has all that is needed.
    driver : str or None
        The ICD file (several, separated by colons) that the Vulkan loader was pointed to, or None where its own search stands.
    problem : str or None
        Why unpacked libraries could not be used, or None.
    """

    libraries: tuple[str, ...] = ()
    driver: str | None = None
    problem: str | None = None


@dataclass
class _State:
    done: Preloaded | None = None
    handles: list[object] = field(default_factory=list)  # a library stays loaded as long as its handle lives


_state = _State()


def folder() -> Path:
    """Return the folder that holds the unpacked libraries, whether or not it exists."""
    return paths.cache() / "system"


def available(name: str) -> bool:
    """Return whether the dynamic linker finds a library of that name."""
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def driver_choice() -> str:
    """Return the value of `SLANGLAB_DRIVER`: "auto", "system" or "software"; anything else counts as "auto"."""
    choice = os.environ.get(DRIVER_VARIABLE, "auto").strip().lower()
    return choice if choice in {"auto", "system", "software"} else "auto"


def user_driver_files(environ: Mapping[str, str] | None = None) -> str | None:
    """Return the driver files that the user pointed the Vulkan loader to, or None.

    A value that an earlier `preload` of this or of the parent process set is not the user's.
    """
    environ = os.environ if environ is None else environ
    own = {str(folder() / "icd.json"), _system_software_files()}
    for variable in _LOADER_VARIABLES:
        if (value := environ.get(variable)) and value not in own:
            return value
    return None


def _system_software_files() -> str:
    """Return the ICD files of the system's own software driver; several are one for each architecture.

    The Vulkan loader passes over those of another architecture.
    """
    folders = ("/etc", "/usr/local/share", "/usr/share")
    return ":".join(
        file for base in folders for file in sorted(glob.glob(f"{base}/vulkan/icd.d/lvp_icd*.json"))
    )


def fingerprint(environ: Mapping[str, str] | None = None, nodes: Iterable[str] = GPU_NODES) -> str:
    """Return a short text that changes when the machine's own Vulkan drivers or its GPUs do.

    It stands for an answer that takes a second to find out: whether the system's own driver opens a device.
    """
    environ = os.environ if environ is None else environ
    home = environ.get("HOME", "")
    configured = environ.get("XDG_CONFIG_DIRS") or "/etc/xdg"
    shared = environ.get("XDG_DATA_DIRS") or "/usr/local/share:/usr/share"
    bases = [
        environ.get("XDG_CONFIG_HOME") or f"{home}/.config",
        *configured.split(":"),
        "/etc",
        "/usr/local/etc",
        environ.get("XDG_DATA_HOME") or f"{home}/.local/share",
        *shared.split(":"),
    ]
    seen: set[str] = set()
    for base in bases:
        for file in glob.glob(f"{base}/vulkan/icd.d/*.json"):
            try:
                status = os.stat(file)
            except OSError:
                continue
            seen.add(f"{file} {status.st_size} {status.st_mtime_ns}")
    for pattern in nodes:
        seen.update(glob.glob(pattern))
    seen.add(platform.machine())
    return hashlib.sha256("\n".join(sorted(seen)).encode()).hexdigest()[:16]


def _answers_file() -> Path:
    return paths.cache() / "system-driver.json"


def _answers() -> dict[str, bool]:
    try:
        stored: Any = json.loads(_answers_file().read_text())
    except (OSError, ValueError):
        return {}
    return {str(key): bool(value) for key, value in stored.items()} if isinstance(stored, dict) else {}


def remember_system_driver(answers: bool) -> None:
    """Keep whether the system's own Vulkan driver opens a device, for this state of the machine.

    A cache that cannot be written costs a second at each start, nothing else.
    """
    known = _answers() | {fingerprint(): answers}
    file = _answers_file()
    beside = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        beside.write_text(json.dumps(known))
        beside.replace(file)
    except OSError:
        return


def _system_driver_answers() -> bool:
    """Say whether the system's own Vulkan driver opens a device; asks a process of its own once per machine state."""
    known = _answers().get(fingerprint())
    if known is None:
        from slanglab.machine import probe

        known = probe.ask("vulkan", driver="system").opened
        remember_system_driver(known)
    return known


def preload(load: Callable[[str], object] | None = None) -> Preloaded:
    """Load the unpacked libraries and point the Vulkan loader to the unpacked driver, where the system lacks them.

    To be called before the first `import slangpy` of a process, in Jupyter kernels too. It does nothing on systems other
    than Linux, where nothing was unpacked, where the libraries are installed and the system's own driver answers, and it
    never replaces driver files that the user set (`VK_DRIVER_FILES`, `VK_ICD_FILENAMES`). A second call returns what
    the first one did. It does not raise: what could not be loaded is in `Preloaded.problem`.

    Parameters
    ----------
    load : callable, optional
        Loads one library by its path and raises OSError if it cannot; `ctypes.CDLL` unless a test says otherwise.
    """
    if _state.done is None:
        _state.done = _preload(folder(), load or ctypes.CDLL)
    return _state.done


def _preload(base: Path, load: Callable[[str], object]) -> Preloaded:
    if sys.platform != "linux":
        return Preloaded()
    try:
        status = base.stat()
        if status.st_uid not in {0, os.getuid()} or status.st_mode & 0o002:
            return Preloaded(problem=f"{base} can be changed by other users: nothing is loaded from there")
        manifest: Any = json.loads((base / "manifest.json").read_text())
        machine = str(manifest["machine"])
        libraries = [str(name) for name in manifest["libraries"]]
        always = [str(name) for name in manifest["import"]]
        driver = manifest["driver"]
        sizes = {str(name): int(size) for name, size in manifest["sizes"].items()}
    except FileNotFoundError:
        return _point_to_system_software()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return Preloaded(
            problem=f"{base / 'manifest.json'} cannot be read ({error}); `slanglab setup-device` makes it anew"
        )
    if machine != platform.machine():
        return Preloaded(
            problem=f"the libraries in {base} are for {machine}, this machine is {platform.machine()}; "
            "set SLANGLAB_CACHE to a folder of this machine and run `slanglab setup-device`"
        )

    loaded: list[str] = []

    def use(names: Iterable[str]) -> str | None:
        for name in names:
            if name in loaded:
                continue
            file = base / "lib" / name
            try:
                if file.stat().st_size != sizes.get(name):
                    raise OSError("it is not as long as it was unpacked")
                _state.handles.append(load(str(file)))
            except OSError as error:
                return f"{file} cannot be loaded ({error}); `slanglab setup-device` unpacks it anew"
            loaded.append(name)
        return None

    # First what the import of slangpy needs: the probe below imports it.
    problem = use(name for name in always if not available(name))
    if problem or user_driver_files() or driver_choice() == "system":
        return Preloaded(tuple(loaded), None, problem)
    if not driver:
        return Preloaded(tuple(loaded), _point_to_system_software().driver)
    icd = base / "icd.json"
    inherited = any(os.environ.get(variable) == str(icd) for variable in _LOADER_VARIABLES)
    if not inherited and driver_choice() == "auto" and _system_driver_answers():
        return Preloaded(tuple(loaded), None, None)
    problem = use(libraries)
    if problem:
        return Preloaded(tuple(loaded), None, problem)
    return Preloaded(tuple(loaded), _point_loader_to(str(icd)))


def _point_loader_to(files: str) -> str:
    for variable in _LOADER_VARIABLES:  # the second is what loaders before 1.3.207 read
        os.environ[variable] = files
    return files


def _point_to_system_software() -> Preloaded:
    """Choose the software driver that the system has, where the user asked for software and none is unpacked."""
    if driver_choice() != "software" or user_driver_files():
        return Preloaded()
    files = _system_software_files()
    return Preloaded(driver=_point_loader_to(files)) if files else Preloaded()
