"""Gradients of calls with torch tensors: torch's own gradcheck, and plain torch in double precision."""

import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is an extra")


import slanglab  # noqa: E402
from slanglab.engine.dispatch import GradientWarning  # noqa: E402
from slanglab.engine.plans import least  # noqa: E402
from slanglab.errors import CallError  # noqa: E402

DOUBLES = """
import slangpy;
[Differentiable] double identity(double x) { return x; }
[Differentiable] double square(double x) { return x * x; }
[Differentiable] double cubic(double x) { return x * x * x - 2 * x; }
[Differentiable] double ratio(double x, double y) { return x / (y * y + 2.0L); }
[Differentiable] double product(double x, double y) { return x * y; }
[Differentiable] double three(double x, double y, double z) { return x * y + y * z - x * z * z; }
[Differentiable] double branch(double x) { return x > 0 ? x * x : -3 * x; }
[Differentiable] double nested(double x, double y) { if (x > y) { return x * y; } return x - 2 * y; }
[Differentiable] double power(double x) { double p = 1; [MaxIters(5)] for (int i = 0; i < 5; i++) p *= x; return p; }
[Differentiable] double series(double x)
{
    double s = 0, term = 1;
    [MaxIters(6)] for (int i = 1; i < 7; i++) { term = term * x / i; s += term; }
    return s;
}
[Differentiable] double inner(double x) { return x * x + 1; }
[Differentiable] double outer(double x) { return inner(inner(x)) * x; }
[Differentiable] double frozen(double x, no_diff double k) { return x * x * k; }
[Differentiable] double counted(double x, int n) { return x * x * n; }
[Differentiable] double chosen(double x, bool b) { return b ? x * x : x; }
[Differentiable] double dot2(double2 a, double2 b) { return a.x * b.x + a.y * b.y; }
[Differentiable] double norm3(double3 v) { return v.x * v.x + v.y * v.y + v.z * v.z; }
[Differentiable] double3 scaled(double3 v, double s) { return v * s * s; }
[Differentiable] double4 reversed(double4 v) { return double4(v.w, v.z * v.x, v.y, v.x * v.x); }
[Differentiable] double3 crossed(double3 a, double3 b)
{
    return double3(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x);
}
[Differentiable] double2x2 weighed(double2x2 m, double s) { return m * s; }
[Differentiable] double total(double2x2 m) { return m[0][0] * m[1][1] - m[0][1] * m[1][0]; }
[Differentiable] double summed(double v[3]) { return v[0] * v[1] + v[2]; }
[Differentiable] void pair(double x, out double y, out double z) { y = x * x; z = x * y; }
[Differentiable] double both(double x, double y, out double z) { z = x * y * y; return x + y * y; }
"""
FLOATS = """
import slangpy;
struct Spring : IDifferentiable { float k; float rest; };
[Differentiable] float pull(Spring s, float x) { return s.k * (x - s.rest); }
[Differentiable] float gathered(IDiffTensor<float, 1> t, int i) { return t[i] * t[i]; }
[Differentiable] float row(IDiffTensor<float, 2> t, int i) { return t[i, 0] * t[i, 1]; }
[Differentiable] float concrete(DiffTensor<float, 1> t, int i) { return 3 * t[i]; }
[Differentiable] T generic<T : __BuiltinFloatingPointType>(T x) { return x * x + x; }
struct Pair<T : __BuiltinFloatingPointType> : IDifferentiable { T first; T second; };
[Differentiable] float shared(float x, float w) { return w * x * x + w; }
"""


def doubles(*shape):
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


@pytest.fixture(scope="module")
def d(device):
    return slanglab.compile(DOUBLES, "torch_doubles")


@pytest.fixture(scope="module")
def f(device):
    return slanglab.compile(FLOATS, "torch_floats")


def _pair(m, x):
    y, z = torch.zeros_like(x), torch.zeros_like(x)
    assert m.pair(x, y, z) is None
    return y, z


def _both(m, x, y):
    z = torch.empty(x.shape, dtype=torch.float64)
    return m.both(x, y, z), z


