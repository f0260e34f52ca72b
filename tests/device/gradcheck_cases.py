"""Functions with their float64 twins: a line of Slang, the arguments, and the same in numpy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import slangpy as spy

N = 6
M = 4


@dataclass(frozen=True)
class Case:
    """One function.

    Attributes
    ----------
    name : str
    slang : str
        Its text; it may declare more than the function `name`.
    inputs : dict of str to tuple
        By path, the shape; values are drawn between `low` and `high`.
    call : callable
        Takes the function's inputs as tensors by path and returns the arguments of the call.
    twin : callable
        Takes float64 arrays by path and returns the outputs, in gradcheck's order.
    """

    name: str
    slang: str
    inputs: dict[str, tuple[int, ...]]
    call: Callable[..., list[Any]]
    twin: Callable[..., Any]
    low: float = 0.5
    high: float = 2.0


def _unary(name: str, text: str, twin: Callable[[Any], Any], low: float = 0.5, high: float = 2.0) -> Case:
    slang = f"[Differentiable] float {name}(float x) {{ return {text}; }}"
    return Case(name, slang, {"x": (N,)}, lambda x: [x], twin, low, high)


def _binary(name: str, text: str, twin: Callable[[Any, Any], Any], shape: tuple[int, ...] = (N,)) -> Case:
    slang = f"[Differentiable] float {name}(float x, float y) {{ return {text}; }}"
    return Case(name, slang, {"x": (N,), "y": shape}, lambda x, y: [x, y], twin)


def _loop(x: Any, w: Any) -> Any:
    y = x
    for _ in range(12):
        y = np.sin(y) * 0.9 + w * 0.1
    return y


def _grid(n: int) -> Any:
    return spy.grid((n,))


STRUCTS = """
struct Spring : IDifferentiable { float k; float3 v;
    [Differentiable] float energy(float x) { return 0.5 * k * dot(v, v) * x * x; } };
