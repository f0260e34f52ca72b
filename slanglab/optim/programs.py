"""The optimizers' kernels: their text for the types among the tensors and the device, and launching them quickly."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import slangpy as spy

from slanglab.device import is_software
from slanglab.tensors import kernels

__all__ = ["NUMBERS", "Launcher", "Way", "program", "way"]

NUMBERS = 8
"""Hyper-parameters that a kernel is given."""

_TYPES = {"float16": ("half", "float"), "float32": ("float", "float"), "float64": ("double", "double")}
"""By numpy's name of a scalar type, Slang's and the one that is computed in."""

_PRESENT = {"float16": "HALVES", "float32": "FLOATS", "float64": "DOUBLES"}


@dataclass(frozen=True)
class Way:
    """How the kernels go through the tensors on a device.

    Attributes
    ----------
    pointers : bool
        One dispatch for all tensors, by a table of device addresses; else one for each tensor, with bound buffers.
    bytes : int
        Bytes that a thread loads at a time; 0: one scalar.
    packs : int
        How many such loads a thread makes of each array before it computes.
    group : int
        Threads of a group.
    chunk : int
        Scalars that a group takes before it looks the table up again.
    groups : int
        Groups at most; a group then goes through the chunks in steps.
    """

    pointers: bool
    bytes: int
    packs: int
    group: int
    chunk: int
    groups: int

    def lanes(self, format: str) -> int:
        """Return how many scalars of a type a thread loads at a time."""
        size = int(format[5:]) // 8
        return 4 if self.bytes and size <= 4 else max(1, self.bytes // size)


def way(device: Any) -> Way:
    """Return how to go through tensors on a device.

    Packs of 16 bytes where the compiler makes one load of them, which is on CUDA, else some scalars a group apart, as for the engine's own
    kernels. On a processor, where starting a group is what costs, few groups that loop; measured on Mesa's llvmpipe (Adam over 2^22
    floats), groups of 16 take 11 ms of processor time and groups of 256 take 23.
    """
    most = int(device.info.limits.max_compute_dispatch_thread_groups[0])
    kind = device.info.type.name
    if kind not in ("vulkan", "cuda") or not device.has_feature(spy.Feature.int64):
        return Way(False, 0, 4, 256, 4096, min(most, 65535))
    if is_software(device):
        return Way(True, 0, 2, 16, 2048, 64)
    return Way(True, *((16, 1) if kind == "cuda" else (0, 4)), 256, 4096, min(most, 65535))


def program(
    device: Any,
    how: Way,
    formats: Iterable[str],
    wide: bool,
    files: tuple[str, ...],
    entry: str,
    **macros: int,
) -> Any:
    """Return a kernel over chunks of tensors, compiled at its first use on a device.

    Parameters
    ----------
    device : slangpy.Device
    how : Way
    formats : iterable of str
        numpy's names of the scalar types among the tensors; one where `how.pointers` is False.
    wide : bool
        Whether hyper-parameters are doubles.
    files : tuple of str
        In `shaders/`, without their endings: those that are written out for each type, and last the one with the entry points.
    entry : str
    **macros
        Of the files.
    """
    types = tuple(sorted(formats))
    key = ("optim", files, entry, types, wide, how, *sorted(macros.items()))
    return kernels.kept(device, key, lambda: _compiled(device, how, types, wide, files, entry, macros))


def _compiled(
    device: Any,
    how: Way,
    types: tuple[str, ...],
    wide: bool,
    files: tuple[str, ...],
    entry: str,
    macros: Mapping[str, int],
) -> Any:
    defined: dict[str, object] = {
        "POINTERS": int(how.pointers),
        "NUMBER": "double" if wide else "float",
        "NUMBERS": NUMBERS,
        "GROUP": how.group,
        "PACKS": how.packs,
        "CHUNK": how.chunk,
        "STATES": 0,
        "CONTROLLED": 0,
        "CORRECTED": 0,
        "CLAMPED": 0,
        **{name: int(kind in types) for kind, name in _PRESENT.items()},
        **macros,
    }
    parts = [*(f"#define {name} {value}" for name, value in defined.items()), *_file("optim_frame")]
    *each, last = files
    for kind in types:
        stored, computed = _TYPES[kind]
        own = {"T": stored, "R": computed, "LANES": how.lanes(kind)}
        if how.pointers:
            own |= {
                name: f"{name.lower()}_{stored}" for name in ("UPDATE", "LIMITED", "ACT", "SWEEP", "MEASURE")
            }
        parts += [f"#define {name} {value}" for name, value in own.items()]
        for file in each:
            parts += _file(file)
        if how.pointers:
            parts += [f"#undef {name}" for name in own]
    text = "\n".join([*parts, *_file(last)])
    # The text says all that the name depends on: the same name is the same kernel.
    name = f"slanglab/{files[0]}-{entry}-{hashlib.sha256(text.encode()).hexdigest()}"
    return kernels.load(device, name, text, entry)


def _file(name: str) -> list[str]:
    return [f'#line 1 "{name}.slang"', kernels.source(f"{name}.slang")]


class Launcher:
    """A kernel that is given a block of bytes, and launched again and again.

    Its root object is made once and its arguments are one block of bytes with device addresses in it, so that a launch takes some
    microseconds; `ComputeKernel.dispatch` looks every name up at each.

    Parameters
    ----------
    device : slangpy.Device
    kernel : slangpy.ComputeKernel
        Its entry point has the uniform struct `sl`, whose first four fields are addresses, then four uints, then the numbers.
    wide : bool
        Whether the numbers are doubles.
    """

    __slots__ = ("_bytes", "_cursor", "_memory", "_pack", "_pipeline", "_root")

    def __init__(self, device: Any, kernel: Any, wide: bool) -> None:
        self._pipeline = kernel.pipeline
        self._root = device.create_root_shader_object(kernel.program)
        arguments = spy.ShaderCursor(self._root).find_entry_point(0).find_field("sl")
        numbers = arguments.find_field("numbers")
        fields = [(arguments.get_field_by_index(i), "Q") for i in range(4)]
        fields += [(arguments.get_field_by_index(i), "I") for i in range(4, 8)]
        fields += [(numbers[i], "d" if wide else "f") for i in range(NUMBERS)]
        self._cursor = fields[0][0]
        text, start = "<", fields[0][0]._offset.uniform_offset
        end = 0
        for field, code in fields:
            offset = field._offset.uniform_offset - start
            text += f"{offset - end}x{code}"
            end = offset + struct.calcsize(f"<{code}")
        self._pack = struct.Struct(text)
        self._memory = bytearray(self._pack.size)
        self._bytes = np.frombuffer(self._memory, np.uint8)

    def record(self, encoder: Any, groups: int, *values: float) -> None:
        """Record a launch over so many groups; the values are those of the struct's fields, in their order."""
        self._pack.pack_into(self._memory, 0, *values)
        # A struct takes no bytes, but its first field takes those of all.
        self._cursor.set_data(self._bytes)
        work = encoder.begin_compute_pass()
        work.bind_pipeline(self._pipeline, self._root)
        work.dispatch_compute((groups, 1, 1))
        work.end()
