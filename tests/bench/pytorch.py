"""Torch tensors in calls beside their peers, in one run on one machine: Markdown tables.

Without CUDA (torch's tensors on the CPU, whatever device SlangLab has): a call with torch tensors, forward and forward with backward,
against the same calls of slangpy tensors that are ready on the device, which are waited for, and against torch by itself. With CUDA:
large calls against torch eager and torch.compile, and calls of four elements against plain slangpy with torch tensors (its own bridge,
slangpy-torch where installed, else its fallback), on a CUDA device and on Vulkan with shared memory.

The peers of a row take turns; at each turn one makes as many calls as fill some milliseconds (50 at most), and torch's device is waited
for at the end. A figure is the median of the turns, with the least in brackets. SLANGLAB_DEVICE chooses the device.

(It is not called torch.py: Python puts a script's folder in front, and every `import torch` there would find it.)

Run: python tests/bench/pytorch.py [--sizes 2 16 22] [--turns 15]
"""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Mapping
from typing import Any

import numpy as np
import slangpy as spy
import torch
from turns import Call, Time, measure

import slanglab
from slanglab.device import describe
from slanglab.engine import dispatch

SOURCE = """
[Differentiable] float polynomial(float a, float b, float c, float x) { return a * x * x + b * x + c; }
"""
A, B, C = 1.3, -0.7, 0.25


def polynomial(a: float, b: float, c: float, x: Any) -> Any:
    """Return what the Slang function returns."""
    return a * x * x + b * x + c


def taken(calls: Mapping[str, Call], wait: Call, turns: int) -> dict[str, Time]:
    """Time the calls of a row; plans are written out at the eighth."""
    return measure(calls, wait, turns=turns, warm=12)


def shown(time: Time | None) -> str:
    """Return a time as it stands in the tables, in microseconds."""
    return "" if time is None else f"{time.median * 1e6:.0f} ({time.least * 1e6:.0f})"


def table(columns: list[str], rows: list[tuple[str, str, dict[str, Time]]], ratio: tuple[str, str]) -> None:
    """Print a table, with the ratio of two columns behind."""
    print("| elements | call | " + " | ".join(f"{c} µs" for c in columns) + f" | {ratio[0]} / {ratio[1]} |")
    print("|---" * (len(columns) + 3) + "|")
    for size, call, found in rows:
        one, other = found.get(ratio[0]), found.get(ratio[1])
        by = f"{one.median / other.median:.2f} ({one.least / other.least:.2f})" if one and other else ""
        print(f"| {size} | {call} | " + " | ".join(shown(found.get(c)) for c in columns) + f" | {by} |")
    print()


# ----- the CPU's torch -----


def on_the_cpu(module: Any, sizes: list[int], turns: int) -> None:
    """Print what a call with torch tensors of the CPU costs."""
    device = slanglab.current().device
    f = module.polynomial
    rows = []
    for bits in sizes:
        n = 1 << bits
        values = torch.rand(n)
        leaf, seed = values.clone().requires_grad_(), torch.ones(n)
        x, y = slanglab.tensor(values.numpy()), slanglab.zeros((n,))
        gx, gy = slanglab.tensor(values.numpy(), grad=True), slanglab.zeros((n,), grad=True)
        gy.grad_in.copy_from_numpy(np.ones(n, np.float32))

        def ready(x: Any = x, y: Any = y) -> None:
            f(A, B, C, x, _result=y)
            device.wait()

        def ready_both(x: Any = x, y: Any = y, gx: Any = gx, gy: Any = gy) -> None:
            f(A, B, C, x, _result=y)
            gx.grad.clear()
            f.bwds(A, B, C, gx, _result=gy)
            device.wait()

        forward: dict[str, Call] = {
            "torch tensors": lambda v=values: f(A, B, C, v),
            "slangpy tensors": ready,
            "torch alone": lambda v=values: polynomial(A, B, C, v),
        }
        both: dict[str, Call] = {
            "torch tensors": lambda v=leaf, s=seed: torch.autograd.grad(f(A, B, C, v), v, s),
            "slangpy tensors": ready_both,
            "torch alone": lambda v=leaf, s=seed: torch.autograd.grad(polynomial(A, B, C, v), v, s),
        }
        rows.append((f"2^{bits}", "forward", taken(forward, device.wait, turns)))
        rows.append((f"2^{bits}", "forward + backward", taken(both, device.wait, turns)))
    table(["torch tensors", "slangpy tensors", "torch alone"], rows, ("torch tensors", "slangpy tensors"))


