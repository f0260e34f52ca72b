"""What surviving costs: the first backward call of a new kernel with the guard and without, and calls of a kernel that is there.

Run it as `python tests/bench/survival.py [--rounds 24] [--backend vulkan]`. With and without take turns in one process, every round with a
kernel that no cache has seen; medians and quartiles in milliseconds. Waits and read-backs of SlangLab's take turns with slangpy's own.
`first` is the call and its read-back, with the tensors there; `known` is the same kernel in a second process, whose worker need not
compile it: what "restart and run all" pays.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import slanglab
from slanglab.guard import client

TARGET_FIRST = 80.0  # milliseconds that the guard may add to a first backward call
TARGET_WAIT = 40.0  # microseconds that a wait for a small call may add
_numbers = itertools.count(random.SystemRandom().randrange(10**6))


def text() -> str:
    """Return a function with a factor that no other text has."""
    factor = 1 + next(_numbers) / 2**21
    return (
        "[Differentiable] float step(float x, float w) { return tanh(w * x) * x; }\n[Differentiable] float f(float x)\n{\n"
        f"    float v = x;\n    [MaxIters(8)] for (int i = 0; i < 8; i++) v = step(v, {factor!r}) + 0.5 * x;\n    return v;\n}}\n"
    )


class Call:
    """A backward call over a few elements, or over many by a straight kernel."""

    def __init__(self, count: int) -> None:
        values = np.linspace(0.1, 1.0, count, dtype=np.float32)
        self.x = slanglab.tensor(values, grad=True)
        self.r = slanglab.tensor(np.zeros(count, np.float32), grad=True)
        slanglab.assign(self.r.grad, 1.0)
        slanglab.sync()

    def __call__(self, module: Any) -> Any:
        module.f.bwds(self.x, _result=self.r)
        return self.x.grad.to_numpy()


def taken(call: Callable[[], object]) -> float:
    """Return the milliseconds that a call takes."""
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1e3


def shown(name: str, times: list[float]) -> None:
    """Print a row."""
    low, middle, high = statistics.quantiles(times, n=4)
    print(f"  {name:34} {middle:9.3f}   ({low:.3f} to {high:.3f})")


def first_calls(count: int, rounds: int) -> tuple[float, float]:
    """Measure first calls; return the medians with and without the guard."""
    call = Call(count)
    times: dict[bool, list[float]] = {True: [], False: []}
    for number in range(rounds + 1):
        for on in (True, False) if number % 2 else (False, True):
            module = slanglab.compile(text(), "bench")
            client._on = on  # not `switch`, which would end the worker each time
            wait_for_worker(2.0 if not number else 0.2)
            took = taken(lambda module=module: call(module))  # type: ignore[misc]
            if number:  # the first round also makes what is made once
                times[on].append(took)
    client._on = True
    shown("first, without", times[False])
    shown("first, with", times[True])
    return statistics.median(times[True]), statistics.median(times[False])


def wait_for_worker(seconds: float) -> None:
    """Wait until the worker is ready and has read the modules, as it has when somebody types the call after running the cell."""
    time.sleep(seconds)


def cached_calls(count: int, rounds: int) -> tuple[float, float]:
    """Measure calls of a kernel that is there, in turns; return the medians in microseconds, with and without."""
    call = Call(count)
    client._on = True
    guarded = slanglab.compile(text(), "bench_with")
    call(guarded)
    client._on = False
    plain = slanglab.compile(text(), "bench_without")
    call(plain)
    times: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(rounds):
        for on, module in ((True, guarded), (False, plain)):
            client._on = on
            backward = module.f.bwds
            slanglab.sync()
            began = time.perf_counter()
            for _ in range(20):
                backward(call.x, _result=call.r)
            times[on].append((time.perf_counter() - began) / 20 * 1e3)
            slanglab.sync()
    client._on = True
    shown("cached, without", times[False])
    shown("cached, with", times[True])
    return statistics.median(times[True]) * 1e3, statistics.median(times[False]) * 1e3


def waits(rounds: int) -> list[float]:
    """Measure small calls with what waits for them, by SlangLab's methods and by slangpy's; return the microseconds that ours add."""
    lab = slanglab.current()
    call = Call(8)
    square = slanglab.compile(text(), "bench_waits").f
    out = slanglab.zeros(8)
    added = []
    for name in ("call and wait", "call and read-back"):
        times: dict[bool, list[float]] = {True: [], False: []}
        for number in range(rounds + 1):
            for ours in (True, False):
                (lab.mend if ours else lab.unmend)()
                after = lab.device.wait_for_idle if name == "call and wait" else out.to_numpy
                square(call.x, _result=out)
                after()
                began = time.perf_counter()
                for _ in range(20):
                    square(call.x, _result=out)
                    after()
                if number:
                    times[ours].append((time.perf_counter() - began) / 20 * 1e3)
        lab.mend()
        shown(f"{name}, slangpy", times[False])
        shown(f"{name}, SlangLab", times[True])
        added.append((statistics.median(times[True]) - statistics.median(times[False])) * 1e3)
    return added


KNOWN = """
import json, sys
sys.path[:0] = json.loads(sys.argv[1])
import survival
import slanglab
from slanglab import guard
slanglab.current().control.change(check="off")
call = survival.Call(8)
module = slanglab.compile(sys.argv[2], "known")
survival.wait_for_worker(1.5)
took = survival.taken(lambda: call(module))
print(json.dumps([took, [g.compiled for g in guard.client._guards.values()]]))
"""


def known_kernels(rounds: int) -> None:
    """Measure first calls in processes that start anew: of a kernel that is new, and of the same in the next process."""
    times: dict[str, list[float]] = {"new": [], "known": []}
    path = json.dumps([str(p) for p in sys.path if p])
    for _ in range(rounds):
        source = text()
        for name in times:
            done = subprocess.run(
                [sys.executable, "-c", KNOWN, path, source], capture_output=True, text=True, check=True
            )
            took, compiled = json.loads(done.stdout.splitlines()[-1])
            if compiled != [int(name == "new")]:
                raise SystemExit(f"a {name} kernel was compiled by the worker {compiled} times")
            times[name].append(took)
    shown("first in a process, new", times["new"])
    shown("first in a process, known", times["known"])


def main() -> int:
    """Measure, and say whether the targets are met."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=24)
    options.add_argument("--backend", default="auto")
    given = options.parse_args()
    lab = slanglab.current()
    lab.control.change(check="off")  # it makes kernels of its own
    if given.backend != "auto":
        lab.switch_device(given.backend)
    print(f"{lab.device.info.adapter_name}; milliseconds, median (quartiles) of {given.rounds}")
    met = True
    for count, name in ((8, "slangpy's kernel, 8 elements"), (1 << 17, "straight kernel, 131072 elements")):
        print(name)
        with_guard, without = first_calls(count, given.rounds)
        added = with_guard - without
        met &= added <= TARGET_FIRST
        print(f"    the guard adds {added:+.1f} ms to a first call (target: at most {TARGET_FIRST:.0f})")
        cached_with, cached_without = cached_calls(count, given.rounds * 10)
        print(f"    and {cached_with - cached_without:+.2f} us to a cached one of {cached_without:.1f}")
    print("waiting, 8 elements")
    waited = waits(given.rounds * 10)
    met &= max(waited) <= TARGET_WAIT
    said = " and ".join(f"{a:+.1f}" for a in waited)
    print(f"    they add {said} us (target: at most {TARGET_WAIT:.0f})")
    print("new processes")
    known_kernels(max(3, given.rounds // 6))
    guards = list(client._guards.values())
    if guards and guards[0].worker is not None:
        print(f"the worker holds {guards[0].worker.rss} MB")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
