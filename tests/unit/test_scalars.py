"""What element types are called, and what they hold."""

from __future__ import annotations

import numpy as np
import pytest

from slanglab.scalars import numbers_in, type_name


@pytest.mark.parametrize(
    ("name", "kind", "shape"),
    [
        ("float", "f4", ()),
        ("float16_t", "f2", ()),
        ("uint8_t", "u1", ()),
        ("bool", "?", ()),
        ("float1", "f4", (1,)),
        ("half3", "f2", (3,)),
        ("float16_t3", "f2", (3,)),
        ("uint64_t4", "u8", (4,)),
        ("float16_t2x3", "f2", (2, 3)),
        ("vector<half,3>", "f2", (3,)),
        ("matrix<float, 1, 4>", "f4", (1, 4)),
        ("double4x2", "f8", (4, 2)),
        ("int[3]", "i4", (3,)),
        ("half[100][2]", "f2", (2, 100)),
        ("vector<half,3>[2]", "f2", (2, 3)),
        ("matrix<float,2,3>[4][5]", "f4", (5, 4, 2, 3)),
        ("Array<float,3>", "f4", (3,)),
        ("Array<Array<vector<int,2>,3>, 4>", "i4", (4, 3, 2)),
    ],
)
def test_numbers_in(name: str, kind: str, shape: tuple[int, ...]) -> None:
    assert numbers_in(name) == (np.dtype(kind), shape)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Ray",
        "floatx",
        "float5",
        "float3x",
        "float3x5",
        "int3x3x3",
        "float[n]",
        "float[",
        "[3]",
        "Array<Ray,3>",
        "float[3]x",
        "Float3",
        "vector<Ray,3>",
        "Tensor<float,2>",
        "half3_",
        "float4x4_t",
        "fl\nat",
    ],
)
def test_what_holds_no_numbers(name: str) -> None:
    assert numbers_in(name) is None


def test_types_are_written_as_people_do() -> None:
    assert type_name("Array<vector<float,3>, 4>") == "Array<float3, 4>"
    assert type_name("matrix<half, 2, 3>[4]") == "half2x3[4]"
