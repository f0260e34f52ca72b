"""Calls that slangpy takes: what it would read wrong is refused, what it confuses is told apart, the rest goes as it is."""

import numpy as np
import pytest
import slangpy as spy

import slanglab
from slanglab.engine import quick
from slanglab.engine.dispatch import ValueWarning
from slanglab.errors import ArgumentError, CallError, NameNotFoundError

SOURCE = """
import slangpy;

[Differentiable] float quadratic(float a, float b, float x) { return a * x * x + b * x; }
float3 same(float3 v) { return v; }
float2x2 turned(float2x2 m) { return transpose(m); }
float sum3(float v[3]) { return v[0] + v[1] + v[2]; }
int doubled(int i) { return 2 * i; }
uint counted(uint i) { return i; }
float whole(Tensor<float, 1> t) { return t[0] + 10 * t[1]; }
void copied(float4 value, out float4 dest) { dest = value; }

struct Pair<T> { T first; T second; };
T first_of<T : __BuiltinFloatingPointType>(Pair<T> p) { return p.first; }
float total<let N : int>(float v[N]) { float s = 0; for (int i = 0; i < N; i++) s += v[i]; return s; }

struct Spring : IDifferentiable
{
    float k;
    float rest;
    __init() { k = 1; rest = 0; }
    __init(float k, float rest) { this.k = k; this.rest = rest; }
    [Differentiable] float force(float x) { return k * (x - rest); }
    [mutating] void stretch(float by) { rest += by; }
};
[Differentiable] float pull(Spring s, float x) { return s.k * (x - s.rest); }

float f(float x) { return x; }
float f(int x) { return 100 + x; }
"""


@pytest.fixture(scope="module")
def m(device):
    return slanglab.compile(SOURCE, "calls_under_test")


# ----- the last axes of a tensor make the elements of a parameter -----


@pytest.mark.parametrize("shape", [(4, 2), (4, 4), (5,), (4,), (4, 2, 2), (3, 1)])
def test_rows_of_another_length_are_no_vectors(m, shape):
    """slangpy reads what a row lacks from the next one, and in the last row from behind the buffer."""
    with pytest.raises(ArgumentError) as caught:
        m.same(slanglab.zeros(shape))
    assert str(shape) in caught.value.message
    assert "(…, 3)" in caught.value.message
    assert caught.value.argument == "v"


@pytest.mark.parametrize("shape", [(3,), (4, 3), (2, 5, 3)])
def test_rows_of_the_right_length_are_vectors(m, shape, rng):
    values = rng.standard_normal(shape).astype(np.float32)
    assert np.array_equal(m.same(slanglab.tensor(values), _result="numpy"), values)


def test_matrices_and_arrays_too(m, rng):
    values = rng.standard_normal((5, 2, 2)).astype(np.float32)
    turned = m.turned(slanglab.tensor(values), _result="numpy")
    assert np.array_equal(turned, values.swapaxes(1, 2))
    for shape in [(5, 2), (5, 2, 3), (5, 3, 2), (2,)]:
        with pytest.raises(ArgumentError, match=r"\(…, 2, 2\)"):
            m.turned(slanglab.zeros(shape))
    rows = rng.integers(0, 100, (6, 3)).astype(np.float32)
    assert np.array_equal(m.sum3(slanglab.tensor(rows), _result="numpy"), rows.sum(1))
    with pytest.raises(ArgumentError, match=r"\(…, 3\)"):
        m.sum3(slanglab.zeros((6, 4)))


@pytest.mark.parametrize("shape", [(4,), (4, 2), (3, 4)])
def test_a_result_that_cannot_hold_the_results(m, shape):
    v = slanglab.zeros((4,), dtype="float3")
    with pytest.raises(ArgumentError) as caught:
        m.same(v, _result=slanglab.zeros(shape))
    assert caught.value.argument == "_result"


