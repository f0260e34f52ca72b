"""What the caches were like when they were last known to be right, and whether they still are.

slangpy and LMDB trust their files: bytes that were changed crash the process or change what a kernel computes. So there is a seal
beside them: size, time and number of each file, which say in a moment that nothing has happened since, and sums of what is in them, for
when something has. A file that the seal does not know, and a value that is not what it says, are not used.
"""

from __future__ import annotations

import json
import os
import re
import stat
import struct
import tempfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import sleep

from slanglab.caches.lmdb import BrokenDatabaseError, Database, Entry

__all__ = ["Seal", "broken_modules", "broken_shaders", "load", "make", "save", "unfinished"]

_VERSION = 1
_RECORD = struct.Struct("<20sQII")
_Stamp = tuple[int, int, int]
_SPIRV = b"\x03\x02\x23\x07"
_TRIES = 5
_UNFINISHED = re.compile(r".*\.slang-module-[0-9a-f]{16}")


@dataclass(frozen=True)
class Seal:
    """The state of the caches at one moment.

    Attributes
    ----------
    modules : dict of str to (stamp, int)
        For each compiled module, by its path below the folder, its stamp and the sum of its bytes.
    shaders : stamp or None
        Of the file of the shader cache; None where there was none.
    values : dict of bytes to (int, int, int)
        For each key of the shader cache the place, length and sum of its value.
    """

    modules: Mapping[str, tuple[_Stamp, int]] = field(default_factory=dict)
    shaders: _Stamp | None = None
    values: Mapping[bytes, tuple[int, int, int]] = field(default_factory=dict)


def _stamp(path: Path) -> _Stamp:
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode):
        raise OSError("it is no file")
    return found.st_size, found.st_mtime_ns, found.st_ino


def _sum(path: Path) -> int:
    with path.open("rb") as file:
        total = 0
        while block := file.read(1 << 20):
            total = zlib.crc32(block, total)
    return total


# ----- on disk -----


def load(path: Path) -> Seal | None:
    """Read a seal; None where there is none, or none that can be read."""
    try:
        raw = path.read_bytes()
        head, _, records = raw.partition(b"\n")
        data = json.loads(head)
        if data["version"] != _VERSION or data["sum"] != zlib.crc32(records):
            return None
        modules = {
            str(name): ((int(size), int(time), int(number)), int(total))
            for name, (size, time, number, total) in data["modules"].items()
        }
        shaders = tuple(map(int, data["shaders"])) if data["shaders"] is not None else None
        if shaders is not None and len(shaders) != 3:
            return None
        values = {key: (place, length, total) for key, place, length, total in _RECORD.iter_unpack(records)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error):
        return None
    return Seal(modules, shaders, values)


