"""SlangLab's own Slang kernels: loaded from `shaders/` once per device and element type.

A kernel's text is `element.slang`, what `_BEFORE` names, and the kernel's file, after macros that name the element. It is compiled on
first use (tens of milliseconds) and its target code comes from the device's shader cache in later processes.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from slanglab import guard, paths, waiting
from slanglab.device import is_software

__all__ = ["FORMATS", "Format", "drop", "group_size", "has_wide", "kept", "kernel", "load", "source"]


@dataclass(frozen=True)
class Format:
    """How the elements of one scalar type are read.

    Attributes
    ----------
    name : str
        numpy's name of the type (`float32`, `int8`, `bool`).
    bits : int
        Bits an element takes in the buffer. A bool takes 8 or 32, as the backend has it.
    form : str
        `FLOAT`, `SIGNED`, `UNSIGNED` or `BOOL`.
    """

    name: str
    bits: int
    form: str

    @property
    def wide(self) -> bool:
        """Whether sums need double precision: float32 does not hold these elements exactly."""
        return self.form != "BOOL" and (self.bits == 64 or (self.bits == 32 and self.form != "FLOAT"))


FORMATS = {
    **{f"float{bits}": Format(f"float{bits}", bits, "FLOAT") for bits in (16, 32, 64)},
    **{f"int{bits}": Format(f"int{bits}", bits, "SIGNED") for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": Format(f"uint{bits}", bits, "UNSIGNED") for bits in (8, 16, 32, 64)},
}
"""The scalar types, by numpy's names; bool is made where its size is known."""

_BEFORE = {
    "histogram": ("proposal", "edges"),
    "picture": ("rounded",),
    "statistics": ("rounded",),
}
"""Texts between that of an element and a kernel's own."""

_RAW = {8: "uint8_t", 16: "uint16_t", 32: "uint", 64: "uint64_t"}


class _Shelf:
    """The kernels of one device."""

    def __init__(self, device: Any) -> None:
        self.device = weakref.ref(device)
        self.kernels: dict[tuple[object, ...], Any] = {}


_shelves: dict[int, _Shelf] = {}
# By the device's id: a mapping that held the device, even weakly as its key, would never let go of it,
# since each kernel in it holds the device too. A shelf goes when its device is closed or dropped.


def drop(device: Any) -> None:
    """Forget the kernels of `device`, which otherwise keep it alive; a closed device drops them itself."""
    _shelves.pop(id(device), None)


def _shelf(device: Any) -> _Shelf:
    shelf = _shelves.get(id(device))
    if shelf is None or shelf.device() is not device:
        key = id(device)
        shelf = _shelves[key] = _Shelf(device)
        device.register_device_close_callback(lambda _: _shelves.pop(key, None))
    return shelf


@cache
def source(name: str) -> str:
    """Return the text of a file in `shaders/`."""
    return (paths.shaders() / name).read_text(encoding="utf-8")


def has_wide(device: Any) -> bool:
    """Whether the device computes in double precision and with 64-bit integers."""
    import slangpy as spy

    return bool(device.has_feature(spy.Feature.double) and device.has_feature(spy.Feature.int64))


def group_size(device: Any) -> int:
    """Return the threads of one group in these kernels."""
    # On a processor few threads with long runs are quicker than many with short ones.
    return 16 if is_software(device) else 128


def kept(device: Any, key: tuple[object, ...], make: Callable[[], Any]) -> Any:
    """Return what `make` gave for `key` on this device, made at the first call and kept until the device is closed or dropped."""
    waiting.check(device)
    kernels = _shelf(device).kernels
    if key not in kernels:
        kernels[key] = make()
    return kernels[key]


def load(device: Any, name: str, text: str, entry: str) -> Any:
    """Load Slang text as the module `name` and return its entry point as a compute kernel.

    Raises
    ------
    KeyboardInterrupt
        At Ctrl-C while it is compiled elsewhere.
    """
    module = device.load_module_from_source(name, text)
    if _compiler_ends_processes(device):
        _compile_elsewhere(device, name, text, entry)
    return device.create_compute_kernel(device.link_program([module], [module.entry_point(entry)]))


def _compiler_ends_processes(device: Any) -> bool:
    """Whether an interrupt while target code is made would be the end of this process.

    CUDA's runtime compiler takes SIGINT for itself while it is at work, and exits with status 4.
    """
    import slangpy as spy

    return bool(device.info.type == spy.DeviceType.cuda)


def _compile_elsewhere(device: Any, name: str, text: str, entry: str) -> None:
    """Have the guard's worker compile a kernel, whose target code is in the shader cache then; without a guard do nothing."""
    texts = kept(device, ("texts",), lambda: guard.Texts(device.slang_session))
    worker = guard.guard_for(texts)
    if worker is not None:
        worker.finish(worker.submit(guard.Kernel.alone(name, texts, name, text, entry)))


def kernel(device: Any, file: str, entry: str, form: Format, **macros: int) -> Any:
    """Return a compute kernel for elements of one format.

    Parameters
    ----------
    device : slangpy.Device
        The device to run on.
    file, entry : str
        The file in `shaders/` without its ending, and the entry point in it.
    form : Format
        The element's type. With the macro `RATIO` that of the operands.
    **macros
        Further macros of the kernel (see the head of its file).

    Returns
    -------
    slangpy.ComputeKernel
        Kept until the device is closed or `drop` is called.
    """
    key = (file, entry, form.bits, form.form, *sorted(macros.items()))
    return kept(device, key, lambda: _compiled(device, file, entry, form, macros))


def _compiled(device: Any, file: str, entry: str, form: Format, macros: dict[str, int]) -> Any:
    # A quotient of halves leaves their range: it is classed and summed as a float32.
    bits = max(form.bits, 32) if macros.get("RATIO") else form.bits
    defined: dict[str, object] = {
        "RAW": _RAW[bits],
        "BITS": bits,
        "SOURCE": _RAW[form.bits],
        "SOURCE_BITS": form.bits,
        "FORM": f"FORM_{form.form}",
        "WIDE": int(form.wide),
        "RATIO": 0,
        "TEAM": 1,
        "QUADS": 0,
        "BLOCK": 8,
        **macros,
    }
    text = "".join(f"#define {name} {value}\n" for name, value in defined.items())
    for name in ("element", *_BEFORE.get(file, ()), file):
        text += f'\n#line 1 "{name}.slang"\n' + source(f"{name}.slang")
    # A module name is single-use in a session, so it says everything that the text depends on.
    label = "-".join(
        [f"slanglab/{file}", form.form, str(form.bits), *(f"{k}{v}" for k, v in sorted(macros.items()))]
    )
    return load(device, label.lower(), text, entry)
