"""Runs of the guard in real notebooks, for the table: deadly kernels, interrupted compiles, broken workers, ends while a worker hangs.

`python tests/survival/guard.py [runs]` prints a line for each.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
from deadly import DEADLY, Deadly, call, good, salted, values
from notebook_kernel import NotebookKernel
from rows import Row

__all__ = ["broken_workers", "deadly_kernels", "ends", "interrupts", "runs"]

_SECONDS = 3.0  # that the compiler has for a kernel here
_POINTS = ("start", "modules", "compile", "answer", "idle")
_FAULTS = ("killed", "stopped", "garbage")
_HERE = Path(__file__).parent


def runs(count: int) -> Iterator[Row]:
    """Yield `count` runs of deadly kernels, a tenth as many of interrupts, and each broken worker and each end once."""
    yield from deadly_kernels(count)
    yield from interrupts(max(3, count // 10))
    yield from broken_workers()
    yield from ends()


def _computes(notebook: NotebookKernel) -> str:
    """Return what is wrong with a notebook in which a new kernel is to compile and run; nothing when all is well."""
    text, factor = good()
    made = notebook.run(f"m = sl.compile({text!r}, 'after')")
    ran = notebook.run(call("m", "(x,)", True))
    if not (made.ok and ran.ok):
        return f"the next cell failed: {made.error or ran.error or 'no answer'}"
    if not np.allclose(values(ran.text), 2 * factor * np.arange(1, 6), rtol=1e-5):
        return f"the next cell is wrong: {ran.text}"
    return "" if notebook.intact() else "the state is gone"


def deadly_kernels(count: int) -> Iterator[Row]:
    """Yield runs of backward calls that crash or hang the compiler, all in one notebook."""
    with NotebookKernel() as notebook:
        notebook.must(f"from slanglab import guard\nguard.Guard.seconds = {_SECONDS}")
        for number in range(count):
            case = DEADLY[number % len(DEADLY)]
            text, factor = salted(case)
            wrong = _deadly(notebook, case, text, factor)
            yield Row(f"{case.kind} of the compiler: {case.name}", not wrong, wrong)
            if not notebook.alive():
                return


def _deadly(notebook: NotebookKernel, case: Deadly, text: str, factor: float) -> str:
    notebook.must(f"m = sl.compile({text!r}, 'deadly')")
    forward = notebook.run(call("m", case.arguments, False))
    if not np.allclose(values(forward.text), factor * np.array(case.forward), rtol=1e-5):
        return f"the forward call is wrong: {forward.error or forward.text}"
    out = notebook.run(call("m", case.arguments, True))
    if out.error is None or out.error.name != "KernelRefusedError":
        return (
            f"no refusal: {out.error or ('dead' if out.dead else 'timed out' if out.timed_out else out.text)}"
        )
    if f"line {case.line}" not in out.error.text:
        return f"no line: {out.error.text}"
    return _computes(notebook)


def interrupts(count: int) -> Iterator[Row]:
    """Yield interrupts of a compile that hangs, at moments that differ."""
    case = DEADLY[0]
    with NotebookKernel() as notebook:
        _computes(notebook)  # what is made once for a session is made
        for number in range(count):
            text, _ = salted(case)
            notebook.must(f"m = sl.compile({text!r}, 'deadly')")
            after = 0.2 + 1.7 * (number * 0.618 % 1)
            out = notebook.run(call("m", case.arguments, True), interrupt_after=after)
            wrong = _computes(notebook)
            if out.error is None or out.error.name != "KeyboardInterrupt":
                wrong = f"after {after:.2f} s: {out.error or 'no answer'}"
            elif out.prompt is None or out.prompt >= 0.5:
                wrong = f"after {after:.2f} s the prompt took {out.prompt} s"
            yield Row(
                "interrupt of a hanging compile", not wrong, wrong or f"prompt after {out.prompt:.2f} s"
            )


def broken_workers() -> Iterator[Row]:
    """Yield a run for each way and each point at which a worker breaks."""
    for fault in _FAULTS:
        for point in _POINTS:
            with tempfile.TemporaryDirectory() as folder:
                env = {"SLANGLAB_TEST_FAULT": f"{fault}:{point}:1:{folder}/count"}
                with NotebookKernel(env) as notebook:
                    notebook.must(
                        f"import sys\nsys.path.insert(0, {str(_HERE)!r})\n"
                        "from slanglab.guard import client, process\nprocess._MODULE = 'faulty_worker'"
                    )
                    began = time.perf_counter()
                    wrong = _computes(notebook)
                    took = time.perf_counter() - began
                    time.sleep(0.2)  # for what happens behind the answer
                    wrong = wrong or _computes(notebook)
                    if not wrong:
                        seen = notebook.must(
                            "(g,) = client._guards.values()\nprint('seen', g.workers, g.off)"
                        )
                        wrong = "" if seen.strip() == "seen 2" else f"workers and why it is off: {seen}"
            yield Row(f"guard {fault}: {point}", not wrong, wrong or f"{took:.1f} s")


def ends() -> Iterator[Row]:
    """Yield a run for each way in which a notebook ends while its worker hangs."""
    case = DEADLY[0]
    for end in ("exit", "exit now", "restart", "restart now", "SIGKILL"):
        text, _ = salted(case)
        with NotebookKernel() as notebook:
            notebook.must(f"m = sl.compile({text!r}, 'deadly')")
            notebook.send(call("m", case.arguments, True))
            _wait_until_busy(notebook)
            before = notebook.processes()
            began = time.perf_counter()
            took: float | None = None
            left: list[psutil.Process] = []
            if end.startswith("exit"):
                notebook.shutdown(now=end.endswith("now"))
            elif end.startswith("restart"):
                took = notebook.restart(now=end.endswith("now"))
                left = notebook.left_by_restart()
            else:
                os.kill(notebook.pid, signal.SIGKILL)
            if not end.startswith("restart"):
                took = _gone(before, began)
                left = before if took is None else []
            wrong = "" if not left and took is not None and took < 1.0 else f"left: {left} after {took} s"
            if end.startswith("restart") and not wrong:
                wrong = _computes(notebook)
            yield Row(
                f"{end} while a compile hangs", not wrong, wrong or f"all processes gone after {took:.2f} s"
            )


def _wait_until_busy(notebook: NotebookKernel) -> None:
    """Wait until a process of the notebook, not itself, has worked for a while."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        for process in notebook.processes():
            try:
                if process.pid != notebook.pid and process.cpu_times().user > 1.5:
                    return
            except psutil.Error:
                continue
        time.sleep(0.1)
    raise AssertionError("no worker is at work")


def _gone(processes: list[psutil.Process], began: float) -> float | None:
    """Return how many seconds after `began` none of the processes was left; None when one is still there after five."""
    while time.perf_counter() - began < 5.0:
        if not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in processes):
            return time.perf_counter() - began
        time.sleep(0.02)
    return None


if __name__ == "__main__":
    bad = 0
    for row in runs(int(sys.argv[1]) if len(sys.argv) > 1 else 16):
        bad += not row.ok
        print("ok  " if row.ok else "FAIL", row.name, "-", row.detail, flush=True)
    sys.exit(bad != 0)
