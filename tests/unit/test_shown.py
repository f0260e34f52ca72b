"""What is on the screen: as Python that gives the same numbers, and as a browser may send it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from slanglab.tensors.sources import Arrays
from slanglab.widgets.inspector import inspect
from slanglab.widgets.shown import Choice, Shown, as_numpy, read_choice, read_pooled


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (Shown((3, 0, 0)), "t[3, :, :]"),
        (Shown((3, 0, 0), (5, 9, 10, 40)), "t[3, 5:9, 10:40]"),
        (Shown((3, 0, 0), (5, 9, 10, 40), (0,), "max"), "t.x()[:, 5:9, 10:40].max(axis=0)"),
    ],
)
def test_code_of_a_slice(shown: Shown, expected: str) -> None:
    assert shown.code("t", ".x()", 1, 2, None) == expected


def test_code_gives_what_is_drawn(rng: np.random.Generator) -> None:
    t = rng.normal(size=(3, 4, 5, 6, 7))
    for pooled, by in (((1,), "mean"), ((0, 2), "max"), ((0, 1, 2), "mean"), ((), "mean")):
        index = tuple(
            0 if axis in pooled or axis > 2 else int(rng.integers(n)) for axis, n in enumerate(t.shape)
        )
        shown = Shown(index, (1, 4, 2, 6), pooled, by)
        found = eval(shown.code("t", "", 3, 4, None), {"t": t})
        expected = t[..., 1:4, 2:6]
        for axis in (2, 1, 0):
            expected = (
                getattr(expected, by)(axis=axis) if axis in pooled else expected.take(index[axis], axis=axis)
            )
        assert np.allclose(found, expected)


def test_the_inspector_says_what_its_view_shows() -> None:
    inspector = inspect(np.zeros((4, 30, 40), np.float32), "t")
    assert inspector.code == "t[0, :, :]"
    inspector._handle_custom_msg({"kind": "slice", "index": [2, 0, 0]}, [])
    assert inspector.code == "t[2, :, :]"
    inspector._handle_custom_msg({"kind": "state", "window": [3, 4, 10, 20]}, [])
    assert inspector.code == "t[2, 3:13, 4:24]"
    inspector._handle_custom_msg({"kind": "state", "window": None}, [])
    assert inspector.code == "t[2, :, :]"
    inspector._handle_custom_msg(
        {"kind": "slice", "index": [0, 0, 0], "pooled": {"axes": [0], "by": "max"}}, []
    )
    assert inspector.code == "t[:, :, :].max(axis=0)"
    assert inspect(np.array(3.0), "s").code == "s"
    assert inspect(Arrays(np.zeros(3)), "a").code == "a[:]"


@pytest.mark.parametrize(
    "x",
    [
        None,
        3,
        "rank",
        {},
        {"scale": "rank", "range": "data", "lo": 0, "hi": 1},
        {"scale": "linear", "range": "all", "lo": 0, "hi": 1},
        {"scale": "linear", "range": "data", "lo": None, "hi": 1},
        {"scale": "linear", "range": "data", "lo": True, "hi": 1},
        {"scale": "linear", "range": "data", "lo": float("nan"), "hi": 1},
        {"scale": ["linear"], "range": "data", "lo": 0, "hi": 1},
    ],
)
def test_choices_that_make_no_sense(x: Any) -> None:
    assert read_choice(x, centred=False) is None


def test_choices_and_reduced_axes() -> None:
    sent = {"scale": "rank", "range": "typed", "lo": -1, "hi": 2.5}
    assert read_choice(sent, centred=True) == Choice("rank", "typed", -1.0, 2.5)
    assert read_pooled(None, (0, 1)) == ((), "mean")
    assert read_pooled({"axes": [1, 0, 1], "by": "max"}, (0, 1)) == ((0, 1), "max")
    for bad in (
        {"axes": [2], "by": "max"},
        {"axes": [-1], "by": "max"},
        {"axes": "0", "by": "max"},
        {"axes": [0]},
        3,
    ):
        assert read_pooled(bad, (0, 1)) is None
    for bad_axes in ([True], [0.0], [[0]], [None]):
        assert read_pooled({"axes": bad_axes, "by": "mean"}, (0, 1)) is None


def test_what_makes_an_array() -> None:
    assert as_numpy(np.zeros(3)) == ""
    torch_like = type("Tensor", (), {"__module__": "torch"})()
    assert as_numpy(torch_like) == ".detach().cpu().numpy()"
    assert as_numpy(SimpleNamespace()) == ""
