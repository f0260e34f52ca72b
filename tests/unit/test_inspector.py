"""What the inspector tells a view, what it answers, and what it leaves in a notebook."""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import threading
import weakref
from types import SimpleNamespace
from typing import Any

import ipywidgets
import numpy as np
import pytest
from numpy.typing import NDArray

from slanglab.errors import SlangLabError
from slanglab.tensors import summarising
from slanglab.tensors import summary as summaries
from slanglab.tensors.sources import Arrays as Pair
from slanglab.widgets import automatic, transport, wire
from slanglab.widgets.inspector import TensorInspector, inspect


@pytest.fixture(autouse=True)
def _pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "bundle", lambda name: "export default {}")


class View:
    """The browser's end of an inspector: acknowledges frames and keeps what arrives."""

    def __init__(self, inspector: TensorInspector) -> None:
        self.inspector = inspector
        self.messages: list[dict[str, Any]] = []
        inspector.send = self._receive  # type: ignore[method-assign]

    def _receive(self, content: dict[str, Any], buffers: Any = None) -> None:
        # What ipywidgets would put on the wire has to be JSON.
        json.dumps(content, allow_nan=False)
        content = dict(content)
        content["buffers"] = [bytes(b) for b in buffers or []]
        self.messages.append(content)

    def say(self, **content: Any) -> list[dict[str, Any]]:
        """Send a request and return what came back, but for the ranges that follow a picture."""
        before = len(self.messages)
        self.inspector._handle_custom_msg(content, [])
        self.acknowledge(before)
        return [m for m in self.messages[before:] if not m["kind"].endswith("ranges")]

    def acknowledge(self, at: int = 0) -> None:
        """Tell that all frames from that message on were drawn, and those too that come for it."""
        while at < len(self.messages):
            if "seq" in self.messages[at]:
                self.inspector._handle_custom_msg({"kind": "ack", "seq": self.messages[at]["seq"]}, [])
            at += 1

    def arrays(self, message: dict[str, Any]) -> dict[str, NDArray[Any]]:
        """Return the arrays of a message; those of a picture with the ranges that came for it."""
        take = message["meta"].get("take")
        later = [m for m in self.messages if m["kind"].endswith("ranges") and m["meta"] == {"take": take}]
        return {
            entry["name"]: np.frombuffer(data, entry["dtype"]).reshape(entry["shape"])
            for one in (message, *later)
            for entry, data in zip(one["arrays"], one["buffers"], strict=True)
        }


def test_a_view_that_opens_gets_the_picture(rng: np.random.Generator) -> None:
    pair = Pair(*rng.normal(size=(2, 5, 7)).astype(np.float32))
    view = View(inspect(pair, "x"))
    assert view.messages == []
    (frame,) = view.say(kind="ready")
    assert frame["kind"] == "picture"
    facts = frame["meta"].pop("facts")
    assert facts == {
        key: view.inspector.info[key] for key in ("reading", "image", "value", "gradient", "limit")
    }
    assert facts["value"]["maximum"] == pair.value.max()
    assert frame["meta"] == {
        "take": 0,
        "index": [0, 0],
        "value": {"block": [1, 1], "window": [0, 0, 5, 7]},
        "gradient": {"block": [1, 1], "window": [0, 0, 5, 7]},
        "choices": {},
    }
    arrays = view.arrays(frame)
    assert (arrays["value.mean"] == pair.value).all()
    assert (arrays["gradient.mean"] == pair.gradient).all()
    assert arrays["value.counts"].sum() == 35
    # Single elements: the range is the mean, so it is not sent.
    assert "value.minimum" not in arrays


