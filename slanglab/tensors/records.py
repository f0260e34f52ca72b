"""What a summary says: statistics, histograms and reduced pictures as plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "BINS_MOST",
    "INFINITE_NEGATIVE",
    "INFINITE_POSITIVE",
    "NOT_A_NUMBER",
    "Histogram",
    "Picture",
    "Statistics",
    "Summary",
]

NOT_A_NUMBER = 1
INFINITE_POSITIVE = 2
INFINITE_NEGATIVE = 4

BINS_MOST = 1024
"""Bins of a histogram at most; `BINS` in histogram.slang says the same."""

Scale = Literal["linear", "symlog"]


@dataclass(frozen=True)
class Statistics:
    """Counts and moments of some numbers. Components of vectors and matrices count each for itself.

    Attributes
    ----------
    count : int
        Number of scalars.
    finite, zeros, nan, posinf, neginf : int
        How many of them are finite, zero (of either sign), NaN, +Inf, −Inf.
    minimum, maximum : int, float or None
        Extremes of the finite ones, exact (`int` for integer types); None where none is finite.
    mean, std : float or None
        Mean and standard deviation (divisor n) of the finite ones, None where none is finite.
    """

    count: int
    finite: int
    zeros: int
    nan: int
    posinf: int
    neginf: int
    minimum: int | float | None
    maximum: int | float | None
    mean: float | None
    std: float | None


@dataclass(frozen=True, eq=False)
class Histogram:
    """How many finite numbers lie between edges; each bin holds its lower edge, the last one both.

    Attributes
    ----------
    edges : ndarray of float64, shape (n + 1,)
        Ascending.
    counts : ndarray of int64, shape (n,)
        Numbers in each bin.
    scale : {'linear', 'symlog'}
        How the edges are spaced: evenly, or evenly in sign(x)·log(1 + |x| / threshold).
    threshold : float or None
        Of a symlog scale: below it, it is about linear. None for a linear one.
    """

    edges: NDArray[np.float64]
    counts: NDArray[np.int64]
    scale: Scale
    threshold: float | None = None


@dataclass(frozen=True, eq=False)
class Picture:
    """A window of two axes of a tensor, reduced to texels.

    Attributes
    ----------
    mean, minimum, maximum : ndarray of float32, shape (h, w)
        Of the finite elements in each texel's block; NaN where there is none. Numbers beyond float32's range are
        shown as its largest.
    flags : ndarray of uint8, shape (h, w)
        What else the block holds: 1 NaN, 2 +Inf, 4 −Inf, added.
    block : (int, int)
        Rows and columns of elements per texel; the last row and column of texels may cover fewer.
    window : (int, int, int, int)
        (row0, row1, column0, column1), the half-open ranges of elements shown.
    exact : bool
        Whether each texel is one element.
    colors : ndarray of float32, shape (h, w, 3 or 4), or None
        The mean of each channel, where the elements are vectors of three or four or the last axis has that size.
    """

    mean: NDArray[np.float32]
    minimum: NDArray[np.float32]
    maximum: NDArray[np.float32]
    flags: NDArray[np.uint8]
    block: tuple[int, int]
    window: tuple[int, int, int, int]
    exact: bool
    colors: NDArray[np.float32] | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Summary:
    """What there is to say about a tensor without its numbers.

    Attributes
    ----------
    shape : tuple of int
        The tensor's shape, without components of its elements.
    dtype : str
        The element's type (`float`, `vector<float,3>`; numpy's name for an ndarray).
    strides : tuple of int
        In elements.
    device : str
        Adapter and backend, `host` for an ndarray.
    bytes : int
        Bytes that the elements take, without gaps between them.
    value : Statistics or None
        None for a tensor of structs, whose `fields` have each their own.
    gradient, ratio : Statistics or None
        Of the gradient and of |gradient| / |value|; None where there is no gradient.
    histogram, gradient_histogram : Histogram or None
        Over the range of the finite numbers.
    fields : mapping of str to Summary
        Of a tensor of structs: one summary a field, by its path. Else empty.
    notes : tuple of str
        What could not be summarised, and why.
    """

    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...]
    device: str
    bytes: int
    value: Statistics | None
    gradient: Statistics | None
    ratio: Statistics | None
    histogram: Histogram | None
    gradient_histogram: Histogram | None
    fields: Mapping[str, Summary] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    drawer: ClassVar[Callable[[Summary], str] | None] = None
    """What draws a summary as HTML; set while the notebook extension is loaded."""

    def __repr__(self) -> str:
        # Here: the text is made from these records.
        from slanglab.tensors.wording import summary_text

        return summary_text(self)

    def _repr_html_(self) -> str | None:
        drawer = type(self).drawer
        return drawer(self) if drawer is not None else None
