"""How the arguments of calls with torch tensors are given to a kernel that takes their addresses."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from slanglab.engine.runs import Trace
from slanglab.engine.straight.arguments import Argument, side, table_shape, traffic
from slanglab.engine.straight.bare import Bare
from slanglab.engine.target import Target
from slanglab.scalars import SCALARS

__all__ = ["Inputs"]

_MOST = 2**31 - 1


class Inputs:
    """How the arguments of a kind of call are read and given to its kernel.

    Parameters
    ----------
    target : Target
    positional : int
        How many of the arguments come by position.
    names : tuple of str
        Of the others.
    kernel : Bare

    Attributes
    ----------
    places : tuple of int
        Where the tensors stand among the arguments.
    result : int
        Where the address of the result goes in what the kernel is given, in a backward call that of its seed.
    sizes : tuple of int
        Bytes of a scalar of each tensor, and of the result.
    gradients : tuple of int
        Where those of the tensors' gradients go; -1 for tensors without.
    like : int
        Which of the tensors a result of the call's own shape and of the result's type is like; -1 for none.
    trace : tuple or None
        For the report of a call of so many elements.
    """

    def __init__(self, target: Target, positional: int, names: tuple[str, ...], kernel: Bare) -> None:
        by_name = {a.name: a for a in kernel.arguments}
        order = [p.name for p in target.parameters[:positional]] + list(names)
        at = {name: i for i, name in enumerate(kernel.names)}
        self._size, self._alignment = len(kernel.names), kernel.alignment
        tensors: list[tuple[int, Argument, int]] = []
        numbers: list[tuple[int, int, Any, Any]] = []
        for i, name in enumerate(order):
            a = by_name[name]
            if a.kind == "number":
                numbers.append((i, at[a.key], *_limits(a)))
            else:
                tensors.append((i, a, at[a.key]))
        self.places = tuple(i for i, _, _ in tensors)
        self._tensors = [(i, a.kind, a.inner, a.layout.shape, place) for i, a, place in tensors]
        self._kernel, self._axes = kernel, kernel.axes
        self._numbers = numbers
        result = by_name["_result"]
        same = [
            k
            for k, (_, a, _) in enumerate(tensors)
            if a.kind == "array"
            and (a.layout.scalar, a.layout.shape) == (result.layout.scalar, result.layout.shape)
        ]
        self.like = same[0] if same else -1
        self.sizes = (*(a.layout.size for _, a, _ in tensors), result.layout.size)
        self.result = at[f"d_{result.key}" if target.backward else result.key]
        self.gradients = tuple(at.get(f"d_{a.key}", -1) for _, a, _ in tensors)
        self.trace: tuple[tuple[int, ...], Trace] | None = None

    def bytes(self, shape: tuple[int, ...]) -> int:
        """Return how many bytes a call over `shape` reads and writes."""
        return traffic(self._kernel.arguments, shape, self._axes)

    def read(self, values: Sequence[Any]) -> tuple[list[Any], tuple[int, ...], list[Any]] | None:
        """Return the tensors, the shape of the call, and what the kernel is given but for what it writes.

        None where the kernel cannot take them: their shapes do not go together as it needs, or they do not lie one number after
        the other.
        """
        given: list[Any] = [0] * self._size
        tensors = []
        shape: Any = None
        parts: list[tuple[tuple[int, ...], str]] = []
        rank = low = 0
        for i, kind, inner, form, place in self._tensors:
            tensor = values[i]
            own = tensor.shape
            if inner:
                if own[-inner:] != form:
                    return None
                own = own[:-inner]
            if self._axes:
                parts.append((tuple(own), kind))
            elif kind == "one":
                if prod(own) != 1:
                    return None
                rank = max(rank, len(own))
            elif shape is None:
                shape = own
            elif own != shape:
                return None
            if not tensor.is_contiguous() or tensor.is_neg():
                return None
            address = tensor.data_ptr()
            if kind != "one":
                low |= address
            given[place] = address
            tensors.append(tensor)
        if self._axes:
            shape = self._table(parts)
        if low % self._alignment or shape is None or len(shape) < rank or not 0 < prod(shape) <= _MOST:
            return None
        for i, place, least_, most in self._numbers:
            value = values[i]
            if not least_ <= value <= most:
                return None
            given[place] = value
        return tensors, tuple(shape), given

    def _table(self, parts: Sequence[tuple[tuple[int, ...], str]]) -> tuple[int, ...] | None:
        """Return the shape of a call over rows and columns, None where it is none for the kernel."""
        shape = table_shape([own for own, _ in parts], max(len(own) for own, _ in parts))
        fits = all(side(own, shape, self._axes) == kind for own, kind in parts) and self._kernel.takes(shape)
        return shape if fits else None


def _limits(a: Argument) -> tuple[Any, Any]:
    """Return the least and the greatest number that a parameter takes as it is."""
    dtype = SCALARS[a.layout.scalar]
    if dtype.kind == "b":
        return False, True
    if dtype.kind == "f":
        most = float(np.finfo(dtype).max)
        return -most, most
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
