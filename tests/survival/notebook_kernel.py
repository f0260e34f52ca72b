"""A real ipykernel, driven as a notebook drives it: cells, interrupts, restarts, and what is left of its processes afterwards."""

from __future__ import annotations

import os
import queue
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager

from slanglab import paths

__all__ = ["CellError", "NotebookKernel", "Outcome"]


@dataclass(frozen=True)
class CellError:
    """What a cell raised, as the front end is told."""

    name: str
    text: str
    traceback: str


@dataclass
class Outcome:
    """What a cell came to.

    Attributes
    ----------
    text : str
        What it wrote to stdout and stderr, and the plain text of what it showed and returned.
    html : str
        The HTML of the same.
    error : CellError or None
    seconds : float
        From sending the cell until the kernel was idle again.
    prompt : float or None
        Seconds from the (last) interrupt until the kernel was idle; None without one.
    dead : bool
        Whether the kernel's process ended while the cell ran.
    timed_out : bool
        Whether it was still busy when the waiting ended.
    messages : list
        Every message of the cell, as it came: `display_data` and `clear_output` of what was shown meanwhile too.
    """

    text: str = ""
    html: str = ""
    error: CellError | None = None
    seconds: float = 0.0
    prompt: float | None = None
    dead: bool = False
    timed_out: bool = False
    messages: list[dict[str, Any]] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether the cell ended by itself, without an error."""
        return self.error is None and not self.dead and not self.timed_out


class NotebookKernel:
    """A kernel process of its own; a context manager, which kills what is left of it.

    Parameters
    ----------
    env : dict, optional
        Variables added to those of this process.
    cache : Path, optional
        The folder of SlangLab's caches; that of whoever runs the tests unless given, since a cold one costs seconds.
    load : bool
        Whether to load the extension, import slanglab as `sl`, and set `precious = 41`.
    cwd : Path, optional
        The notebook's folder; an empty one unless given.

    Attributes
    ----------
    home : Path
        HOME of the kernel: settings, history and Jupyter's files are its own.
    """

    def __init__(
        self,
        env: dict[str, str] | None = None,
        *,
        cache: Path | None = None,
        load: bool = True,
        cwd: Path | None = None,
    ) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="slanglab-kernel-"))
        self._cwd = cwd or self.home / "notebook"
        self._cwd.mkdir(exist_ok=True)
        self._load = load
        self._known: dict[int, float] = {}
        self.env = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("IPYTHON", "JUPYTER"))},
            "HOME": str(self.home),
            "SLANGLAB_CACHE": str(cache or paths.cache().absolute()),
            "SLANGLAB_CONFIG": str(self.home / "config"),
            "IPYTHONDIR": str(self.home / "ipython"),
            **(env or {}),
        }
        self._start()

    def _start(self) -> None:
        self.manager = KernelManager(kernel_name="python3")
        # This very interpreter, whatever kernels the machine has registered.
        self.manager._kernel_spec = KernelSpec(
            argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
            display_name="test",
            language="python",
        )
        self.manager.start_kernel(env=self.env, cwd=str(self._cwd))
        self._connect()

    def _connect(self) -> None:
        self.client = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)
        self._watch()
        if self._load:
            self.must("%load_ext slanglab\nimport slanglab as sl, numpy as np, slangpy as spy\nprecious = 41")

    # ----- cells -----

    def run(
        self,
        code: str,
        *,
        interrupt_after: float | None = None,
        interrupt_when: Callable[[], bool] | None = None,
        again_every: float | None = None,
        timeout: float = 60.0,
        meanwhile: Callable[[], None] | None = None,
    ) -> Outcome:
        """Run a cell and wait until the kernel is idle, dead, or the time is over.

        Parameters
        ----------
        code : str
        interrupt_after : float, optional
            Interrupt so many seconds after the cell began to run.
        interrupt_when : callable, optional
            Interrupt as soon as this is true.
        again_every : float, optional
            Interrupt again and again while the kernel stays busy.
        timeout : float
            Seconds after which a busy kernel is left alone.
        meanwhile : callable, optional
            Called once, after the cell was sent.
        """
        message = self.send(code)
        began = time.perf_counter()
        if meanwhile is not None:
            meanwhile()
        return self.finish(
            message,
            began,
            interrupt_after=interrupt_after,
            interrupt_when=interrupt_when,
            again_every=again_every,
            timeout=timeout,
        )

    def send(self, code: str) -> str:
        """Send a cell without waiting; `finish` takes what this returns."""
        return str(self.client.execute(code, allow_stdin=False))

    def finish(
        self,
        message: str,
        began: float,
        *,
        interrupt_after: float | None = None,
        interrupt_when: Callable[[], bool] | None = None,
        again_every: float | None = None,
        timeout: float = 60.0,
    ) -> Outcome:
        """Wait for a cell that was sent."""
        out = Outcome()
        sent: float | None = None
        running: float | None = None  # an interrupt before the cell begins is none of the cell's
        texts: list[str] = []
        htmls: list[str] = []
        while True:
            now = time.perf_counter()
            if sent is None:
                due = interrupt_after is not None and running is not None and now - running >= interrupt_after
                due = due or (interrupt_when is not None and interrupt_when())
            else:
                due = again_every is not None and now - sent >= again_every
            if due:
                self.interrupt()
                sent = time.perf_counter()
            try:
                reply = self.client.get_iopub_msg(timeout=0.02)
            except queue.Empty:
                if not self.alive():
                    out.dead = True
                    break
                if now - began > timeout:
                    out.timed_out = True
                    break
                continue
            if reply["parent_header"].get("msg_id") != message:
                continue
            content, kind = reply["content"], reply["msg_type"]
            out.messages.append(reply)
            if kind == "execute_input":
                running = time.perf_counter()
            elif kind == "stream":
                texts.append(content["text"])
            elif kind in ("execute_result", "display_data"):
                texts.append(str(content["data"].get("text/plain", "")) + "\n")
                htmls.append(str(content["data"].get("text/html", "")))
            elif kind == "error":
                out.error = CellError(content["ename"], content["evalue"], "\n".join(content["traceback"]))
            elif kind == "status" and content["execution_state"] == "idle":
                break
        ended = time.perf_counter()
        out.text, out.html = "".join(texts), "\n".join(htmls)
        out.seconds = ended - began
        out.prompt = ended - sent if sent is not None else None
        if not (out.dead or out.timed_out):
            self._take_reply(message)
            self._watch()
        return out

    def _take_reply(self, message: str) -> None:
        end = time.perf_counter() + 5
        while time.perf_counter() < end:
            try:
                if self.client.get_shell_msg(timeout=0.2)["parent_header"].get("msg_id") == message:
                    return
            except queue.Empty:
                continue

    def must(self, code: str, timeout: float = 60.0) -> str:
        """Run a cell that has to succeed, and return its text."""
        out = self.run(code, timeout=timeout)
        assert out.ok, (
            f"the cell failed: {out.error or ('dead' if out.dead else 'timed out')}\n{out.text}\n{code}"
        )
        return out.text

    def intact(self) -> bool:
        """Tell whether the Python state is still there and the kernel computes."""
        out = self.run("print(precious + 1)", timeout=20)
        return out.ok and out.text.strip() == "42"

    # ----- the process -----

    @property
    def pid(self) -> int:
        """Process id of the kernel."""
        return int(self.manager.provisioner.pid)  # type: ignore[union-attr, attr-defined]

    def alive(self) -> bool:
        """Whether the kernel's process runs."""
        return bool(self.manager.is_alive())

    def rss(self) -> float:
        """Resident memory of the kernel's process in MB."""
        return float(psutil.Process(self.pid).memory_info().rss) / 2**20

    def interrupt(self) -> None:
        """Interrupt, as the button does: SIGINT to the process group."""
        self.manager.interrupt_kernel()

    def wrong_after(self, code: str, line: str) -> str:
        """Return what is wrong after something has happened: empty where the state is there, and a cell prints a line like this.

        A line of its own, as what is said of a new device stands before or after it.
        """
        if not self.intact():
            return "precious is gone"
        out = self.run(code, timeout=45)
        right = out.ok and line in out.text.splitlines()
        return "" if right else f"the next call: {out.error or out.text[-300:]}"

    def restart(self, now: bool = False) -> float:
        """Restart, as the button does, and return the seconds until the old process was gone (and the new one was started)."""
        self._watch()
        self.client.stop_channels()
        began = time.perf_counter()
        self.manager.restart_kernel(now=now)
        seconds = time.perf_counter() - began
        self._left_before = self._living(self._known)
        self._known = {}
        self._connect()
        return seconds

    def left_by_restart(self) -> list[psutil.Process]:
        """Return the processes of the kernel before the last restart that were alive right after it."""
        return getattr(self, "_left_before", [])

    def shutdown(self, now: bool = False) -> float:
        """Shut down, and return the seconds until the process was gone."""
        self._watch()
        self.client.stop_channels()
        began = time.perf_counter()
        self.manager.shutdown_kernel(now=now)
        return time.perf_counter() - began

    def processes(self) -> list[psutil.Process]:
        """Return the living processes of this kernel: itself, its descendants, and what shares its session."""
        self._watch()
        return self._living(self._known)

    def left(self, within: float = 1.0) -> list[psutil.Process]:
        """Return the processes that are still there so many seconds after the kernel's end; as soon as there are none, none."""
        end = time.perf_counter() + within
        while (living := self._living(self._known)) and time.perf_counter() < end:
            time.sleep(0.02)
        return living

    def _watch(self) -> None:
        """Remember every process of this kernel, so that one which survives it is found."""
        if not self.alive():
            return
        try:
            found = [psutil.Process(self.pid), *psutil.Process(self.pid).children(recursive=True)]
        except psutil.Error:
            return
        for process in psutil.process_iter():
            try:
                if os.getsid(process.pid) == self.pid:  # the client starts a kernel in a session of its own
                    found.append(process)
            except (OSError, psutil.Error):
                continue
        for process in found:
            try:
                self._known[process.pid] = process.create_time()
            except psutil.Error:
                continue

    @staticmethod
    def _living(known: dict[int, float]) -> list[psutil.Process]:
        living = []
        for pid, created in known.items():
            try:
                process = psutil.Process(pid)
                if process.create_time() == created and process.status() != psutil.STATUS_ZOMBIE:
                    living.append(process)
            except psutil.Error:
                continue
        return living

    def close(self) -> None:
        """Kill what is left of the kernel and remove its folder."""
        self._watch()
        try:
            self.client.stop_channels()
            self.manager.shutdown_kernel(now=True)
        finally:
            for process in self._living(self._known):
                try:
                    process.kill()
                except psutil.Error:
                    continue
            self.manager.cleanup_resources()
            shutil.rmtree(self.home, ignore_errors=True)

    def __enter__(self) -> NotebookKernel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
