"""Several processes that train together, started from a notebook or a script."""

from __future__ import annotations

import os
import pickle
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from slanglab import children, elsewhere, progress
from slanglab.errors import ArgumentError, SlangLabError
from slanglab.guard import protocol
from slanglab.private import PrivateFolder

__all__ = ["RankError", "launch"]

_MODULE = "slanglab.torch.rank"
_LARGEST = 16 << 20  # bytes of a message: a line, a traceback, some losses
_LOOK = 0.05  # seconds that an Interrupt waits at most
_LEAVING = 5.0  # seconds that processes that are done have to end by themselves
_TAIL = 20  # lines of a process that are shown when it died
_PASSED_ON = ("NCCL_", "GLOO_", "TORCH_", "PYTORCH_", "OMP_", "MKL_", "KMP_", "UCC_", "TP_")
_SECRETS = ("TOKEN", "SECRET", "PASSWORD", "CREDENTIAL", "KEY")
_LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"


class RankError(SlangLabError, RuntimeError):
    """One of the processes of a launch failed.

    Attributes
    ----------
    rank : int
    kind : str
        The name of the exception's type; empty where the process died.
    traceback : str
        As that process had it.
    """

    def __init__(
        self, message: str, rank: int, *, kind: str = "", traceback: str = "", hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.rank = rank
        self.kind = kind
        self.traceback = traceback


def launch(
    fn: Callable[..., Any],
    nprocs: int,
    *args: Any,
    backend: str | None = None,
    device: str | None = None,
    plot: bool = True,
    timeout: float = 1800.0,
    env: Mapping[str, str] | None = None,
) -> Any:
    """Run `fn(rank, *args)` in several processes at once, each with a SlangLab of its own, in one group of `torch.distributed`.

    Parameters
    ----------
    fn : callable
        A function of a notebook's cell, a script or a module. What it uses goes with it: the cells of its Slang modules and functions,
        other functions and classes of the notebook, numbers, arrays, torch tensors and modules, `slangpy.Tensor`s (copies).
    nprocs : int
        How many processes.
    *args
        For `fn`, behind the rank; copies.
    backend : {'gloo', 'nccl'}, optional
        How gradients and tensors are exchanged: NCCL between GPUs, where rank i has the i-th, Gloo between CPUs. Default: NCCL where torch
        has a GPU for each process.
    device : str, optional
        The device of the processes, as for `%slang device`: with NCCL "cuda", else the one that is open here.
    plot : bool
        Show the runs of `slanglab.train` and `slanglab.steps` of rank 0 in a live plot here: losses, and buttons. Pause holds all
        processes as soon as rank 0 waits. Stop ends them.
    timeout : float
        Seconds after which an exchange that a process waits for is an error.
    env : mapping, optional
        Variables for the processes. They get the ones that SlangLab's own children get (drivers, CUDA, locale), and those of NCCL, Gloo,
        torch and OpenMP.

    Returns
    -------
    object
        What rank 0 returned: tensors (on the CPU), arrays, numbers, texts, and lists, tuples, sets and dicts of them. None when the run
        was stopped from the plot.

    Raises
    ------
    RankError
        When a process raised or died: with its traceback. All others are ended.
    TravelError
        Names what `fn` uses that cannot be sent.
    ArgumentError
        If an argument cannot be used.

    Notes
    -----
    Whatever a process prints is shown, its rank before it. Interrupt ends all processes, as does the end of the notebook's kernel. They
    find each other by a file in a private folder; Gloo's connections stay on this machine's loopback unless GLOO_SOCKET_IFNAME says else.

    For more than one machine use torchrun; see `slanglab.torch.local_device`.
    """
    from slanglab.torch import travel

    if not callable(fn):
        raise ArgumentError("launch: fn is not callable", argument="fn", given=type(fn).__name__)
    if isinstance(nprocs, bool) or not isinstance(nprocs, int) or nprocs < 1:
        raise ArgumentError(
            "launch: nprocs is a number of processes, 1 or more", argument="nprocs", given=repr(nprocs)
        )
    if elsewhere.is_sent():
        raise SlangLabError(
            "launch takes the cells of this process, and they are in the worker",
            hint="`%slang config engine notebook` brings them back",
        )
    backend = _backend(backend, nprocs)
    lab = _lab()
    parcel = travel.pack(lab, fn, args)
    device = device or ("cuda" if backend == "nccl" else lab.device.info.type.name if lab.is_open else None)
    private = PrivateFolder("launch")
    try:
        file = private.path / "parcel"
        file.write_bytes(pickle.dumps(parcel))
        ranks = _Ranks(
            [
                {
                    "rank": rank,
                    "world": nprocs,
                    "backend": backend,
                    "timeout": float(timeout),
                    "variables": {**_variables(rank, nprocs, device), **dict(env or {})},
                    "path": [entry or os.getcwd() for entry in sys.path],
                    "folder": os.getcwd(),
                    "store": str(private.path / "store"),
                    "parcel": str(file),
                    "result": str(private.path / "result"),
                    "threads": max(1, (os.cpu_count() or 1) // nprocs),
                }
                for rank in range(nprocs)
            ],
            getattr(fn, "__name__", type(fn).__name__),
            plot,
        )
        if not ranks.run():
            return None
        from slanglab.torch import results

        return results.load((private.path / "result").read_bytes())
    finally:
        private.remove()


def _lab() -> Any:
    import slanglab

    return slanglab.current()


def _backend(wanted: str | None, nprocs: int) -> str:
    import torch
    import torch.distributed as distributed

    if not distributed.is_available():
        raise SlangLabError("this PyTorch was built without torch.distributed")
    if wanted not in (None, "gloo", "nccl"):
        raise ArgumentError(
            f"launch: no backend is called {wanted!r}", argument="backend", expected="'gloo' or 'nccl'"
        )
    gpus = torch.cuda.device_count() if distributed.is_nccl_available() else 0
    if wanted is None:
        return "nccl" if gpus >= nprocs else "gloo"
    if wanted == "nccl" and gpus < nprocs:
        raise ArgumentError(
            f"launch: NCCL needs a GPU for each process, and torch has {gpus} for {nprocs}",
            argument="backend",
            given="'nccl'",
            hint="backend='gloo' runs on the CPU",
        )
    return wanted


def _variables(rank: int, world: int, device: str | None) -> dict[str, str]:
    """Return what a process finds in its environment, beside what every child of SlangLab is given."""
    found = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_PASSED_ON) and not any(word in name for word in _SECRETS)
    }
    found.setdefault("GLOO_SOCKET_IFNAME", _LOOPBACK)
    found.setdefault("NCCL_SOCKET_IFNAME", _LOOPBACK)
    found |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(world),
        "LOCAL_WORLD_SIZE": str(world),
    }
    if device is not None:
        found["SLANGLAB_DEVICE"] = device
    return found


