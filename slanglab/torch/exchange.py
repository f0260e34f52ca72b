"""Numbers between torch's memory and the device's.

There is one way for each pair of memories: `slanglab.torch.host` for torch tensors of the CPU, `slanglab.torch.gpu` for those of CUDA.
Where the device sees torch's own memory, calls like earlier ones do without (`slanglab.torch.ready`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import slangpy as spy

from slanglab.device import describe
from slanglab.errors import CallError
from slanglab.torch import gpu, host
from slanglab.torch.leaves import Leaf

__all__ = ["Exchange", "choose"]


class Exchange(Protocol):
    """Takes torch tensors to the device of a function and brings results back."""

    direct: bool
    """Whether the device reads and writes torch's own memory where a kernel takes addresses (`slanglab.engine.straight.bare`)."""

    lock: Any
    """A lock that the thread holds whose call is on its way to the device; the same thread may take it again."""

    def upload(self, tensor: Any, element: str, shape: tuple[int, ...]) -> Any:
        """Return a slangpy.Tensor with the numbers of a torch tensor, which has the dtype of `element` and any layout."""
        ...

    def room(self, shape: tuple[int, ...], element: str) -> Any:
        """Return a slangpy.Tensor that a call will write and `download` read; what it holds before is anything."""
        ...

    def download(self, tensor: Any) -> Any:
        """Return a torch tensor with what the device has written; waits for it as far as torch needs that."""
        ...

    def begin(self) -> None:
        """See to it that the device begins after what torch has been told to do so far."""
        ...

    def end(self) -> None:
        """See to it that torch goes on after what the device has been told to do so far."""
        ...

    def free(self, tensors: Sequence[Any]) -> None:
        """Take back tensors of `upload` and `room` that nothing uses any more, neither here nor on the device."""
        ...


def choose(function: str, device: spy.Device, leaves: Sequence[Leaf]) -> Exchange:
    """Return the way for the torch tensors of a call.

    Raises
    ------
    CallError
        When they are on several devices, or on one that the function's device has no way to.
    """
    where = leaves[0].tensor.device
    for leaf in leaves[1:]:
        if leaf.tensor.device != where:
            raise CallError(
                f"{function}: {leaves[0].where} is on {where}, and {leaf.where} is on {leaf.tensor.device}",
                function=function,
                argument=leaf.where,
                hint=f"bring them together, for example with `{leaf.where}.to('{where}')`",
            )
    if where.type == "cpu":
        return host.exchange(device)
    if where.type == "cuda":
        return gpu.exchange(function, leaves[0].where, device, where)
    raise CallError(
        f"{function}: argument {leaves[0].where} is on {where}, and the function runs on {describe(device)}",
        function=function,
        argument=leaves[0].where,
        hint="pass it on the CPU: `t.cpu()`",
    )
