"""Shared gradients against float64 numpy, whatever the argument's type and the call's shape."""

import math
import sys

import numpy as np
import pytest
import slangpy as spy
from slangpy.core.native import Shape

from slanglab.engine.parameters import parameter, parameters
from slanglab.engine.shared import additions, cells, share, worth, wrap
from slanglab.tensors import kernels

TEXT = """
import "slangpy";
[Differentiable] float scale(float a, float x) { return a * x; }
[Differentiable] float square(float a, float b, float x) { return a * x * x + b * x; }
[Differentiable] float two(float2 a, float x) { return a.x * x + a.y * x * x; }
[Differentiable] float three(float3 a, float x) { return a.x * x + a.y * x * x + a.z; }
[Differentiable] float four(float4 a, float x) { return a.x * x + a.y * x * x + a.z + a.w * 2 * x; }
[Differentiable] float grid_of(float2x2 a, float x) { return a[0][0] * x + a[0][1] * x * x + a[1][0] + a[1][1] * 2 * x; }
[Differentiable] float listed(float a[3], float x) { return a[0] * x + a[1] * x * x + a[2]; }
[Differentiable] half halves(half a, half x) { return a * x; }
[Differentiable] half half_three(half3 a, half x) { return a.x * x + a.y * (x + x) - a.z * x; }
[Differentiable] float forked(float a, float x)
{
    if (x < 0.25) return a * x;
    float s = 0;
    [MaxIters(4)] for (int i = 0; i < 4; i++) { if (float(i) > 4 * x) break; s += a * x; }
    return s;
}
struct Pair : IDifferentiable { float a; float3 b; };
[Differentiable] float pair(Pair p, float x) { return p.a * x + p.b.x * x * x + p.b.y + p.b.z * 2 * x; }
struct Nest : IDifferentiable { Pair a; float b; };
[Differentiable] float nest(Nest n, float x) { return n.a.a * x + n.b * x * x; }
struct Line : IDifferentiable { float m; float c; [Differentiable] float at(float x) { return m * x + c; } };
[Differentiable] void into(float a, float x, out float y) { y = a * x; }
[Differentiable] float gathered(int i, float a, IDiffTensor<float, 1> x) { return a * x[i]; }
[Differentiable] half gathered_half(int i, IDiffTensor<half, 1> w) { return w[i % 4]; }
void counted(int i, AtomicTensor<float, 1> t) { t.add({ 0 }, 1.0); }
"""


@pytest.fixture(scope="module")
def m(device):
    return spy.Module(device.load_module_from_source("slanglab-test-shared", TEXT))


def _tensor(device, array, dtype="float", grads=True):
    made = spy.Tensor.empty(device, array.shape[: array.ndim - len(_cell(device, dtype))], dtype)
    made.copy_from_numpy(array.copy().reshape(-1).reshape(array.shape))
    return _zeroed(made.with_grads()) if grads else made


def _cell(device, dtype):
    return spy.Tensor.empty(device, (1,), dtype).dtype.shape.as_tuple()


def _zeroed(tensor):
    tensor.grad.copy_from_numpy(np.zeros_like(tensor.grad.to_numpy()))
    return tensor


def _seeded(device, seeds, dtype="float"):
    made = spy.Tensor.empty(device, seeds.shape, dtype).with_grads()
    made.grad.copy_from_numpy(np.ascontiguousarray(seeds))
    return made


def _specs(function):
    return parameters(function._slang_func)


def _numbers(rng, *shape):
    return rng.random(shape, dtype=np.float32) + np.float32(0.5)


BASES = {
    "scale": lambda x: [x],
    "two": lambda x: [x, x * x],
    "three": lambda x: [x, x * x, np.ones_like(x)],
    "four": lambda x: [x, x * x, np.ones_like(x), 2 * x],
    "grid_of": lambda x: [x, x * x, np.ones_like(x), 2 * x],
    "listed": lambda x: [x, x * x, np.ones_like(x)],
}
SHAPES = {"scale": (1,), "two": (2,), "three": (3,), "four": (4,), "grid_of": (2, 2), "listed": (3,)}
TYPES = {"two": "float2", "three": "float3", "four": "float4", "grid_of": "float2x2", "listed": "float[3]"}


