"""Runs of the worker engine: its process killed, stopped and crashing at random moments, interrupts, endless kernels, and ends."""

from __future__ import annotations

import random
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
from notebook_kernel import NotebookKernel, Outcome
from rows import Row

__all__ = ["CELL", "computes", "runs", "started"]

PROMPT = 0.5  # seconds from Interrupt to the prompt
EXIT = 1.0  # seconds that a process may take to end

CELL = """%%slang k
import slangpy;
groupshared float room[64];
void outside(int i, int at, RWTensor<float, 1> t)
{
    room[at + i] = float(i);
    GroupMemoryBarrierWithGroupSync();
    t[i] = room[(i + 1) % 4];
}
void endless(float x, RWTensor<float, 1> t)
{
    float a = 1;
    while (true) { a = a * 1.0001 + t[0]; t[0] = a; }
}
[Differentiable] float square(float x) { return x * x; }
"""

_TENSORS = "t = sl.tensor([1.0, 2.0], grad=True); others = [sl.zeros(4)]"
_BUSY = "while True: k.square(t).to_numpy()"
_ENDLESS = "k.endless(1.0, others[0]); others[0].to_numpy()"
_OUTSIDE = (
    "for at in (10**8, 2 * 10**8, 3 * 10**8, 4 * 10**8, 5 * 10**8, -(10**8), -5 * 10**8):\n"
    "    k.outside([0, 1, 2, 3], at, others[0]); others[0].to_numpy()"
)


def started(folder: Path) -> NotebookKernel:
    """Return a kernel with the worker engine, the cell and some tensors."""
    kernel = NotebookKernel({"SLANGLAB_CONFIG": str(folder / "config")})
    kernel.must("%slang config engine worker")
    kernel.must(CELL)
    kernel.must(_TENSORS)
    return kernel


def computes(kernel: NotebookKernel) -> str:
    """Return what is wrong with a kernel after something has happened in it; empty where all is as it should be."""
    return kernel.wrong_after("print(k.square(sl.tensor([1.0, 2.0, 3.0])).to_numpy())", "[1. 4. 9.]")


def _worker(kernel: NotebookKernel) -> int:
    return int(kernel.must("from slanglab import remote; print(remote.active().engine.pid)").split()[-1])


def _lost(name: str, kernel: NotebookKernel, out: Outcome) -> Row:
    """Judge a cell whose worker ended: its tensors are gone, and all else is there."""
    if out.error is None or out.error.name != "DeviceGoneError":
        return Row(name, False, f"{out.error or out.text[-200:] or 'no error'}")
    read = kernel.run("t.to_numpy()", timeout=20)
    wrong = computes(kernel)
    if read.error is None or read.error.name != "DeviceGoneError":
        wrong = wrong or f"a read gave {read.error or read.text}"
    kernel.must(_TENSORS)
    return Row(name, not wrong, wrong or out.error.text.split("\n")[0][:90])


def ended_by(kernel: NotebookKernel, number: signal.Signals, moment: float) -> Row:
    """End the worker with a signal after so many seconds of calls."""
    name = f"worker engine: {number.name} amid calls"
    worker = psutil.Process(_worker(kernel))
    timer = threading.Timer(moment, worker.send_signal, [number])
    timer.start()
    out = kernel.run(_BUSY, timeout=30)
    timer.join()
    return _lost(name, kernel, out)


def crashed(kernel: NotebookKernel) -> Row:
    """Write far outside of group-shared memory."""
    return _lost(
        "worker engine: write outside of group-shared memory", kernel, kernel.run(_OUTSIDE, timeout=30)
    )


def interrupted(kernel: NotebookKernel, what: str, moment: float) -> Row:
    """Interrupt calls, an endless kernel or a stopped worker; give up on what does not end."""
    name = f"worker engine: interrupt of {what}"
    code = {"calls": _BUSY, "an endless kernel": _ENDLESS, "a stopped worker": "t.to_numpy()"}[what]
    if what == "a stopped worker":
        psutil.Process(_worker(kernel)).suspend()
    out = kernel.run(code, interrupt_after=moment, timeout=30)
    said = f"at {moment:.2f} s, prompt after {out.prompt or -1:.3f} s"
    if out.error is None or out.error.name != "KeyboardInterrupt":
        return Row(name, False, f"{said}; {out.error or 'no error'}")
    if what != "calls":
        kernel.must("%slang reset")
    wrong = computes(kernel)
    kernel.must(_TENSORS)
    return Row(name, not wrong and out.prompt is not None and out.prompt < PROMPT, wrong or said)


def ended(folder: Path, how: str, code: str) -> Row:
    """Restart, shut down or kill the notebook's process while its worker is idle, calls, or never ends."""
    what = {"": "idle", _BUSY: "calling", _ENDLESS: "in an endless kernel"}[code]
    name = f"worker engine: {how} while {what}"
    with started(folder) as kernel:
        if code:
            kernel.send(code)
            time.sleep(0.7)
        if how == "restart":
            seconds = kernel.restart()
            left = kernel.left_by_restart()
        elif how == "shutdown":
            seconds = kernel.shutdown()
            left = kernel.left()
        else:
            before = kernel.processes()
            began = time.perf_counter()
            psutil.Process(kernel.pid).kill()
            _, left = psutil.wait_procs(before, timeout=5)
            left = [p for p in left if p.status() != psutil.STATUS_ZOMBIE]
            seconds = time.perf_counter() - began
        left = [p for p in left if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
    wrong = f"left: {[p.pid for p in left]}" if left else ""
    return Row(name, not wrong and (seconds < EXIT or how == "SIGKILL"), wrong or f"{seconds:.2f} s")


def runs(count: int, seed: int | None = None) -> Iterator[Row]:
    """Run it all; `count` situations at random moments."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="slanglab-test-") as name:
        folder = Path(name)
        with started(folder) as kernel:
            for number in range(count):
                moment = chance.uniform(0.05, 1.5)
                turn = number % 6
                if turn in (0, 1):
                    yield ended_by(kernel, (signal.SIGKILL, signal.SIGSEGV)[turn], moment)
                elif turn == 2:
                    yield crashed(kernel)
                else:
                    yield interrupted(
                        kernel, ("calls", "an endless kernel", "a stopped worker")[turn - 3], moment
                    )
        for how in ("restart", "shutdown", "SIGKILL"):
            for code in ("", _BUSY, _ENDLESS):
                yield ended(folder, how, code)
