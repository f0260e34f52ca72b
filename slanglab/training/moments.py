"""What an optimizer knows besides the parameters (moments, step count), kept with a state and put back with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Moments", "kept", "put_back"]


@dataclass(frozen=True, eq=False)
class Moments:
    """The state of an optimizer.

    Attributes
    ----------
    steps, skipped : int
    tensors : mapping of str to mapping of str to tensor, or None
        By parameter and name, copies on their own device; None where `whole` has all.
    whole : mapping or None
        What `state_dict()` returned.
    """

    steps: int
    skipped: int
    tensors: Mapping[str, Mapping[str, Any]] | None
    whole: Mapping[str, Any] | None


def kept(optimizer: Any, copy: Callable[[Any], Any]) -> Moments | None:
    """Return a copy of an optimizer's state, or None where it has no `state_dict` and `load_state_dict`.

    Parameters
    ----------
    optimizer : Optimizer or None
    copy : callable
        Copies a tensor where it lies.
    """
    if not all(callable(getattr(optimizer, name, None)) for name in ("state_dict", "load_state_dict")):
        return None
    tensors = getattr(optimizer, "state", None)
    if not isinstance(tensors, Mapping) or not hasattr(optimizer, "skipped"):
        return Moments(0, 0, None, optimizer.state_dict())
    copies = {name: {key: copy(one) for key, one in own.items()} for name, own in tensors.items()}
    # Without the option no step is skipped, and nothing is read.
    return Moments(optimizer.steps, optimizer.skipped, copies, None)


def put_back(moments: Moments, optimizer: Any) -> None:
    """Give an optimizer a kept state; its learning rate and other numbers stay as they are now."""
    if moments.tensors is None:
        optimizer.load_state_dict(moments.whole)
        return
    now = optimizer.state_dict()
    arrays = {
        name: {
            key: np.asarray(one.to_numpy()).reshape(np.shape(now["state"][name][key]))
            for key, one in own.items()
        }
        for name, own in moments.tensors.items()
    }
    optimizer.load_state_dict({**now, "steps": moments.steps, "skipped": moments.skipped, "state": arrays})
