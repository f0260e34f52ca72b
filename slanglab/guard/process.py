"""One worker process, as the notebook sees it: what was sent to it, and what came of it."""

from __future__ import annotations

import queue
import signal
import threading
import time
import weakref
from collections import deque
from dataclasses import dataclass
from typing import Any, Literal

from slanglab import children
from slanglab.guard import protocol
from slanglab.guard.kernels import Kernel, Texts

__all__ = ["Outcome", "Worker"]

_MODULE = "slanglab.guard.worker"
_STOPPED = 1.0  # seconds that a worker may be stopped for; Ctrl-Z in a terminal stops and continues it with its parent
_STARTING = 60.0  # seconds; the very first start compiles slangpy's modules, some 4 s
_MOST_MEMORY = (
    2048  # MB that the compile of one kernel may take, or an eighth of the machine's where that is less
)
_KEPT = 16  # requests of which more is kept than the outcome that is waited for
_LONGEST_STEP = 0.5  # seconds that one look counts for at most: while the notebook itself stood still, nothing was waited for
_CRASHES = {
    getattr(signal, name): name
    for name in ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE", "SIGTRAP", "SIGSYS")
    if hasattr(signal, name)
}
_WINDOWS_CRASH = 0xC0000000  # exit statuses from here on are exceptions that nobody caught


@dataclass(frozen=True)
class Outcome:
    """What came of a kernel.

    Attributes
    ----------
    kind : str
        "compiled"; "rejected" by the compiler, with a message that the notebook's own compile repeats; "crash" or "hang" of the compiler;
        "killed" while it compiled, by whomever; "broken" for anything that is the worker's own fault.
    why : str
        In words.
    """

    kind: Literal["compiled", "rejected", "crash", "hang", "killed", "broken"]
    why: str = ""


