"""Gradients of values that have gaps between them in memory: on CUDA a half3 takes eight bytes. Elsewhere the same calls are made."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import slangpy as spy
from numpy.typing import NDArray

import slanglab
from slanglab.errors import CallError

SOURCE = """
import slangpy;
[Differentiable] half3 vector_(half3 x, half a) { return x * x * a; }
[Differentiable] half2x3 matrix_(half2x3 x, half a) { return half2x3(x[0] * x[0] * a, x[1] * x[1] * a); }
[Differentiable] half3x3 square_(half3x3 x, half a) { return half3x3(x[0] * x[0] * a, x[1] * x[1] * a, x[2] * x[2] * a); }
[Differentiable] half3[2] array_(half3[2] x, half a) { half3[2] r = { x[0] * x[0] * a, x[1] * x[1] * a }; return r; }
struct Ray : IDifferentiable { half3 origin; float time; };
[Differentiable] float ray_(Ray r) { return float(r.origin.x) * float(r.origin.y) * float(r.origin.z) * r.time; }
[Differentiable] half3 product_(half3 x, half3 y) { return x * y; }
[Differentiable] half tensor_(int i, IDiffTensor<half3, 1> x) { half3 v = x[i]; return v.x * v.y; }
"""
TYPES = {
    "vector_": ("half3", (3,)),
    "matrix_": ("half2x3", (2, 3)),
    "square_": ("half3x3", (3, 3)),
    "array_": ("half3[2]", (2, 3)),
}


@pytest.fixture(scope="module")
def m(device: Any) -> Any:
    return slanglab.compile(SOURCE, "apart_under_test")


def places(tensor: Any, inner: tuple[int, ...]) -> NDArray[np.intp]:
    """Return where each scalar of a contiguous tensor lies in its memory: each row of three halves has a gap of its own."""
    width = int(tensor.dtype.buffer_layout.stride) // 2
    rows = math.prod(inner[:-1])
    within = np.arange(rows)[:, None] * (width // rows) + np.arange(inner[-1])
    return (np.arange(tensor.element_count)[:, None, None] * width + within).reshape(-1, *inner)


def put(tensor: Any, values: NDArray[Any], gaps: float = 7.0) -> None:
    raw = np.full(tensor.storage.size // 2, gaps, np.float16)
    raw[places(tensor, values.shape[-(values.ndim - len(tensor.shape)) :])] = values.reshape(
        tensor.element_count, *values.shape[len(tensor.shape) :]
    )
    tensor.storage.copy_from_numpy(raw.view(np.uint8))


def got(tensor: Any, inner: tuple[int, ...]) -> NDArray[np.float16]:
    found = tensor.storage.to_numpy().view(np.float16)[places(tensor, inner)]
    return found.reshape(*tensor.shape.as_tuple(), *inner)


def halves(rng: np.random.Generator, *shape: int) -> NDArray[np.float16]:
    return rng.uniform(-2, 2, shape).astype(np.float16)


@pytest.mark.parametrize("count", [1, 7, 5000])
@pytest.mark.parametrize("name", TYPES)
def test_gradients_are_added_where_they_belong(
    device: Any, m: Any, rng: np.random.Generator, name: str, count: int
) -> None:
    dtype, inner = TYPES[name]
    x, seeds, before = (halves(rng, count, *inner) for _ in range(3))
    t = spy.Tensor.empty(device, (count,), dtype).with_grads()
    result = spy.Tensor.empty(device, (count,), dtype).with_grads()
    put(t, x)
    put(t.grad_out, before)
    put(result.grad_in, seeds)
    for call in (1, 2):  # the second one is planned, or would be
        m[name].bwds(t, 0.5, _result=result)
        exact = before.astype(float) + call * x.astype(float) * seeds.astype(float)
        np.testing.assert_allclose(got(t.grad_out, inner), exact, rtol=4e-3, atol=8e-3)
    assert (got(t, inner) == x).all()
    assert (got(result.grad_in, inner) == seeds).all()


def test_one_value_for_all(device: Any, m: Any, rng: np.random.Generator) -> None:
    x, seeds = halves(rng, 100, 3), halves(rng, 100, 3)
    one = halves(rng, 1, 3)
    t, shared = (spy.Tensor.empty(device, (n,), "half3").with_grads(zero=True) for n in (100, 1))
    result = spy.Tensor.empty(device, (100,), "half3").with_grads()
    put(t, x)
    put(shared, one)
    put(result.grad_in, seeds)
    put(shared.grad_out, np.zeros((1, 3)))
    put(t.grad_out, np.zeros((100, 3)))
    m.product_.bwds(t, shared, _result=result)
    exact = x.astype(float) * seeds.astype(float)
    np.testing.assert_allclose(got(t.grad_out, (3,)), one.astype(float) * seeds, rtol=2e-3, atol=1e-3)
    assert abs(got(shared.grad_out, (3,))[0] - exact.sum(0)).max() < 2e-3 * np.abs(exact).sum()


@pytest.mark.usefixtures("adding_halves")
def test_views_and_fields(device: Any, m: Any, rng: np.random.Generator) -> None:
    x, seeds = halves(rng, 12, 3), halves(rng, 6, 3)
    t = spy.Tensor.empty(device, (12,), "half3").with_grads()
    result = spy.Tensor.empty(device, (6,), "half3").with_grads()
    put(t, x)
    put(t.grad_out, np.zeros((12, 3)))
    put(result.grad_in, seeds)
    m.vector_.bwds(t.view((6,), (2,), 0), 0.5, _result=result)
    exact = np.zeros((12, 3))
    exact[::2] = x[::2].astype(float) * seeds
    np.testing.assert_allclose(got(t.grad_out, (3,)), exact, rtol=2e-3, atol=1e-3)

    put(t.grad_out, np.zeros((12, 3)))
    time = slanglab.tensor(np.ones(12, np.float32), grad=True)
    scalar = slanglab.ones((12,), grad=True)
    scalar.grad_in.copy_from_numpy(np.ones(12, np.float32))
    m.ray_.bwds({"_type": "Ray", "origin": t, "time": time}, _result=scalar)
    wide = x.astype(float)
    exact = np.stack([wide[:, 1] * wide[:, 2], wide[:, 0] * wide[:, 2], wide[:, 0] * wide[:, 1]], 1)
    np.testing.assert_allclose(got(t.grad_out, (3,)), exact, rtol=2e-3, atol=1e-3)
    np.testing.assert_allclose(time.grad_out.to_numpy(), wide.prod(1), rtol=1e-3, atol=1e-4)


@pytest.mark.usefixtures("adding_halves")
def test_a_tensor_parameter_is_refused_where_it_would_be_wrong(
    device: Any, m: Any, rng: np.random.Generator
) -> None:
    x = halves(rng, 4, 3)
    t = spy.Tensor.empty(device, (4,), "half3").with_grads()
    put(t, x)
    put(t.grad_out, np.zeros((4, 3)))
    result = spy.Tensor.empty(device, (4,), "half").with_grads()
    result.grad_in.storage.copy_from_numpy(np.ones(4, np.float16).view(np.uint8))
    if t.dtype.buffer_layout.stride != 6:
        with pytest.raises(CallError, match="in the wrong places: a half3 has gaps"):
            m.tensor_.bwds(spy.grid((4,)), t, _result=result)
        return
    m.tensor_.bwds(spy.grid((4,)), t, _result=result)
    exact = np.stack([x[:, 1], x[:, 0], np.zeros(4)], 1)
    np.testing.assert_allclose(got(t.grad_out, (3,)), exact, rtol=2e-3, atol=1e-3)


@pytest.mark.usefixtures("adding_halves")
def test_scalars_with_gaps_between_every_three(device: Any, m: Any, rng: np.random.Generator) -> None:
    """What such a tensor goes as, on a device that has none: nothing is added to the gaps."""
    x, seeds = halves(rng, 50, 4), halves(rng, 50, 3)
    whole, gradient = (spy.Tensor.empty(device, (50, 4), "half") for _ in range(2))
    whole.storage.copy_from_numpy(x.view(np.uint8).reshape(-1))
    gradient.storage.copy_from_numpy(np.zeros(400, np.uint8))
    t, g = (one.view((50, 3), (4, 1), 0) for one in (whole, gradient))
    result = spy.Tensor.empty(device, (50,), "half3").with_grads()
    put(result.grad_in, seeds)
    m.vector_.bwds(t.with_grads(g, g, zero=False), 0.5, _result=result)
    exact = np.zeros((50, 4))
    exact[:, :3] = x[:, :3].astype(float) * seeds
    np.testing.assert_allclose(gradient.to_numpy(), exact, rtol=2e-3, atol=1e-3)
