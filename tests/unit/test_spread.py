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


@pytest.mark.parametrize("magnitude", [False, True])
@pytest.mark.parametrize("size", [np.finfo(np.float64).max, 1e-308])
def test_numbers_as_large_and_as_small_as_there_are(
    size: float, magnitude: bool, rng: np.random.Generator
) -> None:
    """Their differences, and slopes of shares over them, are not what a double holds."""
    array = rng.permutation(np.concatenate([np.linspace(-size / 2, size / 2, 4000) * 2, [size, -size]]))
    found = spread(array.reshape(2, -1), magnitude=magnitude)
    assert found is not None
    known = np.sort(np.abs(array) if magnitude else array)
    # Evenly spread, so that the share that is not above a number is as far as it is from one end to the other.
    wanted = SHARES if magnitude else 2 * SHARES - 1
    np.testing.assert_allclose(found.numbers(SHARES) / size, wanted, atol=5e-3)
    np.testing.assert_allclose(found.shares(known), np.arange(len(known)) / (len(known) - 1), atol=3e-3)
    assert found.numbers([0, 1]).tolist() == [0.0 if magnitude else -size, size]
    assert found.shares([0.0, np.inf]).tolist() == [found.shares(0.0), 1.0]
    assert np.isnan(found.shares(np.nan))


def test_what_cannot_be_spread() -> None:
    assert spread(np.full(5, np.nan)) is None
    assert spread(np.zeros(5), magnitude=True) is None
    assert spread(np.zeros(0)) is None
    alone = spread(np.full(5, 3.0))
    assert alone is not None
    assert (alone.at == 3).all()
