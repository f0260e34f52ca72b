"""What a live plot sends: new points only, never the whole history again, and the whole once, thinned, to a view that opens late."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slanglab.scalars import type_name
from slanglab.tensors import layout, sources
from slanglab.training.pictures import Shot
from slanglab.training.run import Recorder
from slanglab.training.series import decimated
from slanglab.widgets import wire

__all__ = ["describe", "news", "shot_arrays"]

MOST_NEW = 512
"""Points of one frame at most: a loop of a microsecond a step makes fifty thousand in the time of one."""

MOST = 4000
MOST_MEASURED = 1000
_SHADES = 0.4
"""Exponent from shares to shades: a hundredth of the elements is seen too."""

_VECTOR = re.compile(r"vector<(\w+),\s*(\d)>")

Arrays = dict[str, NDArray[Any]]


def describe(run: Recorder) -> dict[str, Any]:
    """Return what does not change during a run, for the browser, as JSON."""
    return {
        "name": run.name,
        "total": run.total,
        "optimizer": "" if run.optimizer is None else type(run.optimizer).__name__,
        "rate": run.optimizer is not None,
        "params": [{"name": name, **_form(tensor)} for name, tensor in run.params.items()],
        "keep": run.states.wants,
    }


def _form(tensor: Any) -> dict[str, Any]:
    if sources.is_tensor(tensor):
        kind = _VECTOR.sub(r"\1\2", type_name(str(tensor.dtype.full_name)))
        numbers = sum(layout.view(tensor, field, None).all.count for field in layout.fields(tensor))
        return {"shape": list(tensor.shape.as_tuple()), "dtype": kind, "numbers": numbers}
    value = sources.arrays(tensor).value
    return {"shape": list(value.shape), "dtype": str(value.dtype), "numbers": value.size}


def news(run: Recorder, first: int, measured: int, *, whole: bool = False) -> tuple[dict[str, Any], Arrays]:
    """Return a frame with the points from `first` on, and the measures from `measured` on.

    Parameters
    ----------
    run : Recorder
        Only its columns are read: they may grow meanwhile.
    first, measured : int
        What the view has already.
    whole : bool
        For a view that begins: as many points as a view ever keeps.
    """
    columns = run.columns
    loss = columns.loss.view()
    count, known = len(loss), columns.measured.count
    new = loss[first:count]
    at = decimated(new, MOST if whole else MOST_NEW)
    meta: dict[str, Any] = {
        "from": first,
        "to": count,
        "measured": [measured, known],
        **_now(run),
    }
    arrays: Arrays = {"y": new[at]}
    if len(at) < len(new):
        arrays["x"] = (at + first).astype(np.float64)
    if known > measured:
        chosen = np.arange(measured, known)
        most = MOST_MEASURED if whole else MOST_NEW
        if len(chosen) > most:
            # From the end: the latest is always among them.
            chosen = chosen[::-1][:: -(-len(chosen) // most)][::-1]
        arrays["m.step"] = columns.measured.view()[chosen]
        if columns.gradients:
            norms = [column.view()[:known][chosen] for column in columns.gradients.values()]
            arrays["m.norm"] = np.stack(norms).astype(np.float64)
        shares = np.stack([columns.spreads[i] for i in chosen])
        arrays["m.spread"] = np.rint(255 * np.clip(shares, 0, 1) ** _SHADES).astype(np.uint8)
    return meta, arrays


def _now(run: Recorder) -> dict[str, Any]:
    flags = run.flags()
    left = run.left()
    trouble = run.trouble
    return {
        "done": run.done,
        "phase": run.phase,
        "waits": run.controls.waiting,
        "stopped": run.stopped,
        "lr": wire.json(run.lr),
        "speed": wire.json(run.speed()),
        "left": wire.json(left),
        "took": wire.json(float(run.columns.time.view()[-1])) if run.columns.time.count else 0.0,
        "params": {
            name: {
                "norm": wire.json(measure.gradient),
                "update": wire.json(measure.update),
                "bad": measure.bad,
                "flag": _flag(flags.get(name)),
            }
            for name, measure in run.measures.items()
        },
        "scalars": {
            name: wire.json(float(values.view()[-1])) for name, (_, values) in run.columns.scalars.items()
        },
        "states": [state.step for state in run.states],
        "trouble": None
        if trouble is None
        else {"title": trouble.title, "text": trouble.text, "kept": trouble.kept, "step": trouble.step},
        "error": "" if run.error is None else _said(run.error),
    }


def _flag(one: Any) -> dict[str, Any] | None:
    return None if one is None else {"kind": one.kind, "number": one.number}


def _said(error: BaseException) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def shot_arrays(shots: list[Shot] | tuple[Shot, ...]) -> tuple[list[dict[str, Any]], Arrays]:
    """Return pictures as a part of a message: what is said of each, and its arrays."""
    said: list[dict[str, Any]] = []
    arrays: Arrays = {}
    for i, shot in enumerate(shots):
        said.append(
            {
                "name": shot.name,
                "shape": list(shot.shape),
                "kind": shot.kind,
                "low": _or_none(shot.low),
                "high": _or_none(shot.high),
                "limit": _or_none(shot.limit),
            }
        )
        arrays[f"s{i}.value"] = shot.value
        for name, array in (
            ("gradient", shot.gradient),
            ("flags", shot.flags),
            ("gradient.flags", shot.gradient_flags),
        ):
            if array is not None:
                arrays[f"s{i}.{name}"] = array
    return said, arrays


def _or_none(x: float) -> float | None:
    return x if math.isfinite(x) else None
