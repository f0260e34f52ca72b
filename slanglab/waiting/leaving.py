"""Leaving a process whose device does not stop.

At its end slangpy closes its devices and frees their pipelines, which waits for kernels that run, for ever if one is endless. Where a
device is still at work then, nothing of slangpy's is freed: its own clean-up is taken out, every object of its types gets one
reference that nobody gives back, and the process ends where C's `exit` begins, with the status that it was to have.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import io
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import slangpy as spy

from slanglab import caches
from slanglab.waiting import marks

__all__ = ["devices_from", "install", "keep_for_ever"]

_GRACE = 0.2  # seconds that work may take to end when the process does
_LAST = 2.0  # seconds after which a process that still does not end is ended
_FILES = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)
_kept = False
_open_devices: Callable[[], list[spy.Device]] = list


def keep_for_ever() -> None:
    """Give every object of slangpy's that exists a reference that nobody gives back.

    What is freed of a device with endless work (a pipeline, a module, the device) blocks for ever, and Python frees what the user
    no longer holds: all of it has to stay, the user's own objects too. Takes some 0.1 s.
    """
    global _kept
    _kept = True
    increase = ctypes.pythonapi.Py_IncRef
    increase.argtypes, increase.restype = [ctypes.py_object], None
    types: dict[type, bool] = {}
    seen: set[int] = set()
    everything = gc.get_objects()
    for found in everything:
        for one in (found, *gc.get_referents(found)):
            kind = type(one)
            native = types.get(kind)
            if native is None:
                native = types[kind] = any(
                    str(getattr(k, "__module__", "")).startswith("slangpy") for k in kind.__mro__[:-1]
                )
            if native and id(one) not in seen:
                seen.add(id(one))
                increase(one)
    # The extension's own module closes all devices when it is freed.
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0].startswith("slangpy"):
            increase(module)


def devices_from(open_devices: Callable[[], list[spy.Device]]) -> None:
    """Say what lists the devices that are open; slangpy lists closed ones too, and crashes when one is asked."""
    global _open_devices
    _open_devices = open_devices


class _Slangpys:
    """Equal to slangpy's own function among those that run at exit; `atexit` shows it to whatever it is asked to take out."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return type(other).__name__ == "nb_func"


def _is_stuck() -> bool:
    """Tell whether a device is still at work, after a grace."""
    ahead = []
    for device in _open_devices():
        try:
            ahead.append((device, marks.mark(device)))
        except Exception:  # noqa: S112  # a closed or a lost device has nothing to do
            continue
    end = time.perf_counter() + _GRACE
    while ahead:
        ahead = [(d, m) for d, m in ahead if not _reached(d, m)]
        if ahead and time.perf_counter() >= end:
            return True
        if ahead:
            time.sleep(1e-3)
    return False


def _reached(device: Any, mark: marks.Mark) -> bool:
    try:
        return marks.is_reached(device, mark)
    except Exception:  # closed or lost meanwhile
        return True


def _leave() -> None:
    forked = os.getpid() != _process  # the threads of the devices are not here
    stuck = _kept or (bool(_open_devices()) if forked else _is_stuck())
    if _notebook() is not None:
        _collect_no_more()
    if not stuck:
        return
    atexit.unregister(_Slangpys())  # type: ignore[arg-type]  # it is compared, never called
    # The processor is busy with what does not end; what is new in the caches is read by the next process that opens them.
    atexit.unregister(caches.settle)
    if hasattr(signal, "setitimer"):
        # What else may wait for the device at the end, with the lock held, ends here.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, _LAST)
    shell = _notebook()
    if shell is not None:
        # A kernel's status is 0. Its shell does all else that it does at the end, but keeps the user's variables.
        shell.reset = lambda *_args, **_kwargs: None
        _end_now(0)
    keep_for_ever()
    try:
        library = ctypes.CDLL(None)
        on_exit, end = library.on_exit, library._exit
    except (OSError, AttributeError, TypeError):  # not glibc
        _end_now(1 if getattr(sys, "last_value", None) is not None else 0)
        return
    gc.freeze()  # nothing is to be collected any more
    on_exit(end, None)


def _collect_no_more() -> None:
    """Have the collections at the end of a process find nothing to do.

    With what slangpy and IPython load there are some 2e5 objects, and IPython and Python go through all of them several times then:
    half a second until a notebook restarts. What is not part of a cycle is freed as ever. A file that a cycle holds would be
    closed by a collection: what was written to it is written out here instead.
    """
    for one in gc.get_objects():
        if type(one) in _FILES:
            try:
                one.flush()
            except (OSError, ValueError):  # closed, or nobody reads it any more
                continue
    gc.freeze()


def _notebook() -> Any:
    """Return the shell of this kernel; None in another process than a kernel's."""
    module = sys.modules.get("ipykernel.kernelapp")
    if module is None or not module.IPKernelApp.initialized():
        return None
    return module.IPKernelApp.instance().shell


def _end_now(status: int) -> None:
    """Do what others registered for the end of the process, and end it."""
    atexit.unregister(_leave)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue
    os._exit(status)


_process = os.getpid()


def install() -> None:
    """Register for the end of the process, behind everything registered so far; a second time moves it behind what came since."""
    atexit.unregister(_leave)
    atexit.register(_leave)


install()
