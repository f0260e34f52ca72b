"""`slanglab.torch.function` and `slanglab.torch.Module`: eager, compiled and exported beside plain torch."""

import copy
import functools
import io
import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is an extra")

import slanglab as sl  # noqa: E402
from slanglab.errors import ArgumentError, CallError  # noqa: E402
from slanglab.torch import Module, function  # noqa: E402

SOURCE = """
import slangpy;
struct Spring : IDifferentiable { float k; float2 at; };

[Differentiable] float poly(float x, float a, no_diff int n = 2, float c = 0.5) { return a * x * x + c * n; }
[Differentiable] float unit(float2 x, float2 w, float b) { return max(dot(x, w) + b, 0.0); }
[Differentiable] void two(float3 v, out float s, out float3 w) { s = dot(v, v); w = v * 2.0; }
[Differentiable] float both(float x, out float twice) { twice = 2.0 * x; return x * x; }
[Differentiable] float energy(Spring s, float2 x) { let d = x - s.at; return s.k * dot(d, d); }
[Differentiable] float third(IDiffTensor<float, 1> t, no_diff int i, float scale) { return t[i] * scale; }
[Differentiable] float3 tilt(float3 v, no_diff float3 by) { return v * by; }
[Differentiable] double exact(double x) { return x * x * x; }
[Differentiable] float named(float type, float training, float half_) { return type * training + half_; }
int count(float x) { return int(x); }
float over(float x) { return x; }
float over(float3 x) { return x.x; }
[Differentiable] float pairs(IDiffTensor<float2, 1> p, IDiffTensor<float2x2, 1> q, float k)
{
    float sum = 0.0;
    [MaxIters(4)] for (int i = 0; i < 4; ++i) sum += p[i].x * p[i].y * k + q[i][0][1];
    return sum;
}
void put(float x, int i, WTensor<float3, 1> t) { t[i] = float3(x, 2.0 * x, 3.0 * x); }
void write(RWTensor<float, 1> t, int i) { t[i] = 1.0; }
Spring make(float k) { Spring s; s.k = k; s.at = float2(k); return s; }
"""


@pytest.fixture(scope="module")
def module(device):
    return sl.compile(SOURCE, "torch_modules")


@pytest.fixture(autouse=True)
def _fresh_compiler(seed):
    torch.manual_seed(seed)
    torch._dynamo.reset()


def _rand(*shape, grad=True):
    """Return random numbers of a shape, also of none."""
    return torch.randn(list(shape), requires_grad=grad)


def _all(call, *inputs):
    """Return results and gradients of a call."""
    results = call(*inputs)
    results = results if isinstance(results, tuple) else (results,)
    total = sum((r.double() ** 2).sum() for r in results if r.requires_grad)
    asked = [t for t in inputs if t.requires_grad]
    return [*results, *(torch.autograd.grad(total, asked) if asked else ())]


# What a function computes, by torch, and what it is called with.
CASES = {
    "poly": (lambda x, a: a * x * x + 0.5 * 2, [(5, 3), (3,)], lambda f: f),
    "poly numbers": (lambda x: 3.0 * x * x + 1.5 * 4, [(4,)], lambda f: lambda x: f(x, 3.0, 4, c=1.5)),
    "unit": (
        lambda x, w, b: torch.relu((x * w).sum(-1) + b),
        [(6, 1, 2), (4, 2), (4,)],
        lambda f: f,
    ),
    "two": (lambda v: ((v * v).sum(-1), v * 2), [(4, 3)], lambda f: f),
    "both": (lambda x: (x * x, 2 * x), [(2, 3)], lambda f: f),
    "energy": (
        lambda k, at, x: k * ((x - at) ** 2).sum(-1),
        [(4,), (4, 2), (2,)],
        lambda f: lambda k, at, x: f({"k": k, "at": at}, x),
    ),
    "third": (
        lambda t, scale: t[torch.tensor([2, 0, 2])] * scale,
        [(5,), (3,)],
        lambda f: lambda t, scale: f(t, torch.tensor([2, 0, 2]), scale),
    ),
    "tilt": (
        lambda v: v * torch.tensor([1.0, 2.0, 3.0]),
        [(5, 3)],
        lambda f: lambda v: f(v, [1.0, 2.0, 3.0]),
    ),
    "exact": (lambda x: x.double() ** 3, [(7,)], lambda f: f),
    "pairs": (
        lambda p, q, k: (p[:, 0] * p[:, 1]).sum() * k + q[:, 0, 1].sum(),
        [(4, 2), (4, 2, 2), (3,)],
        lambda f: f,
    ),
    "named": (lambda a, b, c: a * b + c, [(3,), (3,), ()], lambda f: f),
}