class Worker:
    """A worker, from its start on.

    Parameters
    ----------
    device : dict
        The device that it opens; see `slanglab.guard.likeness`.

    Attributes
    ----------
    done : int
        Kernels that it has compiled.
    rss : int
        Memory that it holds, in MB, as it said last.
    first_rss : int
        The same when it was ready.

    Raises
    ------
    OSError
        When no process can be started.
    """

    def __init__(self, device: dict[str, Any]) -> None:
        self.done = 0
        self.rss = self.first_rss = 0
        self.misses = 0
        """Kernels that were in no cache."""
        self.ready = False
        self._device = device
        self._sent: dict[int, set[str]] = {}
        self._number = 0
        self._forgotten: deque[int] = deque()
        self._early: dict[int, list[dict[str, Any]]] = {}
        self.child = children.start(_MODULE)
        self._inbox: queue.SimpleQueue[dict[str, Any] | str] = queue.SimpleQueue()
        threading.Thread(
            target=_read, args=(self.child, self._inbox), name="slanglab guard", daemon=True
        ).start()
        self._send(
            {
                "do": "open",
                "version": protocol.VERSION,
                "device": device["device"],
                "options": device["options"],
            }
        )

    def kill(self) -> None:
        """End the process, at once."""
        self.child.kill()

    @property
    def alive(self) -> bool:
        """Whether the process is there."""
        return self.child.state() != "ended"

    def _send(self, message: dict[str, Any]) -> None:
        self.child.write(protocol.pack(message))

    # ----- requests -----

    def tell(self, texts: Texts, names: list[str] | None = None) -> None:
        """Send the modules of a session that it does not have yet; all of them unless some are named."""
        sent = self._sent.get(texts.number)
        if sent is None:
            sent = self._sent[texts.number] = set()
            self._send({"do": "session", "session": texts.number, **texts.options})
            # Only noted: this is called by the garbage collector, at any time and in the midst of anything.
            weakref.finalize(texts, self._forgotten.append, texts.number).atexit = False
        for name in names if names is not None else list(texts.sources):
            if name not in sent:
                sent.add(name)
                self._send(
                    {"do": "module", "session": texts.number, "name": name, "source": texts.sources[name]}
                )

    def _forget(self) -> None:
        """Let go of the sessions that are no more."""
        while self._forgotten:
            number = self._forgotten.popleft()
            if self._sent.pop(number, None) is not None:
                self._send({"do": "forget", "session": number})

    def request(self, kernel: Kernel, seconds: float) -> int:
        """Ask for a kernel; return the number of the request."""
        self._forget()
        self.tell(kernel.texts, kernel.needed)
        self._number += 1
        self._send(
            {
                "do": "compile",
                "id": self._number,
                "key": kernel.key,
                "session": kernel.texts.number,
                "name": kernel.name,
                "source": kernel.source,
                "module": kernel.module,
                "parts": kernel.parts,
                "programs": kernel.programs,
                "conformances": kernel.conformances,
                "seconds": seconds + 5.0,  # its own alarm, should nobody be left to end it
            }
        )
        return self._number

    # ----- answers -----

    def outcome(self, number: int, kernel: Kernel, seconds: float, work: Any) -> Outcome:
        """Wait for what comes of a request.

        Parameters
        ----------
        number : int
            Of the request.
        kernel : Kernel
            That was asked for.
        seconds : float
            For the stage before the target code, and again for that.
        work : slanglab.progress.Work
            Says what is waited for.
        """
        waited, stopped, at_target = 0.0, 0.0, False
        most = _most_memory()
        last = time.monotonic()
        early = self._early.pop(number, [])
        while True:
            self.child.flush()
            message = early.pop(0) if early else self._next(0.05)
            now = time.monotonic()
            step, last = min(now - last, _LONGEST_STEP), now
            waited += step
            if isinstance(message, str):
                self._inbox.put(message)  # for other threads that wait for this worker
                return self._ended(message, at_target, seconds)
            if message is not None:
                other = message.get("id", number)
                if other != number and isinstance(other, int) and 0 < other <= self._number:
                    self._keep(other, message)
                    continue
                was_ready = self.ready
                found = self._understood(message, number, kernel.key)
                if found is not None:
                    return found
                at_target = message.get("is") == "at target"
                waited = 0.0 if at_target or not was_ready else waited
                continue
            work.tick()
            stopped = stopped + step if self.child.state() == "stopped" else 0.0
            if stopped > _STOPPED:
                return Outcome("broken", "its process was stopped")
            if at_target and waited > seconds:
                return Outcome("hang", f"it had not finished after {seconds:g} s")
            if at_target and self.child.rss() - self.rss > most:
                return Outcome("hang", f"it had taken {most / 1024:.2g} GB of memory after {waited:.0f} s")
            if not at_target and waited > (seconds if self.ready else max(seconds, _STARTING)):
                return Outcome("broken", "its process does not answer")

    def became_ready(self) -> bool:
        """Tell whether it has opened its device, without waiting; asked while nothing else has been asked of it."""
        self.child.flush()
        message = None if self.ready else self._next(0.0)
        if isinstance(message, str):
            self._inbox.put(message)
        elif message is not None and self._understood(message, 0, "") is not None:
            self.kill()
        return self.ready

    def _next(self, seconds: float) -> dict[str, Any] | str | None:
        try:
            return self._inbox.get(timeout=seconds) if seconds else self._inbox.get_nowait()
        except queue.Empty:
            return None

    def _keep(self, number: int, message: dict[str, Any]) -> None:
        """Keep what is said of another request, for which another thread waits, or nobody any more."""
        self._early.setdefault(number, []).append(message)
        if len(self._early) > _KEPT:
            del self._early[min(self._early)]

    def _understood(self, message: dict[str, Any], number: int, key: str) -> Outcome | None:
        """Take a message in; return the outcome, if it tells that."""
        what = message.get("is")
        if what == "ready" and not self.ready and message.get("version") == protocol.VERSION:
            if message.get("adapter") != self._device["adapter"]:
                return Outcome("broken", f"it found another device: {str(message.get('adapter'))[:100]}")
            self.ready = True
            self.first_rss = self.rss = _number(message.get("rss"))
            return None
        if what == "broken":
            return Outcome("broken", f"it failed ({str(message.get('why'))[:300]})")
        if self.ready and message.get("id") == number:
            if what == "at target":
                return None
            if what == "done" and message.get("key") == key:
                self.done += 1
                self.rss = _number(message.get("rss"))
                self.misses = _number(message.get("misses"))
                return Outcome("compiled")
            if what == "failed" and message.get("key") == key:
                why = str(message.get("why"))
                if message.get("stage") == "target":
                    return Outcome("rejected", why)
                return Outcome("broken", f"it could not read the kernel ({why[:300]})")
        return Outcome("broken", "its process gave an answer that is none")

    def _ended(self, why: str, at_target: bool, seconds: float) -> Outcome:
        """Return what the end of the output means."""
        status = None if why else self.child.wait(2.0)
        if status is None:
            return Outcome("broken", why or "its process closed its output")
        crash = _CRASHES.get(-status) or (
            f"exception {status & 0xFFFFFFFF:#x}" if _is_exception(status) else ""
        )
        if crash and at_target:
            return Outcome("crash", crash)
        if at_target and hasattr(signal, "SIGALRM") and -status == signal.SIGALRM:
            return Outcome("hang", f"it had not finished after {seconds:g} s")
        if at_target and hasattr(signal, "SIGKILL") and -status == signal.SIGKILL:
            return Outcome("killed", "its process was killed")
        return Outcome("broken", f"its process ended with status {status}")


def _read(child: children.Child, inbox: queue.SimpleQueue[dict[str, Any] | str]) -> None:
    """Pass on what a worker says; at the end a text, which is empty unless it said what is no message."""
    why = ""
    try:
        while (message := protocol.read(child.read, protocol.LARGEST_ANSWER)) is not None:
            inbox.put(message)
    except protocol.FrameError as error:
        why = f"its process gave an answer that is none: {error}"
    inbox.put(why)
    # One that says no more is of no use, and one that has ended is to leave the table of processes: Jupyter waits for that at its end.
    child.end_of_output()


def _most_memory() -> int:
    """Return how much a kernel may take, in MB: an endless compile takes some 100 MB more each second."""
    return max(256, min(_MOST_MEMORY, children.memory() // 8 or _MOST_MEMORY))


def _number(value: Any) -> int:
    return value if isinstance(value, int) and 0 <= value < 1 << 40 else 0


def _is_exception(status: int) -> bool:
    """Tell whether an exit status is that of a Windows process that crashed."""
    return status & 0xFFFFFFFF >= _WINDOWS_CRASH and status >= 0