CHECKED = {
    "identity": (lambda m, x: m.identity(x), [(5,)]),
    "square": (lambda m, x: m.square(x), [(5,)]),
    "square_matrix": (lambda m, x: m.square(x), [(2, 3)]),
    "square_single": (lambda m, x: m.square(x), [(1,)]),
    "square_scalar": (lambda m, x: m.square(x), [()]),
    "cubic": (lambda m, x: m.cubic(x), [(2, 2, 2)]),
    "ratio": (lambda m, x, y: m.ratio(x, y), [(5,), (5,)]),
    "ratio_shared": (lambda m, x, y: m.ratio(x, y), [(5,), (1,)]),
    "product_broadcast": (lambda m, x, y: m.product(x, y), [(3, 1), (1, 4)]),
    "product_rank": (lambda m, x, y: m.product(x, y), [(4,), (3, 4)]),
    "product_scalar": (lambda m, x, y: m.product(x, y), [(), (3,)]),
    "product_number": (lambda m, x: m.product(x, 2.5), [(3,)]),
    "three": (lambda m, x, y, z: m.three(x, y, z), [(4,), (4,), (4,)]),
    "branch": (lambda m, x: m.branch(x), [(6,)]),
    "nested": (lambda m, x, y: m.nested(x, y), [(6,), (6,)]),
    "power": (lambda m, x: m.power(x), [(4,)]),
    "series": (lambda m, x: m.series(x), [(4,)]),
    "outer": (lambda m, x: m.outer(x), [(4,)]),
    "frozen": (lambda m, x: m.frozen(x, torch.tensor([2.0, 3.0], dtype=torch.float64)), [(2,)]),
    "counted": (lambda m, x: m.counted(x, torch.tensor([1, 2, 3])), [(3,)]),
    "chosen": (lambda m, x: m.chosen(x, torch.tensor([True, False, True])), [(3,)]),
    "dot2": (lambda m, a, b: m.dot2(a, b), [(3, 2), (3, 2)]),
    "norm3": (lambda m, v: m.norm3(v), [(2, 3)]),
    "scaled": (lambda m, v, s: m.scaled(v, s), [(4, 3), (4,)]),
    "scaled_shared": (lambda m, v, s: m.scaled(v, s), [(4, 3), (1,)]),
    "scaled_single": (lambda m, v, s: m.scaled(v, s), [(3,), ()]),
    "reversed": (lambda m, v: m.reversed(v), [(2, 4)]),
    "crossed": (lambda m, a, b: m.crossed(a, b), [(2, 3), (2, 3)]),
    "weighed": (lambda m, a, s: m.weighed(a, s), [(3, 2, 2), (3,)]),
    "total": (lambda m, a: m.total(a), [(3, 2, 2)]),
    "summed": (lambda m, v: m.summed(v), [(3, 3)]),
    "pair": (_pair, [(4,)]),
    "both": (_both, [(4,), (4,)]),
    "transposed": (lambda m, x: m.square(x.t()), [(2, 3)]),
    "sliced": (lambda m, x: m.square(x[::2]), [(5,)]),
    "flipped": (lambda m, x: m.product(x.flip(0), x), [(5,)]),
    "expanded": (lambda m, x: m.cubic(x.expand(4)), [(1,)]),
    "twice": (lambda m, x: m.product(x, x), [(4,)]),
    "chained": (lambda m, x: m.square(m.cubic(x)) * x, [(4,)]),
}


@pytest.mark.parametrize("name", CHECKED)
def test_gradcheck(d, name, seed):
    torch.manual_seed(seed)
    call, shapes = CHECKED[name]
    inputs = tuple(doubles(*shape) for shape in shapes)
    assert torch.autograd.gradcheck(lambda *values: call(d, *values), inputs)


@pytest.mark.parametrize("name", [n for n in CHECKED if n != "identity"])
def test_gradgradcheck_ends_in_a_clear_error(d, name, seed):
    torch.manual_seed(seed)
    call, shapes = CHECKED[name]
    inputs = tuple(doubles(*shape) for shape in shapes)
    with pytest.raises(CallError, match="cannot be differentiated again"):
        torch.autograd.gradgradcheck(lambda *values: call(d, *values), inputs)


def test_a_gradient_penalty_ends_in_the_same_error(f):
    x = torch.randn(3, requires_grad=True)
    (g,) = torch.autograd.grad(f.shared(x, 2.0).sum(), x, create_graph=True)
    assert torch.allclose(g, 4 * x)
    with pytest.raises(CallError, match="create_graph"):
        g.sum().backward()


