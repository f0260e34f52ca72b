"""What resets, switches and edits leave behind, measured in real kernels.

Run: python tests/survival/memory.py [--edits 500]. Each figure is the resident memory of the kernel's process in MB.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from notebook_kernel import NotebookKernel
from rows import Row

__all__ = ["edits", "resets", "runs"]

FLAT = 20.0  # MB over ten resets
GROWTH = 150.0  # MB over 500 edits

CELL = """%%slang
struct Pair {{ float a; float b; }};
[Differentiable] float f(float x) {{ return x * x + {factor}; }}
float first(Pair p) {{ return p.a; }}
"""

USE = """
x = sl.tensor(np.ones(1000), grad=True)
y = f(x, _result="tensor").with_grads()
sl.assign(y.grad, 1.0)
f.bwds(x, _result=y)
assert x.grad.to_numpy()[0] == 2.0
pairs = spy.Tensor.zeros(sl.current().device, (4,), Pair)
held = {"x": x, "all": [x, y]}
"""

WAYS = {
    "nothing held": USE + "del x, y, pairs, held",
    "tensors and structs by name, made again after each": USE,
    "results shown and kept in Out": USE + "x\n",
    "an error whose frames hold a tensor": USE + "def fails(t): raise ValueError(t.shape)\nfails(x)",
}
"""What a notebook does between two resets."""

RESET = "%slang reset"
# There is one backend here: the other end of a switch is a device that was closed and is opened again.
SWITCH = "lab = sl.current(); name = lab.device.info.type.name; lab.close(); lab.switch_device(name);"


def _after(kernel: NotebookKernel, way: str, step: str, count: int) -> list[float]:
    """Use the device and take the step so many times; return the memory after each."""
    sizes = []
    for _ in range(count):
        out = kernel.run(WAYS[way])
        assert out.ok or "holds" not in way or out.error is None or out.error.name == "ValueError", out.error
        kernel.must(step)
        kernel.must("f(1.0)")
        sizes.append(kernel.rss())
    return sizes


def resets(way: str, count: int = 10, step: str = RESET) -> Row:
    """Reset so many times, after three that fill what is kept for good."""
    with NotebookKernel() as kernel:
        kernel.must(CELL.format(factor="0.0"))
        before = _after(kernel, way, step, 3)[-1]
        sizes = _after(kernel, way, step, count)
        bound = kernel.must("print(spy.Tensor.zeros(sl.current().device, (2,), Pair).shape)")
    growth = sizes[-1] - before
    what = "reset" if step == RESET else "switch"
    return Row(
        f"ten times {what}: {way}",
        growth < FLAT and "2" in bound,
        f"{before:.0f} MB before, {sizes[-1]:.0f} after, {growth:+.0f}",
    )


def edits(count: int) -> Row:
    """Edit a cell so many times, with a backward call after each, while the notebook holds tensors."""
    with NotebookKernel() as kernel:
        kernel.must("kept = []")
        before = 0.0
        for number in range(count + 20):  # the first fill what is kept for good
            kernel.must(CELL.format(factor=f"{number}.0"))
            kernel.must(USE + "kept = [*kept[-3:], x, y]")
            if number == 19:
                before = kernel.rss()
        after = kernel.rss()
    growth = after - before
    return Row(
        f"{count} edits with a backward call each",
        growth < GROWTH,
        f"{before:.0f} MB, then {after:.0f}, {growth:+.0f}",
    )


def runs(count: int = 100) -> Iterator[Row]:
    """Run it all; `count` scales the edits: 5 for each."""
    for way in WAYS:
        yield resets(way)
    yield resets("tensors and structs by name, made again after each", step=SWITCH)
    yield edits(5 * count)


def main() -> None:
    """Run and print."""
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("--edits", type=int, default=500)
    chosen = options.parse_args()
    bad = False
    for row in runs(chosen.edits // 5):
        bad |= not row.ok
        print("ok " if row.ok else "BAD", row.name, "|", row.detail, flush=True)
    sys.exit(bad)


if __name__ == "__main__":
    main()
