"""Processes of our own: started safely, and gone when this one is, however it ends.

A child gets an environment of listed names only, an empty private folder to be in, two pipes and no other open file. It does not see
Ctrl-C, which Jupyter sends to the whole process group; it stays in that group, so that what kills the group takes it along. It
dies with its parent: at a normal end it is killed by it, and on Linux the kernel does so when the parent itself was killed. Elsewhere
a child notices the end of its input, once native code lets it.

The parent calls `start` with the name of a module, whose `main` the child then runs.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib
import json
import os
import queue
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from slanglab.private import PrivateFolder

__all__ = ["ALLOWED", "Child", "environment", "memory", "rss", "run", "start"]

ALLOWED: Mapping[str, str] = {
    "PATH": "where programs are",
    "HOME": "the user's folders, drivers' caches among them",
    "USERPROFILE": "the same on Windows",
    "LANG LC_ALL LC_CTYPE": "how text is encoded",
    "LD_LIBRARY_PATH DYLD_LIBRARY_PATH": "where conda, CUDA and Colab have the drivers' libraries",
    "PYTHONHOME": "where an interpreter that was moved has its library",
    "XDG_CACHE_HOME XDG_CONFIG_HOME XDG_CONFIG_DIRS XDG_DATA_HOME XDG_DATA_DIRS": "where the Vulkan loader looks, and caches lie",
    "XDG_RUNTIME_DIR DISPLAY WAYLAND_DISPLAY": "what some drivers ask for the graphics processor of the session",
    "SystemRoot WINDIR SystemDrive ComSpec PATHEXT ProgramFiles ProgramData LOCALAPPDATA APPDATA": "what Windows needs to start",
    "NUMBER_OF_PROCESSORS PROCESSOR_ARCHITECTURE": "the same",
    "VK_* DISABLE_LAYER_* ENABLE_LAYER_*": "which drivers and layers the Vulkan loader takes",
    "MESA_* LP_* GALLIVM_* LIBGL_* DRI_PRIME": "how Mesa's drivers are set",
    "CUDA_* NVIDIA_* NV_* __NV_*": "which devices CUDA and NVIDIA's Vulkan show, and their caches",
    "MTL_* MVK_* METAL_*": "the same for Metal",
    "SLANGPY_* SLANGLAB_*": "slangpy's and SlangLab's own settings",
}
"""The variables that a child is given, and why; a star stands for any end of a name.

