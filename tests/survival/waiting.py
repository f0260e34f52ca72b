"""Runs of waiting and losing: interrupts at random moments, endless kernels, lost devices, and ends while each goes on."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
from notebook_kernel import NotebookKernel, Outcome
from rows import Row

__all__ = [
    "CELL",
    "ended",
    "endless",
    "interrupted",
    "left_alone",
    "losses",
    "runs",
    "started",
]

PROMPT = 0.5  # seconds from Interrupt to the prompt
EXIT = 1.0  # seconds that a process may take to end

CELL = """%%slang poly
import slangpy;
[Differentiable] float f(float x) { return x * x; }
float slow(int i, int n)
{
    float a = float(i);
    for (int k = 0; k < n; k++) for (int j = 0; j < 100; j++) a = sin(a) + 0.1 * float(j & 3);
    return a;
}
void forever(int i, IRWTensor<float, 1> t)
{
    float a = 1;
    while (true) { a = a * 1.0001 + t[0]; t[i] = a; }
}
"""

SETUP = """
x = sl.tensor([1, 2, 3, 4], grad=True)
big = sl.ones(4_000_000)
o = sl.zeros(64)
poly.f(x)
poly.slow(spy.grid((64,)), 1, _result=o)
sl.sync()
import time as _time
def seconds(s):
    "Return how often the slow kernel must turn for so many seconds."
    n, t = 200, 0.0
    while t < 0.2:
        n *= 2
        t = _time.perf_counter()
        poly.slow(spy.grid((64,)), n, _result=o)
        sl.sync()
        t = _time.perf_counter() - t
    return int(n * s / t)
LONG, SOME = seconds(20), seconds(6)
"""

SITUATIONS = {
    "kernel of 20 s": "poly.slow(spy.grid((64,)), LONG, _result=o)\nsl.sync()",
    "read-back of a running kernel": "poly.slow(spy.grid((64,)), SOME, _result=o)\no.to_numpy()",
    "number from a running kernel": "poly.slow(1, SOME * 3)",
    "array from a running kernel": "poly.slow(spy.grid((64,)), SOME, _result='numpy')",
    "text of a running kernel's result": "poly.slow(spy.grid((64,)), SOME, _result=o)\nprint(o)",
    "read-backs, one after the other": "while True: big.to_numpy()",
    "calls, one after the other": "while True: poly.f(x).to_numpy()",
    "draw of a running kernel's result": "poly.slow(spy.grid((64,)), SOME, _result=o)\ndisplay(o)",
    "draws, one after the other": "from IPython.display import display\nwhile True: str(sl.inspect(x))",
}
"""What is interrupted, by name; each goes on for some seconds at least."""

_ENDLESS = "t = sl.zeros(32)\npoly.forever(spy.grid((32,)), t)\n"


def started() -> NotebookKernel:
    """Return a kernel with the cell and what the situations use."""
    kernel = NotebookKernel()
    kernel.must(CELL)
    kernel.must(SETUP)
    return kernel


def computes(kernel: NotebookKernel) -> str:
    """Return what is wrong with a kernel after something has happened in it; empty where all is as it should be."""
    return kernel.wrong_after("print(float(poly.f(3.0)))", "9.0")


def interrupted(kernel: NotebookKernel, name: str, moment: float) -> Row:
    """Interrupt a situation after so many seconds."""
    out = kernel.run(SITUATIONS[name], interrupt_after=moment, timeout=60)
    said = f"at {moment:.2f} s, prompt after {out.prompt or -1:.3f} s"
    if out.error is None or out.error.name != "KeyboardInterrupt":
        return Row(f"interrupt: {name}", False, f"{said}; {out.error or out.text[-200:] or 'no error'}")
    if not kernel.intact():
        return Row(f"interrupt: {name}", False, f"{said}; precious is gone")
    return Row(f"interrupt: {name}", out.prompt is not None and out.prompt < PROMPT, said)


def recovered(kernel: NotebookKernel) -> None:
    """Wait for what still runs; give up on the kernel of 20 s, and make the things of `SETUP` again where that took them away."""
    if not kernel.run("sl.sync()", interrupt_after=6, timeout=30).ok:
        kernel.must("%slang reset")
        kernel.must(
            "x = sl.tensor([1, 2, 3, 4], grad=True); big = sl.ones(4_000_000); o = sl.zeros(64); poly.f(x); "
            "poly.slow(spy.grid((64,)), 1, _result=o); sl.sync()"
        )


def endless(kernel: NotebookKernel, way: str) -> Row:
    """Have an endless kernel, interrupt it, and go on as `way` says: "reset", or "on", which only calls again."""
    name = f"endless kernel, then {'`%slang reset`' if way == 'reset' else 'the next call'}"
    out = kernel.run(_ENDLESS + "t.to_numpy()", interrupt_after=1.0, timeout=30)
    if out.error is None or out.error.name != "KeyboardInterrupt" or (out.prompt or 9) > PROMPT:
        return Row(name, False, f"interrupt: {out.error}, prompt {out.prompt}")
    if way == "reset":
        reset = kernel.run("%slang reset", timeout=30)
        if not reset.ok:
            return Row(name, False, f"reset: {reset.error}")
    began = time.perf_counter()
    if wrong := computes(kernel):
        return Row(name, False, wrong)
    seconds = time.perf_counter() - began
    for read in ("t.to_numpy()", "poly.f(t)", "t[0].to_numpy()"):
        gone = kernel.run(read, timeout=20)
        # A driver that ends such a kernel itself, as NVIDIA's does for Vulkan, loses the device before anybody gives it up.
        if gone.error is None or not ("given up" in gone.error.text or "was lost" in gone.error.text):
            return Row(name, False, f"{read}: {gone.error or gone.text or 'no answer'}")
    return Row(name, True, f"prompt {out.prompt:.3f} s, the next call {seconds:.1f} s later")


LOSSES = {
    "call": "poly.f(x)",
    "backward call": "y = poly.f(x, _result='tensor').with_grads()\nsl.assign(y.grad, 1.0)\nloss.lose(d)\npoly.f.bwds(x, _result=y)",
    "read-back": "x.to_numpy()",
    "number": "poly.f(2.0)",
    "upload": "sl.tensor([1, 2, 3])",
    "view": "display(x)",
    "text": "print(x)",
    "wait": "sl.sync()",
    "reset": "%slang reset",
}


def losses(kernel: NotebookKernel, site: str) -> Row:
    """Lose the device at a call site."""
    here = str(Path(__file__).parent)
    kernel.must(
        f"import sys; sys.path[:0] = [] if {here!r} in sys.path else [{here!r}]\n"
        "from lost_device import Loss\nfrom IPython.display import display\n"
        "x = sl.tensor([1, 2, 3, 4], grad=True)\nd = sl.current().device\nloss = Loss(d)"
    )
    name, code = f"lost device: {site}", LOSSES[site]
    out = kernel.run(code if "loss.lose" in code else f"loss.lose(d)\n{code}", timeout=30)
    happened = kernel.must("print(loss.happened)").strip().endswith("True")
    read = kernel.run("x.to_numpy()", timeout=20)
    wrong = computes(kernel)
    kernel.must("loss.__exit__(None, None, None)")
    if not happened:
        return Row(name, False, "nothing was lost")
    if site != "reset" and "lost" not in (out.error.text if out.error else "") + out.text:
        return Row(name, False, f"said nothing: {out.text[-200:]}")
    if read.error is None:
        return Row(name, False, f"a read gave {read.text}")
    return Row(name, not wrong, wrong or (out.error.text.split("\n")[0][:90] if out.error else "a message"))


WHILE = {
    "nothing": ("pass", 0.1),
    "a kernel of 20 s": (SITUATIONS["kernel of 20 s"], 0.7),
    "a read-back": (SITUATIONS["read-back of a running kernel"], 0.7),
    "a draw": (SITUATIONS["draw of a running kernel's result"], 0.7),
    "an endless kernel": (_ENDLESS + "sl.sync()", 0.7),
    "an endless kernel that nobody waits for": (_ENDLESS, 0.7),
    "an endless kernel, given up": (_ENDLESS + "%slang reset", 2.5),
}


def ended(what: str, how: str) -> Row:
    """Restart or shut down the kernel while something goes on."""
    name = f"{how} during {what}"
    code, moment = WHILE[what]
    with started() as kernel:
        kernel.send(code)
        time.sleep(moment)
        if how == "restart":
            seconds = kernel.restart()
            left = kernel.left_by_restart()
            wrong = "" if kernel.intact() else "the new kernel does not run"
        else:
            seconds = kernel.shutdown()
            left, wrong = kernel.left(0.0), ""
        if left:
            wrong = f"left: {[p.pid for p in left]}"
        return Row(name, not wrong and seconds < EXIT, wrong or f"{seconds:.2f} s")


def left_alone(kernel: NotebookKernel) -> Row:
    """Fork: the child is refused and ends by itself, the parent goes on."""
    code = """
