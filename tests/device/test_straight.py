"""Straight kernels, against slangpy's own call (within 1 ulp) and against float64 numpy."""

import numpy as np
import pytest
import slangpy as spy

from slanglab.engine import straight
from slanglab.engine.parameters import parameters
from slanglab.engine.straight import Strategy
from slanglab.engine.target import Target

FUNCTIONS = """
[Differentiable] float polynomial(float a, float b, float c, float x) { return a * x * x + b * x + c; }
[Differentiable] float waves(float x, float y) { return sin(x) * exp(-y * y) + cos(x * y); }
[Differentiable] float3 turned(float3 v, float3 w, float s) { return cross(v, w) * s + v; }
[Differentiable] float2x3 scaled(float2x3 m, float s) { return m * s * s; }
[Differentiable] float sum_of(float[3] v) { return v[0] * v[1] + v[2] * v[2]; }
[Differentiable] float3[2] pair(float3 a, float3 b) { float3[2] r = { a * b, a + b }; return r; }
[Differentiable] half gentle(half x, half a) { return x * x * a; }
[Differentiable] half3 gentle3(half3 x, half a) { return x * x * a; }
[Differentiable] float4 four(float4 x, float4 w) { return x * w * w; }
[Differentiable] float2 two(float2 x, float2 w) { return x * w + w * w; }
[Differentiable] float2 applied(float2x2 m, float2 x) { return mul(m, x); }
[Differentiable] double twice(double x, double a) { return x * x * a; }
[Differentiable] float mixed(no_diff float k, float x, int n, bool on) { return on ? k * x * n : x * x; }
[Differentiable] void outs(float x, float a, out float y, out float3 z) { y = x * x * a; z = float3(x, a * x, 1); }
[Differentiable] float looped(float x)
{
    float s = x;
    [MaxIters(4)] for (int i = 0; i < 4; i++) s = s * 0.5 + sin(s);
    return s;
}
[Differentiable] float branch(float x) { if (x > 0) return x * x; return -3 * x; }
int whole(int a, uint b, int8_t c, uint16_t d) { return a * 3 + int(b) - c + d; }
uint64_t large(uint64_t a, int64_t b) { return a * 3 + uint64_t(b); }
bool both(bool a, bool b) { return a && !b; }
bool3 flags(float3 x, bool3 m) { return bool3(x.x > 0 && m.x, x.y > 0 || m.y, m.z); }
int number(int i) { return i * 2 + 1; }
float placed(int2 i, float x) { return x + i.x * 10 + i.y; }
float placed3(int3 i, float x) { return x + i.x * 100 + i.y * 10 + i.z; }
// Names that the kernel's own text might use.
[Differentiable] float part(float x) { return x * 2; }
float group(float sl_first, float total) { return sl_first - total; }
[Differentiable] float many(float a, float b, float c, float d, float e, float f, float g, float h, float k, float l)
{ return a * b + c * d + e * f + g * h + k * l; }
int printing(int x) { return x + 1; }
float inout_one(inout float x) { x += 1; return x; }
struct S { float x; float times(float y) { return x * y; } };
float of_struct(S s) { return s.x; }
float generic<T : __BuiltinFloatingPointType>(T x) { return x.toFloat(); }
float broken_backward(float x) { return x; }
"""
UNIFORM = "uniform float K;\nfloat shifted(float x) { return x + K; }\n"

STRATEGIES = {
    "the device's": None,
    "packs of 4": Strategy(True, 4, 1, 64, 7),
    "packs of 8": Strategy(True, 8, 1, 32, 1000),
    "pairs, unrolled": Strategy(True, 2, 3, 128, 5, unroll=True),
    "structured": Strategy(False, 1, 1, 256, 16),
    "structured, four at once": Strategy(False, 1, 4, 32, 9),
}
COUNTS = (1, 2, 31, 256, 1003, 2048, 5000)


@pytest.fixture(scope="module")
def module(device):
    return spy.Module(device.load_module_from_source("test-straight", FUNCTIONS))


@pytest.fixture(params=STRATEGIES.values(), ids=STRATEGIES.keys())
def strategy(request):
    return request.param


def target_of(module, name, backward=False):
    function = getattr(module, name)
    made = Target(name, function, function._slang_func, parameters(function._slang_func), module.device)
    return made.modified("bwds", function.bwds, (), {}) if backward else made


def names_of(module, name):
    return [p.name for p in getattr(module, name)._slang_func.parameters]


class Case:
    """One function with arguments, each as slangpy gets them and again, in buffers of their own, for the straight kernel."""

    def __init__(self, module, name, **arguments):
        self.module, self.name = module, name
        self.device = module.device
        self.arguments = arguments

    def tensor(self, spec):
        if not isinstance(spec, Array):
            return spec
        made = spy.Tensor.empty(self.device, spec.shape, spec.dtype)
        if spec.values is not None:
            upload(made, spec.values)
        if not spec.grad:
            return made
        made = made.with_grads()
        upload(made.grad_out, spec.gradient)
        return made

    def values(self):
        return {n: self.tensor(self.arguments[n]) for n in names_of(self.module, self.name)}

    def kernel(self, values, result, strategy, backward=False):
        built = straight.build(target_of(self.module, self.name, backward), values, result, strategy=strategy)
        assert not isinstance(built, str), built
        return built


