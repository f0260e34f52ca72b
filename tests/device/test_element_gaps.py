"""Numbers of every element type are where a kernel has them, whatever gaps a device leaves (CUDA: after three halves)."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import slangpy as spy
from numpy.typing import NDArray
from tensor_checks import check_statistics

import slanglab
from slanglab.tensors import gaps
from slanglab.tensors.summary import statistics

TYPES: dict[str, tuple[int, ...]] = {
    "half3": (3,),
    "half2x3": (2, 3),
    "half3x2": (3, 2),
    "half3x3": (3, 3),
    "half4x3": (4, 3),
    "half[3]": (3,),
    "half3[2]": (2, 3),
    "half2x3[2]": (2, 2, 3),
    "int16_t3": (3,),
    "int16_t3[3]": (3, 3),
    "uint8_t3": (3,),
    "uint8_t3[2]": (2, 3),
    "bool3": (3,),
    "bool2x3": (2, 3),
    "bool3[2]": (2, 3),
    "float3": (3,),
    "float3x3": (3, 3),
    "float2x3[2]": (2, 2, 3),
    "double3[2]": (2, 3),
    "int64_t3": (3,),
}


KINDS = {
    "half": np.float16,
    "float": np.float32,
    "double": np.float64,
    "uint8_t": np.uint8,
    "int16_t": np.int16,
    "int64_t": np.int64,
    "bool": np.bool_,
}


def scalar(dtype: str) -> str:
    return max((name for name in KINDS if dtype.startswith(name)), key=len)


def compiled(dtype: str) -> Any:
    """Return a module that makes an element from numbers, and one that looks at one of them."""
    places = itertools.product(*map(range, TYPES[dtype]))
    index = ["".join(f"[{i}]" for i in place) for place in places]
    made = " ".join(f"x{at} = {scalar(dtype)}(mixed(i, {k}));" for k, at in enumerate(index))
    as_float = "x{} ? 1.0 : 0.0" if scalar(dtype) == "bool" else "float(x{})"
    looked = " ".join(f"if (k == {k}) return {as_float.format(at)};" for k, at in enumerate(index))
    return slanglab.compile(
        f"""
        int mixed(int i, int k) {{ return (i * 7 + k * 5) % 23; }}
        typealias Element = {dtype};
        Element make(int i) {{ Element x; {made} return x; }}
        float look(Element x, int k) {{ {looked} return -1; }}
        """,
        f"gaps_{dtype.replace('[', '_').rstrip(']')}",
    )


def mixed(count: int, dtype: str) -> NDArray[Any]:
    shape = TYPES[dtype]
    k = np.arange(np.prod(shape)).reshape(shape)
    i = np.arange(count).reshape(count, *[1] * len(shape))
    return ((i * 7 + k * 5) % 23).astype(KINDS[scalar(dtype)])


@pytest.mark.parametrize("count", [1, 37, 9000])
@pytest.mark.parametrize("dtype", TYPES)
def test_what_a_kernel_wrote_is_read(device: Any, dtype: str, count: int) -> None:
    module, expected = compiled(dtype), mixed(count, dtype)
    made = module.make(np.arange(count, dtype=np.int32), _result="tensor")
    np.testing.assert_array_equal(made.to_numpy(), expected)
    every = made.view((max(1, count // 3),), (3,), min(1, count - 1))
    np.testing.assert_array_equal(every.to_numpy(), expected[min(1, count - 1) :: 3][: max(1, count // 3)])
    if count == 37:
        assert str(made) == str(expected)
    if expected.dtype != np.bool_:
        check_statistics(statistics(made), expected, dtype)
    copy = spy.Tensor.empty(device, (count,), made.dtype)
    copy.copy_from_numpy(made.to_numpy())
    np.testing.assert_array_equal(copy.to_numpy(), expected)


@pytest.mark.parametrize("dtype", TYPES)
def test_what_is_sent_is_where_a_kernel_looks(device: Any, rng: np.random.Generator, dtype: str) -> None:
    module = compiled(dtype)
    expected = rng.permutation(mixed(50, dtype))
    sent = spy.Tensor.empty(device, (5, 10), dtype)
    sent.copy_from_numpy(expected.reshape(5, 10, *TYPES[dtype]))
    sent[2].copy_from_numpy(expected[:10])
    expected[20:30] = expected[:10]
    for tensor in (sent, slanglab.tensor(expected.reshape(5, 10, *TYPES[dtype]), dtype=dtype)):
        for k in range(expected[0].size):
            seen = module.look(tensor, k, _result="numpy")
            np.testing.assert_array_equal(seen.ravel(), expected.reshape(50, -1)[:, k].astype(np.float32))


@pytest.mark.parametrize("dtype", [t for t in TYPES if "half" in t])
def test_dlpack_hands_over_the_numbers(device: Any, rng: np.random.Generator, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    expected = rng.integers(-99, 99, (11, *TYPES[dtype])).astype(np.float16)
    tensor = slanglab.tensor(expected, dtype=dtype)
    np.testing.assert_array_equal(torch.from_dlpack(tensor).cpu().numpy(), expected)
    if device.info.type == spy.DeviceType.cuda:
        np.testing.assert_array_equal(tensor.to_torch().cpu().numpy(), expected)


def test_rows_with_gaps_on_a_device_that_has_none(
    device: Any, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A half2x4 stands for a half2x3 whose rows have a gap."""
    stored = rng.integers(-99, 99, (6, 5, 2, 4)).astype(np.float16)
    tensor = spy.Tensor.empty(device, (6, 5), "half2x4")
    tensor.copy_from_numpy(stored)
    monkeypatch.setattr(gaps, "_has_gaps", lambda element: element.shape.as_tuple() == (2, 4))
    monkeypatch.setattr(gaps, "_places", lambda _: ((2, 3), 8, (4, 1)))
    read = gaps.as_scalars(tensor[1:, ::2])
    np.testing.assert_array_equal(read.to_numpy(), stored[1:, ::2, :, :3])
    data = rng.integers(-99, 99, (2, 5, 2, 3)).astype(np.float16)
    apart = gaps.spread_out(tensor[2:4], data)
    assert apart is not None
    target, memory = apart
    target.copy_from_numpy(memory)
    monkeypatch.undo()
    stored[2:4, ..., :3], stored[2:4, ..., 3] = data, 0
    np.testing.assert_array_equal(tensor.to_numpy(), stored)


def test_nothing_is_viewed_anew_without_need(device: Any) -> None:
    for dtype in ("float", "float3", "float3x3", "bool3", "half2"):
        tensor = spy.Tensor.zeros(device, (3,), dtype)
        assert gaps.as_scalars(tensor) is None, dtype
