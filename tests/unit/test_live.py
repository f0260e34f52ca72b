"""What a live plot tells its view, what it obeys, and what it leaves in a notebook."""

from __future__ import annotations

import io
import json
import math
import time
from typing import Any

import numpy as np
import pytest
from PIL import Image

import slanglab as sl
from slanglab.errors import ArgumentError, SlangLabError
from slanglab.tensors.sources import Arrays
from slanglab.training.running import Run
from slanglab.widgets import gate, live, live_train, transport
from slanglab.widgets.live import LivePlot
from slanglab.widgets.live_frames import MOST_NEW
from slanglab.widgets.progress_text import TextLine


@pytest.fixture(autouse=True)
def _bundle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "bundle", lambda name: "export default {}")


class View:
    """The browser's end of a plot: acknowledges at once, and keeps the points as the browser does."""

    def __init__(self, plot: LivePlot, *, silent: bool = False) -> None:
        self.plot, self.silent = plot, silent
        self.messages: list[dict[str, Any]] = []
        self.bytes = 0
        self.points: dict[int, float] = {}
        self.upto = 0
        self.gaps = 0
        plot.send = self._receive  # type: ignore[method-assign]

    def _receive(self, content: dict[str, Any], buffers: Any = None) -> None:
        self.bytes += len(json.dumps(content, allow_nan=False)) + sum(len(b) for b in buffers or [])
        arrays = {
            e["name"]: np.frombuffer(bytes(b), e["dtype"]).reshape(e["shape"])
            for e, b in zip(content["arrays"], buffers or [], strict=True)
        }
        self.messages.append({**content, "data": arrays})
        if content["kind"] == "points":
            meta = content["meta"]
            if meta["from"] == 0:
                self.points, self.upto = {}, 0
            self.gaps += meta["from"] != self.upto
            y = arrays["y"]
            x = arrays.get("x", np.arange(len(y)) + meta["from"])
            self.points.update(zip(x.astype(int).tolist(), y.tolist(), strict=True))
            self.upto = meta["to"]
        if "seq" in content and not self.silent:
            self.say(kind="ack", seq=content["seq"])

    def say(self, **content: Any) -> None:
        self.plot._handle_custom_msg(content, [])


def run_of(step: Any, plot: LivePlot, **options: Any) -> Run:
    run = Run(step, **{"name": "test", "params": {}, "steps": 10, "watcher": plot, **options})
    run._run()
    return run


def test_points_arrive_once_and_are_numpys(rng: np.random.Generator) -> None:
    plot = LivePlot()
    view = View(plot)
    losses = rng.normal(size=3000)
    run_of(lambda i: losses[i], plot, steps=3000)
    assert view.gaps == 0
    assert view.upto == 3000
    for step, y in view.points.items():
        assert y == losses[step]
    assert view.messages[-1]["meta"]["stopped"] == "done"


def test_bytes_grow_slowly() -> None:
    sizes = []
    for n in (20_000, 200_000):
        plot = LivePlot()
        view = View(plot)
        run_of(float, plot, steps=n)
        assert all(len(m["data"]["y"]) <= MOST_NEW for m in view.messages)
        assert view.upto == n
        assert view.points[n - 1] == n - 1
        sizes.append(view.bytes)
    assert sizes[1] < 20 * sizes[0] + 100_000
    assert sizes[1] < 16 * 200_000


def test_a_view_that_opens_late_gets_the_whole_thinned(rng: np.random.Generator) -> None:
    plot = LivePlot()
    view = View(plot, silent=True)
    losses = rng.normal(size=50_000)
    run_of(lambda i: losses[i], plot, steps=50_000)
    view.silent = False
    before = len(view.messages)
    view.say(kind="ready")
    whole = view.messages[before]
    assert (whole["meta"]["from"], whole["meta"]["to"]) == (0, 50_000)
    y = whole["data"]["y"]
    assert len(y) <= 4000
    assert y.min() == losses.min()
    assert y.max() == losses.max()
    assert np.array_equal(y, losses[whole["data"]["x"].astype(int)])


def test_a_silent_view_costs_a_frame_now_and_then() -> None:
    plot = LivePlot()
    view = View(plot, silent=True)
    run = run_of(float, plot, steps=100_000)
    seconds = run.history["time"][-1]
    assert len(view.messages) <= 3 + seconds / gate.GATE_SECONDS


