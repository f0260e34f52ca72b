"""The engine in another process, as the notebook uses it: one request at a time, and a new worker in the place of one that is gone.

A worker has a generation. What belongs to an earlier one (tensors) is refused here, without a message; what can be made again (functions,
modules) is looked up in the new worker, which compiles every cell again when it starts.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import numpy as np

from slanglab import progress
from slanglab.errors import DeviceError, DeviceGoneError
from slanglab.remote import records, worker
from slanglab.remote.process import Ended, Process
from slanglab.remote.values import Decoder, Encoder, NotSendableError
from slanglab.succession import listed
from slanglab.waiting.watch import PATIENCE, WaitInterrupted

__all__ = ["Engine", "Made", "Reference"]

_WAITS = ("slanglab.sync", "to_numpy", "")
_LEAST = 5.0  # seconds that a wait after an interrupted one takes at least
_FRAME = 4  # frames between a warning and the user's line


class Reference:
    """An object of the worker.

    Attributes
    ----------
    engine : Engine
    generation : int
        Of the worker that has it.
    number : int
    """

    __slots__ = ("engine", "generation", "number")

    def __init__(self, engine: Engine, generation: int, number: int) -> None:
        self.engine = engine
        self.generation = generation
        self.number = number

    def __del__(self) -> None:
        if self.generation == self.engine.generation:
            self.engine.released.append(self.number)  # only noted: this may happen in the midst of anything


Made = Callable[[str, Reference, dict[str, Any]], Any]
"""Makes what stands for an object here: of its kind ("tensor", "function", …), the object, and what is known of it."""


class Engine:
    """The worker, whichever it is now.

    Parameters
    ----------
    settings : callable
        Return the settings of a new worker.
    made : callable
        See `Made`.

    Attributes
    ----------
    generation : int
        Counts the workers; one that is gone belongs to none.
    gone : str
        Why there is no worker; empty before the first.
    started : callable or None
        Makes a new worker what the last one was, where that is possible: compiles the cells. Returns what to say about it.
    names : callable
        Returns the user's names for the tensors of this generation.
    say : callable
        Shows a message.
    """

    def __init__(self, settings: Callable[[], dict[str, str]], made: Made) -> None:
        self._settings = settings
        self._made = made
        self._process: Process | None = None
        self._lock = threading.RLock()
        self._left: tuple[int, str, float] | None = None
        self._pid = os.getpid()
        self.generation = 0
        self.gone = ""
        self.released: list[int] = []
        self._running = ""
        self._given: dict[int, Any] = {}
        self.started: Callable[[], str] | None = None
        self.names: Callable[[], list[str]] = list
        self.say: Callable[[str], None] = lambda text: print(text, file=sys.stderr)

    # ----- the process -----

    @property
    def present(self) -> bool:
        """Whether there is a worker."""
        return self._process is not None and not self._process.ended and self._pid == os.getpid()

    @property
    def pid(self) -> int | None:
        """The worker's process id; None while there is none."""
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        """Start a worker, unless there is one.

        Raises
        ------
        DeviceError
            When it cannot be started.
        """
        self._check_process()
        if self._process is not None:
            if not (how := self._process.gone()):
                return
            self.say(f"slanglab: {self._end(f'the worker process {how} while it had nothing to do')}")
        after = bool(self.gone)
        with progress.work("starting the worker process"):
            try:
                self._process = Process({"settings": self._settings()})
            except OSError as error:
                raise DeviceError(
                    f"the worker process cannot be started: {error.strerror or error}",
                    hint="`%slang config engine notebook` goes on without one",
                ) from error
            try:
                fits, _ = self._exchange("open", {"version": worker.VERSION}, "the worker's start")
            except BaseException:
                self.stop()
                raise
            if not fits:
                self.stop()
                raise DeviceError("the worker process runs another version of SlangLab")
        if self.started is not None:
            told = self.started()
            if after:
                self.say(f"slanglab: a new worker process has the device now{told}.")

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise DeviceGoneError(
                "this process was forked, and the worker that has the device belongs to its parent",
                hint="start the process with multiprocessing's 'spawn' method: `multiprocessing.get_context('spawn')`",
            )

    def stop(self) -> None:
        """End the worker, with all that is in it."""
        process, self._process, self._left = self._process, None, None
        if process is not None:
            self.generation += 1
            self.released = []
            process.kill()

    def reset(self) -> None:
        """End the worker and start another, with every cell; in bounded time, whatever the worker is at."""
        with self._lock:
            if self._process is not None:
                self.say(f"slanglab: {self._end('the worker process was ended by `%slang reset`')}")
            self.start()

    def _end(self, story: str) -> str:
        """Let go of a worker that is gone; say what went with it."""
        names = self.names() if self._process is not None else []
        self.gone = story
        self.stop()
        lost = f"Gone with it: {listed(names)}." if names else "The tensors in it are gone."
        return f"{story}. {lost}"

    def _lost(self, story: str) -> DeviceGoneError:
        return DeviceGoneError(
            self._end(story),
            hint="Python's own values are as they were. The next use starts a new worker and compiles the cells there; "
            "make the tensors again",
        )

    def check(self, reference: Reference) -> int:
        """Return the number of an object, if the worker that has it is there.

        Raises
        ------
        DeviceGoneError
        """
        if reference.generation != self.generation:
            raise DeviceGoneError(
                f"{self.gone or 'the worker process is gone'}, and with it this tensor",
                hint="make it again: `slanglab.tensor(array)`",
            )
        return reference.number

    # ----- requests -----

    def ask(
        self,
        do: str,
        title: str = "",
        /,
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
        **fields: Any,
    ) -> Any:
        """Have something done, and return what comes of it.

        Parameters
        ----------
        do : str
            The request; see `slanglab.remote.worker.Worker`.
        title : str
            What is waited for, in words.
        args, kwargs
            Values.
        **fields
            Of the request, as they are; `Reference`s are checked.

        Raises
        ------
        Exception
            What the worker raised.
        DeviceGoneError
            When the worker is gone, now or before.
        KeyboardInterrupt
            At Ctrl-C; the worker goes on with it.
        """
        with self._lock:
            if not self.present or self._left is not None:
                self.settle()
            for value in (*args, *kwargs.values()) if kwargs else args:
                if getattr(type(value), "slanglab_remade", False):
                    value.slanglab_reference()  # before the arguments are laid out: it may be a request of its own
            return self._exchange(do, fields, title, args, kwargs)

    def settle(self, *, forever: bool = False) -> None:
        """See to it that there is a worker which waits for a request.

        One that a wait was interrupted for is waited for, `PATIENCE` seconds from when it began; then it is ended.
        """
        self._check_process()
        with self._lock:
            if self._left is not None and self._process is not None:
                number, title, since = self._left
                end = None if forever else max(since + PATIENCE, perf_counter() + _LEAST)
                try:
                    self._receive(number, title, since, end)
                except TimeoutError:
                    seconds = perf_counter() - since
                    error = self._lost(
                        f"the worker process was ended, as {title or 'its work'} did not end after {seconds:.0f} s"
                    )
                    self.say(f"slanglab: {error.message}")
                self._left = None
            self.start()

    def _exchange(
        self,
        do: str,
        fields: dict[str, Any],
        title: str,
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        process = self._process
        assert process is not None
        if do == "call" and "name" not in fields:
            self._running = title
        self._given = {}
        sizes = sum(a.nbytes for a in args if isinstance(a, np.ndarray))
        encode = Encoder(self._refer, records.RECORDS, process.room(sizes + fields.pop("room", 0)))
        message: dict[str, Any] = {"do": do}
        for name, value in fields.items():
            message[name] = self.check(value) if type(value) is Reference else value
        try:
            message["args"] = [encode(a) for a in args]
            message["kwargs"] = {k: encode(v) for k, v in kwargs.items()} if kwargs else {}
        except NotSendableError as error:
            raise TypeError(f"{error}. `%slang config engine notebook` has no such limit") from None
        if process.segment is not None:
            message["used"] = encode.used
        if self.released:
            message["release"], self.released = self.released, []
        answer, buffers = self._receive(process.send(message, encode.buffers), title, perf_counter(), None)
        return self._taken(process, answer, buffers, encode)

    def _receive(
        self, number: int, title: str, since: float, end: float | None
    ) -> tuple[dict[str, Any], list[bytearray]]:
        process = self._process
        assert process is not None
        work: progress.Work | None = None
        if title in _WAITS:  # for the kernel that was started before
            title = self._running or title

        def tick() -> None:
            if end is not None and perf_counter() > end:
                raise TimeoutError
            if work is not None:
                work.tick()

        again = self._left is not None
        try:
            with progress.work((title and f"waiting for {title}") or "waiting for the worker") as work:
                return process.receive(number, tick)
        except Ended as error:
            doing = f" while it ran {title}" if title else ""
            raise self._lost(f"the worker process {error}{doing}") from None
        except KeyboardInterrupt:
            self._left = number, title, since
            seconds = perf_counter() - since
            left = max(PATIENCE - seconds, _LEAST)
            still = "still " if again else ""
            raise WaitInterrupted(
                f"{title or 'the worker'} is {still}running in the worker process, for {seconds:.0f} s now; Python goes on.\n"
                f"  The next use waits for it, {left:.0f} s at most, and then goes on with a new worker, without the tensors; "
                "`slanglab.sync()` waits as long as it takes, `%slang reset` gives up on it at once."
            ) from None

    def _taken(
        self, process: Process, answer: dict[str, Any], buffers: list[bytearray], sent: Encoder
    ) -> Any:
        """Take an answer in: what was printed, what was written, and the result."""
        decode = Decoder(buffers, self._resolve, records.RECORDS, process.segment)
        if "out" in answer:
            print(str(answer["out"]), end="")
        if "err" in answer:
            print(str(answer["err"]), end="", file=sys.stderr)
        for types, text in answer.get("warnings", ()):
            warnings.warn(str(text), records.warning_of(types), stacklevel=_FRAME)
        if (error := answer.get("error")) is not None:
            state = {str(k): decode(v) for k, v in error["state"].items()}
            raise records.error_of(error["types"], str(error["text"]), state)
        for number, coded in answer.get("back", ()):
            sent.arrays[number][...] = decode(coded)
        for cell, coded in zip(sent.cells, answer.get("cells", ()), strict=False):
            cell.value = decode(coded)
        for generator, coded in zip(sent.generators, answer.get("generators", ()), strict=False):
            generator.bit_generator.state = decode(coded)
        result = decode(answer["result"])
        self._given = {}
        return result

    def _refer(self, value: Any) -> Any:
        refer = getattr(type(value), "slanglab_reference", None)
        if refer is None:
            return None
        number = self.check(refer(value))
        self._given[number] = value
        return ["o", number]

    def _resolve(self, coded: list[Any]) -> Any:
        _, kind, number, facts = coded
        if kind == "same":  # what was passed in
            return self._given[number]
        return self._made(str(kind), Reference(self, self.generation, int(number)), facts)

    @contextmanager
    def timing(self) -> Iterator[None]:
        """Take the device's time of every call within a `with` block."""
        before = self.ask("timing", on=True)
        try:
            yield
        finally:
            self.ask("timing", on=before)
