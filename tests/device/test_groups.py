"""Shapes of groups and of calls: what is chosen, and that results stay as they are."""

import math

import numpy as np
import pytest
import slangpy as spy
from slangpy.core.native import Shape

from slanglab.device import is_software
from slanglab.engine import callshape, groups
from slanglab.engine.parameters import parameter, parameters
from slanglab.engine.target import Target

TEXT = """
import "slangpy";
[Differentiable] float poly(float a, float x) { return a * x * x; }
float both(float a, float b) { return a + 2 * b; }
float dots(float3 a, float b) { return dot(a, float3(1, 2, 3)) + b; }
float rows(float2x3 m, float3 v) { return dot(mul(m, v), float2(1, 2)); }
float listed(float x[4], float y) { return x[0] + 2 * x[1] + 3 * x[2] + 4 * x[3] + y; }
float one(int i) { return float(i); }
float two(int2 i) { return float(i.x + 100 * i.y); }
float where(int2 i, float x) { return float(i.x + 100 * i.y) + x; }
float thread(uint3 t, float x) { return float(t.x) + x; }
float noise(float r, float x) { return r + x; }
float hashed(uint h, float x) { return float(h % 1000) + x; }
float gather(int i, Tensor<float, 1> t) { return t[i]; }
float column(int i, Tensor<float, 2> t) { return t[i, 0]; }
struct Pair : IDifferentiable { float a; float3 b; };
float pair(Pair p, float x) { return p.a + p.b.x + x; }
void into(float x, out float y) { y = 2 * x; }
struct Ball { float3 at; float size; float reach(float t) { return at.x + size * t; } };
"""


@pytest.fixture(scope="module")
def m(device):
    module = spy.Module(device.load_module_from_source("slanglab-test-groups", TEXT))
    return module


def _tensor(device, rng, shape, dtype="float"):
    made = spy.Tensor.empty(device, shape, dtype)
    made.copy_from_numpy(rng.random((*shape, *made.dtype.shape.as_tuple()), dtype=np.float32))
    return made


def _read(function, args, result=None, maps=None):
    """Return the shape that the reader tells, and the one that slangpy ran over."""
    specs = list(parameters(function._slang_func))
    values, mappings = list(args), list(maps or [None] * len(args))
    node = function.map(*maps) if maps else function
    kwargs = {}
    if result is not None:
        specs.append(parameter("_result", function._slang_func.return_type, "out"))
        values.append(result)
        mappings.append(None)
        kwargs["_result"] = result
    read = callshape.reader(specs, values, mappings)
    data = node.debug_build_call_data(*args, **kwargs)
    node(*args, **kwargs)
    return (read(values) if read is not None else None), data.last_call_shape.as_tuple(), read