# ----- functions that take floats: structs, gathers, generics, sums -----


def _gradients(call, *inputs):
    """Return a call's value, and its gradients for a random seed, with that seed."""
    value = call(*inputs)
    seed = torch.randn(value.shape, dtype=value.dtype)
    return value, seed, torch.autograd.grad(value, inputs, seed)


def _agree(call, plain, *shapes):
    inputs = [torch.randn(shape, requires_grad=True) for shape in shapes]
    value, seed, found = _gradients(call, *inputs)
    precise = [x.detach().double().requires_grad_() for x in inputs]
    expected = plain(*precise)
    assert torch.allclose(value.double(), expected, rtol=1e-5, atol=1e-5)
    wanted = torch.autograd.grad(expected, precise, seed.double(), allow_unused=True)
    for one, other, x in zip(found, wanted, inputs, strict=True):
        assert one.shape == x.shape
        assert torch.allclose(one.double(), other, rtol=1e-4, atol=1e-5)


def test_structs_as_dicts(f, seed):
    torch.manual_seed(seed)
    _agree(lambda k, r, x: f.pull({"k": k, "rest": r}, x), lambda k, r, x: k * (x - r), (5,), (5,), (5,))
    _agree(lambda k, x: f.pull({"k": k, "rest": 0.5}, x), lambda k, x: k * (x - 0.5), (5,), (5,))


def test_gathers(f, seed):
    torch.manual_seed(seed)
    at = torch.tensor([0, 3, 3, 1])
    _agree(lambda t: f.gathered(t, at), lambda t: t[at] ** 2, (5,))
    _agree(lambda t: f.row(t, at), lambda t: t[at, 0] * t[at, 1], (5, 2))
    _agree(lambda t: f.concrete(t, at), lambda t: 3 * t[at], (5,))


def test_generics(f, seed):
    torch.manual_seed(seed)
    _agree(lambda x: f.generic(x), lambda x: x * x + x, (2, 3))


@pytest.mark.parametrize(
    "shapes", [((7,), (1,)), ((7,), ()), ((3, 4), (4,)), ((3, 4), (3, 1)), ((1, 4), (3, 1)), ((30000,), (1,))]
)
def test_gradients_come_in_the_shape_of_the_input(f, shapes, seed):
    torch.manual_seed(seed)
    inputs = [torch.randn(shape, requires_grad=True) for shape in shapes]
    value, given, (dx, dw) = _gradients(lambda x, w: f.shared(x, w), *inputs)
    x, w = (t.detach().double() for t in inputs)
    assert value.shape == torch.broadcast_shapes(*shapes)
    assert torch.allclose(dx.double(), (given * 2 * w * x).sum_to_size(x.shape), rtol=1e-4, atol=1e-4)
    terms = given * (x * x + 1)
    assert dw.shape == w.shape
    assert torch.allclose(
        dw.double(), terms.sum_to_size(w.shape), rtol=1e-4, atol=1e-5 * float(terms.abs().sum())
    )


# ----- what torch's graph asks for -----


def test_needs_on_some_inputs_only(f):
    """PT-03."""
    x, w = torch.ones(3), torch.full((3,), 2.0, requires_grad=True)
    f.shared(x, w).sum().backward()
    assert x.grad is None
    assert w.grad.tolist() == [2, 2, 2]


def test_expanded_inputs_and_seeds(f):
    """PT-02."""
    x = torch.tensor([2.0], requires_grad=True)
    y = f.shared(x.expand(4), 1.0)
    assert y.tolist() == [5, 5, 5, 5]
    y.sum().backward()
    assert x.grad.tolist() == [16]


def test_without_and_with_and_without(f):
    plain = torch.tensor([1.0, 2.0])
    for _ in range(3):
        assert not f.shared(plain, 3.0).requires_grad
        asking = plain.clone().requires_grad_()
        y = f.shared(asking, 3.0)
        assert y.requires_grad
        y.sum().backward()
        assert asking.grad.tolist() == [6, 12]
        with torch.no_grad():
            assert not f.shared(asking, 3.0).requires_grad
            with torch.enable_grad():
                assert f.shared(asking, 3.0).requires_grad
        with torch.inference_mode():
            assert f.shared(plain, 3.0).is_inference()


