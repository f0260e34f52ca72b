"""The summary that one submit makes, against NumPy; one bad element among millions; and a hundred million elements."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
import pytest
import slangpy as spy
from tensor_cases import Case, case, numbers, upload
from tensor_checks import check_picture, check_statistics, exact, reference_counts, view_of

from slanglab.device import is_software
from slanglab.tensors import described, division, kernels, launch, measures, summarising
from slanglab.tensors.binning import Edges
from slanglab.tensors.summary import nonfinite, picture, statistics, summary
from slanglab.widgets.inspector import inspect

pytestmark = pytest.mark.usefixtures("subnormals")


def odd_case(device: Any, rng: np.random.Generator, n: int) -> Case:
    """A random tensor; of every five one has no axes, one element, no elements, or nine axes."""
    shape = {0: (), 5: (1,), 10: (3, 0, 2), 15: (2, 1, 3, 2, 1, 2, 3, 1, 2)}.get(n % 20)
    if shape is None:
        return case(device, rng)
    while True:
        c = case(device, rng, 50)
        if c.layout == "contiguous":
            break
    array = numbers(rng, c.array.dtype, (*shape, *c.components), "infinite" if n % 40 < 20 else "normal")
    if 0 in shape or not shape:
        whole = array.reshape(1, *array.shape) if not shape else np.zeros((1, *c.components), array.dtype)
        strides = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
        tensor = upload(device, c.dtype, whole, c.components).view(shape, strides, 0)
    else:
        tensor = upload(device, c.dtype, array, c.components)
    return Case(c.dtype, "odd", "odd", tensor, array, c.components)


def check_summary(found: Any, array: Any, bins: int, note: object) -> None:
    check_statistics(found.value, array, note)
    x = exact(array)
    low, high = (float(x.min()), float(x.max())) if x.size else (0.0, 1.0)
    assert len(found.histogram.edges) == bins + 1, note
    if low < high and math.isfinite(high - low):
        even = np.linspace(low, high, bins + 1)
        np.testing.assert_allclose(found.histogram.edges, even, rtol=1e-15, atol=1e-322)
    assert found.histogram.counts.tolist() == reference_counts(array, found.histogram.edges), note


def test_summaries_of_random_tensors(device: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for n in range(200):
        c = odd_case(device, rng, n)
        note = (seed, n, c)
        bins = int(rng.integers(1, 100))
        found = summary(c.tensor, bins=bins)
        check_summary(found, c.array, bins, note)
        if n % 5 == 0 and c.array.size:
            plane = view_of(c) if c.array.ndim > len(c.components) else c.array.reshape(1, 1, -1)
            p = picture(c.tensor, 4, 4)
            check_picture(p, plane, p.block, note)


def test_a_summary_that_is_begun_and_finished(
    device: Any, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summarising, "_SOON", -1)
    rng = np.random.default_rng(seed)

    def has_slopes(c: Case) -> bool:
        return c.layout == "contiguous" and c.array.dtype.kind == "f" and c.array.size > 0

    for n in range(60):
        c = odd_case(device, rng, n)
        while n % 20 == 1 and not has_slopes(c):
            c = case(device, rng)
        note = (seed, n, c)
        bins = int(rng.integers(1, 100))
        slopes = has_slopes(c)
        tensor = c.tensor.with_grads(zero=True) if slopes else c.tensor
        begun = summarising.begun(tensor, bins=bins)
        assert begun.histogram is None, note
        assert (begun.gradient is not None) == slopes, note
        found, whole = summarising.finished(begun, tensor, bins=bins), summary(tensor, bins=bins)
        check_summary(found, c.array, bins, note)
        for part in ("value", "gradient", "ratio", "shape", "dtype", "strides", "bytes", "notes"):
            assert getattr(found, part) == getattr(whole, part), (part, note)
        assert (found.histogram.edges == whole.histogram.edges).all(), note
        assert summarising.finished(found, None, bins=bins) is found


@pytest.mark.parametrize("pattern", ["finite", "rare", "zeros", "negative", "positive", "far"])
def test_blocks_that_are_finite_and_blocks_that_are_not(device: Any, seed: int, pattern: str) -> None:
    """Blocks of finite elements are read in another way than the others, and a tail in a third."""
    rng = np.random.default_rng(seed)
    for count in (1, 3, 4, 255, 256, 257, 100_003, 300_000):
        x = rng.normal(size=count).astype(np.float32)
        if pattern == "rare":
            for odd in (np.nan, -np.nan, np.inf, -np.inf):
                x[rng.integers(0, count, 1 + count // 5000)] = odd
        elif pattern == "zeros":
            x[rng.random(count) < 0.5] = -0.0
            x[rng.random(count) < 0.3] = 0.0
        elif pattern == "negative":
            x = -np.abs(x) - np.float32(1e-3)
        elif pattern == "positive":
            x = np.abs(x)
        elif pattern == "far":
            x = x * np.float32(1e-3) + np.float32(-1000)
        bins = int(rng.choice([1, 7, 64, 256, 1024]))
        for offset in (0, 1, 4):  # not each is a multiple of sixteen bytes
            t = spy.Tensor.from_numpy(device, np.concatenate([np.full(offset, np.inf, np.float32), x]))
            check_summary(summary(t[offset:], bins=bins), x, bins, (seed, pattern, count, offset, bins))


@pytest.fixture
def gpu_ways(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups side by side, counters that are shared, bins by rounding: software is given what a GPU is."""
    for room in (division, kernels, launch, measures):
        monkeypatch.setattr(room, "is_software", lambda device: False)