class _Stopped(Exception):  # noqa: N818  (an event, caught where it is raised)
    """Somebody pressed Stop."""


class _Ranks:
    """The processes of one launch.

    Parameters
    ----------
    options : list of dict
        For each rank what `slanglab.torch.rank.main` is given.
    name : str
        Of the function.
    plot : bool
    """

    def __init__(self, options: list[dict[str, Any]], name: str, plot: bool) -> None:
        self._options = options
        self._name = name
        self._plot = _Plot() if plot else None
        self._said: queue.SimpleQueue[tuple[int, dict[str, Any] | None]] = queue.SimpleQueue()
        self._children: list[children.Child] = []
        self._last: list[list[str]] = [[] for _ in options]
        self._done: set[int] = set()

    def run(self) -> bool:
        """Run to the end; return False when it was stopped."""
        count = len(self._options)
        try:
            with progress.work(f"starting {count} process{'es' if count > 1 else ''}") as work:
                for rank, options in enumerate(self._options):
                    child = children.start(_MODULE, options)
                    self._children.append(child)
                    threading.Thread(
                        target=self._read, args=(rank, child), name=f"slanglab rank {rank}", daemon=True
                    ).start()
                ready: set[int] = set()
                while len(ready) < count:
                    rank, message = self._next(work.tick)
                    if self._take(rank, message) in ("ready", "done"):
                        ready.add(rank)
            while len(self._done) < count:
                self._take(*self._next())
            self._end()
        except _Stopped:
            return False
        finally:
            for child in self._children:
                child.kill()
            if self._plot is not None:
                self._plot.close()
        return True

    def _read(self, rank: int, child: children.Child) -> None:
        """Pass on what a process says; None at its end."""
        try:
            while (message := protocol.read(child.read, _LARGEST)) is not None:
                self._said.put((rank, message))
        except protocol.FrameError:
            pass
        self._said.put((rank, None))

    def _next(self, tick: Callable[[], None] = lambda: None) -> tuple[int, dict[str, Any] | None]:
        while True:
            try:
                # In short waits: one without an end cannot be interrupted everywhere.
                return self._said.get(timeout=_LOOK)
            except queue.Empty:
                tick()
                for child in self._children:
                    child.flush()

    def _take(self, rank: int, message: dict[str, Any] | None) -> str:
        """Do what a message asks for; return what it is."""
        if message is None:
            if rank in self._done:
                return "gone"
            raise self._died(rank)
        what = str(message.get("is"))
        if what == "print":
            self._print(rank, str(message.get("stream")), str(message.get("text")))
        elif what == "raised":
            raise self._raised(rank, message)
        elif what == "done":
            self._done.add(rank)
        elif what in ("run", "losses", "ended") and rank == 0:
            try:
                if self._plot is not None:
                    self._plot.take(what, message)
            finally:
                if what == "losses":
                    self._children[0].write(b".")
        return what

    def _print(self, rank: int, stream: str, text: str) -> None:
        self._last[rank] = [*self._last[rank][1 - _TAIL :], text]
        print(f"[rank {rank}] {text}", file=sys.stderr if stream == "stderr" else sys.stdout, flush=True)

    def _raised(self, rank: int, message: Mapping[str, Any]) -> RankError:
        kind, text = str(message.get("type")), str(message.get("text"))
        trace = str(message.get("traceback")).rstrip()
        return RankError(
            f"{self._name}: rank {rank} raised {kind}: {text.splitlines()[0] if text else ''}\n\n{trace}\n",
            rank,
            kind=kind,
            traceback=trace,
        )

    def _died(self, rank: int) -> RankError:
        status = self._children[rank].wait(2.0)
        how = f"ended with status {status}"
        if status is None:
            how = "closed its output"
        elif status < 0:
            try:
                how = f"was ended by {signal.Signals(-status).name}"
            except ValueError:
                how = f"was ended by signal {-status}"
        last = "\n".join(self._last[rank])
        return RankError(
            f"{self._name}: the process of rank {rank} {how}" + (f"\n\n{last}\n" if last else ""),
            rank,
            hint="SIGKILL is often the system's, where memory runs out" if "SIGKILL" in how else None,
        )

    def _end(self) -> None:
        """Let the processes leave by themselves: drivers write their caches then."""
        for child in self._children:
            child.close_input()
        until = time.monotonic() + _LEAVING
        for child in self._children:
            child.wait(max(0.0, until - time.monotonic()))


class _Plot:
    """The plot of rank 0's runs: each is a loop of this process that gets its losses from there."""

    def __init__(self) -> None:
        self._run: Any = None
        self._steps: Any = None

    def take(self, what: str, message: Mapping[str, Any]) -> None:
        """Draw what rank 0 says.

        Raises
        ------
        _Stopped
            When somebody pressed Stop.
        """
        if what == "run":
            import slanglab

            self.close()
            self._run = slanglab.steps(int(message["total"]), name=str(message.get("name") or "rank 0"))
            self._steps = iter(self._run)
        elif self._run is None:
            return
        elif what == "losses":
            for loss in message["losses"]:
                if next(self._steps, None) is None:
                    if self._run.stopped == "stopped":
                        raise _Stopped
                    return
                self._run.log(float(loss))
        else:
            if message.get("how") in ("done", "nan"):
                next(self._steps, None)
            self.close()

    def close(self) -> None:
        """End what is shown."""
        if self._steps is not None:
            self._steps.close()
        self._run = self._steps = None
