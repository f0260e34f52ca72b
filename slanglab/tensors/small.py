"""All elements of a small tensor, as its pictures see them: for what writes them out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slanglab.tensors import summary as summaries
from slanglab.tensors.frames import choose

__all__ = ["everything"]


def everything(tensor: Any, shape: tuple[int, ...], *, inner: bool, gradient: bool) -> NDArray[Any]:
    """Return all elements, read slice by slice.

    Parameters
    ----------
    tensor : slangpy.Tensor, ndarray or torch.Tensor
    shape : tuple of int
        Of the tensor, which has elements.
    inner : bool
        Whether its elements have components.
    gradient : bool
        Of the tensor's gradient instead.

    Returns
    -------
    ndarray, shape `shape` or (*shape, components)
    """
    choice = choose(shape, inner, (), 1, 1, None)
    drawn = (choice.row, choice.column, choice.channel)
    lead = [n for axis, n in enumerate(shape) if axis not in drawn]
    parts = []
    for at in np.ndindex(*lead):
        position = iter(at)
        index = tuple(None if axis in drawn else next(position) for axis in range(len(shape)))
        parts.append(summaries.elements(tensor, index=index, gradient=gradient))
    whole = np.stack(parts)
    components = whole.size // math.prod(shape)
    return whole.reshape(shape if components == 1 else (*shape, components))