def _case(module, name):
    expected, shapes, wrapped = CASES[name]
    slang = module[name.split()[0]]
    return expected, [_rand(*s) for s in shapes], wrapped(function(slang))


@pytest.mark.parametrize("name", CASES)
def test_eager_is_torchs(module, name):
    expected, inputs, call = _case(module, name)
    for found, wanted in zip(_all(call, *inputs), _all(expected, *inputs), strict=True):
        torch.testing.assert_close(found, wanted, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_compiled_is_eager(module, name):
    _, inputs, call = _case(module, name)
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    for found, wanted in zip(_all(compiled, *inputs), _all(call, *inputs), strict=True):
        torch.testing.assert_close(found, wanted)
        assert found.dtype == wanted.dtype


@pytest.mark.parametrize("name", CASES)
def test_exported_is_eager(module, name):
    _, inputs, call = _case(module, name)

    class Net(torch.nn.Module):
        def forward(self, *given):
            return call(*given)

    plain = tuple(t.detach() for t in inputs)
    exported = torch.export.export(Net(), plain).module()
    found, wanted = exported(*plain), call(*plain)
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("name", CASES)
def test_torchs_own_check_of_operators_passes(module, name):
    """`torch.library.opcheck`: schema, fake tensors, gradient, dynamic shapes."""
    _, shapes, _ = CASES[name]
    f = function(module[name.split()[0]])
    given = [_rand(*s) for s in shapes]
    args = {
        "energy": lambda k, at, x: ({"k": k, "at": at}, x),
        "tilt": lambda v: (v, [1.0, 2.0, 3.0]),
        "third": lambda t, scale: (t, torch.tensor([2, 0, 2]), scale),
        "poly numbers": lambda x: (x, 3.0, 4, 1.5),
    }.get(name, lambda *given: given)(*given)
    done = torch.library.opcheck(f.operator(*args), f.flat(*args))
    assert set(done.values()) == {"SUCCESS"}


def test_a_tensor_of_vectors_is_written(module):
    t = torch.zeros(3, 3)
    module.put(torch.tensor([1.0, 2.0, 3.0]), torch.arange(3), t)
    assert t.tolist() == [[1, 2, 3], [2, 4, 6], [3, 6, 9]]


def test_inductor_takes_it_among_torchs_own(module):
    """torch.compile as it is, which makes kernels of what surrounds the operator."""
    f = function(module.poly)

    def net(x, a):
        return torch.tanh(f(torch.sin(x), a, c=2.0)).sum(0)

    x, a = _rand(6, 3), _rand(3)
    compiled = torch.compile(net, fullgraph=True)
    for found, wanted in zip(_all(compiled, x, a), _all(net, x, a), strict=True):
        torch.testing.assert_close(found, wanted)


def _with_numbers(call, count, c, x, a):
    return call(x, a, count, c)


def _poly(count, c, x, a):
    return a * x * x + c * count


def test_shapes_and_numbers_may_change(module):
    f = function(module.poly)
    compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
    for n, count, c in ((5, 2, 0.5), (7, 3, 1.5), (9, 4, 2.5), (1, 5, 3.5), (0, 6, 4.5)):
        x, a = _rand(n, 3), _rand(3)
        found = _all(functools.partial(_with_numbers, compiled, count, c), x, a)
        for one, wanted in zip(found, _all(functools.partial(_poly, count, c), x, a), strict=True):
            torch.testing.assert_close(one, wanted)
    n = torch.export.Dim("n")

    class Net(torch.nn.Module):
        def forward(self, x, a):
            return f(x, a)

    exported = torch.export.export(Net(), (_rand(4, 3), _rand(3)), dynamic_shapes={"x": {0: n}, "a": {}})
    x, a = _rand(11, 3), _rand(3)
    torch.testing.assert_close(exported.module()(x, a), f(x, a))


def test_a_graph_that_was_exported_is_saved_and_loaded(module):
    f = function(module.unit, name="saved_unit")

    class Net(torch.nn.Module):
        def forward(self, x, w, b):
            return f(x, w, b) + 1

    given = (_rand(6, 1, 2), _rand(4, 2), _rand(4))
    buffer = io.BytesIO()
    torch.export.save(torch.export.export(Net(), given), buffer)
    buffer.seek(0)
    torch.testing.assert_close(torch.export.load(buffer).module()(*given), f(*given) + 1)
    assert "slanglab.saved_unit_ttt" in str(f.operator(*given))


def test_some_inputs_without_a_gradient(module):
    f = function(module.unit)
    x, w, b = _rand(6, 1, 2, grad=False), _rand(4, 2), _rand(4, grad=False)
    compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
    (found,) = torch.autograd.grad(compiled(x, w, b).sum(), w)
    (wanted,) = torch.autograd.grad(torch.relu((x * w).sum(-1) + b).sum(), w)
    torch.testing.assert_close(found, wanted)
    with torch.no_grad():
        assert not compiled(x, w, b).requires_grad
    # One of several results is used.
    v = _rand(4, 3)
    two = torch.compile(function(module.two), fullgraph=True, backend="aot_eager")
    (found,) = torch.autograd.grad(two(v)[1].sum(), v)
    torch.testing.assert_close(found, torch.full_like(v, 2.0))


@pytest.mark.filterwarnings("ignore::slanglab.engine.dispatch.GradientWarning")
def test_a_function_without_a_derivative(module):
    f = function(module.count)
    x = torch.tensor([1.5, -2.5], requires_grad=True)
    compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
    for y in (f(x), compiled(x)):
        assert y.dtype == torch.int32
        assert y.tolist() == [1, -2]
        assert not y.requires_grad


def test_functional_transforms(module):
    f = function(module.poly)
    x, a = _rand(5, 3, grad=False), _rand(3, grad=False)
    torch.testing.assert_close(torch.func.vmap(f, (0, None))(x, a), f(x, a))
    torch.testing.assert_close(torch.func.vmap(f, (1, 0))(x, a), f(x, a).T)
    with pytest.raises(CallError, match=r"torch\.func\.grad"):
        torch.func.grad(lambda x: f(x, a).sum())(x)
    unit = function(module.unit)
    x, w, b = _rand(6, 2), _rand(4, 2), _rand(4)
    each = torch.func.vmap(unit, (0, None, None))(x, w, b)
    torch.testing.assert_close(each, unit(x[:, None], w, b))
    two = torch.func.vmap(function(module.two))(_rand(4, 3))
    assert [t.shape for t in two] == [(4,), (4, 3)]
    with pytest.raises(CallError, match="vmap cannot run over t"):
        torch.func.vmap(function(module.third), (0, None, None))(_rand(2, 5), torch.tensor([1]), _rand(1))


def test_a_second_derivative_is_an_error_that_says_so(module):
    f = function(module.poly)
    x = _rand(3)
    for call in (f, lambda *given: f.operator(*given)(*f.flat(*given))):
        (slope,) = torch.autograd.grad(call(x, 2.0).sum(), x, create_graph=True)
        with pytest.raises(CallError, match="cannot be differentiated again"):
            slope.sum().backward()


WRONG = [
    (lambda f, x: f(x), "a is missing"),
    (lambda f, x: f(x, 1.0, 2, 3.0, 4.0), "takes 4 arguments"),
    (lambda f, x: f(x, b=1.0), "has no parameter b"),
    (lambda f, x: f(x, x=x), "two values for x"),
    (lambda f, x: f(1.0, 2.0), "none of the arguments is a torch tensor"),
    (lambda f, x: f(x, np.ones(3)), "which an operator of torch does not take"),
    (lambda f, x: f(x, "1"), "which an operator of torch does not take"),
]


@pytest.mark.parametrize(("call", "message"), WRONG)
def test_wrong_calls_name_the_argument(module, call, message):
    with pytest.raises(ArgumentError, match=message):
        call(function(module.poly), _rand(3))


def test_wrong_shapes_are_seen_without_a_device(module):
    unit = function(module.unit)
    operator = unit.operator(_rand(3, 2), _rand(2), _rand())
    with torch._subclasses.FakeTensorMode():
        with pytest.raises(CallError, match="argument w cannot be used"):
            operator(torch.empty(3, 2), torch.empty(3), torch.empty(()))
        with pytest.raises(CallError, match="do not broadcast"):
            operator(torch.empty(3, 2), torch.empty(4, 2), torch.empty(5))
        assert operator(torch.empty(3, 1, 2), torch.empty(4, 2), torch.empty(4)).shape == (3, 4)
        assert unit(torch.empty(3, 1, 2), torch.empty(4, 2), torch.empty(4)).shape == (3, 4)
    with pytest.raises(CallError, match="is a struct"):
        function(module.energy)(_rand(3), _rand(2))


def test_what_cannot_be_an_operator_is_named(module):
    for name, why in (
        ("over", "overloaded"),
        ("write", "changes its argument t"),
        ("make", "what it returns is a Spring"),
    ):
        with pytest.raises(CallError, match=why):
            function(module[name])
    with pytest.raises(CallError, match="backward call"):
        function(module.poly.bwds)
    with pytest.raises(CallError, match="map"):
        function(module.poly.map((0,)))
    with pytest.raises(ArgumentError, match="function of a Slang cell"):
        function(torch.sin)
    with pytest.raises(ArgumentError, match="already"):
        function(module.poly, name="twice"), function(module.poly, name="twice")
    with pytest.raises(ArgumentError, match="cannot be the name"):
        function(module.poly, name="no name")


def test_an_edit_of_the_cell_is_followed(device):
    text = "[Differentiable] float f(float x, float a) {{ return {}; }}"
    m = sl.compile(text.format("a * x"), "torch_edited")
    f = function(m.f)
    compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
    x, a = _rand(4), _rand(4)
    torch.testing.assert_close(compiled(x, a), a * x)
    before = f.operator(x, a)
    sl.compile(text.format("a * x * x"), "torch_edited")
    assert f.operator(x, a) is before
    for found, wanted in zip(_all(compiled, x, a), _all(lambda x, a: a * x * x, x, a), strict=True):
        torch.testing.assert_close(found, wanted)
    exported = torch.export.export(_Calls(f), (x, a)).module()
    sl.compile(
        "[Differentiable] float3 f(float x, float a, float b = 1.0) { return float3(x, a, b); }",
        "torch_edited",
    )
    assert f.operator(x, a) is not before
    torch.testing.assert_close(compiled(x, a), torch.stack([x, a, torch.ones(4)], dim=-1))
    with pytest.raises(CallError, match="another signature"):
        exported(x, a)


class _Calls(torch.nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, *args):
        return self.f(*args)


def test_operators_are_not_pickled(module):
    f = function(module.poly)
    assert copy.deepcopy(f) is f
    with pytest.raises(TypeError, match="state_dict"):
        pickle.dumps(f)


# ----- Module -----


def test_what_a_module_owns(module):
    w, b = np.arange(8.0).reshape(4, 2), torch.zeros(4, dtype=torch.float64)
    layer = Module(module.unit, w=w, b=b)
    assert {name: p.dtype for name, p in layer.named_parameters()} == {"w": torch.float64, "b": torch.float64}
    assert np.array_equal(layer.w.detach().numpy(), w)
    b += 1
    assert not layer.b.any()  # a copy
    own = torch.nn.Parameter(torch.ones(4))
    assert Module(module.unit, b=own).b is own
    assert Module(module.unit, w=sl.tensor(w, dtype="float2")).w.shape == (4, 2)
    third = Module(module.third, t=[1.0, 2.0, 3.0][:0] or torch.ones(3), i=torch.tensor([2, 0]))
    assert [n for n, _ in third.named_buffers()] == ["i"]
    assert [n for n, _ in third.named_parameters()] == ["t"]
    numbers = Module(module.poly, a=2.0, n=3)
    assert not list(numbers.parameters())
    torch.testing.assert_close(numbers(torch.ones(2), 1.0), torch.full((2,), 5.0))
    assert not list(Module(module.count, x=torch.ones(2)).parameters())


def test_a_module_computes_and_learns_what_torch_does(module):
    layer = Module(module.unit, w=torch.randn(4, 2), b=torch.randn(4))
    x = torch.randn(20, 2)
    twin_w, twin_b = (p.detach().clone().requires_grad_() for p in (layer.w, layer.b))
    ours = torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)
    theirs = torch.optim.SGD([twin_w, twin_b], lr=0.1, momentum=0.9)
    for _ in range(10):
        for optimizer, y in (
            (ours, layer(x[:, None])),
            (theirs, torch.relu((x[:, None] * twin_w).sum(-1) + twin_b)),
        ):
            optimizer.zero_grad()
            ((y - 1) ** 2).mean().backward()
            optimizer.step()
    torch.testing.assert_close(layer.w, twin_w, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(layer.b, twin_b, rtol=1e-4, atol=1e-5)


def test_state_is_saved_and_loaded(module):
    layer = Module(module.energy, s={"k": torch.randn(3), "at": torch.randn(3, 2)})
    assert set(layer.state_dict()) == {"s.k", "s.at"}
    other = Module(module.energy, s={"k": torch.zeros(3), "at": torch.zeros(3, 2)})
    buffer = io.BytesIO()
    torch.save(layer.state_dict(), buffer)
    buffer.seek(0)
    other.load_state_dict(torch.load(buffer, weights_only=True))
    x = torch.randn(2)
    torch.testing.assert_close(other(x), layer(x))
    loss = other(x).sum()
    loss.backward()
    torch.testing.assert_close(other.s.k.grad, ((x - layer.s.at) ** 2).sum(-1).detach())
    with pytest.raises(TypeError, match="state_dict"):
        torch.save(layer, io.BytesIO())


def test_a_copy_is_a_module_of_its_own(module):
    layer = Module(module.unit, w=torch.randn(4, 2), b=torch.randn(4))
    twin = copy.deepcopy(layer)
    with torch.no_grad():
        twin.b += 1
    assert not torch.equal(twin.b, layer.b)
    x = torch.randn(5, 1, 2)
    torch.testing.assert_close(twin(x), torch.relu((x * twin.w).sum(-1) + twin.b))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_other_dtypes(module, dtype):
    layer = Module(module.unit, w=torch.randn(4, 2), b=torch.randn(4)).to(dtype)
    x = torch.randn(5, 1, 2, dtype=dtype)
    y = layer(x)
    assert y.dtype == torch.float32  # the function's own
    torch.testing.assert_close(y, torch.relu((x.float() * layer.w.float()).sum(-1) + layer.b.float()))
    y.sum().backward()
    assert layer.w.grad.dtype == dtype
    assert layer.to("cpu") is layer


def test_in_a_sequence_and_compiled(module):
    net = torch.nn.Sequential(
        torch.nn.Unflatten(1, (1, 2)),
        Module(module.unit, w=torch.randn(4, 2), b=torch.randn(4)),
        torch.nn.Linear(4, 1),
    )
    x = torch.randn(6, 2)
    compiled = torch.compile(net, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), net(x))
    found = torch.autograd.grad(compiled(x).sum(), list(net.parameters()))
    wanted = torch.autograd.grad(net(x).sum(), list(net.parameters()))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other)


