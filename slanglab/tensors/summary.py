"""What is in a tensor, without moving it: statistics, histograms, reduced pictures, and where it isn't finite.

Kernels in `shaders/` read the tensor where it lies, contiguous or strided, and only their results come to the host.
NumPy arrays go through the same functions, and so do tensors of 32- and 64-bit integers and doubles on a device without
double precision; both are computed on the host, for which such tensors are copied.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slanglab import elsewhere
from slanglab.tensors import host, passes, sources, summarising
from slanglab.tensors.binning import edges
from slanglab.tensors.frames import Choice, Index, Window, choose
from slanglab.tensors.layout import Axes, View
from slanglab.tensors.records import Histogram, Picture, Scale, Statistics, Summary
from slanglab.tensors.sources import Source

__all__ = [
    "Histogram",
    "Picture",
    "Statistics",
    "Summary",
    "elements",
    "histogram",
    "nonfinite",
    "picture",
    "statistics",
    "summary",
]


def statistics(tensor: Any, *, field: str | None = None, gradient: bool = False) -> Statistics:
    """Return counts, extremes, mean and standard deviation, in one dispatch.

    Parameters
    ----------
    tensor : slangpy.Tensor, ndarray or torch.Tensor
        Elements are scalars, vectors, matrices, arrays or structs; any shape and strides. Components count each.
    field : str, optional
        Of structs: the path of the field (`weights.bias`).
    gradient : bool
        Of the tensor's gradient instead.

    Returns
    -------
    Statistics
        Sums run in single precision with errors like those of pairwise summation for types that float32 holds exactly,
        else in double precision; counts and extremes are exact. Hardware that flushes subnormal numbers takes them for
        zero in sums.

    Raises
    ------
    ArgumentError
        If the elements are no numbers, `field` is missing or unknown, or there is no gradient.

    Notes
    -----
    Means and squares are combined as in Chan, Golub and LeVeque, "Algorithms for computing the sample variance:
    analysis and recommendations", The American Statistician 37 (1983).
    """
    return summarising.statistics(sources.source(tensor, field, gradient))


def histogram(
    tensor: Any,
    bins: int = 64,
    range: tuple[float, float] | None = None,
    scale: Scale = "linear",
    *,
    field: str | None = None,
    gradient: bool = False,
) -> Histogram:
    """Return how many finite elements lie between edges.

    Parameters
    ----------
    tensor, field, gradient
        As for `statistics`.
    bins : int
        1 to 1024.
    range : (float, float), optional
        Elements outside are not counted. Default: the finite extremes, which costs a second dispatch.
    scale : {'linear', 'symlog'}
        Spacing of the edges; symlog is linear below 1 % of the largest magnitude and logarithmic above.

    Returns
    -------
    Histogram
        Counts equal those of `numpy.histogram` with the same edges.

    Raises
    ------
    ArgumentError
        As `statistics`, and if bins, range or scale cannot be used.
    """
    source = sources.source(tensor, field, gradient)
    return summarising.histogram(
        source, edges(range, _extremes(source) if range is None else None, bins, scale)
    )


def picture(
    tensor: Any,
    rows: int = 256,
    cols: int = 256,
    *,
    index: Index = (),
    window: Window | None = None,
    gradient: bool = False,
    field: str | None = None,
    pooled: tuple[int, ...] = (),
    axes: tuple[int, int] | None = None,
) -> Picture:
    """Return two axes of a tensor, reduced to at most rows x cols texels.

    Parameters
    ----------
    tensor, field, gradient
        As for `statistics`.
    rows, cols : int
        Texels at most. Each covers a block of whole elements.
    index : tuple of (int or None)
        Position on each axis, leading axes first; None or left out: free. The last two free axes are rows and columns,
        those before them stay at 0. A tensor with one free axis is one row.
    window : (int, int, int, int), optional
        row0, row1, column0, column1 of the elements shown. Default: all.
    pooled : tuple of int
        Axes to reduce: each texel's mean, extremes and flags are over all elements along them.
    axes : (int, int), optional
        The axes that are rows and columns, where they are not the last two free ones.

    Returns
    -------
    Picture
        Vectors of three or four components, and a last free axis of that size behind two others, are channels: `mean`,
        `minimum`, `maximum` and `flags` are over all of them, `colors` has the mean of each. Components of other
        vectors, matrices and arrays are pooled.

    Raises
    ------
    ArgumentError
        As `statistics`, and if an index is outside its axis.
    """
    source = sources.source(tensor, field, gradient)
    if isinstance(source, View):
        choice = choose(source.axes.shape, bool(source.inner.shape), index, rows, cols, window, pooled, axes)
        return passes.picture(source.storage.device, source.storage, source.form, _frame(source, choice))
    return host.picture(source, choose(source.shape, False, index, rows, cols, window, pooled, axes))


def nonfinite(
    tensor: Any, limit: int = 100, *, field: str | None = None, gradient: bool = False
) -> list[tuple[int, ...]]:
    """Return where the first NaN and infinite elements are, in index order.

    Parameters
    ----------
    tensor, field, gradient
        As for `statistics`.
    limit : int
        Indices at most.

    Returns
    -------
    list of tuple of int
        One index an axis, then one for each axis of an element's components. The two dispatches that search for them
        send back one count a run of elements and the indices.
    """
    source = sources.source(tensor, field, gradient)
    if isinstance(source, View):
        shape, flat = source.all.shape, passes.nonfinite(source.storage.device, source, limit)
    else:
        shape, flat = source.shape, host.nonfinite(source, limit)
    if not len(flat):
        return []
    return [tuple(at) for at in np.transpose(np.unravel_index(flat, shape)).tolist()] if shape else [()]


def elements(
    tensor: Any,
    *,
    index: Index = (),
    window: Window | None = None,
    gradient: bool = False,
    field: str | None = None,
    axes: tuple[int, int] | None = None,
) -> NDArray[Any]:
    """Return the exact elements of a picture's window, in their own type.

    Parameters
    ----------
    tensor, index, window, gradient, field, axes
        As for `picture`.

    Returns
    -------
    ndarray, shape (rows, columns) or (rows, columns, channels...)
        Only the window is copied from the device.
    """
    source = sources.source(tensor, field, gradient)
    if isinstance(source, View):
        choice = choose(source.axes.shape, bool(source.inner.shape), index, 1, 1, window, (), axes)
        return passes.gather(source.storage.device, passes.window(source, _frame(source, choice)))
    choice = choose(source.shape, False, index, 1, 1, window, (), axes)
    part = host.window(source, choice).copy()
    return part[:, :, 0] if choice.channel is None else part


@elsewhere.by_value
def summary(tensor: Any, *, bins: int = 64) -> Summary:
    """Return what there is to say about a tensor and its gradient.

    Parameters
    ----------
    tensor : slangpy.Tensor, ndarray or torch.Tensor
        As for `statistics`.
    bins : int
        Of each histogram, 1 to 1024. That of the value is linear over the finite extremes, that of the gradient symlog
        and centred at zero.

    Returns
    -------
    Summary
        For structs, one in `fields` for each field.
    """
    return summarising.whole(tensor, bins=bins)


def _extremes(source: Source) -> tuple[Any, Any] | None:
    found = summarising.statistics(source)
    return None if found.minimum is None else (found.minimum, found.maximum)


def _frame(source: View, choice: Choice) -> passes.Frame:
    shape, strides = source.axes.shape, source.axes.strides

    def axis(at: int | None) -> tuple[int, int]:
        return (1, 0) if at is None else (shape[at], strides[at])

    base = source.axes.base + sum(n * s for n, s in zip(choice.fixed, strides, strict=True))
    if choice.channel is None:
        channels = Axes(source.inner.shape, source.inner.strides, base)
        colors = source.vector and source.inner.shape in ((3,), (4,))
    else:
        channels = Axes((shape[choice.channel],), (strides[choice.channel],), base)
        colors = True
    if choice.pooled:
        extra = [(shape[axis], strides[axis]) for axis in choice.pooled]
        channels = Axes(
            (*channels.shape, *(n for n, _ in extra)), (*channels.strides, *(s for _, s in extra)), base
        )
        colors = False
    return passes.Frame(axis(choice.row), axis(choice.column), channels, colors, choice.window, choice.block)
