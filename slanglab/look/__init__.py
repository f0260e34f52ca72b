"""The visual language in Python: tokens, colour maps, and how numbers and counts are written.

The tokens themselves are data (`tokens.json`), which the browser code reads too. Text that a person may copy uses
`ascii=True`: a plain minus, no thin spaces, `us` for microseconds.
"""

from __future__ import annotations

import json
import math
import re
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "MINUS",
    "bytes",
    "colormap",
    "count",
    "exact",
    "glyph",
    "number",
    "plural",
    "shape",
    "style",
    "time",
    "tokens",
]

MINUS = "\N{MINUS SIGN}"
_THIN = "\N{NARROW NO-BREAK SPACE}"

_BYTE_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


@cache
def tokens() -> dict[str, Any]:
    """Return the tokens as `tokens.json` has them: `host`, `colors`, `code`, `maps`, `icons`, `glyphs`."""
    text = resources.files(__package__).joinpath("tokens.json").read_text(encoding="utf-8")
    data: dict[str, Any] = json.loads(text)
    return data


@cache
def style(name: str = "style.css") -> str:
    """Return a style sheet of this folder, with the tokens filled in and comments and line ends taken out.

    In the sheet `@tokens;` stands for the declarations of all tokens, and `@host SELECTOR;` for what `host.css` says of an output's
    element. Each colour is a `light-dark()` pair, so `color-scheme` of the root alone decides between the themes.
    """
    text, host = (
        resources.files(__package__).joinpath(sheet).read_text(encoding="utf-8")
        for sheet in (name, "host.css")
    )
    text = re.sub(r"@host (\S+);", lambda found: host.replace("@root", found[1]), text)
    data = tokens()
    pairs = [f"--{key}:{value}" for key, value in data["host"].items()]
    pairs += [f"--{key}:light-dark({light},{dark})" for key, (light, dark) in data["colors"].items()]
    # Not the host's code colours: some of JupyterLab's are too dark on its own dark page.
    pairs += [f"--c-{key}:light-dark({light},{dark})" for key, (light, dark) in data["code"].items()]
    return _squeeze(text).replace("@tokens;", ";".join(pairs) + ";")


def _squeeze(css: str) -> str:
    """Drop comments and indentation: the sheet is saved with every output of a notebook."""
    while (start := css.find("/*")) >= 0:
        end = css.index("*/", start)
        css = css[:start] + css[end + 2 :]
    return "".join(line.strip() for line in css.splitlines())


def glyph(name: str) -> str:
    """Return the character that stands for a state in plain text ("check", "cross", "warn", "stale", "unsure")."""
    return str(tokens()["glyphs"][name])


# ----- colour maps -----


def colormap(name: str, dark: bool = False) -> NDArray[np.uint8]:
    """Return a colour map as sRGB, interpolated linearly between its stops.

    Parameters
    ----------
    name : {"tide", "poles", "greys"}
        "tide" for values, dark is low; "poles" for gradients, the middle is zero and has the colour of the page; "greys" for values under
        the colours of their gradient.
    dark : bool
        For a dark page; "tide" is the same on both.

    Returns
    -------
    ndarray of uint8, shape (256, 3)

    Raises
    ------
    ValueError
        For another name.
    """
    if name not in ("tide", "poles", "greys"):
        raise ValueError(f"no colour map is called {name!r}: there are 'tide', 'poles' and 'greys'")
    stops = tokens()["maps"][f"{name}-dark" if name != "tide" and dark else name]
    rgb = np.array([[int(stop[i : i + 2], 16) for i in (1, 3, 5)] for stop in stops], dtype=np.float64)
    at = np.linspace(0.0, len(stops) - 1, 256)
    columns = [np.interp(at, np.arange(len(stops)), rgb[:, k]) for k in range(3)]
    # Half up, as Math.round does, so that the browser's table is the same to the last bit.
    return np.floor(np.stack(columns, axis=1) + 0.5).astype(np.uint8)


# ----- numbers and words -----


def _sign(text: str, ascii: bool) -> str:
    return text if ascii else text.replace("-", MINUS)


