"""Giving a straight kernel its arguments, and launching it.

`ComputeKernel.dispatch` looks every name up at each call and takes some 50 µs for it, more than a kernel of a million elements on a
graphics processor. Here the places of the arguments are looked up once: numbers and addresses go to the device as one block of
bytes, and only the buffers are written one by one.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import slangpy as spy

__all__ = ["CODES", "Launcher", "packing"]

CODES = {
    "uint": "I",
    "int": "i",
    "float": "f",
    "double": "d",
    "int64_t": "q",
    "uint64_t": "Q",
}
"""By Slang type, what `struct` calls its bytes; other types are written by slangpy."""


class Launcher:
    """One compiled kernel, ready to be launched again and again.

    Parameters
    ----------
    kernel : slangpy.ComputeKernel
    fields : mapping of str to str
        The arguments that every launch gives: the name in the kernel's struct, and the Slang type.
    block : str
        Name of the parameter block that the arguments are; empty where they are the entry point's.

    Attributes
    ----------
    fields : dict of str to str
    """

    __slots__ = (
        "_block", "_bytes", "_lock", "_memory", "_others", "_pack", "_packed", "_pipeline", "_start", "fields", "kernel",
    )  # fmt: skip

    def __init__(self, kernel: Any, fields: Mapping[str, str], block: str) -> None:
        self.kernel = kernel
        self.fields = dict(fields)
        self._block = block
        self._lock = threading.Lock()
        self._pipeline: Any = None
        self._packed: tuple[str, ...] = ()
        self._others: tuple[tuple[str, int], ...] = ()
        self._memory = bytearray()
        self._bytes = np.frombuffer(self._memory, np.uint8)
        """The same memory, as slangpy takes it."""
        self._pack = struct.Struct("")
        self._start = 0

    def record(self, encoder: Any, variables: Mapping[str, Any], groups: int) -> None:
        """Record a launch.

        Parameters
        ----------
        encoder : slangpy.CommandEncoder
        variables : mapping of str to object
            The arguments: addresses and numbers, buffers, vectors.
        groups : int
            Groups of threads.
        """
        if self._pipeline is None:
            self._pipeline = self.kernel.pipeline
        work = encoder.begin_compute_pass()
        root = spy.ShaderCursor(work.bind_pipeline(self._pipeline))
        arguments = (
            root.find_field(self._block).dereference()
            if self._block
            else root.find_entry_point(0).find_field("sl")
        )
        with self._lock:  # two threads may call one function
            if not self._packed:
                self._place(arguments)
            self._pack.pack_into(self._memory, 0, *[variables[name] for name in self._packed])
            arguments.get_field_by_index(self._start).set_data(self._bytes)
        # After the bytes, between which a backend may have put the handles of buffers.
        for name, index in self._others:
            arguments.get_field_by_index(index).write(variables[name])
        work.dispatch_compute((groups, 1, 1))
        work.end()

    def _place(self, arguments: Any) -> None:
        """Find out where each argument lies."""
        placed: list[tuple[int, str, str, int]] = []
        others = []
        for name, kind in self.fields.items():
            index = arguments.find_field_index(name)
            code = "Q" if kind.endswith("*") else CODES.get(kind)
            if code is None:
                others.append((name, index))
            else:
                offset = arguments.get_field_by_index(index)._offset.uniform_offset
                placed.append((offset, code, name, index))
        placed.sort()
        # A struct takes no bytes, but its first field takes those of all.
        self._start = placed[0][3]
        self._pack = packing([(offset, code) for offset, code, _, _ in placed])
        self._memory = bytearray(self._pack.size)
        self._bytes = np.frombuffer(self._memory, np.uint8)
        self._packed = tuple(name for _, _, name, _ in placed)
        self._others = tuple(others)


def packing(placed: Sequence[tuple[int, str]], multiple: int = 1) -> struct.Struct:
    """Return what writes values to the bytes of a struct, beginning with the first of them.

    Parameters
    ----------
    placed : sequence of (int, str)
        Where each lies and what `struct` calls it, in the order of their places.
    multiple : int
        Of how many bytes the whole is to be a multiple.
    """
    text, end = "<", placed[0][0]
    for offset, code in placed:
        text += f"{offset - end}x{code}"
        end = offset + struct.calcsize(f"<{code}")
    return struct.Struct(f"{text}{-(end - placed[0][0]) % multiple}x")
