"""A step of Adam beside torch's fused one, in one run on one machine.

Large: one step over 2^24 float32 parameters (28 bytes each are read and written), as the mean over as many steps as fill some tenths of
a second with one wait at their end; SlangLab and torch take turns, and a figure is the median of the turns. torch runs on CUDA where it
has it, else on the processor. Afterwards both have made as many steps from the same start with the same gradients, and are compared.
Small: microseconds of a step over 8 tensors of 100 numbers, in loops of 200, beside a call of slangpy's and a dispatch of its
ComputeKernel with one argument. SLANGLAB_DEVICE chooses the device.

Run: python tests/bench/optim.py [--size 24] [--turns 7] [--most 1.3]   (exit status 1 where the ratio is above --most)
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np
import slangpy as spy
from turns import Call, measure, wait_of

import slanglab
from slanglab import optim
from slanglab.device import describe

_TURN = 0.3
"""Seconds that a turn is to take."""
_MOST = 500
"""Calls of a turn at most."""
_BYTES = 28
_RATE = 1e-3
_MINIMAL = """
[shader("compute")] [numthreads(1, 1, 1)]
void minimal(RWStructuredBuffer<float> buffer) { buffer[0] = 1; }
"""


def torch_module() -> Any:
    """Return torch, or None where it is not installed."""
    try:
        import torch
    except ImportError:
        return None
    return torch


def adams(starts: list[Any], gradients: list[Any], torch: Any, **hyper: Any) -> tuple[Any, Any]:
    """Return SlangLab's Adam and torch's fused one over the same numbers."""
    own = []
    for start, gradient in zip(starts, gradients, strict=True):
        tensor = slanglab.tensor(start, grad=True)
        tensor.grad.copy_from_numpy(gradient)
        own.append(tensor)
    ours = optim.Adam(own, lr=_RATE, **hyper)
    if torch is None:
        return ours, None
    where = "cuda" if torch.cuda.is_available() else "cpu"
    theirs = []
    for start, gradient in zip(starts, gradients, strict=True):
        leaf = torch.from_numpy(start.copy()).to(where).requires_grad_()
        leaf.grad = torch.from_numpy(gradient.copy()).to(where)
        theirs.append(leaf)
    return ours, torch.optim.Adam(theirs, lr=_RATE, fused=True)


def large(device: Any, torch: Any, size: int, turns: int) -> float:
    """Print the step over many parameters; return its time over torch's."""
    rng = np.random.default_rng()
    count = 1 << size
    start = rng.standard_normal(count, dtype=np.float32)
    gradient = rng.standard_normal(count, dtype=np.float32)
    ours, theirs = adams([start], [gradient], torch)
    calls: dict[str, Call] = {"SlangLab": ours.step}
    if theirs is not None:
        calls["torch"] = theirs.step
    found = measure(calls, wait_of(device), turns=turns, turn=_TURN, most=_MOST)
    for name, time in found.items():
        rate = _BYTES * count / time.median / 1e9
        print(f"| Adam, 2^{size} parameters | {name} | {time.median * 1e3:.3f} ms | {rate:.0f} GB/s |")
    if theirs is None:
        print("torch is not installed: nothing to compare with")
        return 0.0
    behind = max(time.count for time in found.values())
    for name, call in calls.items():
        for _ in range(behind - found[name].count):
            call()
    leaf = theirs.param_groups[0]["params"][0].detach().cpu().numpy()
    difference = float(np.abs(ours.params["0"].to_numpy() - leaf).max() / np.abs(leaf).max())
    ratio = found["SlangLab"].median / found["torch"].median
    where = "CUDA" if torch.cuda.is_available() else f"the processor, {torch.get_num_threads()} threads"
    print(
        f"\nSlangLab / torch {torch.__version__} fused (on {where}): **{ratio:.2f}**; "
        f"after {behind} steps of both the parameters differ by {difference:.1e} of the largest"
    )
    if difference > 1e-5 * max(1.0, behind / 100):
        raise SystemExit("the two do not agree")
    return ratio


def small(device: Any, torch: Any, turns: int) -> None:
    """Print what a step over little costs."""
    rng = np.random.default_rng()
    starts = [rng.standard_normal(100, dtype=np.float32) for _ in range(8)]
    ours, theirs = adams(starts, starts, torch)
    clipped, _ = adams(starts, starts, None, clip_norm=1.0)
    module = device.load_module_from_source("optim_bench_minimal", _MINIMAL)
    kernel = device.create_compute_kernel(device.link_program([module], [module.entry_point("minimal")]))
    plain = spy.Module(
        device.load_module_from_source("optim_bench_plain", "float same(float x) { return x; }")
    )
    x, y = (slanglab.tensor(starts[0]) for _ in range(2))
    buffer, threads = x.storage, spy.uint3(1, 1, 1)
    calls: dict[str, Call] = {
        "SlangLab step": ours.step,
        "SlangLab step with clip_norm": clipped.step,
        "SlangLab zero_grad": ours.zero_grad,
        "slangpy ComputeKernel.dispatch": lambda: kernel.dispatch(threads, buffer=buffer),
        "slangpy call": lambda: plain.same(x, _result=y),
    }
    if theirs is not None:
        calls["torch fused step"] = theirs.step

    def loop(call: Call) -> Call:
        def many() -> None:
            for _ in range(200):
                call()

        return many

    loops = {name: loop(call) for name, call in calls.items()}
    for name, time in measure(loops, wait_of(device), turns=turns, turn=_TURN, most=_MOST).items():
        print(f"| 8 tensors of 100 | {name} | {time.median / 200 * 1e6:.1f} µs | |")


def main() -> int:
    """Print the table; return 1 where the step takes longer than allowed."""
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("--size", type=int, default=24, help="power of two")
    options.add_argument("--turns", type=int, default=7)
    options.add_argument("--most", type=float, help="the largest ratio to torch; by default 1.3 with CUDA")
    chosen = options.parse_args()
    device = slanglab.current().device
    torch = torch_module()
    most = chosen.most
    if most is None and torch is not None and torch.cuda.is_available():
        most = 1.3
    print(f"{describe(device)}; medians of {chosen.turns} turns\n")
    print("| what | who | time | |\n|---|---|---|---|")
    small(device, torch, chosen.turns)
    ratio = large(device, torch, chosen.size, chosen.turns)
    if most is not None and ratio > most:
        print(f"above {most}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
