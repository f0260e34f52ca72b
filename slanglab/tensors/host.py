"""The same statistics, histograms and pictures of NumPy arrays, in double precision on the host."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slanglab.errors import ArgumentError
from slanglab.tensors.binning import Edges
from slanglab.tensors.frames import Choice
from slanglab.tensors.records import (
    INFINITE_NEGATIVE,
    INFINITE_POSITIVE,
    NOT_A_NUMBER,
    Picture,
    Statistics,
)

__all__ = ["fields", "histogram", "nonfinite", "picture", "ratio", "statistics", "window"]

Array = NDArray[Any]


def fields(array: Array, prefix: str = "") -> dict[str, Array]:
    """Return the plain arrays in an array: itself under "", or those of a structured one by path.

    Raises
    ------
    ArgumentError
        If the elements are no real numbers.
    """
    if array.dtype.names is not None:
        found: dict[str, Array] = {}
        for name in array.dtype.names:
            found |= fields(array[name], f"{prefix}.{name}" if prefix else name)
        return found
    if array.dtype.kind not in "biuf":
        raise ArgumentError(
            f"An array of {array.dtype} holds no real numbers.",
            given=str(array.dtype),
            hint="pass its real and imaginary parts, or convert it with .astype(float)",
        )
    return {prefix: array.astype(np.float64) if array.dtype.itemsize > 8 else array}


def statistics(array: Array) -> Statistics:
    """Return the statistics of a plain array."""
    flat = array.reshape(-1)
    nan = posinf = neginf = 0
    some = flat
    if flat.dtype.kind == "f":
        some = flat[np.isfinite(flat)]
        if len(some) < len(flat):
            nan = int(np.count_nonzero(np.isnan(flat)))
            posinf = int(np.count_nonzero(np.isposinf(flat)))
            neginf = len(flat) - len(some) - nan - posinf
    zeros = len(flat) - int(np.count_nonzero(flat))
    if not len(some):
        return Statistics(len(flat), 0, zeros, nan, posinf, neginf, None, None, None, None)
    if some.dtype.kind == "b":
        some = some.astype(np.uint8)
    least, most = some.min().item(), some.max().item()
    if some.dtype.kind in "iu":
        # Differences in unsigned integers of the same size are exact, also where float64 isn't.
        unsigned = np.dtype(f"u{some.dtype.itemsize}").type
        above = np.ascontiguousarray(some).view(unsigned) - unsigned(least % 2 ** (8 * some.dtype.itemsize))
        beside = above.astype(np.float64)
        mean = least + float(beside.mean())
        std = float(beside.std())
    else:
        # Scaled by a power of two, so that squares of the largest numbers stay finite.
        by = max(abs(least), abs(most))
        exponent = math.frexp(by)[1] if by > 1e150 or 0 < by < 1e-150 else 0
        values = np.ldexp(some.astype(np.float64), -exponent)
        mean = math.ldexp(float(values.mean()), exponent)
        std = math.ldexp(float(values.std()), exponent)
    return Statistics(
        len(flat), len(some), zeros, nan, posinf, neginf, least, most, min(max(mean, least), most), std
    )


def ratio(over: Array, under: Array) -> Array:
    """Return |over| / |under|, at least in single precision."""
    with np.errstate(all="ignore"):
        kind = np.result_type(over, np.float32)
        found: Array = np.abs(over.astype(kind)) / np.abs(under.astype(kind))
    return found


def histogram(array: Array, bins: Edges) -> NDArray[np.int64]:
    """Return how many elements of a plain array lie in each bin."""
    flat = array.reshape(-1)
    if flat.dtype.kind == "f":
        flat = flat[np.isfinite(flat)]
    if flat.dtype.kind == "b":
        flat = flat.astype(np.uint8)
    if flat.dtype == np.float16:
        # np.histogram sorts, and numpy 2.4 sorts halves wrongly where many are subnormal; float32 holds each exactly.
        flat = flat.astype(np.float32)
    return np.histogram(flat, bins.values)[0].astype(np.int64)


def window(array: Array, choice: Choice) -> Array:
    """Return the elements of a picture's window, of shape (rows, columns, channels)."""
    shown = [a for a in (choice.row, choice.column, choice.channel) if a is not None]
    if any(n == 0 for axis, n in enumerate(array.shape) if axis not in shown):
        return np.zeros((0, 0, 1), array.dtype)
    kept = [*shown, *choice.pooled]
    at = tuple(slice(None) if axis in kept else n for axis, n in enumerate(choice.fixed))
    # The axes shown keep their order: row, column, channel; those that are pooled come behind.
    order = sorted(kept)
    part = np.transpose(array[at], [order.index(axis) for axis in kept])
    full = part.reshape(
        1 if choice.row is None else array.shape[choice.row],
        1 if choice.column is None else array.shape[choice.column],
        -1 if part.size else math.prod(array.shape[axis] for axis in kept[len(kept) - _inner(choice) :]),
    )
    top, bottom, left, right = choice.window
    return full[top:bottom, left:right]