def test_a_mapping_says_how_axes_make_elements(m):
    x = slanglab.tensor([1, 2, 3, 4, 5], dtype="float")
    spread = m.same.map((0,))(x, _result="numpy")
    assert np.array_equal(spread, np.repeat(np.arange(1, 6, dtype=np.float32)[:, None], 3, axis=1))
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    assert np.array_equal(m.same.map((0,))(slanglab.tensor(rows), _result="numpy"), rows)
    assert np.array_equal(m.same.map("float3")(slanglab.tensor(rows), _result="numpy"), rows)
    with pytest.raises(ArgumentError):
        m.same.map((0,))(slanglab.zeros((4, 2)))


def test_a_batch_of_arrays_for_a_tensor_parameter(m):
    rows = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    expected = rows[:, 0] + 10 * rows[:, 1]
    assert np.array_equal(m.whole(slanglab.tensor(rows), _result="numpy"), expected)
    assert np.array_equal(m.whole(rows, _result="numpy"), expected)


# ----- kernels that slangpy's cache takes for one -----


def _texture(device, kind, layers):
    size = {"width": 8, "height": 1 if kind is spy.TextureType.texture_1d else 8}
    if layers > 1:
        kind = getattr(spy.TextureType, f"{kind.name}_array")
    usage = spy.TextureUsage.shader_resource | spy.TextureUsage.unordered_access
    form = spy.Format.rgba32_float
    return device.create_texture(
        type=kind, format=form, usage=usage, array_length=layers, mip_count=1, **size
    )


def test_views_of_textures_of_several_kinds(m, device, rng):
    """After a call with views of a 2D texture, slangpy uses that kernel for views of arrays and of 1D textures, which copies nothing."""
    for kind, layers in [
        ("texture_2d", 1),
        ("texture_2d", 3),
        ("texture_1d", 1),
        ("texture_1d", 2),
        ("texture_2d", 1),
    ]:
        source, dest = (_texture(device, getattr(spy.TextureType, kind), layers) for _ in range(2))
        shape = (8, 4) if kind == "texture_1d" else (8, 8, 4)
        data = [rng.random(shape, np.float32) for _ in range(layers)]
        for layer, values in enumerate(data):
            source.copy_from_numpy(values, layer=layer)
            dest.copy_from_numpy(np.zeros_like(values), layer=layer)
        m.copied(source.create_view(mip=0, mip_count=1), dest.create_view(mip=0, mip_count=1))
        for layer, values in enumerate(data):
            assert np.array_equal(dest.to_numpy(layer=layer), values), (kind, layers, layer)


def test_gradients_in_a_dict_are_told_apart(m):
    """slangpy keeps the kernel that gives `rest` no gradient, and uses it when there is one to give."""
    x = np.array([1, 2, 3, 4], np.float32)

    def gradients(with_rest):
        k = slanglab.full(4, 2.0, grad=True)
        rest = slanglab.full(4, 0.5, grad=with_rest)
        r = slanglab.ones(4, grad=True)
        slanglab.assign(r.grad, 1.0)
        m.pull.bwds({"k": k, "rest": rest}, slanglab.tensor(x), _result=r)
        return k.grad.to_numpy(), rest.grad.to_numpy() if with_rest else None

    dk, _ = gradients(False)
    assert np.array_equal(dk, x - 0.5)
    dk, drest = gradients(True)
    assert np.array_equal(dk, x - 0.5)
    assert np.array_equal(drest, np.full(4, -2.0))


# ----- calls like earlier ones -----


def test_a_planned_call_checks_what_may_differ(m):
    """The tenth call with a signature goes to slangpy as it is; whatever the signature does not say is looked at all the same."""
    y = slanglab.zeros(4)

    def call(x, a=2.0, result=y):
        return m.quadratic(a, 8.0, x, _result=result)

    x = slanglab.tensor([1.0, 2.0, 3.0, 4.0])
    for _ in range(20):
        call(x)
        assert np.array_equal(y.to_numpy(), [10.0, 24.0, 42.0, 64.0])
    assert m.quadratic._target((), {}).plans.quick is not quick.never
    assert call(slanglab.zeros(0), result="numpy").shape == (0,)
    with pytest.warns(UserWarning, match="became infinite"):
        call(x, a=1e300)
    assert np.isinf(y.to_numpy()).all()
    call(x, a=float("nan"))
    assert np.isnan(y.to_numpy()).all()
    with pytest.raises(ArgumentError):
        call(x, a="2")
    with pytest.raises(CallError, match=r"shape of (_result|x) does not fit"):
        call(x, result=slanglab.zeros(5))
    call(x)
    assert np.array_equal(y.to_numpy(), [10.0, 24.0, 42.0, 64.0])


