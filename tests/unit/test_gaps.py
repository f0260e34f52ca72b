"""Which elements have gaps between their scalars, and where those lie."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import slangpy as spy

from slanglab.tensors import gaps

KIND = spy.TypeReflection.Kind


@pytest.mark.parametrize(
    ("name", "stride", "expected"),
    [
        ("vector<half,3>", 8, True),
        ("matrix<half,2,3>", 16, True),
        ("vector<half,3>[5]", 40, True),
        ("matrix<half,2,3>[3]", 48, True),
        ("vector<float,3>", 16, True),
        ("vector<half,3>", 6, False),
        ("vector<half,4>", 8, False),
        ("vector<float,3>", 12, False),
        ("matrix<float,3,3>", 36, False),
        ("vector<bool,3>", 12, False),
        ("half", 2, False),
        ("half", 4, False),
        ("Ray", 8, False),
        ("Ray[2]", 16, False),
    ],
)
def test_which_elements_have_gaps(name: str, stride: int, expected: bool) -> None:
    element = SimpleNamespace(full_name=name, buffer_layout=SimpleNamespace(stride=stride))
    assert gaps._has_gaps(element) is expected


def reflected(kind: Any, stride: int, inner: Any = None, **sizes: Any) -> Any:
    """Stand in for the layout of a type on CUDA, which has a half3 take eight bytes."""
    return SimpleNamespace(
        kind=kind, stride=stride, size=stride, element_type_layout=inner, type=SimpleNamespace(**sizes)
    )


HALF = reflected(KIND.scalar, 2, scalar_type=SimpleNamespace(name="float16"))
HALF3 = reflected(KIND.vector, 8, HALF, col_count=3)
HALF2X3 = reflected(KIND.matrix, 16, HALF3, row_count=2)


@pytest.mark.parametrize(
    ("layout", "shape", "width", "strides"),
    [
        (HALF3, (3,), 4, (1,)),
        (HALF2X3, (2, 3), 8, (4, 1)),
        (reflected(KIND.array, 40, HALF3, element_count=5), (5, 3), 20, (4, 1)),
        (reflected(KIND.array, 48, HALF2X3, element_count=3), (3, 2, 3), 24, (8, 4, 1)),
    ],
)
def test_where_scalars_lie(layout: Any, shape: tuple[int, ...], width: int, strides: tuple[int, ...]) -> None:
    buffer = SimpleNamespace(stride=layout.stride, reflection=layout)
    tensor = SimpleNamespace(dtype=SimpleNamespace(buffer_layout=buffer, full_name=""))
    assert gaps._places(tensor) == (shape, width, strides)
