"""The still twins of a live plot besides its PNG: text, and a matplotlib figure for papers."""

from __future__ import annotations

from typing import Any

import numpy as np

from slanglab import look
from slanglab.errors import SlangLabError
from slanglab.training.measuring import DECADES, PER_DECADE
from slanglab.training.run import Recorder
from slanglab.training.series import decimated
from slanglab.widgets.live_png import curve, occupied

__all__ = ["figure", "text"]

# ----- text -----


def text(run: Recorder) -> str:
    """Say what happened: the end, the loss, each parameter."""
    ended = {
        None: "goes on",
        "done": "done",
        "stopped": "stopped",
        "interrupted": "interrupted",
        "nan": "stopped: not finite",
        "error": "ended by an error",
        "left": "left early",
    }[run.stopped]
    lines = [f"{run.name or 'run'}: {ended} at step {run.done} of {run.total}"]
    loss = run.columns.loss.view()
    known = loss[np.isfinite(loss)]
    if len(known):
        first, last, least = known[0], known[-1], known.min()
        lines.append(
            f"  loss {look.number(float(first), ascii=True)} to {look.number(float(last), ascii=True)}, "
            f"least {look.number(float(least), ascii=True)}"
        )
    if run.columns.time.count:
        took = float(run.columns.time.view()[-1])
        lines.append(f"  {run.speed():.4g} steps/s, {look.time(took, ascii=True)}")
    flags = run.flags()
    for name, measure in run.measures.items():
        said = [f"  {name}:"]
        if measure.gradient is not None:
            said.append(f"|gradient| {look.number(measure.gradient, ascii=True)}")
        if measure.update is not None:
            said.append(f"update {look.number(measure.update, ascii=True)}")
        if name in flags:
            said.append(f"({flags[name].text()})")
        if len(said) == 1:
            said.append("no gradient")
        lines.append(" ".join(said))
    if run.trouble is not None:
        lines.append(f"  {run.trouble}")
    if run.error is not None:
        lines.append(f"  {type(run.error).__name__}: {str(run.error).partition(chr(10))[0]}")
    return "\n".join(lines)


# ----- matplotlib -----


def figure(run: Recorder) -> Any:
    """Return losses, norms of gradients and the spread of magnitudes as a matplotlib figure.

    Raises
    ------
    SlangLabError
        Where matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise SlangLabError(
            "A figure needs matplotlib, which is not installed.", hint="pip install matplotlib"
        ) from None
    colors = look.tokens()["colors"]
    measured = run.columns.measured.view()
    rows = 1 + 2 * bool(len(measured) and run.columns.gradients)
    made = Figure(figsize=(6.4, 2.2 * rows), layout="constrained")
    axes = made.subplots(rows, 1, sharex=True, squeeze=False)[:, 0]
    loss = run.columns.loss.view()
    at = decimated(loss, 20000)
    log = curve(run)[2]
    axes[0].plot(at, loss[at], color=colors["value"][0], linewidth=1.2)
    axes[0].set_ylabel("loss")
    axes[0].set_yscale("log" if log else "linear")
    if rows > 1:
        for name, column in run.columns.gradients.items():
            axes[1].plot(measured, column.view()[: len(measured)], label=name, linewidth=1.0)
        axes[1].set_yscale("log")
        axes[1].set_ylabel("gradient norm")
        axes[1].legend(fontsize="small", frameon=False)
        shares = np.stack(run.columns.spreads[: len(measured)]).T
        edges = 10.0 ** (np.arange(shares.shape[0] + 1) / PER_DECADE + DECADES[0])
        ends = np.concatenate([measured, [max(run.done, measured[-1] + 1)]])
        axes[2].pcolormesh(ends, edges, shares**0.4, cmap="Greys", vmin=0, vmax=1)
        axes[2].set_yscale("log")
        low, high = occupied(shares.T)
        axes[2].set_ylim(edges[low], edges[high])
        axes[2].set_ylabel("|gradient|")
    axes[-1].set_xlabel("step")
    return made
