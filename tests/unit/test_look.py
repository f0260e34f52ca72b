"""The rules for numbers and colours, against the design's own examples and against float32 itself."""

import json
import random
import re
from importlib import resources

import numpy as np
import pytest

from slanglab import look

THIN = "\u202f"
MINUS = "\u2212"


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (1.234e-7, "1.234e-7"),
        (0.357, "0.3570"),
        (1.0, "1.000"),
        (-1.42, "-1.420"),
        (1234.4, "1234"),
        (9999.4, "9999"),
        (9999.6, "1.000e4"),
        (1e4, "1.000e4"),
        (-12345.0, "-1.234e4"),
        (0.001, "0.001000"),
        (0.00099999, "1.000e-3"),
        (0.0, "0"),
        (-0.0, "0"),
        (float("nan"), "NaN"),
        (float("inf"), "+Inf"),
        (float("-inf"), "-Inf"),
        (np.float32(0.1), "0.1000"),
        (-7, "-7"),
        (np.int64(123456), "123456"),
        (1e-45, "1.000e-45"),
    ],
)
def test_number(x, text):
    assert look.number(x, ascii=True) == text
    assert look.number(x) == text.replace("-", MINUS)


def test_number_keeps_four_figures_of_any_float():
    seed = random.randrange(2**32)
    print("seed", seed)
    rng = random.Random(seed)
    for _ in range(2000):
        x = rng.choice((-1, 1)) * rng.uniform(1, 10) * 10.0 ** rng.randint(-40, 40)
        text = look.number(x, ascii=True)
        assert float(text) == pytest.approx(x, rel=5.001e-4)
        assert len(re.sub(r"e.*|\D", "", text).lstrip("0")) == 4


def test_exact_reads_back_as_the_same_float32_and_is_shortest():
    seed = random.randrange(2**32)
    print("seed", seed)
    bits = np.random.default_rng(seed).integers(0, 2**32, 3000, dtype=np.uint32)
    for value in bits.view(np.float32):
        text = look.exact(value, ascii=True)
        if np.isnan(value):
            assert text == "NaN"
            continue
        assert np.float32(text.replace("Inf", "inf")) == value
        if np.isfinite(value) and value != 0:
            digits = re.sub(r"e.*|\D", "", text).strip("0")
            shorter = len(digits) - 1
            assert shorter < 1 or np.float32(f"{value:.{shorter - 1}e}") != value


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.1, "0.1"), (1e6, "1e6"), (-2.5e-7, "-2.5e-7"), (0.0, "0"), (16777216.0, "1.6777216e7"), (3, "3")],
)
def test_exact(value, text):
    assert look.exact(value, ascii=True) == text


def test_shape_is_python():
    for shape in ((8, 96, 128), (400,), ()):
        assert look.shape(shape) == str(shape)


def test_count_and_plural():
    assert look.count(12288) == f"12{THIN}288"
    assert look.count(1234567) == f"1{THIN}234{THIN}567"
    assert look.count(999) == "999"
    assert look.count(12288, ascii=True) == "12288"
    assert look.plural(1, "warning") == "1 warning"
    assert look.plural(2, "warning") == "2 warnings"


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (393216, "393 kB"),
        (999_499, "999 kB"),
        (999_500, "1.00 MB"),
        (4_290_000_000, "4.29 GB"),
    ],
)
def test_bytes(n, text):
    assert look.bytes(n) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (38e-6, "38 µs"),
        (212e-6, "212 µs"),
        (4.2e-3, "4.2 ms"),
        (42e-3, "42 ms"),
        (1.3, "1.3 s"),
        (0.9996e-3, "1.0 ms"),
        (9.96e-3, "10 ms"),
        (0.99951, "1.0 s"),
        (2e-7, "<1 µs"),
        (0, "0 s"),
        (123.4, "123 s"),
    ],
)
def test_time(seconds, text):
    assert look.time(seconds) == text
    assert look.time(seconds, ascii=True) == text.replace("µ", "u")


def _stops(name):
    text = resources.files("slanglab.look").joinpath("tokens.json").read_text(encoding="utf-8")
    return [[int(s[i : i + 2], 16) for i in (1, 3, 5)] for s in json.loads(text)["maps"][name]]


@pytest.mark.parametrize(
    ("name", "dark", "stops"),
    [
        ("tide", False, "tide"),
        ("tide", True, "tide"),
        ("poles", False, "poles"),
        ("poles", True, "poles-dark"),
    ],
)
def test_colormap_goes_through_its_stops(name, dark, stops):
    table = look.colormap(name, dark)
    expected = np.array(_stops(stops), float)
    assert expected.shape == (17, 3)
    assert table.shape == (256, 3)
    assert table.dtype == np.uint8
    # 255 steps over 16 intervals: entry i lies at stop 16 i / 255, in float64.
    at = np.arange(256) * 16 / 255
    k = np.minimum(at.astype(int), 15)
    exact = expected[k] + (expected[k + 1] - expected[k]) * (at - k)[:, None]
    assert np.abs(table - exact).max() <= 0.5
    assert (table[0] == expected[0]).all()
    assert (table[255] == expected[16]).all()


def test_colormap_refuses_other_names():
    with pytest.raises(ValueError, match="'tide', 'poles' and 'greys'"):
        look.colormap("viridis")


def _luminance(colour):
    rgb = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in rgb)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def _contrast(a, b):
    x, y = sorted((_luminance(a) + 0.05, _luminance(b) + 0.05), reverse=True)
    return x / y


TEXT = ["ink2", "value", "neg", "pos", "ok", "warn", "err", "nan", "inf"]


@pytest.mark.parametrize("name", TEXT)
def test_text_colours_can_be_read(name):
    light, dark = look.tokens()["colors"][name]
    assert _contrast(light, "#ffffff") >= 4.5
    assert min(_contrast(dark, page) for page in ("#111111", "#212121")) >= 4.5


@pytest.mark.parametrize("name", sorted(look.tokens()["code"]))
def test_code_colours_can_be_read_on_a_message_too(name):
    light, dark = look.tokens()["code"][name]
    fills = [look.tokens()["colors"][f][0] for f in ("err-w", "warn-w")]
    assert min(_contrast(light, page) for page in ("#ffffff", *fills)) >= 4.5
    fills = [look.tokens()["colors"][f][1] for f in ("err-w", "warn-w")]
    assert min(_contrast(dark, page) for page in ("#111111", *fills)) >= 4.5


def test_style_is_filled_in_and_small():
    css = look.style()
    assert "@tokens" not in css
    assert "/*" not in css
    assert "\n" not in css
    assert css.count("{") == css.count("}")
    for key, (light, dark) in look.tokens()["colors"].items():
        assert f"--{key}:light-dark({light},{dark})" in css
    used = set(re.findall(r"var\(--([\w-]+)\)", css)) - {"tone"}
    defined = set(re.findall(r"--([\w-]+):", css))
    assert used <= defined
    assert len(css) < 10_000  # it is saved with every report of a notebook


@pytest.mark.parametrize("sheet", ["style.css", "table.css", "flow.css"])
def test_every_output_follows_the_theme_that_a_host_says(sheet):
    said = look.style(sheet)
    root = re.match(r"(\.[\w.-]+)\{", said)[1]
    for theme in ("light", "dark"):
        host = f'body[data-jp-theme-light="{"true" if theme == "light" else "false"}"] {root}'
        rule = next(r for r in said.split("}") if host in r)
        assert rule.endswith(f"{{color-scheme:{theme}")
    assert f"body[data-jp-theme-light] {root}," in said  # no page of its own there
    assert "@host" not in said
    assert "@root" not in said