@pytest.mark.usefixtures("gpu_ways")
@pytest.mark.parametrize("pattern", ["plain", "odd", "edges", "jumps"])
def test_what_a_gpu_is_given_to_do(device: Any, seed: int, pattern: str) -> None:
    rng = np.random.default_rng(seed)
    for count in (1, 5000, 2_000_003):
        x = rng.normal(size=count).astype(np.float32)
        if pattern == "odd":
            x[rng.random(count) < 0.01] = np.nan
            x[rng.random(count) < 0.01] = -np.inf
        elif pattern == "edges":  # each element is an edge, more than are put off
            x = rng.integers(0, 65, count).astype(np.float32)
        elif pattern == "jumps":  # the first block of a stretch says nothing of the others
            x[:: 1 << 16] = 1e6
        bins = int(rng.choice([1, 64, 1000]))
        check_summary(summary(spy.Tensor.from_numpy(device, x), bins=bins), x, bins, (seed, pattern, count))
    if pattern == "edges":
        check_summary(summary(spy.Tensor.from_numpy(device, x), bins=64), x, 64, seed)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_one_large_element_wherever_it_lies(device: Any, seed: int, kind: Any) -> None:
    """Measured from the outlier itself, the squares of all others cancel but for a few digits."""
    rng = np.random.default_rng(seed)
    for count in (9, 300):
        x = rng.normal(size=count).astype(kind)
        for at in range(count):
            y = x.copy()
            y[at] = 60000
            check_statistics(statistics(spy.Tensor.from_numpy(device, y)), y, (seed, kind, count, at))


@pytest.mark.parametrize("ways", ["own_ways", "gpu_ways"])
def test_an_outlier_as_the_first_of_each_run(
    device: Any, seed: int, ways: str, request: pytest.FixtureRequest
) -> None:
    """What deviates is measured from about a block's mean, which an outlier moves; the results are not to lose by it."""
    if ways == "gpu_ways":
        request.getfixturevalue(ways)
    ordered = 1 + np.arange(2**20, dtype=np.float32) % 7  # each run alike: their errors add up
    for values in (ordered, np.random.default_rng(seed).permutation(ordered)):
        for run in (2**8, 2**12, 2**16):
            x = values.copy()
            x[::run] = 1e7
            found = statistics(spy.Tensor.from_numpy(device, x))
            wide = x.astype(np.float64)
            assert abs(found.mean - wide.mean()) < 5e-8 * wide.std(), (seed, run)
            assert abs(found.std / wide.std() - 1) < 1e-6, (seed, run)


