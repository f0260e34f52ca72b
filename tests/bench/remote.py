"""What the worker engine costs: the same calls in the notebook's own process and in the worker, in turns, in one run.

python tests/bench/remote.py
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import slanglab as sl
from slanglab import remote
from slanglab.cells.session import Request
from slanglab.lab import Lab, adopt
from slanglab.settings import Settings

SOURCE = """
[Differentiable] float square(float x) { return x * x; }
[Differentiable] float loss(float x, float target) { return (x - target) * (x - target); }
float step(inout float x, float gradient, float rate) { x -= rate * gradient; return x; }
"""
ROUNDS = 9


def actions(module: Any, count: int, wait: Callable[[], None]) -> dict[str, Callable[[], Any]]:
    """Return what is timed, over so many floats."""
    numbers = np.linspace(0, 1, count, dtype=np.float32)
    x, y = sl.tensor(numbers), sl.empty(count)
    p = sl.tensor(numbers, grad=True)
    target = sl.zeros(count)
    value = module.loss(p, target, _result="tensor").with_grads()
    value.grad.copy_from_numpy(np.ones(count, np.float32))
    backward = module.loss.bwds

    def waited() -> None:
        module.square(x, _result=y)
        wait()

    def descent() -> None:
        p.grad.clear()
        module.loss(p, target, _result=value)
        backward(p, target, _result=value)
        module.step(p, p.grad, 0.1, _result=y)
        wait()

    return {
        "call": lambda: module.square(x, _result=y),
        "call, wait": waited,
        "tensor from numpy": lambda: x.copy_from_numpy(numbers),
        "numpy from tensor": x.to_numpy,
        "numpy to numpy": lambda: module.square(numbers, _result="numpy"),
        "SGD step, wait": descent,
    }


def seconds(action: Callable[[], Any], wait: Callable[[], None], repeat: int) -> float:
    """Return what one of `repeat` takes."""
    wait()
    began = time.perf_counter()
    for _ in range(repeat):
        action()
    took = time.perf_counter() - began
    wait()
    return took / repeat


def main() -> int:
    """Print the table."""
    own = adopt(Lab(Settings(Path(tempfile.mkdtemp()) / "settings.json")))
    module = own.compile(SOURCE, "bench")
    waits = {"notebook": own.sync, "worker": sl.sync}
    print(f"{'µs, medians of ' + str(ROUNDS):<28}{'notebook':>12}{'worker':>12}{'more':>12}")
    for count, repeat in ((4, 200), (10**6, 10)):
        made = {"notebook": actions(module, count, own.sync)}
        there = remote.use(dict)
        made["worker"] = actions(
            there.cells.run(Request(SOURCE, "bench", label="bench")).module, count, sl.sync
        )
        for name in made["notebook"]:
            found: dict[str, list[float]] = {side: [] for side in made}
            for _ in range(ROUNDS + 1):
                for side, acts in made.items():
                    found[side].append(seconds(acts[name], waits[side], repeat) * 1e6)
            here, far = (statistics.median(found[side][1:]) for side in ("notebook", "worker"))
            print(f"{name + f', {count:_} floats':<28}{here:>12.0f}{far:>12.0f}{far - here:>+12.0f}")
        remote.leave()
    return 0


if __name__ == "__main__":
    sys.exit(main())