def test_the_picture_is_on_its_way_before_the_view_asks(rng: np.random.Generator) -> None:
    value = rng.normal(size=(600, 700)).astype(np.float32)
    inspector = inspect(value)
    view = View(inspector)
    inspector._repr_mimebundle_()
    (early,) = view.messages
    assert (early["kind"], early["meta"]["index"]) == ("picture", [0, 0])
    # A view that has it gets what is left.
    view.say(kind="ready", take=early["meta"]["take"])
    assert [m["kind"] for m in view.messages] == ["picture", "ranges"]
    assert view.arrays(early)["value.maximum"].max() == value.max()
    # Another view, or one with an older picture, gets all of it; so does one that says nonsense.
    value += 1
    inspector.refresh()
    view.messages.clear()
    for said in (
        {},
        {"take": early["meta"]["take"]},
        {"take": -1},
        {"take": "1"},
        {"take": True},
        {"take": 1.0},
    ):
        (frame,) = view.say(kind="ready", **said)
        assert view.arrays(frame)["value.maximum"].max() == value.max()
    # Shown again it sends nothing ahead: a view that opens in a page that knows the model asks.
    view.messages.clear()
    inspector._repr_mimebundle_()
    assert view.messages == []


def test_a_large_tensor_sends_no_more_than_the_screen(rng: np.random.Generator) -> None:
    value = rng.normal(size=(1500, 1100)).astype(np.float32)
    row, column = (int(n) for n in rng.integers(0, value.shape))
    value[row, column] = np.nan
    view = View(inspect(Pair(value)))
    frame = view.say(kind="ready")[0]
    arrays = view.arrays(frame)
    rows, columns = arrays["value.mean"].shape
    block = frame["meta"]["value"]["block"]
    assert rows <= 256
    assert columns <= 256
    assert sum(len(b) for m in view.messages for b in m["buffers"]) < 1.1e6
    # What is drawn comes first, a third of it all.
    assert [m["kind"] for m in view.messages] == ["picture", "ranges", "histograms"]
    drawn = {a["name"] for a in frame["arrays"]}
    assert not {"value.minimum", "value.maximum", "value.counts"} & drawn
    flags = np.argwhere(arrays["value.flags"])
    assert flags.tolist() == [[row // block[0], column // block[1]]]
    y, x = (int(n) for n in rng.integers(0, (rows - 1, columns - 1)))
    part = value[y * block[0] : (y + 1) * block[0], x * block[1] : (x + 1) * block[1]].astype(np.float64)
    assert arrays["value.mean"][y, x] == pytest.approx(np.nanmean(part), rel=1e-5, abs=1e-6)
    assert arrays["value.maximum"][y, x] == np.nanmax(part)


def test_the_histogram_of_a_large_tensor_follows_its_picture(rng: np.random.Generator) -> None:
    value = rng.normal(size=(1100, 1000)).astype(np.float32)
    counts, edges = np.histogram(value.astype(np.float64), 96)
    inspector = inspect(value)
    view = View(inspector)
    inspector._repr_mimebundle_()
    (early,) = view.messages
    assert "value.counts" not in view.arrays(early)
    if rng.integers(2):  # somebody may ask for it before the view does
        assert (inspector.summary.histogram.counts == counts).all()
    # While a cell is busy the device is not touched: the view is told as soon as the cell has ended.
    inspector._home = -1
    inspector._loop = asyncio.new_event_loop()
    view.say(kind="ready", take=early["meta"]["take"])
    assert [m["kind"] for m in view.messages] == ["picture", "ranges"]
    inspector._home = threading.get_ident()
    inspector._loop.call_soon(inspector._loop.stop)
    inspector._loop.run_forever()
    inspector._loop.close()
    told = view.arrays(view.messages[-1])
    assert view.messages[-1]["kind"] == "histograms"
    assert (told["value.counts"] == counts).all()
    assert told["value.edges"] == pytest.approx(edges)
    # From then on it comes with the picture: of a view that opens later, and of what is read again.
    (again,) = [m for m in view.say(kind="ready") if m["kind"] != "ranges"]
    assert (view.arrays(again)["value.counts"] == counts).all()
    value *= 2
    inspector.refresh()
    view.acknowledge()
    frames = [m for m in view.messages if m["kind"] == "picture"]
    assert view.arrays(frames[-1])["value.edges"][-1] == value.max()


def test_a_large_view_that_nobody_opens(rng: np.random.Generator) -> None:
    value = rng.normal(size=(1100, 1000)).astype(np.float32)
    inspector, closed = inspect(value), inspect(value)
    closed.close()
    assert closed.summary.histogram is None
    assert closed.summary.value == inspector.summary.value
    assert inspector.summary.histogram.counts.sum() == value.size
    inspector.close()
    assert inspector.summary.histogram.counts.sum() == value.size


def test_a_finer_window_on_request(rng: np.random.Generator) -> None:
    value = rng.normal(size=(700, 600)).astype(np.float32)
    view = View(inspect(Pair(value)))
    view.say(kind="ready")
    (frame,) = view.say(kind="slice", index=[0, 0], window=[100, 50, 60, 70])
    assert frame["meta"]["value"] == {"block": [1, 1], "window": [100, 50, 60, 70]}
    assert (view.arrays(frame)["value.mean"] == value[100:160, 50:120]).all()
    # What a second view begins with is still the whole.
    (again,) = view.say(kind="ready")
    assert again["meta"]["value"]["window"] == [0, 0, 700, 600]


def test_another_slice_on_request(rng: np.random.Generator) -> None:
    value = rng.normal(size=(2, 4, 5, 6)).astype(np.float32)
    view = View(inspect(Pair(value)))
    view.say(kind="ready")
    (frame,) = view.say(kind="slice", index=[1, 3, 0, 0])
    assert frame["meta"]["index"] == [1, 3, 0, 0]
    assert (view.arrays(frame)["value.mean"] == value[1, 3]).all()
    (again,) = view.say(kind="ready")
    assert again["meta"]["index"] == [1, 3, 0, 0]


def test_exact_elements_on_request(rng: np.random.Generator) -> None:
    pair = Pair(*rng.normal(size=(2, 3, 400, 500)).astype(np.float32))
    assert pair.gradient is not None
    pair.value[2, 399, 1] = np.nan
    pair.gradient[2, 399, 1] = -np.inf
    view = View(inspect(pair))
    (answer,) = view.say(kind="element", index=[1, 17, 433])
    assert answer["meta"] == {
        "place": [1, 17, 433],
        "value": [float(pair.value[1, 17, 433])],
        "gradient": [float(pair.gradient[1, 17, 433])],
    }
    (answer,) = view.say(kind="element", index=[2, 399, 1])
    assert (answer["meta"]["value"], answer["meta"]["gradient"]) == (["nan"], ["-inf"])


def test_exact_elements_with_channels_and_of_large_integers() -> None:
    image = np.arange(24, dtype=np.float32).reshape(2, 4, 3) / 24
    (answer,) = View(inspect(image)).say(kind="element", index=[1, 2])
    assert answer["meta"]["value"] == [float(x) for x in image[1, 2]]
    big = np.array([[2**53 + 1, -5]], np.int64)
    (answer,) = View(inspect(big)).say(kind="element", index=[0, 0])
    assert answer["meta"]["value"] == ["9007199254740993"]
    (answer,) = View(inspect(big)).say(kind="element", index=[0, 1])
    assert answer["meta"]["value"] == [-5]


def test_the_next_element_that_is_not_finite() -> None:
    value = np.zeros((3, 4, 5), np.float32)
    gradient = np.zeros((3, 4, 5), np.float32)
    value[0, 1, 2], gradient[2, 0, 0], gradient[0, 1, 2] = np.nan, np.inf, np.nan
    view = View(inspect(Pair(value, gradient)))

    def find(*index: int, **more: Any) -> Any:
        (answer,) = view.say(kind="find", index=list(index), **more)
        return answer["meta"]["place"]

    assert find(0, 0, 0) == [0, 1, 2]
    assert find(0, 1, 2) == [2, 0, 0]
    assert find(2, 0, 0) == [0, 1, 2]
    assert find(0, 1, 2, step=-1) == [2, 0, 0]
    assert find(2, 3, 4, step=-1) == [2, 0, 0]
    assert find(0, 1, 2, inclusive=True) == [0, 1, 2]
    finite = View(inspect(np.zeros((2, 2))))
    assert finite.say(kind="find", index=[0, 0])[0]["meta"]["place"] is None


@pytest.mark.parametrize(
    "request_",
    [
        {"kind": "element"},
        {"kind": "element", "index": None},
        {"kind": "element", "index": [0]},
        {"kind": "element", "index": [0, 0, 0]},
        {"kind": "element", "index": [5, 0]},
        {"kind": "element", "index": [-1, 0]},
        {"kind": "element", "index": [0.0, 0]},
        {"kind": "element", "index": [True, 0]},
        {"kind": "element", "index": [10**30, 0]},
        {"kind": "element", "index": "00"},
        {"kind": "element", "index": {"0": 0}},
        {"kind": "find", "index": [0, "0"]},
        {"kind": "slice", "index": [0]},
        {"kind": "slice", "index": [0, 99]},
        {"kind": "slice", "index": [0, 0], "window": [0, 0, 1]},
        {"kind": "slice", "index": [0, 0], "window": [0, 0, -1, 5]},
        {"kind": "slice", "index": [0, 0], "window": [0, 0, 1e9, 5]},
        {"kind": "slice", "index": [0, 0], "window": "all"},
        {"kind": "slice", "index": [0, 0], "window": [90, 90, 5, 5]},
        {"kind": "refresh"},
        {"kind": "close"},
    ],
)
def test_requests_that_make_no_sense_are_ignored(request_: dict[str, Any]) -> None:
    assert View(inspect(np.zeros((5, 5), np.float32))).say(**request_) == []


def test_a_window_that_is_partly_outside_is_cut() -> None:
    (frame,) = View(inspect(np.zeros((5, 5), np.float32))).say(
        kind="slice", index=[0, 0], window=[3, 2, 2**40, 2**40]
    )
    assert frame["meta"]["value"]["window"] == [3, 2, 2, 3]


def test_a_tensor_that_cannot_be_read_any_more_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    view = View(inspect(np.zeros((300, 300), np.float32)))

    def gone(*args: Any, **options: Any) -> Any:
        raise SlangLabError("This tensor lives on a device that was closed.", hint="make it again")

    for name in ("picture", "elements", "nonfinite"):
        monkeypatch.setattr(summaries, name, gone)
    for request_ in (
        {"kind": "slice", "index": [0, 0]},
        {"kind": "element", "index": [0, 0]},
        {"kind": "find", "index": [0, 0]},
    ):
        (answer,) = view.say(**request_)
        assert answer["kind"] == "trouble"
        assert "a device that was closed" in answer["meta"]["text"]


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (np.zeros((3, 4)), "picture"),
        (np.zeros((2, 3, 4)), "picture"),
        (np.zeros(5), "line"),
        (np.array(3.0), "scalar"),
        (np.zeros((0, 3)), "empty"),
        (np.zeros((2, 0)), "empty"),
        (np.zeros(3, [("a", "f4"), ("b", "i4")]), "other"),
    ],
)
def test_the_form_follows_the_shape(value: NDArray[Any], form: str) -> None:
    inspector = inspect(value)
    assert inspector.info["form"] == form
    json.dumps(inspector.info, allow_nan=False)
    data, _ = inspector._repr_mimebundle_()
    assert ("image/png" in data) == (form in ("picture", "line"))
    View(inspector).say(kind="ready")