def test_retained_graphs_give_the_same_twice(f):
    x = torch.tensor([1.0, -2.0], requires_grad=True)
    y = f.shared(x, 3.0)
    first = torch.autograd.grad(y, x, torch.tensor([1.0, 10.0]), retain_graph=True)[0]
    second = torch.autograd.grad(y, x, torch.tensor([1.0, 10.0]))[0]
    assert first.tolist() == second.tolist() == [6, -120]


def test_a_change_in_place_is_torchs_error(f):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    z = x * 1
    y = f.shared(z, 3.0)
    z.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_results_used_twice(f):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = f.shared(x, 1.0)
    (y * y + 3 * y).sum().backward()
    assert x.grad.tolist() == [(2 * 2 + 3) * 2, (2 * 5 + 3) * 4]


def test_earlier_calls_do_not_leak_in(f, control):
    for policy in ("accumulate", "zero"):
        control.change(gradients=policy)
        for _ in range(3):
            x = torch.tensor([1.0, 2.0], requires_grad=True)
            f.shared(x, 3.0).sum().backward()
            assert x.grad.tolist() == [6, 12]


def test_slangpys_path_and_the_report(f, control, seed):
    torch.manual_seed(seed)
    x = torch.randn(max(20000, least(slanglab.current().device)), requires_grad=True)
    f.shared(x, 3.0).sum().backward()
    assert slanglab.last_run().path == "straight"
    assert slanglab.last_run().mode == "backward"
    straight, x.grad = x.grad, None
    control.change(path="slangpy")
    f.shared(x, 3.0).sum().backward()
    assert slanglab.last_run().path == "slangpy"
    assert torch.allclose(x.grad, straight)


def test_gradients_keep_the_dtype_of_their_input(f):
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        x = torch.tensor([1.0, 2.0], dtype=dtype, requires_grad=True)
        y = f.shared(x, 3.0)
        assert y.dtype == torch.float32
        y.sum().backward()
        assert x.grad.dtype == dtype
        assert x.grad.tolist() == [6, 12]


# ----- random calls -----

RANDOM = """
[Differentiable] float f1(float x) { return x * x - 3 * x; }
[Differentiable] float f2(float x, float y) { return x * y + y * y; }
[Differentiable] float f3(float x, float y, int n) { return n * x - y * x; }
[Differentiable] float3 f4(float3 v, float s) { return v * s + v; }
"""
PLAIN = {
    "f1": lambda x: x * x - 3 * x,
    "f2": lambda x, y: x * y + y * y,
    "f3": lambda x, y, n: n * x - y * x,
    "f4": lambda v, s: v * s.unsqueeze(-1) + v,
}
KINDS = {"f1": "s", "f2": "ss", "f3": "ssi", "f4": "vs"}
FLOATING = (torch.float32, torch.float32, torch.float64, torch.float16, torch.bfloat16)
WHOLE = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)


def _laid_out(values, rng):
    """Return the same numbers in another layout: transposed, sliced, flipped, within a larger tensor, expanded."""
    way = rng.integers(6)
    if values.ndim and way == 0:
        order = tuple(int(a) for a in rng.permutation(values.ndim))
        back = tuple(int(a) for a in np.argsort(order))
        return values.permute(order).contiguous().permute(back)
    if values.ndim and way == 1:
        wide = torch.zeros((*values.shape[:-1], 2 * values.shape[-1]), dtype=values.dtype)
        wide[..., ::2] = values
        return wide[..., ::2]
    if values.ndim and way == 2:
        return values.flip(0).contiguous().flip(0)
    if way == 3:
        large = torch.zeros(values.numel() + 5, dtype=values.dtype)
        large[3 : 3 + values.numel()] = values.reshape(-1)
        return large[3 : 3 + values.numel()].view(values.shape)
    if values.ndim and way == 4 and values.shape[0] > 0:
        return values[:1].expand(values.shape)
    return values


def _random_shape(shape, rng):
    """Return a shape that broadcasts to another."""
    own = [1 if rng.random() < 0.25 else n for n in shape]
    return tuple(own[int(rng.integers(len(own) + 1)) if rng.random() < 0.3 else 0 :])


