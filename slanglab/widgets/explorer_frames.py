"""What an explorer's view is sent: as many numbers as can be seen, once for each change."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slanglab.exploring.evaluate import Floats
from slanglab.exploring.exploration import Exploration, Looked
from slanglab.exploring.knobs import Axis, Knob

__all__ = ["POINTS", "describe", "facts", "frame", "path_frame", "plain", "thinned"]

_VERSION = 1
"""Of the `info` trait; `VERSION` in js/src/explorer/data.ts says the same."""

POINTS = 1000
"""Points of a curve that are sent, about; of a longer one every bucket's least and greatest."""
_TEXELS = 160
_ARROWS = 40

Arrays = dict[str, NDArray[Any]]


def plain(x: float) -> float | str:
    """Return a number as JSON has it: NaN and the infinities as words."""
    return (
        float(x) if math.isfinite(x) else ("NaN" if math.isnan(x) else "Infinity" if x > 0 else "-Infinity")
    )


def describe(explored: Exploration, trouble: str = "") -> dict[str, Any]:
    """Return what does not change with the settings, as JSON."""
    made = explored.made
    return {
        "version": _VERSION,
        "name": made.name,
        "signature": made.signature,
        "form": explored.form,
        "components": made.components,
        "refused": explored.refused,
        "trouble": trouble,
        "compared": [f.name for f in explored.compared],
        "axes": [_axis(axis) for axis in made.axes],
        "knobs": [_knob(knob) for knob in made.knobs.values()],
        "descends": not explored.refused
        and explored.form == "field"
        and all(axis.differentiable for axis in made.axes),
    }


def _axis(axis: Axis) -> dict[str, Any]:
    return {
        "path": axis.path,
        "low": float(axis.points[0]),
        "high": float(axis.points[-1]),
        "count": len(axis.points),
        "differentiable": axis.differentiable,
    }


def _knob(knob: Knob) -> dict[str, Any]:
    return {
        "path": knob.path,
        "kind": knob.kind,
        "low": knob.low,
        "high": knob.high,
        "step": knob.step,
        "start": knob.start,
        "choices": [word for word, _ in knob.choices],
        "group": knob.group,
        "color": knob.color,
        "differentiable": knob.differentiable,
    }


def frame(explored: Exploration, looked: Looked, ask: int | None) -> tuple[dict[str, Any], Arrays]:
    """Return a message's plain data and arrays for one setting."""
    meta = facts(explored, looked, ask)
    arrays = {"curve": _curve, "field": _plane, "image": _plane, "dial": _nothing}[explored.form](
        explored, looked, meta
    )
    return meta, arrays


def facts(explored: Exploration, looked: Looked, ask: int | None) -> dict[str, Any]:
    """Return the settings and what is known at the point that is looked at, as JSON."""
    here = looked.here
    return {
        "ask": ask,
        "values": {path: plain(knob.value) for path, knob in explored.knobs.items()},
        "at": {axis.path: plain(axis.value) for axis in explored.axes},
        "component": explored.component,
        "code": explored.code,
        "ms": looked.seconds * 1e3,
        "notes": looked.notes,
        "here": {
            "value": [plain(v) for v in np.ravel(here.value)],
            "gradients": {path: plain(float(np.ravel(g)[0])) for path, g in here.gradients.items()},
            "others": [plain(v) for v in explored.others_here(looked)],
        },
        "differences": explored.differences,
        "quotients": {
            path: {
                "verdict": q.verdict,
                "worst": plain(q.worst),
                "reason": q.reason,
                "scale": plain(q.scale),
                "count": int(q.off.sum()),
                "judged": q.judged,
                "elements": q.off.size,
                "measured": plain(float(q.measured[0])) if q.measured.size == 1 else None,
            }
            for path, q in looked.quotients.items()
        },
    }


def _nothing(explored: Exploration, looked: Looked, meta: dict[str, Any]) -> Arrays:
    return {}


def _chosen(explored: Exploration, value: Floats) -> Floats:
    """Return the component that is drawn."""
    return value if explored.made.components == 1 else value[..., explored.component or 0]


