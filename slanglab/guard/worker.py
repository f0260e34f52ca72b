"""The guard's worker: compiles kernels to target code in a process that may crash or hang.

It has a device like the notebook's, with the same caches, and Slang sessions with the same modules under the same names, so that
what it compiles is found in the shader cache by the notebook. It reads requests from its input and answers on its output:

    open      the device; the first request, answered with `ready`
    session   a Slang session; not answered, as the next two
    module    a module's text, for a session
    forget    a session that is not needed any more
    compile   a kernel; answered with `at target` when the dangerous stage begins, then with `done` or `failed`

Where any of it fails, `broken` says why and is the last answer.
"""

from __future__ import annotations

import enum
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slanglab import children
from slanglab.caches.folders import free_readers
from slanglab.guard import protocol

__all__ = ["main"]


def main(options: Mapping[str, Any]) -> None:
    """Serve requests until the input ends; the first says what device to open, so that there are no options."""
    # The compiler and the drivers write to the C output; answers have a descriptor of their own.
    channel = os.dup(1)
    os.dup2(2, 1)
    source = os.fdopen(os.dup(0), "rb", 0)

    def take(count: int) -> bytes:
        parts = []
        while count:
            part = source.read(count)
            if not part:
                break
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def answer(message: Mapping[str, Any]) -> None:
        data = protocol.pack(message)
        while data:
            data = data[os.write(channel, data) :]

    worker: _Worker | None = None
    while True:
        request = protocol.read(take, protocol.LARGEST_REQUEST)
        if request is None:
            os._exit(0)  # without the drivers' own farewells, some of which wait
        try:
            if worker is None:
                worker = _Worker(request)
                answer(worker.ready())
            elif request["do"] == "compile":
                worker.compile(request, answer)
            else:
                worker.note(request)
        except Exception as error:
            answer({"is": "broken", "why": f"{request.get('do')}: {_short(error)}"})
            os._exit(1)


class _Worker:
    """The device, and the sessions that the notebook has."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        import slangpy as spy  # not above: what fails here is answered

        if request.get("version") != protocol.VERSION:
            raise RuntimeError("the worker and the notebook are of different versions of SlangLab")
        log = spy.Logger.get()
        log.remove_all_outputs()
        options = dict(request["device"])
        options["type"] = getattr(spy.DeviceType, options["type"])
        if options["shader_cache_path"] is not None:
            # Each worker that crashed has left its places in the cache's table of readers, which has 126. Here nobody has opened it yet.
            free_readers(Path(options["shader_cache_path"]) / "rhi" / "lock.mdb")
        options["compiler_options"] = _compiler_options(request["options"])
        self.device = spy.Device(enable_hot_reload=False, **options)
        self._sessions: dict[int, _Session] = {}

    def ready(self) -> dict[str, Any]:
        """Return the answer to the first request."""
        return {
            "is": "ready",
            "version": protocol.VERSION,
            "adapter": self.device.info.adapter_name,
            "rss": children.rss(os.getpid()),
        }

    def note(self, request: Mapping[str, Any]) -> None:
        """Do what is not answered."""
        number, do = request["session"], request["do"]
        if do == "session":
            self._sessions[number] = _Session(self.device, request)
        elif do == "module":
            self._sessions[number].load(request["name"], request["source"])
        elif do == "forget":
            self._sessions.pop(number, None)

    def compile(self, request: Mapping[str, Any], answer: Any) -> None:
        """Compile a kernel as slangpy does, but to the end."""
        number, key = request["id"], request["key"]
        stage = "front"
        started = time.perf_counter()
        _alarm(request["seconds"])
        try:
            programs = self._sessions[request["session"]].programs(request)
            at_target = time.perf_counter()
            stage = "target"
            answer({"is": "at target", "id": number})
            _alarm(request["seconds"])
            for program in programs:
                self.device.create_compute_pipeline(program, defer_target_compilation=False)
        except Exception as error:
            _alarm(0)
            answer({"is": "failed", "id": number, "key": key, "stage": stage, "why": _short(error)})
            return
        _alarm(0)
        statistics = self.device.shader_cache_stats
        answer(
            {
                "is": "done",
                "id": number,
                "key": key,
                "front": at_target - started,
                "target": time.perf_counter() - at_target,
                "misses": statistics.miss_count,
                "rss": children.rss(os.getpid()),
            }
        )


class _Session:
    """A Slang session with the modules of one of the notebook's."""

    def __init__(self, device: Any, request: Mapping[str, Any]) -> None:
        self._session = device.create_slang_session(
            compiler_options=_compiler_options(request["options"]),
            add_default_include_paths=request["default_includes"],
            cache_path=request["cache"],
        )
        self._modules: dict[str, Any] = {"slangpy": self._session.load_module("slangpy")}
        self._composed: dict[tuple[str, ...], Any] = {}

    def load(self, name: str, source: str) -> None:
        """Load a module; one that fails is missed by the kernel that needs it."""
        if name not in self._modules:
            try:
                self._modules[name] = self._session.load_module_from_source(name, source)
            except Exception:
                return

    def programs(self, request: Mapping[str, Any]) -> list[Any]:
        """Return the linked programs of a kernel."""
        import slangpy as spy

        name, parts = request["module"], tuple(request["parts"])
        if parts:
            module = self._composed.get((name, *parts))
            if module is None:
                module = self._session.compose_modules(name, [self._modules[p] for p in parts])
                self._composed[(name, *parts)] = module
        else:
            module = self._modules[name] if name else None
        kernel = self._session.load_module_from_source(request["name"], request["source"])
        owners = {"kernel": kernel, "module": module}
        conformances = [spy.TypeConformance(*c) for c in request["conformances"]]
        return [
            self._session.link_program(
                [kernel] if module is None else [kernel, module],
                [owners[owner].entry_point(entry, conformances) for owner, entry in entries],
            )
            for entries in request["programs"]
        ]


def _compiler_options(given: Mapping[str, Any]) -> Any:
    """Return the options that the notebook described with `slanglab.guard.likeness.compiler_options`."""
    import slangpy as spy

    options = spy.SlangCompilerOptions()
    for name, value in given.items():
        kind = type(getattr(options, name))
        setattr(options, name, kind[value] if issubclass(kind, enum.Enum) else value)
    return options


def _alarm(seconds: float) -> None:
    """End this process after so many seconds, by the signal's default action: native code need not let go of Python's lock for that."""
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:4000]
