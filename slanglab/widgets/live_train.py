"""`slanglab.train` and `slanglab.steps`: a run, its plot, and where neither a notebook nor a plot is, a line of text."""

from __future__ import annotations

import inspect as signatures
import sys
from collections.abc import Callable
from typing import Any, Literal

from IPython.core.getipython import get_ipython

from slanglab.errors import ArgumentError
from slanglab.training.parameters import Optimizer, named
from slanglab.training.run import LOOK_SHARE, Recorder
from slanglab.training.running import Run, Steps
from slanglab.training.watching import Silent, Watcher, provided
from slanglab.widgets import live_figure
from slanglab.widgets.live import LivePlot
from slanglab.widgets.progress_text import TextLine

__all__ = ["last_training", "steps", "train"]

_MOST_SHOWN = 6
_last: Recorder | None = None


def last_training() -> Recorder | None:
    """Return the latest run of `train` or `steps`, whose history is there too when a step raised; None before the first."""
    return _last


def train(
    step: Callable[..., Any],
    params: Any = None,
    steps: int = 1000,
    *,
    optimizer: Optimizer | None = None,
    show: Any = None,
    keep: int = 20,
    plot: bool | LivePlot = True,
    background: bool = False,
    check_every: int | None = None,
    look_share: float = LOOK_SHARE,
    interrupt: Literal["return", "raise"] = "return",
    name: str | None = None,
) -> Run:
    """Call `step` again and again, with a live plot that can be paused and stopped.

    Parameters
    ----------
    step : callable
        `step(i)` or `step()`; returns the loss: a float, or a tensor or array of one element. Of tensors on a device the loss is copied
        there and read some steps later, so that no step waits for it.
    params : tensor, sequence of tensors, or dict of str to tensor, optional
        What is trained: their gradients are measured and shown, and states of them are kept. Default: the optimizer's.
    steps : int
        How many.
    optimizer : Optimizer, optional
        Its `zero_grad()` is called before each step and its `step()` after it. Without one, `step` updates the parameters itself.
    show : like `params`, optional
        Tensors shown as pictures, six at most; functions that return one are called for each picture.
    keep : int
        States of the parameters kept at most, spread over the run, with the latest: copies on the parameters' device.
    plot : bool or LivePlot
        False for none; a plot that was made before shows this run from now on.
    background : bool
        Return at once, and do the steps between other cells, on the notebook's own thread. `run.wait()` waits.
    check_every : int, optional
        Look for NaN and infinities in gradients and parameters every so many steps, which waits for the device; by default whenever
        they are measured, a few times a second, and when the loss is not finite.
    look_share : float
        Which share of the run's time, above 0 and at most 1, measuring and pictures may take while somebody looks: more for a
        run that is there to be watched; ten looks a second at most. Without a view it is 0.004 at any rate.
    interrupt : {'return', 'raise'}
        What Interrupt does. The first ends the run between two steps (a step that goes on for a second is interrupted itself):
        'return' returns the run, whose `stopped` is 'interrupted', and the notebook goes on with its next cell; 'raise' raises
        KeyboardInterrupt then, which stops *Run All*, and the run is `slanglab.last_training()`.
    name : str, optional
        Shown; the step's own name by default.

    Returns
    -------
    Run
        Its `history`, `states`, `restore`, `figure`, and `stopped`, which tells how it ended: 'done', 'stopped', 'interrupted', 'nan'.

    Raises
    ------
    ArgumentError
        If an argument cannot be used, or a loss is not one number.
    Exception
        What `step` raises. The history so far is that of `slanglab.last_training()`.

    Notes
    -----
    A run ends at the first step whose loss is not finite, before the update. Gradients and parameters are looked at now and then, without
    waiting for the device, so that one that is not finite may end the run some steps later; with `check_every=1` at once, before the
    update. `run.trouble` names tensor, index and step, and `run.restore()` puts back the last good state.

    On ipykernel 6 a busy cell gets no messages of the browser; they are fetched between steps, forty times a second at most, so that the
    buttons act when the running step has ended. `background=True` does without that.
    """
    if not callable(step):
        raise ArgumentError(
            "The first argument is a function that does one step and returns the loss.",
            argument="step",
            given=type(step).__name__,
        )
    if interrupt not in ("return", "raise"):
        raise ArgumentError(f"interrupt is 'return' or 'raise', not {interrupt!r}.", argument="interrupt")
    given = _params(params, optimizer)
    watcher = _watcher(plot)
    run = Run(
        _with_number(step),
        name=_name(step) if name is None else name,
        params=given,
        steps=steps,
        optimizer=optimizer,
        show=_shown(show),
        keep=keep,
        check_every=check_every,
        look_share=look_share,
        watcher=watcher,
        draw=live_figure.figure,
    )
    _begin(run, watcher, plot)
    if background:
        run._start()
        return run
    run._run()
    if run.stopped == "interrupted" and interrupt == "raise":
        raise KeyboardInterrupt(f"training was interrupted at step {run.done}")
    return run


