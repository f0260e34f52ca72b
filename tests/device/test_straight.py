"""Straight kernels, against slangpy's own call (within 1 ulp) and against float64 numpy."""

import numpy as np
import pytest
import slangpy as spy
from slangpy.core.native import Shape
from straight_cases import (
    COUNTS,
    FUNCTIONS,
    STRATEGIES,
    UNIFORM,
    Array,
    Case,
    floats,
    forward,
    names_of,
    same,
    target_of,
)

from slanglab.engine import straight
from slanglab.engine.parameters import parameters
from slanglab.engine.target import Target


@pytest.fixture
def module(device):
    return spy.Module(device.load_module_from_source("test-straight", FUNCTIONS))


@pytest.fixture(params=STRATEGIES.values(), ids=STRATEGIES.keys())
def strategy(request):
    return request.param


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
    u = floats(rng, n, 3)
    terms = np.abs(u[:, 0] * u[:, 1]) + u[:, 2] ** 2
    forward(module, "sum_of", strategy, terms=terms, v=Array(u, "float[3]", (n,)))
    forward(module, "pair", strategy, a=Array(v), b=Array(w))
    forward(module, "gentle", strategy, x=Array(floats(rng, n, dtype=np.float16), "half"), a=0.5)
    halves = Array(floats(rng, n, 3, dtype=np.float16), "half3", (n,))
    apart = spy.Tensor.empty(module.device, (1,), "half3").dtype.buffer_layout.stride != 6
    if apart:  # of eight bytes each, as on CUDA: slangpy's kernel takes them
        values = Case(module, "gentle3", x=halves, a=0.5).values()
        assert "lie apart" in straight.build(target_of(module, "gentle3"), values, None, strategy=strategy)
    else:
        forward(module, "gentle3", strategy, x=halves, a=0.5)
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
    assert "8 rows and 6 columns" in refused(module, "waves", x=x, y=tensor(6))
    assert "8 rows and 6 columns" in refused(module, "waves", x=x, y=tensor(8, 1))
    assert "broadcast over part" in refused(module, "waves", x=tensor(2, 8, 6), y=tensor(2, 1, 6))
    assert "broadcast over part" in refused(module, "placed", i=spy.grid((8, 6)), x=tensor(6))
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
