"""The inspector on tensors of a device: what it reads is what numpy reads."""

from __future__ import annotations

import numpy as np
import pytest
import slangpy as spy

from slanglab.widgets.inspector import inspect


class Replies(list):
    """The messages an inspector sends."""

    def __init__(self, inspector):
        super().__init__()
        self.inspector = inspector
        inspector.send = lambda content, buffers=None: self.append(
            (content, [bytes(b) for b in buffers or []])
        )

    def ask(self, **content):
        self.clear()
        self.inspector._handle_custom_msg(content, [])
        return self[-1] if self else None


def with_gradient(tensor, gradient):
    tensor = tensor.with_grads()
    tensor.grad.copy_from_numpy(np.ascontiguousarray(gradient))
    return tensor


def array(message, name):
    content, buffers = message
    for entry, data in zip(content["arrays"], buffers, strict=True):
        if entry["name"] == name:
            return np.frombuffer(data, entry["dtype"]).reshape(entry["shape"])
    raise KeyError(name)


@pytest.mark.parametrize("part", [(), (slice(1, 3),), (2,), (slice(None), slice(5, 300, 7))])
def test_elements_of_tensors_and_their_views(device, rng, part):
    value, gradient = rng.normal(size=(2, 4, 310, 290)).astype(np.float32)
    tensor = with_gradient(spy.Tensor.from_numpy(device, value), gradient)[part]
    value, gradient = value[part], gradient[part]
    replies = Replies(inspect(tensor))
    for _ in range(5):
        place = [int(rng.integers(n)) for n in value.shape]
        content, _ = replies.ask(kind="element", index=place)
        assert content["meta"]["value"] == [float(value[tuple(place)])]
        assert content["meta"]["gradient"] == [float(gradient[tuple(place)])]


def test_a_window_holds_the_elements(device, rng):
    value = rng.normal(size=(3, 400, 500)).astype(np.float32)
    replies = Replies(inspect(spy.Tensor.from_numpy(device, value)))
    message = replies.ask(kind="slice", index=[2, 0, 0], window=[120, 33, 80, 90])
    assert (array(message, "value.mean") == value[2, 120:200, 33:123]).all()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "uint8", "int64"])
def test_types(device, rng, dtype):
    value = (rng.normal(size=(6, 5)) * 50).astype(dtype)
    inspector = inspect(spy.Tensor.from_numpy(device, value), "t")
    assert inspector.info["dtype"] == dtype
    assert inspector.text.startswith(f"t: {dtype} (6, 5)")
    content, _ = Replies(inspector).ask(kind="element", index=[4, 3])
    assert content["meta"]["value"] == [value[4, 3].item()]
    assert inspector.png is not None


def test_vectors(device, rng):
    value = rng.uniform(size=(9, 8, 3)).astype(np.float32)
    tensor = spy.Tensor.empty(device, (9, 8), "float3")
    tensor.copy_from_numpy(value)
    inspector = inspect(tensor)
    assert (inspector.info["dtype"], inspector.info["components"], inspector.info["image"]) == (
        "float3",
        3,
        True,
    )
    replies = Replies(inspector)
    assert (array(replies.ask(kind="ready"), "value.colors") == value).all()
    content, _ = replies.ask(kind="element", index=[2, 7])
    assert content["meta"]["value"] == [float(x) for x in value[2, 7]]


def test_a_scalar_and_an_empty_view(device):
    assert "0.31415927" in inspect(spy.Tensor.from_numpy(device, np.array(np.pi / 10, np.float32))).text
    some = spy.Tensor.from_numpy(device, np.zeros((3, 4), np.float32))
    empty = inspect(some[0:0])
    assert (empty.info["form"], empty.png) == ("empty", None)


def test_the_next_bad_element_is_found_among_many(device, rng):
    value = np.zeros((3, 500, 700), np.float32)
    place = tuple(int(rng.integers(n)) for n in value.shape)
    value[place] = np.nan
    replies = Replies(inspect(spy.Tensor.from_numpy(device, value)))
    content, _ = replies.ask(kind="find", index=[0, 0, 0], inclusive=True)
    assert content["meta"]["place"] == list(place)


def test_the_last_line_of_a_cell_shows_it(shell, device):
    from slanglab.widgets import automatic

    x = spy.Tensor.from_numpy(device, np.arange(4, dtype=np.float32))
    data, _ = automatic.mimebundle(x, type("Shell", (), {"user_ns": {"x": x}})())
    assert data["text/plain"].startswith("x: float32 (4,)")
    assert "image/png" in data
