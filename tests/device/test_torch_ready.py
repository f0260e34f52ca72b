"""Calls with torch tensors like earlier ones, which are launched at once on torch's own memory."""

import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is an extra")

import slanglab  # noqa: E402
from slanglab import waiting  # noqa: E402
from slanglab.engine.dispatch import GradientWarning  # noqa: E402
from slanglab.engine.straight import bare  # noqa: E402
from slanglab.engine.straight.arguments import Refusal  # noqa: E402
from slanglab.errors import CallError  # noqa: E402
from slanglab.machine import addresses  # noqa: E402
from slanglab.torch import ready  # noqa: E402

SOURCE = """
[Differentiable] float f(float x, float w) { return w * x * x + x; }
[Differentiable] float polynomial(float a, float b, float c, float x) { return a * x * x + b * x + c; }
[Differentiable] float3 turned(float3 v, float s) { return v.zxy * s; }
[Differentiable] float swirl(float2 p, float t) { return sin(p.x * t) + p.y * p.y; }
[Differentiable] double exact(double x, double w) { return w * x * x * x; }
[Differentiable] float picked(float x, no_diff int n) { return n > 2 ? x * x : 3 * x; }
[Differentiable] float2 pair(float x, float y) { return float2(x * y, x - y); }
bool above(float x, float y) { return x > y; }
int counted(int n, float x) { return n + int(x > 0); }
float plain(float x) { return 2 * x; }
"""
LARGE = (1 << 14) + 3


@pytest.fixture
def direct(device):
    """Skip where the device does not see torch's memory."""
    where = "cuda" if device.info.type.name == "cuda" and torch.cuda.is_available() else "cpu"
    if where == "cpu" and not bare.shares_addresses(device):
        pytest.skip("no kernel of this device reads torch's memory")
    return where


@pytest.fixture
def soon(monkeypatch):
    """Make kernels at the second call of a kind, whatever its size."""
    monkeypatch.setattr(ready, "_USES_SMALL", 1)
    monkeypatch.setattr(ready, "_USES_LARGE", 1)


@pytest.fixture
def m(device, direct, soon):
    return slanglab.compile(SOURCE, "torch_ready")


def path():
    """Return the way that the last call went."""
    return slanglab.last_run().path


def is_ready(result):
    """Tell whether a result comes from such a call, by its node in torch's graph."""
    return "Through" not in result.grad_fn.name()


def kinds(function):
    """Return what is known of a function's calls."""
    (target,) = function.targets()
    known = target.beside.get("torch ready")
    return [] if known is None else list(known._kinds.values())


def test_small_calls_are_ready_at_the_ninth(device, direct):
    m = slanglab.compile(SOURCE, "torch_ready_ninth")
    x = torch.randn(5, device=direct, requires_grad=True)
    for i in range(12):
        y = m.f(x, 2.0)
        assert is_ready(y) == (i >= 8), i
        assert torch.allclose(y, 2 * x * x + x, atol=1e-5)
        (g,) = torch.autograd.grad(y.sum(), x)
        assert torch.allclose(g, 4 * x + 1, atol=1e-5)
    assert path() == "straight"
    assert slanglab.last_run().mode == "backward"


def test_large_calls_are_ready_at_the_third(device, direct):
    from slanglab.engine.plans import least

    m = slanglab.compile(SOURCE, "torch_ready_third")
    for i in range(4):
        y = m.f(torch.randn(least(device), device=direct, requires_grad=True), 2.0)
        assert is_ready(y) == (i >= 2), i
        assert y.shape == (least(device),)


def test_large_calls_after_small_ones_are_ready_at_once(device, direct):
    from slanglab.engine.plans import least

    m = slanglab.compile(SOURCE, "torch_ready_mixed")
    for _ in range(3):
        assert not is_ready(m.f(torch.ones(5, device=direct, requires_grad=True), 2.0))
    x = torch.ones(least(device), device=direct, requires_grad=True)
    assert not is_ready(m.f(x, 2.0))
    assert is_ready(m.f(x, 2.0))