struct Inner : IDifferentiable { float u; float2 w; };
struct Outer : IDifferentiable { Inner inner; float s; };
"""

CASES = [
    # elementwise
    _unary("polynomial", "2 * x * x + 8 * x - 1", lambda x: 2 * x * x + 8 * x - 1),
    _unary("sine", "sin(3 * x)", lambda x: np.sin(3 * x)),
    _unary("exponential", "exp(-x * x)", lambda x: np.exp(-x * x)),
    _unary("logistic", "1 / (1 + exp(-x))", lambda x: 1 / (1 + np.exp(-x)), -2, 2),
    _unary("logarithm", "log(x * x + 1)", lambda x: np.log(x * x + 1), -2, 2),
    _unary("power", "pow(x, 2.5f)", lambda x: x**2.5),
    _unary("hyperbolic", "tanh(x) + cosh(x)", lambda x: np.tanh(x) + np.cosh(x), -2, 2),
    _unary("root", "rsqrt(x * x + 1) + sqrt(x)", lambda x: 1 / np.sqrt(x * x + 1) + np.sqrt(x)),
    _unary(
        "bases",
        "log2(x) + 10 * exp2(x) + 100 * log10(x)",
        lambda x: np.log2(x) + 10 * 2**x + 100 * np.log10(x),
    ),
    _unary("inverse", "atan(x) + 1 / x", lambda x: np.arctan(x) + 1 / x),
    _binary("product", "x * y + x", lambda x, y: x * y + x),
    _binary("quotient", "x / (y * y + 1)", lambda x, y: x / (y * y + 1)),
    _binary("angle", "atan2(x, y)", lambda x, y: np.arctan2(x, y)),
    _binary("mixture", "lerp(x * x, sin(y), 0.3f)", lambda x, y: 0.7 * x * x + 0.3 * np.sin(y)),
    _binary("shared", "tanh(y * x) + y * y", lambda x, y: np.tanh(y * x) + y * y, (1,)),
    # branches
    _unary("relu", "max(x, 0.f) * x", lambda x: np.maximum(x, 0) * x, -2, 2),
    _unary("clamped", "clamp(x, -0.5f, 0.5f) + 0.1f * x", lambda x: np.clip(x, -0.5, 0.5) + 0.1 * x, -2, 2),
    _unary("either", "x > 1 ? x * x : 3 * x", lambda x: np.where(x > 1, x * x, 3 * x)),
    Case(
        "branched",
        "[Differentiable] float branched(float x) { if (x > 1) { return sin(x); } float y = x * x; return y + x; }",
        {"x": (N,)},
        lambda x: [x],
        lambda x: np.where(x > 1, np.sin(x), x * x + x),
    ),
    Case(
        "returned",
        "[Differentiable] float returned(float x) { for (int i = 0; i < 2; i++) { if (x < 0.0) return 0.0; }"
        " float y = x * x; return y + x; }",
        {"x": (N,)},
        lambda x: [x],
        lambda x: np.where(x < 0, 0, x * x + x),
        -2,
        2,
    ),
    # loops
    Case(
        "looped",
        "[Differentiable] float looped(float x, float w) { float y = x; [MaxIters(12)] for (int i = 0; i < 12; i++)"
        " y = sin(y) * 0.9f + w * 0.1f; return y; }",
        {"x": (N,), "w": (N,)},
        lambda x, w: [x, w],
        _loop,
    ),
    Case(
        "unrolled",
        "[Differentiable] float unrolled(float x) { float y = 1; [ForceUnroll] for (int i = 0; i < 4; i++) y = y * x + 1;"
        " return y; }",
        {"x": (N,)},
        lambda x: [x],
        lambda x: x**4 + x**3 + x**2 + x + 1,
    ),
    # vectors, matrices, arrays
    Case(
        "vectors",
        "[Differentiable] float3 vectors(float3 x, float w) { return normalize(x) * w + x * x; }",
        {"x": (N, 3), "w": (N,)},
        lambda x, w: [x, w],
        lambda x, w: x / np.linalg.norm(x, axis=-1, keepdims=True) * w[:, None] + x * x,
    ),
    Case(
        "crossed",
        "[Differentiable] float3 crossed(float3 x, float3 y) { return cross(x, y); }",
        {"x": (N, 3), "y": (N, 3)},
        lambda x, y: [x, y],
        lambda x, y: np.cross(x, y),
    ),
    Case(
        "dotted",
        "[Differentiable] float dotted(float4 x, float4 y) { return dot(x, y) * length(x); }",
        {"x": (N, 4), "y": (N, 4)},
        lambda x, y: [x, y],
        lambda x, y: (x * y).sum(-1) * np.linalg.norm(x, axis=-1),
    ),
    Case(
        "determined",
        "[Differentiable] float determined(float2x2 a) { return determinant(a); }",
        {"a": (N, 2, 2)},
        lambda a: [a],
        lambda a: np.linalg.det(a),
    ),
    Case(
        "multiplied",
        "[Differentiable] float2 multiplied(float2x2 a, float2 x) { return mul(a, x); }",
        {"a": (N, 2, 2), "x": (N, 2)},
        lambda a, x: [a, x],
        lambda a, x: np.einsum("nij,nj->ni", a, x),
    ),
    Case(
        "arrays",
        "[Differentiable] float arrays(float a[3]) { return a[0] * a[1] + a[2] * a[2]; }",
        {"a": (N, 3)},
        lambda a: [a],
        lambda a: a[:, 0] * a[:, 1] + a[:, 2] ** 2,
    ),
    # structs
    Case(
        "sprung",
        STRUCTS + "[Differentiable] float sprung(Spring s, float x) { return s.energy(x); }",
        {"s.k": (N,), "s.v": (N, 3), "x": (N,)},
        lambda **z: [{"k": z["s.k"], "v": z["s.v"]}, z["x"]],
        lambda **z: 0.5 * z["s.k"] * (z["s.v"] ** 2).sum(-1) * z["x"] ** 2,
    ),
    Case(
        "nested",
        "[Differentiable] float nested(Outer o) { return o.inner.u * o.inner.w.x * o.s + o.inner.w.y; }",
        {"o.inner.u": (N,), "o.inner.w": (N, 2), "o.s": (N,)},
        lambda **z: [{"inner": {"u": z["o.inner.u"], "w": z["o.inner.w"]}, "s": z["o.s"]}],
        lambda **z: z["o.inner.u"] * z["o.inner.w"][:, 0] * z["o.s"] + z["o.inner.w"][:, 1],
    ),
    # several outputs
    Case(
        "outputs",
        "[Differentiable] void outputs(float x, out float y, out float z) { y = x * x; z = x * y; }",
        {"x": (N,)},
        lambda x: [x, zeros_like(x), zeros_like(x)],
        lambda x: [x * x, x**3],
    ),
    # gathers, tensors
    Case(
        "gathered",
        "[Differentiable] float gathered(no_diff int i, IDiffTensor<float, 1> t) { return t[i % 4] * t[i % 4]; }",
        {"t": (M,)},
        lambda t: [_grid(9), t],
        lambda t: t[np.arange(9) % 4] ** 2,
    ),
    Case(
        "neighbours",
        "[Differentiable] float neighbours(no_diff int i, IDiffTensor<float, 1> t)"
        " { return t[i] * t[(i + 1) % 6] + sin(t[(i + 5) % 6]); }",
        {"t": (N,)},
        lambda t: [_grid(N), t],
        lambda t: t * np.roll(t, -1) + np.sin(np.roll(t, 1)),
    ),
    Case(
        "linear",
        "[Differentiable] float linear(no_diff int i, IDiffTensor<float, 2> w, IDiffTensor<float, 1> x)"
        " { float s = 0; [MaxIters(4)] for (int j = 0; j < 4; j++) s += w[i, j] * x[j]; return s; }",
        {"w": (3, M), "x": (M,)},
        lambda w, x: [_grid(3), w, x],
        lambda w, x: w @ x,
    ),
    Case(
        "points",
        "[Differentiable] float points(no_diff int i, IDiffTensor<float3, 1> p) { return dot(p[i], p[0]); }",
        {"p": (N, 3)},
        lambda p: [_grid(N), vectors_of(p)],
        lambda p: p @ p[0],
    ),
    Case(
        "concrete",
        "[Differentiable] float concrete(no_diff int i, DiffTensor<float, 1> t) { return t[i] * t[i] * t[i]; }",
        {"t": (N,)},
        lambda t: [_grid(N), t],
        lambda t: t**3,
    ),
    Case(
        "written",
        "[Differentiable] void written(no_diff int i, IDiffTensor<float, 1> x, IWDiffTensor<float, 1> y)"
        " { y[i] = x[i] * x[i] + x[0]; }",
        {"x": (N,)},
        lambda x: [_grid(N), x, zeros_like(x)],
        lambda x: x * x + x[0],
    ),
    # in place
    Case(
        "squared",
        "[Differentiable] void squared(no_diff int i, IRWDiffTensor<float, 1> y) { y[i] = y[i] * y[i]; }",
        {"y": (N,)},
        lambda y: [_grid(N), y],
        lambda y: y * y,
    ),
    Case(
        "advanced",
        "[Differentiable] void advanced(no_diff int i, IDiffTensor<float, 1> v, IRWDiffTensor<float, 1> p)"
        " { p[i] = p[i] + 0.1f * sin(p[i]) * v[i]; }",
        {"v": (N,), "p": (N,)},
        lambda v, p: [_grid(N), v, p],
        lambda v, p: p + 0.1 * np.sin(p) * v,
    ),
    # generic, and in two dimensions
    Case(
        "cubed",
        "[Differentiable] T cubed<T : __BuiltinFloatingPointType>(T x) { return x * x * x; }",
        {"x": (N,)},
        lambda x: [x],
        lambda x: x**3,
    ),
    Case(
        "outer",
        "[Differentiable] float outer(float x, float y) { return x * exp(y); }",
        {"x": (3, 1), "y": (M,)},
        lambda x, y: [x, y],
        lambda x, y: x * np.exp(y),
    ),
]

SOURCE = "import slangpy;\n" + "\n".join(c.slang for c in CASES)


def zeros_like(tensor: Any) -> Any:
    """Return a tensor for an output."""
    return spy.Tensor.from_numpy(tensor.device, np.zeros_like(tensor.to_numpy()))


def vectors_of(tensor: Any) -> Any:
    """Return a tensor of float3 with the numbers of a tensor of floats."""
    made = spy.Tensor.empty(tensor.device, tensor.shape.as_tuple()[:-1], "float3")
    made.copy_from_numpy(tensor.to_numpy())
    return made


def reference(case: Case, values: dict[str, Any], cotangents: list[Any]) -> dict[str, Any]:
    """Return the gradients by central differences of the float64 twin, element by element."""

    def phi(**at: Any) -> float:
        found = case.twin(**at)
        outputs = found if isinstance(found, list) else [found]
        return float(sum((c * y).sum() for c, y in zip(cotangents, outputs, strict=True)))

    exact = {k: v.astype(np.float64) for k, v in values.items()}
    found = {}
    for name, value in exact.items():
        gradient = np.zeros_like(value)
        for index in np.ndindex(value.shape):
            step = 1e-6 * max(1.0, abs(value[index]))
            ahead, behind = (value.copy() for _ in range(2))
            ahead[index] += step
            behind[index] -= step
            gradient[index] = (phi(**{**exact, name: ahead}) - phi(**{**exact, name: behind})) / (2 * step)
        found[name] = gradient
    return found