def _inner(choice: Choice) -> int:
    """Return how many axes lie within a texel."""
    return len(choice.pooled) + (choice.channel is not None)


def picture(array: Array, choice: Choice) -> Picture:
    """Return the reduced picture of a plain array."""
    part = window(array, choice)
    if part.dtype.kind == "b":
        part = part.astype(np.uint8)
    channels = part.shape[2]
    finite = np.isfinite(part)
    values = np.where(finite, part, 0).astype(np.float64)
    number = _blocks(np.add, finite.astype(np.int64), choice)
    large = float(np.abs(values).max(initial=0.0))
    exponent = math.frexp(large)[1] if large > 1e290 else 0
    total = _blocks(np.add, np.ldexp(values, -exponent), choice)
    low = _blocks(np.minimum, np.where(finite, values, np.inf), choice).min(axis=2, initial=np.inf)
    high = _blocks(np.maximum, np.where(finite, values, -np.inf), choice).max(axis=2, initial=-np.inf)
    kinds = (
        np.isnan(part) * NOT_A_NUMBER
        + np.isposinf(part) * INFINITE_POSITIVE
        + np.isneginf(part) * INFINITE_NEGATIVE
    ).astype(np.uint8)
    flags = np.bitwise_or.reduce(_blocks(np.bitwise_or, kinds, choice), axis=2)
    pooled = number.sum(axis=2)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = _single(np.ldexp(total.sum(axis=2) / pooled, exponent), pooled)
        each = _single(np.ldexp(total / number, exponent), number)
    return Picture(
        mean,
        _single(low, pooled),
        _single(high, pooled),
        flags,
        choice.block,
        choice.window,
        choice.block == (1, 1) and channels == 1,
        each if choice.channel is not None and not choice.pooled else None,
    )


def _blocks(reduce: np.ufunc, values: Array, choice: Choice) -> Array:
    if 0 in values.shape[:2]:
        rows, cols = (math.ceil(n / b) for n, b in zip(values.shape, choice.block, strict=False))
        return np.zeros((rows, cols, values.shape[2]), values.dtype)
    down: Array = reduce.reduceat(values, np.arange(0, values.shape[0], choice.block[0]), axis=0)
    across: Array = reduce.reduceat(down, np.arange(0, values.shape[1], choice.block[1]), axis=1)
    return across


def _single(values: Array, number: Array) -> NDArray[np.float32]:
    most = float(np.finfo(np.float32).max)
    return np.where(number > 0, np.clip(values, -most, most), np.nan).astype(np.float32)


def nonfinite(array: Array, limit: int) -> NDArray[np.int64]:
    """Return the flat indices of the first `limit` elements that aren't finite."""
    if array.dtype.kind != "f":
        return np.zeros(0, np.int64)
    return np.flatnonzero(~np.isfinite(array))[: max(limit, 0)].astype(np.int64)