def test_structs_and_constants_are_compiled(module):
    spring = Module(module.energy, s={"k": torch.randn(4), "at": [1.0, 2.0]})
    poly = Module(module.poly, a=torch.tensor(2.0), n=3, c=0.25)
    x = _rand(4, 2)

    def net(x):
        return poly(spring(x))

    compiled = torch.compile(net, fullgraph=True, backend="aot_eager")
    inputs = (x, spring.s.k, poly.a)
    found = torch.autograd.grad(compiled(x).sum(), inputs)
    energy = spring.s.k * ((x - torch.tensor([1.0, 2.0])) ** 2).sum(-1)
    wanted = torch.autograd.grad((poly.a * energy * energy + 0.75).sum(), inputs)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_what_it_says_of_itself(module):
    layer = Module(module.unit, w=torch.randn(4, 2), b=0.25)
    text = repr(layer)
    assert "unit(float2 x, float2 w, float b) -> float" in text
    assert "(w): parameter float32 (4, 2)" in text
    assert "(b): 0.25" in text
    assert "buffer int64 (2,)" in repr(Module(module.third, i=torch.tensor([2, 0])))


def test_names_that_modules_have_themselves(module):
    layer = Module(module.named, type=torch.ones(3), training=torch.ones(3), half_=torch.zeros(3))
    assert {n for n, _ in layer.named_parameters()} == {"type_", "training_", "half_"}
    torch.testing.assert_close(layer(), torch.ones(3))
    assert layer.training is True


