"""Slang's scalar types, and how types are written."""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np

__all__ = ["SCALARS", "numbers_in", "type_name"]

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


_NUMBERS = re.compile(r"(\w+?)([1-4](?:x[1-4])?)?((?:\[[0-9]+\])*)")
_ARRAY = re.compile(r"Array<(.*),\s*([0-9]+)\s*>")


@functools.cache
def numbers_in(full_name: str) -> tuple[np.dtype[Any], tuple[int, ...]] | None:
    """Return what an element of a type holds, if that is numbers.

    Parameters
    ----------
    full_name : str
        As slangpy says it, or as people write it.

    Returns
    -------
    tuple of (numpy.dtype, tuple of int) or None
        The scalar type, and the shape of a vector, a matrix or an array, the outermost axis first: that of `half3[5][2]`, two
        arrays of five vectors, is (2, 5, 3). None for structs and whatever else.
    """
    if array := _ARRAY.fullmatch(full_name):
        inner = numbers_in(array[1])
        return None if inner is None else (inner[0], (int(array[2]), *inner[1]))
    name = type_name(full_name)
    if name in SCALARS:  # some end in digits
        return SCALARS[name], ()
    found = _NUMBERS.fullmatch(name)
    if found is None:
        return None
    scalar, sizes, lengths = found[1], found[2], found[3]
    if sizes and f"{scalar}{sizes}" in SCALARS:
        scalar, sizes = f"{scalar}{sizes}", ""
    if scalar not in SCALARS:
        return None
    outer = tuple(int(n) for n in reversed(re.findall("[0-9]+", lengths)))
    return SCALARS[scalar], (*outer, *(int(n) for n in (sizes or "").split("x") if n))
