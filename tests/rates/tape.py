"""Reverse-mode differentiation of numpy expressions in whatever float type their inputs have.

In float32 it stands in for a backward call on a device, in float64 for the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Pullback = Callable[[Array], Array]


class Node:
    """A value, and how a cotangent of it is passed on to what it was made from."""

    __slots__ = ("sources", "value")

    def __init__(self, value: Array, sources: Sequence[tuple[Node, Pullback]] = ()) -> None:
        self.value = value
        self.sources = tuple(sources)

    def _other(self, other: Node | float) -> Node:
        return other if isinstance(other, Node) else Node(np.asarray(other, dtype=self.value.dtype))

    def __add__(self, other: Node | float) -> Node:
        b = self._other(other)
        return Node(self.value + b.value, [(self, lambda g: g), (b, lambda g: g)])

    def __sub__(self, other: Node | float) -> Node:
        b = self._other(other)
        return Node(self.value - b.value, [(self, lambda g: g), (b, lambda g: -g)])

    def __mul__(self, other: Node | float) -> Node:
        b = self._other(other)
        return Node(self.value * b.value, [(self, lambda g: g * b.value), (b, lambda g: g * self.value)])

    def __truediv__(self, other: Node | float) -> Node:
        b = self._other(other)
        quotient = self.value / b.value
        return Node(quotient, [(self, lambda g: g / b.value), (b, lambda g: -g * quotient / b.value)])


def _function(of: Callable[[Array], Array], slope: Callable[[Array, Array], Array]) -> Callable[[Node], Node]:
    """Make an operation of one argument; `slope` takes the argument and the result."""

    def apply(a: Node) -> Node:
        x, y = a.value, of(a.value)
        return Node(y, [(a, lambda g: g * slope(x, y).astype(x.dtype))])

    return apply


sin = _function(np.sin, lambda x, y: np.cos(x))
cos = _function(np.cos, lambda x, y: -np.sin(x))
exp = _function(np.exp, lambda x, y: y)
log = _function(np.log, lambda x, y: 1 / x)
tanh = _function(np.tanh, lambda x, y: 1 - y * y)
sqrt = _function(np.sqrt, lambda x, y: 0.5 / y)
arctan = _function(np.arctan, lambda x, y: 1 / (1 + x * x))
sigmoid = _function(lambda x: 1 / (1 + np.exp(-x)), lambda x, y: y * (1 - y))
relu = _function(lambda x: np.maximum(x, 0), lambda x, y: x > 0)
absolute = _function(np.abs, lambda x, y: np.sign(x))
floor = _function(np.floor, lambda x, y: np.zeros_like(x))
frac = _function(lambda x: x - np.floor(x), lambda x, y: np.ones_like(x))


def clamp(a: Node, low: float, high: float) -> Node:
    x, lo, hi = a.value, a.value.dtype.type(low), a.value.dtype.type(high)
    return Node(np.clip(x, lo, hi), [(a, lambda g: g * ((x > lo) & (x < hi)))])


def maximum(a: Node, b: Node) -> Node:
    first = a.value >= b.value
    return Node(np.where(first, a.value, b.value), [(a, lambda g: g * first), (b, lambda g: g * ~first)])


def matmul(a: Node, b: Node) -> Node:
    return Node(a.value @ b.value, [(a, lambda g: g @ b.value.T), (b, lambda g: a.value.T @ g)])


def total(a: Node, axis: int, keep: bool = False) -> Node:
    def spread(g: Array) -> Array:
        return np.broadcast_to(g if keep else np.expand_dims(g, axis), a.value.shape)

    return Node(a.value.sum(axis=axis, keepdims=keep, dtype=a.value.dtype), [(a, spread)])


def gather(a: Node, index: Array) -> Node:
    def scatter(g: Array) -> Array:
        out = np.zeros_like(a.value)
        np.add.at(out, index, g)
        return out

    return Node(a.value[index], [(a, scatter)])


def coarse(grid: float) -> Callable[[Node], Node]:
    """Make an intrinsic whose float32 values lie on a grid, as those of approximate instructions and of half storage do."""

    def apply(a: Node) -> Node:
        x = a.value
        value = (np.round(x / grid) * grid).astype(x.dtype) if x.dtype == np.float32 else x
        return Node(value, [(a, lambda g: g)])

    return apply


def _summed(g: Array, shape: tuple[int, ...]) -> Array:
    """Sum over the axes along which an operand was repeated."""
    while g.ndim > len(shape):
        g = g.sum(axis=0)
    for axis, length in enumerate(shape):
        if length == 1 and g.shape[axis] != 1:
            g = g.sum(axis=axis, keepdims=True)
    return g


def gradients(result: Node, cotangent: Array, inputs: Sequence[Node]) -> list[Array]:
    """Return the cotangent times the Jacobian, one array for each input."""
    order: list[Node] = []
    seen: set[int] = set()
    stack = [(result, False)]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack += [(source, False) for source, _ in node.sources]
    found: dict[int, Array] = {id(result): cotangent}
    for node in reversed(order):
        if id(node) not in found:
            continue
        for source, pullback in node.sources:
            g = _summed(np.asarray(pullback(found[id(node)])), source.value.shape).astype(source.value.dtype)
            found[id(source)] = found[id(source)] + g if id(source) in found else g
    return [found.get(id(x), np.zeros_like(x.value)) for x in inputs]
