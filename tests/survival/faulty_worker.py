"""The guard's worker with faults: it does at one point of its work what `SLANGLAB_TEST_FAULT` says, then goes on as it would.

The variable holds "kind:point:count:file": what happens, where, in how many processes at most, and where these are counted.
"""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import struct
import threading
import time
from collections.abc import Mapping
from typing import Any

from slanglab.guard import protocol, worker

KINDS = ("killed", "stopped", "garbage", "half", "liar", "stranger", "mute", "deep")
POINTS = ("start", "modules", "compile", "answer", "idle")
_pack = protocol.pack


def main(options: Mapping[str, Any]) -> None:
    """Run the worker."""
    kind, point, count, file = os.environ["SLANGLAB_TEST_FAULT"].split(":", 3)
    read, pack = protocol.read, protocol.pack

    def fault(at: str) -> None:
        if at == point and _counted(file, int(count)):
            _do(kind)

    def reading(take: Any, largest: int) -> dict[str, Any] | None:
        message = read(take, largest)
        if message is not None:
            at = {"open": "start", "module": "modules", "compile": "compile"}.get(message["do"])
            if at is not None:
                fault(at)
        return message

    def packing(message: Mapping[str, Any]) -> bytes:
        if message["is"] == "done":
            fault("answer")
            if point == "idle":  # once the answer is out
                threading.Timer(0.05, fault, ("idle",)).start()
        return pack(message)

    protocol.read, protocol.pack = reading, packing
    worker.main(options)


def _counted(file: str, most: int) -> bool:
    """Count this process; tell whether it is among those that fail."""
    with open(file, "a+") as log:
        log.write("x")
        log.flush()
        log.seek(0)
        return len(log.read()) <= most


def _do(kind: str) -> None:
    out = _channel()
    if kind == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif kind == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif kind == "garbage":
        os.write(out, os.urandom(4096))
    elif kind == "half":
        os.write(out, struct.pack("<I", 100) + b'{"is":"do')
        os._exit(0)
    elif kind == "liar":  # says that it has compiled what nobody knows
        os.write(out, _pack({"is": "done", "id": 1, "key": "0" * 64, "rss": 1}))
    elif kind == "stranger":
        os.write(out, _pack({"is": "well", "id": "x"}))
    elif kind == "mute":  # answers nothing and says nothing, but lives
        os.close(out)
        time.sleep(60)
    elif kind == "deep":
        data = b"[" * 100_000
        os.write(out, struct.pack("<I", len(data)) + data)


def _channel() -> int:
    """Return the descriptor that answers go to: the pipe that is open besides the input."""
    for descriptor in range(3, 64):
        try:
            status = os.fstat(descriptor)
        except OSError:
            continue
        writes = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY
        if stat.S_ISFIFO(status.st_mode) and writes:
            return descriptor
    raise RuntimeError("the worker has no pipe to answer on")
