"""The worker engine: what it computes is what the notebook's own engine computes, for every kind of argument."""

import inspect
import json
import os
import signal
import time

import numpy as np
import pytest
import slangpy as spy

import slanglab as sl
from slanglab import remote
from slanglab.cells.session import Request
from slanglab.engine.dispatch import ValueWarning
from slanglab.errors import DeviceGoneError
from slanglab.remote.frames import FrameError
from slanglab.remote.values import Decoder, Encoder
from slanglab.tensors import dlpack

SOURCE = """
import slangpy;
import sgl.device.print;

struct Spring { float k; float length; };

/// A quadratic: größer als nichts.
[Differentiable]
float square(float x, float scale = 1.0) { return scale * x * x; }

float3 turned(float3 v) { return v.zxy; }
float dotted(float2x2 m) { return m[0][0] + 2 * m[0][1] + 3 * m[1][0] + 4 * m[1][1]; }
Spring made(float k) { Spring s; s.k = k; s.length = 2 * k; return s; }
float energy(Spring s) { return s.k * s.length; }
void split(float x, out float half_of, inout float total) { half_of = x / 2; total += x; }
int counted(int i) { return i; }

[Differentiable]
void by_index(int i, IDiffTensor<float, 1> x, IWDiffTensor<float, 1> y) { y[i] = 3 * x[i] * x[i]; }

int talk(int i) { print("i is {}", i); return i; }
"""


@pytest.fixture(scope="module")
def lab(_own_settings):
    lab = remote.use(lambda: {"guard": "off"})
    yield lab
    remote.leave()


@pytest.fixture(scope="module")
def m(lab):
    return sl.compile(SOURCE, "m")


def test_values_and_gradients(m):
    numbers = np.linspace(-2, 2, 37, dtype=np.float32)
    x = sl.tensor(numbers, grad=True)
    y = m.square(x, scale=3.0, _result="tensor")
    np.testing.assert_allclose(y.to_numpy(), 3 * numbers**2, rtol=1e-6)
    y = y.with_grads()
    y.grad.copy_from_numpy(np.full(37, 0.5, np.float32))
    m.square.bwds(x, scale=3.0, _result=y)
    np.testing.assert_allclose(x.grad.to_numpy(), 0.5 * 6 * numbers, rtol=1e-6)
    m.square.bwds(x, scale=3.0, _result=y)
    np.testing.assert_allclose(x.grad.to_numpy(), 6 * numbers, rtol=1e-6)
    x.grad.clear()
    assert not x.grad.to_numpy().any()


def test_gradients_of_tensors_inside_a_function(m):
    numbers = np.arange(5, dtype=np.float32)
    x, y = sl.tensor(numbers, grad=True), sl.zeros(5, grad=True)
    m.by_index(spy.grid(x.shape), x, y)
    y.grad.copy_from_numpy(np.ones(5, np.float32))
    m.by_index.bwds(spy.grid(x.shape), x, y)
    np.testing.assert_array_equal(y.to_numpy(), 3 * numbers**2)
    np.testing.assert_array_equal(x.grad.to_numpy(), 6 * numbers)


@pytest.mark.parametrize("count", [1, 100, 20_000, 1_000_003])
def test_arrays_of_every_size_go_both_ways(m, count):
    numbers = np.random.default_rng(count).uniform(-1, 1, count).astype(np.float32)
    np.testing.assert_array_equal(sl.tensor(numbers).to_numpy(), numbers)
    found = m.square(numbers, _result="numpy")
    np.testing.assert_array_equal(found, numbers * numbers)
    doubles = np.empty((count, 2))[:, 0]  # strided, and of another type
    doubles[:] = numbers
    np.testing.assert_array_equal(m.square(doubles, _result="numpy"), numbers * numbers)


def test_small_values_go_by_value(m):
    assert m.square(3.0) == 9.0
    assert isinstance(m.square(np.float32(3)), float)
    assert tuple(m.turned(spy.float3(1, 2, 3))) == (3.0, 1.0, 2.0)
    assert m.dotted(spy.float2x2([1, 2, 3, 4])) == 30.0
    assert m.made(2.0) == {"k": 2.0, "length": 4.0}
    assert m.energy({"k": 2.0, "length": 4.0}) == 8.0
    result = sl.zeros(4, dtype="int")
    m.counted(spy.grid((4,)), _result=result)
    np.testing.assert_array_equal(result.to_numpy(), [0, 1, 2, 3])
    assert np.isinf(m.square(float("inf")))
    assert np.isnan(m.square(float("nan")))