import os, time
r, w = os.pipe()
child = os.fork()
if not child:
    said = []
    for use in (lambda: poly.f(x), lambda: x.to_numpy(), lambda: sl.sync(), lambda: str(x), lambda: sl.tensor([1])):
        try:
            use()
            said.append("went on")
        except Exception as error:
            said.append("refused" if "fork" in str(error) else repr(error))
    os.write(w, ",".join(said).encode())
    os._exit(0)
end = time.time() + 10
while time.time() < end and os.waitpid(child, os.WNOHANG) == (0, 0): time.sleep(0.01)
os.set_blocking(r, False)
try: print(os.read(r, 1000).decode())
except BlockingIOError: print("blocked"); os.kill(child, 9); os.waitpid(child, 0)
"""
    out: Outcome = kernel.run(code, timeout=30)
    wrong = computes(kernel)
    text = out.text.strip().splitlines()[-1] if out.text.strip() else str(out.error)
    allowed = {"refused", "went on"}  # the text of a tensor says that its values are gone
    good = set(text.split(",")) <= allowed and text.count("refused") >= 4
    return Row("fork", good and not wrong, wrong or text)


def runs(count: int, seed: int | None = None) -> Iterator[Row]:
    """Run it all; `count` interrupts at random moments."""
    chance = random.Random(seed)
    names = list(SITUATIONS)
    kernel = started()
    try:
        for number in range(count):
            yield interrupted(kernel, names[number % len(names)], chance.uniform(0.05, 2.5))
            recovered(kernel)
            if psutil.cpu_percent(0.05) > 90 and kernel.rss() > 2500:  # every endless device keeps its cores
                kernel.close()
                kernel = started()
    finally:
        kernel.close()
    with started() as kernel:
        for way in ("reset", "on"):
            yield endless(kernel, way)
    with started() as kernel:
        for site in LOSSES:
            yield losses(kernel, site)
        yield left_alone(kernel)
    for how in ("restart", "shutdown"):
        for what in WHILE:
            yield ended(what, how)
