"""Read from a shared library which other libraries it needs.

The unpacked driver has to be loaded by hand, dependencies first, because the dynamic linker of a running process cannot
be told of another folder. The order comes from the libraries themselves: a bare machine has neither readelf nor objdump.
Layout after the System V ABI, chapters 4 and 5 ("ELF header", "Dynamic section").
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

__all__ = ["load_order", "needed"]

_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_NULL, _DT_NEEDED, _DT_STRTAB, _DT_STRSZ = 0, 1, 5, 10


def needed(path: Path) -> list[str]:
    """Return the names that a shared library asks the dynamic linker for (its DT_NEEDED entries).

    Parameters
    ----------
    path : Path
        An ELF file of either word size and byte order.

    Raises
    ------
    ValueError
        If the file is no ELF file or ends early.
    """
    data = path.read_bytes()
    try:
        return _needed(data)
    except (struct.error, IndexError) as error:
        raise ValueError(f"{path} is not a complete ELF file") from error


def _needed(data: bytes) -> list[str]:
    if data[:4] != b"\x7fELF":
        raise ValueError("not an ELF file")
    wide = data[4] == 2
    order = "<" if data[5] == 1 else ">"
    word = order + ("Q" if wide else "I")
    size = struct.calcsize(word)

    def at(offset: int, layout: str = word) -> int:
        return int(struct.unpack_from(layout, data, offset)[0])

    table = at(32 if wide else 28)
    entry_size, entries = struct.unpack_from(order + "HH", data, 54 if wide else 42)
    segments: list[tuple[int, int, int, int]] = []  # kind, offset in the file, address, length in the file
    for index in range(entries):
        header = table + index * entry_size
        kind = at(header, order + "I")
        if wide:
            segments.append((kind, at(header + 8), at(header + 16), at(header + 32)))
        else:
            segments.append((kind, at(header + 4), at(header + 8), at(header + 16)))

    dynamic: list[tuple[int, int]] = []
    for kind, offset, _, length in segments:
        if kind == _PT_DYNAMIC:
            for place in range(offset, offset + length, 2 * size):
                tag, value = at(place), at(place + size)
                if tag == _DT_NULL:
                    break
                dynamic.append((tag, value))
    tags = dict(dynamic)
    if _DT_STRTAB not in tags:
        return []
    address = tags[_DT_STRTAB]
    strings = next(
        offset + address - start
        for kind, offset, start, length in segments
        if kind == _PT_LOAD and start <= address < start + length
    )
    names = data[strings : strings + tags[_DT_STRSZ]]
    return [names[value : names.index(b"\0", value)].decode() for tag, value in dynamic if tag == _DT_NEEDED]


def load_order(roots: Iterable[str], libraries: Mapping[str, Path]) -> list[str]:
    """Return what must be loaded for `roots`, dependencies first.

    Parameters
    ----------
    roots : iterable of str
        Names of libraries, keys of `libraries`.
    libraries : mapping of str to Path
        The libraries at hand, by the name that others ask for. Names that are not in it are left to the system.

    Returns
    -------
    list of str
        Names of `libraries`, each after everything that it needs; a cycle is cut where it closes.
    """
    order: list[str] = []
    seen: set[str] = set()

    def visit(name: str) -> None:
        if name in seen or name not in libraries:
            return
        seen.add(name)
        for other in needed(libraries[name]):
            visit(other)
        order.append(name)

    for root in roots:
        visit(root)
    return order
