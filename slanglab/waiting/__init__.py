"""Waiting for the device so that Interrupt works, and what follows when a device never answers or is lost.

Native code that waits for a kernel holds the interpreter's lock until the kernel ends, so nothing of SlangLab's enters it while one runs:
`wait` asks the device again and again instead, and only then is anything read. `watch` knows the state of each device; `reads`
brings memory back; `methods` puts both in the place of slangpy's blocking methods; `leaving` lets a process end whose device does not.
"""

from slanglab.waiting.marks import copies_block
from slanglab.waiting.watch import (
    Owner,
    WaitInterrupted,
    Watched,
    before_copy,
    check,
    describe_work,
    explain_loss,
    gone,
    is_idle,
    is_loss,
    of,
    probe,
    told,
    until_idle,
    wait,
    wait_for,
)

__all__ = [
    "Owner",
    "WaitInterrupted",
    "Watched",
    "before_copy",
    "check",
    "copies_block",
    "describe_work",
    "explain_loss",
    "gone",
    "is_idle",
    "is_loss",
    "of",
    "probe",
    "told",
    "until_idle",
    "wait",
    "wait_for",
]