def test_a_planned_call_with_whole_numbers(m):
    x = slanglab.tensor([1.0, 2.0, 3.0, 4.0])
    for i in range(-20, 20):
        found = m.quadratic(i, b=-i, x=x, _result="numpy")
        assert np.array_equal(found, i * np.array([0, 2, 6, 12], np.float32))
    assert m.quadratic(3, 2.5, 2) == 17.0


def test_a_planned_call_with_integers(m):
    for i in range(20):
        assert m.doubled(i) == 2 * i
        assert m.doubled(-i) == -2 * i
        assert m.counted(i) == i
    with pytest.raises(ArgumentError):
        m.counted(-1)
    with pytest.raises(ArgumentError):
        m.doubled(2**31)
    with pytest.raises(ArgumentError):
        m.doubled(1.5)


def test_a_planned_call_with_arrays_of_every_layout(m, rng):
    base = rng.standard_normal((8, 6)).astype(np.float32)
    layouts = [
        base[0],
        base[1, ::2],
        base[:, 2],
        base[::-1, 0],
        np.asfortranarray(base),
        base.astype(np.float64)[3],
    ]
    layouts += [base[2:3, :1], base[4].byteswap().view(base.dtype.newbyteorder())]
    frozen = base[5].copy()
    frozen.flags.writeable = False
    for _ in range(3):
        for x in [*layouts, frozen]:
            expected = 2 * x.astype(np.float32) ** 2 + 8 * x.astype(np.float32)
            found = m.quadratic(2.0, 8.0, x, _result="numpy")
            assert found.shape == x.shape
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_a_planned_backward_call_checks_gradients(m):
    x = slanglab.tensor([1.0, 2.0, 3.0, 4.0], grad=True)
    r = slanglab.ones(4, grad=True)
    slanglab.assign(r.grad, 1.0)
    for n in range(1, 15):
        m.quadratic.bwds(2.0, 8.0, x, _result=r)
        assert np.array_equal(x.grad.to_numpy(), n * np.array([12, 16, 20, 24], np.float32))
    with pytest.raises(CallError, match="no gradient"):
        m.quadratic.bwds(2.0, 8.0, x, _result=r.detach())
    with pytest.raises(CallError, match="gradient"):
        m.quadratic.bwds(2.0, 8.0, x.detach(), _result=r)


def test_the_plan_follows_an_edit(device):
    text = "float g(float x) { return x + %d; }"
    g = slanglab.compile(text % 1, "calls_edited").g
    assert [g(2.0) for _ in range(12)] == [3.0] * 12
    slanglab.compile(text % 5, "calls_edited")
    assert g(2.0) == 7.0


# ----- what slangpy takes, and we once did not -----


def test_the_result_of_a_backward_call_by_position(m):
    x = slanglab.tensor([1.0, 2.0, 3.0, 4.0], grad=True)
    r = slanglab.ones(4, grad=True)
    slanglab.assign(r.grad, 1.0)
    m.quadratic.bwds(2.0, 8.0, x, r)
    assert np.array_equal(x.grad.to_numpy(), [12.0, 16.0, 20.0, 24.0])


def test_constructors_and_methods(m, device):
    springs = spy.InstanceTensor(m.Spring, (3,))
    springs.construct(2.0, 0.5)
    x = slanglab.tensor([1.0, 2.0, 3.0])
    assert np.array_equal(springs.force(x).to_numpy(), [1.0, 3.0, 5.0])
    springs.stretch(0.5)
    assert np.array_equal(springs.force(x).to_numpy(), [0.0, 2.0, 4.0])
    assert m.Spring.force({"k": 2.0, "rest": 0.5}, 3.0) == 5.0
    assert m.Spring(3.0, 1.0) == {"k": 3.0, "rest": 1.0}