class Array:
    def __init__(self, values, dtype="float", outer=None, grad=False, gradient=None):
        self.values, self.dtype, self.grad = values, dtype, grad
        self.shape = tuple(values.shape if outer is None else outer)
        self.gradient = np.zeros_like(values) if gradient is None else gradient


def upload(tensor, values):
    bits = np.ascontiguousarray(values)
    if bits.dtype == bool:
        bits = bits.astype(np.uint32)
    data = np.zeros(tensor.storage.size, np.uint8)
    raw = bits.view(np.uint8).reshape(-1)
    data[: raw.size] = raw
    tensor.storage.copy_from_numpy(data)


def host(tensor):
    """Return a tensor's values; those of a bool as they are stored, which is also right for vectors of bool."""
    if "bool" not in tensor.dtype.full_name:
        return tensor.to_numpy()
    size = tensor.dtype.buffer_layout.stride // int(np.prod(tensor.dtype.shape.as_tuple(), initial=1))
    count = tensor.element_count * tensor.dtype.buffer_layout.stride // size
    return tensor.storage.to_numpy().view(f"u{size}")[:count]


def same(a, b, ulps=1):
    """Assert equality within ulps, bit for bit the same nan pattern."""
    a, b = np.asarray(a), np.asarray(b)
    assert a.shape == b.shape
    assert a.dtype == b.dtype
    if a.dtype.kind != "f":
        np.testing.assert_array_equal(a, b)
        return
    integer = {2: np.int16, 4: np.int32, 8: np.int64}[a.dtype.itemsize]

    def ordered(x):
        bits = np.ascontiguousarray(x).view(integer).astype(np.int64)
        return np.where(bits < 0, np.iinfo(integer).min - bits, bits)

    assert np.array_equal(np.isnan(a), np.isnan(b))
    difference = np.abs(ordered(a) - ordered(b))[~np.isnan(a)]
    assert difference.size == 0 or int(difference.max()) <= ulps


def forward(module, name, strategy, returns=True, **arguments):
    """Run both ways; return the values of the straight one."""
    case = Case(module, name, **arguments)
    peer, own = case.values(), case.values()
    expected = getattr(module, name)(**peer)
    kernel = case.kernel(own, None, strategy)
    assert kernel.fits(own, None)
    assert kernel.reason(own, None) == ""
    found = kernel.run(own, None)
    if returns:
        assert found.shape == expected.shape
        assert found.dtype.full_name == expected.dtype.full_name
        same(host(found), host(expected))
    else:
        assert found is None
    for n in own:
        if isinstance(own[n], spy.Tensor):
            same(host(own[n]), host(peer[n]))
    return host(found) if returns else own


def backward(module, name, strategy, rng, shared=(), **arguments):
    """Run both ways; compare every gradient but those of shared parameters, and return all of the straight one."""
    case = Case(module, name, **arguments)
    plain = {n: strip(v) for n, v in arguments.items()}
    probe = getattr(module, name)(**Case(module, name, **plain).values())
    seed = (
        None if probe is None else rng.uniform(-1, 1, probe.to_numpy().shape).astype(probe.to_numpy().dtype)
    )
    results, every = [], []
    for which in (0, 1):
        values = case.values()
        result = None
        if probe is not None:
            result = spy.Tensor.empty(module.device, probe.shape, probe.dtype.full_name).with_grads()
            upload(result.grad_in, seed)
        if which == 0:
            named = dict(values)
            if result is not None:
                named["_result"] = result
            getattr(module, name).bwds(**named)
        else:
            kernel = case.kernel(values, result, strategy, True)
            assert kernel.run(values, result) is None
        results.append(result)
        every.append(values)
    for n, spec in arguments.items():
        if isinstance(spec, Array):
            same(every[1][n].to_numpy(), every[0][n].to_numpy())
            if spec.grad and n not in shared:
                same(every[1][n].grad_out.to_numpy(), every[0][n].grad_out.to_numpy(), 1)
    if seed is not None:
        same(results[1].grad_in.to_numpy(), seed)
    return {
        n: every[1][n].grad_out.to_numpy() for n, s in arguments.items() if isinstance(s, Array) and s.grad
    }, seed


def strip(spec):
    return Array(spec.values, spec.dtype, spec.shape) if isinstance(spec, Array) else spec


def floats(rng, *shape, dtype=np.float32):
    return rng.uniform(-2, 2, shape).astype(dtype)


# ----- forward -----


