"""How numbers are spread: quantiles from histograms against those of all numbers."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from slanglab.tensors.spread import SHARES, spread

CASES = ("normal", "decades", "an outlier", "half zero", "whole numbers", "not finite")


def numbers(name: str, rng: np.random.Generator) -> NDArray[np.float32]:
    x = rng.normal(size=20_000)
    if name == "decades":
        x = np.exp(8 * x)
    elif name == "an outlier":
        x[7] = 1e12
    elif name == "half zero":
        x[::2] = 0
    elif name == "whole numbers":
        x = rng.integers(-5, 60, 20_000).astype(float)
    elif name == "not finite":
        x[::100], x[1], x[2] = np.nan, np.inf, -np.inf
    return x.astype(np.float32)


@pytest.mark.parametrize("magnitude", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_the_quantiles_are_those_of_all_numbers(case: str, magnitude: bool, rng: np.random.Generator) -> None:
    array = numbers(case, rng)
    found = spread(array.reshape(100, 200), magnitude=magnitude)
    assert found is not None
    known = np.sort(array[np.isfinite(array)].astype(np.float64))
    if magnitude:
        known = np.sort(np.abs(known[known != 0]))
    assert (np.diff(found.at) >= 0).all()
    assert found.at[-1] == known[-1]
    # As many lie below each as its share says, up to what a bin may hold that is not divided.
    room = np.maximum(np.abs(found.at) * 2e-4, known[-1] * 1e-8)
    low = np.searchsorted(known, found.at - room, "left") / len(known)
    high = np.searchsorted(known, found.at + room, "right") / len(known)
    assert (low <= SHARES + 0.032).all()
    assert (high >= SHARES - 0.032).all()


def test_what_cannot_be_spread() -> None:
    assert spread(np.full(5, np.nan)) is None
    assert spread(np.zeros(5), magnitude=True) is None
    assert spread(np.zeros(0)) is None
    alone = spread(np.full(5, 3.0))
    assert alone is not None
    assert (alone.at == 3).all()
