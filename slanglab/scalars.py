"""Slang's scalar types, and how types are written."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["SCALARS", "type_name"]

SCALARS: dict[str, np.dtype[Any]] = {
    "bool": np.dtype(np.bool_),
    "half": np.dtype(np.float16),
    "float16_t": np.dtype(np.float16),
    "float": np.dtype(np.float32),
    "double": np.dtype(np.float64),
    "int8_t": np.dtype(np.int8),
    "int16_t": np.dtype(np.int16),
    "int": np.dtype(np.int32),
    "int64_t": np.dtype(np.int64),
    "uint8_t": np.dtype(np.uint8),
    "uint16_t": np.dtype(np.uint16),
    "uint": np.dtype(np.uint32),
    "uint64_t": np.dtype(np.uint64),
}
"""Slang's scalar types and what holds the same values in numpy."""


def type_name(full_name: str) -> str:
    """Return a type as people write it: `float3` for `vector<float,3>`, `float2x3` for `matrix<float,2,3>`."""
    for prefix, joint in (("vector<", ""), ("matrix<", "x")):
        while (start := full_name.find(prefix)) >= 0:
            end = full_name.find(">", start)
            scalar, *sizes = full_name[start + len(prefix) : end].split(",")
            full_name = (
                full_name[:start] + scalar + joint.join(s.strip() for s in sizes) + full_name[end + 1 :]
            )
    return full_name
