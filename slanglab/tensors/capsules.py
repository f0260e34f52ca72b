"""DLPack capsules: the C structure by which libraries hand each other an array without copying it, written and read by ctypes.

The layout is that of DLPack 1.0 (dlpack.h), and of the one before it, which has no version and no flags.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["BFLOAT", "CPU", "CUDA", "CUDA_HOST", "CUDA_MANAGED", "Opened", "make"]

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
"""DLPack's numbers for kinds of devices."""

BFLOAT = 4
"""DLPack's number for bfloat16, which numpy has no type for."""

_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
_KINDS = {code: kind for kind, code in _CODES.items()}
_VERSION = (1, 0)
_READ_ONLY, _COPIED = 1, 2
_NAMES = {False: b"dltensor", True: b"dltensor_versioned"}
_USED = {False: b"used_dltensor", True: b"used_dltensor_versioned"}


class _Device(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int32), ("number", ctypes.c_int32))


class _Type(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _Type),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Plain(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter))


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", _Deleter),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


def _python(name: str, result: Any, *arguments: Any) -> Any:
    """Return a function of Python's own C interface, declared for this module alone."""
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_new = _python("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_is = _python("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_pointer = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_rename = _python("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)

_alive: dict[int, tuple[Any, ...]] = {}
"""By the address of a structure that somebody has: all that must live as long, the array's owner among it."""

_offered: dict[int, Any] = {}
"""By the address of a structure: its capsule, as long as nobody is known to have taken it."""

_OURS = 3
"""References to a capsule that nobody has while `_sweep` looks at it: the dict's, the variable's, the count's argument."""


def _let_go(address: int) -> None:
    _alive.pop(address, None)


def _sweep(_phase: str = "", _info: dict[str, Any] | None = None) -> None:
    """Let go of what capsules hold that nobody took, at each new one and after each collection.

    A destructor would say so at once, but no function of Python's can be one: a consumer that refuses a capsule has its error
    pending while it drops it, and that would be lost.
    """
    for at in list(_offered):
        capsule = _offered.get(at)
        if capsule is None or not any(_is(capsule, name) for name in _NAMES.values()):
            _offered.pop(at, None)  # taken: its new owner calls the deleter
        elif sys.getrefcount(capsule) <= _OURS:
            del _offered[at]
            _let_go(at)


_deleter = _Deleter(_let_go)
gc.callbacks.append(_sweep)
atexit.register(gc.callbacks.remove, _sweep)


def make(
    owner: object,
    address: int,
    shape: Sequence[int],
    strides: Sequence[int],
    dtype: np.dtype[Any],
    device: tuple[int, int],
    *,
    versioned: bool,
    copied: bool = False,
) -> Any:
    """Return a capsule for memory that is somebody's.

    Parameters
    ----------
    owner : object
        Kept alive until whoever takes the capsule has let go of it.
    address : int
        Of the first element.
    shape, strides : sequence of int
        In elements.
    dtype : numpy.dtype
        Real numbers or bools.
    device : (int, int)
        DLPack's kind of device, and which of them.
    versioned : bool
        Of DLPack 1.0, for one who asks for that, else of the one before.
    copied : bool
        Whether this is a copy of the array that was asked for; only the new structure can say so.
    """
    count = len(shape)
    sizes = (ctypes.c_int64 * max(count, 1))(*shape)
    steps = (ctypes.c_int64 * max(count, 1))(*strides)
    tensor = _Tensor(
        address if math.prod(shape) else None,
        _Device(*device),
        count,
        _Type(_CODES[dtype.kind], 8 * dtype.itemsize, 1),
        ctypes.cast(sizes, ctypes.POINTER(ctypes.c_int64)),
        ctypes.cast(steps, ctypes.POINTER(ctypes.c_int64)),
        0,
    )
    kept: Any
    if versioned:
        kept = _Versioned(*_VERSION, None, _deleter, _COPIED if copied else 0, tensor)
    else:
        kept = _Plain(tensor, None, _deleter)
    _sweep()
    at = ctypes.addressof(kept)
    _alive[at] = (kept, sizes, steps, owner)
    capsule = _offered[at] = _new(at, _NAMES[versioned], None)
    return capsule


class Opened:
    """An array that a capsule holds, from now on ours.

    Parameters
    ----------
    capsule : object
        What `__dlpack__` returned.

    Attributes
    ----------
    address : int
        Of the first element.
    shape, strides : tuple of int
        In elements.
    code, bits : int
        DLPack's number of the kind of elements, and their size.
    dtype : numpy.dtype or None
        None for what numpy has no type for.
    device : (int, int)
    read_only : bool

    Raises
    ------
    ValueError
        If it is no capsule of an array, was taken before, or is of a newer kind than is known here.
    """

    def __init__(self, capsule: Any) -> None:
        versioned = next((v for v, name in _NAMES.items() if _is(capsule, name)), None)
        if versioned is None:
            raise ValueError("this is no DLPack capsule, or its array was taken before")
        self._at = _pointer(capsule, _NAMES[versioned])
        self._held: Any = (_Versioned if versioned else _Plain).from_address(self._at)
        if versioned and self._held.major != _VERSION[0]:
            raise ValueError(f"the capsule is of DLPack {self._held.major}, and DLPack 1 is known here")
        _rename(capsule, _USED[versioned])
        self._open = True
        tensor = self._held.tensor
        count = tensor.ndim
        self.shape = tuple(tensor.shape[i] for i in range(count))
        if tensor.strides:
            self.strides = tuple(tensor.strides[i] for i in range(count))
        else:  # allowed before 1.2: elements in order, without gaps
            self.strides = tuple(math.prod(self.shape[i + 1 :]) for i in range(count))
        self.address = int(tensor.data or 0) + int(tensor.byte_offset)
        self.code, self.bits = int(tensor.dtype.code), int(tensor.dtype.bits)
        self.device = int(tensor.device.kind), int(tensor.device.number)
        self.read_only = bool(versioned and self._held.flags & _READ_ONLY)
        kind = _KINDS.get(self.code) if tensor.dtype.lanes == 1 else None
        try:
            self.dtype = np.dtype(f"{kind}{self.bits // 8}") if kind is not None else None
        except TypeError:
            self.dtype = None

    def copy(self, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """Return a copy of an array in the memory of the processor, its elements taken for `dtype`."""
        lowest = sum(min(0, (n - 1) * s) for n, s in zip(self.shape, self.strides, strict=True))
        highest = sum(max(0, (n - 1) * s) for n, s in zip(self.shape, self.strides, strict=True))
        if 0 in self.shape:
            return np.empty(self.shape, dtype)
        size = dtype.itemsize
        memory = (ctypes.c_char * ((highest - lowest + 1) * size)).from_address(self.address + lowest * size)
        flat = np.frombuffer(memory, dtype)[-lowest:]
        strides = [s * size for s in self.strides]
        return np.lib.stride_tricks.as_strided(flat, self.shape, strides).copy()

    def close(self) -> None:
        """Give the array back to whom it came from."""
        if self._open:
            self._open = False
            if self._held.deleter:
                self._held.deleter(self._at)

    def __del__(self) -> None:
        if getattr(self, "_open", False):
            self.close()
