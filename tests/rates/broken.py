"""Wrong gradients: what lost updates, forgotten terms, wrong seeds and wrong indices make of a right one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from functions import Drawn
from tape import Array

Break = Callable[[list[Array], Drawn, Array, np.random.Generator], list[Array]]


def _each(change: Callable[[Array], Array]) -> Break:
    return lambda g, drawn, cotangent, rng: [change(a).astype(a.dtype) for a in g]


def _one(change: Callable[[Array], Array]) -> Break:
    """Change one input's gradient."""

    def apply(g: list[Array], drawn: Drawn, cotangent: Array, rng: np.random.Generator) -> list[Array]:
        out = list(g)
        i = int(rng.integers(len(g)))
        out[i] = change(g[i]).astype(g[i].dtype)
        return out

    return apply


def _at(where: Callable[[Array], int], value: float) -> Callable[[Array], Array]:
    """Set one element."""

    def apply(a: Array) -> Array:
        out = a.copy()
        out.reshape(-1)[where(a)] = value
        return out

    return apply


def _moved(a: Array) -> Array:
    return np.roll(a, 1) if a.size > 1 else 0.5 * a


def _reversed(a: Array) -> Array:
    return np.ascontiguousarray(a[::-1]) if a.shape[0] > 1 else 0.5 * a


def _kept(keep: Callable[[Array, int], Array]) -> Callable[[Array], Array]:
    return lambda a: np.where(keep(np.arange(a.size).reshape(a.shape), a.size), a, 0)


def _clipped(a: Array) -> Array:
    rms = np.sqrt((a.astype(np.float64) ** 2).mean())
    return np.clip(a, -rms, rms)


def _stale(a: Array) -> Array:
    return a + 0.5 * np.roll(a.reshape(-1), 3).reshape(a.shape)


def _branch(g: list[Array], drawn: Drawn, cotangent: Array, rng: np.random.Generator) -> list[Array]:
    return [np.where(x > 0, a, 0).astype(a.dtype) for a, x in zip(g, drawn.point, strict=True)]


def _rough(g: list[Array], drawn: Drawn, cotangent: Array, rng: np.random.Generator) -> list[Array]:
    return [(a * (1 + 0.2 * rng.standard_normal(a.shape))).astype(a.dtype) for a in g]


def _seed_ignored(g: list[Array], drawn: Drawn, cotangent: Array, rng: np.random.Generator) -> list[Array]:
    return drawn.gradients(np.ones_like(cotangent), np.float32)


def _elsewhere(g: list[Array], drawn: Drawn, cotangent: Array, rng: np.random.Generator) -> list[Array]:
    return drawn.gradients(cotangent, np.float32, [x * np.float32(1.2) for x in drawn.point])


KINDS: dict[str, Break] = {
    "zero": _each(np.zeros_like),
    "sign": _each(np.negative),
    "twice": _each(lambda a: 2 * a),
    "a quarter lost": _each(lambda a: 0.75 * a),
    "factor ln 2": _each(lambda a: 0.6931 * a),
    "10 % more": _each(lambda a: 1.1 * a),
    "5 % more": _each(lambda a: 1.05 * a),
    "2 % more": _each(lambda a: 1.02 * a),
    "one input zero": _one(np.zeros_like),
    "one input's sign": _one(np.negative),
    "shifted by one": _each(_moved),
    "reversed": _each(_reversed),
    "second half lost": _each(_kept(lambda i, n: i < n / 2)),
    "every fourth lost": _each(_kept(lambda i, n: i % 4 != 0)),
    "branch x > 0 only": _branch,
    "largest element zero": _one(_at(lambda a: int(np.argmax(np.abs(a))), 0.0)),
    "added to an old one": _each(_stale),
    "at another point": _elsewhere,
    "seed ignored": _seed_ignored,
    "one NaN": _one(_at(lambda a: 0, float("nan"))),
    "20 % rough": _rough,
    "absolute value": _each(np.abs),
    "clipped at the rms": _each(_clipped),
}


def broken(
    right: Sequence[Array], drawn: Drawn, cotangent: Array, rng: np.random.Generator
) -> Iterator[tuple[str, list[Array]]]:
    """Return every kind of wrong gradient made from a right one; some may happen to equal it."""
    for name, change in KINDS.items():
        yield name, change(list(right), drawn, cotangent, rng)
