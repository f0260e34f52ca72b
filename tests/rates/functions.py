"""Random functions whose gradients are checked: eleven smooth families, one with kinks, one with noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import tape
from tape import Array, Node

Graph = Callable[[Sequence[Node]], Node]

SMOOTH = (
    "elementwise",
    "shared parameter",
    "network",
    "gather",
    "iterated",
    "softmax",
    "normalised",
    "scaled",
    "cancellation",
    "oscillating",
    "20,000 elements",
)
FAMILIES = (*SMOOTH, "kinked", "noisy")


@dataclass(frozen=True)
class Drawn:
    """A function with its inputs.

    Attributes
    ----------
    family : str
    graph : callable
        Takes nodes and returns one; in float32 the function, in float64 its twin.
    point : list of numpy.ndarray
        float32.
    elements : int or None
        As `slanglab.checks.problem.Problem` has it.
    """

    family: str
    graph: Graph
    point: list[Array]
    elements: int | None

    def value(self, point: Sequence[Array]) -> list[Array]:
        return [self.graph([Node(x) for x in point]).value]

    def gradients(self, cotangent: Array, dtype: type, point: Sequence[Array] | None = None) -> list[Array]:
        """Return the gradients, computed in float32 or float64."""
        inputs = [Node(x.astype(dtype)) for x in (self.point if point is None else point)]
        result = self.graph(inputs)
        return tape.gradients(result, cotangent.astype(dtype), inputs)


def draw(family: str, rng: np.random.Generator) -> Drawn:
    """Draw a function whose value is finite and whose gradient is neither zero nor beyond float32."""
    while True:
        drawn = _MAKERS[family](rng)
        with np.errstate(all="ignore"):
            value = drawn.graph([Node(x.astype(np.float64)) for x in drawn.point]).value
            if not np.all(np.isfinite(value)) or not np.all(np.isfinite(drawn.value(drawn.point)[0])):
                continue
            exact = drawn.gradients(np.ones_like(value), np.float64)
        size = np.sqrt(sum(((g * x) ** 2).sum() for g, x in zip(exact, drawn.point, strict=True)))
        if np.isfinite(size) and 1e-9 < size < 1e9:
            return drawn


def _normal(rng: np.random.Generator, *shape: int) -> Array:
    return rng.standard_normal(shape).astype(np.float32)


def _count(rng: np.random.Generator) -> int:
    return int(rng.choice([1, 3, 16, 257, 2048]))


def _single(value: float) -> float:
    """Return the nearest float32, so that float32 and float64 compute with the same constant."""
    return float(np.float32(value))


def _leaf(i: int) -> Graph:
    return lambda z: z[i]


def _unary(rng: np.random.Generator, a: Graph, kinks: bool, first: Graph) -> Graph:
    c = _single(10 ** rng.uniform(-0.5, 0.7))
    smooth: list[Graph] = [
        lambda z: tape.sin(a(z) * c),
        lambda z: tape.cos(a(z) * c),
        lambda z: tape.tanh(a(z)),
        lambda z: tape.sigmoid(a(z) * c),
        lambda z: a(z) * a(z),
        lambda z: tape.sqrt(a(z) * a(z) + 1.0),
        lambda z: tape.log(a(z) * a(z) + 1.0),
        lambda z: tape.exp(tape.sin(a(z))),
        lambda z: tape.arctan(a(z) * c),
        lambda z: Node(np.ones_like(a(z).value)) / (a(z) * a(z) + c),
        lambda z: tape.exp(a(z) * a(z) * -c),
    ]
    kinked: list[Graph] = [
        lambda z: tape.relu(a(z)),
        lambda z: tape.absolute(a(z)),
        lambda z: tape.clamp(a(z), -0.7, 0.9),
        lambda z: tape.maximum(a(z), first(z)),
        lambda z: tape.frac(a(z) * 2.0),
    ]
    choices = smooth + kinked if kinks else smooth
    return choices[int(rng.integers(len(choices)))]


def _expression(rng: np.random.Generator, inputs: int, depth: int, kinks: bool = False) -> Graph:
    if depth == 0:
        return _leaf(int(rng.integers(inputs)))
    a = _expression(rng, inputs, depth - 1, kinks)
    if rng.random() < 0.5:
        return _unary(rng, a, kinks, _leaf(0))
    b = _expression(rng, inputs, depth - 1, kinks)
    binary: list[Graph] = [
        lambda z: a(z) + b(z),
        lambda z: a(z) - b(z),
        lambda z: a(z) * b(z),
        lambda z: a(z) * b(z),
        lambda z: a(z) / (b(z) * b(z) + 1.0),
    ]
    return binary[int(rng.integers(len(binary)))]


def _elementwise(rng: np.random.Generator, family: str, n: int, kinks: bool = False) -> Drawn:
    inputs = int(rng.integers(1, 4))
    graph = _expression(rng, inputs, int(rng.integers(2, 5)), kinks)
    return Drawn(family, graph, [_normal(rng, n) for _ in range(inputs)], n)


def _shared(rng: np.random.Generator, family: str, kinks: bool = False) -> Drawn:
    inputs, n = int(rng.integers(1, 4)), _count(rng)
    graph = _expression(rng, inputs + 1, int(rng.integers(2, 5)), kinks)
    return Drawn(family, graph, [*(_normal(rng, n) for _ in range(inputs)), _normal(rng, 1)], None)


def _network(rng: np.random.Generator, family: str, kinks: bool = False) -> Drawn:
    batch = int(rng.choice([1, 8, 64]))
    activation = tape.relu if kinks else (tape.tanh, tape.sin)[int(rng.integers(2))]

    def graph(z: Sequence[Node]) -> Node:
        return tape.matmul(activation(tape.matmul(z[0], z[1]) + z[2]), z[3])

    sizes = [((batch, 3), 1.0), ((3, 16), 0.6), ((16,), 0.1), ((16, 2), 0.3)]
    return Drawn(family, graph, [_normal(rng, *s) * np.float32(k) for s, k in sizes], None)


def _gather(rng: np.random.Generator, family: str) -> Drawn:
    n, rows = _count(rng), int(rng.choice([4, 32]))
    index = rng.integers(0, rows, n)
    inner = _expression(rng, 2, 3)
    return Drawn(
        family,
        lambda z: inner([tape.gather(z[0], index), z[1]]),
        [_normal(rng, rows), _normal(rng, n)],
        None,
    )


def _iterated(rng: np.random.Generator, family: str) -> Drawn:
    n, count, a = _count(rng), int(rng.integers(5, 40)), _single(rng.uniform(0.3, 1.1))

    def graph(z: Sequence[Node]) -> Node:
        y = z[0]
        for _ in range(count):
            y = tape.sin(y) * a + z[1] * 0.1
        return y

    return Drawn(family, graph, [_normal(rng, n), _normal(rng, n)], n)


def _softmax(rng: np.random.Generator, family: str) -> Drawn:
    classes, rows = int(rng.choice([2, 10])), max(1, _count(rng) // 16)
    return Drawn(
        family,
        lambda z: tape.log(tape.total(tape.exp(tape.matmul(z[0], z[1])), 1)),
        [_normal(rng, rows, 4), _normal(rng, 4, classes)],
        None,
    )


def _normalised(rng: np.random.Generator, family: str) -> Drawn:
    n = _count(rng)

    def graph(z: Sequence[Node]) -> Node:
        return z[0] * z[1] / tape.sqrt(tape.total(z[0] * z[0], 1, keep=True) + 1e-3)

    # Element i is a vector of three: what `elements` is for with values that are vectors.
    return Drawn(family, graph, [_normal(rng, n, 3), _normal(rng, n, 3)], n if rng.random() < 0.5 else None)


def _scaled(rng: np.random.Generator, family: str) -> Drawn:
    n, into, out = _count(rng), np.float32(10 ** rng.uniform(-4, 4)), _single(10 ** rng.uniform(-4, 4))
    inner, back = _expression(rng, 1, 3), _single(1 / float(into))
    return Drawn(family, lambda z: inner([z[0] * back]) * out, [_normal(rng, n) * into], n)


def _cancellation(rng: np.random.Generator, family: str) -> Drawn:
    n, large = _count(rng), _single(10 ** rng.uniform(0, 3))
    inner = _expression(rng, 1, 2)
    return Drawn(family, lambda z: inner(z) + large - large, [_normal(rng, n)], n)


def _oscillating(rng: np.random.Generator, family: str) -> Drawn:
    n, rate = _count(rng), _single(10 ** rng.uniform(0.8, 2.3))
    return Drawn(family, lambda z: tape.sin(z[0] * rate) + z[0] * z[0], [_normal(rng, n)], n)


def _kinked(rng: np.random.Generator, family: str) -> Drawn:
    which = int(rng.integers(4))
    if which == 0:
        return _elementwise(rng, family, _count(rng), kinks=True)
    if which == 1:
        return _shared(rng, family, kinks=True)
    if which == 2:
        return _network(rng, family, kinks=True)
    n = _count(rng)
    return Drawn(family, lambda z: tape.floor(z[0] * 3.0) + tape.sin(z[0]), [_normal(rng, n)], n)


def _noisy(rng: np.random.Generator, family: str) -> Drawn:
    grid = tape.coarse(float(rng.choice([2.0**-20, 2.0**-14, 2.0**-11, 2.0**-10])))
    n, inputs = _count(rng), int(rng.integers(1, 4))
    inner = _expression(rng, inputs, 3)
    return Drawn(family, lambda z: grid(inner(z)), [_normal(rng, n) for _ in range(inputs)], n)


_MAKERS: dict[str, Callable[[np.random.Generator], Drawn]] = {
    "elementwise": lambda r: _elementwise(r, "elementwise", _count(r)),
    "shared parameter": lambda r: _shared(r, "shared parameter"),
    "network": lambda r: _network(r, "network"),
    "gather": lambda r: _gather(r, "gather"),
    "iterated": lambda r: _iterated(r, "iterated"),
    "softmax": lambda r: _softmax(r, "softmax"),
    "normalised": lambda r: _normalised(r, "normalised"),
    "scaled": lambda r: _scaled(r, "scaled"),
    "cancellation": lambda r: _cancellation(r, "cancellation"),
    "oscillating": lambda r: _oscillating(r, "oscillating"),
    "20,000 elements": lambda r: _elementwise(r, "20,000 elements", 20_000),
    "kinked": lambda r: _kinked(r, "kinked"),
    "noisy": lambda r: _noisy(r, "noisy"),
}
