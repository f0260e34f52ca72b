"""How a value lies in a buffer: so many scalars of one type, one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slanglab.scalars import SCALARS

__all__ = ["Layout", "layout"]

_WIDE_UNIFORM = {
    **dict.fromkeys(("half", "float16_t"), "float"),
    **dict.fromkeys(("bool", "int8_t", "int16_t"), "int"),
    **dict.fromkeys(("uint8_t", "uint16_t"), "uint"),
}
"""Uniforms of these types need features that devices may lack; they travel as wider ones."""


@dataclass(frozen=True)
class Layout:
    """A scalar, vector, matrix or array type.

    Attributes
    ----------
    name : str
        The type in Slang, as `vector<float,3>`.
    kind : str
        `ScalarType`, `VectorType`, `MatrixType` or `ArrayType`.
    scalar : str
        The type of its scalars.
    shape : tuple of int
        () for a scalar, (3,) for float3, (2, 3) for float2x3.
    inner : Layout or None
        Of what an array is of.
    size : int
        Bytes of a scalar in a buffer.
    """

    name: str
    kind: str
    scalar: str
    shape: tuple[int, ...]
    inner: Layout | None
    size: int

    @property
    def count(self) -> int:
        """Scalars in one value."""
        count = 1
        for length in self.shape:
            count *= length
        return count

    @property
    def stored(self) -> str:
        """The type of a scalar in a buffer."""
        if self.scalar == "bool":
            return "uint" if self.size == 4 else "uint8_t"
        return self.scalar

    @property
    def uniform(self) -> str:
        """The type that carries such a value as a uniform."""
        if self.kind == "ScalarType":
            return _WIDE_UNIFORM.get(self.scalar, self.scalar)
        if self.kind == "VectorType":
            return f"vector<{_WIDE_UNIFORM.get(self.scalar, self.scalar)},{self.shape[0]}>"
        return self.name

    def from_uniform(self, expression: str) -> str:
        """Return the value of a uniform that carries it."""
        if self.uniform == self.name:
            return expression
        return f"({expression} != 0)" if self.scalar == "bool" else f"{self.name}({expression})"

    def compose(self, scalars: list[str]) -> str:
        """Return an expression (for an array an initializer) of the value made of stored scalars."""
        if self.kind == "ScalarType":
            return f"({scalars[0]} != 0)" if self.scalar == "bool" else scalars[0]
        if self.inner is not None:
            step = self.inner.count
            parts = [self.inner.compose(scalars[i : i + step]) for i in range(0, self.count, step)]
            return f"{{ {', '.join(parts)} }}"
        items = [f"({s} != 0)" for s in scalars] if self.scalar == "bool" else scalars
        return f"{self.name}({', '.join(items)})"

    def scalars(self, value: str) -> list[str]:
        """Return expressions of the scalars of `value`, in memory order."""
        if self.kind == "ScalarType":
            return [value]
        if self.inner is not None:
            return [s for i in range(self.shape[0]) for s in self.inner.scalars(f"{value}[{i}]")]
        if self.kind == "MatrixType":
            rows, columns = self.shape
            return [f"{value}[{r}][{c}]" for r in range(rows) for c in range(columns)]
        return [f"{value}[{i}]" for i in range(self.shape[0])]

    def to_stored(self, scalar: str) -> str:
        """Return what is written to a buffer for a scalar."""
        return f"{self.stored}({scalar} ? 1 : 0)" if self.scalar == "bool" else scalar


def layout(slang_type: Any, bool_size: int = 4) -> Layout | None:
    """Read the layout of a type from slangpy's reflection; None for a struct, a tensor and whatever else has no fixed scalars.

    Parameters
    ----------
    slang_type : slangpy.reflection.SlangType
    bool_size : int
        Bytes of a bool in a buffer of this device.
    """
    kind = type(slang_type).__name__
    name = str(slang_type.full_name)
    if kind == "ScalarType":
        dtype = SCALARS.get(name)
        if dtype is None:
            return None
        return Layout(name, kind, name, (), None, bool_size if name == "bool" else dtype.itemsize)
    if kind == "VectorType":
        inner = layout(slang_type.element_type, bool_size)
        shape = tuple(int(n) for n in slang_type.shape.as_tuple())
        if inner is None or len(shape) != 1 or shape[0] < 1:
            return None
        return Layout(name, kind, inner.scalar, shape, None, inner.size)
    if kind == "MatrixType":
        row = layout(slang_type.element_type, bool_size)
        shape = tuple(int(n) for n in slang_type.shape.as_tuple())
        if row is None or len(shape) != 2:
            return None
        return Layout(name, kind, row.scalar, shape, None, row.size)
    if kind == "ArrayType":
        inner = layout(slang_type.element_type, bool_size)
        length = int(slang_type.shape.as_tuple()[0])
        if inner is None or length < 1:
            return None
        return Layout(name, kind, inner.scalar, (length, *inner.shape), inner, inner.size)
    return None
