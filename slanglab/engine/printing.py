"""What Slang code prints, in the cell that called."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
import slangpy as spy

from slanglab.engine import outside
from slanglab.log import LogCapture
from slanglab.tensors import kernels

__all__ = ["flush"]

_LINES_SHOWN = 10_000
_OVERFLOW = "Print buffer overflow"
_HEADER = 8  # bytes before the first message


@dataclass(frozen=True)
class _State:
    """The device's print buffer before it is read: its size, and the bytes that messages asked for."""

    size: int
    wanted: int

    @property
    def overflowed(self) -> bool:
        return self.wanted > self.size - _HEADER


def _state(device: spy.Device) -> _State:
    out = device.create_buffer(
        size=8, usage=spy.BufferUsage.unordered_access | spy.BufferUsage.shader_resource
    )
    kernel = kernels.kept(
        device,
        ("print_state",),
        lambda: kernels.load(
            device, "slanglab/print_state", kernels.source("print_state.slang"), "print_state"
        ),
    )
    kernel.dispatch([1, 1, 1], state=out)
    size, wanted = out.to_numpy().view(np.uint32)[:2]
    return _State(int(size), int(wanted))


def flush(device: spy.Device, log: LogCapture) -> str:
    """Wait for the device, write what its kernels printed to `sys.stdout`, and return it with the reports of index checks.

    Nothing comes out of the device before it is waited for, so this is done after the call, not during it. The order of lines is
    that in which threads ran. A great many lines are cut, and lines that did not fit into the device's buffer are counted.
    """
    state = _state(device)
    earlier = log.take()
    device.wait()
    text: str = device.flush_print_to_string()
    # slangpy says that the buffer overflowed, but not by how much; the notes below do.
    log.put_back(earlier + [r for r in log.take() if _OVERFLOW not in r.text])
    lines = text.removesuffix("\n").split("\n") if text else []
    users = [line for line in lines if not outside.is_report(line)]
    if users:
        sys.stdout.write("\n".join(users[:_LINES_SHOWN]) + "\n")
    if len(users) > _LINES_SHOWN:
        sys.stdout.write(f"… {len(users) - _LINES_SHOWN} more lines not shown\n")
    if state.overflowed and (users or not lines):
        sys.stdout.write(f"… {_lost(lines, state)} dropped: the device's print buffer was full\n")
    return text


def _lost(lines: list[str], state: _State) -> str:
    """Say how many lines did not fit; exact when all messages have one size, as they have when one `print` made them."""
    if not lines:
        return "every line was"
    # Messages are whole words, and as many were kept as fit: that leaves one size.
    size = (state.size - _HEADER) // len(lines) // 4 * 4
    count = state.wanted // size - len(lines) if size else 0
    exact = size and state.wanted % size == 0
    return f"{count} lines" if exact else f"about {count} lines"