@pytest.mark.parametrize(
    "value",
    [
        spy.grid((4, 5), offset=(2, 1), stride=(3, 2)),
        spy.thread_id(2),
        spy.call_id(3),
        spy.rand_float(0.25, 0.5, 2, 7, 3, False),
        spy.wang_hash(2, 7, 3, False),
        spy.floatDiffPair(1.5, 2.5),
    ],
    ids=lambda v: type(v).__name__,
)
def test_descriptions_of_arguments_arrive_whole(value):
    coded = json.loads(json.dumps(Encoder(lambda _: None)(value)))
    found = Decoder([], lambda _: None)(coded)
    assert type(found) is type(value)
    assert vars(found) == vars(value)


def test_what_is_no_value_is_refused():
    decode = Decoder([bytearray(4)], lambda _: None)
    for bad in (
        ["a", "|O", [1], [0], True],
        ["a", "<f4", [2], [0], True],
        ["T", "os.system"],
        ["?"],
        {},
        [],
        ["c", "Popen"],
    ):
        with pytest.raises(FrameError):
            decode(bad)


def test_results_are_written_into_arrays_and_references(m):
    x = np.arange(4, dtype=np.float32)
    half, total = np.zeros(4, np.float32), np.ones(4, np.float32)
    m.split(x, half, total)
    np.testing.assert_array_equal(half, x / 2)
    np.testing.assert_array_equal(total, 1 + x)
    np.testing.assert_array_equal(x, np.arange(4))
    half, total = spy.floatRef(0.0), spy.floatRef(1.0)
    m.split(5.0, half, total)
    assert (half.value, total.value) == (2.5, 6.0)


def test_what_is_filled_is_what_is_returned(m):
    y = sl.empty(2)
    assert m.square(sl.tensor([1.0, 2.0]), _result=y) is y


def test_modifiers(m):
    x = sl.tensor([1.0, 2.0])
    found = m.square.return_type(np.ndarray)(x)
    np.testing.assert_array_equal(found, [1, 4])
    rows = m.square.map((0,), (1,))(x, sl.tensor([1.0, 10.0, 100.0]))
    np.testing.assert_array_equal(rows.to_numpy(), [[1, 10, 100], [4, 40, 400]])
    assert m.square.map((0,), (1,)) is m.square.map((0,), (1,))
    assert m.square.bwds is m.square.bwds


def test_tensors_are_handed_to_other_libraries_and_taken_from_them(m):
    dlpack._said.clear()
    t = sl.tensor(np.arange(12.0).reshape(3, 4), dtype="float4")
    with pytest.warns(dlpack.CopyWarning, match="the worker process"):
        np.testing.assert_array_equal(np.from_dlpack(t), np.arange(12).reshape(3, 4))
    with pytest.raises(BufferError, match="copy=False"):
        np.from_dlpack(t, copy=False)

    class Foreign:
        def __dlpack__(self, **_):
            return np.arange(3).__dlpack__()

        def __dlpack_device__(self):
            return 1, 0

    assert sl.from_dlpack(Foreign()).to_numpy().tolist() == [0, 1, 2]


def test_tensors_as_they_are_seen(m):
    t = sl.tensor(np.arange(12.0).reshape(3, 4), grad=True)
    assert (tuple(t.shape), len(t), t.element_count, t.dtype.name) == ((3, 4), 3, 12, "float")
    np.testing.assert_array_equal(np.asarray(t), np.arange(12).reshape(3, 4))
    np.testing.assert_array_equal(t[1].to_numpy(), [4, 5, 6, 7])
    np.testing.assert_array_equal(t[:, 1:3].to_numpy(), np.arange(12).reshape(3, 4)[:, 1:3])
    np.testing.assert_array_equal(t.view((12,)).to_numpy(), np.arange(12))
    assert "3, 4" in repr(t)
    assert str(t) == str(np.arange(12.0).reshape(3, 4))
    sl.assign(t, 7)
    assert (t.to_numpy() == 7).all()
    with pytest.raises(sl.TensorError):
        sl.assign(t, np.zeros(5))
    data, metadata = t._repr_mimebundle_()
    assert data["text/plain"].splitlines()[0].startswith("float32 (3, 4)")
    assert data["image/png"].startswith("iVBOR")
    assert metadata["image/png"]["width"] > 0
    assert repr(sl.inspect(t)) == data["text/plain"]
    assert sl.summary(t).value.mean == 7


def test_makers(lab, m):
    np.testing.assert_array_equal(sl.full(3, 2.5).to_numpy(), [2.5] * 3)
    np.testing.assert_array_equal(sl.linspace(0, 1, 3).to_numpy(), [0, 0.5, 1])
    assert tuple(sl.empty((2, 3), dtype=m.Spring).shape) == (2, 3)
    ours, theirs = np.random.default_rng(5), np.random.default_rng(5)
    for _ in range(2):  # the generator goes on as if it had been asked here
        found = sl.random(4, seed=ours).to_numpy()
        np.testing.assert_array_equal(found, theirs.uniform(0, 1, 4).astype(np.float32))
    t = sl.tensor([1, 2], dtype=np.float16)
    np.testing.assert_array_equal(sl.tensor(t).to_numpy(), [1, 2])


