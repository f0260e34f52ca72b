"""The words that hints are chosen from: names of slangpy and Slang, their cousins elsewhere, characters that mislead."""

from __future__ import annotations

__all__ = ["ATTRIBUTES", "ELSEWHERE", "INTRINSICS", "LOOKALIKES", "SLANGPY_NAMES"]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# Names that slangpy's own module brings; without `import slangpy;` each is an undefined identifier.
SLANGPY_NAMES = {
    *(f"{i}{access}{diff}Tensor" for i in ("", "I") for access in ("", "W", "RW") for diff in ("", "Diff")),
    "AtomicTensor",
}

INTRINSICS = _words(
    "abs acos all any asin atan atan2 bwd_diff ceil clamp cos cosh cross ddx ddy degrees detach determinant diffPair distance "
    "dot exp exp2 float2 float2x2 float3 float3x3 float4 float4x4 floor fmod frac fwd_diff int2 int3 int4 isfinite isinf "
    "isnan length lerp log log10 log2 max min modf mul normalize pow radians reflect refract round rsqrt saturate sign sin "
    "sincos sinh smoothstep sqrt step tan tanh transpose trunc uint bool float int half double void return struct static const "
    "uniform inout no_diff DifferentialPair IDifferentiable"
)

# What the same thing is called in GLSL, Python, NumPy and C.
ELSEWHERE = {
    **{f"vec{n}": f"float{n}" for n in (2, 3, 4)},
    **{f"ivec{n}": f"int{n}" for n in (2, 3, 4)},
    **{f"mat{n}": f"float{n}x{n}" for n in (2, 3, 4)},
    "mix": "lerp",
    "inversesqrt": "rsqrt",
    "mod": "fmod",
    "True": "true",
    "False": "false",
    "ln": "log",
    "norm": "length",
    "sqr": "x * x",
    "square": "x * x",
    "cbrt": "pow(x, 1.0 / 3.0)",
    "relu": "max(x, 0.0)",
    "sigmoid": "1.0 / (1.0 + exp(-x))",
}

ATTRIBUTES = _words(
    "BackwardDerivative BackwardDerivativeOf BackwardDifferentiable Differentiable ForceInline ForceUnroll ForwardDerivative "
    "ForwardDerivativeOf ForwardDifferentiable MaxIters NoDiffThis PreferCheckpoint PreferRecompute PrimalSubstitute "
    "PrimalSubstituteOf TreatAsDifferentiable mutating numthreads shader unroll"
)

# Characters that look like another one, and what to write.
LOOKALIKES = {
    "\N{NO-BREAK SPACE}": "a space",
    "\N{NARROW NO-BREAK SPACE}": "a space",
    "\N{IDEOGRAPHIC SPACE}": "a space",
    "\N{MINUS SIGN}": "`-`",
    "\N{EN DASH}": "`-`",
    "\N{EM DASH}": "`-`",
    "\N{HYPHEN}": "`-`",
    "\N{MULTIPLICATION SIGN}": "`*`",
    "\N{DIVISION SIGN}": "`/`",
    "\N{LEFT DOUBLE QUOTATION MARK}": '`"`',
    "\N{RIGHT DOUBLE QUOTATION MARK}": '`"`',
    "\N{LEFT SINGLE QUOTATION MARK}": "`'`",
    "\N{RIGHT SINGLE QUOTATION MARK}": "`'`",
    "\N{GREEK QUESTION MARK}": "`;`",
    "\N{FULLWIDTH SEMICOLON}": "`;`",
    "\N{FULLWIDTH LEFT PARENTHESIS}": "`(`",
    "\N{FULLWIDTH RIGHT PARENTHESIS}": "`)`",
    "\N{SUPERSCRIPT TWO}": "the product itself",
    "\f": "a space",
    "\v": "a space",
}