def test_info_is_small_and_plain(rng: np.random.Generator) -> None:
    value = rng.normal(size=(500, 500)).astype(np.float32)
    value[0, 0], value[0, 1] = np.nan, np.inf
    inspector = inspect(Pair(value, np.full((500, 500), np.nan, np.float32)), "w <b>")
    text = json.dumps(inspector.get_state(), allow_nan=False, default=str)
    assert len(text) < 4000
    info = inspector.info
    assert (info["version"], info["name"], info["shape"]) == (1, "w <b>", [500, 500])
    wide = value.astype(np.float64)[np.isfinite(value)]
    assert info["value"]["mean"] == pytest.approx(wide.mean(), rel=1e-6, abs=1e-8)
    assert (info["value"]["nan"], info["value"]["posinf"]) == (1, 1)
    assert info["gradient"]["minimum"] is None
    assert info["limit"] == 0.0


def test_axes_and_channels() -> None:
    def axes(*shape: int) -> list[Any]:
        info = inspect(np.zeros(shape, np.float32)).info
        return [
            info["axes"]["row"],
            info["axes"]["col"],
            info["axes"]["channel"],
            info["components"],
            info["image"],
        ]

    assert axes(6, 7) == [0, 1, None, 1, False]
    assert axes(5, 6, 7) == [1, 2, None, 1, False]
    assert axes(6, 7, 3) == [0, 1, 2, 3, True]
    assert axes(9) == [None, 0, None, 1, False]
    assert not inspect(np.full((6, 7, 3), 1.5, np.float32)).info["image"]


