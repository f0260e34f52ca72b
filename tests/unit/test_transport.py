"""The gate that paces frames, the messages that go through it, and the widget around both."""

from __future__ import annotations

import asyncio
import gc
import json
import random
import threading
import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from slanglab.widgets import transport
from slanglab.widgets.gate import GATE_SECONDS, Frame, FrameGate, pack
from slanglab.widgets.transport import SlangWidget


class Clock:
    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


class Line:
    """A gate whose other end a test plays."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.sent: list[Frame] = []
        self.gate = FrameGate(self.sent.append, self.clock)

    def push(self, kind: str, n: int) -> bool:
        return self.gate.push(Frame({"kind": kind, "n": n}, []))

    def acknowledge_last(self) -> None:
        self.gate.acknowledge(self.sent[-1].content["seq"])

    @property
    def numbers(self) -> list[int]:
        return [frame.content["n"] for frame in self.sent]


def test_one_frame_in_flight_and_the_latest_wins() -> None:
    line = Line()
    assert line.push("a", 1)
    assert not any(line.push("a", n) for n in (2, 3, 4))
    assert line.numbers == [1]
    line.acknowledge_last()
    assert line.numbers == [1, 4]
    assert (line.gate.sent, line.gate.dropped) == (2, 2)
    assert not line.gate.open
    line.acknowledge_last()
    assert line.gate.open


def test_kinds_take_turns() -> None:
    line = Line()
    line.push("a", 1)
    for n in (2, 3):
        line.push("a", n)
        line.push("b", 10 * n)
    line.acknowledge_last()
    line.push("a", 4)
    line.acknowledge_last()
    line.acknowledge_last()
    assert line.numbers == [1, 3, 30, 4]


def test_a_lost_acknowledgement_opens_the_gate_after_its_time() -> None:
    line = Line()
    line.push("a", 1)
    line.clock.time += GATE_SECONDS * 0.99
    assert not line.push("a", 2)
    line.clock.time += GATE_SECONDS * 0.02
    assert line.push("a", 3)
    assert line.numbers == [1, 3]


def test_a_late_acknowledgement_of_an_older_frame_lets_nothing_through() -> None:
    line = Line()
    line.push("a", 1)
    line.clock.time += GATE_SECONDS
    line.push("a", 2)
    line.push("a", 3)
    line.gate.acknowledge(line.sent[0].content["seq"])
    assert line.numbers == [1, 2]


def test_a_gate_that_trusts_asks_now_and_then() -> None:
    line = Line()
    line.gate = FrameGate(line.sent.append, line.clock, trust=2.0)

    def asks() -> list[bool]:
        return ["seq" in frame.content for frame in line.sent]

    assert line.push("a", 0)
    assert not line.push("a", 1)  # the first one has to be answered
    line.acknowledge_last()
    for n in range(2, 5):
        line.clock.time += 0.4
        assert line.push("a", n)
    assert line.numbers == [0, 1, 2, 3, 4]
    assert asks() == [True, False, False, False, False]
    line.clock.time += 0.9
    assert line.push("a", 5)
    assert asks()[-1]
    # A view that does not answer gets no more until the gate opens by itself, and is asked again then.
    line.clock.time += 0.5
    assert not line.push("a", 6)
    line.clock.time += GATE_SECONDS
    assert line.push("a", 7)
    assert asks()[-1]


def test_a_gate_that_trusts_is_ten_frames_ahead_at_most() -> None:
    line = Line()
    line.gate = FrameGate(line.sent.append, line.clock, trust=2.0)
    for n in range(100):
        line.push("a", n)
        if n == 0:
            line.acknowledge_last()
    assert line.numbers == list(range(12))
    assert [n for n, frame in enumerate(line.sent) if "seq" in frame.content] == [0, 11]
    line.gate.reopen()  # a view has opened: it is asked, whenever the last one was
    assert "seq" in line.sent[-1].content
    assert line.numbers[-1] == 99


def test_flush_sends_what_waits() -> None:
    line = Line()
    line.push("a", 1)
    line.push("a", 2)
    line.push("b", 3)
    line.gate.flush()
    assert line.numbers == [1, 2, 3]
    line.gate.flush()
    assert line.numbers == [1, 2, 3]


def test_a_view_that_opens_is_served_although_another_went_without_a_word() -> None:
    line = Line()
    line.push("a", 1)
    line.push("a", 2)
    line.gate.reopen()
    assert line.numbers == [1, 2]


def test_the_gate_holds_with_many_threads() -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    flight = 0
    worst = 0
    lock = threading.Lock()
    queue: list[int] = []

    def send(frame: Frame) -> None:
        nonlocal flight, worst
        with lock:
            flight += 1
            worst = max(worst, flight)
            queue.append(frame.content["seq"])

    gate = FrameGate(send, Clock())
    done = threading.Event()

    def browser() -> None:
        nonlocal flight
        while not (done.is_set() and not queue):
            with lock:
                seq = queue.pop() if queue else None
                if seq is not None:
                    flight -= 1
            if seq is not None:
                gate.acknowledge(seq)

    def kernel(n: int) -> None:
        chance = random.Random(seed + n)
        for k in range(500):
            gate.push(Frame({"kind": chance.choice("abc"), "n": k}, []))

    view = threading.Thread(target=browser)
    view.start()
    writers = [threading.Thread(target=kernel, args=(n,)) for n in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    done.set()
    view.join()
    assert worst == 1
    assert gate.sent + gate.dropped == 2000


def test_arrays_are_copied_and_described() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    frame = pack("picture", {"x": 1}, {"mean": array, "flags": np.zeros((0, 3), np.uint8)})
    array[:] = -1
    assert np.frombuffer(frame.buffers[0], np.float32).tolist() == [0, 1, 2, 3, 4, 5]
    assert frame.content["arrays"] == [
        {"name": "mean", "dtype": "float32", "shape": [2, 3]},
        {"name": "flags", "dtype": "uint8", "shape": [0, 3]},
    ]
    assert len(frame.buffers[1]) == 0
    json.dumps(frame.content, allow_nan=False)


def test_strided_and_foreign_byte_order_arrays_are_sent_as_they_read() -> None:
    array = np.arange(12, dtype=">f4").reshape(3, 4)[::-1, ::2]
    frame = pack("picture", {}, {"a": array})
    assert np.frombuffer(frame.buffers[0], "<f4").tolist() == array.ravel().tolist()


def test_other_types_are_refused_by_name() -> None:
    with pytest.raises(TypeError, match="'a' is int64"):
        pack("picture", {}, {"a": np.zeros(3, np.int64)})


class Recorder(SlangWidget):
    """A widget that keeps what it sends, and counts requests."""

    _requests: Mapping[str, str] = {"look": "_look", "fail": "_fail"}

    def __init__(self) -> None:
        self.out: list[dict[str, Any]] = []
        self.looked: list[Any] = []
        self.threads: list[int] = []
        super().__init__()

    def send(self, content: dict[str, Any], buffers: Any = None) -> None:
        self.out.append(content)

    def _ready(self, known: object = None) -> None:
        self.push("picture", {}, {"a": np.zeros(3, np.float32)})

    def _look(self, content: Mapping[str, Any]) -> None:
        self.looked.append(content.get("at"))
        self.threads.append(threading.get_ident())

    def _fail(self, content: Mapping[str, Any]) -> None:
        raise ValueError("a request that cannot be served")


@pytest.fixture(autouse=True)
def _static(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Give the widgets of these tests a browser side, whether or not one was built."""
    if "bundle" not in request.node.name:
        monkeypatch.setattr(transport, "bundle", lambda name: "export default {}")


