"""A layer of a network beside its peers, in one run on one machine: a Markdown table of milliseconds a call.

A Slang function is one unit, of so many inputs; a call is over all rows of the data and all units (`layer(x[:, None], w, b)`), so that x
is broadcast over the units, w and b over the rows. Backward it gives the gradients of all three. Peers: plain slangpy (the same text, its
own kernel), numpy's matrix products, and torch eager, on its GPU where SlangLab's device is one, else on the processor; for a backward
call torch runs forward and backward. The peers of a row take turns; at each turn one makes as many calls as fill some milliseconds (50
at most), and the device is waited for at the end. A figure is the median of the turns. `error` is the largest of the engine's gradients
against float64, relative to the largest value. SLANGLAB_DEVICE chooses the device.

Run: python tests/bench/layers.py [--sizes 12 16] [--width 16] [--turns 7]
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import slangpy as spy
from turns import Call, measure, wait_of

import slanglab
from slanglab.device import describe, is_software

_SECONDS = 5.0
"""After so many the turns of a row end."""

SOURCE = """
[Differentiable] float unit(float x[WIDTH], float w[WIDTH], float b)
{
    float sum = b;
    [ForceUnroll] for (int k = 0; k < WIDTH; ++k) sum += w[k] * x[k];
    return max(sum, 0.0);
}
"""


def torch_calls(values: dict[str, Any], seeds: Any, on_gpu: bool) -> tuple[Call, Call] | None:
    """Return torch's calls, forward and forward with backward, where it is there for the device."""
    try:
        import torch
    except ImportError:
        return None
    if on_gpu and not torch.cuda.is_available():
        return None
    where = "cuda" if on_gpu else "cpu"
    x, w, b = (torch.tensor(values[k], device=where) for k in "xwb")
    leaves = [t.clone().requires_grad_() for t in (x, w, b)]
    s = torch.tensor(seeds, device=where)

    def forward() -> Any:
        return torch.relu(torch.nn.functional.linear(x, w, b))

    def both() -> Any:
        y = torch.relu(torch.nn.functional.linear(*leaves))
        return torch.autograd.grad(y, leaves, s)

    return forward, both


def rows_of(n: int, width: int, turns: int) -> None:
    """Print the rows for n inputs."""
    lab = slanglab.current()
    device = lab.device
    text = SOURCE.replace("WIDTH", str(width))
    own = slanglab.compile(text, f"bench_layer_{width}").unit
    plain = spy.Module(device.load_module_from_source(f"bench_layer_plain_{width}", text)).unit
    rng = np.random.default_rng(0)
    values = {
        "x": rng.normal(size=(n, width)).astype(np.float32),
        "w": rng.normal(size=(width, width)).astype(np.float32),
        "b": rng.normal(size=width).astype(np.float32),
    }
    seeds = rng.normal(size=(n, width)).astype(np.float32)

    def tensors() -> list[Any]:
        made = [slanglab.tensor(values[k] if k != "x" else values[k][:, None], grad=True) for k in "xwb"]
        y = slanglab.zeros((n, width), grad=True)
        y.grad_in.copy_from_numpy(seeds)
        return [*made, y]

    *mine, y = tensors()
    *theirs, z = tensors()

    def by_numpy() -> Any:
        return np.maximum(values["x"] @ values["w"].T + values["b"], 0)

    def by_numpy_back() -> Any:
        kept = seeds * (by_numpy() > 0)
        return kept @ values["w"], kept.T @ values["x"], kept.sum(0)

    forward: dict[str, Call] = {
        "SlangLab": lambda: own(*mine, _result=y),
        "slangpy": lambda: plain(*theirs, _result=z),
        "numpy": by_numpy,
    }
    back: dict[str, Call] = {
        "SlangLab": lambda: own.bwds(*mine, _result=y),
        "slangpy": lambda: plain.bwds(*theirs, _result=z),
        "numpy": by_numpy_back,
    }
    peer = torch_calls(values, seeds, not is_software(device))
    if peer is not None:
        forward["torch"], back["torch"] = peer

    back["SlangLab"]()
    path = slanglab.last_run().path
    error = worst([t.grad_out.to_numpy() for t in mine], values, seeds)
    for what, calls in (("forward", forward), ("backward", back)):
        times = measure(calls, wait_of(device), turns=turns, seconds=_SECONDS)
        found = {name: time.median * 1e3 for name, time in times.items()}
        cells = [f"{found[k]:.3f}" if k in found else "" for k in ("slangpy", "numpy", "torch")]
        print(
            f"| 2^{n.bit_length() - 1} | {what} | **{found['SlangLab']:.3f}** | {path} | {' | '.join(cells)} | "
            f"{found['slangpy'] / found['SlangLab']:.2f} | {f'{error:.1e}' if what == 'backward' else ''} |",
            flush=True,
        )


def worst(found: list[Any], values: dict[str, Any], seeds: Any) -> float:
    """Return the largest error of the gradients, each relative to its largest value."""
    x, w, b = (values[k].astype(np.float64) for k in "xwb")
    kept = seeds.astype(np.float64) * (x @ w.T + b > 0)
    exact = (kept @ w, kept.T @ x, kept.sum(0))
    # A unit within a rounding of its kink may be on either side.
    near = np.abs(x @ w.T + b) < 1e-5
    slack = (
        np.abs(seeds * near) @ np.abs(w),
        np.abs(seeds * near).T @ np.abs(x),
        np.abs(seeds * near).sum(0),
    )
    return max(
        float(np.max(np.maximum(np.abs(f.reshape(e.shape) - e) - s, 0)) / np.max(np.abs(e)))
        for f, e, s in zip(found, exact, slack, strict=True)
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", help="powers of two")
    parser.add_argument("--width", type=int, default=16, help="inputs of a unit, and units")
    parser.add_argument("--turns", type=int, default=7)
    chosen = parser.parse_args()
    device = slanglab.current().device
    sizes = chosen.sizes or ([12, 16] if is_software(device) else [16, 20, 22])
    print(f"{describe(device)}; numpy {np.__version__}; {chosen.width} units of {chosen.width} inputs; ms\n")
    print("| inputs | call | SlangLab | path | slangpy | numpy | torch | slangpy / SlangLab | error |")
    print("|---" * 9 + "|")
    for bits in sizes:
        rows_of(1 << bits, chosen.width, chosen.turns)


if __name__ == "__main__":
    main()
