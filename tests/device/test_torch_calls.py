"""Torch tensors in calls: the numbers of plain torch, forward and backward, on the CPU's torch and whatever device there is."""

import numpy as np
import pytest
import slangpy as spy

torch = pytest.importorskip("torch", reason="torch is an extra")

import slanglab  # noqa: E402

POLYNOMIAL = """
[Differentiable] float polynomial(float a, float b, float c, float x) { return a * x * x + b * x + c; }
"""


@pytest.fixture(scope="module")
def module(device):
    return slanglab.compile(POLYNOMIAL, "torch_seed")


def test_the_seed_runs_with_its_numbers(module):
    """pytorch.rst, all of its blocks; `spy.create_torch_device` needs CUDA, and the module of a cell stands for it."""
    x = torch.tensor([1, 2, 3, 4], dtype=torch.float32, requires_grad=True)
    result = module.polynomial(a=2, b=8, c=-1, x=x)
    assert isinstance(result, torch.Tensor)
    assert result.tolist() == [9, 23, 41, 63]  # 2x² + 8x - 1
    result.backward(torch.ones_like(result))
    assert x.grad.tolist() == [12, 16, 20, 24]  # 4x + 8


def test_calls_with_slangpy_tensors_are_as_before(module):
    x = slanglab.tensor([1.0, 2.0, 3.0, 4.0])
    assert isinstance(module.polynomial(2, 8, -1, x, _result="tensor"), spy.Tensor)
    assert np.array_equal(module.polynomial(2, 8, -1, x, _result="numpy"), [9, 23, 41, 63])
