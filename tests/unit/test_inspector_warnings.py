"""Numbers of every size, and none: no warning of NumPy's reaches the notebook, and every answer can be sent."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from test_inspector import View

from slanglab.tensors.binning import Edges
from slanglab.tensors.sources import Arrays
from slanglab.widgets import transport
from slanglab.widgets.inspector import inspect
from slanglab.widgets.tables import table

KINDS = ["f2", "f4", "f8", "i1", "u1", "i2", "i4", "u4", "i8", "u8", "?"]
SIZES = [0, 1, 2, 3, 7, 40]


@pytest.fixture(autouse=True)
def _bundle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "bundle", lambda name: "export default {}")


def nasty(rng: np.random.Generator, kind: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Return an array with the ends of its type in it, and for floats what is no number."""
    count = int(np.prod(shape))
    if kind.kind == "b":
        flat = rng.random(count) < 0.5
    elif kind.kind in "iu":
        most = np.iinfo(kind)
        wide = rng.random() < 0.5
        low, high = (most.min, most.max) if wide else (0, min(100, most.max))
        flat = rng.integers(low, high, count, dtype=kind, endpoint=True)
    else:
        most = np.finfo(kind)
        with np.errstate(all="ignore"):
            flat = (rng.normal(size=count) * 10.0 ** rng.choice([-300, -40, -5, 0, 5, 38, 300])).astype(kind)
        ends = [most.max, -most.max, most.tiny, most.smallest_subnormal, 0.0, -0.0, np.nan, np.inf, -np.inf]
        for end in ends if count else ():
            if rng.random() < 0.35:
                flat[rng.integers(0, count, int(rng.integers(1, 4)))] = end
        if rng.random() < 0.1:
            flat[:] = rng.choice([np.nan, np.inf, -np.inf, 0.0, most.max])
    made = flat.reshape(shape)
    return made[..., ::-1] if made.ndim and rng.random() < 0.2 else made


def requests(rng: np.random.Generator, shape: tuple[int, ...]) -> list[dict[str, Any]]:
    """Return what a page asks for."""
    rank = len(shape)
    low, high = sorted(float(x) for x in rng.normal(size=2) * 10.0 ** rng.choice([-300, 0, 30, 307]))
    asked: list[dict[str, Any]] = [{"kind": "ready"}, {"kind": "find", "index": [0] * rank}]
    for picture in ("value", "gradient"):
        asked.append({"kind": "count", "picture": picture, "lo": low, "hi": high})
        asked.append({"kind": "spread", "picture": picture})
        for scale in ("linear", "symlog"):
            asked.append({"kind": "histogram", "picture": picture, "scale": scale, "lo": low, "hi": high})
    asked.append({"kind": "cells", "index": [0] * rank, "window": [0, 0, 9, 9]})
    if rank > 2:
        for by in ("mean", "max"):
            asked.append({"kind": "slice", "index": [0] * rank, "pooled": {"axes": [0], "by": by}})
    for scale in ("linear", "symlog", "rank"):
        choice = {
            "scale": scale,
            "range": str(rng.choice(["minmax", "3 sigma", "99", "99.9"])),
            "lo": low,
            "hi": high,
        }
        asked.append({"kind": "state", "window": None, "value": choice, "gradient": choice})
        asked.append({"kind": "save", "format": "svg", "overlaid": bool(rng.random() < 0.5)})
    return asked


@pytest.mark.parametrize("name", KINDS)
def test_no_warning_leaves(name: str, rng: np.random.Generator) -> None:
    kind = np.dtype(name)
    for n in range(12):
        shape = tuple(int(s) for s in rng.choice(SIZES, n % 5))
        value, gradient, other = (nasty(rng, kind, shape) for _ in range(3))
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            inspector = inspect(Arrays(value, gradient if kind.kind == "f" else None), "x")
            assert inspector.text
            assert repr(table(value, [other, gradient]))
            _ = inspector.png, inspector.bundle
        view = View(inspector)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for request in requests(rng, shape):
                view.say(**request)
            inspector.pin()
            for what in ("difference", "other", "tensor"):
                view.say(kind="show", what=what)
                view.say(kind="save", format="svg")
            inspector.compare(other)
            inspector.refresh()
        said = [f"{w.filename}:{w.lineno}: {w.message}" for w in caught]
        assert said == [], (n, shape)
        failed = [m for m in view.messages if m["kind"] == "error"]
        assert [m["meta"] for m in failed if "There is no" not in str(m["meta"])] == [], (n, shape)


def test_a_histogram_from_end_to_end_of_what_there_is() -> None:
    """Its span is finite, but rounding could carry the last edge out of what a double holds."""
    largest = float(np.finfo(np.float64).max)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for low in (-largest, 0.0, -1.0, largest / 2, -largest / 1.5):
            for bins in (1, 7, 64, 200, 1000):
                for scale in ("linear", "symlog"):
                    edges = Edges(low, largest, bins, scale)
                    assert np.isfinite(edges.values).all()
                    assert (edges.values[0], edges.values[-1]) == (low, largest)