def _curve(explored: Exploration, looked: Looked, meta: dict[str, Any]) -> Arrays:
    axis = explored.axes[0]
    value = _chosen(explored, looked.value)
    order = list(looked.gradients)
    meta["order"] = order
    gradients = np.array([looked.gradients[p] for p in order]).reshape(len(order), len(value))
    kept = thinned([value, *gradients], POINTS)
    # The point that is looked at is always there.
    if kept is not None:
        kept = np.union1d(kept, [axis.at])
    take = slice(None) if kept is None else kept
    arrays: Arrays = {
        "x": _single(axis.points[take]),
        "value": _single(value[take]),
        "gradients": _single(gradients[:, take]),
    }
    if looked.others:
        arrays["others"] = _single(np.array([_chosen(explored, v)[take] for _, v in looked.others]))
    measured = [p for p, q in looked.quotients.items() if q.measured.size == len(value)]
    meta["measured"] = measured
    if measured:
        arrays["measured"] = _single(np.array([looked.quotients[p].measured[take] for p in measured]))
        arrays["off"] = np.array([looked.quotients[p].off[take] for p in measured]).astype(np.uint8)
    meta["missing"] = {"nan": int(np.isnan(value).sum()), "inf": int(np.isinf(value).sum())}
    return arrays


def _plane(explored: Exploration, looked: Looked, meta: dict[str, Any]) -> Arrays:
    across, down = explored.axes
    columns, rows = (_every(len(a.points), _TEXELS) for a in (across, down))
    value = looked.value if explored.form == "image" else _chosen(explored, looked.value)
    arrays: Arrays = {
        "x": _single(across.points[columns]),
        "y": _single(down.points[rows]),
        "value": _single(value[np.ix_(rows, columns)]),
    }
    meta["missing"] = {"nan": int(np.isnan(value).sum()), "inf": int(np.isinf(value).sum())}
    if explored.form == "field" and all(a.path in looked.gradients for a in explored.axes):
        few, low = (_every(len(a.points), _ARROWS) for a in (across, down))
        arrays["arrows.x"] = _single(across.points[few])
        arrays["arrows.y"] = _single(down.points[low])
        arrays["arrows"] = _single(
            np.stack([looked.gradients[a.path][np.ix_(low, few)] for a in explored.axes])
        )
    if looked.others:
        arrays["others"] = _single(
            np.array([_chosen(explored, v)[np.ix_(rows, columns)] for _, v in looked.others])
        )
    return arrays


def _every(count: int, most: int) -> NDArray[np.intp]:
    """Return indices with equal distances, at most so many, both ends among them."""
    return np.unique(np.rint(np.linspace(0, count - 1, min(count, most))).astype(np.intp))


def _single(x: NDArray[Any]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(x, np.float32)


def thinned(curves: list[Floats], most: int) -> NDArray[np.intp] | None:
    """Return the points of long curves to draw: of every bucket where each curve is least and greatest, and where one is not finite.

    Parameters
    ----------
    curves : list of ndarray, shape (n,)
    most : int
        How many points, about.

    Returns
    -------
    ndarray of int or None
        None where all are to be drawn.
    """
    count = len(curves[0])
    if count <= most * 1.2:
        return None
    buckets = max(48, most // (2 * len(curves)))
    size = -(-count // buckets)
    starts = np.arange(0, count, size)
    found = [np.array([0, count - 1])]
    for curve in curves:
        known = np.isfinite(curve)
        for fill, pick in ((np.inf, np.argmin), (-np.inf, np.argmax)):
            padded = np.full(len(starts) * size, fill)
            padded[:count] = np.where(known, curve, fill)
            found.append(starts + pick(padded.reshape(-1, size), axis=1))
        if not known.all():
            padded = np.zeros(len(starts) * size, bool)
            padded[:count] = ~known
            held = padded.reshape(-1, size)
            found.append((starts + held.argmax(axis=1))[held.any(axis=1)])
    kept: NDArray[np.intp] = np.unique(np.concatenate(found))
    return kept[kept < count]


def path_frame(explored: Exploration, ask: int | None, code: str) -> tuple[dict[str, Any], Arrays]:
    """Return a descent as a message."""
    descent = explored.descent
    meta: Mapping[str, Any] = {
        "ask": ask,
        "optimizer": descent.optimizer,
        "rate": descent.rate,
        "stopped": descent.stopped,
        "steps": max(0, len(descent.path) - 1),
        "code": code,
    }
    arrays: Arrays = {
        "path": np.array(descent.path, np.float64).reshape(len(descent.path), -1),
        "values": np.array(descent.values, np.float64),
        "gradient": np.array(descent.gradients[-1] if descent.gradients else (), np.float64),
    }
    return dict(meta), arrays