@pytest.fixture
def widget() -> Recorder:
    return Recorder()


def say(widget: SlangWidget, content: Any) -> None:
    """Bring a message the way ipywidgets does."""
    widget._handle_custom_msg(content, [])


def test_ready_and_acknowledgements(widget: Recorder) -> None:
    say(widget, {"kind": "ready"})
    assert widget.out[-1]["kind"] == "picture"
    seq = widget.out[-1]["seq"]
    assert not widget.push("picture", {})
    for wrong in (seq + 1, str(seq), None, True):
        say(widget, {"kind": "ack", "seq": wrong})
    assert len(widget.out) == 1
    say(widget, {"kind": "ack", "seq": seq})
    assert len(widget.out) == 2


def test_a_view_says_that_it_is_there_until_it_is_heard(widget: Recorder) -> None:
    for call in ("a", "a", "b", "a"):
        say(widget, {"kind": "ready", "call": call})
        if "seq" in widget.out[-1]:
            say(widget, {"kind": "ack", "seq": widget.out[-1]["seq"]})
    kinds = [(m["kind"], m["meta"].get("call")) for m in widget.out]
    assert kinds == [("heard", "a"), ("picture", None), ("heard", "b"), ("picture", None)]
    # One that is kept waiting by a frame that nobody will acknowledge is let in, and only once.
    widget.push("picture", {})
    widget.out.clear()
    say(widget, {"kind": "ready", "call": "c"})
    say(widget, {"kind": "ready", "call": "c"})
    assert [m["kind"] for m in widget.out] == ["heard", "picture"]


