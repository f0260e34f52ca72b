"""What a live plot costs: a training loop with the plot open in JupyterLab, without a view, and without SlangLab's loop at all.

The step is a forward and a backward call of a small model and a gradient step, on the lab's device; the same step function runs in a bare
`for` loop, in `slanglab.train(plot=False)`, in `slanglab.train` whose output is cleared (nobody looks), and in one that is open in a
page. Bare and other runs alternate within a cell, so that a machine that slows down slows all of them; figures are medians of the ratios
of neighbours. On a machine whose steps vary by more than what is looked for the second figure says more: the time outside of the step and
of clearing the gradient, between two steps, before the first and after the last, as a share of the run, less that of the bare loop.

A plot costs processor time elsewhere too: in the page, in Jupyter's server, in the kernel's other threads. A software device computes
on the same cores. So that time is measured by itself, of all processes of browser and server but the kernel, as a share of
what all cores have: with a plot open, less without one. Noise of the steps does not reach it.

Then the memory of the page and the bytes it was sent, for runs of up to 1e5 steps and, once, of 1e6.

    python tests/bench/live_training.py [--rounds 5] [--steps 2000] [--long 100000]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[1] / "browser"))

from pages import NotebookPage, Server, launch
from playwright.sync_api import sync_playwright

SETUP = '''\
%load_ext slanglab
import json, time
import numpy as np
import slanglab as sl
m = sl.compile("""
[Differentiable] float model(float w, float x, float y) { let e = w * x - y; return e * e; }
""", "bench_live")
x = np.linspace(1, 2, 4096).astype(np.float32)
y = 3 * x
w = sl.zeros((4096,), grad=True)
loss = sl.zeros((4096,), grad=True)
sl.assign(loss.grad, 1.0)
class Descent:
    lr = 0.05
    params = {"w": w}
    def zero_grad(self):
        begin = time.perf_counter()
        w.grad.clear()
        inside[0] += time.perf_counter() - begin
    def step(self): pass
descent = Descent()
inside = [0.0]
def step(i):
    begin = time.perf_counter()
    m.model(w, x, y, _result=loss)
    sl.assign(loss.grad, 1.0)
    m.model.bwds(w, x, y, _result=loss)
    inside[0] += time.perf_counter() - begin
    return 1.0 / (i + 1)
def timed(go):
    """Return the clock's time and the share of it outside of the steps."""
    w.to_numpy()
    inside[0] = 0.0
    begin, start = clock(), time.perf_counter()
    go()
    whole = time.perf_counter() - start
    outside = (whole - inside[0]) / whole
    w.to_numpy()
    return clock() - begin, outside
def bare(n):
    def go():
        for i in range(n):
            descent.zero_grad()
            step(i)
            descent.step()
    return timed(go)
def ours(n, plot):
    return timed(lambda: sl.train(step, steps=n, optimizer=descent, plot=plot))
clock = time.CLOCK
bare(20); ours(20, False)
sent = [0]
from slanglab.widgets.transport import SlangWidget
plain = SlangWidget._transmit
def counted(self, frame):
    sent[0] += sum(len(b) for b in frame.buffers) + len(json.dumps(frame.content))
    plain(self, frame)