def test_the_device_makes_the_edges_of_the_host(
    device: Any, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that one submit is enough."""
    rng = np.random.default_rng(seed)
    monkeypatch.setattr(measures, "histogram", lambda *given: pytest.fail("counted again"))
    for _ in range(40):
        x = rng.normal(rng.normal(), 10.0 ** rng.integers(-5, 5), 10_000).astype(np.float32)
        x = x[: rng.choice([1, 2, 10_000])]
        bins = int(rng.integers(1, 1025))
        check_summary(summary(spy.Tensor.from_numpy(device, x), bins=bins), x, bins, seed)


def test_a_device_that_rounds_in_its_own_way(device: Any, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the edges of the device are not those of the host, the host's count."""
    x = np.random.default_rng(seed).normal(size=50_000).astype(np.float32)
    t = spy.Tensor.from_numpy(device, x)
    wanted = summary(t, bins=30).histogram
    other = Edges(float(x.min()) - 0.25, float(x.max()) + 0.125, 30, "linear")
    with monkeypatch.context() as patch:
        patch.setattr(described, "lines", lambda known, bins: other)
        found = summary(t, bins=30).histogram
    assert found is not None
    assert found.counts.tolist() == reference_counts(x, other.values)
    assert found.counts.tolist() != wanted.counts.tolist()
    monkeypatch.setattr(kernels, "has_wide", lambda device: False)
    assert summary(t, bins=30).histogram.counts.tolist() == wanted.counts.tolist()


def test_one_nan_in_sixteen_million_is_found_and_shown(device: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=16_000_000).astype(np.float32)
    t = spy.Tensor.from_numpy(device, x.reshape(4000, 4000))
    one = spy.Tensor.empty(device, (1,), "float")
    places = [int(n) for n in rng.integers(0, x.size, 20)]
    for place in places:
        where = divmod(place, 4000)
        assert nonfinite(t) == []
        one.copy_from_numpy(np.array([np.nan], np.float32))
        put(device, t, place, one)
        assert nonfinite(t) == [where], (seed, place)
        assert statistics(t).nan == 1, (seed, place)
        shown = inspect(t, follow=False)
        assert shown.summary.value.nan == 1, (seed, place)
        heads, said = (line.split() for line in shown.text.splitlines()[-2:])
        assert said[1 + heads.index("NaN")] == "1", shown.text
        p = shown._pictures[0]
        marked = (where[0] // p.block[0], where[1] // p.block[1])
        assert np.argwhere(p.flags).tolist() == [list(marked)], (seed, place)
        shown.close()
        one.copy_from_numpy(x[place : place + 1])
        put(device, t, place, one)


def put(device: Any, tensor: Any, place: int, one: Any) -> None:
    encoder = device.create_command_encoder()
    encoder.copy_buffer(tensor.storage, 4 * place, one.storage, 0, 4)
    device.submit_command_buffer(encoder.finish())


def test_hundred_million_floats(device: Any, seed: int) -> None:
    if is_software(device) and os.environ.get("SLANGLAB_LARGE_TESTS") != "1":
        pytest.skip("400 MB: needs a GPU, or SLANGLAB_LARGE_TESTS=1")
    rng = np.random.default_rng(seed)
    x = np.tile(rng.normal(3, 2, 1_000_000).astype(np.float32), 100)
    x += np.repeat(rng.normal(size=1000).astype(np.float32), 100_000)
    bad = sorted(int(n) for n in rng.choice(x.size, 3, replace=False))
    x[bad] = np.nan, np.inf, -np.inf
    t = spy.Tensor.from_numpy(device, x)
    found = summary(t)
    known = found.value
    assert (known.count, known.finite) == (10**8, 10**8 - 3)
    assert (known.nan, known.posinf, known.neginf) == (1, 1, 1)
    x[bad] = x[0]
    wide = [part.astype(np.float64) for part in x.reshape(100, -1)]
    mean = (sum(part.sum() for part in wide) - 3 * float(x[0])) / known.finite
    square = sum(((part - mean) ** 2).sum() for part in wide) - 3 * (float(x[0]) - mean) ** 2
    std = math.sqrt(square / known.finite)
    counts = sum(np.histogram(part, found.histogram.edges)[0] for part in wide)
    counts -= 3 * np.histogram(np.float64(x[:1]), found.histogram.edges)[0]
    extremes = np.delete(x, bad)
    assert (known.minimum, known.maximum) == (extremes.min(), extremes.max())
    assert known.zeros == np.count_nonzero(extremes == 0)
    assert abs(known.mean - mean) < 4 * 2.0**-23 * std
    assert abs(known.std - std) < 16 * 2.0**-23 * std
    assert found.histogram.counts.tolist() == counts.tolist()
    assert nonfinite(t) == [(place,) for place in bad]
    p = picture(t, 1, 1000)
    flagged = [place // 100_000 for place in bad]
    assert sorted(set(flagged)) == np.flatnonzero(p.flags[0]).tolist()
    means = np.array([part.mean() for part in x.reshape(1000, -1).astype(np.float64)])
    clear = p.flags[0] == 0
    # As far as float32 sums of numbers of that size reach: a mean may lie near zero.
    np.testing.assert_allclose(p.mean[0][clear], means[clear], rtol=1e-6, atol=4 * 2.0**-23 * std)