CALLS = {
    "scalars": ("poly", lambda t: (2.0, 3.0)),
    "one axis": ("poly", lambda t: (2.0, t(103))),
    "broadcast": ("both", lambda t: (t(1, 7), t(5, 1))),
    "lower rank": ("both", lambda t: (t(7), t(5, 7))),
    "three axes": ("both", lambda t: (t(2, 1, 4), t(3, 1))),
    "vectors": ("dots", lambda t: (t(5, 3), t(5))),
    "vector elements": ("dots", lambda t: (t(5, dtype="float3"), t(4, 5))),
    "one vector": ("dots", lambda t: (spy.float3(1, 2, 3), t(6))),
    "one vector, axes of numbers": ("dots", lambda t: (t(3), t(6))),
    "vector as an axis": ("both", lambda t: (spy.float3(1, 2, 3), t(6, 1))),
    "matrices": ("rows", lambda t: (t(4, 2, 3), t(4, 3))),
    "arrays": ("listed", lambda t: (t(6, 4), t(6))),
    "numpy": ("both", lambda t: (np.ones((5, 1), np.float32), t(7))),
    "list": ("both", lambda t: ([1.0, 2.0, 3.0], t(4, 1))),
    "grid": ("one", lambda t: (spy.grid((11,)),)),
    "grid of two axes": ("two", lambda t: (spy.grid((5, 7)),)),
    "open grid": ("where", lambda t: (spy.grid((-1, 7)), t(5, 1))),
    "call_id": ("where", lambda t: (spy.call_id(), t(5, 7))),
    "thread_id": ("thread", lambda t: (spy.thread_id(), t(7))),
    "random": ("noise", lambda t: (spy.rand_float(0, 1, 1, 7), t(5, 7))),
    "hash": ("hashed", lambda t: (spy.wang_hash(seed=3), t(5))),
    "whole tensor": ("gather", lambda t: (spy.grid((9,)), t(20))),
    "batch of tensors": ("gather", lambda t: (spy.grid((9,)), t(4, 1, 20))),
    "two axes taken": ("column", lambda t: (spy.grid((9,)), t(20, 2))),
    "dict": ("pair", lambda t: ({"a": t(5, 1), "b": t(4, 3)}, t(5, 4))),
    "dict of numbers": ("pair", lambda t: ({"a": 1.0, "b": spy.float3(1, 2, 3)}, t(3))),
    "output": ("into", lambda t: (t(5, 7), t(5, 7))),
    "reference": ("into", lambda t: (2.0, spy.floatRef())),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_call_shape_is_slangpys(device, m, rng, name):
    function, make = CALLS[name]
    args = make(lambda *shape, dtype="float": _tensor(device, rng, shape, dtype))
    told, ran, _ = _read(getattr(m, function), args)
    assert told == ran


@pytest.mark.parametrize(
    ("function", "shapes", "maps", "shape"),
    [
        ("both", [(5,), (7,)], [(0,), (1,)], (5, 7)),
        ("both", [(5, 7), (7, 5)], [(0, 1), (1, 0)], (5, 7)),
        ("both", [(5,), (4, 5)], [(2,), (0, 1)], None),
        ("dots", [(5, 3), (4,)], [(1,), (0,)], (4, 5)),
    ],
)
def test_the_call_shape_follows_a_map(device, m, rng, function, shapes, maps, shape):
    args = [_tensor(device, rng, s) for s in shapes]
    if shape is None:
        args[0] = _tensor(device, rng, (6,))
        shape = (4, 5, 6)
    told, ran, _ = _read(getattr(m, function), args, maps=maps)
    assert told == ran == shape


def test_the_result_has_a_say(device, m):
    out = spy.Tensor.empty(device, (5, 7), "float")
    told, ran, read = _read(m.thread, (spy.thread_id(), 0.0), result=out)
    assert told == ran == (5, 7)
    assert read((spy.thread_id(), 0.0, spy.Tensor.empty(device, (3,), "float"))) == (3,)


def test_a_reader_serves_other_shapes_of_the_same_kind(device, m, rng):
    _, _, read = _read(m.both, (_tensor(device, rng, (5, 1)), _tensor(device, rng, (7,))))
    assert read((_tensor(device, rng, (3, 4)), _tensor(device, rng, (1,)))) == (3, 4)
    assert read((_tensor(device, rng, (3, 4)), _tensor(device, rng, (3,)))) is None


def test_what_cannot_be_told_is_not_guessed(device, m, rng):
    t = _tensor(device, rng, (5,))
    specs = parameters(m.both._slang_func)
    assert callshape.reader(specs, (t, object())) is None
    assert callshape.reader(specs, (t, t), (None, "float")) is None
    assert callshape.reader((None, specs[1]), (t, t)) is None


def test_instances_count(device, m, rng):
    struct = m.Ball.struct
    spec = parameter("this", struct)
    balls = spy.InstanceList(
        m.Ball, {"at": _tensor(device, rng, (5, 3)), "size": _tensor(device, rng, (4, 1))}
    )
    number = parameters(m.poly._slang_func)[0]
    read = callshape.reader((spec, number), (balls, 2.0))
    out = balls.reach(2.0)
    assert read((balls, 2.0)) == out.shape.as_tuple() == (4, 5)


# ----- what is chosen -----


def _shapes(rng):
    for _ in range(300):
        rank = int(rng.integers(1, 6))
        yield tuple(int(2 ** rng.uniform(0, 20 / rank + 1)) for _ in range(rank))
    yield from (
        (262144, 4),
        (2**20, 1),
        (1, 2**20),
        (2**18, 3),
        (1000, 257),
        (64, 128, 128),
        (33, 33, 33),
        (1025, 1025),
    )


def test_a_chosen_shape_fits(rng):
    chosen = 0
    for shape in _shapes(rng):
        for backward in (False, True):
            group = groups._fitted(shape, backward)
            if group is None:
                continue
            chosen += 1
            size = math.prod(group)
            assert len(group) == len(shape)
            assert size % 32 == 0
            assert 32 < size <= 1024
            padded = math.prod(-(-n // g) * g for n, g in zip(shape, group, strict=True))
            assert padded <= 3 * math.prod(shape), (shape, group)
    assert chosen > 300


@pytest.mark.parametrize(
    ("shape", "group"),
    [
        ((2**26,), (256,)),
        ((1024, 1024), (1, 256)),
        ((262144, 4), (64, 4)),
        ((2**20, 1), (256, 1)),
        ((64, 128, 128), (1, 2, 128)),
    ],
)
def test_the_last_axis_is_filled_first(shape, group):
    assert groups._fitted(shape, False) == group


def test_small_calls_and_calls_without_axes_keep_slangpys_groups(device):
    assert groups.group_shape((), False, device) is None
    assert groups.group_shape((4096,), True, device) is None
    if is_software(device):
        assert groups.group_shape((2**22,), False, device) == (1024,)
        assert groups.group_shape((2048, 2048), False, device) is None
    else:
        assert groups.group_shape((2**22,), False, device) == (256,)


# ----- that nothing changes -----

SHAPES = [(10007,), (103, 97), (3001, 3), (33, 34, 10), (9973, 1), (1, 9973), (7, 5, 6, 8, 9)]


def _same(make, function, shape):
    """Compare a call with and without the shape that a GPU would get for it, bit for bit."""
    for backward in (False, True):
        group = groups._fitted(shape, backward)
        assert group is not None
        plain, grouped = make(function), make(function.call_group_shape(Shape(group)))
        assert np.array_equal(plain, grouped)


@pytest.mark.parametrize("shape", SHAPES)
def test_values_and_gradients_stay(device, m, rng, shape):
    x = _tensor(device, rng, shape)
    _same(lambda f: f(1.5, x).to_numpy(), m.poly, shape)
    seeds = spy.Tensor.from_numpy(device, rng.random(shape, dtype=np.float32))

    def gradient(f):
        given, y = (
            x.with_grads(),
            spy.Tensor.empty(device, shape, "float").with_grads(grad_in=seeds, zero=False),
        )
        f.bwds(1.5, given, _result=y)
        return given.grad.to_numpy()

    _same(gradient, m.poly, shape)
    assert np.allclose(gradient(m.poly), 3 * x.to_numpy() * seeds.to_numpy(), rtol=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
def test_grids_and_call_ids_stay(device, m, rng, shape):
    x = _tensor(device, rng, shape)
    if len(shape) == 1:
        _same(lambda f: f(spy.grid(shape), _result="tensor").to_numpy(), m.one, shape)
    if len(shape) == 2:
        _same(lambda f: f(spy.call_id(), x).to_numpy(), m.where, shape)
        _same(lambda f: f(spy.grid(shape), x).to_numpy(), m.where, shape)


def test_numbered_threads_stay_along_one_axis(device, m, rng):
    x = _tensor(device, rng, (10007,))
    _same(lambda f: f(spy.thread_id(), x).to_numpy(), m.thread, (10007,))
    _same(lambda f: f(spy.rand_float(0, 1, 1, 7), x).to_numpy(), m.noise, (10007,))
    _same(lambda f: f(spy.wang_hash(seed=3), x).to_numpy(), m.hashed, (10007,))


def test_numbered_threads_are_known():
    for value in (spy.thread_id(), spy.rand_float(), spy.wang_hash()):
        assert groups.numbers_threads([1.0, value])
        assert groups.numbers_threads([{"a": {"b": value}}])
    assert not groups.numbers_threads([1.0, spy.grid((3,)), spy.call_id(), {"a": 2.0}, [1.0]])


def test_numbered_threads_change_over_two_axes(device, m, rng):
    """What `numbers_threads` is for."""
    x = _tensor(device, rng, (103, 97))
    group = Shape((4, 64))
    plain = m.thread(spy.thread_id(), x).to_numpy()
    assert not np.array_equal(m.thread.call_group_shape(group)(spy.thread_id(), x).to_numpy(), plain)


# ----- calls that keep their groups -----


def _target(device, function):
    return Target("f", function, function._slang_func, parameters(function._slang_func), device)


def test_a_group_shape_of_the_users_is_kept(device, m):
    target = _target(device, m.poly)
    assert groups.fixed(target) == ""
    own = target.modified("call_group_shape", m.poly.call_group_shape(Shape((64,))), (Shape((64,)),), {})
    assert ".call_group_shape" in groups.fixed(own)
    after = own.modified("bwds", own.node.bwds, (), {})
    assert ".call_group_shape" in groups.fixed(after)
    assert "WaveActiveSum" in groups.fixed(target, "WaveActiveSum")


@pytest.mark.parametrize(
    "text",
    [
        "groupshared float a[4];",
        "float f(float x) { return WaveActiveSum(x); }",
        "void f() { GroupMemoryBarrierWithGroupSync(); }",
        "#define SUM WaveActiveSum\nfloat f(float x) { return SUM(x); }",
        "float f(uint i : SV_GroupIndex) { return i; }",
    ],
)
def test_words_that_depend_on_groups_are_found(text):
    assert groups.group_words(["float g(float x) { return x; }", text])


@pytest.mark.parametrize(
    "text",
    [
        "// groupshared\nfloat f(float x) { return x; }",
        '/* WaveActiveSum(x) */ static String s = "SV_GroupID";',
        "float Wave(float x) { return x; } float Waveform; int groupsharedness; float waveLength;",
    ],
)
def test_other_words_are_not(text):
    assert groups.group_words([text]) == ""
