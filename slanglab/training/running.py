"""The two ways to run: a function that is one step, or the user's own loop."""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Callable, Generator, Iterator
from types import CodeType, TracebackType
from typing import Any

from slanglab.errors import SlangLabError
from slanglab.training.interrupts import Deferred
from slanglab.training.losses import Losses
from slanglab.training.record import Ending
from slanglab.training.run import FRAME, Recorder, clock

__all__ = ["Run", "Steps"]

_background: set[asyncio.Task[None]] = set()
"""Tasks that go on: a loop keeps only weak references."""


class Run(Recorder):
    """A training run made by `slanglab.train`.

    Attributes
    ----------
    stopped, trouble, error, states, history, lr, ...
        As for `Recorder`.
    """

    def __init__(self, step: Callable[[int], Any], **options: Any) -> None:
        super().__init__(**options)
        self._going = self._go(step)
        self._task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        ended = self.stopped or self.phase
        loss = "" if math.isnan(self.loss) else f", loss {self.loss:.6g}"
        return f"Run({self.name!r}, step {self.done} of {self.total}{loss}, {ended})"

    def _go(self, body: Callable[[int], Any]) -> Generator[float, None, None]:
        """Do all steps; yield now and then, with seconds to wait before going on."""
        optimizer, controls, total = self.optimizer, self.controls, self.total
        columns = self.columns
        add_loss, add_time, add_rate = columns.loss.append, columns.time.append, columns.rate.append
        try:
            self._begin()
            now = clock()
            pause = now + FRAME / 2
            wake, closely = 0.0, True
            # Most steps pass by all but the calls and three appends. Every line counts here: a step leaves no cache warm.
            while self.done < total:
                if now >= wake or controls.pending:
                    if self._interrupt is not None and self._interrupt.asked:
                        self._end("interrupted")
                        return
                    if controls.pending and not (yield from self._pauses()):
                        self._end("stopped" if self.trouble is None else "nan")
                        return
                    now = clock()
                    if now >= pause:
                        yield 0.0
                        pause = clock() + FRAME / 2
                    if now >= self._due:
                        self._before()
                    wake = min(pause, self._due)
                    closely = not self._plain
                if optimizer is not None:
                    optimizer.zero_grad()
                loss = body(self.done)
                if not closely and type(loss) is float and loss - loss == 0:
                    now = clock()
                    add_loss(loss)
                    add_time(now - self._started)
                    if optimizer is not None:
                        add_rate(optimizer.lr)
                        optimizer.step()
                    self.done += 1
                    continue
                if not (self._record(loss) and self._look()):
                    self._end("nan")
                    return
                if optimizer is not None:
                    optimizer.step()
                self.done += 1
                if self._framing and not self._after():
                    self._end("nan")
                    return
                wake, closely = 0.0, True  # what is due, and what waits to be read, may have changed
            self._end("done")
        except KeyboardInterrupt:
            self._end("interrupted")
        except GeneratorExit:
            self._end("left")
            raise
        except BaseException as error:
            self.error = error
            self._end("error")
            raise

    def _drive(self, going: Generator[float, None, None]) -> None:
        """Run to the end, here and now; the first interrupt ends it between two steps."""
        with Deferred(told=self.controls.hurry) as self._interrupt:
            try:
                for seconds in going:
                    self.watcher.poll()
                    if seconds:
                        self.controls.wait(seconds)
                        if self._interrupt.asked:
                            self._end("interrupted")
                            going.close()
                            return
            except KeyboardInterrupt:
                # While it waited.
                self._end("interrupted")
                going.close()
            finally:
                self._interrupt = None

    def _run(self) -> None:
        """Run here and now."""
        self._drive(self._going)

    def _start(self) -> None:
        """Run as a task of the running event loop, between whatever else it does.

        Raises
        ------
        SlangLabError
            Where no loop runs: in a plain script.
        """
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise SlangLabError(
                "background=True needs a running event loop, which a notebook has and a script has not.",
                hint="leave background out; in an `async def` it works too",
            ) from None
        self._task = loop.create_task(self._in_background(), name=f"slanglab training {self.name}")
        _background.add(self._task)
        self._task.add_done_callback(_background.discard)

    async def _in_background(self) -> None:
        while True:
            try:
                seconds = next(self._going)
            except StopIteration:
                return
            except Exception:
                # It stands in the view, and `wait` raises it.
                return
            await asyncio.sleep(seconds)

    def wait(self) -> Run:
        """Wait for the end, and return the run itself.

        A run in the background gets on here, in the calling cell, until it ends or is interrupted: its steps never run on another
        thread.

        Raises
        ------
        BaseException
            What a step raised.
        """
        if self.phase != "ended":
            if getattr(self._going, "gi_running", False):
                raise SlangLabError("A step of the run waits for the run's own end.")
            self._drive(self._going)
        if self.error is not None:
            raise self.error
        return self

    @property
    def result(self) -> float:
        """The last loss, after `wait`."""
        return self.wait().loss

    def __await__(self) -> Generator[Any, None, Run]:
        """Wait for a run in the background, while other things go on."""
        if self._task is not None:
            yield from self._task.__await__()
        return self.wait()


