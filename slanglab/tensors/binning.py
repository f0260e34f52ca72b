"""Edges of histograms, and the integers that put a scalar type's values in order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slanglab.errors import ArgumentError
from slanglab.tensors.kernels import Format
from slanglab.tensors.records import BINS_MOST, Scale

__all__ = ["THRESHOLD", "Edges", "edges", "keys_to_values"]

THRESHOLD = 0.01
"""Linear threshold of a symlog scale, as a part of the largest magnitude in its range."""

_LARGEST = float(np.finfo(np.float64).max)
_LEAST = float(np.finfo(np.float64).tiny)


def _spaced(low: float, high: float, bins: int) -> NDArray[np.float64]:
    if math.isfinite(high - low):
        return np.linspace(low, high, bins + 1)
    part = np.linspace(0.0, 1.0, bins + 1)
    return low * (1 - part) + high * part


class Edges:
    """Bins over a range.

    Parameters
    ----------
    low, high : float
        The range, both finite.
    bins : int
        1 to 1024.
    scale : {'linear', 'symlog'}
        How the edges are spaced.

    Raises
    ------
    ArgumentError
        If bins, range or scale are none of these.
    """

    def __init__(self, low: float, high: float, bins: int, scale: Scale) -> None:
        if not 1 <= bins <= BINS_MOST:
            raise ArgumentError(
                f"A histogram has 1 to {BINS_MOST} bins, not {bins}.", argument="bins", given=str(bins)
            )
        if scale not in ("linear", "symlog"):
            raise ArgumentError(
                f"No histogram scale is named {scale!r}.", argument="scale", expected="'linear' or 'symlog'"
            )
        if not (math.isfinite(low) and math.isfinite(high) and low <= high):
            raise ArgumentError(
                f"The range of a histogram runs from one finite number to another that is no less, not ({low}, {high}).",
                argument="range",
            )
        if low == high:
            # As numpy does; half a unit is nothing beside a large number, which then gets a part of itself.
            half = max(0.5, abs(low) * 2.0**-20)
            low, high = max(low - half, -_LARGEST), min(high + half, _LARGEST)
        self.bins = bins
        self.scale: Scale = scale
        self.threshold = max(max(abs(low), abs(high)) * THRESHOLD, _LEAST) if scale == "symlog" else None
        self.start, self.stop = low, high
        if self.threshold is not None:
            self.start, self.stop = (
                math.copysign(math.log1p(abs(x) / self.threshold), x) for x in (low, high)
            )
        with np.errstate(over="ignore"):  # at an end beside the largest double, which is put right below
            self.values = _spaced(self.start, self.stop, bins)
            if self.threshold is not None:
                even = self.values
                self.values = np.copysign(np.expm1(np.abs(even)) * self.threshold, even)
        # Rounding must neither cut off an end nor put edges out of order.
        self.values[0], self.values[-1] = low, high
        self.values = np.maximum.accumulate(np.clip(self.values, low, high))

    def keys(self, form: Format) -> tuple[NDArray[Any], bool]:
        """Return the kernels' form of the edges for one scalar type.

        Returns
        -------
        ndarray of uint32 or uint64
            For each bin that elements of this type can be in, the key of the least element at or above its lower edge;
            then one past the key of the last element counted.
        bool
            Whether that last one isn't there because the last bin reaches the type's greatest integer.
        """
        key = np.uint64 if form.bits == 64 else np.uint32
        if form.form == "FLOAT":
            kind = np.dtype(form.name).type
            with np.errstate(over="ignore", under="ignore"):
                near = self.values.astype(kind)
                up = np.where(near.astype(np.float64) < self.values, np.nextafter(near, kind(np.inf)), near)
                last = near[-1:]
                down = np.where(
                    last.astype(np.float64) > self.values[-1], np.nextafter(last, kind(-np.inf)), last
                )
            return np.concatenate([_float_keys(up[:-1]), _float_keys(down) + key(1)]).astype(key), False
        least, most = (
            (0, 1) if form.form == "BOOL" else (int(np.iinfo(form.name).min), int(np.iinfo(form.name).max))
        )
        first = [max(math.ceil(x), least) for x in self.values[:-1]]
        first = [n for n in first if n <= most]
        end = math.floor(self.values[-1]) + 1
        unbounded = len(first) < self.bins or end > most
        return np.array([n - least for n in [*first, most if unbounded else max(end, least)]], key), unbounded


def edges(range: tuple[float, float] | None, found: tuple[Any, Any] | None, bins: int, scale: Scale) -> Edges:
    """Return the bins over a given range, else over the extremes found, else over (0, 1), as numpy does."""
    low, high = range if range is not None else found if found is not None else (0.0, 1.0)
    return Edges(float(low), float(high), bins, scale)


def _float_keys(values: NDArray[Any]) -> NDArray[np.uint64]:
    """Return unsigned integers in the order of the values, as `order` in element.slang."""
    bits = 8 * values.dtype.itemsize
    raw = (values + values.dtype.type(0)).view(f"u{values.dtype.itemsize}").astype(np.uint64)  # -0 + 0 is +0
    sign, mask = np.uint64(1 << (bits - 1)), np.uint64((1 << bits) - 1)
    keys: NDArray[np.uint64] = np.where(raw & sign, raw ^ mask, raw | sign)
    return keys


def keys_to_values(keys: NDArray[np.uint64], form: Format) -> NDArray[Any]:
    """Return the elements that the keys stand for, in numpy's type of that format."""
    if form.form == "BOOL":
        return keys.astype(np.int64)
    if form.form == "UNSIGNED":
        return keys.astype(form.name)
    unsigned = f"u{form.bits // 8}"
    sign, mask = np.uint64(1 << (form.bits - 1)), np.uint64((1 << form.bits) - 1)
    raw = keys ^ sign if form.form == "SIGNED" else np.where(keys & sign, keys ^ sign, keys ^ mask)
    values: NDArray[Any] = raw.astype(unsigned).view(form.name)
    return values
