"""Memory of another library as an argument of a straight kernel, which takes addresses: nothing is copied."""

from __future__ import annotations

from math import prod
from typing import Any

import slangpy as spy
from slangpy.slangpy import Shape

__all__ = ["Memory", "buffer_of"]


class Memory:
    """Contiguous numbers at an address of the device, with what a straight kernel asks of a tensor.

    Parameters
    ----------
    address : int
        Of the first number, as the device has it.
    shape : tuple of int
    keep : slangpy.Buffer
        Any buffer of the device: kernels are given one beside each address, so that slangpy keeps that alive.
    grad_in, grad_out : Memory, optional
        The seed, and where the gradient goes.
    owner : object, optional
        What the memory belongs to.
    """

    __slots__ = ("device_address", "element_count", "grad_in", "grad_out", "keep", "owner", "shape")
    offset = 0

    def __init__(
        self,
        address: int,
        shape: tuple[int, ...],
        keep: Any,
        grad_in: Memory | None = None,
        grad_out: Memory | None = None,
        owner: Any = None,
    ) -> None:
        self.device_address = address
        self.shape = Shape(shape)
        self.element_count = prod(shape)
        self.keep = keep
        self.grad_in = grad_in
        self.grad_out = grad_out
        self.owner = owner

    @property
    def storage(self) -> Memory:
        """What has the address: this."""
        return self

    @staticmethod
    def is_contiguous() -> bool:
        """Return True."""
        return True


def buffer_of(storage: Any) -> spy.Buffer:
    """Return the buffer to bind beside the address of some storage."""
    return storage.keep if type(storage) is Memory else storage
