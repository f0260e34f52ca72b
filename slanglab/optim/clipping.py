"""Clipping gradients where they lie, on the device; an optimizer's own `clip_norm` and `clip_value` leave them as they are."""

from __future__ import annotations

from typing import Any

from slanglab import waiting
from slanglab.optim.optimizer import checked
from slanglab.optim.places import collect, places
from slanglab.optim.programs import NUMBERS, way
from slanglab.optim.sweeps import NORM, Control, Sweep, Table
from slanglab.tensors import writes

__all__ = ["clip_grad_norm", "clip_grad_value"]


def clip_grad_norm(params: Any, max_norm: float) -> float:
    """Scale gradients so that their norm, that of all of them together, is `max_norm` at most.

    Parameters
    ----------
    params : slangpy.Tensor, list or dict of them
        As for an optimizer.
    max_norm : float

    Returns
    -------
    float
        The Euclidean norm before; reading it waits for the device. NaN or infinite where a gradient is, and the gradients are then NaN or
        zero, as with torch.nn.utils.clip_grad_norm_.

    References
    ----------
    R. Pascanu, T. Mikolov, Y. Bengio: On the difficulty of training recurrent neural networks. ICML 2013.
    """
    limit = max(checked("clip_grad_norm", "max_norm", max_norm), 1e-37)
    table = _table(params)
    control = Control(table)
    encoder = table.device.create_command_encoder()
    control.record(encoder, limit, False, 1)
    Sweep(table, ("optim_gradient",), ACTION=1, CONTROLLED=1).record(encoder, (0.0,) * NUMBERS, control)
    waiting.told(table.device.submit_command_buffer, encoder.finish())
    _tell(table)
    return control.read(NORM)  # which waits, so that the table is no longer needed


def clip_grad_value(params: Any, clip_value: float) -> None:
    """Clamp each gradient to between `-clip_value` and `clip_value`; a NaN stays one.

    Parameters
    ----------
    params : slangpy.Tensor, list or dict of them
        As for an optimizer.
    clip_value : float
    """
    limit = checked("clip_grad_value", "clip_value", clip_value)
    table = _table(params)
    encoder = table.device.create_command_encoder()
    Sweep(table, ("optim_gradient",), ACTION=2).record(encoder, (*((0.0,) * (NUMBERS - 1)), limit))
    waiting.told(table.device.submit_command_buffer, encoder.finish())
    _tell(table)
    waiting.until_idle(table.device, table)


def _table(params: Any) -> Table:
    found = places(collect(params))
    return Table(found, [()] * len(found), way(found[0].tensor.device))


def _tell(table: Table) -> None:
    if writes.watched:
        writes.wrote(*(place.tensor for place in table.places))
