"""The inspector on tensors of a device: what it reads is what numpy reads."""

from __future__ import annotations

import numpy as np
import pytest
import slangpy as spy

import slanglab
from slanglab.errors import DeviceGoneError
from slanglab.tensors import summary as summaries
from slanglab.tensors import writes
from slanglab.tensors.difference import copy, difference
from slanglab.tensors.sources import Arrays
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


DIFFERENT = ["float32", "float16", "float64", "int32", "uint8", "int64", "bool"]


@pytest.mark.parametrize("dtype", DIFFERENT)
@pytest.mark.parametrize("part", [(), (slice(1, 5), slice(None, None, 2))])
def test_copies_and_differences_are_those_of_numpy(shell, device, rng, dtype, part):
    a, b = ((rng.normal(size=(7, 9)) * 20).astype(dtype) for _ in range(2))
    x, y = (slanglab.tensor(one, dtype=dtype)[part] for one in (a, b))
    a, b = a[part], b[part]
    copied = copy(x)
    assert (copied.to_numpy() == a).all()
    assert copied.to_numpy().dtype == a.dtype
    found = difference(x, y)
    found = found.value if isinstance(found, Arrays) else found.to_numpy()
    assert np.allclose(found, a.astype(np.float64) - b.astype(np.float64), rtol=1e-6)
    # With an array, whose numbers are on the host.
    assert np.allclose(difference(x, b).value, found, rtol=1e-6)


def test_gradients_are_copied_and_subtracted_too(device, rng):
    value, gradient = rng.normal(size=(2, 5, 6)).astype(np.float32)
    x = with_gradient(spy.Tensor.from_numpy(device, value), gradient)
    kept = copy(x)
    x.grad.copy_from_numpy(gradient + 2)
    assert (kept.grad.to_numpy() == gradient).all()
    assert np.allclose(difference(x, kept).grad.to_numpy(), 2, atol=1e-6)
    assert copy(slanglab.tensor(3.5)).to_numpy() == 3.5


def test_reduced_axes_of_tensors(device, rng):
    value = rng.normal(size=(3, 4, 50, 60)).astype(np.float32)
    value[1, 2, 3, 4] = np.nan
    tensor = spy.Tensor.from_numpy(device, value)
    for pooled, index, rest in (
        ((0,), (None, 2), value[:, 2]),
        ((1,), (1,), value[1]),
        ((0, 1), (), value.reshape(12, 50, 60)),
    ):
        found = summaries.picture(tensor, 25, 30, index=index, pooled=pooled)
        blocks = rest.reshape(-1, 25, 2, 30, 2)
        assert np.allclose(found.mean, np.nanmean(blocks, axis=(0, 2, 4)), atol=1e-5)
        assert (found.maximum == np.nanmax(blocks, axis=(0, 2, 4))).all()
        assert (found.flags > 0).sum() == 1


def catch_up(w):
    """Let time pass for a view."""
    w._summed = 0.0
    w._catch_up()


def test_a_view_follows_calls_and_copies(shell, device):
    module = slanglab.compile("float twice(float x) { return 2 * x; }", name="followed")
    x, y = slanglab.ones((4, 4)), slanglab.zeros((4, 4))
    w = inspect(y, "y")
    try:
        module.twice(x, _result=y)
        catch_up(w)
        assert w.info["value"]["maximum"] == 2
        x.copy_from_numpy(np.full((4, 4), 3, np.float32))
        assert w.info["value"]["maximum"] == 2
        for _ in range(3):  # planned by now
            module.twice(x, _result=y)
        catch_up(w)
        assert w.info["value"]["maximum"] == 6
        y.clear()
        catch_up(w)
        assert w.info["value"]["maximum"] == 0
    finally:
        w.close()
    assert id(w) not in writes.watched


def test_torch_tensors_with_their_gradients():
    torch = pytest.importorskip("torch")
    x = torch.linspace(-1, 2, 12).reshape(3, 4).requires_grad_()
    (x * x * x).sum().backward()
    w = inspect(x, "x")
    assert w.info["device"] == "torch cpu"
    assert w.info["gradient"]["maximum"] == pytest.approx(12)
    content, _ = Replies(w).ask(kind="element", index=[2, 3])
    assert (content["meta"]["value"], content["meta"]["gradient"]) == ([2.0], [12.0])
    assert w.code == "x[:, :]"
    w.pin()
    with torch.no_grad():
        x += 1
    w.show("difference")
    assert w.info["value"]["mean"] == pytest.approx(1)
    w.close()
    # A result has no gradient of its own, and asking for one must not warn; bfloat16 is none of numpy's types.
    assert slanglab.summary(x * 2).gradient is None
    assert slanglab.summary(torch.arange(3).bfloat16()).value.maximum == 2
    assert slanglab.summary(torch.eye(3).to_sparse()).value.maximum == 1
    with pytest.raises(slanglab.ArgumentError, match="no real numbers"):
        slanglab.summary(torch.zeros(2, dtype=torch.complex64))


def test_a_view_outlives_the_device_of_its_tensor(device):
    shown = slanglab.tensor(np.arange(12, dtype=np.float32).reshape(3, 4))
    view = inspect(shown, "shown")
    before = view.png
    view.let_go([device])
    assert view.png == before
    with pytest.raises(DeviceGoneError, match="was closed"):
        view.refresh()
    view.close()
    kept = inspect(slanglab.tensor([1.0]), "kept")
    kept.let_go([])
    kept.refresh()
    kept.close()
