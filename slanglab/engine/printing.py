"""What Slang code prints, in the cell that called."""

from __future__ import annotations

import sys
from typing import Any

import slangpy as spy

from slanglab.log import LogCapture

__all__ = ["flush"]

_OVERFLOW = "Print buffer overflow"
_LINES_SHOWN = 10_000


def flush(device: spy.Device, log: LogCapture, wanted: int | None = None) -> str:
    """Wait for the device, write what its kernels printed to `sys.stdout`, and return it.

    Parameters
    ----------
    device : slangpy.Device
    log : LogCapture
        slangpy's logger says when the device's buffer was too small.
    wanted : int, optional
        The bytes that the kernels tried to print, when somebody counted them.

    Notes
    -----
    Nothing comes out of the device before it is waited for, so this is done after the call, not during it. The order of lines
    is that in which threads ran.
    """
    earlier = log.take()
    device.wait()
    text: str = device.flush_print_to_string()
    records = log.take()
    overflow = any(_OVERFLOW in r.text for r in records)
    log.put_back(earlier + [r for r in records if _OVERFLOW not in r.text])
    if not text:
        return text
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    shown = lines[:_LINES_SHOWN]
    sys.stdout.write("\n".join(shown) + "\n")
    for note in _notes(len(lines), len(shown), overflow, wanted, text):
        sys.stdout.write(note + "\n")
    return text


def _notes(lines: int, shown: int, overflow: bool, wanted: int | None, text: str) -> list[str]:
    notes = []
    if shown < lines:
        notes.append(f"… {lines - shown} more lines not shown")
    if overflow:
        lost = _lost_lines(lines, wanted)
        notes.append(
            f"… {lost} lines dropped: the device's print buffer was full"
            if lost
            else "… and more that was dropped: the device's print buffer was full"
        )
    return notes


def _lost_lines(kept: int, wanted: Any) -> int | None:
    return max(0, int(wanted) - kept) if wanted is not None else None