def test_an_image_sends_its_colours() -> None:
    image = np.linspace(0, 1, 60, dtype=np.float32).reshape(4, 5, 3)
    view = View(inspect(image))
    (frame,) = view.say(kind="ready")
    assert (view.arrays(frame)["value.colors"] == image).all()


def test_the_output_has_widget_picture_and_text() -> None:
    inspector = inspect(np.eye(3, dtype=np.float32), "eye")
    data, metadata = inspector._repr_mimebundle_()
    assert set(data) == {"application/vnd.jupyter.widget-view+json", "image/png", "text/plain"}
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == inspector.model_id
    assert base64.b64decode(data["image/png"])[:4] == b"\x89PNG"
    assert metadata["image/png"] == {"width": 220, "height": 233}
    assert data["text/plain"].startswith("eye: float32 (3, 3)")
    assert "[0., 1., 0.]" in data["text/plain"]


def test_without_a_bundle_the_still_picture_stands_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "bundle", lambda name: None)
    data, _ = inspect(np.eye(3))._repr_mimebundle_()
    assert set(data) == {"image/png", "text/plain"}


def test_a_small_tensor_is_written_out_whatever_its_axes(rng: np.random.Generator) -> None:
    for shape in ((2, 3, 4), (2, 2, 2, 3), (3,), (), (1, 1)):
        value = rng.integers(0, 9, shape).astype(np.float32)
        text = inspect(Pair(value, value + 1)).text
        numbers = text.split("value:")[1].split("gradient:")
        for part, array in zip(numbers, (value, value + 1), strict=True):
            found = part.replace("[", " ").replace("]", " ").replace(",", " ").split()
            assert [float(x) for x in found] == array.ravel().tolist()
    assert "value:" not in inspect(np.zeros(65)).text