def test_wrong_modules_name_the_parameter(module):
    with pytest.raises(ArgumentError, match="no parameter v"):
        Module(module.unit, v=torch.ones(2))
    with pytest.raises(ArgumentError, match="argument w cannot be used"):
        Module(module.unit, w=torch.ones(3))
    with pytest.raises(ArgumentError, match="s is a struct"):
        Module(module.energy, s={"k": 1.0})
    layer = Module(module.unit, w=torch.ones(2))
    with pytest.raises(ArgumentError, match="w is the module's own"):
        layer(torch.ones(2), w=torch.ones(2))
    with pytest.raises(ArgumentError, match="takes 2 arguments, and 3"):
        layer(torch.ones(2), 0.0, 1.0)


def test_a_module_follows_its_cell(device):
    m = sl.compile("[Differentiable] float f(float x, float a) { return a * x; }", "torch_followed")
    layer = Module(m.f, a=torch.tensor(2.0))
    x = torch.arange(3.0)
    assert layer(x).tolist() == [0, 2, 4]
    sl.compile("[Differentiable] float f(float x, float a) { return a + x; }", "torch_followed")
    assert layer(x).tolist() == [2, 3, 4]
    sl.compile("[Differentiable] float f(float x, float b) { return b + x; }", "torch_followed")
    with pytest.raises(ArgumentError, match="no parameter a"):
        layer(x)
