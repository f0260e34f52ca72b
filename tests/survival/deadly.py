"""Functions whose backward kernel the Slang compiler of slangpy 0.43 crashes on or does not finish, each with its right gradients.

Every text holds a factor of its own, so that no two runs compile the same kernel.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass

__all__ = ["DEADLY", "Deadly", "call", "good", "salted", "values"]

_numbers = itertools.count(random.SystemRandom().randrange(10**6))

_GATE = """import slangpy;
[Differentiable]
float f(no_diff int i, no_diff int lim, IDiffTensor<float, 1> s)
{{
{body}
}}
"""
_MATRIX = "sl.tensor(np.arange(15, dtype=np.float32).reshape(5, 3), grad=True)"
_GATED = "(spy.grid((5,)), 3, x)"


@dataclass(frozen=True)
class Deadly:
    """One such function, `f`.

    Attributes
    ----------
    name : str
    kind : {"crash", "hang"}
        What the compiler does to the backward kernel.
    text : str
        With SALT where the factor goes.
    line : int
        Where the linter is to see the cause.
    arguments : str
        Of the call, in Python; `x` is a tensor of 1 to 5 with gradients.
    forward : tuple of float
        What the forward call returns for x = 1 to 5, without the factor.
    source : str
        Where it is from.
    """

    name: str
    kind: str
    text: str
    line: int
    forward: tuple[float, ...]
    arguments: str = "(x,)"
    source: str = ""


def _gate(name: str, *body: str) -> Deadly:
    lines = "\n".join(f"    {line}" for line in body)
    line = next(n for n, text in enumerate(_GATE.format(body=lines).split("\n"), 1) if "s[i]" in text)
    return Deadly(
        f"load under a condition: {name}",
        "hang",
        _GATE.format(body=lines),
        line,
        (1, 4, 9, 1, 1),
        _GATED,
        "AD-02, slangpy#1167",
    )


DEADLY = (
    _gate("if", "float a = 1;", "if (i < lim) a = s[i] * s[i];", "return a * SALT;"),
    Deadly(
        "while with two conditions",
        "crash",
        "[Differentiable]\nfloat f(float x)\n{\n    float v = SALT * x; int i = 0;\n    [MaxIters(8)]\n"
        "    while (v < 50.0 * SALT && i < 8) { v = v * 2.0; i++; }\n    return v;\n}\n",
        6,
        (64, 64, 96, 64, 80),
        source="AD-06, slang#2914",
    ),
    Deadly(
        "mixed kinds of indices",
        "crash",
        "import slangpy;\n[Differentiable]\nfloat f(no_diff int i, IDiffTensor<float, 2> w, IDiffTensor<float, 2> y)\n{\n"
        "    float a = 0;\n    [MaxIters(3)] for (int j = 0; j < 3; j++) a += w[i, j] * y[int2(j, i)] * SALT;\n"
        "    return a;\n}\n",
        6,
        (5, 50, 149, 302, 509),
        f"(spy.grid((5,)), {_MATRIX}, {_MATRIX})",
        "slangpy#1167",
    ),
    _gate("if and else", "float a;", "if (i < lim) { a = s[i] * s[i]; } else { a = 1; }", "return a * SALT;"),
    Deadly(
        "nested reverse mode",
        "crash",
        "[Differentiable]\nfloat g(float x) { return x * x * x * SALT; }\n[Differentiable]\nfloat f(float x)\n{\n"
        "    var p = diffPair(x, 0.0);\n    bwd_diff(g)(p, 1.0);\n    return p.d;\n}\n",
        7,
        (3, 12, 27, 48, 75),
        source="AD-14, slang#10745",
    ),
    _gate("conditional operator", "float a = i < lim ? s[i] * s[i] : 1.0;", "return a * SALT;"),
    _gate("early return", "if (i >= lim) return SALT;", "return s[i] * s[i] * SALT;"),
    _gate(
        "switch",
        "float a = 1;",
        "switch (i < lim ? 1 : 0) { case 1: a = s[i] * s[i]; break; default: break; }",
        "return a * SALT;",
    ),
)


def salted(case: Deadly) -> tuple[str, float]:
    """Return the text of a case with a factor that no other text has, and the factor."""
    factor = 1 + next(_numbers) / 2**21  # exact in single precision
    return case.text.replace("SALT", repr(factor)), factor


def good() -> tuple[str, float]:
    """Return a function that compiles, f(x) = factor·x², and its factor."""
    factor = 1 + next(_numbers) / 2**21
    return f"[Differentiable]\nfloat f(float x) {{ return x * x * {factor!r}; }}\n", factor


def call(name: str, arguments: str, backward: bool) -> str:
    """Return Python that calls `f` of the module `name` over x = 1 to 5, and prints the result or the gradient of x."""
    lines = [
        "x = sl.tensor(np.arange(1, 6, dtype=np.float32), grad=True)",
        "r = sl.tensor(np.zeros(5, np.float32), grad=True)",
        "sl.assign(r.grad, 1.0)",
    ]
    if backward:
        lines += [f"{name}.f.bwds(*{arguments}, _result=r)", "print('values', *x.grad.to_numpy())"]
    else:
        lines += [f"{name}.f(*{arguments}, _result=r)", "print('values', *r.to_numpy())"]
    return "\n".join(lines)


def values(text: str) -> list[float]:
    """Return the numbers that the Python of `call` printed, among what else a cell shows."""
    lines = [line.split()[1:] for line in text.splitlines() if line.startswith("values ")]
    return [float(v) for v in lines[-1]] if lines else []
