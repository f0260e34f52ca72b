"""One of the processes that `slanglab.torch.launch` starts: what it runs, and what it tells the notebook.

It says, in JSON on its first output: "ready"; "print", for each line that anything in it writes; "run" and "losses", for the plot;
"raised", with the traceback; "done". It goes when its input ends.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import pickle
import sys
import threading
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slanglab import guard
from slanglab.guard import protocol
from slanglab.training import watching
from slanglab.training.run import Recorder

__all__ = ["main"]

_LINE = 1 << 16  # bytes of a line that is sent as one


class Channel:
    """What is said to the notebook, by any thread.

    Parameters
    ----------
    descriptor : int
        Where it is written.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def say(self, what: str, **more: Any) -> None:
        """Send a message; one that is not wanted any more is lost."""
        data = protocol.pack({"is": what, **more})
        with self._lock, contextlib.suppress(OSError):
            while data:
                data = data[os.write(self._descriptor, data) :]


class _Outputs:
    """All that the process writes, native libraries included, line by line to the notebook."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._threads = [self._catch(1, "stdout"), self._catch(2, "stderr")]
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", errors="replace", buffering=1, closefd=False)
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="replace", buffering=1, closefd=False)

    def _catch(self, descriptor: int, stream: str) -> threading.Thread:
        reading, writing = os.pipe()
        os.dup2(writing, descriptor)
        os.close(writing)
        thread = threading.Thread(target=self._pump, args=(reading, stream), daemon=True)
        thread.start()
        return thread

    def _pump(self, reading: int, stream: str) -> None:
        waiting = b""
        while True:
            try:
                part = os.read(reading, _LINE)
            except OSError:
                part = b""
            waiting += part
            while b"\n" in waiting or len(waiting) >= _LINE or (not part and waiting):
                line, _, waiting = waiting.partition(b"\n")
                self._channel.say("print", stream=stream, text=line.decode("utf-8", "replace"))
            if not part:
                return

    def close(self) -> None:
        """Send what is left; from here on nothing is shown."""
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        nothing = os.open(os.devnull, os.O_WRONLY)
        for descriptor in (1, 2):
            os.dup2(nothing, descriptor)
        for thread in self._threads:
            thread.join(1.0)  # a process of its own may hold the other end


class _Told:
    """A watcher that tells the notebook of a run, and waits until it has been drawn: a pause there is a pause here."""

    watched = True
    spacing = 0.0

    def __init__(self, channel: Channel, drawn: threading.Semaphore) -> None:
        self._channel = channel
        self._drawn = drawn
        self._sent = 0

    def begin(self, run: Recorder) -> None:
        """Tell that a run begins."""
        self._sent = 0
        self._channel.say("run", name=run.name, total=run.total)

    def frame(self, run: Recorder) -> None:
        """Tell the losses that are new."""
        losses = run.columns.loss.view()[self._sent :]
        if len(losses):
            self._sent += len(losses)
            self._channel.say("losses", losses=[float(x) for x in losses])
            self._drawn.acquire()

    def state(self, run: Recorder) -> None:
        """Say nothing."""

    def poll(self) -> None:
        """Do nothing: what is asked there comes with the next frame."""

    def finish(self, run: Recorder) -> None:
        """Tell the rest, and how it ended."""
        self.frame(run)
        self._channel.say("ended", how=run.stopped or "done")


def _listen(drawn: threading.Semaphore) -> threading.Thread:
    """Take what the notebook says: a byte for each frame that was drawn, and the end."""

    def run() -> None:
        while True:
            try:
                part = os.read(0, 4096)
            except OSError:
                part = b""
            if not part:
                return
            for _ in part:
                drawn.release()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def main(options: Mapping[str, Any]) -> None:
    """Run one rank.

    Parameters
    ----------
    options : mapping
        "rank", "world", "backend", "timeout" (seconds), "variables", "path", "folder" (of the user), "store" (a file that all ranks
        reach), "parcel" (a file), "result" (a file), "threads".
    """
    channel = Channel(os.dup(1))
    outputs = _Outputs(channel)
    drawn = threading.Semaphore(0)
    listening = _listen(drawn)
    try:
        _run(options, channel, drawn)
    except BaseException as error:
        outputs.close()
        channel.say(
            "raised", type=type(error).__name__, text=str(error)[:10_000], traceback=_traceback(error)
        )
    else:
        outputs.close()
        channel.say("done")
    listening.join()
    with contextlib.suppress(Exception):
        _leave()
    os._exit(0)


def _run(options: Mapping[str, Any], channel: Channel, drawn: threading.Semaphore) -> None:
    rank, world = options["rank"], options["world"]
    os.environ.update(options["variables"])
    sys.path[:] = list(dict.fromkeys([*options["path"], *sys.path]))
    os.chdir(options["folder"])
    if options["backend"] == "nccl":
        from slanglab.torch import ranks

        ranks.show_one_gpu(rank, os.environ)
        os.environ["SLANGLAB_LOCAL_GPU"] = str(rank)
    import torch
    import torch.distributed as distributed

    import slanglab
    from slanglab.torch import results, travel

    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(options["threads"])
    own = torch.device("cuda", 0) if options["backend"] == "nccl" else None
    if own is not None:
        torch.cuda.set_device(own)
    watching.provide(lambda: _Told(channel, drawn) if rank == 0 else watching.Silent())
    store = distributed.FileStore(options["store"], world)
    distributed.init_process_group(
        options["backend"],
        store=store,
        rank=rank,
        world_size=world,
        timeout=datetime.timedelta(seconds=options["timeout"]),
        device_id=own,
    )
    with open(options["parcel"], "rb") as file:
        parcel = pickle.load(file)  # noqa: S301  (from our parent)
    lab = slanglab.current()
    # This process is one that may crash: the notebook says so then, and loses nothing. A compiler process for each rank costs seconds.
    guard.switch(False)
    function, arguments = travel.unpack(lab, parcel)
    channel.say("ready")
    try:
        result = function(rank, *arguments)
    except SystemExit as end:
        if end.code not in (None, 0):
            raise
        result = None
    if rank == 0:
        Path(options["result"]).write_bytes(results.dump(result))


def _traceback(error: BaseException) -> str:
    """Return a traceback without the frames of SlangLab that led to the user's function."""
    own = Path(__file__).parent
    trace = error.__traceback__
    while (
        trace is not None
        and trace.tb_next is not None
        and Path(trace.tb_frame.f_code.co_filename).parent == own
    ):
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace))[-20_000:]


def _leave() -> None:
    import torch.distributed as distributed

    if distributed.is_initialized():
        distributed.destroy_process_group()
