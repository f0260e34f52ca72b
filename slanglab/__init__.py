"""SlangLab: Slang's automatic differentiation, live in a Jupyter notebook.

In a notebook `%load_ext slanglab`; in a script `slanglab.compile(source)`.
"""

from __future__ import annotations

import importlib
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from slanglab.machine.libraries import preload

if TYPE_CHECKING:
    from slanglab import optim, torch
    from slanglab.cells.versions import CompileError
    from slanglab.engine.probing.gradcheck import gradcheck
    from slanglab.errors import ArgumentError, CallError, DeviceError, SlangLabError
    from slanglab.lab import Lab, compile, current, last_run, sync, timing
    from slanglab.notebook.extension import load_ipython_extension, unload_ipython_extension
    from slanglab.tensors.create import (
        TensorError,
        assign,
        empty,
        full,
        linspace,
        ones,
        random,
        tensor,
        zeros,
    )
    from slanglab.tensors.dlpack import from_dlpack
    from slanglab.tensors.summary import summary
    from slanglab.widgets.explorer import Explorer, explore
    from slanglab.widgets.flow import Flow, flow
    from slanglab.widgets.inspector import TensorInspector, inspect
    from slanglab.widgets.live import LivePlot
    from slanglab.widgets.live_train import last_training, steps, train
    from slanglab.widgets.tables import table

__all__ = [
    "ArgumentError",
    "CallError",
    "CompileError",
    "DeviceError",
    "Explorer",
    "Flow",
    "Lab",
    "LivePlot",
    "SlangLabError",
    "TensorError",
    "TensorInspector",
    "assign",
    "compile",
    "current",
    "empty",
    "explore",
    "flow",
    "from_dlpack",
    "full",
    "gradcheck",
    "inspect",
    "last_run",
    "last_training",
    "linspace",
    "load_ipython_extension",
    "ones",
    "optim",
    "random",
    "steps",
    "summary",
    "sync",
    "table",
    "tensor",
    "timing",
    "torch",
    "train",
    "unload_ipython_extension",
    "zeros",
]

# Before anything imports slangpy: on a machine without root its libraries and the driver lie unpacked in the cache folder.
preload()

try:
    __version__ = version("slanglab")
except PackageNotFoundError:  # used from a checkout that was not installed
    __version__ = "0+unknown"

# Each name is imported when it is first used: `slanglab doctor` has to work where slangpy cannot be imported.
_HOMES = {
    "slanglab.cells.versions": ("CompileError",),
    "slanglab.engine.probing.gradcheck": ("gradcheck",),
    "slanglab.errors": ("ArgumentError", "CallError", "DeviceError", "SlangLabError"),
    "slanglab.lab": ("Lab", "compile", "current", "last_run", "sync", "timing"),
    "slanglab.notebook.extension": ("load_ipython_extension", "unload_ipython_extension"),
    "slanglab.tensors.create": (
        "TensorError",
        "assign",
        "empty",
        "full",
        "linspace",
        "ones",
        "random",
        "tensor",
        "zeros",
    ),
    "slanglab.tensors.dlpack": ("from_dlpack",),
    "slanglab.tensors.summary": ("summary",),
    "slanglab.widgets.explorer": ("Explorer", "explore"),
    "slanglab.widgets.flow": ("Flow", "flow"),
    "slanglab.widgets.inspector": ("TensorInspector", "inspect"),
    "slanglab.widgets.live": ("LivePlot",),
    "slanglab.widgets.live_train": ("last_training", "steps", "train"),
    "slanglab.widgets.tables": ("table",),
}
_ROOMS = ("optim", "torch")
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"slanglab.{name}")
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'slanglab' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME, *_ROOMS])