def test_random_calls_agree_with_plain_torch(device, seed):
    """500 random shapes, strides and dtypes; a fresh seed each time."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    m = slanglab.compile(RANDOM, "torch_random")
    for i in range(500):
        name = list(KINDS)[int(rng.integers(len(KINDS)))]
        shape = tuple(
            int(n) for n in rng.integers(0 if rng.random() < 0.1 else 1, 6, int(rng.integers(0, 4)))
        )
        inputs = []
        for kind in KINDS[name]:
            own = _random_shape(shape, rng) + ((3,) if kind == "v" else ())
            if kind == "i":
                dtype = WHOLE[int(rng.integers(len(WHOLE)))]
                inputs.append(_laid_out(torch.randint(0, 9, own).to(dtype), rng))
                continue
            dtype = FLOATING[int(rng.integers(len(FLOATING)))]
            x = _laid_out(torch.randn(own, dtype=torch.float64).to(dtype), rng)
            inputs.append(x.detach().requires_grad_(bool(rng.random() < 0.7)))
        about = f"{i}: {name} " + ", ".join(
            f"{t.dtype} {tuple(t.shape)} {t.stride()} {t.requires_grad}" for t in inputs
        )
        value = getattr(m, name)(*inputs)
        precise = [t.detach().double().requires_grad_(t.requires_grad) for t in inputs]
        expected = PLAIN[name](*precise)
        assert value.shape == expected.shape, about
        assert value.dtype == torch.float32, about
        assert value.requires_grad == expected.requires_grad, about
        assert torch.allclose(value.double(), expected, rtol=1e-4, atol=1e-4), about
        if not value.requires_grad:
            continue
        given = _laid_out(torch.randn(value.shape), rng)
        asking = [k for k, t in enumerate(inputs) if t.requires_grad]
        found = torch.autograd.grad(value, [inputs[k] for k in asking], given)
        wanted = torch.autograd.grad(expected, [precise[k] for k in asking], given.double())
        for k, one, other in zip(asking, found, wanted, strict=True):
            assert one.shape == inputs[k].shape, about
            assert one.dtype == inputs[k].dtype, about
            loose = {torch.float16: 1e-2, torch.bfloat16: 5e-2}.get(one.dtype, 1e-4)
            scale = 1 + float(other.abs().max()) if other.numel() else 1.0
            assert torch.allclose(one.double(), other, rtol=loose, atol=loose * scale), about


def test_transforms_of_torch_func_are_refused(f):
    for transform in (torch.func.vmap, torch.func.grad):
        with pytest.raises(CallError, match=r"torch\.func"):
            transform(lambda x: f.shared(x, 2.0).sum())(torch.ones(3, 2))


def test_jacobians_hooks_and_checkpoints(f, seed):
    torch.manual_seed(seed)
    x = torch.randn(3, requires_grad=True)
    found = torch.autograd.functional.jacobian(lambda v: f.shared(v, 2.0), x.detach())
    assert torch.allclose(found, torch.diag(4 * x.detach()))
    y = f.shared(x, 2.0)
    y.register_hook(lambda g: 3 * g)
    y.sum().backward()
    assert torch.allclose(x.grad, 12 * x.detach())
    x.grad = None
    torch.utils.checkpoint.checkpoint(lambda v: f.shared(v, 2.0), x, use_reentrant=False).sum().backward()
    assert torch.allclose(x.grad, 4 * x.detach())
    with torch.autograd.detect_anomaly(check_nan=True):
        f.shared(x, 2.0).sum().backward()


def test_several_threads_go_back_through_one_graph(f):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = f.shared(x, 2.0).sum()
    found = []

    def work():
        found.append(torch.autograd.grad(y, x, retain_graph=True)[0].tolist())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [[4, 8]] * 4


def test_a_tensor_parameter_without_derivatives_is_said(device):
    m = slanglab.compile(
        "import slangpy;\n[Differentiable] float f(Tensor<float, 1> t, float x) { return t[0] * x; }",
        "torch_plain_tensor",
    )
    x, t = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([3.0], requires_grad=True)
    with pytest.warns(GradientWarning, match="t gets no gradient, as a Tensor<float, 1> carries none"):
        y = m.f(t, x)
    y.sum().backward()
    assert x.grad.tolist() == [3, 3]
    assert t.grad is None