@pytest.mark.parametrize(
    "shapes",
    [((LARGE,), (LARGE,)), ((5,), (5,)), ((7, 3), (7, 3)), ((LARGE,), (1,)), ((6,), ()), ((2, 3), (1, 1)),
        ((300, 1), (7,)), ((5, 1), (400,)), ((40, 1), (1, 3)), ((20, 30), (30,)), ((6, 1, 1), (5, 4))],
)  # fmt: skip
def test_values_and_gradients_are_those_of_torch(m, direct, shapes, seed):
    torch.manual_seed(seed)
    for i in range(4):
        x, w = (torch.randn(s, device=direct, requires_grad=True) for s in shapes)
        y = m.f(x, w)
        given = torch.randn(y.shape, device=direct)
        found = torch.autograd.grad(y, (x, w), given)
        assert is_ready(y) == (i >= 1)
        p, q = (t.detach().double().requires_grad_() for t in (x, w))
        expected = q * p * p + p
        wanted = torch.autograd.grad(expected, (p, q), given.double())
        assert y.shape == expected.shape
        assert torch.allclose(y.double(), expected, rtol=1e-5, atol=1e-5)
        summed = w.numel() < y.numel() or x.numel() < y.numel()
        scale = float((given.double() * p * p).abs().sum()) if summed else 1.0
        for mine, theirs, t in zip(found, wanted, (x, w), strict=True):
            assert mine.shape == t.shape
            assert mine.dtype == t.dtype
            assert torch.allclose(mine.double(), theirs, rtol=1e-4, atol=1e-6 * scale + 1e-5)
    assert path() == "straight"


LAYER = """
[Differentiable] float unit(float x[5], float w[5], float b)
{
    float sum = b;
    [ForceUnroll] for (int k = 0; k < 5; ++k) sum += w[k] * x[k];
    return max(sum, 0.0);
}
"""


def test_a_layer_is_ready_whichever_there_is_more_of(device, direct, soon, seed):
    """Its units are columns; a call with more units than inputs has the same kind, and another kernel."""
    torch.manual_seed(seed)
    unit = slanglab.compile(LAYER, "torch_ready_layer").unit
    for turn, (n, units) in enumerate([(700, 4), (700, 4), (9, 300), (650, 3), (1, 40), (3000, 30)]):
        x = torch.randn(n, 1, 5, device=direct, requires_grad=True)
        w = torch.randn(units, 5, device=direct, requires_grad=True)
        b = torch.randn(units, device=direct, requires_grad=True)
        y = unit(x, w, b)
        given = torch.randn(y.shape, device=direct)
        found = torch.autograd.grad(y, (x, w, b), given)
        # With one input there are units alone: that is a call like those of any elementwise function.
        assert is_ready(y) == (turn >= 1 and n > 1), turn
        p, q, r = (t.detach().double().requires_grad_() for t in (x, w, b))
        expected = torch.relu(torch.nn.functional.linear(p[:, 0], q, r))
        kept = given.double() * ((y > 0) == (expected > 0))  # a unit may be on the other side of its kink
        wanted = torch.autograd.grad(expected, (p, q, r), kept)
        assert torch.allclose(y.double(), expected, rtol=1e-5, atol=1e-5)
        for mine, theirs in zip(found, wanted, strict=True):
            assert mine.shape == theirs.shape
            assert torch.allclose(mine.double(), theirs, rtol=1e-4, atol=1e-4 * (1 + n / 300)), turn


def test_a_layer_whose_other_way_round_does_not_compile_goes_the_way_of_all_calls(
    device, direct, soon, seed, monkeypatch
):
    torch.manual_seed(seed)
    unit = slanglab.compile(LAYER, "torch_ready_refused").unit

    def call(n, units):
        x, w = torch.randn(n, 1, 5, device=direct), torch.randn(units, 5, device=direct)
        b = torch.randn(units, device=direct, requires_grad=True)
        y = unit(x, w, b)
        expected = torch.relu(torch.nn.functional.linear(x[:, 0], w, b))
        assert torch.allclose(y, expected, rtol=1e-5, atol=1e-5)
        return is_ready(y)

    assert [call(700, 4), call(700, 4)] == [False, True]
    tried = []

    def refused(self, shape):
        tried.append(shape)
        raise Refusal("this one does not compile")

    for kind in bare.Bare.__subclasses__():
        monkeypatch.setattr(kind, "compile", refused)
    assert [call(9, 300), call(12, 400), call(650, 4)] == [False, False, True]
    assert tried == [(9, 300)]


