"""Barriers after kernels that reach tensors by their address, as backward kernels on Vulkan do (`slanglab.slang_library`).

What a kernel binds and writes has a barrier behind it. Of an address the driver knows nothing: the next kernel might begin while this one
still writes. Software renderers run one kernel after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import slangpy as spy

from slanglab.device import is_software
from slanglab.engine.parameters import Parameter

__all__ = ["Fence", "fence_for", "one_way"]

_ONE_WAY = (spy.Tensor, bool, int, float, np.generic, type(spy.grid((1,))), type(spy.call_id()))
"""Arguments of which slangpy brings nothing back when a call has run."""

_POINTED = ("DiffTensor<", "AtomicTensor<")
"""How the types begin whose tensors are reached by their address."""


class Fence:
    """A barrier on a device: what was written before it, all that comes after it sees.

    Parameters
    ----------
    device : slangpy.Device
    """

    __slots__ = ("_device",)

    def __init__(self, device: spy.Device) -> None:
        self._device = device

    def after(self, encoder: Any = None) -> None:
        """Put the barrier behind what an encoder holds, or behind all that was submitted."""
        if encoder is None:
            self.end(self.begin())
        else:
            encoder.global_barrier()

    def begin(self) -> Any:
        """Return an encoder for a call."""
        return self._device.create_command_encoder()

    def end(self, encoder: Any) -> None:
        """Submit a call with the barrier behind it: half of what a submission of its own costs."""
        encoder.global_barrier()
        self._device.submit_command_buffer(encoder.finish())

    def run(self, node: Any, args: Sequence[Any], kwargs: Mapping[str, Any], backward: bool) -> Any:
        """Make a call of slangpy's, and return what it returns."""
        if backward and one_way(args, kwargs):
            encoder = self.begin()
            node.append_to(encoder, *args, **kwargs)
            self.end(encoder)
            return None
        result = node(*args, **kwargs)
        self.after()
        return result


def one_way(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Tell whether slangpy has nothing to do after a backward call with such arguments."""
    return all(isinstance(v, _ONE_WAY) for v in (*args, *kwargs.values()))


def fence_for(device: spy.Device, backward: bool, parameters: Iterable[Parameter]) -> Fence | None:
    """Return what goes after slangpy's kernel of a function; None where nothing need.

    Parameters
    ----------
    device : slangpy.Device
    backward : bool
    parameters : iterable of Parameter
    """
    if device.info.type != spy.DeviceType.vulkan or is_software(device):
        return None
    return Fence(device) if backward or any(_may_be_pointed(p) for p in parameters) else None


def _may_be_pointed(parameter: Parameter) -> bool:
    """Tell whether a forward kernel may reach a parameter by its address; of `IDiffTensor` it takes the values alone, which are bound."""
    if parameter.kind == "struct":
        return any(_may_be_pointed(p) for p in parameter.fields.values())
    if parameter.kind == "tensor":
        return not parameter.type.startswith("I") and any(t in parameter.type for t in _POINTED)
    return parameter.kind == "other"
