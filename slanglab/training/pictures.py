"""Tensors as the live plot draws them: positions on a colour map, colours, or a line; a few kilobytes each, made on the device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slanglab.tensors import sources
from slanglab.tensors import summary as summaries
from slanglab.tensors.records import Picture
from slanglab.training.measuring import has_gradient

__all__ = ["Shot", "shots"]

_TEXELS = 128
_POINTS = 512
_QUANTILE = 0.999
_THRESHOLD = 0.01


@dataclass(frozen=True, eq=False)
class Shot:
    """A tensor at one moment.

    Attributes
    ----------
    name : str
    shape : tuple of int
    value : ndarray of uint8, shape (h, w) or (h, w, 3), or of float32, shape (1, n)
        Positions on the map of values from 0 to 255; sRGB; or the numbers of a line.
    gradient : ndarray, same rules, or None
        Positions on the map of gradients, 128 is zero; never sRGB.
    flags, gradient_flags : ndarray of uint8, shape (h, w), or None
        What is not finite, as in `Picture`; None where all is finite.
    low, high : float
        Of the values; NaN where none is finite.
    limit : float
        The gradient's range is ± this.
    """

    name: str
    shape: tuple[int, ...]
    value: NDArray[Any]
    gradient: NDArray[Any] | None
    flags: NDArray[np.uint8] | None
    gradient_flags: NDArray[np.uint8] | None
    low: float
    high: float
    limit: float = 0.0

    @property
    def kind(self) -> str:
        """`line`, `colors` or `map`."""
        if self.value.dtype == np.float32:
            return "line"
        return "colors" if self.value.ndim == 3 else "map"


def shots(show: Mapping[str, Any | Callable[[], Any]]) -> list[Shot]:
    """Look at all that is to be shown; what is a function is called first."""
    return [_shot(name, one() if callable(one) else one) for name, one in show.items()]


def _shot(name: str, tensor: Any) -> Shot:
    shape: tuple[int, ...]
    if sources.is_tensor(tensor):
        shape = tuple(tensor.shape.as_tuple())
    else:
        shape = tuple(sources.arrays(tensor).value.shape)
    line = len(shape) == 1
    size = (1, _POINTS) if line else (_TEXELS, _TEXELS)
    value = summaries.picture(tensor, *size)
    low, high = _range(value)
    slope = summaries.picture(tensor, *size, gradient=True) if has_gradient(tensor) else None
    limit = 0.0 if slope is None else _limit(slope)
    if line and value.colors is None:
        drawn: NDArray[Any] = value.mean
        grad: NDArray[Any] | None = None if slope is None else slope.mean
    else:
        if value.colors is not None and low >= 0 and high <= 1:
            drawn = _srgb(value.colors)
        else:
            drawn = _levels((value.mean.astype(np.float64) - low) / ((high - low) or 1.0))
        grad = None if slope is None else _levels(_symlog(slope.mean, limit))
    return Shot(
        name, shape, drawn, grad, _flags(value), None if slope is None else _flags(slope), low, high, limit
    )


def _flags(picture: Picture) -> NDArray[np.uint8] | None:
    return picture.flags if picture.flags.any() else None


def _range(picture: Picture) -> tuple[float, float]:
    if not np.isfinite(picture.minimum).any():
        return np.nan, np.nan
    return float(np.nanmin(picture.minimum)), float(np.nanmax(picture.maximum))


def _limit(picture: Picture) -> float:
    """Return the 99.9 % quantile of the texels' greatest magnitudes."""
    most = np.fmax(np.abs(picture.minimum), np.abs(picture.maximum))
    finite = most[np.isfinite(most)]
    return float(np.quantile(finite, _QUANTILE)) if finite.size else 0.0


def _symlog(x: NDArray[np.float32], limit: float) -> NDArray[np.float64]:
    unit = limit * _THRESHOLD if limit > 0 else 1.0
    found: NDArray[np.float64] = (
        np.arcsinh(x.astype(np.float64) / unit) / np.arcsinh(1 / _THRESHOLD) + 1
    ) / 2
    return found


def _levels(t: NDArray[np.float64]) -> NDArray[np.uint8]:
    # An even number of steps puts a level of its own, 128, at the middle.
    steps: NDArray[np.uint8] = np.rint(np.clip(np.where(np.isfinite(t), t, 0.5), 0, 1) * 254 + 1).astype(
        np.uint8
    )
    return steps


def _srgb(colors: NDArray[np.float32]) -> NDArray[np.uint8]:
    v = np.clip(np.nan_to_num(colors[..., :3].astype(np.float64)), 0, 1)
    encoded = np.where(v <= 0.0031308, 12.92 * v, 1.055 * v ** (1 / 2.4) - 0.055)
    image: NDArray[np.uint8] = np.rint(encoded * 255).astype(np.uint8)
    return image