def test_refresh_shows_what_the_tensor_holds_now() -> None:
    value = np.zeros((4, 4), np.float32)
    inspector = inspect(value)
    view = View(inspector)
    view.say(kind="ready")
    before = inspector._repr_mimebundle_()[0]
    value[:] = np.arange(16).reshape(4, 4)
    inspector.refresh()
    assert inspector.info["value"]["maximum"] == 15
    assert (view.arrays(view.messages[-1])["value.mean"] == value).all()
    after = inspector._repr_mimebundle_()[0]
    assert before["image/png"] != after["image/png"]
    assert before["text/plain"] != after["text/plain"]


def test_frames_wait_for_the_view() -> None:
    value = np.zeros((4, 4), np.float32)
    inspector = inspect(value)
    view = View(inspector)
    inspector._handle_custom_msg({"kind": "ready"}, [])
    for k in range(1, 6):
        value[:] = k
        inspector.refresh()
    assert len(view.messages) == 1
    inspector._handle_custom_msg({"kind": "ack", "seq": view.messages[0]["seq"]}, [])
    assert len(view.messages) == 2
    assert view.arrays(view.messages[1])["value.mean"].max() == 5


def test_close_lets_go_of_the_tensor() -> None:
    value = np.zeros((4, 4), np.float32)
    inspector = inspect(value)
    inspector._repr_mimebundle_()
    alive, tensor = weakref.ref(inspector), weakref.ref(value)
    inspector.close()
    with pytest.raises(SlangLabError, match="closed"):
        inspector.refresh()
    del value
    gc.collect()
    assert tensor() is None
    del inspector
    gc.collect()
    assert alive() is None


def test_whole_numbers_only() -> None:
    assert wire.naturals([0, 5], 2) == (0, 5)
    for bad in ([1], [1, 2, 3], (1, 2), "12", [1, -2], [1, 2.0], [True, 1], [None, 1], [1, 2**53]):
        assert wire.naturals(bad, 2) is None


