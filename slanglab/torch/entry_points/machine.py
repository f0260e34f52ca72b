"""What a build of a `--torch` cell needs of the machine, and the command for each thing that is missing."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Missing", "missing", "versions"]

_GET_TORCH = "install a build of PyTorch for CUDA, and restart Python"


@dataclass(frozen=True)
class Missing:
    """Something that a build needs and the machine lacks.

    Attributes
    ----------
    what : str
        In words: "slangtorch is not installed".
    command : str
        What mends it.
    """

    what: str
    command: str


def missing() -> tuple[Missing, ...]:
    """Return what is missing, in the order in which to mend it; empty where cells can be built and run."""
    found = []
    if not _has("torch"):
        found.append(Missing("PyTorch is not installed", _GET_TORCH))
    elif reason := _without_cuda() if _has("slangtorch") else _built_without_cuda(_version("torch")):
        found.append(reason)
    if not _has("slangtorch"):
        found.append(Missing("slangtorch is not installed", 'pip install "slanglab[slangtorch]"'))
    if _program("ninja") is None:
        found.append(Missing("ninja is not found", "pip install ninja"))
    if _nvcc() is None:
        found.append(
            Missing(
                "nvcc, CUDA's compiler, is not found",
                "install the CUDA toolkit (12 or newer), and set CUDA_HOME to its folder",
            )
        )
    if _host_compiler() is None:
        command = "install the Visual Studio build tools" if sys.platform == "win32" else "apt install g++"
        found.append(Missing("there is no C++ compiler", command))
    return tuple(found)


def versions() -> dict[str, str]:
    """Return the versions of what takes part in a build, and for which GPU it is."""
    found = {name: _version(name) for name in ("slangpy", "slangtorch", "torch")}
    found["python"] = f"{sys.implementation.cache_tag} {sys.platform}"
    found["for"] = os.environ.get("TORCH_CUDA_ARCH_LIST", "")
    if found["slangtorch"] and not found["for"]:
        found["for"] = _capabilities()
    return found


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _has(name: str) -> bool:
    return sys.modules.get(name) is not None or importlib.util.find_spec(name) is not None


def _without_cuda() -> Missing | None:
    try:
        import torch
    except (ImportError, OSError) as error:
        return Missing(f"PyTorch cannot be imported ({error})", _GET_TORCH)
    if torch.version.cuda is None:
        return _built_without_cuda(f"{torch.__version__}".partition("+")[0] + "+cpu")
    if not torch.cuda.is_available():
        return Missing("PyTorch finds no CUDA device", "`nvidia-smi` tells whether the driver sees one")
    return None


def _built_without_cuda(version: str) -> Missing | None:
    """Tell from a version alone, which does not take the seconds of an import."""
    if not version.endswith("+cpu"):
        return None
    return Missing(f"this PyTorch ({version}) is built without CUDA", _GET_TORCH)


def _capabilities() -> str:
    try:
        import torch
    except (ImportError, OSError):
        return ""
    if not torch.cuda.is_available():
        return ""
    return " ".join(
        sorted({str(torch.cuda.get_device_capability(i)) for i in range(torch.cuda.device_count())})
    )


def _program(name: str) -> str | None:
    """Find a program as the build does: in the folder of this Python too, which a kernel's PATH may lack."""
    path = os.pathsep.join((os.path.dirname(sys.executable or ""), os.environ.get("PATH", os.defpath)))
    return shutil.which(name, path=path)


def _nvcc() -> str | None:
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if folder := os.environ.get(variable):
            return shutil.which("nvcc", path=str(Path(folder) / "bin"))
    return _program("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")


def _host_compiler() -> str | None:
    if sys.platform == "win32":
        return "cl"  # slangtorch looks for it with Visual Studio's own finder
    return _program(os.environ.get("CXX") or "c++") or _program("g++")
