"""Where slangpy makes a kernel: the functions that it calls for that, while SlangLab is loaded.

slangpy keeps its kernels by the signature of a call and does not say whether it had one. For those that it lacks it asks
`FunctionNode.generate_call_data` (calls), `generate_bwds_call_data` (PyTorch's backward pass) and `DispatchData` (`dispatch`). They are
replaced here by functions that take the time, and that have the guard compile the kernel before slangpy can.

slangpy writes the kernel's text, loads it and links it, which is safe, and leaves its compile to target code, which is not, to the first
dispatch. The guard's worker gets the text when slangpy loads it, so that both read it at the same time; by the time that slangpy
is done, the worker is ahead by most of its work.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

import slangpy as spy
from slangpy.core import calldata, dispatchdata
from slangpy.core.function import FunctionNode, PipelineType
from slangpy.core.native import CallMode

from slanglab import guard
from slanglab.engine.entry_size import PUSHED, pushed
from slanglab.guard import CompileInterrupted, Kernel, Pending, Texts

__all__ = ["Guarded", "count_kernel", "install", "seconds", "uninstall"]

_make_call = FunctionNode.generate_call_data
_make_backward = FunctionNode.generate_bwds_call_data
_make_dispatch = dispatchdata.DispatchData.__init__
_load_module = spy.SlangSession.load_module_from_source
_estimate_size = calldata.estimate_entrypoint_arguments_size
_CALL = "compute_main"
_VERSION = re.compile(r"__v\d+[a-z]*$")
_here = threading.local()
_spent = 0.0


def seconds() -> float:
    """Return the time that went into making kernels since the process began: host code, front end, linking and the guard."""
    return _spent


def count_kernel(module: Any) -> None:
    """Note that a kernel of a module is loaded, which its Slang session keeps; modules that are no cell's do not count."""
    loads = getattr(module, "loads", None)
    if loads is not None:
        loads.kernel()


class Guarded:
    """A kernel in the making: given to the guard when its text is known, and waited for at the end.

    A context manager. On leaving it without an error the kernel has been compiled by the guard, or the guard is not in use.

    Parameters
    ----------
    texts : Texts or None
        Of the session; None does nothing.
    """

    def __init__(self, texts: Texts | None) -> None:
        self._guard = guard.guard_for(texts) if texts is not None else None
        self._pending: Pending | None = None
        self._started = 0.0

    def submit(self, kernel: Kernel | None) -> None:
        """Give a kernel to the guard; a second one takes the place of the first."""
        if self._guard is None or kernel is None:
            return
        if self._pending is None or self._pending.kernel.key != kernel.key:
            self._pending = self._guard.submit(kernel)

    def __enter__(self) -> Guarded:
        self._started = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        global _spent
        try:
            if self._guard is None or self._pending is None:
                return
            if kind is None:
                self._guard.finish(self._pending)
            elif not issubclass(kind, Exception):  # Ctrl-C: nobody waits for the worker any more
                if self._pending.worker is not None:
                    self._guard.abandon()
                if kind is KeyboardInterrupt:
                    raise CompileInterrupted(
                        f"{self._pending.kernel.shown} was not compiled to the end"
                    ) from None
        finally:
            _spent += time.perf_counter() - self._started


class _Build(Guarded):
    """A kernel that slangpy makes of a function."""

    def __init__(self, node: Any, suffix: str = "") -> None:
        self._about = about = node.calc_build_info()
        on = about.pipeline_type == PipelineType.compute
        super().__init__(guard.texts_of(about.module.session) if on else None)
        backward = suffix or (" backward" if about.call_mode == CallMode.bwds else "")
        self._shown = f"{_VERSION.sub('', about.module.name)}.{about.name}{backward}"
        self._outer: _Build | None = None

    @property
    def module(self) -> Any:
        """The module of the function."""
        return self._about.module

    def fits(self, call: Any, axes: int) -> bool:
        """Tell whether a kernel's arguments fit among the push constants, which Vulkan has few of."""
        if self.module.device.info.type != spy.DeviceType.vulkan:
            return True
        return pushed(call.values(), axes, self._about.call_mode != CallMode.prim) <= PUSHED

    def loading(self, name: str, source: str) -> None:
        """Take the text of a module that slangpy loads."""
        entry = f"{self._about.name}_entrypoint"
        program = ("kernel", _CALL)
        if f"void {_CALL}" not in source:
            program = ("kernel", entry) if f"void {entry}" in source else ("module", str(self._about.name))
        about = self._about
        module = about.module.device_module
        self.submit(Kernel.of(self._shown, name, source, module, [[program]], about.type_conformances or ()))

    def made(self, data: Any) -> None:
        """Take a call's data whose kernel slangpy had: its text may not have been compiled yet."""
        if self._guard is None or self._pending is not None:
            return
        kept = self._about.module.pipeline_cache
        name = next((n for n, pipeline in kept.items() if pipeline is data.pipeline), None)
        if name is not None:
            self.loading(name, data.code)

    def __enter__(self) -> _Build:
        super().__enter__()
        self._outer, _here.build = getattr(_here, "build", None), self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _here.build = self._outer
        super().__exit__(kind, error, traceback)


def _load(self: Any, module_name: str, source: str, *rest: Any, **named: Any) -> Any:
    build: _Build | None = getattr(_here, "build", None)
    if build is not None:
        build.loading(module_name, source)
        count_kernel(build.module)
    return _load_module(self, module_name, source, *rest, **named)


def _call(self: Any, args: Any, kwargs: Any) -> Any:
    with _Build(self) as build:
        data = _make_call(self, args, kwargs)
        build.made(data)
    return data


def _backward(self: Any, fwds_call_data: Any, args: Any, kwargs: Any) -> Any:
    with _Build(self, " backward") as build:
        data = _make_backward(self, fwds_call_data, args, kwargs)
        build.made(data)
    return data


def _dispatch(self: Any, func: Any, **kwargs: Any) -> None:
    with _Build(func):
        _make_dispatch(self, func, **kwargs)


def _estimate(call: Any, axes: int) -> int:
    build: _Build | None = getattr(_here, "build", None)
    own = int(_estimate_size(call, axes))
    if build is None or build.fits(call, axes):
        return own
    return 1 << 20  # more than any device takes


_PLACES: tuple[tuple[Any, str, Callable[..., Any], Callable[..., Any]], ...] = (
    (FunctionNode, "generate_call_data", _call, _make_call),
    (FunctionNode, "generate_bwds_call_data", _backward, _make_backward),
    (dispatchdata.DispatchData, "__init__", _dispatch, _make_dispatch),
    (spy.SlangSession, "load_module_from_source", _load, _load_module),
    (calldata, "estimate_entrypoint_arguments_size", _estimate, _estimate_size),
)


def install() -> None:
    """Put the functions in place; a second time changes nothing."""
    for owner, name, ours, _ in _PLACES:
        setattr(owner, name, ours)


def uninstall() -> None:
    """Put slangpy's own functions back, and end the guard's workers."""
    for owner, name, _, theirs in _PLACES:
        setattr(owner, name, theirs)
    guard.stop_all()