def test_random_calls_before_and_after(m, direct, rng):
    """The same numbers the way of all calls, at once, and by numpy in double precision."""

    def number(low=-2.0, high=2.0):
        return float(rng.uniform(low, high))

    for _ in range(40):
        shape = tuple(int(n) for n in rng.integers(1, 9, size=int(rng.integers(1, 4))))
        x = rng.normal(size=shape).astype(np.float32)
        v = rng.normal(size=(*shape, 3)).astype(np.float32)
        p = rng.normal(size=(*shape, 2)).astype(np.float32)
        n = rng.integers(-5, 6, size=shape).astype(np.int32)
        a, b, c, t = (number() for _ in range(4))
        wide = [z.astype(np.float64) for z in (x, v, p)]
        cases = [
            (m.polynomial, (a, b, c, x), a * wide[0] ** 2 + b * wide[0] + c),
            (m.turned, (v, x), wide[1][..., [2, 0, 1]] * wide[0][..., None]),
            (m.turned, (v, t), wide[1][..., [2, 0, 1]] * t),
            (m.swirl, (p, t), np.sin(wide[2][..., 0] * t) + wide[2][..., 1] ** 2),
            (m.exact, (wide[0], t), t * wide[0] ** 3),
            (m.picked, (x, 3), wide[0] ** 2),
            (m.picked, (x, n), np.where(n > 2, wide[0] ** 2, 3 * wide[0])),
            (m.pair, (x, a), np.stack([wide[0] * a, wide[0] - a], -1)),
            (m.above, (x, 0.25), wide[0] > 0.25),
            (m.counted, (n, x), n + (x > 0)),
        ]
        for function, args, expected in cases:
            given = [torch.tensor(z, device=direct) if isinstance(z, np.ndarray) else z for z in args]
            first, second = function(*given), function(*given)
            # a bool of torch's takes one byte, and four on some devices
            assert path() == "straight" or function.name == "above", function
            assert torch.equal(first, second) or torch.allclose(first, second, rtol=1e-6)
            assert second.shape == expected.shape
            if expected.dtype == np.float64:
                np.testing.assert_allclose(second.double().cpu().numpy(), expected, rtol=3e-5, atol=3e-5)
            else:
                assert (second.cpu().numpy() == expected).all()


def _unlike(direct):
    x = torch.randn(8, device=direct)
    return {
        "strided": lambda f: f(torch.randn(16, device=direct)[::2], 2.0),
        "expanded": lambda f: f(torch.randn(1, device=direct).expand(8), 2.0),
        "another dtype": lambda f: f(x.double(), 2.0),
        "half": lambda f: f(x.half(), 2.0),
        "whole numbers": lambda f: f(torch.arange(8, device=direct), 2.0),
        "another rank": lambda f: f(x.reshape(2, 4), 2.0),
        "no elements": lambda f: f(torch.zeros(0, device=direct), 2.0),
        "a number that is none": lambda f: f(x, float("nan")),
        "an infinite number": lambda f: f(x, float("inf")),
        "too large a number": lambda f: f(x, 10**40),
        "an array": lambda f: f(x, np.float32(2)),
        "_result": lambda f: f(x, 2.0, _result=torch.zeros(8, device=direct)),
        "by name": lambda f: f(w=2.0, x=x),
    }


@pytest.mark.parametrize("what", list(_unlike("cpu")))
def test_unlike_calls_go_the_way_of_all(device, direct, what, recwarn):
    """Whatever the fast way does not take is as it was."""
    m = slanglab.compile(SOURCE, "torch_ready_unlike")
    for _ in range(10):
        m.f(torch.ones(8, device=direct), 2.0)
    (kind,) = [k for k in kinds(m.f) if k.kernel is not None]
    calls = []
    original, kind.forward = kind.forward, lambda *a: calls.append(a) or original(*a)
    try:
        m.f(torch.ones(8, device=direct), 2.0)
        assert len(calls) == 1
        torch.manual_seed(3)
        made = _unlike(direct)[what](m.f)
        assert made.shape[:1] in ((8,), (2,), (0,))
        assert len(calls) == 1
    finally:
        del kind.forward


