"""Functions of Slang that a device has for float alone."""

from __future__ import annotations

from collections.abc import Iterator

from slanglab.text.diagnostics import Diagnostic
from slanglab.text.lint.bodies import Body
from slanglab.text.lint.rule import Rule, finding
from slanglab.text.reading import values

__all__ = ["DOUBLE_FUNCTION", "check", "concerns"]

DOUBLE_FUNCTION = Rule(
    "double-function",
    "warning",
    "a function of a double that Vulkan has for float alone",
    "on a Vulkan device `exp`, `log`, `sin`, `pow` and their kin of a double are wrong, without a message: most by all digits "
    "(`exp(0.3L)` gives 7e-315, `cos(0.3L)` gives 1), some from the seventh on (`exp2`, `atan`). SPIR-V has them for half and float alone; "
    "CUDA has them for double, and nothing is told there. `sqrt`, `rsqrt`, `abs`, `floor`, `fmod`, `lerp`, `length` and the like are right",
    """[Differentiable]
double f(double x) { return exp(x); }
""",
    """[Differentiable]
double f(double x) { return double(exp(float(x))); }
""",
    "found by trying: Mesa's lavapipe and slangpy 0.43.1, of 34 functions",
)

_FUNCTIONS = frozenset(
    ("exp", "exp2", "exp10", "log", "log2", "log10", "pow", "sin", "cos", "tan", "sincos", "asin", "acos", "atan", "atan2", "sinh",
     "cosh", "tanh", "asinh", "acosh", "atanh")
)  # fmt: skip


def concerns(text: str) -> bool:
    """Tell at a glance whether a text may call one of a double."""
    return "double" in text


def check(body: Body) -> Iterator[Diagnostic]:
    """Find such calls in one function."""
    words = body.words
    own = {f.name for f in body.outline.functions}
    for i in body.named(body.start, body.end):
        name = words.word(i)
        if name not in _FUNCTIONS or name in own or words.word(i + 1) != "(" or words.pair[i + 1] <= i + 1:
            continue
        close = words.pair[i + 1]
        types = [body.expressions.type_of(*part) for part in words.split(i + 2, close)]
        if any(_is_double(t) for t in types):
            given = ", ".join(
                words.text[words.offset(a) : words.tokens[b - 1].end] for a, b in words.split(i + 2, close)
            )
            yield finding(
                DOUBLE_FUNCTION,
                words,
                i,
                close + 1,
                f"`{name}` of a double is wrong on a Vulkan device, which has it for float alone",
                f"compute it in single precision, `double({name}({_single(given)}))`, or on CUDA (`%slang device cuda`), where it is right",
            )


def _is_double(type_: str) -> bool:
    vector = values.vector(type_)
    return (vector[0] if vector is not None else type_) == "double"


def _single(given: str) -> str:
    """Return arguments as floats, where that is one conversion; else what to write for them."""
    return f"float({given})" if "," not in given else "float(…), float(…)"