def test_a_method_backward_through_its_instance(m):
    parts = {"k": slanglab.full(3, 2.0, grad=True), "rest": slanglab.full(3, 0.5, grad=True)}
    springs = spy.InstanceList(m.Spring, parts)
    r = slanglab.ones(3, grad=True)
    slanglab.assign(r.grad, 1.0)
    springs.force.bwds(slanglab.tensor([1.0, 2.0, 3.0]), _result=r)
    assert np.array_equal(parts["k"].grad.to_numpy(), [0.5, 1.5, 2.5])
    assert np.array_equal(parts["rest"].grad.to_numpy(), [-2.0, -2.0, -2.0])


def test_generic_structs_and_lengths(m):
    assert m.first_of({"_type": "Pair<float>", "first": 3.0, "second": 4.0}) == 3.0
    assert m.first_of({"_type": "Pair<float>", "first": 5.0, "second": 4.0}) == 5.0
    assert m["total<4>"]([1.0, 2.0, 3.0, 4.0]) == 10.0


def test_proxies_are_functions_to_slangpy(m):
    assert isinstance(m.quadratic, spy.Function)
    assert isinstance(m.quadratic.bwds, spy.Function)
    assert isinstance(m.Spring.force, spy.Function)
    assert m.quadratic.name == "quadratic"
    assert m.quadratic.as_func() is m.quadratic
    assert m.quadratic.module.float.full_name == "float"
    assert m.quadratic.map((0,)) is m.quadratic.map((0,))


def test_refusals_are_of_the_classes_that_slangpy_raises(m):
    from slangpy.core.callsignature import ResolveException

    for kind in (ValueError, RuntimeError, CallError):
        with pytest.raises(kind):
            m.quadratic(1.0, 2.0, np.zeros((2, 3), np.float32), _result=slanglab.zeros((4, 5)))
    with pytest.raises(ResolveException) as caught:
        m.whole(slanglab.zeros(4, dtype="int"))
    assert isinstance(caught.value, CallError)
    with pytest.raises(AttributeError, match="has no function or type named"):
        _ = m.quadratc


def test_an_overload_cannot_be_named_by_its_parameters(m):
    """slangpy's look-up of `f(float)` crashes the process where `f` has overloads."""
    with pytest.raises(NameNotFoundError):
        m["f(float)"]
    assert m["f"](2) == 102.0
    assert m["f"](2.5) == 2.5


def test_a_plan_for_rows_of_three_does_not_take_rows_of_two(device):
    m = slanglab.compile("float3 doubled(float3 v) { return 2 * v; }", "rows_planned")
    v = slanglab.tensor(np.ones((4, 3), np.float32))
    for _ in range(20):
        assert m.doubled(v).to_numpy().tolist() == [[2, 2, 2]] * 4
    assert m.doubled._target((), {}).plans.quick is not quick.never
    assert m.doubled(slanglab.tensor(np.ones((5, 3), np.float32))).to_numpy().shape == (5, 3)
    with pytest.raises(ArgumentError, match="does not match the expected shape"):
        m.doubled(slanglab.tensor(np.ones((4, 2), np.float32)))