SlangWidget._transmit = counted'''


def finished(notebook: NotebookPage, cell: int) -> None:
    """Wait for the end of a cell that runs."""
    notebook.page.wait_for_function(
        "i => window.jupyterapp.shell.currentWidget.content.widgets[i].model.executionCount !== null",
        arg=cell,
        timeout=600_000,
        # By itself it would ask at each of the page's frames, and so keep the page making them.
        polling=300,
    )
    notebook.wait_idle()


def run(notebook: NotebookPage, cell: int, source: str) -> str:
    """Run a source in a cell, and return what it printed."""
    notebook.edit(cell, source)
    notebook.select(cell)
    notebook.page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-cell') }")
    time.sleep(0.3)
    finished(notebook, cell)
    assert not notebook.failed(cell), notebook.text(cell)
    return notebook.text(cell)


def heap(notebook: NotebookPage) -> float:
    """Return the JavaScript memory of the page after a collection, in MB."""
    session = notebook.page.context.new_cdp_session(notebook.page)
    session.send("HeapProfiler.collectGarbage")
    used = session.send("Runtime.getHeapUsage")
    return (used["usedSize"] + used.get("backingStorageSize", 0)) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument(
        "--cpu", action="store_true", help="compare processor time of the kernel: for a busy machine"
    )
    parser.add_argument("--long", type=int, default=100_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        root, jupyter = Path(folder) / "root", Path(folder) / "jupyter"
        root.mkdir()
        jupyter.mkdir()
        server = Server(root, jupyter, "lab")
        try:
            browser = launch(playwright)
            page = browser.new_page(viewport={"width": 1280, "height": 1400})
            notebook = NotebookPage(page, server, [SETUP, "pass", "pass"], "bench.ipynb")
            clock = "process_time" if args.cpu else "perf_counter"
            run(notebook, 0, SETUP.replace("CLOCK", clock))
            slowdowns(notebook, args.rounds, args.steps)
            elsewhere(notebook, args.rounds, args.steps)
            memory(notebook, args.long)
            browser.close()
        finally:
            server.stop()


def slowdowns(notebook: NotebookPage, rounds: int, steps: int) -> None:
    """Print how much longer a run takes than the bare loop."""
    kinds = {"without a plot": "False", "plot open": "True"}
    ratios: dict[str, list[float]] = {name: [] for name in [*kinds, "bare beside bare"]}
    outside: dict[str, list[float]] = {name: [] for name in kinds}
    per_step = []
    for _ in range(rounds):
        for name, plot in kinds.items():
            source = f"a = bare({steps}); b = ours({steps}, {plot}); c = bare({steps})\nprint('T', json.dumps([a, b, c]))"
            text = run(notebook, 1, source)
            (a, aside), (b, more), (c, again) = json.loads(text.split("T ")[-1])
            outside[name].append(more - (aside + again) / 2)
            ratios[name].append(2 * b / (a + c) - 1)
            ratios["bare beside bare"].append(c / a - 1)
            per_step += [a / steps, c / steps]
    print(f"bare loop: {1e3 * statistics.median(per_step):.3f} ms a step, {steps} steps, {rounds} rounds")
    for name, found in ratios.items():
        print(f"{name}: {quartiles(found)} {', '.join(f'{100 * r:+.1f}' for r in found)}")
    for name, found in outside.items():
        print(f"{name}, outside of the steps: {quartiles(found)}")


def quartiles(found: list[float], sign: str = "+") -> str:
    """Return the median of shares with the quartiles around it, in percent."""
    low, middle, high = statistics.quantiles(found, method="inclusive") if len(found) > 1 else [found[0]] * 3
    return f"{100 * middle:{sign}.2f} % (quartiles {100 * low:{sign}.1f} and {100 * high:{sign}.1f})"


def processor_time() -> float:
    """Return the seconds of processor time of what is below this process but the kernel: browser and server."""
    seconds = 0.0
    for process in psutil.Process().children(recursive=True):
        try:
            if "ipykernel" not in " ".join(process.cmdline()):
                spent = process.cpu_times()
                seconds += spent.user + spent.system
        except psutil.Error:
            continue  # it has ended
    return seconds


def elsewhere(notebook: NotebookPage, rounds: int, steps: int) -> None:
    """Print what browser and server compute during a run with a plot, more than during one without."""
    kinds = {"without": "False", "with": "True"}
    shares: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(rounds):
        for name, plot in kinds.items():
            before, begin = processor_time(), time.perf_counter()
            run(notebook, 1, f"ours({steps}, {plot}); None")
            took = time.perf_counter() - begin
            shares[name].append((processor_time() - before) / took / (psutil.cpu_count() or 1))
    more = [a - b for a, b in zip(shares["with"], shares["without"], strict=True)]
    print(f"browser and server, a plot open, more of all cores: {quartiles(more)}")
    print(f"browser and server, no plot, of all cores: {quartiles(shares['without'], '')}")


def memory(notebook: NotebookPage, most: int) -> None:
    """Print what a page holds and was sent for runs of several lengths."""
    run(notebook, 1, "sl.train(step, steps=50, optimizer=descent); None")
    before = heap(notebook)
    for n in (most // 4, most // 2, most, 10 * most):
        source = (
            "sent[0] = 0\nbegin = time.perf_counter()\n"
            f"run = sl.train(lambda i: time.sleep(2e-5) or 1 + 1 / (i + 1), steps={n}, params={{'w': w}})\n"
            "print('T', json.dumps([sent[0], time.perf_counter() - begin]))"
        )
        bytes_sent, took = json.loads(run(notebook, 2, source).split("T ")[-1])
        print(
            f"{n} steps in {took:.1f} s: {bytes_sent / 1e6:.2f} MB sent, {bytes_sent / n:.1f} bytes a step, "
            f"the page grew by {heap(notebook) - before:.1f} MB"
        )


if __name__ == "__main__":
    main()
