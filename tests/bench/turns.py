"""Calls timed beside each other in one process: in turns, so that what else the machine does happens to all of them."""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Call", "Time", "measure", "wait_of"]

Call = Callable[[], Any]


@dataclass(frozen=True)
class Time:
    """How long a call takes, in seconds, and how often it was made."""

    median: float
    least: float
    count: int


def wait_of(device: Any) -> Call:
    """Return what waits for a device, and for torch's GPU where it is used."""

    def wait() -> None:
        device.wait()
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_available():
            torch.cuda.synchronize()

    return wait


def measure(
    calls: Mapping[str, Call],
    wait: Call,
    *,
    turns: int,
    turn: float = 5e-3,
    most: int = 50,
    warm: int = 3,
    seconds: float = math.inf,
) -> dict[str, Time]:
    """Time calls; one that fails at first (a compiler that is not there) is left out, and said.

    Parameters
    ----------
    calls : mapping of str to callable
    wait : callable
        Waits until all that was called is done.
    turns : int
        Times that each is timed; three at least where the time is short.
    turn, most
        A turn is as many calls as take about so many seconds, `most` at most.
    warm : int
        Calls before any is timed: kernels are compiled and plans written out by then.
    seconds : float
        After so long no further turn begins.
    """
    blocks: dict[str, int] = {}
    times: dict[str, list[float]] = {}
    count: dict[str, int] = {}
    for name, call in calls.items():
        try:
            for _ in range(warm):
                call()
            wait()
            started = time.perf_counter()
            call()
            wait()
        except Exception as error:
            print(f"<!-- {name} left out: {str(error).splitlines()[0][:150]} -->")
            continue
        blocks[name] = max(1, min(most, round(turn / (time.perf_counter() - started))))
        times[name], count[name] = [], warm + 1
    until = time.perf_counter() + seconds
    for at in range(turns):
        if at >= 3 and time.perf_counter() > until:
            break
        for name in sorted(times, reverse=at % 2 == 0):  # whoever comes second finds the machine warm
            wait()
            started = time.perf_counter()
            for _ in range(blocks[name]):
                calls[name]()
            wait()
            times[name].append((time.perf_counter() - started) / blocks[name])
            count[name] += blocks[name]
    return {name: Time(statistics.median(t), min(t), count[name]) for name, t in times.items()}
