"""Time a call of four elements through SlangLab against plain slangpy's: what the proxies cost.

Run: python tests/bench/calls.py [--calls N]. Both call the same Slang text on one device, in turns, so that whatever slows the machine
down slows both. Printed are medians in microseconds and their ratios, for calls in loops of 50, with a wait for the device at the end,
as a training loop makes them; and for single calls, each after a wait, when neither finds the processor's caches warm (the call's own
time; the device's is left out).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import slangpy as spy

import slanglab

SOURCE = """
import slangpy;

[Differentiable]
float polynomial(float a, float b, float c, float x) { return a * x * x + b * x + c; }

float3 scaled(float3 v, float k) { return v * k; }

[Differentiable]
void cells(int i, IDiffTensor<float, 1> x, IWDiffTensor<float, 1> y) { y[i] = 2 * x[i]; }
"""


_LOOP = 50


def _cases(module: Any, make: Any) -> dict[str, Callable[[], object]]:
    """Return the calls, each with arguments of its own."""
    x, y = make(), make()
    xg, yg = make().with_grads(), make().with_grads()
    yg.grad.copy_from_numpy(np.ones(4, np.float32))
    array = np.arange(4, dtype=np.float32)
    vectors = np.ones((4, 3), np.float32)
    polynomial, scaled, cells = module.polynomial, module.scaled, module.cells
    bwds, cells_bwds = polynomial.bwds, cells.bwds
    grid = spy.grid((4,))
    return {
        "tensor, into a tensor": lambda: polynomial(2.0, 8.0, -1.0, x, _result=y),
        "tensor, new result": lambda: polynomial(2.0, 8.0, -1.0, x),
        "by name": lambda: polynomial(a=2.0, b=8.0, c=-1.0, x=x, _result=y),
        "four numbers": lambda: polynomial(2.0, 8.0, -1.0, 3.0),
        "numpy in and out": lambda: polynomial(2.0, 8.0, -1.0, array, _result="numpy"),
        "numpy of float3": lambda: scaled(vectors, 2.0),
        "backward": lambda: bwds(2.0, 8.0, -1.0, xg, _result=yg),
        "tensor parameters": lambda: cells(grid, xg, yg),
        "tensor parameters, backward": lambda: cells_bwds(grid, xg, yg),
    }


def _time(call: Callable[[], object], device: spy.Device) -> float:
    started = time.perf_counter()
    call()
    elapsed = time.perf_counter() - started
    device.wait()
    return elapsed


def _loop(call: Callable[[], object], device: spy.Device) -> float:
    started = time.perf_counter()
    for _ in range(_LOOP):
        call()
    device.wait()
    return (time.perf_counter() - started) / _LOOP


def _pair(
    first: Callable[[], object], second: Callable[[], object], device: spy.Device, i: int
) -> list[float]:
    """Time both, the second one first at every other turn: whoever comes second finds the caches warm."""
    if i % 2:
        return [_time(second, device), _time(first, device)][::-1]
    return [_time(first, device), _time(second, device)]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--calls", type=int, default=2000)
    calls = parser.parse_args().calls
    lab = slanglab.compile(SOURCE, "calls")
    device = slanglab.current().device
    plain = spy.Module.load_from_source(device, "plain_calls", SOURCE)

    def make() -> spy.Tensor:
        return slanglab.tensor(np.arange(4, dtype=np.float32))

    ours, theirs = _cases(lab, make), _cases(plain, make)
    print(f"{device.info.adapter_name}; {calls} calls of each, in turns; medians in µs a call")
    print(f"{'':30}{'in loops of 50':>28}{'alone':>28}")
    print(f"{'':30}" + f"{'slangpy':>10}{'SlangLab':>10}{'ratio':>8}" * 2)
    for name in ours:
        for _ in range(20):
            _time(ours[name], device), _time(theirs[name], device)
        alone = np.median([_pair(theirs[name], ours[name], device, i) for i in range(calls)], axis=0) * 1e6
        loops = [(_loop(theirs[name], device), _loop(ours[name], device)) for _ in range(calls // _LOOP)]
        line = f"{name:30}"
        for them, us in (np.median(loops, axis=0) * 1e6, alone):
            line += f"{them:10.1f}{us:10.1f}{us / them:8.2f}"
        print(line)


if __name__ == "__main__":
    main()