@pytest.mark.parametrize("broadcast", [False, True])
def test_rows_of_three_for_vectors_of_four_end_in_zeros_and_their_gradient_comes_back_without_them(broadcast):
    """slangpy reads the numbers that a row lacks from the next one, and behind the buffer in the last."""
    m = slanglab.compile(
        "[Differentiable] float weighted(float4 v) { return v.x + 2 * v.y * v.y + 3 * v.z + 5 * v.w; }",
        "in_threes",
    )
    rows = np.random.default_rng().normal(size=(1 if broadcast else 4, 3)).astype(np.float32)
    v = slanglab.tensor(rows)
    if broadcast:
        v, rows = v.broadcast_to((4, 3)), np.repeat(rows, 4, 0)
    v = v.with_grads()
    with pytest.warns(ValueWarning, match="argument v has rows of 3 numbers for a float4"):
        y = m.weighted(v, _result="tensor")
    expected = rows[:, 0] + 2 * rows[:, 1] ** 2 + 3 * rows[:, 2]
    np.testing.assert_allclose(y.to_numpy(), expected, rtol=1e-5, atol=1e-6)
    y = y.with_grads()
    y.grad.copy_from_numpy(np.array([1, 2, 3, 4], np.float32))
    with pytest.warns(ValueWarning, match="rows of 3"):
        m.weighted.bwds(v, _result=y)
    seeds = np.array([[1], [2], [3], [4]], np.float32)
    by_hand = np.stack([np.ones(4), 4 * rows[:, 1], 3 * np.ones(4)], axis=1) * seeds
    np.testing.assert_allclose(v.grad.to_numpy(), by_hand, rtol=1e-5, atol=1e-5)


def test_generators_do_not_run_each_others_kernels():
    """slangpy writes `thread_id(1)` and a grid of one axis the same way, and takes one's kernel for the other."""
    module = slanglab.compile("int taken(int i) { return i; }", "generators")
    whole = slanglab.zeros(8, dtype="int32")
    for _ in range(12):
        for value in (spy.grid((8,)), spy.thread_id(1)):
            slanglab.assign(whole, -1)
            module.taken(value, _result=whole)
            assert np.array_equal(whole.to_numpy(), np.arange(8))


_RESULTS = """
float f(float a) { return a; }
float3 vector3(float a) { return a; }
float2x3 wide(float a) { return float2x3(a, 2, 3, 4, 5, 6); }
float[4] four(float a) { return { a, 1, 2, 3 }; }
bool large(float a) { return a > 1; }
bool3 flags(float a) { return bool3(a > 1, true, false); }
int64_t whole(float a) { return int64_t(a); }
half3 halves(float a) { return half3(a); }
"""


def _as_numpy(name, x):
    x = np.asarray(x, np.float32)
    a = x[..., None]
    return {
        "f": x,
        "vector3": np.repeat(a, 3, -1),
        "wide": np.concatenate([a, *(np.full_like(a, n) for n in range(2, 7))], -1).reshape(*x.shape, 2, 3),
        "four": np.concatenate([a, *(np.full_like(a, n) for n in range(1, 4))], -1),
        "large": x > 1,
        "flags": np.concatenate([a > 1, np.full_like(a, 1, bool), np.full_like(a, 0, bool)], -1),
        "whole": x.astype(np.int64),
        "halves": np.repeat(a, 3, -1).astype(np.float16),
    }[name]


@pytest.mark.parametrize("name", ["f", "vector3", "wide", "four", "large", "flags", "whole", "halves"])
@pytest.mark.parametrize("shape", [(), (7,), (3, 5), (0, 4), (400, 700)])
def test_results_as_numpy(name, shape):
    """slangpy reads them natively: not to be interrupted, and an error for bools and single numbers."""
    function = slanglab.compile(_RESULTS, "results_as_numpy")[name]
    x = np.random.default_rng().integers(0, 4, shape).astype(np.float32)
    given = float(x) if shape == () else x
    for wanted in (function.return_type(np.ndarray), function.return_type("numpy"), function):
        options = {"_result": "numpy"} if wanted is function else {}
        for _ in range(12):  # checked, planned, written out
            found = wanted(given, **options)
            assert isinstance(found, np.ndarray)
            expected = _as_numpy(name, x)
            assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
            assert np.array_equal(found, expected)


def test_a_result_that_makes_no_array_is_refused_as_by_slangpy():
    module = slanglab.compile(
        "struct Pair { float a; int b; }; Pair pair(float a) { return { a, 1 }; }", "no_array"
    )
    with pytest.raises(CallError):
        module.pair(np.ones(3, np.float32), _result="numpy")
