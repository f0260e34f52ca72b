"""What a parameter of a Slang function takes, read once from the compiler's reflection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from slanglab.scalars import SCALARS, type_name

__all__ = ["Kind", "Parameter", "parameter", "parameters"]

Kind = Literal["scalar", "vector", "matrix", "array", "struct", "tensor", "other"]

_KINDS: dict[str, Kind] = {
    "ScalarType": "scalar",
    "VectorType": "vector",
    "MatrixType": "matrix",
    "ArrayType": "array",
    "StructType": "struct",
    "TensorType": "tensor",
}


@dataclass(frozen=True)
class Parameter:
    """One parameter.

    Attributes
    ----------
    name : str
    type : str
        The type as Slang writes it, with `float3` for `vector<float,3>`.
    kind : Kind
    dtype : numpy.dtype or None
        Of its scalars, where it has some of one type; for a tensor those of its elements.
    element_shape : tuple of int
        Shape of one value: () for a scalar, (3,) for float3, (2, 3) for float2x3. For a tensor, that of one element.
    dims : int
        For a tensor its number of dimensions, else 0.
    reads, writes : bool
    no_diff : bool
    fields : dict of str to Parameter
        Of a struct.
    position : int
        Among the parameters of the function; 0 for a field.
    """

    name: str
    type: str
    kind: Kind
    dtype: np.dtype[Any] | None = None
    element_shape: tuple[int, ...] = ()
    dims: int = 0
    reads: bool = True
    writes: bool = False
    no_diff: bool = False
    differentiable: bool = False
    fields: Mapping[str, Parameter] = field(default_factory=dict)
    position: int = 0

    @property
    def expected(self) -> str:
        """What it takes, in words: "float32, shape (…, 3)"."""
        if self.kind == "tensor":
            axes = ", ".join(["…"] * self.dims + [str(n) for n in self.element_shape])
            return f"{self.type}: a tensor of {self.dtype or 'elements'}, shape ({axes})"
        if self.dtype is None:
            return self.type
        axes = ", ".join(["…", *(str(n) for n in self.element_shape)])
        return f"{self.type}: a value, or an array of {self.dtype} with shape ({axes})"


def _scalar_of(slang_type: Any) -> tuple[np.dtype[Any] | None, tuple[int, ...]]:
    """Return the dtype and shape of one value of a scalar, vector, matrix or array type."""
    shape: list[int] = []
    seen = 0
    while slang_type is not None and slang_type.full_name not in SCALARS and seen < 8:
        seen += 1
        kind = type(slang_type).__name__
        if kind == "MatrixType":
            shape.extend(slang_type.shape.as_tuple())
            slang_type = slang_type.element_type and slang_type.element_type.element_type
        elif kind in ("VectorType", "ArrayType"):
            length = int(slang_type.shape.as_tuple()[0])
            if length <= 0:  # a length that the call decides: `float[N]` of a generic function
                return None, ()
            shape.append(length)
            slang_type = slang_type.element_type
        else:
            return None, ()
    if slang_type is None:
        return None, ()
    return SCALARS.get(slang_type.full_name), tuple(shape)


def parameter(
    name: str, slang_type: Any, io: str = "inn", no_diff: bool = False, *, depth: int = 0
) -> Parameter:
    """Describe one parameter or field from slangpy's reflection of its type."""
    kind: Kind = _KINDS.get(type(slang_type).__name__, "other")
    if kind == "struct" and slang_type.is_generic:
        # Reading the fields of a struct whose types are open makes slangpy take it for a closed one from then on.
        kind = "other"
    reads, writes = io in ("inn", "inout"), io in ("out", "inout")
    dims = 0
    fields: dict[str, Parameter] = {}
    element = slang_type
    if kind == "tensor":
        dims = int(slang_type.dims)
        access = slang_type.access.name
        reads, writes = access in ("read", "read_write"), access in ("write", "read_write")
        element = slang_type.dtype
    elif kind == "struct" and depth < 8:  # a struct may hold itself through a pointer
        fields = {
            n: parameter(n, f.type if hasattr(f, "type") else f, depth=depth + 1)
            for n, f in slang_type.fields.items()
        }
    dtype, shape = _scalar_of(element) if kind not in ("struct", "other") else (None, ())
    return Parameter(
        name,
        type_name(slang_type.full_name),
        kind,
        dtype,
        shape,
        dims,
        reads,
        writes,
        no_diff,
        bool(slang_type.differentiable),
        fields,
    )


def parameters(slang_function: Any) -> tuple[Parameter, ...]:
    """Describe the parameters of a function that has no overloads, in order."""
    return tuple(
        replace(parameter(p.name, p.type, p.io_type.name, bool(p.no_diff)), position=i)
        for i, p in enumerate(slang_function.parameters)
    )
