"""Functions and comparisons for the tests of straight kernels: each call is made by slangpy too, and may differ by 1 ulp."""

import numpy as np
import slangpy as spy

from slanglab.engine import straight
from slanglab.engine.parameters import parameters
from slanglab.engine.plans import adds_halves
from slanglab.engine.straight import Strategy, loading
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


def times_in_a_session_of_its_own(device, name, monkeypatch, double):
    """Return a module with `times`, whose kernels are compiled as for a device with or without double precision."""
    monkeypatch.setattr(loading, "has_double", lambda _: bool(double))
    session = device.create_slang_session(compiler_options={"include_paths": [spy.SHADER_PATH]})
    text = "[Differentiable] float times(float a, float x) { return a * x; }\n"
    return spy.Module(session.load_module_from_source(name, text))


def upload(tensor, values):
    bits = np.ascontiguousarray(values)
    if bits.dtype == bool:  # of four bytes, or of one on CUDA
        bits = bits.astype(f"u{tensor.storage.size // bits.size}")
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


def added_alike(a, b, before, terms=None):
    """Assert that two gradients are equal to what two derivatives 1 ulp apart make of them, added to the same value before.

    Where the sum cancels, an ulp of the derivative is many of the sum; so it is with the terms of the derivative itself. Two kernels may
    round a product before they add it, or not; and an ulp of what `exp` is taken of is several of its value.

    Parameters
    ----------
    a, b, before : ndarray
    terms : ndarray, optional
        The size of the derivative's terms: the sum of their absolute values.
    """
    if terms is None and not before.any():
        same(a, b, 1)
        return
    a, b = np.asarray(a), np.asarray(b)
    assert np.array_equal(np.isnan(a), np.isnan(b))
    before = before.reshape(a.shape)
    added = np.maximum(np.abs(a - before), np.abs(b - before))
    allowed = np.spacing(np.fmax(added, np.maximum(np.abs(a), np.abs(b))))
    if terms is not None:
        allowed = np.fmax(allowed, 8 * np.spacing(terms.astype(a.dtype)))
    assert not (np.abs(a - b) > allowed).any()


def forward(module, name, strategy, returns=True, terms=None, **arguments):
    """Run both ways; return the values of the straight one. `terms`: the size of what is added, where compilers may fuse products."""
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
        if terms is None:
            same(host(found), host(expected))
        else:
            values = host(found)
            added_alike(values, host(expected), np.zeros_like(values), terms)
    else:
        assert found is None
    for n in own:
        if isinstance(own[n], spy.Tensor):
            same(host(own[n]), host(peer[n]))
    return host(found) if returns else own


def backward(module, name, strategy, rng, shared=(), terms=None, **arguments):
    """Run both ways; compare every gradient but those of shared parameters, and return all of the straight one.

    `terms` takes the name of an argument and returns the size of its derivative's terms, for a seed of 1 and less.
    """
    case = Case(module, name, **arguments)
    plain = {n: strip(v) for n, v in arguments.items()}
    probe = getattr(module, name)(**Case(module, name, **plain).values())
    seed = (
        None if probe is None else rng.uniform(-1, 1, probe.to_numpy().shape).astype(probe.to_numpy().dtype)
    )
    results, every = [], []
    # The peer's kernel ends the process where the driver does not take what adds to halves: the caller has the exact values.
    halves = any("half" in spec.dtype and spec.grad for spec in arguments.values() if isinstance(spec, Array))
    alone = halves and not adds_halves(module.device)
    for which in (1,) if alone else (0, 1):
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
    own = every[-1]
    for n, spec in arguments.items():
        if isinstance(spec, Array):
            same(
                own[n].to_numpy(),
                spec.values.reshape(own[n].to_numpy().shape) if alone else every[0][n].to_numpy(),
            )
            if spec.grad and n not in shared and not alone:
                added_alike(
                    own[n].grad_out.to_numpy(),
                    every[0][n].grad_out.to_numpy(),
                    spec.gradient,
                    terms and terms(n),
                )
    if seed is not None:
        same(results[-1].grad_in.to_numpy(), seed)
    return {
        n: own[n].grad_out.to_numpy() for n, s in arguments.items() if isinstance(s, Array) and s.grad
    }, seed


def strip(spec):
    return Array(spec.values, spec.dtype, spec.shape) if isinstance(spec, Array) else spec


def floats(rng, *shape, dtype=np.float32):
    return rng.uniform(-2, 2, shape).astype(dtype)
