"""What a view of a tensor sends of its pictures: at once what is drawn, and then what is seen only under the pointer.

The ranges of the blocks are two thirds of a picture's bytes, and none of its colours.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slanglab.tensors.records import Picture, Summary
from slanglab.widgets.shown import Shown

__all__ = ["Arrays", "Pictures", "drawn", "histograms", "ranges"]

Arrays = dict[str, NDArray[Any]]
Pictures = tuple[Picture, Picture | None]
"""Of the value and of the gradient."""


def drawn(
    shown: Shown, pictures: Pictures, take: int, *, band: bool, image: bool
) -> tuple[dict[str, Any], Arrays]:
    """Return what is drawn, as a message.

    Parameters
    ----------
    shown : Shown
        The slice, and the axes that are reduced.
    pictures : Pictures
    take : int
        A number of its own, by which `ranges` are known to belong to it.
    band : bool
        Whether the ranges are drawn too: those of a line are.
    image : bool
        Whether elements are shown as colours.
    """
    meta: dict[str, Any] = {"take": take, "index": list(shown.index)}
    if shown.pooled:
        meta["pooled"] = {"axes": list(shown.pooled), "by": shown.by}
    arrays: Arrays = {}
    for kind, picture in _each(pictures):
        row0, row1, column0, column1 = picture.window
        meta[kind] = {
            "block": list(picture.block),
            "window": [row0, column0, row1 - row0, column1 - column0],
        }
        arrays[f"{kind}.mean"] = picture.maximum if shown.by == "max" and shown.pooled else picture.mean
        if picture.flags.any():
            arrays[f"{kind}.flags"] = picture.flags
        if kind == "value" and picture.colors is not None and image:
            arrays["value.colors"] = picture.colors
    if band:
        arrays |= ranges(pictures)
    return meta, arrays


def ranges(pictures: Pictures) -> Arrays:
    """Return the least and the greatest number of each block; nothing of pictures whose texels are single numbers."""
    arrays: Arrays = {}
    for kind, picture in _each(pictures):
        if not picture.exact:
            arrays[f"{kind}.minimum"] = picture.minimum
            arrays[f"{kind}.maximum"] = picture.maximum
    return arrays


def _each(pictures: Pictures) -> list[tuple[str, Picture]]:
    value, gradient = pictures
    return [("value", value)] + ([("gradient", gradient)] if gradient is not None else [])


def histograms(summary: Summary) -> Arrays:
    """Return the histograms of value and gradient."""
    arrays: Arrays = {}
    for kind, found in (("value", summary.histogram), ("gradient", summary.gradient_histogram)):
        if found is not None:
            arrays[f"{kind}.edges"] = found.edges.astype(np.float64)
            arrays[f"{kind}.counts"] = found.counts.astype(np.float64)
    return arrays
