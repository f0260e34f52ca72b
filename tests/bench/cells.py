"""What a cell costs: an edit, a re-run, a kernel restart, and what two hundred edits leave behind.

Peers, in the same run: slangpy called directly (module load, first call, read-back), and `%%cython` with the same function. Each figure
is the median of its repetitions; the ratios are what to look at, since machines differ.

Run `python tests/bench/cells.py`; `--quick` makes fewer repetitions.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import psutil

FUNCTION = (
    "[Differentiable]\nfloat f(float a, float b, float c, float x) { return a * x * x + b * x + c + K; }\n"
)
CYTHON = """%%cython
import numpy as np
def f(double a, double b, double c, double[:] x):
    cdef Py_ssize_t i
    cdef double[:] y = np.empty(x.shape[0])
    for i in range(x.shape[0]):
        y[i] = a * x[i] * x[i] + b * x[i] + c + K
    return np.asarray(y)
"""


def milliseconds(step: Callable[[int], object], repetitions: Iterable[int]) -> float:
    """Return the median time of `step(i)` in ms."""
    times = []
    for i in repetitions:
        start = time.perf_counter()
        step(i)
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


class Bare:
    """slangpy, as its documents call it, with the caches that SlangLab uses."""

    def __init__(self) -> None:
        import slangpy as spy

        from slanglab.device import caches

        modules, shaders = caches()
        self.spy = spy
        self.device = spy.Device(
            type=spy.DeviceType.vulkan,
            enable_hot_reload=False,
            compiler_options={"include_paths": [spy.SHADER_PATH]},
            module_cache_path=modules,
            shader_cache_path=shaders,
        )
        self.x = spy.Tensor.from_numpy(self.device, np.linspace(-1, 1, 1000).astype(np.float32))

    def edit(self, i: int) -> None:
        module = self.spy.Module(
            self.device.load_module_from_source(f"bare{i}", FUNCTION.replace("K", f"{i}.0"))
        )
        module.f(2.0, 8.0, -1.0, self.x).to_numpy()


class Ours:
    """The magic in an IPython shell, with its report."""

    def __init__(self) -> None:
        from IPython.core.interactiveshell import InteractiveShell
        from IPython.utils.capture import capture_output

        self._capture = capture_output
        self.shell = InteractiveShell.instance()
        self.shell.run_cell("%load_ext slanglab\nimport numpy as np\nimport slanglab")
        self.shell.run_cell("x = slanglab.tensor(np.linspace(-1, 1, 1000))")

    def run(self, cell: str) -> None:
        with self._capture():
            self.shell.run_cell(cell).raise_error()

    def edit(self, i: int) -> None:
        self.run(f"%%slang poly\n{FUNCTION.replace('K', f'{i}.0')}")
        self.run("y = poly.f(2.0, 8.0, -1.0, x).to_numpy()")

    def rerun(self, i: int) -> None:
        self.run(f"%%slang poly\n{FUNCTION.replace('K', '0.5')}")

    def cython(self, i: float) -> None:
        self.run(CYTHON.replace("K", str(float(i))))
        self.run("z = f(2.0, 8.0, -1.0, np.linspace(-1, 1, 1000))")


FIRST_CELL = """
    import time
    start = time.perf_counter()
    import numpy as np
    import slanglab
    m = slanglab.compile(SOURCE, "m")
    m.f(2.0, 8.0, -1.0, slanglab.linspace(-1, 1, 1000)).to_numpy()
    print((time.perf_counter() - start) * 1e3)
"""


def first_cell(cache: str) -> float:
    """Return the time in ms from `import slanglab` to the first result, in a process of its own."""
    code = textwrap.dedent(FIRST_CELL).replace("SOURCE", repr(FUNCTION.replace("K", "1.0")))
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "SLANGLAB_CACHE": cache},
    )
    return float(done.stdout.split()[-1])


def leak(ours: Ours, edits: int) -> float:
    """Return by how many MB the process grew over `edits` edits with a call each."""
    for i in range(20):
        ours.edit(10_000 + i)
    process = psutil.Process()
    before = process.memory_info().rss
    for i in range(edits):
        ours.edit(20_000 + i)
    return (process.memory_info().rss - before) / 1e6


def main() -> dict[str, float]:
    """Measure, print the table and return it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    repetitions = 8 if options.quick else 25
    figures: dict[str, float] = {}

    bare, ours = Bare(), Ours()
    bare.edit(0)
    ours.edit(0)
    # In turn, so that a machine that slows down slows both.
    pairs = [(milliseconds(bare.edit, [i]), milliseconds(ours.edit, [i])) for i in range(1, repetitions + 1)]
    figures["edit to result, slangpy"] = statistics.median(p[0] for p in pairs)
    figures["edit to result, SlangLab"] = statistics.median(p[1] for p in pairs)
    ours.rerun(0)
    figures["unchanged re-run, SlangLab"] = milliseconds(ours.rerun, range(repetitions * 4))

    ours.run("%load_ext cython")
    figures["edit to result, %%cython"] = milliseconds(ours.cython, [time.time() + i for i in range(3)])
    figures["unchanged re-run, %%cython"] = milliseconds(
        lambda _i: ours.run(CYTHON.replace("K", "0.25")), range(1 + repetitions * 4)
    )
    with tempfile.TemporaryDirectory() as cache:
        figures["first cell, cold caches"] = first_cell(cache)
        figures["first cell, warm caches"] = statistics.median(first_cell(cache) for _ in range(3))
    edits = 50 if options.quick else 200
    figures[f"growth over {edits} edits, MB"] = leak(ours, edits)

    for name, value in figures.items():
        print(f"{name:<32} {value:10.2f}{'' if name.endswith('MB') else ' ms'}")
    print()
    for label, a, b in (
        ("edit to result: SlangLab / slangpy", "edit to result, SlangLab", "edit to result, slangpy"),
        ("edit to result: SlangLab / %%cython", "edit to result, SlangLab", "edit to result, %%cython"),
        ("re-run: SlangLab / %%cython", "unchanged re-run, SlangLab", "unchanged re-run, %%cython"),
        ("first cell: warm / cold caches", "first cell, warm caches", "first cell, cold caches"),
    ):
        print(f"{label:<40} {figures[a] / figures[b]:8.3f}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))
    return figures


if __name__ == "__main__":
    main()