Not in it, on purpose: LD_PRELOAD and its like, PYTHONSTARTUP and PYTHONPATH (a child gets its parent's `sys.path`),
tokens and keys.
"""

_SECRETS = ("TOKEN", "SECRET", "PASSWORD", "CREDENTIAL", "APIKEY", "API_KEY")
_MAIN = (
    "import json, sys; own = json.loads(sys.argv[1]); sys.path[:] = own['path']; "
    "from slanglab import children; children.run(own)"
)
_LOOK = 0.01  # seconds between two looks at a process that was killed
_PIPE = 1 << 20  # bytes that a pipe takes before a writer has to wait, where the system allows it


def environment(given: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the part of an environment that a child is given: the names of `ALLOWED`, none that sounds like a secret.

    Parameters
    ----------
    given : mapping, optional
        `os.environ` unless given.
    """
    given = os.environ if given is None else given
    patterns = [p.upper() for names in ALLOWED for p in names.split()]
    exact = {p for p in patterns if not p.endswith("*")}
    starts = tuple(p[:-1] for p in patterns if p.endswith("*"))
    return {
        name: value
        for name, value in given.items()
        if (name.upper() in exact or name.upper().startswith(starts))
        and not any(word in name.upper() for word in _SECRETS)
    }


class Child:
    """A process that was started; made by `start`.

    Attributes
    ----------
    pid : int
    folder : Path
        Its private folder.
    """

    def __init__(self, process: subprocess.Popen[bytes], private: PrivateFolder) -> None:
        self.pid = process.pid
        self.folder = private.path
        self._private = private
        self._process = process
        self._waiting = bytearray()
        self._poll: Any = None
        self._lock = threading.Lock()
        self._killed = False
        assert process.stdin is not None
        with contextlib.suppress(
            OSError, AttributeError
        ):  # Windows before Python 3.12: writes may wait there
            os.set_blocking(process.stdin.fileno(), False)
        _enlarge(process.stdin.fileno())

    def write(self, data: bytes) -> None:
        """Send bytes, without ever waiting: what the pipe does not take is kept for `flush`. To a child that is gone, nothing is sent."""
        with self._lock:
            self._waiting += data
        self.flush()

    def flush(self) -> bool:
        """Send what could not be sent yet; return True when nothing is left."""
        with self._lock:
            stream = self._process.stdin
            while self._waiting:
                try:
                    taken = stream.write(self._waiting) if stream is not None and not stream.closed else 0
                except OSError:  # it is gone, which its output tells
                    self._waiting.clear()
                    return True
                if taken is None:
                    return False
                if not taken:
                    self._waiting.clear()
                del self._waiting[:taken]
            return True

    def close_input(self) -> None:
        """End what the child reads; it is to leave then by itself."""
        with self._lock:
            self._waiting.clear()
            if self._process.stdin is not None:
                with contextlib.suppress(OSError):
                    self._process.stdin.close()

    def read(self, count: int) -> bytes:
        """Wait for `count` bytes and return them; fewer at the end of the output, which comes when the child goes."""
        stream = self._process.stdout
        assert stream is not None
        parts = []
        while count:
            try:
                part = stream.read(count)
            except (OSError, ValueError):
                part = b""
            if not part:
                break
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def available(self, seconds: float) -> bytes | None:
        """Wait for output, so long at most; return what there is of it, b"" at its end, None when nothing came. Not on Windows."""
        stream = self._process.stdout
        if stream is None or stream.closed:
            return b""
        poll = self._poll
        if poll is None:
            poll = self._poll = select.poll()
            poll.register(stream, select.POLLIN)
        if not poll.poll(seconds * 1e3):
            return None
        try:
            return os.read(stream.fileno(), _PIPE)
        except OSError:
            return b""

    def state(self) -> Literal["running", "stopped", "ended"]:
        """Tell whether it runs, was stopped (SIGSTOP) or has ended."""
        if self._process.returncode is not None:
            return "ended"
        if not hasattr(os, "waitid"):
            return "running" if self._process.poll() is None else "ended"
        try:
            # Without taking the report away, which `subprocess` waits for.
            found = os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return "ended"
        if found is None:
            return "running"
        return "stopped" if found.si_code in (os.CLD_STOPPED, os.CLD_TRAPPED) else "ended"

    def rss(self) -> int:
        """Return the memory that it holds, in MB; 0 where the system does not say."""
        return rss(self.pid)

    def wait(self, seconds: float | None) -> int | None:
        """Wait for the end, for ever with None; return the exit status, -n after signal n, or None when it has not ended by then."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """End it at once, wherever it is. What is left (its entry in the process table, its folder) goes in the background."""
        if self._killed:
            return
        self._killed = True
        self._process.kill()
        self.close_input()
        _keeper.bury(self)

    def end_of_output(self) -> None:
        """End it and let go of its output; called by the thread that reads, when there is nothing more to read."""
        self.kill()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _buried(self) -> bool:
        """Clear up after the process; return False while it is still ending."""
        if self._process.poll() is None:
            return False
        _live.discard(self)
        self._private.remove()
        return True

    def _abandon(self) -> None:
        """Let go in a forked process, whose child it is not: close the pipes, so that its end is still seen by it."""
        self._killed = True
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        self._process.returncode = 0  # nothing to wait for


class _Keeper:
    """The one thread that starts processes and waits for their ends.

    Linux kills a child with `PR_SET_PDEATHSIG` when the *thread* that started it ends, so it has to be one that stays. It blocks SIGINT,
    and its children are born that way: a Ctrl-C in the moment before they can say so themselves does not end them.
    """

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._ending: list[Child] = []
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def do(self, job: Callable[[], None]) -> None:
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="slanglab children", daemon=True)
                self._thread.start()
        self._jobs.put(job)

    def bury(self, child: Child) -> None:
        self.do(lambda: self._ending.append(child))

    def _run(self) -> None:
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        while True:
            try:
                # A start does not wait for an end: a process with hundreds of megabytes takes a while to go.
                self._jobs.get(timeout=_LOOK if self._ending else None)()
            except queue.Empty:
                self._ending = [c for c in self._ending if not c._buried()]


_keeper = _Keeper()
_live: set[Child] = set()


class _Start:
    """A start that the keeper makes; one that nobody waits for any more is undone."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._given_up = False
        self.child: Child | None = None
        self.error: BaseException | None = None

    def wait(self) -> Child:
        try:
            self._done.wait()
        except BaseException:  # Ctrl-C
            with self._lock:
                self._given_up = True
                if self.child is not None:
                    self.child.kill()
            raise
        if self.error is not None:
            raise self.error
        assert self.child is not None
        return self.child

    def run(self) -> None:
        try:
            child = _started(self._command)
            with self._lock:
                self.child = child
                if self._given_up:
                    child.kill()
        except BaseException as error:
            self.error = error
        finally:
            self._done.set()


def start(module: str, options: Mapping[str, Any] | None = None) -> Child:
    """Start a Python process that runs `main(options)` of a module.

    Parameters
    ----------
    module : str
        Its dotted name.
    options : mapping, optional
        What JSON can hold; what `main` is given.

    Raises
    ------
    OSError
        When no process can be started.
    """
    if not sys.executable:
        raise OSError("this Python does not know its own program")
    own = {
        "module": module,
        "parent": os.getpid(),
        "options": dict(options or {}),
        "path": _path(),
    }
    job = _Start([sys.executable, "-P", "-c", _MAIN, json.dumps(own)])
    _keeper.do(job.run)
    return job.wait()


def _path() -> list[str]:
    """Return where modules are found: as here, so that they are the same, but not in the notebook's folder unless SlangLab is there.

    A file in the notebook's folder could take the place of a module; here it may, being the user's choice.
    """
    own = str(Path(__file__).resolve().parents[1])
    found = []
    for entry in sys.path:
        if _same(entry or ".", own):
            found.append(own)
        elif os.path.isabs(entry) and not _same(entry, "."):
            found.append(entry)
    return list(dict.fromkeys([*found, own]))


def _same(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def _started(command: list[str]) -> Child:
    private = PrivateFolder("child")
    folder = str(private.path)
    names = environment()
    names |= {"TMPDIR": folder, "TMP": folder, "TEMP": folder}
    try:
        process = subprocess.Popen(  # noqa: S603  (our own interpreter and module)
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            cwd=folder,
            env=names,
            close_fds=True,
        )
    except BaseException:
        private.remove()
        raise
    child = Child(process, private)
    _live.add(child)
    return child


def _enlarge(descriptor: int) -> None:
    if sys.platform == "linux":
        import fcntl

        with contextlib.suppress(OSError, AttributeError):
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE)


@atexit.register
def _end_all() -> None:
    for child in list(_live):
        with contextlib.suppress(OSError):
            child._process.kill()
        child._private.remove()


def _forked() -> None:
    """Begin anew in a forked process: the children are not its own."""
    global _keeper
    for child in list(_live):
        child._abandon()
    _live.clear()
    _keeper = _Keeper()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def run(own: Mapping[str, Any]) -> None:
    """Make this process a child that behaves, then run its module's `main`; what a child begins with.

    Parameters
    ----------
    own : mapping
        What `start` had to say: "module", "options", "parent".
    """
    _settle(own["parent"])
    importlib.import_module(own["module"]).main(own["options"])


def rss(pid: int) -> int:
    """Return the memory that a process holds, in MB; 0 where the system does not say."""
    if sys.platform != "linux":
        return 0
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20
    except (OSError, ValueError, IndexError):
        return 0


def memory() -> int:
    """Return the memory of the machine, in MB; 0 where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    except (AttributeError, OSError, ValueError):
        return 0


def _settle(parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            library = ctypes.CDLL(None)
            library.prctl(1, int(signal.SIGKILL), 0, 0, 0)  # PR_SET_PDEATHSIG
            library.prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE: writing a core of it would take seconds
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text(
                "800"
            )  # where memory runs out, this process goes first
    if sys.platform != "win32":
        if os.getppid() != parent:  # it ended before we could ask to be told
            os._exit(1)
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
