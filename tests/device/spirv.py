"""What a Slang session writes for Vulkan: the kernels' SPIR-V, as slangpy keeps it in its cache of kernels."""

import struct
from pathlib import Path

import slangpy as spy

from slanglab.caches.lmdb import Database

_MAGIC = b"\x03\x02\x23\x07"
_HEADER = 20
_TYPE_POINTER, _VARIABLE, _LOAD = 32, 59, 61
_UNIFORM, _FUNCTION, _STORAGE_BUFFER = 2, 7, 12


def kernels(folder: Path) -> list[bytes]:
    """Return the SPIR-V of all kernels in a cache."""
    with Database(folder / "rhi" / "data.mdb") as database:
        values = [
            database.read(entry.place, entry.length)
            for entries in database.walk().values()
            for entry in entries
        ]
    return [v for v in values if v.startswith(_MAGIC)]


def held_buffers(kernel: bytes) -> int:
    """Return how many variables of a kernel hold a bound buffer and are read, which addressing by names does not allow."""
    points_to = {}
    variables, read = set(), set()
    at = _HEADER
    while at < len(kernel):
        (head,) = struct.unpack_from("<I", kernel, at)
        count, op = head >> 16, head & 0xFFFF
        words = struct.unpack_from(f"<{count - 1}I", kernel, at + 4)
        if op == _TYPE_POINTER:
            points_to[words[0]] = words[1], words[2]  # storage class, type
        elif op == _VARIABLE and words[2] == _FUNCTION:
            held = points_to[words[0]][1]
            if points_to.get(held, (None,))[0] in (_UNIFORM, _STORAGE_BUFFER):
                variables.add(words[1])
        elif op == _LOAD:
            read.add(words[2])
        at += 4 * count
    return len(variables & read)


def device(include_paths, shaders: Path) -> spy.Device:
    """Open a Vulkan device that keeps its kernels in a folder."""
    return spy.Device(
        type=spy.DeviceType.vulkan,
        enable_hot_reload=False,
        compiler_options={"include_paths": include_paths},
        shader_cache_path=shaders,
    )
