"""Random tensors for the summary's tests, each beside the same elements as a NumPy array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import slangpy as spy

DTYPES: dict[str, tuple[Any, tuple[int, ...]]] = {
    "float": (np.float32, ()),
    "half": (np.float16, ()),
    "double": (np.float64, ()),
    "int8_t": (np.int8, ()),
    "uint8_t": (np.uint8, ()),
    "int16_t": (np.int16, ()),
    "uint16_t": (np.uint16, ()),
    "int": (np.int32, ()),
    "uint": (np.uint32, ()),
    "int64_t": (np.int64, ()),
    "uint64_t": (np.uint64, ()),
    "bool": (np.bool_, ()),
    "float2": (np.float32, (2,)),
    "float3": (np.float32, (3,)),
    "float4": (np.float32, (4,)),
    "half3": (np.float16, (3,)),
    "float2x2": (np.float32, (2, 2)),
    "float3x3": (np.float32, (3, 3)),
    "float[3]": (np.float32, (3,)),
}
FLOATING = [name for name, (kind, _) in DTYPES.items() if np.issubdtype(kind, np.floating)]
PATTERNS = [
    "normal",
    "offset",
    "huge",
    "tiny",
    "constant",
    "zeros",
    "nan",
    "infinite",
    "all nan",
    "subnormal",
    "outlier",
]


@dataclass
class Case:
    """A tensor, and an array of shape tensor axes + components that holds the same elements."""

    dtype: str
    pattern: str
    layout: str
    tensor: Any
    array: Any
    components: tuple[int, ...]

    def __repr__(self) -> str:
        return f"{self.dtype} {self.pattern} {self.layout} {self.array.shape}"


def numbers(rng: np.random.Generator, kind: Any, shape: tuple[int, ...], pattern: str) -> Any:
    """Random elements of one type."""
    kind = np.dtype(kind)
    if kind.kind == "b":
        return rng.random(shape) < rng.random()
    if kind.kind in "iu":
        info = np.iinfo(kind)
        if pattern in ("constant", "zeros"):
            return np.full(
                shape,
                0 if pattern == "zeros" else rng.integers(info.min, info.max, dtype=kind, endpoint=True),
                kind,
            )
        if pattern == "offset":
            return kind.type(info.max) - rng.integers(0, 9, shape, kind)
        return rng.integers(info.min, info.max, shape, kind, endpoint=True)
    info = np.finfo(kind)
    values = rng.normal(size=shape)
    if pattern == "offset":
        values = 1000 + values * 2e-2
    elif pattern == "huge":
        values = rng.uniform(-1, 1, shape) * float(info.max)
    elif pattern == "tiny":
        values = values * float(info.tiny) * 50
    elif pattern == "subnormal":
        values = rng.integers(-9, 9, shape) * float(info.smallest_subnormal)
    elif pattern == "constant":
        values = np.full(shape, rng.normal())
    elif pattern == "zeros":
        values = np.where(rng.random(shape) < 0.5, 0.0, -0.0)
    elif pattern == "outlier":
        values.reshape(-1)[rng.integers(0, values.size, 1) if values.size else []] = 6e4
    values = values.astype(kind)
    if pattern == "nan":
        values[rng.random(shape) < 0.1] = np.nan
    elif pattern == "all nan":
        values[...] = np.nan
    elif pattern == "infinite":
        for odd in (np.nan, np.inf, -np.inf, 0.0):
            values[rng.random(shape) < 0.1] = odd
    return values


def upload(device: Any, dtype: str, array: Any, components: tuple[int, ...]) -> Any:
    """The array as a contiguous tensor; its last axes are the components."""
    shape = array.shape[: array.ndim - len(components)]
    made = spy.Tensor.empty(device, shape, dtype)
    if array.dtype == np.bool_ and made.dtype.buffer_layout.stride == 4:
        array = array.astype(np.uint32)
    made.copy_from_numpy(np.ascontiguousarray(array))
    return made


def case(device: Any, rng: np.random.Generator, most: int = 20000) -> Case:
    """A random tensor of rank 1 to 9."""
    dtype = str(rng.choice(list(DTYPES)))
    kind, components = DTYPES[dtype]
    pattern = str(rng.choice(PATTERNS))
    rank = int(rng.integers(1, 10))
    shape: list[int] = []
    room = int(rng.integers(1, most))
    for left in range(rank, 0, -1):
        size = int(rng.integers(1, max(2, int(room ** (1 / left)) * 2)))
        shape.append(max(1, min(size, room)))
        room //= shape[-1]
    rng.shuffle(shape)
    array = numbers(rng, kind, (*shape, *components), pattern)
    tensor = upload(device, dtype, array, components)
    layout = str(rng.choice(["contiguous", "step", "offset", "transposed", "broadcast", "row", "empty"]))
    axis = int(rng.integers(0, rank))
    whole = [slice(None)] * rank
    if layout == "step":
        whole[axis] = slice(None, None, int(rng.integers(2, 4)))
    elif layout == "offset" and shape[axis] > 1:
        begin = int(rng.integers(1, shape[axis]))
        whole[axis] = slice(begin, int(rng.integers(begin, shape[axis])) + 1)
    if layout in ("step", "offset"):
        tensor, array = tensor[tuple(whole)], array[tuple(whole)]
    elif layout == "row" and rank > 1:
        at = int(rng.integers(0, shape[0]))
        tensor, array = tensor[at], array[at]
    elif layout == "transposed":
        order = [int(a) for a in rng.permutation(rank)]
        strides = tensor.strides.as_tuple()
        tensor = tensor.view(tuple(shape[a] for a in order), tuple(strides[a] for a in order), 0)
        array = np.transpose(array, (*order, *range(rank, rank + len(components))))
    elif layout == "broadcast" and rank < 9:
        times = int(rng.integers(1, 4))
        tensor = tensor.broadcast_to((times, *shape))
        array = np.broadcast_to(array, (times, *array.shape))
    elif layout == "empty":
        tensor, array = tensor.view((0,), (1,), 0), array.reshape(-1, *components)[:0]
    return Case(dtype, pattern, layout, tensor, array, components)