# ----- views that open by themselves -----


def shell(cell: str, execution: str, **names: Any) -> SimpleNamespace:
    return SimpleNamespace(
        parent_header={"metadata": {"cellId": cell}, "header": {"msg_id": execution}}, user_ns=names
    )


def open_inspectors() -> int:
    from ipywidgets.widgets import widget as module

    return sum(isinstance(w, TensorInspector) for w in dict(module._instances).values())


def test_a_cell_that_runs_again_closes_what_it_showed_before() -> None:
    before = open_inspectors()
    value = np.zeros((4, 4), np.float32)
    for run in range(5):
        for _ in range(2):
            data, _ = automatic.mimebundle(value, shell("a", f"run {run}", _=value, x=value))
            assert data["text/plain"].startswith("x: ")
        assert open_inspectors() == before + 2
    automatic.mimebundle(value, shell("b", "run 9"))
    assert open_inspectors() == before + 3
    ipywidgets.Widget.close_all()


def test_a_shell_without_cells_is_enough() -> None:
    for plain in (
        None,
        SimpleNamespace(),
        SimpleNamespace(parent_header={}),
        SimpleNamespace(parent_header=3),
    ):
        assert "text/plain" in automatic.mimebundle(np.zeros(3), plain)[0]


def test_a_tensor_that_cannot_be_read_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*args: Any, **options: Any) -> Any:
        raise SlangLabError("The device is closed.", hint="make the tensor again")

    monkeypatch.setattr(summarising, "begun", gone)
    data, _ = automatic.mimebundle(np.zeros(3))
    assert set(data) == {"text/plain"}
    assert "The device is closed." in data["text/plain"]


def test_names() -> None:
    value = np.zeros(3)
    assert automatic.name_of(value, {"_": value, "_3": value, "y": value.copy(), "x": value}) == "x"
    assert automatic.name_of(value, {"_": value}) == ""


class Events:
    """The events of a shell."""

    def __init__(self) -> None:
        self.callbacks: list[Any] = []

    def register(self, _name: str, callback: Any) -> None:
        self.callbacks.append(callback)


def test_a_view_that_is_held_goes_with_its_last_output(monkeypatch: pytest.MonkeyPatch) -> None:
    from slanglab.widgets import inspector as module

    events = Events()
    current: dict[str, Any] = {}
    monkeypatch.setattr(module, "get_ipython", lambda: current["shell"])

    def run(cell: str, execution: str, *views: TensorInspector) -> None:
        current["shell"] = shell(cell, execution)
        current["shell"].events = events
        for view in views:
            view._repr_mimebundle_()
        for callback in events.callbacks:
            callback(None)

    one, two, three = (inspect(np.zeros(3)) for _ in range(3))
    run("a", "1", one, two)
    run("a", "2", one, two)
    assert one.comm is not None
    assert two.comm is not None
    run("b", "3", two)
    run("a", "4", three)
    assert len(events.callbacks) == 1
    # The second is still shown by the other cell.
    assert one.comm is None
    assert two.comm is not None
    run("b", "5", three)
    assert two.comm is None
    assert three.comm is not None
    three.close()


def test_what_the_host_has_closed_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    value = np.zeros(3)
    view = inspect(value)
    view.comm._closed = True
    inspect(value).close()
    assert view.comm is None


def test_NB_02_a_hundred_runs_leave_nothing_alive() -> None:
    alive: list[weakref.ref[TensorInspector]] = []
    value = np.zeros((4, 4), np.float32)
    ipywidgets.Widget.close_all()
    before = len(dict(module_instances()))
    for run in range(100):
        automatic.mimebundle(value, shell("hundred", f"run {run}"))
        alive += [weakref.ref(w) for w in dict(module_instances()).values() if isinstance(w, TensorInspector)]
    automatic.mimebundle(value, shell("hundred", "the last"))
    gc.collect()
    assert len(alive) == 100
    assert [r for r in alive if r() is not None] == []
    # The inspector that is shown, and its layout.
    assert len(dict(module_instances())) == before + 2


def module_instances() -> Any:
    from ipywidgets.widgets import widget as module

    return module._instances
