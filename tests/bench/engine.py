"""The engine beside its peers, in one run on one machine: a Markdown table of milliseconds a call.

Peers: plain slangpy (the same text, its own kernel), a hand-written Slang kernel (device pointers, one thread an element, groups of 256;
for a shared gradient a wave sum and one atomic addition a wave), numpy, and, where torch has CUDA, torch eager and torch.compile, which
for a backward call run forward and backward. The peers of a row take turns; at each turn one makes as many calls as fill some
milliseconds (50 at most), and the device is waited for at the end. A figure is the median of the turns. `error` is that of the
engine's shared gradient against float64, relative. SLANGLAB_DEVICE chooses the device.

Run: python tests/bench/engine.py [--sizes 10 16 22] [--calls 15] [--seconds 5]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import slangpy as spy
from turns import Call, measure, wait_of

import slanglab
from slanglab.device import describe, is_software

SOURCE = """
[Differentiable] float polynomial(float a, float b, float c, float x) { return a * x * x + b * x + c; }
[Differentiable] float3 shade(float3 albedo, float gain) { return albedo * albedo * gain + albedo; }
"""

HAND_WRITTEN = """
[shader("compute")] [numthreads(256, 1, 1)]
void forward(uint3 t: SV_DispatchThreadID, uniform uint n, uniform float a, uniform float b, uniform float c, uniform float* x,
             uniform float* y)
{
    if (t.x < n) y[t.x] = polynomial(a, b, c, x[t.x]);
}

void pulled(uint i, float a, float b, float c, float* x, float* dy, float* dx, out float da)
{
    var pa = diffPair(a);
    var pb = diffPair(b);
    var pc = diffPair(c);
    var px = diffPair(x[i]);
    bwd_diff(polynomial)(pa, pb, pc, px, dy[i]);
    dx[i] += px.d;
    da = pa.d;
}

[shader("compute")] [numthreads(256, 1, 1)]
void backward(uint3 t: SV_DispatchThreadID, uniform uint n, uniform float a, uniform float b, uniform float c, uniform float* x,
              uniform float* dy, uniform float* dx)
{
    float da;
    if (t.x < n) pulled(t.x, a, b, c, x, dy, dx, da);
}

[shader("compute")] [numthreads(256, 1, 1)]
void shared(uint3 t: SV_DispatchThreadID, uniform uint n, uniform float a, uniform float b, uniform float c, uniform float* x,
            uniform float* dy, uniform float* dx, uniform Atomic<float>* total)
{
    float da = 0;
    if (t.x < n) pulled(t.x, a, b, c, x, dy, dx, da);
    da = WaveActiveSum(da);
    if (WaveIsFirstLane()) total[0].add(da);
}

[shader("compute")] [numthreads(256, 1, 1)]
void forward3(uint3 t: SV_DispatchThreadID, uniform uint n, uniform float a, uniform float* x, uniform float* y)
{
    if (t.x >= n) return;
    float3 r = shade(float3(x[3 * t.x], x[3 * t.x + 1], x[3 * t.x + 2]), a);
    for (int k = 0; k < 3; k++) y[3 * t.x + k] = r[k];
}