def steps(
    count: int,
    *,
    params: Any = None,
    show: Any = None,
    loss: Any = None,
    optimizer: Optimizer | None = None,
    keep: int = 20,
    plot: bool | LivePlot = True,
    check_every: int | None = None,
    look_share: float = LOOK_SHARE,
    name: str | None = None,
) -> Steps:
    """Return an iterator over step numbers with a live plot, for a loop of one's own.

        for i in (run := sl.steps(500, params=[w], show=[image])):
            ...
            run.log(loss)

    Parameters
    ----------
    count : int
        How many steps.
    loss : tensor or callable, optional
        Where the loss of each step is found, for loops without `log`.
    optimizer : Optimizer, optional
        Whose learning rate the plot's slider sets, and whose parameters are shown; its `step` is the loop's own business.
    params, show, keep, plot, check_every, look_share, name
        As for `train`. Gradients are measured at `log`, else when a step has ended.

    Returns
    -------
    Steps
        Stop ends the loop before its next step. Interrupt raises KeyboardInterrupt where it is, as in any loop; the history stays.
    """
    watcher = _watcher(plot)
    run = Steps(
        loss,
        name=name or "steps",
        params=_params(params, optimizer),
        steps=count,
        optimizer=None,
        show=_shown(show),
        keep=keep,
        check_every=check_every,
        look_share=look_share,
        watcher=watcher,
        draw=live_figure.figure,
    )
    run.optimizer = optimizer
    _begin(run, watcher, plot)
    _end_with_cell(run)
    return run


def _params(params: Any, optimizer: Any) -> dict[str, Any]:
    if optimizer is not None:
        for needed in ("step", "zero_grad"):
            if not callable(getattr(optimizer, needed, None)):
                raise ArgumentError(
                    f"The optimizer has no {needed}().", argument="optimizer", given=type(optimizer).__name__
                )
        if params is None:
            return named(dict(optimizer.params), "params", "")
    return named(params, "params", "")


def _shown(show: Any) -> dict[str, Any]:
    found = named(show, "show", "tensor ")
    if len(found) > _MOST_SHOWN:
        raise ArgumentError(
            f"A plot shows {_MOST_SHOWN} pictures at most, not {len(found)}.",
            argument="show",
            hint="open the others with sl.inspect(t)",
        )
    return found


def _watcher(plot: bool | LivePlot) -> Watcher:
    if isinstance(plot, LivePlot):
        return plot
    if not plot:
        return Silent()
    if (elsewhere := provided()) is not None:
        return elsewhere
    if getattr(get_ipython(), "kernel", None) is not None:
        return LivePlot()
    return TextLine(sys.stderr) if sys.stderr.isatty() else Silent()


def _begin(run: Recorder, watcher: Watcher, plot: bool | LivePlot) -> None:
    global _last
    _last = run
    if isinstance(watcher, LivePlot) and not isinstance(plot, LivePlot):
        # Before the first step, so that Stop is there while the first kernels compile.
        watcher.begin(run)
        watcher.show()


def _name(step: Any) -> str:
    found = getattr(step, "__name__", "")
    return "" if found in ("", "<lambda>") else str(found)


def _with_number(step: Callable[..., Any]) -> Callable[[int], Any]:
    """Return a step that takes its number, whether the user's does or not."""
    try:
        takes = any(
            p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL)
            and (p.default is p.empty or p.name in ("i", "step", "n"))
            for p in signatures.signature(step).parameters.values()
        )
    except (TypeError, ValueError):
        takes = True
    return step if takes else lambda _i: step()


def _end_with_cell(run: Steps) -> None:
    """End the run with the cell that its loop was left in by an error: the traceback keeps the loop alive, and tells it nothing."""
    events = getattr(get_ipython(), "events", None)
    if events is None:
        return

    def ended(result: Any = None) -> None:
        error = getattr(result, "error_in_exec", None)
        if error is not None and run.phase != "starting":
            run.fail(error)
        if run.phase == "ended":
            _forget(events, ended)

    events.register("post_run_cell", ended)


def _forget(events: Any, callback: Callable[..., None]) -> None:
    try:
        events.unregister("post_run_cell", callback)
    except ValueError:
        pass