def _not_finite(x: float, ascii: bool) -> str | None:
    if math.isnan(x):
        return "NaN"
    if math.isinf(x):
        return "+Inf" if x > 0 else _sign("-Inf", ascii)
    return None


def _exponent(text: str) -> str:
    """Turn Python's `1.234e-07` into `1.234e-7`."""
    mantissa, _, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}"


def number(x: float, *, ascii: bool = False) -> str:
    """Write a number as tables do: 4 figures with trailing zeros, an exponent from 1e4 and under 1e-3.

    An integer is written in full: its figures are not a measurement.

    Parameters
    ----------
    x : float or int
        NumPy scalars too.
    ascii : bool
        Write the minus as `-`, for text that is copied.
    """
    if isinstance(x, int | np.integer):
        return _sign(str(int(x)), ascii)
    x = float(x)
    if (text := _not_finite(x, ascii)) is not None:
        return text
    if x == 0:
        return "0"
    plain = f"{x:#.4g}".rstrip(".") if 1e-3 <= abs(x) < 1e4 else "e"
    # Rounding to 4 figures can carry into the next power of ten, where the exponent form begins.
    return _sign(_exponent(f"{x:.3e}") if "e" in plain else plain, ascii)


def exact(x: float, *, ascii: bool = False) -> str:
    """Write the shortest text that reads back as the same float32 (or as the same integer)."""
    if isinstance(x, int | np.integer):
        return _sign(str(int(x)), ascii)
    if (text := _not_finite(float(x), ascii)) is not None:
        return text
    value = np.float32(x)
    if (text := _not_finite(float(value), ascii)) is not None:
        return text
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e6:
        return _sign(np.format_float_positional(value, unique=True, trim="-"), ascii)
    return _sign(_exponent(np.format_float_scientific(value, unique=True, trim="-")), ascii)


def shape(extents: tuple[int, ...]) -> str:
    """Write a shape as Python does: `(8, 96, 128)`, `(400,)`, `()`."""
    inner = ", ".join(str(int(n)) for n in extents)
    return f"({inner},)" if len(extents) == 1 else f"({inner})"


def count(n: int, *, ascii: bool = False) -> str:
    """Write a count, its thousands set apart by thin spaces."""
    return str(int(n)) if ascii else _sign(f"{int(n):,}".replace(",", _THIN), ascii)


def plural(n: int, word: str, *, ascii: bool = False) -> str:
    """Write a count with its word: "1 function", "3 functions"."""
    return f"{count(n, ascii=ascii)} {word}" + ("" if n == 1 else "s")


def bytes(n: int) -> str:
    """Write an amount of memory in decimal units, with 3 figures from 1 kB: `393 kB`."""
    unit, x = 0, float(n)
    # 999.5 already rounds to 1000, which belongs to the next unit.
    while unit < len(_BYTE_UNITS) - 1 and x >= (1000 if unit == 0 else 999.5):
        unit, x = unit + 1, x / 1000
    return f"{int(n)} B" if unit == 0 else f"{f'{x:#.3g}'.rstrip('.')} {_BYTE_UNITS[unit]}"


def time(seconds: float, *, ascii: bool = False) -> str:
    """Write a duration: `38 µs`, `4.2 ms`, `130 ms`, `1.3 s`.

    Parameters
    ----------
    seconds : float
    ascii : bool
        Write microseconds as `us`.
    """
    micro = "us" if ascii else "µs"
    if (text := _not_finite(seconds, ascii)) is not None:
        return f"{text} s"
    if seconds < 0:
        return _sign("-", ascii) + time(-seconds, ascii=ascii)
    if seconds == 0:
        return "0 s"
    if seconds < 0.9995e-3:
        us = seconds * 1e6
        return f"{us:.0f} {micro}" if us >= 0.5 else f"<1 {micro}"
    if seconds < 0.9995:
        ms = seconds * 1e3
        return f"{ms:.1f} ms" if ms < 9.95 else f"{ms:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 99.95 else f"{count(round(seconds), ascii=ascii)} s"