def test_a_page_beside_a_gpu_may_draw_more(monkeypatch: pytest.MonkeyPatch) -> None:
    class Device:
        software = False

    class Tensor:
        shape, dtype = (2,), np.dtype(np.float32)

        def __init__(self, device: object) -> None:
            self.device = device

    monkeypatch.setattr(live.spy, "Device", Device)
    monkeypatch.setattr(live, "is_software", lambda device: device.software)
    gpu, software = Device(), Device()
    software.software = True
    for devices, share in [
        ([], live._PAGE_SHARE_BESIDE),
        ([gpu, gpu], live._PAGE_SHARE),
        ([gpu, software], live._PAGE_SHARE_BESIDE),
        ([gpu, "cpu"], live._PAGE_SHARE_BESIDE),
    ]:
        run = Run(float, name="test", params={}, steps=10)
        run.params = {f"p{i}": Tensor(device) for i, device in enumerate(devices)}
        assert live._page_share(run) == share


def test_frames_are_spaced_by_what_the_page_says_they_cost(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    plot = LivePlot()
    view = View(plot)
    clock = [50.0]
    monkeypatch.setattr(live.time, "monotonic", lambda: clock[0])
    plot.begin(Run(float, name="test", params={}, steps=10, watcher=plot))
    assert plot.spacing == 0
    clock[0] += 1000
    costs = rng.uniform(2, 15, 6)
    for n, cost in enumerate(costs, 1):
        view.say(kind="ack", seq=n, cost=float(cost))
        last = sorted(costs[max(0, n - 3) : n])
        assert plot.spacing == pytest.approx(1e-3 * last[(len(last) - 1) // 2] / live._PAGE_SHARE_BESIDE)
    before = plot.spacing
    for nonsense in ("1", None, -1, float("nan"), float("inf"), [3]):
        view.say(kind="ack", seq=1, cost=nonsense)
    assert plot.spacing == before
    for _ in range(3):
        view.say(kind="ack", seq=1, cost=1e6)
    assert plot.spacing == live._LONGEST
    # A run that has just begun is looked at more closely, whatever that costs.
    plot.begin(Run(float, name="next", params={}, steps=10, watcher=plot))
    assert plot.spacing == 0
    clock[0] += 1.0
    assert plot.spacing == pytest.approx(live._AGE_SHARE)


def test_a_slow_page_gets_few_frames_and_the_last_one() -> None:
    plot = LivePlot()
    view = View(plot)
    plot._drawing = [10.0] * 3
    run = run_of(lambda i: time.sleep(1e-3) or float(i), plot, steps=1500)
    seconds = run.history["time"][-1]
    # They are a fifth of the run's age apart, a second at most: beside the first 50 ms, five each time that its age is e-fold.
    most = 5 * np.log(max(min(seconds, 5.0), 0.05) / 0.05) + max(0.0, seconds - 5.0)
    assert len(view.messages) <= most + 6
    assert view.upto == 1500
    assert view.messages[-1]["meta"]["stopped"] == "done"


def test_controls_and_rate() -> None:
    plot = LivePlot()
    view = View(plot)
    pair = Arrays(np.zeros(2), np.zeros(2))

    class Nothing:
        def __init__(self) -> None:
            self.lr = 0.1
            self.params = {"w": pair}

        def zero_grad(self) -> None: ...

        def step(self) -> None: ...

    def step(i: int) -> float:
        if i == 5:
            for wrong in (math.nan, -1.0, "1", None, True):
                view.say(kind="rate", rate=wrong)
            view.say(kind="rate", rate=0.25)
        if i == 8:
            view.say(kind="control", do="explode", run=1)
            view.say(kind="control", do="stop", run=99)
        if i == 20:
            view.say(kind="control", do="stop", run=1)
        return 1.0

    run = run_of(step, plot, steps=1000, optimizer=Nothing(), params={"w": pair})
    assert run.stopped == "stopped"
    assert run.done == 21
    assert run.history["learning_rate"].tolist() == [0.1] * 6 + [0.25] * 15


def test_a_kept_state_is_told() -> None:
    plot = LivePlot()
    view = View(plot)
    view.say(kind="ready")
    w = Arrays(np.ones(3), np.zeros(3))

    def step(i: int) -> float:
        w.gradient[...] = 2.0  # type: ignore[index]
        w.value[...] = i
        return float(i)

    run_of(step, plot, params={"w": w}, show={"w": w}, steps=50)
    view.say(kind="look", state=0)
    told = [m for m in view.messages if m["kind"] == "state"]
    assert told[0]["meta"]["step"] == 0
    assert told[0]["meta"]["loss"] is None
    for wrong in (-1, 99, "0", None, True):
        view.say(kind="look", state=wrong)
        view.say(kind="restore", state=wrong)
    assert len([m for m in view.messages if m["kind"] == "state"]) == 1
    view.say(kind="restore", state=0)
    assert np.array_equal(w.value, np.ones(3))
    assert view.messages[-1]["kind"] == "note"


def test_a_new_run_begins_a_new_curve() -> None:
    plot = LivePlot()
    view = View(plot)
    run_of(float, plot, steps=20)
    run_of(lambda i: -float(i), plot, steps=30)
    assert plot.info["run"] == 2
    assert view.points == {i: -float(i) for i in range(30)}


def test_what_is_not_finite_is_told() -> None:
    plot = LivePlot()
    view = View(plot)
    w = Arrays(np.zeros(3), np.zeros(3))

    def step(i: int) -> float:
        w.gradient[...] = [1, np.nan if i == 3 else 1, 1]  # type: ignore[index]
        return 1.0

    run_of(step, plot, params={"w": w}, check_every=1)
    meta = view.messages[-1]["meta"]
    assert meta["trouble"]["title"] == "NaN at step 3: w.grad[1]."
    assert meta["params"]["w"] == {
        "norm": "nan",
        "update": None,
        "bad": 1,
        "flag": {"kind": "not finite", "number": 1},
    }


def test_twins() -> None:
    plot = LivePlot()
    assert plot.text == "LivePlot: no run yet"
    View(plot)
    w = Arrays(np.zeros(3), np.zeros(3))

    def step(i: int) -> float:
        w.gradient[...] = [0.1, 1, 10]  # type: ignore[index]
        return 10.0 ** (-i / 10)

    run_of(step, plot, params={"w": w}, show={"image": np.eye(3)}, steps=40, name="<b>name</b>")
    data, metadata = plot.bundle()
    assert "text/html" not in data
    assert data["text/plain"].startswith("<b>name</b>: done at step 40 of 40\n  loss 1.000 to 1.259e-4")
    import base64

    image = Image.open(io.BytesIO(base64.b64decode(data["image/png"])))
    assert image.size == (1720, 2 * metadata["image/png"]["height"])
    figure = plot.figure()
    line = figure.axes[0].lines[0]
    np.testing.assert_allclose(line.get_ydata(), 10.0 ** (-np.arange(40) / 10))
    assert figure.axes[0].get_yscale() == "log"
    figure.canvas.draw()


@pytest.mark.parametrize(
    "losses", [[], [1.0], [math.nan], [1.0, math.nan], [5.0] * 9, [-1.0, 0.0, 1.0], [1e300, 1e-300]]
)
def test_twins_of_odd_runs(losses: list[float]) -> None:
    plot = LivePlot()
    View(plot)
    run_of(lambda i: losses[i], plot, steps=len(losses))
    data, _ = plot.bundle()
    assert data["text/plain"]
    plot.figure().canvas.draw()


def test_train_without_a_notebook(capsys: pytest.CaptureFixture[str]) -> None:
    run = sl.train(lambda: 1.0, steps=5)
    assert run.stopped == "done"
    assert sl.last_training() is run
    assert capsys.readouterr().err == ""
    numbers = []
    sl.train(lambda i: numbers.append(i) or 1.0, steps=3)
    assert numbers == [0, 1, 2]


def test_a_terminal_gets_a_line() -> None:
    stream = io.StringIO()
    run = Run(float, name="fit", params={}, steps=1000, watcher=TextLine(stream))
    run._run()
    last = stream.getvalue().split("\r")[-1]
    assert last.startswith("fit 1000/1000  loss 999.0")
    assert last.endswith("done\n")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"step": 3}, "function that does one step"),
        ({"interrupt": "no"}, "'return' or 'raise'"),
        ({"optimizer": object()}, "no step"),
        ({"params": ["text"]}, "no tensor"),
        ({"show": [np.zeros(2)] * 7}, "six|6 pictures"),
        ({"keep": -1}, "0 states or more"),
        ({"check_every": 0}, "every step or less"),
        ({"look_share": 0}, "above 0 and at most 1"),
        ({"look_share": float("nan")}, "above 0 and at most 1"),
        ({"steps": -1}, "0 steps or more"),
    ],
)
def test_arguments_that_cannot_be_used(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        sl.train(**{"step": lambda i: 1.0, "plot": False, **options})


def test_interrupt_that_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    import os
    import signal

    def step(i: int) -> float:
        if i == 4:
            os.kill(os.getpid(), signal.SIGINT)
        return 1.0

    with pytest.raises(KeyboardInterrupt):
        sl.train(step, steps=1000, plot=False, interrupt="raise")
    run = sl.last_training()
    assert run is not None
    assert run.stopped == "interrupted"
    assert run.done < 1000


def test_figure_before_a_run() -> None:
    with pytest.raises(SlangLabError, match="no run"):
        LivePlot().figure()


def test_steps_take_their_loss(rng: np.random.Generator) -> None:
    for i in (run := sl.steps(5, plot=False)):
        run.log(i * 2.0)
    assert run.history["loss"].tolist() == [0, 2, 4, 6, 8]
    assert live_train.last_training() is run