@pytest.mark.parametrize("count", COUNTS)
def test_forward_numbers_and_arrays(module, strategy, rng, count):
    x = floats(rng, count)
    y = forward(module, "polynomial", strategy, a=1.5, b=-0.5, c=0.25, x=Array(x))
    exact = 1.5 * x.astype(float) ** 2 - 0.5 * x.astype(float) + 0.25
    np.testing.assert_allclose(y, exact, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("shape", [(7, 11), (3, 5, 129), (1, 1003), (1003, 1), (2, 3, 4, 5)])
def test_forward_more_axes(module, strategy, rng, shape):
    x, y = floats(rng, *shape), floats(rng, *shape)
    found = forward(module, "waves", strategy, x=Array(x), y=Array(y))
    wide_x, wide_y = x.astype(float), y.astype(float)
    np.testing.assert_allclose(
        found, np.sin(wide_x) * np.exp(-(wide_y**2)) + np.cos(wide_x * wide_y), atol=2e-6
    )


def test_forward_types(module, strategy, rng):
    n = 1003
    v, w = floats(rng, n, 3), floats(rng, n, 3)
    forward(module, "turned", strategy, v=Array(v, "float3", (n,)), w=Array(w, "float3", (n,)), s=2.0)
    forward(
        module, "turned", strategy, v=Array(v), w=Array(w), s=Array(floats(rng, n))
    )  # floats with an axis of 3
    forward(module, "turned", strategy, v=Array(v), w=spy.float3(1, 2, 3), s=2.0)
    m = floats(rng, n, 2, 3)
    forward(module, "scaled", strategy, m=Array(m, "float2x3", (n,)), s=0.5)
    forward(module, "scaled", strategy, m=Array(m), s=0.5)
    forward(module, "sum_of", strategy, v=Array(floats(rng, n, 3), "float[3]", (n,)))
    forward(module, "pair", strategy, a=Array(v), b=Array(w))
    forward(module, "gentle", strategy, x=Array(floats(rng, n, dtype=np.float16), "half"), a=0.5)
    forward(module, "gentle3", strategy, x=Array(floats(rng, n, 3, dtype=np.float16), "half3", (n,)), a=0.5)
    forward(module, "twice", strategy, x=Array(floats(rng, n, dtype=np.float64), "double"), a=0.1)
    forward(
        module,
        "applied",
        strategy,
        m=Array(floats(rng, 1, 2, 2), "float2x2", (1,)),
        x=Array(floats(rng, n, 2)),
    )
    forward(module, "four", strategy, x=Array(floats(rng, n, 4), "float4", (n,)), w=spy.float4(1, 2, 3, 4))
    forward(module, "two", strategy, x=Array(floats(rng, n, 2), "float2", (n,)), w=spy.float2(1, 2))


def test_forward_whole_numbers_and_bools(module, strategy, rng):
    n = 1003

    def whole(low, high, dtype):
        return rng.integers(low, high, n).astype(dtype)

    a, b, c, d = whole(-9, 9, "i4"), whole(0, 9, "u4"), whole(-9, 9, "i1"), whole(0, 9, "u2")
    found = forward(
        module, "whole", strategy,
        a=Array(a, "int"), b=Array(b, "uint"), c=Array(c, "int8_t"), d=Array(d, "uint16_t"),
    )  # fmt: skip
    np.testing.assert_array_equal(found, a * 3 + b.astype(int) - c + d)
    found = forward(module, "whole", strategy, a=Array(a, "int"), b=7, c=-3, d=4)
    np.testing.assert_array_equal(found, a * 3 + 7 + 3 + 4)
    big = rng.integers(0, 2**40, n)
    found = forward(module, "large", strategy, a=Array(big.astype("u8"), "uint64_t"), b=2**40)
    np.testing.assert_array_equal(found, big.astype("u8") * 3 + 2**40)
    p, q = rng.integers(0, 2, n).astype(bool), rng.integers(0, 2, n).astype(bool)
    found = forward(module, "both", strategy, a=Array(p, "bool"), b=Array(q, "bool"))
    np.testing.assert_array_equal(found, p & ~q)
    found = forward(module, "both", strategy, a=Array(p, "bool"), b=False)
    np.testing.assert_array_equal(found, p)
    x, m = floats(rng, n, 3), rng.integers(0, 2, (n, 3)).astype(bool)
    found = forward(module, "flags", strategy, x=Array(x), m=Array(m, "bool3", (n,)))
    expected = np.stack([(x[:, 0] > 0) & m[:, 0], (x[:, 1] > 0) | m[:, 1], m[:, 2]], 1)
    np.testing.assert_array_equal(np.asarray(found).reshape(n, 3), expected)


def test_forward_loops_and_branches(module, strategy, rng):
    for name in ("looped", "branch", "part"):
        forward(module, name, strategy, x=Array(floats(rng, 1003)))
    forward(module, "group", strategy, sl_first=Array(floats(rng, 1003)), total=Array(floats(rng, 1003)))


def test_forward_one_value_for_all(module, strategy, rng):
    x = floats(rng, 1003)
    for shape in ((1,), (1, 1)):
        y = forward(
            module, "polynomial", strategy, a=Array(np.full(shape, 1.5, "f4")), b=0.5, c=0.0, x=Array(x)
        )
        assert y.shape == ((1003,) if len(shape) == 1 else (1, 1003))


def test_forward_grid(module, strategy, rng):
    x = floats(rng, 7, 11)
    found = forward(module, "placed", strategy, i=spy.grid((7, 11)), x=Array(x))
    row, column = np.indices((7, 11))
    np.testing.assert_allclose(found, x + column * 10 + row, rtol=1e-6)
    x = floats(rng, 3, 5, 129)
    forward(module, "placed3", strategy, i=spy.grid((3, 5, 129)), x=Array(x))
    found = forward(module, "number", strategy, x=None, i=spy.grid((1003,)))
    np.testing.assert_array_equal(found, np.arange(1003) * 2 + 1)


def test_forward_out_parameters(module, strategy, rng):
    n = 1003
    x = floats(rng, n)
    own = forward(
        module, "outs", strategy, returns=False,
        x=Array(x), a=0.5, y=Array(np.zeros(n, "f4")), z=Array(np.zeros((n, 3), "f4"), "float3", (n,)),
    )  # fmt: skip
    np.testing.assert_allclose(own["y"].to_numpy(), x.astype(float) ** 2 * 0.5, rtol=1e-6)


def test_forward_many_arguments(module, strategy, rng):
    """More arguments than a push constant holds."""
    arrays = {n: Array(floats(rng, 1003)) for n in names_of(module, "many")}
    forward(module, "many", strategy, **arrays)


def test_forward_views(module, strategy, rng):
    """Rows of larger tensors, also where they begin at no multiple of 16 bytes, read and written in place."""
    device = module.device
    large = floats(rng, 5, 1003)
    x = spy.Tensor.from_numpy(device, large)
    y = spy.Tensor.zeros(device, (5, 1003), "float")
    values = {"x": x[1], "y": x[3]}
    kernel = straight.build(target_of(module, "waves"), values, y[2], strategy=strategy)
    assert not isinstance(kernel, str), kernel
    kernel.run(values, y[2])
    expected = module.waves(
        spy.Tensor.from_numpy(device, large[1].copy()), spy.Tensor.from_numpy(device, large[3].copy())
    )
    found = y.to_numpy()
    same(found[2], expected.to_numpy())
    assert not found[[0, 1, 3, 4]].any()


def test_result_given_or_made(module, rng):
    x = spy.Tensor.from_numpy(module.device, floats(rng, 1003))
    expected = module.looped(x).to_numpy()
    kernel = straight.build(target_of(module, "looped"), {"x": x}, None)
    for wanted in (None, "tensor", spy.Tensor):
        assert kernel.fits({"x": x}, wanted)
        same(kernel.run({"x": x}, wanted).to_numpy(), expected)
    given = spy.Tensor.empty(module.device, (1003,), "float")
    assert kernel.run({"x": x}, given) is given
    same(given.to_numpy(), expected)
    longer = spy.Tensor.from_numpy(module.device, floats(rng, 4, 77))
    assert kernel.fits({"x": longer}, None)
    same(kernel.run({"x": longer}, None).to_numpy(), module.looped(longer).to_numpy())


def test_appended_to_an_encoder(module, rng):
    device = module.device
    x = spy.Tensor.from_numpy(device, floats(rng, 1003))
    y = spy.Tensor.empty(device, (1003,), "float")
    kernel = straight.build(target_of(module, "looped"), {"x": x}, y)
    encoder = device.create_command_encoder()
    kernel.run({"x": x}, y, encoder)
    device.submit_command_buffer(encoder.finish())
    same(y.to_numpy(), module.looped(x).to_numpy())


# ----- backward -----


@pytest.mark.parametrize("count", COUNTS)
def test_backward_adds_to_gradients(module, strategy, rng, count):
    x, before = floats(rng, count), floats(rng, count)
    gradients, seed = backward(
        module, "polynomial", strategy, rng, a=1.5, b=-0.5, c=0.25, x=Array(x, grad=True, gradient=before)
    )
    exact = before + (3.0 * x.astype(float) - 0.5) * seed
    np.testing.assert_allclose(gradients["x"], exact, rtol=1e-5, atol=2e-6)


def test_backward_types(module, strategy, rng):
    n = 1003
    v, w = Array(floats(rng, n, 3), "float3", (n,), True), Array(floats(rng, n, 3), "float3", (n,), True)
    backward(module, "turned", strategy, rng, v=v, w=w, s=Array(floats(rng, n), grad=True))
    backward(module, "turned", strategy, rng, v=v, w=spy.float3(1, 2, 3), s=2.0)
    backward(module, "turned", strategy, rng, v=Array(floats(rng, n, 3), grad=True), w=w, s=2.0)
    backward(module, "scaled", strategy, rng, m=Array(floats(rng, n, 2, 3), "float2x3", (n,), True), s=0.5)
    backward(module, "sum_of", strategy, rng, v=Array(floats(rng, n, 3), "float[3]", (n,), True))
    backward(module, "pair", strategy, rng, a=v, b=w)
    half = Array(floats(rng, n, dtype=np.float16), "half", grad=True)
    backward(module, "gentle", strategy, rng, x=half, a=0.5)
    backward(
        module,
        "four",
        strategy,
        rng,
        x=Array(floats(rng, n, 4), "float4", (n,), True),
        w=spy.float4(1, 2, 3, 4),
    )
    backward(
        module,
        "applied",
        strategy,
        rng,
        m=Array(floats(rng, n, 2, 2), "float2x2", (n,), True),
        x=Array(floats(rng, n, 2)),
    )
    for name in ("looped", "branch", "part"):
        backward(module, name, strategy, rng, x=Array(floats(rng, n), grad=True))


def test_backward_double(module, strategy, rng):
    """slangpy has no gradients of double; here they come with the rest, shared ones too."""
    n, device = 1003, module.device
    x, seed = floats(rng, n, dtype=np.float64), floats(rng, n, dtype=np.float64)
    tensor = spy.Tensor.from_numpy(device, x).with_grads()
    a = spy.Tensor.from_numpy(device, np.array([0.1])).with_grads()
    result = spy.Tensor.empty(device, (n,), "double").with_grads()
    upload(result.grad_in, seed)
    kernel = straight.build(
        target_of(module, "twice", True), {"x": tensor, "a": a}, result, strategy=strategy
    )
    assert not isinstance(kernel, str), kernel
    kernel.run({"x": tensor, "a": a}, result)
    np.testing.assert_allclose(tensor.grad_out.to_numpy(), 0.2 * x * seed, rtol=1e-15)
    np.testing.assert_allclose(a.grad_out.to_numpy()[0], (x * x * seed).sum(), rtol=1e-12, atol=1e-12)


def test_backward_no_diff_and_whole_numbers(module, strategy, rng):
    x = floats(rng, 1003)
    on = rng.integers(0, 2, 1003).astype(bool)
    gradients, seed = backward(
        module, "mixed", strategy, rng, k=2.0, x=Array(x, grad=True), n=3, on=Array(on, "bool")
    )
    np.testing.assert_allclose(gradients["x"], np.where(on, 6.0, 2 * x.astype(float)) * seed, rtol=1e-6)


def test_backward_out_parameters(module, strategy, rng):
    """The seeds come from the tensors that the forward call writes, and stay."""
    n, device = 1003, module.device
    x = floats(rng, n)
    seeds = {"y": floats(rng, n), "z": floats(rng, n, 3)}
    found = []
    for own in (False, True):
        values = {"x": spy.Tensor.from_numpy(device, x).with_grads(), "a": 0.5}
        for name, dtype in (("y", "float"), ("z", "float3")):
            values[name] = spy.Tensor.empty(device, (n,), dtype).with_grads()
            upload(values[name].grad_in, seeds[name])
        if own:
            kernel = straight.build(target_of(module, "outs", True), values, None, strategy=strategy)
            assert not isinstance(kernel, str), kernel
            assert kernel.run(values, None) is None
            same(values["y"].grad_in.to_numpy(), seeds["y"])
        else:
            module.outs.bwds(**values)
        found.append(values["x"].grad_out.to_numpy())
    same(found[1], found[0])
    exact = x * seeds["y"].astype(float) + seeds["z"][:, 0] + 0.5 * seeds["z"][:, 1].astype(float)
    np.testing.assert_allclose(found[1], exact, rtol=1e-5, atol=1e-5)


def test_backward_many_arguments(module, strategy, rng):
    arrays = {n: Array(floats(rng, 1003), grad=True) for n in names_of(module, "many")}
    backward(module, "many", strategy, rng, **arrays)


def test_backward_gradient_elsewhere(module, strategy, rng):
    """A gradient of the tensor's shape that lies in a larger one."""
    device = module.device
    x, seed = floats(rng, 1003), floats(rng, 1003)
    store = spy.Tensor.zeros(device, (3, 1003), "float")
    tensor = spy.Tensor.from_numpy(device, x).with_grads(grad_out=store[1], zero=False)
    result = spy.Tensor.empty(device, (1003,), "float").with_grads()
    upload(result.grad_in, seed)
    kernel = straight.build(target_of(module, "branch", True), {"x": tensor}, result, strategy=strategy)
    assert not isinstance(kernel, str), kernel
    kernel.run({"x": tensor}, result)
    found = store.to_numpy()
    assert not found[[0, 2]].any()
    np.testing.assert_allclose(found[1], np.where(x > 0, 2 * x, -3.0) * seed, rtol=1e-6)


# ----- shared parameters -----


@pytest.mark.parametrize("count", [1003, 70001])
def test_shared_parameters(module, strategy, rng, count):
    x = floats(rng, count)
    before = floats(rng, 1)
    a = Array(np.array([1.5], "f4"), grad=True, gradient=before)
    b = Array(np.array([[-0.5]], "f4"), grad=True)
    c = Array(np.array([0.25], "f4"), grad=True)
    gradients, seed = backward(
        module, "polynomial", strategy, rng, ("a", "b", "c"), a=a, b=b, c=c, x=Array(x, grad=True)
    )
    wide, dy = x.astype(float), seed.reshape(-1).astype(float)
    for name, addends, start in (("a", wide**2 * dy, before[0]), ("b", wide * dy, 0), ("c", dy, 0)):
        error = abs(gradients[name].reshape(()) - (start + addends.sum()))
        assert error <= 1e-6 * abs(start + addends.sum()) + 1e-7 * np.abs(addends).max() * np.sqrt(count)


def test_shared_vectors_and_matrices(module, strategy, rng):
    n = 20011
    x = floats(rng, n, 4)
    w = floats(rng, 1, 4)
    gradients, seed = backward(
        module, "four", strategy, rng, ("w",), x=Array(x, "float4", (n,)), w=Array(w, "float4", (1,), True)
    )
    exact = (2 * w.astype(float) * x * seed).sum(0)
    np.testing.assert_allclose(gradients["w"].reshape(4), exact, rtol=1e-6, atol=1e-3 * 1e-2)
    x, m = floats(rng, n, 2), floats(rng, 1, 2, 2)
    gradients, seed = backward(
        module,
        "applied",
        strategy,
        rng,
        ("m",),
        m=Array(m, "float2x2", (1,), True),
        x=Array(x, "float2", (n,), True),
    )
    exact = np.einsum("ni,nj->ij", seed.reshape(n, 2).astype(float), x.astype(float))
    np.testing.assert_allclose(gradients["m"].reshape(2, 2), exact, rtol=1e-6, atol=1e-5)
    v = floats(rng, 3)
    gradients, seed = backward(
        module, "turned", strategy, rng, ("w", "s"),
        v=Array(floats(rng, n, 3), grad=True), w=Array(v, grad=True), s=Array(np.array([2.0], "f4"), grad=True),
    )  # fmt: skip


@pytest.mark.parametrize("count", [5000, 1 << 16])
def test_shared_half_is_rounded_once(module, strategy, rng, count):
    x = (floats(rng, count, dtype=np.float32) * 0.1).astype(np.float16)
    a = Array(np.array([0.5], np.float16), "half", grad=True)
    gradients, seed = backward(module, "gentle", strategy, rng, ("a",), x=Array(x, "half"), a=a)
    # What each element adds is what the function makes of halves; their sum is exact in float64.
    addends = single_halves(x, seed)
    assert gradients["a"][0] == np.float16(addends.astype(float).sum())


def single_halves(x, seed):
    """Return the derivative x * x * dy in half arithmetic, as the compiler orders it: dy times the square."""
    return (x * x).astype(np.float16) * seed.astype(np.float16)


def test_shared_sums_are_the_same_every_time(module, rng):
    n, device = 70001, module.device
    x = spy.Tensor.from_numpy(device, floats(rng, n))
    result = spy.Tensor.empty(device, (n,), "float").with_grads()
    upload(result.grad_in, floats(rng, n))
    found = []
    for _ in range(3):
        a = spy.Tensor.from_numpy(device, np.array([1.5], "f4")).with_grads()
        values = {"a": a, "b": 1.0, "c": 0.0, "x": x}
        kernel = straight.build(target_of(module, "polynomial", True), values, result)
        kernel.run(values, result)
        found.append(a.grad_out.to_numpy()[0])
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("double", [0, 1])
def test_sums_without_double_precision(device, rng, double, monkeypatch):
    """Pairs of floats where a device has no doubles: as good for sums of floats of mixed sizes and signs."""
    from slanglab.engine.straight import kernel as kernels

    monkeypatch.setattr(kernels, "has_double", lambda _: bool(double))
    session = device.create_slang_session(compiler_options={"include_paths": [spy.SHADER_PATH]})
    text = "[Differentiable] float times(float a, float x) { return a * x; }\n"
    module = spy.Module(session.load_module_from_source("test-sums", text))
    n = 200_003
    x = (rng.normal(size=n) * 10.0 ** rng.uniform(-6, 6, n)).astype("f4")
    tensor = spy.Tensor.from_numpy(device, x)
    result = spy.Tensor.empty(device, (n,), "float").with_grads()
    upload(result.grad_in, np.ones(n, "f4"))
    a = spy.Tensor.from_numpy(device, np.array([2.0], "f4")).with_grads()
    values = {"a": a, "x": tensor}
    one_by_one = Strategy(True, 1, 1, 256, 4)
    kernel = straight.build(target_of(module, "times", True), values, result, strategy=one_by_one)
    assert not isinstance(kernel, str), kernel
    kernel.run(values, result)
    exact = x.astype(float).sum()
    assert (
        abs(a.grad_out.to_numpy()[0] - exact) <= 1.3e-7 * abs(exact) + 1e-12 * np.abs(x.astype(float)).sum()
    )


def test_constant_addends_do_not_drift(module, strategy):
    """Equal addends are where plain float sums go wrong by more than noise."""
    n, device = 300_007, module.device
    x = spy.Tensor.from_numpy(device, np.full(n, 0.1, "f4"))
    result = spy.Tensor.empty(device, (n,), "float").with_grads()
    upload(result.grad_in, np.ones(n, "f4"))
    b = spy.Tensor.from_numpy(device, np.array([1.0], "f4")).with_grads()
    values = {"a": 1.0, "b": b, "c": 0.0, "x": x}
    kernel = straight.build(target_of(module, "polynomial", True), values, result, strategy=strategy)
    kernel.run(values, result)
    exact = n * float(np.float32(0.1))
    assert abs(b.grad_out.to_numpy()[0] / exact - 1) < 3e-7


# ----- what is not straight -----


def refused(module, name, result=None, backward=False, **values):
    built = straight.build(target_of(module, name, backward), values, result)
    assert isinstance(built, str), f"{name} was built"
    return built


def test_reasons(module, rng):
    device = module.device

    def tensor(*shape, dtype=np.float32):
        return spy.Tensor.from_numpy(device, rng.uniform(-1, 1, shape).astype(dtype))

    x = tensor(8, 6)
    assert "broadcast over part" in refused(module, "waves", x=x, y=tensor(6))
    assert "broadcast over part" in refused(module, "waves", x=x, y=tensor(8, 1))
    assert "does not have the shape" in refused(module, "waves", x=x, y=tensor(8, 5))
    assert "not contiguous" in refused(module, "looped", x=tensor(6, 8).view((6, 4), (8, 2)))
    assert "tensor of int" in refused(
        module, "looped", x=spy.Tensor.from_numpy(device, np.arange(5, dtype="i4"))
    )
    assert "no argument is an array" in refused(module, "looped", x=1.0)
    assert "inout" in refused(module, "inout_one", x=x)
    assert "of type S" in refused(module, "of_struct", s={"x": x})
    assert "Buffer" in refused(module, "looped", x=x.storage)
    assert "a list" in refused(module, "looped", x=[1.0, 2.0])
    assert "float for a int" in refused(module, "number", i=1.5)
    assert "steps" in refused(module, "number", i=spy.grid((5,), stride=(2,)))
    assert "grid of 2 axes" in refused(module, "number", i=spy.grid((5, 5)))
    assert "thread_id" in refused(module, "number", i=spy.thread_id()).lower().replace(
        "threadid", "thread_id"
    )
    assert "the result goes to" in refused(module, "looped", result="numpy", x=x)
    assert "the result goes to" in refused(module, "looped", result=np.zeros((8, 6), "f4"), x=x)
    assert "read" in refused(module, "looped", result=x, x=x)
    assert "part of the call" in refused(module, "looped", result=tensor(1, 6), x=x)


def test_reasons_backward(module, rng):
    device = module.device

    def tensor(*shape):
        return spy.Tensor.from_numpy(device, rng.uniform(-1, 1, shape).astype("f4"))

    x = tensor(8, 6).with_grads()
    seed = tensor(8, 6).with_grads()
    assert "not differentiable" in refused(module, "broken_backward", seed, True, x=x)
    assert "no gradient" in refused(module, "looped", tensor(8, 6), True, x=x)
    assert "goes to" in refused(module, "looped", None, True, x=x)
    assert "written" in refused(module, "waves", seed, True, x=x, y=x)
    assert "it is a view" in refused(module, "looped", tensor(6).with_grads(), True, x=x[1])
    shared = seed.grad_in
    same_store = tensor(8, 6).with_grads(grad_out=shared, zero=False)
    assert "read" in refused(module, "looped", seed, True, x=same_store)
    assert "no gradient" in refused(
        module, "outs", None, True, x=x, a=1.0, y=tensor(8, 6), z=spy.Tensor.empty(device, (8, 6), "float3")
    )


def test_reasons_by_modifier(module, rng):
    x = spy.Tensor.from_numpy(module.device, rng.uniform(-1, 1, 8).astype("f4"))
    function = module.looped
    from slangpy.core.native import Shape

    for node, word in (
        (function.map((0,)), "map"),
        (function.set({"K": 1.0}), "set"),
        (function.constants({"N": 1}), "constants"),
        (function.prelude("// nothing"), "prelude"),
        (function.call_group_shape(Shape((32,))), "call_group_shape"),
        (function.thread_group_size(spy.uint3(32, 1, 1)), "thread_group_size"),
    ):
        target = target_of(module, "looped")
        target.node = node
        built = straight.build(target, {"x": x}, None)
        assert isinstance(built, str)
        assert word in built
    generic = module["generic<float>"]
    target = Target("generic", generic, generic._slang_func, parameters(generic._slang_func), module.device)
    assert isinstance(straight.build(target, {"x": x}, None), str)


def test_uniform_globals_are_refused(device, rng):
    module = spy.Module(device.load_module_from_source("test-straight-uniform", UNIFORM))
    x = spy.Tensor.from_numpy(device, rng.uniform(-1, 1, 8).astype("f4"))
    assert "uniform K" in refused(module, "shifted", x=x)


def test_kernel_knows_which_calls_fit(module, rng):
    device = module.device

    def tensor(*shape):
        return spy.Tensor.from_numpy(device, rng.uniform(-1, 1, shape).astype("f4"))

    x, y = tensor(8, 6), tensor(8, 6)
    kernel = straight.build(target_of(module, "waves"), {"x": x, "y": y}, None)
    assert kernel.fits({"x": tensor(3, 5), "y": tensor(3, 5)}, None)
    assert not kernel.fits({"x": x, "y": tensor(1, 6)}, None)
    assert not kernel.fits({"x": x, "y": tensor(6, 8)}, None)
    assert not kernel.fits({"x": tensor(6, 8).view((6, 4), (8, 2)), "y": tensor(6, 4)}, None)
    assert not kernel.fits({"x": x, "y": y}, y)
    assert not kernel.fits({"x": x, "y": y}, "numpy")
    assert not kernel.fits({"x": x, "y": y}, np.zeros((8, 6), np.float32))
    with pytest.raises(ValueError, match="broadcast"):
        kernel.run({"x": x, "y": tensor(1, 6)}, None)
    assert kernel.group_shape == (256,)
    assert kernel.bytes({"x": x, "y": y}, None) == 3 * 4 * 48
    xg = tensor(8, 6).with_grads()
    seed = tensor(8, 6).with_grads()
    kernel = straight.build(target_of(module, "waves", True), {"x": xg, "y": y}, seed)
    assert not kernel.fits({"x": x, "y": y}, seed)
    assert kernel.bytes({"x": xg, "y": y}, seed) == (3 + 1 + 1) * 4 * 48


def test_results_outlive_their_arguments(module, rng):
    """Buffers that only pointers name must stay until the kernel has run."""
    device = module.device
    host = floats(rng, 1 << 18)
    x = spy.Tensor.from_numpy(device, host)
    kernel = straight.build(target_of(module, "looped"), {"x": x}, None)
    chained = x
    for _ in range(6):
        chained = kernel.run({"x": chained}, None)
    expected = x
    for _ in range(6):
        expected = module.looped(expected)
    same(chained.to_numpy(), expected.to_numpy())


# ----- random functions -----


def expression(rng, depth):
    """Return a random expression of x, y and a, as Slang and numpy both read it."""
    if depth == 0:
        return str(rng.choice(["x", "y", "a", "0.5", "x", "1.25"]))
    a, b = expression(rng, depth - 1), expression(rng, depth - 1)
    form = rng.choice(
        ["({a} + {b})", "({a} * {b})", "({a} - {b})", "sin({a})", "cos({a} * 0.5)", "exp(-({a}) * ({a}))"]
    )
    return str(form).format(a=a, b=b)


@pytest.mark.parametrize("_number", range(6))
def test_random_functions(device, rng, strategy, seed, _number):
    body = expression(rng, 3)
    print(body)
    text = f"[Differentiable] float made(float a, float x, float y) {{ return {body} + 0 * a * x * y; }}\n"
    module = spy.Module(
        device.load_module_from_source(f"test-straight-{seed}-{id(strategy)}-{_number}", text)
    )
    count = int(rng.integers(1, 6000))
    x, y = floats(rng, count), floats(rng, count)
    a = Array(np.array([0.75], "f4"), grad=True)
    forward(module, "made", strategy, a=0.75, x=Array(x), y=Array(y))
    gradients, cotangent = backward(
        module,
        "made",
        strategy,
        rng,
        ("a",),
        a=a,
        x=Array(x, grad=True),
        y=Array(y, grad=True, gradient=floats(rng, count)),
    )
    step = 1e-6
    names = {"sin": np.sin, "cos": np.cos, "exp": np.exp, "x": x.astype(float), "y": y.astype(float)}

    def value(shift):
        return np.broadcast_to(eval(body, {**names, "a": 0.75 + shift}), (count,))

    addends = (value(step) - value(-step)) / (2 * step) * cotangent.astype(float)
    assert abs(gradients["a"][0] - addends.sum()) <= 3e-6 * np.abs(addends).sum() + 1e-6 * count
