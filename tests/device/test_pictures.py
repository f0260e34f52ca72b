"""Reduced pictures and exact windows made on the device against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import slangpy as spy
from tensor_cases import numbers, upload
from tensor_checks import check_picture

from slanglab.errors import ArgumentError
from slanglab.tensors import passes
from slanglab.tensors.summary import elements, nonfinite, picture

pytestmark = pytest.mark.usefixtures("subnormals")


def test_one_bad_element_in_sixteen_million(device: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=16_000_000).astype(np.float32).reshape(4000, 4000)
    for flag, bad in ((1, np.nan), (2, np.inf), (4, -np.inf), (1, np.nan)):
        row, column = (int(n) for n in rng.integers(0, 4000, 2))
        before = x[row, column]
        x[row, column] = bad
        t = spy.Tensor.from_numpy(device, x)
        p = picture(t, 400, 512)
        assert p.block == (10, 8)
        marks = np.argwhere(p.flags)
        assert marks.tolist() == [[row // 10, column // 8]]
        assert p.flags[row // 10, column // 8] == flag
        assert nonfinite(t) == [(row, column)]
        x[row, column] = before


def test_axes_windows_and_zoom(device: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(3, 40, 50, 5)).astype(np.float32)
    t = spy.Tensor.from_numpy(device, x)
    for given in (t, x):
        check_picture(picture(given, 7, 5, index=(2, -1)), x[2, -1][..., None], (8, 1))
        check_picture(picture(given, 9, 9, index=(1, None, None, 3)), x[1, :, :, 3][..., None], (5, 6))
        check_picture(picture(given, 9, 9, index=(None, 4, None, 3)), x[:, 4, :, 3][..., None], (1, 6))
        check_picture(picture(given, 9, 9, index=(2, 4, 6)), x[2, 4, 6][None, :, None], (1, 1))
        check_picture(picture(given, 9, 9, index=(2, 4, 6, 1)), x[2, 4, 6, 1].reshape(1, 1, 1), (1, 1))
        p = picture(given, 4, 4, index=(1, None, None, 3), window=(5, 19, -3, 1000))
        assert p.window == (5, 19, 0, 50)
        assert not p.exact
        check_picture(p, x[1, 5:19, :, 3][..., None], (4, 13))
        close = picture(given, 16, 16, index=(1, None, None, 3), window=(5, 15, 7, 11))
        assert close.exact
        np.testing.assert_array_equal(close.mean, x[1, 5:15, 7:11, 3])
        np.testing.assert_array_equal(
            elements(given, index=(1, None, None, 3), window=(5, 15, 7, 11)).reshape(10, 4),
            x[1, 5:15, 7:11, 3],
        )
        with pytest.raises(ArgumentError, match="Index 3 is outside axis 0"):
            picture(given, index=(3,))
        with pytest.raises(ArgumentError, match="5 indices"):
            picture(given, index=(0,) * 5)


def test_few_texels_of_many_elements(device: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for kind in ("float", "double", "uint8_t", "half3"):
        dtype, components = {
            "float": (np.float32, ()),
            "double": (np.float64, ()),
            "uint8_t": (np.uint8, ()),
        }.get(kind, (np.float16, (3,)))
        x = numbers(rng, dtype, (301, 407, *components), "infinite")
        t = upload(device, kind, x, components)
        check_picture(picture(t, 2, 3), x.reshape(301, 407, -1), (151, 136), (seed, kind))


def test_means_keep_small_differences(device: Any, seed: int) -> None:
    x = np.random.default_rng(seed).normal(1000, 1e-2, (2000, 2000)).astype(np.float32)
    p = picture(spy.Tensor.from_numpy(device, x), 20, 20)
    wide = x.astype(np.float64).reshape(20, 100, 20, 100).mean(axis=(1, 3))
    # Half a unit in the last place of the result, and where threads share a texel as much again for each time they meet.
    assert np.abs(p.mean - wide).max() <= 3 * np.spacing(np.float32(1000))


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_few_large_elements_leave_the_others_their_digits(device: Any, seed: int, kind: Any) -> None:
    """At the corner of each texel, where a kernel would look for what its elements are like; over an axis too."""
    rng = np.random.default_rng(seed)
    for size in (64, 205):
        x = rng.normal(size=(5, size, size)).astype(kind)
        x[0, ::8, ::8] = 60000 if kind is np.float16 else 1e6
        x[:, 3::16, 5::16] = -60000
        t = spy.Tensor.from_numpy(device, x)
        side = -(-size // 8)
        for given in (t, x):
            check_picture(picture(given, side, side, index=(0,)), x[0][..., None], (8, 8), seed)
            check_picture(picture(given, 1, 1, index=(0,)), x[0][..., None], (size, size), seed)
            pooled = picture(given, side, side, pooled=(0,), axes=(1, 2))
            check_picture(pooled, np.moveaxis(x, 0, -1), (8, 8), seed)


def test_channels(device: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.random((20, 30, 3)).astype(np.float32)
    x[3, 4, 1] = np.nan
    for given in (upload(device, "float3", x, (3,)), upload(device, "float", x, ()), x):
        p = picture(given, 10, 10)
        assert p.block == (2, 3)
        check_picture(p, x, (2, 3))
        assert p.colors is not None
        assert p.colors.shape == (10, 10, 3)
        wide = x.astype(np.float64).reshape(10, 2, 10, 3, 3)
        np.testing.assert_allclose(p.colors, np.nanmean(wide, axis=(1, 3)), rtol=1e-6)
        np.testing.assert_array_equal(elements(given), x)
        assert nonfinite(given) == [(3, 4, 1)]
    assert picture(upload(device, "float3", x, (3,)), 64, 64).exact is False
    assert picture(upload(device, "float", x[..., 0], ()), 64, 64).colors is None


@pytest.mark.parametrize("pattern", ["normal", "far", "huge", "negative", "zeros", "bad", "tiny"])
def test_rows_that_are_read_four_at_a_time(
    device: Any, seed: int, pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    asked: list[bool] = []
    in_quads = passes._in_quads
    monkeypatch.setattr(passes, "_in_quads", lambda frame: asked.append(in_quads(frame)) or asked[-1])
    for n in range(12):
        across, down = 4 * int(rng.integers(1, 5)), int(rng.integers(1, 40))
        columns, rows = across * int(rng.integers(3, 30)) - 4 * int(rng.integers(0, 2)), down * 7
        x = rng.normal(size=(rows, columns)).astype(np.float32)
        if pattern == "far":
            x = (1000 + 1e-3 * x).astype(np.float32)
        elif pattern == "huge":
            x = (np.clip(x, -3, 3) * 1e38).astype(np.float32)
        elif pattern == "negative":
            x = -np.abs(x) - np.float32(0.5)
        elif pattern == "zeros":
            x = np.where(rng.random(x.shape) < 0.9, np.copysign(np.float32(0), x), -np.abs(x)).astype(
                np.float32
            )
        elif pattern == "bad":
            x.reshape(-1)[rng.choice(x.size, 3, replace=False)] = [np.nan, np.inf, -np.inf]
        elif pattern == "tiny":
            x *= np.float32(1e-30)
        t = spy.Tensor.from_numpy(device, x)
        # From a place that is no multiple of four on, some rows of it, and all.
        left = int(rng.choice([0, 4, 8, 1, 2, 3]))
        for window in (None, (down, rows, left, columns)):
            p = picture(t, 7, -(-columns // across), window=window)
            part = x if window is None else x[down:, left:]
            check_picture(p, part[..., None], p.block, (seed, n, pattern, window))
        if pattern == "bad":
            assert picture(t, 1, 1).flags.tolist() == [[7]], (seed, n)
    assert True in asked
    assert False in asked
