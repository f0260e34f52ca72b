"""What runs in a process of its own: Slang, which writes CUDA and C++, and the build of these by slangtorch.

A compiler that crashes or is interrupted costs this process. Slang is the library that comes with slangpy, called as `slangc` calls it,
so that the texts do not need slangtorch. What ninja starts ends with this process: ninja is told by the system when its parent is gone,
and ends its own children.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from slanglab.caches.folders import InUse

__all__ = ["BUILD_NAMES", "TARGETS", "main"]

TARGETS = {"cuda": "cuda", "host": "torch-binding"}
"""What Slang calls the two texts."""

BUILD_NAMES = (
    "TORCH_CUDA_ARCH_LIST", "MAX_JOBS", "CC", "CXX", "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN",
    "INCLUDE", "LIB", "LIBPATH", "CPATH", "LIBRARY_PATH", "ProgramFiles(x86)", "VSCMD_ARG_TGT_ARCH", "CONDA_PREFIX",
)  # fmt: skip
"""Variables that a build needs beside those that every child is given."""

_COLLECTED = (
    "libslang-compiler.so*",
    "libslang-compiler*.dylib",
    "slang-compiler.dll",
    "libslang.so*",
    "slang.dll",
)
_BLOB_POINTER, _BLOB_SIZE = 3, 4  # in the table of an ISlangBlob, behind the three of ISlangUnknown


def main(options: Mapping[str, Any]) -> None:
    """Do one job, "texts" or "build", and write what came of it to the output as JSON."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what compilers print by themselves is not the answer
    os.environ.update(options.get("environment", {}))
    job = _texts if options["job"] == "texts" else _build
    answer = job(Path(options["file"]))
    json.dump(answer, out)
    out.close()


# ----- Slang -----


def _texts(file: Path) -> dict[str, Any]:
    """Return the texts that Slang writes for a file, by the names of `TARGETS`, and its messages."""
    library = _library()
    answer: dict[str, Any] = {"messages": "", "failed": False}
    for name, target in TARGETS.items():
        text, messages = _compile(library, file, target)
        if not answer["failed"]:
            answer["messages"] = messages
        answer["failed"] |= text is None
        answer[name] = text or ""
        if text is None:
            answer["messages"] = messages
            break
    return answer


def _library() -> Any:
    """Return Slang's library, of the slangpy that is installed.

    Raises
    ------
    OSError
    """
    spec = importlib.util.find_spec("slangpy")
    folder = Path(spec.origin).parent if spec is not None and spec.origin is not None else Path()
    found = next((f for pattern in _COLLECTED for f in sorted(folder.rglob(pattern))), None)
    if found is None:
        raise OSError(f"there is no Slang library in {folder}")
    library = ctypes.CDLL(str(found))
    pointer, text = ctypes.c_void_p, ctypes.c_char_p
    for function, result, arguments in (
        ("spCreateSession", pointer, [text]),
        ("spCreateCompileRequest", pointer, [pointer]),
        ("spProcessCommandLineArguments", ctypes.c_int, [pointer, ctypes.POINTER(text), ctypes.c_int]),
        ("spCompile", ctypes.c_int, [pointer]),
        ("spGetDiagnosticOutput", text, [pointer]),
        ("spGetTargetCodeBlob", ctypes.c_int, [pointer, ctypes.c_int, ctypes.POINTER(pointer)]),
    ):
        entry = getattr(library, function)
        entry.restype, entry.argtypes = result, arguments
    return library


def _compile(library: Any, file: Path, target: str) -> tuple[str | None, str]:
    """Return the text for a target, None where there is none, and the messages."""
    request = library.spCreateCompileRequest(library.spCreateSession(None))
    # The same options as slangtorch's; the folder is the current one, so that messages name files without it.
    words = [file.name, "-target", target, "-ignore-capabilities", "-I", "."]
    arguments = (ctypes.c_char_p * len(words))(*(word.encode() for word in words))
    os.chdir(file.parent)
    failed = library.spProcessCommandLineArguments(request, arguments, len(words)) < 0
    failed = failed or library.spCompile(request) < 0
    messages = (library.spGetDiagnosticOutput(request) or b"").decode("utf-8", "replace")
    blob = ctypes.c_void_p()
    if failed or library.spGetTargetCodeBlob(request, 0, ctypes.byref(blob)) < 0 or not blob:
        return None, messages
    table = ctypes.cast(
        ctypes.cast(blob, ctypes.POINTER(ctypes.c_void_p))[0] or 0, ctypes.POINTER(ctypes.c_void_p)
    )
    start = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(table[_BLOB_POINTER] or 0)(blob)
    size = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p)(table[_BLOB_SIZE] or 0)(blob)
    return ctypes.string_at(start, size).decode("utf-8", "replace"), messages


# ----- the build -----


def _build(file: Path) -> dict[str, Any]:
    """Build a file's module where slangtorch looks for it; return why it failed, empty where it did not."""
    os.environ["PATH"] = os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", "")))
    _tie()
    lock = InUse(file.parent / "in-use")
    while not lock.take_alone():
        time.sleep(0.1)
    for stale in file.parent.glob(".slangtorch_cache/*/*/*/lock"):
        stale.unlink(missing_ok=True)  # of a build that was ended; torch would wait for it for ever
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            import slangtorch

            slangtorch.loadModule(str(file))
    except Exception as error:
        return {"error": f"{said.getvalue()}\n{type(error).__name__}: {error}"}
    finally:
        lock.close()
    return {"error": ""}


def _tie() -> None:
    """Have what is started from now on end with this process."""
    if sys.platform != "linux":
        return
    library = ctypes.CDLL(None)

    def with_parent() -> None:
        library.prctl(1, int(signal.SIGTERM), 0, 0, 0)  # PR_SET_PDEATHSIG

    class Tied(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            kwargs.setdefault("preexec_fn", with_parent)
            super().__init__(*args, **kwargs)

    subprocess.Popen = Tied  # type: ignore[misc]


def environment() -> Iterator[tuple[str, str]]:
    """Yield the variables of this process that a build needs."""
    return ((name, os.environ[name]) for name in BUILD_NAMES if name in os.environ)