[shader("compute")] [numthreads(256, 1, 1)]
void backward3(uint3 t: SV_DispatchThreadID, uniform uint n, uniform float a, uniform float* x, uniform float* dy, uniform float* dx)
{
    if (t.x >= n) return;
    uint i = 3 * t.x;
    var px = diffPair(float3(x[i], x[i + 1], x[i + 2]));
    var pa = diffPair(a);
    bwd_diff(shade)(px, pa, float3(dy[i], dy[i + 1], dy[i + 2]));
    for (int k = 0; k < 3; k++) dx[i + k] += px.d[k];
}
"""

A, B, C = 1.3, -0.7, 0.25
"""Seconds that a turn is to take."""

PEERS = ("slangpy", "hand-written", "numpy", "torch", "torch.compile")


class Bench:
    """The functions on the lab's device, three times: through SlangLab, slangpy and kernels written by hand."""

    def __init__(self) -> None:
        self.device = slanglab.current().device
        self.ours = slanglab.compile(SOURCE, name="engine_bench")
        self.loaded = self.device.load_module_from_source("engine_bench_plain", SOURCE)
        self.plain = spy.Module(self.loaded)
        module = self.device.load_module_from_source(
            "engine_bench_hand", 'import "engine_bench_plain";\n' + HAND_WRITTEN
        )
        self.hand = {
            name: self.device.create_compute_kernel(
                self.device.link_program([module, self.loaded], [module.entry_point(name)])
            )
            for name in ("forward", "backward", "shared", "forward3", "backward3")
        }
        self.rng = np.random.default_rng()

    def tensor(self, values: Any, *, grad: bool = False) -> Any:
        """Return a tensor of the values, with a gradient of zeros if asked for."""
        made = spy.Tensor.from_numpy(self.device, values)
        return made.with_grads() if grad else made

    def kernel(self, name: str, n: int, **arguments: Any) -> Call:
        """Return a launch of a hand-written kernel; tensors go by their address."""
        given = {
            k: v.storage.device_address if isinstance(v, spy.Tensor) else v for k, v in arguments.items()
        }
        threads, kernel = spy.uint3(n, 1, 1), self.hand[name]
        return lambda: (kernel.dispatch(threads, n=n, **given), arguments)

    def rows(self, n: int) -> list[tuple[str, dict[str, Call], Callable[[], float] | None]]:
        """Return the rows of one size: what is called, by whom, and how the error of a shared gradient is read."""
        x = self.rng.uniform(-1, 1, n).astype(np.float32)
        dy = self.rng.uniform(0.5, 1.5, n).astype(np.float32)
        image = self.rng.uniform(-1, 1, (n // 3 // 32 or 1, min(32, n // 3), 3)).astype(np.float32)
        return [
            self._forward(x),
            self._backward(x, dy),
            self._shared(x, dy),
            self._image_forward(image),
            self._image_backward(image),
        ]

    def _forward(self, x: Any) -> tuple[str, dict[str, Call], None]:
        tx, ty = self.tensor(x), self.tensor(x)
        a, b, c = (np.float32(v) for v in (A, B, C))
        f, g = self.ours.polynomial, self.plain.polynomial
        calls: dict[str, Call] = {
            "SlangLab": lambda: f(A, B, C, tx, _result=ty),
            "slangpy": lambda: g(A, B, C, tx, _result=ty),
            "hand-written": self.kernel("forward", x.size, a=A, b=B, c=C, x=tx, y=ty),
            "numpy": lambda: a * x * x + b * x + c,
        }
        return "forward", calls | torch_calls(x), None

    def _backward(self, x: Any, dy: Any) -> tuple[str, dict[str, Call], None]:
        tx, ty = self.tensor(x, grad=True), self.tensor(x, grad=True)
        ty.grad_in.copy_from_numpy(dy)
        gradient = np.zeros_like(x)
        a2, b = np.float32(2 * A), np.float32(B)
        f, g = self.ours.polynomial.bwds, self.plain.polynomial.bwds

        def by_numpy() -> None:
            nonlocal gradient
            gradient += (a2 * x + b) * dy

        calls: dict[str, Call] = {
            "SlangLab": lambda: f(A, B, C, tx, _result=ty),
            "slangpy": lambda: g(A, B, C, tx, _result=ty),
            "hand-written": self.kernel(
                "backward", x.size, a=A, b=B, c=C, x=tx, dy=ty.grad_in, dx=tx.grad_out
            ),
            "numpy": by_numpy,
        }
        return "backward", calls | torch_calls(x, dy), None

    def _shared(self, x: Any, dy: Any) -> tuple[str, dict[str, Call], Callable[[], float]]:
        tx, ty = self.tensor(x, grad=True), self.tensor(x, grad=True)
        ty.grad_in.copy_from_numpy(dy)
        ta = self.tensor(np.array([A], np.float32), grad=True)
        total = self.tensor(np.zeros(1, np.float32))
        gradient = np.zeros_like(x)
        a2, b = np.float32(2 * A), np.float32(B)
        f, g = self.ours.polynomial.bwds, self.plain.polynomial.bwds

        def by_numpy() -> None:
            nonlocal gradient
            gradient += (a2 * x + b) * dy
            np.sum(x * x * dy)

        def error() -> float:
            ta.grad_out.copy_from_numpy(np.zeros(1, np.float32))
            f(ta, B, C, tx, _result=ty)
            exact = float(np.sum(np.square(x, dtype=np.float64) * dy))
            return abs(float(ta.grad_out.to_numpy()[0]) / exact - 1)

        calls: dict[str, Call] = {
            "SlangLab": lambda: f(ta, B, C, tx, _result=ty),
            "slangpy": lambda: g(ta, B, C, tx, _result=ty),
            "hand-written": self.kernel(
                "shared", x.size, a=A, b=B, c=C, x=tx, dy=ty.grad_in, dx=tx.grad_out, total=total
            ),
            "numpy": by_numpy,
        }
        return "backward, shared a", calls | torch_calls(x, dy, shared=True), error

    def _image_forward(self, image: Any) -> tuple[str, dict[str, Call], None]:
        tx, ty = self.tensor(image), self.tensor(image)
        n = image.size // 3
        f, g = self.ours.shade, self.plain.shade
        gain = np.float32(A)
        return (
            f"forward {shape_of(image)}",
            {
                "SlangLab": lambda: f(tx, A, _result=ty),
                "slangpy": lambda: g(tx, A, _result=ty),
                "hand-written": self.kernel("forward3", n, a=A, x=tx, y=ty),
                "numpy": lambda: image * image * gain + image,
            },
            None,
        )

    def _image_backward(self, image: Any) -> tuple[str, dict[str, Call], None]:
        tx, ty = self.tensor(image, grad=True), self.tensor(image, grad=True)
        ty.grad_in.copy_from_numpy(np.ones_like(image))
        n = image.size // 3
        f, g = self.ours.shade.bwds, self.plain.shade.bwds
        seed, gradient, gain = np.ones_like(image), np.zeros_like(image), np.float32(2 * A)

        def by_numpy() -> None:
            nonlocal gradient
            gradient += (gain * image + np.float32(1)) * seed

        return (
            f"backward {shape_of(image)}",
            {
                "SlangLab": lambda: f(tx, A, _result=ty),
                "slangpy": lambda: g(tx, A, _result=ty),
                "hand-written": self.kernel("backward3", n, a=A, x=tx, dy=ty.grad_in, dx=tx.grad_out),
                "numpy": by_numpy,
            },
            None,
        )

    def small(self, calls: int) -> dict[str, float]:
        """Return microseconds of a call of four elements in a loop of 50, waited for at its end."""
        tx, ty = self.tensor(np.zeros(4, np.float32)), self.tensor(np.zeros(4, np.float32))
        both: dict[str, Call] = {
            "SlangLab": lambda: self.ours.polynomial(A, B, C, tx, _result=ty),
            "slangpy": lambda: self.plain.polynomial(A, B, C, tx, _result=ty),
        }
        times: dict[str, list[float]] = {name: [] for name in both}
        for turn in range(calls // 50 + 5):
            for name, call in sorted(
                both.items(), reverse=turn % 2 == 0
            ):  # whoever comes second finds the caches warm
                self.device.wait()
                started = time.perf_counter()
                for _ in range(50):
                    call()
                self.device.wait()
                if turn >= 5:
                    times[name].append((time.perf_counter() - started) / 50 * 1e6)
        return {name: statistics.median(t) for name, t in times.items()}


def shape_of(image: Any) -> str:
    """Return a shape as it is written."""
    return "(" + ", ".join(str(n) for n in image.shape) + ")"


def torch_calls(x: Any, dy: Any = None, shared: bool = False) -> dict[str, Call]:
    """Return torch's calls, where it is there with CUDA."""
    try:
        import torch
    except ImportError:
        return {}
    if not torch.cuda.is_available():
        return {}
    tx = torch.from_numpy(x).cuda()
    seed = torch.from_numpy(dy).cuda() if dy is not None else None

    def polynomial(a: Any, b: Any, c: Any, v: Any) -> Any:
        return a * v * v + b * v + c

    def call(function: Any) -> Call:
        if seed is None:
            return lambda: function(A, B, C, tx)
        leaf = tx.clone().requires_grad_()
        a = torch.tensor([A], device="cuda", requires_grad=True) if shared else A
        return lambda: function(a, B, C, leaf).backward(seed)

    return {"torch": call(polynomial), "torch.compile": call(torch.compile(polynomial))}


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument(
        "--sizes", type=int, nargs="+", help="powers of two; default 10 16 22, and 26 on a GPU"
    )
    options.add_argument("--calls", type=int, default=15, help="turns of each at most")
    options.add_argument("--seconds", type=float, default=5, help="time for a row")
    chosen = options.parse_args()
    bench = Bench()
    sizes = chosen.sizes or ([10, 16, 22] if is_software(bench.device) else [10, 16, 22, 26])
    print(
        f"{describe(bench.device)}; ms a call; median of up to {chosen.calls} turns, each of as many calls as fill 5 ms\n"
    )
    print("| elements | call | SlangLab | path | " + " | ".join(PEERS) + " | slangpy / SlangLab | error |")
    print("|---|---|---|---|" + "---|" * len(PEERS) + "---|---|")
    for size in sizes:
        for label, calls, error in bench.rows(1 << size):
            times = measure(calls, wait_of(bench.device), turns=chosen.calls, seconds=chosen.seconds)
            found = {name: time.median * 1e3 for name, time in times.items()}
            calls["SlangLab"]()
            path = slanglab.last_run().path
            cells = [f"{found[p]:.3f}" if p in found else "" for p in PEERS]
            ratio = f"{found['slangpy'] / found['SlangLab']:.2f}"
            wrong = f"{error():.1e}" if error is not None else ""
            print(
                f"| 2^{size} | {label} | **{found['SlangLab']:.3f}** | {path} | {' | '.join(cells)} | {ratio} | {wrong} |",
                flush=True,
            )
    small = bench.small(5000)
    print(
        f"\nA call of 4 elements, in loops of 50: SlangLab {small['SlangLab']:.1f} µs, slangpy {small['slangpy']:.1f} µs "
        f"(ratio {small['SlangLab'] / small['slangpy']:.2f})."
    )


if __name__ == "__main__":
    main()
