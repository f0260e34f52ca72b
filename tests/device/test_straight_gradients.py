"""Straight kernels backward, and their sums for shared parameters, against slangpy's own call (within 1 ulp) and against float64 numpy."""

import numpy as np
import pytest
import slangpy as spy
from rounding import Sized, functions
from straight_cases import (
    COUNTS,
    FUNCTIONS,
    STRATEGIES,
    Array,
    backward,
    floats,
    forward,
    names_of,
    same,
    target_of,
    times_in_a_session_of_its_own,
    upload,
)

from slanglab.engine import straight
from slanglab.engine.plans import adds_halves
from slanglab.engine.straight import Strategy


@pytest.fixture
def module(device):
    return spy.Module(device.load_module_from_source("test-straight", FUNCTIONS))


@pytest.fixture(params=STRATEGIES.values(), ids=STRATEGIES.keys())
def strategy(request):
    return request.param


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
    terms = 2 * w.astype(float) * x * seed
    errors = np.abs(gradients["w"].reshape(4) - terms.sum(0))
    assert np.all(errors <= 2e-7 * np.abs(terms).sum(0))
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
    terms = np.einsum("ni,nj->nij", seed.reshape(n, 2).astype(float), x.astype(float))
    errors = np.abs(gradients["m"].reshape(2, 2) - terms.sum(0))
    assert np.all(errors <= 2e-7 * np.abs(terms).sum(0))
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
    if adds_halves(module.device):
        assert gradients["a"][0] == np.float16(addends.astype(float).sum())
        return
    # A driver of its own ways may round the products at other places.
    exact = x.astype(float) ** 2 * seed.astype(float)
    assert abs(gradients["a"][0] - exact.sum()) <= 2.0**-11 * (abs(exact.sum()) + 2 * np.abs(exact).sum())


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
    module = times_in_a_session_of_its_own(device, "test-sums", monkeypatch, double)
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
    before = floats(rng, count)
    a = Array(np.array([0.75], "f4"), grad=True)
    values = {"x": x.astype(float), "y": y.astype(float), "a": np.full(count, 0.75)}

    def sized(name=None):
        seeded = {n: Sized.variable(v, float(n == name)) for n, v in values.items()}
        return Sized.of(eval(body, {**functions(), **seeded}))

    def terms(name):
        return np.broadcast_to(sized(name).slope_size, (count,))

    sizes = np.broadcast_to(sized().size, (count,))
    forward(module, "made", strategy, terms=sizes, a=0.75, x=Array(x), y=Array(y))

    gradients, cotangent = backward(
        module,
        "made",
        strategy,
        rng,
        ("a",),
        terms,
        a=a,
        x=Array(x, grad=True),
        y=Array(y, grad=True, gradient=before),
    )
    point = {"x": x.astype(complex), "y": y.astype(complex), "a": np.full(count, 0.75 + 0j)}

    def derivative(name):
        """Return the derivative by a complex step: exact to float64, and no part of our text."""
        moved = {**point, name: point[name] + 1e-30j}
        value = eval(body, {"sin": np.sin, "cos": np.cos, "exp": np.exp, **moved})
        return np.broadcast_to(np.imag(value) / 1e-30, (count,)) * cotangent.astype(float)

    addends = derivative("a")
    assert abs(gradients["a"][0] - addends.sum()) <= 3e-6 * np.abs(addends).sum() + 1e-6 * count
    for name, start in (("x", np.zeros(count)), ("y", before)):
        exact = start + derivative(name)
        np.testing.assert_allclose(gradients[name], exact, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [("float", ()), ("float2", (2,)), ("float3", (3,)), ("float4", (4,)), ("float2x2", (2, 2)), ("half", ())],
)
def test_shared_sums_over_four_million(device, rng, seed, dtype, shape):
    """The sum over 2^22 elements within 1e-6 of float64; for half the exact sum rounded once."""
    text = f"[Differentiable] {dtype} times({dtype} w, {dtype} x) {{ return w * x; }}\n"
    module = spy.Module(device.load_module_from_source(f"test-sums-{dtype}-{seed}", text))
    n, scalar = 1 << 22, np.float16 if dtype == "half" else np.float32
    x = rng.uniform(0, 2.0**-8, (n, *shape)).astype(scalar)
    tensor = spy.Tensor.empty(device, (n,), dtype)
    upload(tensor, x)
    result = spy.Tensor.empty(device, (n,), dtype).with_grads()
    upload(result.grad_in, np.ones_like(x))
    w = spy.Tensor.empty(device, (1,), dtype)
    upload(w, np.ones((1, *shape), scalar))
    w = w.with_grads()
    upload(w.grad_out, np.zeros((1, *shape), scalar))
    values = {"w": w, "x": tensor}
    kernel = straight.build(target_of(module, "times", True), values, result)
    assert not isinstance(kernel, str), kernel
    kernel.run(values, result)
    found, exact = w.grad_out.to_numpy().reshape(shape), x.astype(float).sum(0)
    if dtype == "half":
        assert found == np.float16(exact)
    else:
        np.testing.assert_allclose(found, exact, rtol=1e-6)