def fresh_gradients(module: Any, bits: int, turns: int) -> None:
    """Print what a backward call gains that writes its gradients, over one that adds to cleared ones."""
    device = slanglab.current().device
    n = 1 << bits
    x = slanglab.random((n,), grad=True)
    y = slanglab.zeros((n,), grad=True)
    y.grad_in.copy_from_numpy(np.ones(n, np.float32))
    (target,) = module.polynomial.bwds.targets()
    args, named = (A, B, C, x), {"_result": y}

    def cleared() -> None:
        x.grad.clear()
        dispatch.made(target, args, named)
        device.wait()

    def written() -> None:
        dispatch.made(target, args, named, (x.grad_out,))
        device.wait()

    found = taken({"cleared and added to": cleared, "written": written}, device.wait, turns)
    columns = ["cleared and added to", "written"]
    table(columns, [(f"2^{bits}", "backward", found)], ("written", "cleared and added to"))


# ----- torch on a GPU -----


def on_the_gpu(backend: str, sizes: list[int], turns: int) -> None:
    """Print large calls beside torch's own, and small ones beside plain slangpy."""
    lab = slanglab.current()
    lab.switch_device(backend)
    f = slanglab.compile(SOURCE, f"pytorch_bench_{backend}").polynomial
    compiled = torch.compile(polynomial)
    wait = torch.cuda.synchronize
    rows = []
    for bits in sizes:
        values = torch.rand(1 << bits, device="cuda")
        leaf, seed = values.clone().requires_grad_(), torch.ones_like(values)
        peers: dict[str, Any] = {"SlangLab": f, "torch": polynomial, "torch.compile": compiled}
        forward = {name: (lambda g=g, v=values: g(A, B, C, v)) for name, g in peers.items()}
        both = {
            name: (lambda g=g, v=leaf, s=seed: torch.autograd.grad(g(A, B, C, v), v, s))
            for name, g in peers.items()
        }
        rows.append((f"2^{bits}", "forward", taken(forward, wait, turns)))
        rows.append((f"2^{bits}", "forward + backward", taken(both, wait, turns)))
    print(f"## {describe(lab.device)}\n")
    table(["SlangLab", "torch", "torch.compile"], rows, ("SlangLab", "torch.compile"))
    spy.set_allow_torch_fallback(True)
    plain_device = spy.create_torch_device(type=getattr(spy.DeviceType, backend))
    # A call of slangpy's keeps to whether the first one of its kind required a gradient.
    plain, plain_both = (
        spy.Module(plain_device.load_module_from_source(f"pytorch_bench_{which}", SOURCE)).polynomial
        for which in ("forward", "both")
    )
    few = torch.rand(4, device="cuda")
    leaf, seed = few.clone().requires_grad_(), torch.ones_like(few)
    peers = {"SlangLab": f, "slangpy": plain}
    forward = {name: (lambda g=g: g(A, B, C, few)) for name, g in peers.items()}
    peers = {"SlangLab": f, "slangpy": plain_both}
    both = {
        name: (lambda g=g: torch.autograd.grad(g(A, B, C, leaf), leaf, seed)) for name, g in peers.items()
    }
    small = [
        ("4", "forward", taken(forward, wait, turns)),
        ("4", "forward + backward", taken(both, wait, turns)),
    ]
    bridge = "its fallback" if spy.is_torch_bridge_using_fallback() else "slangpy-torch"
    print(f"slangpy with {bridge}:\n")
    table(["SlangLab", "slangpy"], small, ("SlangLab", "slangpy"))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", help="powers of two")
    parser.add_argument("--turns", type=int, default=15)
    chosen = parser.parse_args()
    print(
        f"{platform.node()}, {platform.processor() or platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}, ",
        end="",
    )
    print(f"slangpy {spy.__version__ if hasattr(spy, '__version__') else ''}\n")
    if torch.cuda.is_available():
        print(torch.cuda.get_device_name(), "\n")
        for backend in ("cuda", "vulkan"):
            on_the_gpu(backend, chosen.sizes or [24, 26], chosen.turns)
        return
    module = slanglab.compile(SOURCE, "pytorch_bench")
    print(f"## torch on the CPU, {describe(slanglab.current().device)}\n")
    on_the_cpu(module, chosen.sizes or [2, 16, 22], chosen.turns)
    fresh_gradients(module, max(chosen.sizes or [22]), chosen.turns)


if __name__ == "__main__":
    main()