def test_errors_are_those_of_the_other_engine(m):
    with pytest.raises(sl.CallError, match="no parameter Größe") as caught:
        m.square(Größe=1)
    assert caught.value.function == "m.square"
    with pytest.raises(sl.ArgumentError) as caught:
        m.counted(1.5)
    assert caught.value.argument == "i"
    with pytest.raises(AttributeError, match="squar"):
        m.sqare
    with pytest.raises(sl.TensorError):
        sl.zeros(-1)
    with pytest.raises(sl.CompileError) as caught:
        sl.compile("float f() { return 世界; }", "schlecht")
    assert caught.value.report is not None
    assert caught.value.diagnostics[0].line == 1
    with pytest.raises(sl.ArgumentError):
        m.square(None)


def test_what_cannot_be_sent_is_refused_here(m, device):
    own = spy.Tensor.from_numpy(device, np.ones(3, np.float32))
    with pytest.raises(TypeError, match="worker process"):
        m.square(own)
    with pytest.raises(TypeError, match="worker process"):
        m.square(object())
    assert m.square(2.0) == 4.0


def test_prints_and_warnings_come_back(m, capsys):
    m.talk(np.arange(2, dtype=np.int32))
    assert "i is 1" in capsys.readouterr().out
    with pytest.warns(ValueWarning, match="too large"):
        m.square(1e300)


def test_a_function_says_what_it_is(m):
    assert str(inspect.signature(m.square)) == "(x: float, scale: float = 1.0) -> float"
    assert "größer als nichts" in m.square.__doc__
    assert repr(m.square) == "<Slang function m.square: square(float x, float scale = 1.0) -> float>"
    assert "square" in dir(m)


def test_reports_and_checks_come_by_value(m):
    x = sl.tensor([1.0, 2.0], grad=True)
    m.square(x)
    run = sl.last_run()
    assert (run.function, run.mode) == ("m.square", "forward")
    with sl.timing():
        m.square(x)
        assert sl.last_run().device_ms > 0
    assert sl.gradcheck(m.square, x, scale=2.0).ok
    sl.sync()


def test_an_edit_is_seen_by_what_is_held(lab):
    held = sl.compile("float f(float x) { return x + 1; }", "edited").f
    assert held(1.0) == 2.0
    user = sl.compile("import edited; float g(float x) { return f(x) * 10; }", "user")
    sl.compile("float f(float x) { return x + 2; }", "edited")
    assert held(1.0) == 3.0
    assert user.g(1.0) == 30.0
    assert user.f(1.0) == 3.0


def test_objects_that_are_let_go_of_are_let_go_of_there(lab, m):
    sizes = []
    for _ in range(3):
        for _ in range(20):
            sl.zeros(1000)
        sizes.append(lab.engine.ask("count"))
    assert sizes[1] == sizes[2]


def test_a_dead_worker_is_told_of_and_replaced(lab, m):
    said = []
    lab.engine.say, before = said.append, lab.engine.say
    lab.engine.names = lambda: ["t"]
    t = sl.tensor([1.0, 2.0])
    square = m.square
    first = lab.engine.pid
    os.kill(first, signal.SIGKILL)
    end = time.monotonic() + 60
    while lab.engine.present and time.monotonic() < end:
        time.sleep(0.01)
    assert square(3.0) == 9.0
    assert lab.engine.pid != first
    assert "Gone with it: t." in said[0]
    with pytest.raises(DeviceGoneError):
        t.to_numpy()
    with pytest.raises(DeviceGoneError):
        square(t)
    assert "gone" in repr(t)
    assert square.bwds is not None
    assert m.turned(spy.float3(1, 2, 3)) == spy.float3(3, 1, 2)
    lab.engine.say = before
    lab.engine.names = list


def test_a_cell_that_imports_a_later_one_is_compiled_again(lab):
    lab.cells.run(Request("float base(float x) { return x; }", "first", label="first"))
    lab.cells.run(Request("float later(float x) { return 2 * x; }", "second", label="second"))
    lab.cells.run(Request("import second; float base(float x) { return later(x); }", "first", label="first"))
    lab.engine.say, before = (lambda text: None), lab.engine.say
    lab.engine.reset()
    lab.engine.say = before
    assert sl.compile("import first; float use(float x) { return base(x); }", "third").use(4.0) == 8.0
