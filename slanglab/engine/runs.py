"""What a call did: `slanglab.last_run()`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
import slangpy as spy

from slanglab.engine.timing import Stopwatch

__all__ = ["NOT_CHECKED", "Checked", "Details", "Run", "Trace", "bytes_of"]

_WIDTH = 88
"""Characters of a line of a report, which a cell of 700 pixels shows."""

PathTaken = Literal["straight", "slangpy", "none"]


class Checked(Protocol):
    """What a check of a backward call came to."""

    @property
    def verdict(self) -> Literal["agrees", "differs", "cannot tell"] | None:
        """None where nothing was checked."""
        ...

    @property
    def text(self) -> str:
        """The verdict in a sentence."""
        ...


@dataclass(frozen=True)
class _NotChecked:
    verdict: None = None
    text: str = "not checked"


NOT_CHECKED: Checked = _NotChecked()


@dataclass(frozen=True, repr=False)
class Run:
    """One call, as it went.

    Attributes
    ----------
    function : str
        As the user called it: "poly.f".
    mode : {"forward", "backward"}
    path : {"straight", "slangpy", "none"}
        The kernel that ran: SlangLab's direct one, slangpy's generated one, or none for a call over no elements.
    reason : str
        Why the direct kernel was not taken; empty when it was.
    group_shape : tuple of int or None
        Threads of a group along the axes of the call; None where slangpy's own choice (32 threads) stood.
    host_ms : float
        Milliseconds that the call took in Python. The device goes on afterwards, unless the result had to be waited for.
    device_ms : float or None
        Milliseconds between two timestamps of the device around the call; None where they were not asked for
        (`%slang config timing on`, or `with slanglab.timing():`).
    compile_ms : float
        Milliseconds of `host_ms` in which slangpy's kernel was made: 0 for a call whose kernel was there. The target code of a new
        kernel is compiled at its first dispatch, which is not part of it.
    bytes : int
        What the call read and wrote at least: the values of its arrays, and for a backward call their gradients.
    prints : str
        What the kernel printed.
    warnings : list of str
    check : Checked
        Its `verdict` is "agrees", "differs", "cannot tell", or None for a call that was not checked.
    gradients : {"accumulate", "zero", ""}
        What a backward call did with gradients that were there; empty for a forward call.
    frozen : tuple of str
        Arguments that a backward call could give no gradient: numbers, arrays, tensors without one.
    """

    function: str
    mode: Literal["forward", "backward"]
    path: PathTaken
    reason: str
    group_shape: tuple[int, ...] | None
    host_ms: float
    device_ms: float | None
    compile_ms: float
    bytes: int
    prints: str
    warnings: list[str]
    check: Checked
    gradients: str
    frozen: tuple[str, ...]

    def __str__(self) -> str:
        indent = " " * 13
        return "\n".join(
            textwrap.fill(
                text,
                _WIDTH,
                initial_indent=f"{name:<12} ",
                subsequent_indent=indent,
                break_long_words=False,
                break_on_hyphens=False,
            )
            for name, text in self.rows()
        )

    __repr__ = __str__  # a notebook shows the last line of a cell by its repr

    def rows(self) -> list[tuple[str, str]]:
        """Return what there is to say, as names and texts."""
        device = "not measured; `%slang config timing on`" if self.device_ms is None else _ms(self.device_ms)
        rows = [
            ("call", f"{self.function}, {self.mode}"),
            ("path", self.path + (f": {self.reason}" if self.reason else "")),
            ("group shape", str(self.group_shape) if self.group_shape else "slangpy's own"),
            ("host", _ms(self.host_ms)),
            ("device", device),
            ("compile", _ms(self.compile_ms) if self.compile_ms else "nothing to compile"),
            ("data", _size(self.bytes) + self._rate()),
        ]
        if self.mode == "backward":
            added = "added to what was there" if self.gradients == "accumulate" else "cleared first"
            rows.append(("gradients", added))
            if self.frozen:
                rows.append(("no gradient", ", ".join(self.frozen)))
            told = any(text.startswith(self.check.text) for text in self.warnings)
            rows.append(("check", f"{self.check.verdict}, see the warning" if told else self.check.text))
        if self.prints:
            rows.append(("printed", f"{self.prints.count(chr(10)) + 1} lines"))
        rows.extend(("warning", text) for text in self.warnings)
        return rows

    def _rate(self) -> str:
        if not self.device_ms:
            return ""
        return f", {self.bytes / self.device_ms / 1e6:.3g} GB/s"


def _ms(value: float) -> str:
    return f"{value * 1e3:.3g} µs" if value < 1 else f"{value:.4g} ms"


def _size(count: int) -> str:
    for unit, size in (("GB", 2**30), ("MB", 2**20), ("kB", 2**10)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} bytes"


@dataclass(slots=True)
class Details:
    """What the long way through a call finds out about it."""

    path: PathTaken = "slangpy"
    reason: str = ""
    group_shape: tuple[int, ...] | None = None
    compile_ms: float = 0.0
    bytes: int | None = None
    warnings: list[str] = field(default_factory=list)
    check: Checked = NOT_CHECKED
    frozen: tuple[str, ...] = ()


@dataclass(slots=True)
class Trace:
    """What a call leaves behind for its report, but for what it took in Python and its arguments.

    Attributes
    ----------
    function : str
    backward : bool
    details : Details
    gradients : str
        The policy.
    stopwatch : Stopwatch or None
    printed : str
    """

    function: str
    backward: bool
    details: Details
    gradients: str = "accumulate"
    stopwatch: Stopwatch | None = None
    printed: str = ""

    def report(self, seconds: float, values: Iterable[Any]) -> Run:
        """Return the report of a call; waits for the device where its time was taken.

        Parameters
        ----------
        seconds : float
            What it took in Python.
        values : iterable of object
            Its arguments, where `details` does not know their size.
        """
        d = self.details
        return Run(
            self.function,
            "backward" if self.backward else "forward",
            d.path,
            d.reason,
            d.group_shape,
            seconds * 1e3,
            self.stopwatch.milliseconds() if self.stopwatch is not None else None,
            d.compile_ms,
            bytes_of(values, self.backward) if d.bytes is None else d.bytes,
            self.printed,
            list(d.warnings),
            d.check,
            self.gradients if self.backward else "",
            d.frozen,
        )


def bytes_of(values: Iterable[Any], backward: bool) -> int:
    """Return how many bytes the arrays among some values have, with their gradients for a backward call."""
    total = 0
    for value in values:
        if isinstance(value, spy.Tensor):
            own = value.element_count * int(value.dtype.buffer_layout.stride)
            has_gradient = backward and (value.grad_in is not None or value.grad_out is not None)
            total += 2 * own if has_gradient else own
        elif isinstance(value, np.ndarray):
            total += value.nbytes
        elif isinstance(value, Mapping):
            total += bytes_of(value.values(), backward)
        elif isinstance(value, (list, tuple)):
            total += bytes_of((v for v in value if not isinstance(v, (int, float))), backward)
    return total