def _truth(name, x, seeds):
    """Return the gradient of the parameter of one of the functions above, in float64, from what the device is given."""
    parts = [(np.asarray(p) * seeds.astype(np.float64)).sum() for p in BASES[name](x.astype(np.float64))]
    return np.array(parts).reshape(SHAPES[name])


@pytest.mark.parametrize("group", [None, (64,), (1024,)])
@pytest.mark.parametrize("name", BASES)
@pytest.mark.parametrize("kind", ["numbers", "elements"])
def test_every_type_is_summed_right(device, m, rng, name, group, kind):
    n = 100003
    x, seeds = _numbers(rng, n), _numbers(rng, n)
    a = _numbers(rng, *SHAPES[name])
    if kind == "elements":
        if name not in TYPES:
            pytest.skip("a number is its own element")
        given = _tensor(device, a[None], TYPES[name])
    else:
        given = _tensor(device, a)
    function = getattr(m, name)
    spec = _specs(function)[0]
    assert worth(given, (n,), spec)
    node = function if group is None else function.call_group_shape(Shape(group))
    node.bwds(wrap(given, n, spec), _tensor(device, x), _result=_seeded(device, seeds))
    got = given.grad.to_numpy().reshape(SHAPES[name])
    assert np.allclose(got, _truth(name, x, seeds), rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", ["scale", "two", "three", "four", "grid_of"])
def test_four_million_threads(device, m, rng, name):
    n = 2**22
    x, seeds = _numbers(rng, n), np.ones(n, np.float32)
    given = _tensor(device, _numbers(rng, *SHAPES[name]))
    function = getattr(m, name)
    function.bwds(wrap(given, n, _specs(function)[0]), _tensor(device, x), _result=_seeded(device, seeds))
    assert np.allclose(given.grad.to_numpy(), _truth(name, x, seeds), rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    ("shape", "call"),
    [
        ((1, 37), (4001, 37)),
        ((37,), (4001, 37)),
        ((37, 1), (37, 4001)),
        ((1, 1), (301, 37)),
        ((1,), (33, 34, 10)),
        ((3, 1, 2), (3, 5000, 2)),
        ((5, 1), (2, 5, 3001)),
    ],
)
@pytest.mark.parametrize("grouped", [False, True])
def test_broadcast_axes(device, m, rng, shape, call, grouped):
    x, seeds, a = _numbers(rng, *call), _numbers(rng, *call), _numbers(rng, *shape)
    given = _tensor(device, a)
    spec = _specs(m.scale)[0]
    assert worth(given, call, spec)
    node = m.scale.call_group_shape(Shape((*(1,) * (len(call) - 1), 64))) if grouped else m.scale
    node.bwds(wrap(given, math.prod(call), spec), _tensor(device, x), _result=_seeded(device, seeds))
    each = x.astype(np.float64) * seeds
    padded = (1,) * (len(call) - len(shape)) + shape
    axes = tuple(i for i, n in enumerate(padded) if n != call[i])
    assert np.allclose(given.grad.to_numpy(), each.sum(axis=axes, keepdims=True).reshape(shape), rtol=1e-6)


def test_a_batch_of_vectors(device, m, rng):
    x, seeds, a = _numbers(rng, 7, 3001), _numbers(rng, 7, 3001), _numbers(rng, 7, 1, 3)
    given = _tensor(device, a)
    m.three.bwds(
        wrap(given, 7 * 3001, _specs(m.three)[0]), _tensor(device, x), _result=_seeded(device, seeds)
    )
    want = np.stack([_truth("three", x[i], seeds[i]) for i in range(7)])
    assert np.allclose(given.grad.to_numpy()[:, 0], want, rtol=1e-6)


def test_a_mapped_argument(device, m, rng):
    x, a = _numbers(rng, 5003), _numbers(rng, 3)
    seeds = _numbers(rng, 3, 5003)
    given = _tensor(device, a)
    node = m.scale.map((0,), (1,))
    node.bwds(wrap(given, 3 * 5003, _specs(m.scale)[0]), _tensor(device, x), _result=_seeded(device, seeds))
    assert np.allclose(given.grad.to_numpy(), (seeds.astype(np.float64) * x).sum(axis=1), rtol=1e-6)


def test_a_function_that_forks(device, m, rng):
    n = 50021
    x = rng.random(n, dtype=np.float32)
    given = _tensor(device, _numbers(rng, 1))
    m.forked.bwds(
        wrap(given, n, _specs(m.forked)[0]),
        _tensor(device, x),
        _result=_seeded(device, np.ones(n, np.float32)),
    )
    times = np.where(x < 0.25, 1, np.minimum(np.floor(np.float32(4) * x) + 1, 4))
    assert np.allclose(given.grad.to_numpy(), (times * x.astype(np.float64)).sum(), rtol=1e-6)


def test_it_adds_to_what_is_there_and_again(device, m, rng):
    n = 20011
    x = _numbers(rng, n)
    given = _tensor(device, _numbers(rng, 1))
    given.grad.copy_from_numpy(np.array([1000], np.float32))
    for _ in range(3):
        m.scale.bwds(
            wrap(given, n, _specs(m.scale)[0]),
            _tensor(device, x),
            _result=_seeded(device, np.ones(n, np.float32)),
        )
    assert np.allclose(given.grad.to_numpy(), 1000 + 3 * x.astype(np.float64).sum(), rtol=1e-6)


def test_two_arguments_and_the_others(device, m, rng):
    n = 20011
    x, seeds = _numbers(rng, n), _numbers(rng, n)
    a, b, given = _tensor(device, _numbers(rng, 1)), _tensor(device, _numbers(rng, 1)), _tensor(device, x)
    va, vb = float(a.to_numpy()[0]), float(b.to_numpy()[0])
    s, d = _specs(m.square), x.astype(np.float64)
    m.square.bwds(wrap(a, n, s[0]), wrap(b, n, s[1]), given, _result=_seeded(device, seeds))
    assert np.allclose(a.grad.to_numpy(), (seeds * d * d).sum(), rtol=1e-6)
    assert np.allclose(b.grad.to_numpy(), (seeds * d).sum(), rtol=1e-6)
    assert np.allclose(given.grad.to_numpy(), seeds * (2 * va * d + vb), rtol=1e-5)
    _zeroed(a)
    m.square.bwds(wrap(a, n, s[0]), wrap(a, n, s[1]), given, _result=_seeded(device, seeds))
    assert np.allclose(a.grad.to_numpy(), (seeds * (d * d + d)).sum(), rtol=1e-6)


def test_fields_of_a_struct(device, m, rng):
    n = 20011
    x, seeds = _numbers(rng, n), _numbers(rng, n)
    a, b = _tensor(device, _numbers(rng, 1)), _tensor(device, _numbers(rng, 3))
    fields = _specs(m.pair)[0].fields
    assert worth(a, (n,), fields["a"])
    assert worth(b, (n,), fields["b"])
    p = {"a": wrap(a, n, fields["a"]), "b": wrap(b, n, fields["b"])}
    m.pair.bwds(p, _tensor(device, x), _result=_seeded(device, seeds))
    d = x.astype(np.float64)
    assert np.allclose(a.grad.to_numpy(), (seeds * d).sum(), rtol=1e-6)
    assert np.allclose(b.grad.to_numpy(), [(seeds * p).sum() for p in (d * d, np.ones(n), 2 * d)], rtol=1e-6)


def test_the_instance_of_a_method(device, m, rng):
    n = 20011
    x, seeds = _numbers(rng, n), _numbers(rng, n)
    slope, offset = _tensor(device, _numbers(rng, 1)), _tensor(device, _numbers(rng, 1))
    number = _specs(m.scale)[0]
    line = spy.InstanceList(m.Line, {"m": wrap(slope, n, number), "c": wrap(offset, n, number)})
    line.at.bwds(_tensor(device, x), _result=_seeded(device, seeds))
    assert np.allclose(slope.grad.to_numpy(), (seeds * x.astype(np.float64)).sum(), rtol=1e-6)
    assert np.allclose(offset.grad.to_numpy(), seeds.astype(np.float64).sum(), rtol=1e-6)


def test_share_goes_into_dicts_and_instances(device, m, rng):
    n = 20011
    x, seeds = _numbers(rng, n), _numbers(rng, n)
    d = seeds * x.astype(np.float64)
    a, b, own = (_tensor(device, _numbers(rng, 1)) for _ in range(3))
    spec = _specs(m.nest)[0]
    given = {"a": {"a": a, "b": spy.float3(1, 2, 3)}, "b": b}
    made = []
    shared = share(given, (n,), spec, made)
    assert [s.tensor for s in made] == [a, b]
    assert given["b"] is b
    assert given["a"]["a"] is a
    m.nest.bwds(shared, _tensor(device, x), _result=_seeded(device, seeds))
    assert np.allclose(a.grad.to_numpy(), d.sum(), rtol=1e-6)
    assert np.allclose(b.grad.to_numpy(), (d * x).sum(), rtol=1e-6)

    line = spy.InstanceList(m.Line, {"m": own, "c": 2.0})
    this = share(line, (n,), parameter("this", m.Line.struct), made)
    assert made[-1].tensor is own
    m.Line.at.bind(this).bwds(_tensor(device, x), _result=_seeded(device, seeds))
    assert np.allclose(own.grad.to_numpy(), d.sum(), rtol=1e-6)
    assert share(given, (512,), spec) is given
    assert share(line, (512,), parameter("this", m.Line.struct)) is line
    assert share(3.0, (n,), spec) == 3.0


def test_beside_outputs_grids_and_gathers(device, m, rng):
    n = 20011
    x, seeds = _numbers(rng, n), _numbers(rng, n)
    a, given = _tensor(device, _numbers(rng, 1)), _tensor(device, x)
    value = float(a.to_numpy()[0])
    m.into.bwds(wrap(a, n, _specs(m.into)[0]), given, _seeded(device, seeds))
    m.gathered.bwds(spy.grid((n,)), wrap(a, n, _specs(m.gathered)[1]), given, _result=_seeded(device, seeds))
    assert np.allclose(a.grad.to_numpy(), 2 * (seeds * x.astype(np.float64)).sum(), rtol=1e-6)
    assert np.allclose(given.grad.to_numpy(), 2 * value * seeds.astype(np.float64), rtol=1e-5)


@pytest.mark.parametrize(
    ("parts", "total"),
    [
        ([np.inf], np.inf),
        ([-np.inf, 5], -np.inf),
        ([np.inf, -np.inf], np.nan),
        ([np.nan, 1], np.nan),
        ([3e38, 3e38], np.inf),
    ],
)
def test_the_ends_of_float(device, m, rng, parts, total):
    n = 3001
    x = np.zeros(n, np.float32)
    x[rng.permutation(n)[: len(parts)]] = parts
    given = _tensor(device, _numbers(rng, 1))
    for want in (total, 1.5):  # what one call leaves in the cells is not in the next
        _zeroed(given)
        m.scale.bwds(
            wrap(given, n, _specs(m.scale)[0]),
            _tensor(device, x),
            _result=_seeded(device, np.ones(n, np.float32)),
        )
        assert np.array_equal(given.grad.to_numpy(), np.array([want], np.float32), equal_nan=True)
        x = np.zeros(n, np.float32)
        x[:3] = 0.5


# ----- halves -----


def _halves(rng, n, kind):
    if kind == "any":  # every finite half
        bits = rng.integers(0, 2**16, n).astype(np.uint16)
        found = bits.view(np.float16)
        return np.where(np.isfinite(found), found, np.float16(1))
    if kind == "small":  # subnormal, most of them
        return (rng.integers(-1024, 1024, n) * 2.0**-24).astype(np.float16)
    if kind == "cancelling":
        half = rng.standard_normal(n // 2).astype(np.float16)
        found = np.concatenate([half, -half, half[: n % 2]])
        found[0] += np.float16(0.125)
        return rng.permutation(found)
    return (rng.random(n) / 100).astype(np.float16)


def _rounded(exact):
    with np.errstate(over="ignore"):
        return np.float16(exact)


@pytest.mark.usefixtures("adding_halves")
@pytest.mark.parametrize("kind", ["positive", "cancelling", "small", "any"])
def test_halves_are_the_exact_sum_rounded_once(device, m, rng, kind):
    """The sum of halves is exact in float64, in any order: multiples of 2^-24 below 2^29."""
    spec = _specs(m.halves)[0]
    for _ in range(25):
        n = int(rng.integers(2000, 9000))
        x = _halves(rng, n, kind)
        if kind == "any":
            x[: n // 2] = -x[n - n // 2 :]  # most cancel, so that the sum is finite
        before = _halves(rng, 1, "any")
        given = _tensor(device, np.ones(1, np.float16), "half")
        given.grad.copy_from_numpy(before)
        seeds = np.ones(n, np.float16)
        assert worth(given, (n,), spec)
        m.halves.bwds(
            wrap(given, n, spec), _tensor(device, x, "half"), _result=_seeded(device, seeds, "half")
        )
        exact = math.fsum([*x.astype(np.float64), float(before[0])])
        assert given.grad.to_numpy()[0] == _rounded(exact)


@pytest.mark.usefixtures("adding_halves")
def test_sums_next_to_the_middle_between_two_halves(device, m, rng):
    """Where a float sum would be rounded to the wrong side: one part in 2^24 above or below a tie."""
    spec = _specs(m.halves)[0]
    for _ in range(40):
        n = 4096
        least = int(rng.integers(0, 5))
        x = np.zeros(n, np.float16)
        middle = 2048 + 2 * int(rng.integers(0, 1023)) + 1  # between two halves, which are 2 apart here
        at = rng.permutation(n)
        x[at[:2]] = middle // 2, middle - middle // 2
        x[at[2]] = np.float16(rng.choice([-1, 0, 1]) * 2.0 ** -(20 + least))
        given = _tensor(device, np.ones(1, np.float16), "half")
        m.halves.bwds(
            wrap(given, n, spec),
            _tensor(device, x, "half"),
            _result=_seeded(device, np.ones(n, np.float16), "half"),
        )
        assert given.grad.to_numpy()[0] == _rounded(x.astype(np.float64).sum())


@pytest.mark.usefixtures("adding_halves")
@pytest.mark.parametrize(
    ("parts", "total"),
    [
        ([np.inf], np.inf),
        ([-np.inf, 5], -np.inf),
        ([np.inf, -np.inf], np.nan),
        ([np.nan, 1], np.nan),
        ([65504, 15], 65504),
        ([65504, 16], np.inf),
        ([-65504, -16], -np.inf),
        ([65504] * 100 + [-65504] * 99, 65504),
        ([-65504] * 3, -np.inf),
        ([1, -1], 0),
    ],
)
def test_the_ends_of_half(device, m, rng, parts, total):
    n = 3001
    x = np.zeros(n, np.float16)
    x[rng.permutation(n)[: len(parts)]] = parts
    given = _tensor(device, np.ones(1, np.float16), "half")
    m.halves.bwds(
        wrap(given, n, _specs(m.halves)[0]),
        _tensor(device, x, "half"),
        _result=_seeded(device, np.ones(n, np.float16), "half"),
    )
    assert np.array_equal(given.grad.to_numpy(), np.array([total], np.float16), equal_nan=True)


@pytest.mark.usefixtures("adding_halves")
def test_vectors_of_halves(device, m, rng):
    n = 50021
    x = (rng.integers(-512, 512, n) / 1024).astype(np.float16)  # twice of it is exact
    given = _tensor(device, np.ones((1, 3), np.float16), "half3")
    spec = _specs(m.half_three)[0]
    if (
        given.storage.struct_size != 6
    ):  # CUDA pads it to 8 bytes; the call then says what a half holds (engine/shared/additions.py)
        assert not worth(given, (n,), spec)
        return
    assert worth(given, (n,), spec)
    m.half_three.bwds(
        wrap(given, n, spec),
        _tensor(device, x, "half"),
        _result=_seeded(device, np.ones(n, np.float16), "half"),
    )
    exact = x.astype(np.float64).sum()
    assert np.array_equal(given.grad.to_numpy()[0], _rounded(np.array([exact, 2 * exact, -exact])))


# ----- recording, failing, keeping -----


def test_calls_on_an_encoder(device, m, rng):
    n = 20011
    x, seeds = _numbers(rng, n), _numbers(rng, n)
    a, given, r = _tensor(device, _numbers(rng, 1)), _tensor(device, x), _seeded(device, seeds)
    shared = wrap(a, n, _specs(m.scale)[0])
    encoder = device.create_command_encoder()
    for _ in range(3):
        m.scale.bwds.append_to(encoder, shared, given, _result=r)
    shared.finish(encoder)
    assert not a.grad.to_numpy().any()
    # Another call while that one waits, in the same cells.
    b = _tensor(device, _numbers(rng, 1))
    m.scale.bwds(wrap(b, n, _specs(m.scale)[0]), given, _result=r)
    device.submit_command_buffer(encoder.finish())
    once = (seeds * x.astype(np.float64)).sum()
    assert np.allclose(a.grad.to_numpy(), 3 * once, rtol=1e-6)
    assert np.allclose(b.grad.to_numpy(), once, rtol=1e-6)


def _pool(device):
    return kernels.kept(device, ("shared cells",), dict)


def test_cells_are_used_again_and_zero(device, m, rng):
    n = 20011
    x = _tensor(device, _numbers(rng, n))
    r = _seeded(device, np.ones(n, np.float32))
    spec = _specs(m.scale)[0]
    _pool(device).clear()
    for _ in range(5):
        m.scale.bwds(wrap(_tensor(device, _numbers(rng, 1)), n, spec), x, _result=r)
    (home,) = _pool(device).values()
    assert len(home) == 1
    assert not home[0].tensor.to_numpy().any()


def test_a_call_that_fails_leaves_no_cells_in_use(device, m, rng):
    n = 20011
    x = _numbers(rng, n)
    spec = _specs(m.scale)[0]
    a, given, r = (
        _tensor(device, _numbers(rng, 1)),
        _tensor(device, x),
        _seeded(device, np.ones(n, np.float32)),
    )
    m.scale.bwds(wrap(a, n, spec), given, _result=r)
    with pytest.raises(ValueError, match="Shape mismatch"):
        m.scale.bwds(wrap(a, n, spec), given, _result=_seeded(device, np.ones(n + 1, np.float32)))
    with pytest.raises(RuntimeError):
        m.scale.bwds(wrap(a, n, spec), given, _result=spy.Tensor.empty(device, (n,), "float"))
    _zeroed(a)
    m.scale.bwds(wrap(a, n, spec), given, _result=r)
    assert np.allclose(a.grad.to_numpy(), x.astype(np.float64).sum(), rtol=1e-6)
    assert all(not c.tensor.to_numpy().any() for home in _pool(device).values() for c in home)


def test_nothing_holds_the_tensor_after_the_call(device, m, rng):
    n = 20011
    x, r = _tensor(device, _numbers(rng, n)), _seeded(device, np.ones(n, np.float32))
    a = _tensor(device, _numbers(rng, 1))
    before = sys.getrefcount(a)
    m.scale.bwds(wrap(a, n, _specs(m.scale)[0]), x, _result=r)
    assert sys.getrefcount(a) == before


def test_kernels_with_and_without_gradients_are_told_apart(device, m, rng):
    n = 20011
    x, r = _numbers(rng, n), _seeded(device, np.ones(n, np.float32))
    given, spec = _tensor(device, x), _specs(m.scale)[0]
    bare = _tensor(device, _numbers(rng, 1), grads=False)
    m.scale.bwds(bare, given, _result=r)  # a kernel that writes no gradient
    a = _tensor(device, _numbers(rng, 1))
    m.scale.bwds(wrap(a, n, spec), given, _result=r)
    assert np.allclose(a.grad.to_numpy(), x.astype(np.float64).sum(), rtol=1e-6)


def test_a_few_sizes_of_cells_are_kept(device):
    _pool(device).clear()
    for width in range(1, 200):
        cells.take(device, width, 1 << 20, False).home.append(None)
    assert len(_pool(device)) <= 32
    _pool(device).clear()


# ----- what is worth it -----


def test_what_is_left_to_slangpy(device, m, rng):
    spec = _specs(m.scale)[0]
    a = _tensor(device, _numbers(rng, 1))
    assert worth(a, (1024,), spec)
    assert not worth(a, (1023,), spec)
    assert not worth(_tensor(device, _numbers(rng, 1), grads=False), (4096,), spec)
    assert not worth(2.0, (4096,), spec)
    assert not worth(
        _tensor(device, _numbers(rng, 4, 3))[0], (4096, 3), spec
    )  # its gradient is the whole one
    assert not worth(_tensor(device, _numbers(rng, 64)), (4096, 64), _specs(m.gathered)[2])
    assert not worth(_tensor(device, _numbers(rng, 1)), (4096,), _specs(m.into)[2])


@pytest.mark.usefixtures("adding_halves")
def test_gathers_of_too_many_threads_are_named(device, m, rng):
    specs = _specs(m.gathered_half)
    w = _tensor(device, np.ones(4, np.float16), "half")
    (text,) = additions({"i": spy.grid((20000,)), "w": w}, specs, (20000,))
    assert "w" in text
    assert "5000 additions" in text
    assert "half" in text
    assert additions({"w": w}, specs, (8192,)) == []
    assert additions({"w": w}, specs, (20000,), backward=False) == []
    # What the sentence says is so: slangpy's own sum is off.
    m.gathered_half.bwds(spy.grid((20000,)), w, _result=_seeded(device, np.ones(20000, np.float16), "half"))
    assert (w.grad.to_numpy() < 4000).all()


def test_floats_and_atomics_are_named_too(device, m, rng):
    specs = _specs(m.gathered)
    x = _tensor(device, np.ones(2, np.float32))
    (text,) = additions({"x": x, "a": _tensor(device, np.ones(1, np.float32))}, specs, (2**24,))
    assert text.startswith("x: ")
    assert "float64" in text
    atomic = spy.Tensor.zeros(device, (1,), "float")
    (text,) = additions({"t": atomic}, _specs(m.counted), (2**23,), backward=False)
    assert text.startswith("t: its one element")
    assert additions({"t": atomic}, _specs(m.counted), (2**22,), backward=False) == []


def test_what_cannot_be_shared_is_named(device, m, rng):
    rows = _tensor(device, np.ones((4, 1), np.float16), "half")
    (text,) = additions({"a": rows[0]}, _specs(m.halves), (20000,))
    assert text.startswith("a: ")
    whole = _tensor(device, np.ones(1, np.float16), "half")
    assert additions({"a": whole}, _specs(m.halves), (20000,)) == []
    column = _tensor(device, np.ones((2, 1), np.float32))
    (text,) = additions({"p": {"a": column[0], "b": 1.0}}, _specs(m.pair), (2**24,))
    assert text.startswith("p.a: ")
