"""Values with gaps between them: where their scalars lie."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from slanglab.engine import apart


class ScalarType:
    def __init__(self, stride: int) -> None:
        self.buffer_layout = SimpleNamespace(stride=stride)


class VectorType:
    def __init__(self, inner: Any, shape: tuple[int, ...], stride: int) -> None:
        self.element_type = inner
        self.shape = SimpleNamespace(as_tuple=lambda: shape)
        self.buffer_layout = SimpleNamespace(stride=stride)


class MatrixType(VectorType):
    pass


class ArrayType(VectorType):
    pass


class StructType(VectorType):
    pass


HALF, FLOAT, BOOL = ScalarType(2), ScalarType(4), ScalarType(4)
HALF3 = VectorType(HALF, (3,), 8)


@pytest.mark.parametrize(
    ("dtype", "found"),
    [
        (HALF3, ((3,), (1,))),
        (MatrixType(HALF3, (2, 3), 16), ((2, 3), (4, 1))),
        (ArrayType(HALF3, (5, 3), 40), ((5, 3), (4, 1))),
        (ArrayType(MatrixType(HALF3, (2, 3), 16), (3, 2, 3), 48), ((3, 2, 3), (8, 4, 1))),
        (VectorType(HALF, (3,), 6), None),
        (VectorType(HALF, (4,), 8), None),
        (VectorType(FLOAT, (3,), 12), None),
        (VectorType(BOOL, (3,), 12), None),
        (ArrayType(StructType(HALF, (3,), 8), (2,), 16), None),
        (HALF, None),
        (StructType(HALF, (3,), 8), None),
    ],
)
def test_where_scalars_lie(dtype: Any, found: Any) -> None:
    got = apart._inner(dtype)
    assert (got and got[:2]) == found