class Steps(Recorder):
    """The user's own loop: an iterator over step numbers, made by `slanglab.steps`.

    for i in (run := sl.steps(500, params=[w])):
        ...
        run.log(loss)
    """

    def __init__(self, loss: Any = None, **options: Any) -> None:
        super().__init__(**options)
        self._loss = loss
        self._said = False
        self._open = False
        self._left_at: tuple[CodeType, int] | None = None

    def __repr__(self) -> str:
        return f"Steps({self.name!r}, step {self.done} of {self.total}, {self.stopped or self.phase})"

    def __len__(self) -> int:
        return self.total

    def log(self, loss: Any = None, **scalars: Any) -> None:
        """Note the numbers of the running step, after its backward call and before gradients are cleared.

        Parameters
        ----------
        loss : float, or tensor of one element, optional
            Tensors are read some steps later.
        **scalars : float
            Other numbers, read at once.

        Raises
        ------
        SlangLabError
            Outside of the loop.
        """
        if not self._open:
            raise SlangLabError("log notes the numbers of a step: call it inside the loop over the steps.")
        for name, value in scalars.items():
            number = Losses().take(value)
            self.columns.scalar(name, self.done, float(value) if number is None else number)
        if loss is not None and not self._said:
            self._said = True
            if self._record(loss):
                self._look()

    def __iter__(self) -> Iterator[int]:
        if self._open or self.phase != "starting":
            raise SlangLabError("These steps were done already.", hint="call slanglab.steps again")
        return self._loop()

    def _loop(self) -> Iterator[int]:
        self._begin()
        self._open = True
        try:
            while self.done < self.total and self.trouble is None:
                if self.controls.pending:
                    pauses = self._pauses()
                    go_on = True
                    while True:
                        try:
                            seconds = next(pauses)
                        except StopIteration as end:
                            go_on = end.value
                            break
                        self.watcher.poll()
                        self.controls.wait(seconds)
                    if not go_on:
                        self._close("stopped" if self.trouble is None else "nan")
                        return
                now = clock()
                if now >= self._due:
                    self.watcher.poll()
                    self._before()
                self._said = False
                yield self.done
                self._finish_step()
            self._close("done" if self.trouble is None else "nan")
        except GeneratorExit:
            # By `break`, or by an error on its way through the loop: which one is known when the cell has ended.
            left = sys._getframe(1)
            self._left_at = left.f_code, left.f_lineno
            self._close("left")
            raise
        except BaseException as error:
            self.error = error
            self._close("error")
            raise

    def _finish_step(self) -> None:
        if not self._said:
            loss = self._loss() if callable(self._loss) else self._loss
            if not self._record(loss, known=loss is not None):
                return
        if self.trouble is None and self._look():
            self.done += 1
            self._after()

    def _close(self, how: Ending) -> None:
        self._open = False
        self._end(how)

    def fail(self, error: BaseException | None) -> None:
        """Note what the cell of the loop, or the `with` around it, ended with: it may be what the loop was left by."""
        if not self._open and not (self.stopped == "left" and error is not None and self._left_by(error)):
            return
        how: Ending = "left"
        if error is not None:
            how = "interrupted" if isinstance(error, KeyboardInterrupt) else "error"
            self.error = error if how == "error" else None
        if self._open:
            self._close(how)
        else:
            self.stopped = how
            self.watcher.finish(self)

    def _left_by(self, error: BaseException) -> bool:
        """Tell whether an error was raised where the loop was left."""
        trace = error.__traceback__
        while trace is not None:
            if (trace.tb_frame.f_code, trace.tb_lineno) == self._left_at:
                return True
            trace = trace.tb_next
        return False

    def __enter__(self) -> Steps:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.fail(error)
