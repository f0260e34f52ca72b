"""The PNG and text twins, read back pixel by pixel."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from slanglab import look
from slanglab.tensors import summary as summaries
from slanglab.tensors.sources import Arrays as Pair
from slanglab.tensors.wording import summary_text as tensor_text
from slanglab.widgets.raster import png, thinned
from slanglab.widgets.static import gradient_limit, tensor_png


def decode(data: bytes) -> NDArray[np.uint8]:
    """Read a PNG of 8 bits without filters, as the specification says."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, chunks = 8, []
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        (check,) = struct.unpack(">I", data[at + 8 + length : at + 12 + length])
        assert check == zlib.crc32(kind + body)
        chunks.append((kind, body))
        at += 12 + length
    assert chunks[0][0] == b"IHDR"
    assert chunks[-1] == (b"IEND", b"")
    width, height, depth, color, *rest = struct.unpack(">IIBBBBB", chunks[0][1])
    assert (depth, rest) == (8, [0, 0, 0])
    rows = np.frombuffer(zlib.decompress(b"".join(b for k, b in chunks if k == b"IDAT")), np.uint8)
    samples = {2: 3, 3: 1, 6: 4}[color]
    rows = rows.reshape(height, 1 + width * samples).copy()
    # Filter 0 is none, filter 2 the difference to the row above.
    assert set(rows[:, 0].tolist()) <= {0, 2}
    for y in np.flatnonzero(rows[:, 0]):
        rows[y, 1:] += rows[y - 1, 1:]
    pixels = rows[:, 1:].reshape(height, width, samples)
    if color != 3:
        return pixels
    palette = np.frombuffer(dict(chunks)[b"PLTE"], np.uint8).reshape(-1, 3)
    return palette[pixels[..., 0]]


def token(name: str) -> list[int]:
    text = look.tokens()["colors"][name][0]
    return [int(text[i : i + 2], 16) for i in (1, 3, 5)]


def share(image: NDArray[np.uint8], color: list[int]) -> float:
    return float((image == np.array(color)).all(axis=-1).mean())


def picture(pair: Pair, gradient: bool = False) -> Any:
    line = pair.value.ndim == 1
    return summaries.picture(pair, 1 if line else 256, 1024 if line else 256, gradient=gradient)


def drawn(value: NDArray[Any], gradient: NDArray[Any] | None = None) -> NDArray[np.uint8]:
    pair = Pair(value, gradient)
    pictures = picture(pair), picture(pair, True) if gradient is not None else None
    return decode(tensor_png(summaries.summary(pair), *pictures))


def nearest(colors: NDArray[np.uint8], map_name: str) -> NDArray[np.float64]:
    """Find each colour on a map: positions 0 to 1."""
    table = look.colormap(map_name).astype(float)
    distance = ((colors[:, None, :].astype(float) - table) ** 2).sum(axis=-1)
    assert distance.min(axis=1).max() < 40, "a colour is not on the map"
    return distance.argmin(axis=1) / 255


def test_png_reads_back(rng: np.random.Generator) -> None:
    image = rng.integers(0, 256, (7, 11, 3), dtype=np.uint8)
    assert (decode(png(image)) == image).all()
    clear = rng.integers(0, 256, (6, 4, 4), dtype=np.uint8)
    assert (decode(png(clear)) == clear).all()
    palette = rng.integers(0, 256, (200, 3), dtype=np.uint8)
    index = rng.integers(0, 200, (5, 9), dtype=np.uint8)
    assert (decode(png(index, palette)) == palette[index]).all()
    for pixels, colors in ((image, None), (clear, None), (index, palette)):
        tall = np.repeat(pixels, rng.integers(1, 5, len(pixels)), axis=0)
        assert (decode(png(tall, colors)) == (tall if colors is None else colors[tall])).all()
    # A row like the one above takes a few bytes, not 900.
    noise = rng.integers(0, 200, (1, 900), dtype=np.uint8)
    assert len(png(np.repeat(noise, 300, axis=0), palette)) < len(png(noise, palette)) + 4 * 300


def test_values_lie_on_the_map_where_they_should(rng: np.random.Generator) -> None:
    rows, columns = rng.integers(2, 12, 2)
    value = rng.normal(size=(rows, columns)).astype(np.float32)
    image = drawn(value)
    # The bar and its space below the picture: 13 page pixels.
    area = image[: image.shape[0] - 26]
    y = ((np.arange(rows) + 0.5) / rows * area.shape[0]).astype(int)
    x = ((np.arange(columns) + 0.5) / columns * area.shape[1]).astype(int)
    found = nearest(area[y[:, None], x].reshape(-1, 3), "tide").reshape(rows, columns)
    wide = value.astype(np.float64)
    expected = (wide - wide.min()) / (wide.max() - wide.min())
    assert np.abs(found - expected).max() < 0.012


