"""The worker engine: device, cells and tensors in a process of their own, which a kernel may crash or keep busy for ever.

`use` turns it on and `leave` off; `active` is what is on. `frames` and `values` are what goes between the processes, `worker` is the other
side, `process` and `engine` this one; `cells`, `proxies` and `tensor` are what the user has in hand.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable
from typing import Any

from slanglab import elsewhere
from slanglab.cells.session import Request
from slanglab.errors import DeviceError
from slanglab.remote.cells import RemoteCells
from slanglab.remote.engine import Engine, Reference
from slanglab.remote.proxies import (
    Remote,
    RemoteFunction,
    RemoteModule,
    RemoteObject,
    RemoteStruct,
    cell_of,
)
from slanglab.remote.tensor import RemoteTensor, StaticView
from slanglab.remote.worker import PUBLIC

__all__ = ["LIMITS", "Lab", "RemoteTensor", "active", "cell_of", "leave", "use"]

LIMITS = """\
Cells run in a worker process now. A kernel that crashes or never ends takes the tensors with it, and nothing of Python's.
What is different, until `%slang config engine notebook`:
- tensors show a still picture instead of the live inspector
- tensors and functions of one engine cannot be passed to the other: run the cells again, and make the tensors again
- tensors are no `slangpy.Tensor`; slangpy's own objects (devices, textures, `InstanceTensor`, command encoders, PyTorch tensors) cannot be
  passed in: numbers, numpy arrays, dicts, slangpy's vectors, `grid` and their like can
- a call costs some 0.2 ms more, and numbers that come to Python are copied once more
- a second process holds some 300 MB, the guard another"""
"""What is said where the engine is chosen."""


class Lab:
    """The lab of another process.

    Parameters
    ----------
    settings : callable
        Return the user's settings, by name, for a new worker.

    Attributes
    ----------
    engine : Engine
    cells : RemoteCells
    """

    def __init__(self, settings: Callable[[], dict[str, str]]) -> None:
        self.engine = Engine(settings, self._made)
        self.cells = RemoteCells(self.engine)
        self.engine.started = self._started
        self._device = ""

    def _started(self) -> str:
        if self._device:
            self._ask_quietly(self._device)
        return self.cells.again()

    def _ask_quietly(self, line: str) -> None:
        """Run a command for what it does."""
        with contextlib.redirect_stdout(io.StringIO()):
            self.engine.ask("command", "", line=line)

    def _made(self, kind: str, reference: Reference, facts: dict[str, Any]) -> Any:
        engine = self.engine
        if kind == "tensor":
            return RemoteTensor(engine, reference, facts)
        if kind == "function":
            return RemoteFunction(engine, str(facts["name"]), reference)
        if kind == "struct":
            return RemoteStruct(engine, reference, facts)
        if kind == "module":
            return Remote(engine, reference)
        return RemoteObject(engine, reference, facts)

    def command(self, line: str) -> None:
        """Run `%slang LINE` in the worker; what it prints is printed here."""
        words = line.split()
        if words == ["reset"]:
            self.engine.reset()
            return
        self.engine.ask("command", f"%slang {line.strip()}", line=line)
        if words[:1] == ["device"] and len(words) == 2 and words[1] != "list":
            self._device = line
        elif words[:1] == ["forget"]:
            self.cells.forget(words[1])

    def configure(self, line: str) -> None:
        """Run `%slang config …` in the worker too, silently."""
        self._ask_quietly(line)

    def public(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one of SlangLab's public functions; what `slanglab.elsewhere` calls."""
        if name == "compile":
            return self._compile(*args, **kwargs)
        if name == "timing":
            return self.engine.timing()
        if name == "inspect":
            return StaticView(*args, **kwargs)
        if name not in PUBLIC:
            raise DeviceError(f"slanglab.{name} does not work while `%slang config engine worker` is on")
        if name == "sync":
            self.engine.settle(forever=True)
        return self.engine.ask("public", f"slanglab.{name}", args=args, kwargs=kwargs, name=name)

    def _compile(self, source: str, name: str | None = None, **options: Any) -> RemoteModule:
        options["macros"] = tuple(options.get("macros", ()))
        options["include"] = tuple(options.get("include", ()))
        return self.cells.run(Request(source, name, label=name or "source", **options)).module


_active: Lab | None = None


def active() -> Lab | None:
    """Return the lab of the worker engine while it is on."""
    return _active


def use(settings: Callable[[], dict[str, str]]) -> Lab:
    """Turn the worker engine on.

    Raises
    ------
    DeviceError
        Where it cannot work.
    """
    global _active
    if os.name != "posix":
        raise DeviceError(
            "the worker engine does not run on this system yet",
            hint="it needs Linux or macOS; `%slang config engine notebook`",
        )
    if _active is None:
        _active = Lab(settings)
        elsewhere.send_to(_active.public)
    return _active


def leave() -> None:
    """Turn the worker engine off, and end the worker."""
    global _active
    if _active is not None:
        elsewhere.send_to(None)
        _active.engine.gone = "the worker engine was turned off"
        _active.engine.stop()
        _active = None


def _there(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    first = args[0] if args else next(iter(kwargs.values()))
    lab = _active
    if lab is None or lab.engine is not first._engine:
        raise DeviceError(
            "the worker engine that this belongs to was turned off",
            hint="make it again: `slanglab.tensor(array)`",
        )
    return lab.public(name, args, kwargs)


RemoteTensor.slanglab_there = staticmethod(_there)  # type: ignore[assignment, method-assign]
Remote.slanglab_there = staticmethod(_there)  # type: ignore[assignment, method-assign]
