"""What the summary's tests hold results against: NumPy in double and extended precision."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import slangpy as spy
from tensor_cases import Case


def exact(array: Any) -> Any:
    """The finite elements in extended precision, which holds all 64-bit integers and no square of a double overflows."""
    flat = array.reshape(-1)
    if flat.dtype.kind == "f":
        flat = flat[np.isfinite(flat)]
    return flat.astype(np.longdouble)


def flushes(device: Any) -> bool:
    """Whether the device takes subnormal numbers for zero in arithmetic, as some hardware does in single precision."""
    text = """
    [shader("compute")] [numthreads(1, 1, 1)]
    void probe(uniform float by, StructuredBuffer<float> x, RWStructuredBuffer<float> y) { y[0] = x[0] * by; }
    """
    module = device.load_module_from_source("slanglab/tests/flushes", text)
    kernel = device.create_compute_kernel(device.link_program([module], [module.entry_point("probe")]))
    x, y = (spy.Tensor.from_numpy(device, np.array([1e-40], np.float32)) for _ in range(2))
    kernel.dispatch([1, 1, 1], by=2.0**20, x=x.storage, y=y.storage)
    return bool(y.to_numpy()[0] == 0)


LEAST = {"single": 2.0**-149}
"""The error that a result in single precision may have however small it is; set for a device that flushes."""


def check_statistics(found: Any, array: Any, note: object = "") -> None:
    floating = array.dtype.kind == "f"
    x = exact(array)
    assert found.count == array.size, note
    assert found.finite == x.size, note
    assert found.zeros == np.count_nonzero(array == 0), note
    assert found.nan == (np.count_nonzero(np.isnan(array)) if floating else 0), note
    assert found.posinf == (np.count_nonzero(np.isposinf(array)) if floating else 0), note
    assert found.neginf == (np.count_nonzero(np.isneginf(array)) if floating else 0), note
    if not x.size:
        assert (found.minimum, found.maximum, found.mean, found.std) == (None,) * 4, note
        return
    some = array[np.isfinite(array)] if floating else array
    assert found.minimum == some.min(), note
    assert found.maximum == some.max(), note
    assert isinstance(found.minimum, float if floating else int), note
    single = array.dtype.itemsize < 4 or array.dtype == np.float32
    eps = float(np.finfo(np.float32).eps) if single else 1e-14
    largest, mean, std = float(np.abs(x).max()), float(x.mean()), float(x.std())
    # A subnormal result has few digits: the last unit of float64 is the least to ask for.
    least = LEAST["single"] if single else 5e-324
    assert abs(found.mean - mean) <= 4 * eps * std + 1e-14 * largest + least, note
    # A double rounded to the mean's last digit has that much of a deviation.
    assert abs(found.std - std) <= 8 * eps * std + (0 if single else 1e-15 * largest) + least, note


def reference_counts(array: Any, edges: Any) -> list[int]:
    x, e = exact(array), edges.astype(np.longdouble)
    last = len(e) - 2
    return [
        int(((x >= e[i]) & ((x < e[i + 1]) if i < last else (x <= e[i + 1]))).sum()) for i in range(last + 1)
    ]


def check_picture(found: Any, plane: Any, block: tuple[int, int], note: object = "") -> None:
    """`plane` has shape (rows, columns, components)."""
    h, w = math.ceil(plane.shape[0] / block[0]), math.ceil(plane.shape[1] / block[1])
    for part in (found.mean, found.minimum, found.maximum):
        assert part.shape == (h, w), note
        assert part.dtype == np.float32, note
    assert found.flags.shape == (h, w), note
    assert found.flags.dtype == np.uint8, note
    most = float(np.finfo(np.float32).max)
    for i in range(h):
        for j in range(w):
            part = plane[i * block[0] : (i + 1) * block[0], j * block[1] : (j + 1) * block[1]]
            if part.dtype.kind == "f":
                flags = np.isnan(part).any() * 1 + np.isposinf(part).any() * 2 + np.isneginf(part).any() * 4
            else:
                flags = 0
            assert found.flags[i, j] == flags, (note, i, j)
            x = exact(part)
            if not x.size:
                assert np.isnan([found.mean[i, j], found.minimum[i, j], found.maximum[i, j]]).all(), (
                    note,
                    i,
                    j,
                )
                continue
            assert found.minimum[i, j] == np.float32(np.clip(float(x.min()), -most, most)), (note, i, j)
            assert found.maximum[i, j] == np.float32(np.clip(float(x.max()), -most, most)), (note, i, j)
            # Few large elements are not to take the digits of all others: the mean magnitude is the measure, not the largest.
            mean, magnitude = np.clip(float(x.mean()), -most, most), min(float(np.abs(x).mean()), most)
            assert abs(float(found.mean[i, j]) - mean) <= 4e-7 * magnitude + 16 * LEAST["single"], (
                note,
                i,
                j,
            )


def view_of(c: Case, index: tuple[int, ...] = ()) -> Any:
    """The default picture's elements, by the rule in words: last two axes, or last three when the last is 3 or 4."""
    rank = c.array.ndim - len(c.components)
    shown = 2
    if not c.components and rank - len(index) >= 3 and c.array.shape[-1] in (3, 4):
        shown = 3
    part = c.array[index]
    while part.ndim - len(c.components) > shown:
        part = part[0] if part.shape[0] else part.reshape(0, *part.shape[1:])
    if part.ndim - len(c.components) == 1:
        part = part[None]
    return part.reshape(*part.shape[:2], math.prod(part.shape[2:]))