def test_greetings_are_not_kept_without_end(widget: Recorder) -> None:
    for n in range(1000):
        say(widget, {"kind": "ready", "call": str(n)})
    assert len(widget._calls) < 100
    widget.out.clear()
    # A name that cannot be one of ours is not repeated, nor kept; the view is answered.
    for wrong in ("x" * 1000, 7, None, ["a"], {}):
        say(widget, {"kind": "ready", "call": wrong})
    assert {m["kind"] for m in widget.out} == {"picture"}
    assert all(len(call) < 100 for call in widget._calls)


@pytest.mark.parametrize(
    "content",
    [
        None,
        3,
        "ready",
        [],
        {},
        {"kind": None},
        {"kind": ["ready"]},
        {"kind": "__class__"},
        {"kind": "close"},
        {"kind": "_fail"},
        {"kind": "fail"},
        {"kind": "ack"},
        {str(k): k for k in range(100)} | {"kind": "look"},
    ],
)
def test_what_is_not_understood_is_ignored(widget: Recorder, content: Any) -> None:
    say(widget, content)
    assert widget.out == []
    assert widget.looked == []
    assert widget.comm is not None


def test_a_frame_that_cannot_be_sent_does_not_raise(
    widget: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(content: Any, buffers: Any = None) -> None:
        raise OSError("the socket is closed")

    monkeypatch.setattr(widget, "send", broken)
    assert widget.push("picture", {})
    widget.tell("element", {})


def test_requests_of_other_threads_run_at_home_and_only_the_latest() -> None:
    async def main() -> Recorder:
        widget = Recorder()

        def browser() -> None:
            for k in range(50):
                say(widget, {"kind": "look", "at": k})

        thread = threading.Thread(target=browser)
        thread.start()
        # The kernel is busy: its loop does not turn while the cell runs.
        thread.join()
        assert widget.looked == []
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return widget

    widget = asyncio.run(main())
    assert widget.looked == [49]
    assert widget.threads == [threading.get_ident()]


def test_requests_at_home_run_at_once(widget: Recorder) -> None:
    say(widget, {"kind": "look", "at": 1})
    say(widget, {"kind": "look", "at": 2})
    assert widget.looked == [1, 2]


def test_the_browser_is_answered_on_the_shell_it_names() -> None:
    """Ipykernel 7.4.0 would route a click to the busy shell; the header's own subshell is taken instead."""
    widget = Recorder()
    comm = widget.comm
    if not hasattr(comm, "_reply_subshell_for"):
        # Plain Python has another comm, so the attribute is put there before a widget looks for it.
        comm_type = type(comm)
        comm_type._reply_subshell_for = lambda self, data, default: "the shell that sent last"
        try:
            comm = Recorder().comm
        finally:
            del comm_type._reply_subshell_for
    assert comm._reply_subshell_for({}, "subshell-7") == "subshell-7"


def test_saved_state_holds_no_array() -> None:
    widget = Recorder()
    widget.push("picture", {}, {"a": np.zeros(1000, np.float32)})
    state = widget.get_state()
    assert not [key for key, value in state.items() if isinstance(value, bytes | memoryview | np.ndarray)]
    json.dumps(state)


def test_close_leaves_nothing_alive() -> None:
    open_before = len(_open_widgets())
    widget = Recorder()
    widget.push("picture", {}, {"a": np.zeros(10, np.float32)})
    widget.push("picture", {}, {"a": np.zeros(10, np.float32)})
    assert len(_open_widgets()) > open_before
    alive = weakref.ref(widget)
    widget.close()
    widget.close()
    say(widget, {"kind": "look", "at": 1})
    assert widget.looked == []
    del widget
    gc.collect()
    assert alive() is None
    assert len(_open_widgets()) == open_before


def _open_widgets() -> dict[str, Any]:
    from ipywidgets.widgets import widget as module

    return dict(module._instances)


def test_a_missing_bundle_is_said_once_and_leaves_the_still_picture(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setattr(transport, "__file__", str(tmp_path / "slanglab" / "widgets" / "transport.py"))
    transport.bundle.cache_clear()
    try:
        with pytest.warns(UserWarning, match=r"still pictures only: nothing\.js was not built.*npm") as said:
            assert [transport.bundle("nothing") for _ in range(2)] == [None, None]
        assert len(said) == 1
        assert "\n" not in str(said[0].message)
    finally:
        transport.bundle.cache_clear()


def test_a_bundle_is_read_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    static = tmp_path / "slanglab" / "static"
    static.mkdir(parents=True)
    (static / "some.js").write_text("export default {}", encoding="utf-8")
    monkeypatch.setattr(transport, "__file__", str(tmp_path / "slanglab" / "widgets" / "transport.py"))
    transport.bundle.cache_clear()
    try:
        assert transport.bundle("some") == "export default {}"
        (static / "some.js").write_text("changed", encoding="utf-8")
        assert transport.bundle("some") == "export default {}"
    finally:
        transport.bundle.cache_clear()
