"""Tensors with rows of three numbers for a vector of four.

slangpy takes such a tensor and reads on: into the next row, and behind the buffer in the last. Here the call gets a copy whose rows end
in zeros, the user a warning, and the gradient of the copy comes back without what was added.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import slangpy as spy

from slanglab.engine.parameters import Parameter
from slanglab.scalars import SCALARS
from slanglab.tensors.create import from_array

__all__ = ["fits", "lengthened"]


def fits(tensor: Any, spec: Parameter) -> bool:
    """Tell whether a tensor's rows are to be made as long as the parameter's: three numbers for a vector of four, only read.

    Points and colours are stored in threes and computed in fours; other lengths are more likely a mistake, and refused.
    """
    rows = tensor.shape.as_tuple()[-1:]
    return (
        spec.kind == "vector"
        and spec.reads
        and not spec.writes
        and SCALARS.get(tensor.dtype.full_name) == spec.dtype
        and rows == (3,)
        and spec.element_shape == (4,)
    )


def lengthened(tensor: Any, spec: Parameter, after: list[Callable[[], None]]) -> Any:
    """Return a tensor of vectors with these rows and zeros behind them.

    Parameters
    ----------
    tensor : slangpy.Tensor
    spec : Parameter
    after : list of callable
        Gets what brings the gradient back, once the call was made.
    """
    made: Any = _copy(tensor, spec)
    seeds, gradients = tensor.grad_in, tensor.grad_out
    if seeds is None and gradients is None:
        return made
    mine: spy.Tensor | None = _copy(gradients, spec) if gradients is not None else None
    theirs = mine if seeds is gradients or seeds is None else _copy(seeds, spec)

    if mine is not None:

        def bring_back() -> None:
            gradients.copy_from_numpy(np.ascontiguousarray(mine.to_numpy()[..., :3]))

        after.append(bring_back)
    return made.with_grads(theirs, mine, zero=False)


def _copy(tensor: Any, spec: Parameter) -> Any:
    rows = np.asarray(tensor.to_numpy())
    longer = np.pad(rows, [(0, 0)] * (rows.ndim - 1) + [(0, 1)])
    return from_array(tensor.device, longer, spec.type, 1)