def test_a_gradient_is_centred_at_zero(rng: np.random.Generator) -> None:
    gradient = rng.normal(size=(6, 6)).astype(np.float32)
    gradient[0, 0], gradient[2, 3] = 0.0, 0.0
    image = drawn(np.ones((6, 6), np.float32), gradient)
    half = (image.shape[1] - 40) // 2
    area = image[: image.shape[0] - 26, half + 40 :]
    at = ((np.arange(6) + 0.5) / 6 * area.shape[0]).astype(int)
    found = nearest(area[at[:, None], at].reshape(-1, 3), "poles").reshape(6, 6)
    assert abs(found[0, 0] - 0.5) < 0.006
    assert abs(found[2, 3] - 0.5) < 0.006
    pair = Pair(np.ones((6, 6), np.float32), gradient)
    limit = gradient_limit(summaries.summary(pair, bins=64))
    t = np.arcsinh(gradient / (0.01 * limit)) / np.arcsinh(100)
    assert np.abs(found - (np.clip(t, -1, 1) + 1) / 2).max() < 0.012
    assert (found[gradient > 0] > 0.5).all()
    assert (found[gradient < 0] < 0.5).all()


@pytest.mark.parametrize(("bad", "color"), [(np.nan, "nan"), (np.inf, "inf"), (-np.inf, "inf")])
@pytest.mark.parametrize("shape", [(5, 5), (96, 128), (1500, 1100)])
def test_one_bad_element_has_a_mark_where_it_is(
    rng: np.random.Generator, bad: float, color: str, shape: tuple[int, int]
) -> None:
    value = rng.normal(size=shape).astype(np.float32)
    row, column = (int(n) for n in rng.integers(0, shape))
    value[row, column] = bad
    image = drawn(value)
    mark = (image == np.array(token(color))).all(axis=-1)
    y, x = np.nonzero(mark)
    assert len(y) > 20
    area = image.shape[0] - 26, image.shape[1]
    block = -(-max(shape) // 128)
    centre = np.array([(row + 0.5) / shape[0] * area[0], (column + 0.5) / shape[1] * area[1]])
    # A mark may be off by half a block and, at the edge, by half its own size.
    slack = 20 + block * area[0] / shape[0]
    assert abs((y.min() + y.max()) / 2 - centre[0]) < slack
    assert abs((x.min() + x.max()) / 2 - centre[1]) < slack


def test_the_infinities_point_up_and_down() -> None:
    value = np.zeros((9, 9), np.float32)
    widest = []
    for bad in (np.inf, -np.inf):
        value[4, 4] = bad
        mark = (drawn(value) == np.array(token("inf"))).all(axis=-1)
        y, x = np.nonzero(mark)
        low = y > y.mean()
        widest.append(np.ptp(x[low]) > np.ptp(x[~low]))
    assert widest == [True, False]


def test_a_picture_full_of_nan_is_drawn() -> None:
    image = drawn(np.full((300, 300), np.nan, np.float32))
    assert share(image, token("nan")) > 0.1


def test_channels_between_zero_and_one_are_an_image() -> None:
    value = np.zeros((4, 4, 3), np.float32)
    value[..., 0], value[2:, :, 1] = 1.0, 0.2158605
    image = drawn(value)
    assert image[2, 2].tolist() == [255, 0, 0]
    # 0.2158605 of linear light is 128 of 255 in sRGB.
    assert image[-2, 2].tolist() == [255, 128, 0]


def test_a_curve_is_where_its_values_are(rng: np.random.Generator) -> None:
    value = np.cumsum(rng.normal(size=60)).astype(np.float32)
    image = drawn(value)
    teal = np.array(token("value"), float)
    # Columns of the elements: 8 page pixels of margin at both sides.
    x = 16 + np.arange(60) / 59 * (image.shape[1] - 32)
    span = float(np.ptp(value))
    for k in range(60):
        column = image[:, int(min(x[k], image.shape[1] - 1))].astype(float)
        # Weight of the curve's colour: 0 on paper, 1 on the curve.
        weight = np.clip((255 - column).sum(axis=-1) / (255 - teal).sum(), 0, 1)
        rows = np.flatnonzero(weight > 0.5)
        expected = (1 - ((value[k] - value.min()) / span + 0.06) / 1.12) * image.shape[0]
        assert rows.min() - 3 <= expected <= rows.max() + 3


def test_the_area_of_a_gradient_is_split_at_zero() -> None:
    n = 200
    gradient = np.linspace(-1, 1, n).astype(np.float32)
    image = drawn(np.zeros(n, np.float32), gradient)
    top = 2 * (112 + 14)
    left, right = image[top:, : image.shape[1] // 2 - 20], image[top:, image.shape[1] // 2 + 20 :]
    for part, own, other in ((left, "neg", "pos"), (right, "pos", "neg")):
        tint = [round(255 + 0.2 * (c - 255)) for c in token(own)]
        assert share(part, tint) > 0.1
        assert share(part, token(own)) > 0
        assert share(part, token(other)) == 0


def test_long_and_awkward_curves_are_drawn() -> None:
    for value in (
        np.array([3.0]),
        np.zeros(1),
        np.full(5, np.nan),
        np.array([1.0, np.nan, 2.0, np.inf, 3.0]),
        np.array([-3e38, 3e38]),
        np.sin(np.arange(100_000) / 900),
    ):
        image = drawn(value.astype(np.float32), value.astype(np.float32))
        assert image.shape == (420, 1720, 3)


def test_extreme_shapes_are_drawn() -> None:
    for shape in ((1, 1), (1, 5000), (5000, 1), (3, 1000), (2, 3, 4, 5)):
        image = drawn(np.zeros(shape, np.float32), np.ones(shape, np.float32))
        assert image.shape[1] <= 1720
        assert image.shape[0] <= 900


def test_files_stay_small(rng: np.random.Generator) -> None:
    noise = rng.normal(size=(2048, 2048)).astype(np.float32)
    pair = Pair(noise, noise)
    assert len(tensor_png(summaries.summary(pair), picture(pair), picture(pair, True))) < 100_000


def test_the_limit_is_the_quantile_of_the_magnitude(rng: np.random.Generator) -> None:
    gradient = rng.normal(size=100_000) * 10.0 ** rng.uniform(-3, 3)
    gradient[:20] *= 50
    pair = Pair(gradient, gradient.astype(np.float32))
    limit = gradient_limit(summaries.summary(pair, bins=96))
    exact = np.quantile(np.abs(gradient), 0.999)
    # Bins are even in log(1 + |x| / threshold): 48 of them on each side, up to log(101).
    threshold = 0.01 * np.abs(gradient).max()
    assert limit <= ((exact + threshold) * 101 ** (1 / 48) - threshold) * (1 + 1e-6)


def test_the_limit_of_nothing_is_zero() -> None:
    assert gradient_limit(summaries.summary(np.ones(3))) == 0.0
    assert gradient_limit(summaries.summary(Pair(np.ones(3), np.zeros(3, np.float32)))) == 0.0
    assert gradient_limit(summaries.summary(Pair(np.ones(3), np.full(3, np.nan, np.float32)))) == 0.0


def test_marks_are_thinned_to_one_a_square() -> None:
    x, y = (a.ravel().astype(float) for a in np.meshgrid(np.arange(100), np.arange(50)))
    kept = thinned(x, y)
    squares = set(zip((y[kept] // 18).tolist(), (x[kept] // 18).tolist(), strict=True))
    assert len(squares) == len(kept) == 3 * 6


def test_text_has_the_numbers() -> None:
    pair = Pair(np.array([1, 2, 3, 4], np.float32), np.array([12, 16, 20, 24], np.float32))
    text = tensor_text(summaries.summary(pair), "x", pair.value, pair.gradient)
    lines = text.splitlines()
    assert lines[0].startswith("x: float32 (4,), 16 B + gradient")
    assert lines[1].split() == ["min", "max", "mean", "std", "zero", "NaN", "+Inf", "-Inf"]
    assert lines[2].split() == ["value", "1.000", "4.000", "2.500", "1.118", "0", "0", "0", "0"]
    assert lines[3].split() == ["gradient", "12.00", "24.00", "18.00", "4.472", "0", "0", "0", "0"]
    assert lines[4:] == ["value: [1., 2., 3., 4.]", "gradient: [12., 16., 20., 24.]"]
    # What is copied from it is ASCII.
    assert text.isascii()


def test_text_of_odd_tensors() -> None:
    assert tensor_text(summaries.summary(np.zeros((0, 3), np.float32))).endswith(
        "Empty: no elements to show."
    )
    text = tensor_text(summaries.summary(np.full(3, np.nan)))
    assert text.splitlines()[2].split() == ["value", "-", "-", "-", "-", "0", "3", "0", "0"]
    structs = np.zeros(3, [("a", "f4"), ("b", "i4", 2)])
    rows = [line.split()[:2] for line in tensor_text(summaries.summary(structs)).splitlines()[2:]]
    assert rows == [["a", "float32"], ["b", "int32"]]
