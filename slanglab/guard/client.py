"""The guard: every new kernel is compiled by a worker process first, which may crash or hang instead of the notebook."""

from __future__ import annotations

import json
import os
import threading
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from slanglab import progress
from slanglab.guard.errors import CompileInterrupted, GuardWarning, KernelRefusedError
from slanglab.guard.kernels import Kernel, Texts
from slanglab.guard.process import Outcome, Worker
from slanglab.guard.verdicts import Verdicts

__all__ = ["Guard", "Pending", "guard_for", "is_on", "prepare", "stop_all", "switch"]

_MOST_KERNELS = 400  # that one worker compiles
_PAUSE = 3.0  # seconds from giving up to the next try, made in the background when a kernel comes
_TIMES = 3  # give-ups after which it is not tried any more
_GROWTH = 500  # MB that a worker may grow by


@dataclass
class Pending:
    """A kernel on its way.

    Attributes
    ----------
    kernel : Kernel
    worker : Worker or None
        That compiles it; None where nothing has to be compiled.
    number : int
        Of the request.
    """

    kernel: Kernel
    worker: Worker | None = None
    number: int = 0


class Guard:
    """The guard of the devices of one kind.

    Parameters
    ----------
    device : dict
        The device in plain values; see `slanglab.guard.likeness`.

    Attributes
    ----------
    seconds : float
        That the compiler may take for a kernel.
    workers : int
        Processes started so far.
    compiled, refused : int
        Kernels that a worker compiled, and that were refused.
    off : str
        Why it does without a worker, since that broke twice; empty while it works, and again once a new one is ready.
    """

    seconds: float = 30.0

    def __init__(self, device: dict[str, Any]) -> None:
        self._device = device
        self._lock = threading.RLock()
        self._worker: Worker | None = None
        self.workers = self.compiled = self.refused = 0
        self.off = ""
        self._given_up = 0
        self._off_since = 0.0
        shaders = device["device"]["shader_cache_path"]
        self.verdicts = Verdicts(Path(shaders).parent / "compiled" if shaders else None)

    @property
    def worker(self) -> Worker | None:
        """The worker that stands ready, or starts."""
        return self._worker

    # ----- processes -----

    def start(self) -> None:
        """Start a worker in the background, unless there is one."""
        with self._lock:
            if self._worker is None and not self.off:
                self._begin()

    def _begin(self) -> None:
        try:
            self._worker = Worker(self._device)
            self.workers += 1
        except OSError as error:
            self._give_up(f"no process can be started ({error.strerror or error})")

    def stop(self) -> None:
        """End the worker."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.kill()

    def _replace(self) -> None:
        self.stop()
        self.start()

    def _give_up(self, why: str) -> None:
        self.off = why
        self._off_since = time.monotonic()
        self._given_up += 1
        self.stop()
        if self._given_up == 1:
            warnings.warn(
                f"kernels are compiled without the guard until a worker answers again, as {why}: till then a kernel that the compiler "
                "crashes on ends the notebook. `%slang config guard on` tries again at once",
                GuardWarning,
                stacklevel=2,
            )

    def _has_recovered(self) -> bool:
        """Tell whether a worker is ready again, without waiting for it; what broke it may have been the state of the machine."""
        if self._given_up > _TIMES:
            return False
        if self._worker is not None and not self._worker.alive:
            self.stop()
            self._off_since = time.monotonic()
        elif self._worker is not None and self._worker.became_ready():
            self.off = ""
        elif self._worker is None and time.monotonic() - self._off_since > _PAUSE:
            self._begin()
        return not self.off

    def try_again(self) -> None:
        """Forget that workers broke."""
        self.off = ""
        self._given_up = 0

    def tell(self, texts: Texts) -> None:
        """Send the worker the modules of a session, so that it has read them when a kernel comes."""
        with self._lock:
            if self._worker is not None:
                self._worker.tell(texts)

    # ----- kernels -----

    def submit(self, kernel: Kernel) -> Pending:
        """Have a kernel compiled while the caller goes on with what is safe; `finish` waits for what comes of it."""
        with self._lock:
            if self.verdicts.is_good(kernel.key) or self.verdicts.why_bad(kernel.key) is not None:
                return Pending(kernel)
            if self.off and not self._has_recovered():
                return Pending(kernel)
            if self._worker is not None and not self._worker.alive:
                self.stop()
            self.start()
            if self._worker is None:
                return Pending(kernel)
            return Pending(kernel, self._worker, self._worker.request(kernel, self.seconds))

    def finish(self, pending: Pending) -> None:
        """Wait until the worker has compiled a kernel; when this returns, the notebook may.

        Raises
        ------
        KernelRefusedError
            When the compiler crashes on it or does not finish.
        KeyboardInterrupt
            At Ctrl-C; the worker is ended, and the kernel may be tried again.
        """
        kernel = pending.kernel
        bad = self.verdicts.why_bad(kernel.key)
        if bad is not None:
            kind, why = bad.split(": ", 1)
            raise KernelRefusedError(
                kernel.shown, cast("Literal['crash', 'hang', 'killed']", kind), why, again=True
            )
        if pending.worker is None:
            return
        with self._lock, progress.work(f"compiling {kernel.shown}") as work:
            try:
                self._finish(pending, work)
            except KernelRefusedError:
                raise
            except KeyboardInterrupt:
                self._replace()
                raise CompileInterrupted(f"{kernel.shown} was not compiled to the end") from None
            except BaseException:  # whatever it was at, the next kernel finds a worker that is at nothing
                self._replace()
                raise

    def _finish(self, pending: Pending, work: progress.Work) -> None:
        kernel = pending.kernel
        outcomes: list[Outcome] = []
        for attempt in (1, 2):
            if attempt == 2:
                pending = self.submit(kernel)
            worker = pending.worker
            if worker is None:
                return
            outcome = worker.outcome(pending.number, kernel, self.seconds, work)
            if outcome.kind == "compiled":
                self.compiled += 1
                self.verdicts.good(kernel.key)
                if worker.done >= _MOST_KERNELS or worker.rss - worker.first_rss > _GROWTH:
                    self._replace()
                return
            if outcome.kind == "rejected":
                return
            if worker is self._worker:
                self.stop()
            if attempt == 1 or outcome.kind in ("crash", "hang", "killed"):
                self.start()
            if outcome.kind in ("crash", "hang"):
                self._refuse(kernel, outcome.kind, outcome.why)
            outcomes.append(outcome)
        if all(o.kind == "killed" for o in outcomes):
            # What ended the worker twice at this kernel would end the notebook: most likely the system, for want of memory.
            self._refuse(kernel, "killed", outcomes[-1].why)
        self._give_up(f"its worker broke twice: {outcomes[0].why}; {outcomes[-1].why}")

    def _refuse(self, kernel: Kernel, kind: Literal["crash", "hang", "killed"], why: str) -> None:
        self.refused += 1
        self.verdicts.bad(kernel.key, f"{kind}: {why}")
        raise KernelRefusedError(kernel.shown, kind, why)

    def abandon(self) -> None:
        """End the worker, whose kernel nobody waits for any more, and start the next."""
        with self._lock:
            self._replace()


_guards: dict[str, Guard] = {}
_lock = threading.RLock()
_on = True


def is_on() -> bool:
    """Tell whether new kernels go through the guard."""
    return _on


def switch(on: bool) -> None:
    """Let new kernels go through the guard, or not; switching it on tries a broken one again."""
    global _on
    _on = on
    if on:
        for guard in _guards.values():
            guard.try_again()
    else:
        stop_all()


def guard_for(texts: Texts) -> Guard | None:
    """Return the guard of a session's device, made at the first call; None while it is switched off."""
    if not _on:
        return None
    key = json.dumps(texts.device, sort_keys=True)
    with _lock:
        guard = _guards.get(key)
        if guard is None:
            guard = _guards[key] = Guard(texts.device)
        return guard


def prepare(texts: Texts) -> None:
    """Have a worker ready for the kernels of a session, with the modules that were loaded so far; returns at once."""
    guard = guard_for(texts)
    if guard is None:
        return
    for other in list(
        _guards.values()
    ):  # one worker is enough: after a change of the device it is the new one's
        if other is not guard:
            other.stop()
    guard.start()
    guard.tell(texts)


def stop_all() -> None:
    """End all workers."""
    for guard in list(_guards.values()):
        guard.stop()


def _forked() -> None:
    """Begin anew in a forked process, which has no device to compile for and other locks than these."""
    global _lock
    _lock = threading.RLock()
    _guards.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