def test_a_policy_is_kept_to(m, direct, control):
    x = torch.randn(9, device=direct)
    m.plain(x)
    m.plain(x)
    assert path() == "straight"
    control.change(path="slangpy")
    m.plain(x)
    assert path() == "slangpy"


def test_requires_grad_comes_and_goes(m, direct):
    """PT-05: a call without, with, without."""
    for asking in (False, True, False, True, True, False):
        x = torch.randn(6, device=direct, requires_grad=asking)
        y = m.polynomial(1.0, 2.0, 3.0, x)
        assert y.requires_grad == asking
        if asking:
            y.sum().backward()
            assert torch.allclose(x.grad, 2 * x.detach() + 2, atol=1e-5)
    x = torch.randn(6, device=direct, requires_grad=True)
    with torch.no_grad():
        assert not m.polynomial(1.0, 2.0, 3.0, x).requires_grad


@pytest.mark.parametrize("asking", [(True, False), (False, True), (True, True)])
def test_gradients_of_some_inputs_only(m, direct, asking, seed):
    torch.manual_seed(seed)
    for _ in range(4):
        x, w = (torch.randn(11, device=direct, requires_grad=a) for a in asking)
        m.f(x, w).sum().backward()
        if asking[0]:
            assert torch.allclose(x.grad, (2 * w * x + 1).detach(), atol=1e-4)
        if asking[1]:
            assert torch.allclose(w.grad, (x * x).detach(), atol=1e-4)
        assert (x.grad is None, w.grad is None) == tuple(not a for a in asking)


def _node(m, direct):
    x = torch.randn(6, device=direct, requires_grad=True)
    m.f(x, 2.0)
    y = m.f(x, 2.0)
    assert is_ready(y)
    return x, y


def test_a_change_in_place_is_noticed(m, direct):
    x, y = _node(m, direct)
    with torch.no_grad():
        x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_a_second_derivative_is_refused(m, direct):
    x, y = _node(m, direct)
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    with pytest.raises(CallError, match="cannot be differentiated again"):
        g.sum().backward()


def test_the_graph_is_kept_for_a_second_backward_call(m, direct):
    x, y = _node(m, direct)
    y.sum().backward(retain_graph=True)
    first = x.grad.clone()
    y.sum().backward()
    assert torch.allclose(x.grad, 2 * first)
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()


def test_results_that_have_no_gradient(m, direct):
    x = torch.randn(6, device=direct, requires_grad=True)
    with pytest.warns(GradientWarning, match="not \\[Differentiable\\]"):
        m.above(x, 0.0)
    for _ in range(3):
        assert not m.above(x, 0.0).requires_grad


def test_a_result_does_not_share_memory_with_anything(m, direct):
    x = torch.ones(6, device=direct)
    m.plain(x)
    first = m.plain(x)
    m.plain(5 * x)
    assert first.tolist() == [2] * 6
    first.zero_()
    assert m.plain(x).tolist() == [2] * 6


def test_gradcheck(m, direct):
    x = torch.randn(5, device=direct, dtype=torch.double, requires_grad=True)
    w = torch.randn((), device=direct, dtype=torch.double, requires_grad=True)
    m.exact(x, w)
    assert torch.autograd.gradcheck(m.exact, (x, w))
    assert is_ready(m.exact(x, w))