def save(seal: Seal, path: Path) -> bool:
    """Write a seal in place of the one before; False where that cannot be done, and the one before is gone then."""
    records = b"".join(_RECORD.pack(key, *rest) for key, rest in seal.values.items())
    data = {
        "version": _VERSION,
        "sum": zlib.crc32(records),
        "modules": {name: [*stamp, total] for name, (stamp, total) in seal.modules.items()},
        "shaders": seal.shaders,
    }
    temporary = ""
    try:
        handle, temporary = tempfile.mkstemp(prefix="seal-", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(json.dumps(data).encode() + b"\n" + records)
        os.replace(temporary, path)
    except OSError:
        for left in (temporary, path):
            if left:
                Path(left).unlink(missing_ok=True)
        return False
    return True


def make(modules: Path, shaders: Path, before: Seal) -> Seal:
    """Return the seal of the caches as they are; what has not changed since `before` is not read again.

    Of a shader cache that others write to meanwhile it says what `before` does: as it is another file then, the next to open it reads it.
    """
    found = {}
    for path in modules.rglob("*.slang-module"):
        try:
            name, stamp = str(path.relative_to(modules)), _stamp(path)
            known = before.modules.get(name)
            found[name] = stamp, known[1] if known is not None and known[0] == stamp else _sum(path)
        except OSError:
            continue  # gone or exchanged meanwhile, by another process; the next seal has it
    file = shaders / "rhi" / "data.mdb"
    try:
        stamp = _stamp(file)
        if stamp == before.shaders:
            return Seal(found, stamp, before.values)
        values = _values(file, before)
        if _stamp(file) == stamp:
            return Seal(found, stamp, values)
    except FileNotFoundError:
        return Seal(found, None, {})
    except (OSError, BrokenDatabaseError):
        pass
    return Seal(found, before.shaders, before.values)


def _values(file: Path, before: Seal) -> dict[bytes, tuple[int, int, int]]:
    values = {}
    with Database(file) as database:
        for entry in database.entries("data"):
            if len(entry.key) != 20:
                continue
            known = before.values.get(entry.key)
            if known is not None and known[:2] == (entry.place, entry.length):
                values[entry.key] = known
            else:
                total = zlib.crc32(database.read(entry.place, entry.length))
                values[entry.key] = entry.place, entry.length, total
    return values


# ----- checks -----


def unfinished(modules: Path) -> list[Path]:
    """Return what a process left that ended while it wrote a module, a seal, or mended something."""
    found = [path for path in modules.rglob("*.slang-module-*") if _UNFINISHED.fullmatch(path.name)]
    for pattern in ("seal-*", "try-*", "shaders/rhi.broken-*"):
        found += modules.parent.glob(pattern)
    return found


def broken_modules(modules: Path, seal: Seal) -> dict[Path, str]:
    """Return the compiled modules that are not to be used, each with the reason: empty where the seal does not know it."""
    found = {}
    for path in modules.rglob("*.slang-module"):
        known = seal.modules.get(str(path.relative_to(modules)))
        if known is None:
            found[path] = ""
            continue
        try:
            stamp = _stamp(path)
            if stamp != known[0]:
                if stamp[0] != known[0][0]:
                    found[path] = f"it has {stamp[0]} bytes instead of {known[0][0]}"
                elif _sum(path) != known[1]:
                    found[path] = "its bytes are not those that were written"
        except OSError as error:
            found[path] = str(error.strerror or error)
    return found


def broken_shaders(shaders: Path, seal: Seal) -> str:
    """Return why the shader cache is not to be used; empty where it is right, or has not begun."""
    file = shaders / "rhi" / "data.mdb"
    reason = ""
    for _ in range(_TRIES):
        try:
            stamp = _stamp(file)
        except FileNotFoundError:
            return ""
        except OSError as error:
            return str(error.strerror or error)
        if stamp == seal.shaders:
            return ""
        if stamp[0] == 0 and seal.values:
            return "it is empty"
        try:
            reason = _broken(file, seal)
            if not reason or _stamp(file) == stamp:
                return reason
        except OSError as error:
            return str(error.strerror or error)
        sleep(0.02)  # another process wrote meanwhile, so that what was read may not belong together
    return ""  # it is written to all the time, which could not be if it were broken


def _broken(file: Path, seal: Seal) -> str:
    try:
        with Database(file) as database:
            found = database.walk()
            for entry in found.get("data", ()):
                value = database.read(entry.place, entry.length)
                known = seal.values.get(entry.key)
                if known is None:
                    if not _is_code(value):
                        return "it holds something that is no kernel"
                elif (entry.length, zlib.crc32(value)) != known[1:]:
                    return "its bytes are not those that were written"
            for entry in found.get("meta", ()):
                _check_time(entry)
    except BrokenDatabaseError as error:
        return str(error)
    return ""


def _check_time(entry: Entry) -> None:
    """Refuse what cannot be the time of the last use of a kernel, which is all that the second database holds."""
    if entry.length != 8:
        raise BrokenDatabaseError("it has a time that is none")


def _is_code(value: bytes) -> bool:
    """Tell whether a value that was written since the last seal can be target code; SPIR-V tells the length of each instruction."""
    if not value.startswith(_SPIRV):
        return bool(value)
    if len(value) % 4 or len(value) < 20:
        return False
    words = struct.unpack(f"<{len(value) // 4}I", value)
    at = 5
    while at < len(words):
        length = words[at] >> 16
        if length == 0:
            return False
        at += length
    return at == len(words)