def test_threads(m, direct):
    """Each call has its own arguments, from whatever thread."""
    m.polynomial(1.0, 0.0, 0.0, torch.ones(64, device=direct))
    wrong = []

    def work(k):
        x = torch.full((64,), float(k), device=direct)
        for _ in range(50):
            if not torch.equal(m.polynomial(1.0, float(k), 0.0, x), x * x + k * x):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_memory_that_a_kernel_may_still_write_is_kept(m, device, direct, monkeypatch):
    """Interrupt ends the wait for a software renderer, which goes on to write."""
    if direct != "cpu":
        pytest.skip("on CUDA nothing waits")
    x = torch.ones(6)
    m.plain(x)
    before = len(bare._left)

    def interrupted(device):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(waiting, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            m.plain(x)
    waiting.wait(device)
    assert len(bare._left) == before + 1
    assert any(t is x for t in bare._left[-1])
    bare._left.pop()
    assert m.plain(x).tolist() == [2] * 6


def test_other_streams_of_cuda(m, direct):
    if direct != "cuda":
        pytest.skip("needs CUDA")
    x = torch.randn(1 << 20, device=direct)
    m.plain(x)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        y = m.plain(x.mul(3))
        total = (y - 6 * x).abs().max()
    torch.cuda.current_stream().wait_stream(stream)
    assert float(total) < 1e-5


def test_a_captured_graph_of_cuda(m, direct):
    if direct != "cuda":
        pytest.skip("needs CUDA")
    x = torch.ones(1000, device=direct)
    m.plain(x)
    m.plain(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = m.plain(x)
    x.fill_(4)
    graph.replay()
    assert y.tolist() == [8] * 1000


def test_addresses_are_compared_without_a_crash():
    array = np.arange(64, dtype=np.uint8)
    assert addresses.holds(array.ctypes.data, array.tobytes())
    assert not addresses.holds(array.ctypes.data, b"something else")
    assert not addresses.holds(0, b"x")
    assert not addresses.holds(2**63, b"x")
    assert not addresses.holds(2**70, b"x")


def test_functions_that_ask_for_their_group_stay_with_slangpy(device, direct, soon):
    m = slanglab.compile(
        "float grouped(float x) { return x + 0 * WaveGetLaneIndex(); }", "torch_ready_grouped"
    )
    x = torch.ones(6, device=direct)
    for _ in range(3):
        assert m.grouped(x).tolist() == [1] * 6
        assert path() == "slangpy"


def test_errors_of_torch_stay_what_they_are(m, direct):
    """Checkpoints end a call that they run again by an exception of their own, when all that is needed has been saved."""
    x = torch.randn(6, device=direct, requires_grad=True)
    for _ in range(4):
        y = torch.utils.checkpoint.checkpoint(lambda v: m.f(v, 2.0) * 3, x, use_reentrant=False)
        (g,) = torch.autograd.grad(y.sum(), x)
        assert torch.allclose(g, 12 * x + 3, atol=1e-4)

    class MineError(Exception):
        pass

    def refuse(tensor):
        raise MineError

    with torch.autograd.graph.saved_tensors_hooks(refuse, lambda t: t), pytest.raises(MineError):
        m.f(x, 2.0)


def test_default_values(device, direct, soon):
    m = slanglab.compile(
        "float f(float x, float w = 3.0, float c = 0.5) { return w * x + c; }", "torch_ready_defaults"
    )
    x = torch.ones(6, device=direct)
    for _ in range(4):
        assert m.f(x).tolist() == [3.5] * 6
        assert m.f(x, 2.0).tolist() == [2.5] * 6
        assert m.f(x, c=1.0).tolist() == [4.0] * 6
        assert m.f(x, 2.0, 1.0).tolist() == [3.0] * 6
        assert m.f(c=1.0, w=5.0, x=x).tolist() == [6.0] * 6


def test_modifiers(device, direct, soon):
    m = slanglab.compile("float f(float x, float w) { return w * x; }", "torch_ready_modifiers")
    x = torch.ones(6, device=direct)
    for _ in range(3):
        assert m.f(x, 2.0).tolist() == [2] * 6
        assert m.f.map(x=(0,))(x=x, w=3.0).tolist() == [3] * 6
        assert m.f.return_type("tensor")(x, 4.0).tolist() == [4] * 6


def test_transforms_of_torch_are_refused_later_too(m, direct):
    x = torch.ones(6, device=direct)
    for _ in range(3):
        m.plain(x)
    with pytest.raises(CallError, match="within a transform"):
        torch.func.vmap(m.plain)(x)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, x)
        with pytest.raises(CallError, match="forward-mode"):
            m.plain(dual)
    assert m.plain(x).tolist() == [2] * 6


def test_kinds_are_few(m, direct):
    """What is kept of a function's calls has a limit."""
    for n in range(1, 12):
        for rank in range(1, 8):
            m.f(torch.ones((1,) * (rank - 1) + (n,), device=direct), float(n))
    assert len(kinds(m.f)) <= ready._KEPT
