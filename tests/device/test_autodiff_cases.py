"""Gradients from the public record, each with its right value; the ids are those of the collection that the project keeps.

The values come from analysis or from float64 numpy. What crashes or hangs the compiler is told by the linter when the cell is compiled;
its test asks for that, and for the right value of the rewritten text. `test_lint_rules.py` runs such texts by slangpy alone.
"""

import numpy as np
import pytest
import slangpy as spy

import slanglab
from slanglab.errors import CallError, SlangLabError
from slanglab.text.lint import lint
from slanglab.text.symbols import outline

pytestmark = pytest.mark.usefixtures("device")

H = "import slangpy;\n"


def given(value, with_gradient):
    """Return an argument of a call: floats as a tensor, whole numbers as they are."""
    if isinstance(value, dict):
        return {k: given(v, with_gradient) for k, v in value.items()}
    if isinstance(value, (list, np.ndarray)):
        array = np.array(value)
        return (
            slanglab.tensor(array, grad=with_gradient) if array.dtype.kind == "f" else array.astype(np.int32)
        )
    return value


def seeded(value, cotangent=1.0):
    result = value.with_grads()
    result.grad.copy_from_numpy(np.full(np.shape(result.grad.to_numpy()), cotangent, np.float32))
    return result


def backward(text, function, wrt, **arguments):
    """Return the value, and the gradients of `wrt` with a cotangent of ones."""
    call = getattr(slanglab.compile(H + text), function)
    args = {name: given(value, name in wrt) for name, value in arguments.items()}
    result = seeded(call(**args, _result="tensor"))
    call.bwds(**args, _result=result)
    return result.to_numpy(), {name: args[name].grad.to_numpy() for name in wrt}


def check(text, value, gradients, function="f", rtol=2e-5, **arguments):
    found, grads = backward(text, function, list(gradients), **arguments)
    if value is not None:
        np.testing.assert_allclose(found, value, rtol=rtol, atol=1e-6)
    for name, right in gradients.items():
        np.testing.assert_allclose(grads[name], right, rtol=rtol, atol=1e-6, err_msg=name)


def told(text):
    """Return what the linter says about a text, by code."""
    full = H + text
    return {d.code: d for d in lint(outline(full), full)}


I5 = [0, 1, 2, 3, 4]
S = [1.0, 2.0, 3.0, 4.0, 5.0]


# ----- what the compiler does not survive -----


def test_AD_01_a_loop_from_a_negative_start():
    head = (
        "[Differentiable] float win(no_diff int i, no_diff int r, IDiffTensor<float, 1> s)\n{ float a = 0;\n"
    )
    bad = (
        head
        + "[MaxIters(9)] for (int k = -r; k <= r; ++k) { int j = clamp(i + k, 0, 4); a += s[j] * s[j]; } return a; }"
    )
    message = told(bad)["loop-start"]
    assert message.line == 4
    assert "`for (int t = 0; t < n; ++t)`" in message.hint
    assert "`int k = -r + t;`" in message.hint
    good = (
        head + "int n = r - (-r) + 1;\n"
        "[MaxIters(9)] for (int t = 0; t < n; ++t) { int k = -r + t; int j = clamp(i + k, 0, 4); a += s[j] * s[j]; } return a; }"
    )
    assert told(good) == {}
    windows = [[min(max(i + k, 0), 4) for k in (-1, 0, 1)] for i in range(5)]
    value = [sum(S[j] ** 2 for j in w) for w in windows]
    gradient = [2 * S[j] * sum(w.count(j) for w in windows) for j in range(5)]
    assert gradient == [6, 12, 18, 24, 30]
    check(good, value, {"s": gradient}, "win", i=I5, r=1, s=S)
    # The forward call of the text that cannot go backward stays usable.
    module = slanglab.compile(H + bad)
    np.testing.assert_allclose(
        module.win(np.array(I5, np.int32), 1, slanglab.tensor(S)).to_numpy(), value, rtol=1e-6
    )


@pytest.mark.parametrize(
    "body",
    [
        "float a = 1; if (i < lim) a = s[i] * s[i]; return a;",
        "float a; if (i < lim) a = s[i] * s[i]; else a = 1; return a;",
        "return i < lim ? s[i] * s[i] : 1.0;",
        "if (i >= lim) return 1.0; return s[i] * s[i];",
        "float a = 1; switch (i) { case 0: case 1: case 2: a = s[i] * s[i]; break; default: break; } return a;",
    ],
    ids=["if", "else", "?:", "return", "switch"],
)
def test_AD_02_a_read_under_a_condition(body):
    text = f"[Differentiable] float gate(no_diff int i, no_diff int lim, IDiffTensor<float, 1> s)\n{{\n{body}\n}}"
    message = told(text)["conditional-access"]
    assert message.line == 4
    head, line = message.hint.split("`")[1], message.hint.split("`")[3]
    good = f"{head}\n" + text.replace(body, line)
    assert told(good) == {}
    check(good, [1, 4, 9, 1, 1], {"s": [2, 4, 6, 0, 0]}, "gate", i=I5, lim=3, s=S)


def test_AD_06_while_with_two_conditions():
    head = "[Differentiable] float f(float x) { float v = x; int i = 0;\n"
    bad = head + "[MaxIters(8)] while (v < 50.0 && i < 8) { v = v * x; i++; } return v; }"
    message = told(bad)["while-condition"]
    good = head + message.hint.split("`")[1]
    assert told(good) == {}
    check(good, [64, 81], {"x": [192, 108]}, x=[2.0, 3.0])


@pytest.mark.parametrize(
    "loop",
    [
        "[MaxIters(8)] while (v < 50.0) v = v * x;",
        "[MaxIters(8)] for (int i = 0; i < 8; i++) { if (v >= 50.0) break; v = v * x; }",
        "[MaxIters(8)] for (int i = 0; i < 8; i++) { if (v >= 50.0) continue; v = v * x; }",
        "[MaxIters(8)] do { v = v * x; } while (v < 50.0);",
        "int n = x < 2.5 ? 5 : 3; int i = 0; [MaxIters(8)] while (i < n) { v = v * x; i++; }",
        "[MaxIters(8)] for (int i = 0; v < 50.0 && i < 8; i++) v = v * x;",
    ],
    ids=["while", "break", "continue", "do", "counted", "for"],
)
def test_AD_06_other_ways_to_end_a_loop(loop):
    text = f"[Differentiable] float f(float x) {{ float v = x; {loop} return v; }}"
    assert told(text) == {}
    check(text, [64, 81], {"x": [192, 108]}, x=[2.0, 3.0])


def test_AD_14_reverse_mode_inside_reverse_mode():
    cube = "[Differentiable] float cube(float x) { return x * x * x; }\n"
    bad = (
        cube
        + "[Differentiable] float df(float x) { var p = diffPair(x); bwd_diff(cube)(p, 1.0); return p.d; }"
    )
    message = told(bad)["nested-reverse"]
    assert "`fwd_diff(cube)(diffPair(x, 1.0)).d`" in message.hint
    good = cube + "[Differentiable] float df(float x) { return fwd_diff(cube)(diffPair(x, 1.0)).d; }"
    check(good, [12, 0.75], {"x": [12, 3]}, "df", x=[2.0, 0.5])
    assert slanglab.compile(H + bad).df(2.0) == 12.0


# ----- loops -----


@pytest.mark.parametrize("attribute", ["MaxIters(3)", "ForceUnroll"])
def test_AD_04_nested_loops_of_one_size(attribute, rng):
    text = f"""[Differentiable] float layer(no_diff int t, IDiffTensor<float, 2> w, IDiffTensor<float, 2> x)
{{
    float o[3];
    [{attribute}] for (int r = 0; r < 3; ++r)
    {{
        float s = 0;
        [{attribute}] for (int c = 0; c < 3; ++c) s += w[r, c] * x[t, c];
        o[r] = max(s, 0.0);
    }}
    return o[0] * o[1] + o[2];
}}"""
    assert told(text) == {}
    w, x = rng.normal(size=(3, 3)), rng.normal(size=(4, 3))
    z = x @ w.T
    o = np.maximum(z, 0)
    g = np.stack([o[:, 1], o[:, 0], np.ones(4)], axis=1) * (z > 0)
    check(
        text, o[:, 0] * o[:, 1] + o[:, 2], {"w": g.T @ x, "x": g @ w}, "layer", 1e-3, t=[0, 1, 2, 3], w=w, x=x
    )


@pytest.mark.parametrize(("rows", "columns"), [(8, 3), (3, 8), (5, 8), (16, 4)])
def test_AD_04_nested_loops_of_two_sizes(rows, columns, rng):
    def text(outer, inner):
        return f"""[Differentiable] float layer(float x, IDiffTensor<float, 2> w)
{{
    float a = 0;
    {outer} for (int r = 0; r < {rows}; ++r)
    {{
        float s = 0.1;
        {inner} for (int c = 0; c < {columns}; ++c) s += w[r, c] * x * float(c + 1);
        a += s * s;
    }}
    return a;
}}"""

    bad = text(f"[MaxIters({rows})]", f"[MaxIters({columns})]")
    hint = told(bad)["nested-loops"].hint
    both = f"[MaxIters({max(rows, columns)})]"
    assert f"`[ForceUnroll] for (int c = 0; c < {columns}; ++c)`" in hint
    assert f"`{both}`" in hint
    w, x = rng.normal(size=(rows, columns)), rng.normal(size=5)
    c = np.arange(1, columns + 1)
    s = 0.1 + x[:, None] * (w @ c)
    gradients = {"x": (2 * s * (w @ c)).sum(axis=1), "w": (2 * s * x[:, None]).sum(axis=0)[:, None] * c}
    for good in (text("[MaxIters(16)]", "[ForceUnroll]"), text(both, both)):
        assert told(good) == {}
        check(good, (s**2).sum(axis=1), gradients, "layer", 1e-3, x=x, w=w)


def test_AD_05_an_array_filled_by_a_loop():
    text = """[Differentiable] float pick(no_diff int row, IDiffTensor<float, 2> t)
{
    int id[2];
    [MaxIters(2)] for (int i = 0; i < 1; ++i) id[i] = row;
    float a = 0;
    [ForceUnroll] for (int c = 0; c < 3; ++c) { id[1] = c; a += t[id[0], id[1]] * float(c + 1); }
    return a;
}"""
    t = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    check(text, t @ [1, 2, 3], {"t": [[1, 2, 3], [1, 2, 3]]}, "pick", row=[0, 1], t=t)


@pytest.mark.parametrize("leave", ["return 0.0;", "break;"])
def test_AD_07_statements_after_a_loop_that_may_end(leave):
    after = "float y = x * x; return x < 0.0 ? 0.0 : y + x;"
    text = f"[Differentiable] float f(float x) {{ for (int i = 0; i < 2; i++) {{ if (x < 0.0) {leave} }} {after} }}"
    check(text, [0, 0.75, 6], {"x": [0, 2, 5]}, x=[-1.0, 0.5, 2.0])


def test_AD_16_reads_through_a_moving_index(rng):
    text = """[Differentiable] float loopload(no_diff int i, IDiffTensor<float, 2> p)
{
    float v[3];
    int c = 0;
    [MaxIters(3)] for (int k = 0; k < 3; k++) { v[k] = p[i, c]; c++; }
    return max(v[0], 0.0) + max(v[1], 0.0) + max(v[2], 0.0);
}"""
    p = rng.normal(size=(3, 3))
    check(text, np.maximum(p, 0).sum(axis=1), {"p": (p > 0).astype(float)}, "loopload", i=[0, 1, 2], p=p)


@pytest.mark.parametrize(
    ("body", "right"),
    [
        ("max(x, y)", (0.5, 0.5)),
        ("min(x, y)", (0.5, 0.5)),
        ("abs(x - y)", (0, 0)),
        ("clamp(x, 0.0, y)", (1, 0)),
        ("clamp(x, y, 2.0)", (1, 0)),
        ("clamp(x, 0.0, 1.0) + y", (1, 1)),
        ("saturate(x) + y", (1, 1)),
    ],
)
def test_AD_16_ties_and_edges(body, right):
    text = f"[Differentiable] float f(float x, float y) {{ return {body}; }}"
    check(text, None, {"x": [right[0]], "y": [right[1]]}, x=[1.0], y=[1.0])


def test_AD_21_four_hundred_steps():
    text = (
        "[Differentiable] float f(float x)\n"
        "{ float v = x; [MaxIters(400)] for (int i = 0; i < 400; i++) v = v * 0.99 + 0.01 * sin(v); return v; }"
    )
    v, g = np.array([1.0, 2.0]), np.ones(2)
    for _ in range(400):
        g *= 0.99 + 0.01 * np.cos(v)
        v = v * 0.99 + 0.01 * np.sin(v)
    np.testing.assert_allclose(g, [0.295857, 0.0805055], rtol=1e-5)
    check(text, v, {"x": g}, x=[1.0, 2.0], rtol=1e-4)


# ----- structs, matrices, built-in functions -----


def test_AD_08_from_field_to_field():
    text = """struct P : IDifferentiable { float a; float b; };
[Differentiable] void mix(inout P p) { p.a = p.a * p.b; p.b = p.b + 2 * p.a; }
[Differentiable] float g(float a, float b) { P p; p.a = a; p.b = b; mix(p); return p.b; }"""
    check(text, [25], {"a": [10], "b": [5]}, "g", a=[2.0], b=[5.0])


def test_AD_09_matrix_times_matrix(rng):
    text = """[Differentiable] float h(float p, float q)
{
    float2x3 A = float2x3(p, 2, q, 3, p, 1);
    float3x2 B = float3x2(1, q, p, 2, q, p);
    float2x2 C = mul(A, B);
    return C[0][0] - 2 * C[0][1] + 5 * C[1][0] + 7 * C[1][1];
}"""

    def value(p, q):
        c = np.array([[p, 2, q], [3, p, 1]]) @ np.array([[1, q], [p, 2], [q, p]])
        return c[0, 0] - 2 * c[0, 1] + 5 * c[1, 0] + 7 * c[1, 1]

    h = 1e-6
    for p, q in [(1.5, -0.7), *rng.normal(size=(3, 2))]:
        dp = (value(p + h, q) - value(p - h, q)) / (2 * h)
        dq = (value(p, q + h) - value(p, q - h)) / (2 * h)
        check(text, [value(p, q)], {"p": [dp], "q": [dq]}, "h", 1e-4, p=[p], q=[q])
    assert value(1.5, -0.7) == pytest.approx(40.74)


def quaternion_matrix(q):
    x, y, z, w = q
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def test_AD_10_a_matrix_out_of_a_quaternion(rng):
    text = """[Differentiable] float3x3 matrix_of(float4 q)
{
    return float3x3(
        1 - 2 * (q.y * q.y + q.z * q.z), 2 * (q.x * q.y - q.z * q.w), 2 * (q.x * q.z + q.y * q.w),
        2 * (q.x * q.y + q.z * q.w), 1 - 2 * (q.x * q.x + q.z * q.z), 2 * (q.y * q.z - q.x * q.w),
        2 * (q.x * q.z - q.y * q.w), 2 * (q.y * q.z + q.x * q.w), 1 - 2 * (q.x * q.x + q.y * q.y));
}
[Differentiable] float turn(float4 q, float3 s, float3 v)
{
    float3 u = mul(matrix_of(q), v / s);
    return dot(u, float3(1, 2, 3)) + dot(u, u);
}"""
    values = {"q": rng.normal(size=4), "s": rng.uniform(0.5, 2, size=3), "v": rng.normal(size=3)}

    def value(q, s, v):
        u = quaternion_matrix(q) @ (v / s)
        return u @ [1, 2, 3] + u @ u

    right = {}
    for name, at in values.items():
        steps = 1e-6 * np.eye(len(at))
        right[name] = [
            (value(**{**values, name: at + e}) - value(**{**values, name: at - e})) / 2e-6 for e in steps
        ]
    call = slanglab.compile(H + text).turn
    # one element each: a tensor of one vector
    args = {
        name: slanglab.tensor(at[None], dtype=f"float{len(at)}", grad=True) for name, at in values.items()
    }
    result = seeded(call(**args, _result="tensor"))
    np.testing.assert_allclose(result.to_numpy().ravel(), [value(**values)], rtol=1e-4)
    call.bwds(**args, _result=result)
    for name, expected in right.items():
        scale = np.abs(expected).max()
        np.testing.assert_allclose(
            args[name].grad.to_numpy().ravel(), expected, rtol=1e-3, atol=1e-3 * scale, err_msg=name
        )


def test_AD_11_the_users_own_derivative():
    text = """[BackwardDerivative(cl_bwd)] float cl(float x) { return clamp(x, 0.0, 1.0); }
void cl_bwd(inout DifferentialPair<float> p, float d) { p = diffPair(p.p, d); }
[Differentiable] float use(float x) { return 3 * cl(x * 2); }"""
    assert told(text) == {}
    assert next(f for f in outline(H + text).functions if f.name == "cl").custom_derivative
    check(text, [0, 1.5, 3], {"x": [6, 6, 6]}, "use", x=[-1.0, 0.25, 2.0])


@pytest.mark.parametrize(
    ("constraint", "lost"), [("__BuiltinArithmeticType", True), ("__BuiltinFloatingPointType", False)]
)
def test_AD_12_a_generic_type(constraint, lost):
    text = (
        f"[Differentiable] T cub<T>(T u) where T : {constraint} {{ return u * u * u; }}\n"
        "[Differentiable] float f(float x) { return cub(x + 2.0) - x; }"
    )
    if lost:
        assert "__BuiltinFloatingPointType" in told(text)["generic-type"].hint
    else:
        assert told(text) == {}
        check(text, [26], {"x": [26]}, x=[1.0])


def test_AD_17_logarithms_of_other_bases():
    x = np.array([0.5, 3.0])
    text = "[Differentiable] float f(float x) { return log2(x) + 10 * exp2(x) + 100 * log10(x); }"
    gradient = 1 / (x * np.log(2)) + 10 * np.log(2) * 2**x + 100 / (x * np.log(10))
    check(text, np.log2(x) + 10 * 2**x + 100 * np.log10(x), {"x": gradient}, x=x)


def test_AD_18_a_struct_that_is_its_own_differential():
    text = """struct S : IDifferentiable
{
    typealias Differential = This;
    float d;
    [Differentiable] float five() { return 5.0 * d; }
}
[Differentiable] float f(float x) { S s; s.d = x; return s.five(); }"""
    check(text, [10], {"x": [5]}, x=[2.0])


def test_AD_19_a_substitute_for_the_derivative_is_refused_with_its_line():
    text = """[Differentiable] float base(float x) { return x; }
[Differentiable] [PrimalSubstituteOf(base)] float sub(float x) { return x * x * x; }
[Differentiable] float f(float x) { return base(x) + x; }"""
    with pytest.raises(SlangLabError, match="base") as caught:
        backward(text, "f", ["x"], x=[2.0])
    assert "differentiable" in str(caught.value)


def test_AD_20_structs_in_structs():
    text = """struct A : IDifferentiable { float u; float3 v; }
struct B : IDifferentiable { A a; float w; A c[2]; }
[Differentiable] float inner(B b) { return b.a.u * b.w + dot(b.a.v, b.c[1].v) * b.c[0].u; }
[Differentiable] float f(float u, float3 v, float w)
{
    B b;
    b.a.u = u; b.a.v = v; b.w = w;
    b.c[0].u = u; b.c[0].v = v;
    b.c[1].u = w; b.c[1].v = v * w * w;
    return inner(b);
}"""
    u, v, w = 2.0, np.array([1.0, 2.0, 3.0]), -1.5
    call = slanglab.compile(H + text).f
    args = {
        "u": slanglab.tensor([u], grad=True),
        "v": slanglab.tensor(v[None], dtype="float3", grad=True),
        "w": slanglab.tensor([w], grad=True),
    }
    result = seeded(call(**args, _result="tensor"))
    np.testing.assert_allclose(result.to_numpy(), [u * w + v @ v * w**2 * u], rtol=1e-5)
    call.bwds(**args, _result=result)
    np.testing.assert_allclose(args["u"].grad.to_numpy(), [w + v @ v * w**2], rtol=1e-5)
    np.testing.assert_allclose(args["v"].grad.to_numpy().ravel(), 2 * v * w**2 * u, rtol=1e-5)
    np.testing.assert_allclose(args["w"].grad.to_numpy(), [u + v @ v * 2 * w * u], rtol=1e-5)


def test_AD_20_a_struct_as_a_dict_of_tensors(rng):
    text = """struct Q : IDifferentiable { float s; float t; }
[Differentiable] float f(Q q) { return q.s * q.s * q.t; }"""
    s, t = rng.normal(size=4), rng.normal(size=4)
    q = {"s": slanglab.tensor(s, grad=True), "t": slanglab.tensor(t, grad=True)}
    call = slanglab.compile(H + text).f
    call.bwds(q=q, _result=seeded(call(q=q, _result="tensor")))
    np.testing.assert_allclose(q["s"].grad.to_numpy(), 2 * s * t, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(q["t"].grad.to_numpy(), s * s, rtol=1e-4, atol=1e-5)


# ----- out and inout -----


def test_AD_23_two_outputs():
    f = slanglab.compile(
        H + "[Differentiable] void f(float x, out float y, out float z) { y = x * x; z = x * y; }"
    ).f
    x = slanglab.tensor([1.0, 2.0], grad=True)
    y, z = seeded(slanglab.zeros(2), 1.0), seeded(slanglab.zeros(2), 10.0)
    f(x, y, z)
    np.testing.assert_allclose(z.to_numpy(), [1, 8], rtol=1e-6)
    f.bwds(x, y, z)
    np.testing.assert_allclose(x.grad.to_numpy(), [32, 124], rtol=1e-6)
    assert y.grad.to_numpy().tolist() == [1, 1]
    assert z.grad.to_numpy().tolist() == [10, 10]


def test_AD_24_inout_values_are_refused_and_out_gives_the_gradient():
    f = slanglab.compile(H + "[Differentiable] void f(float x, inout float y) { y = y * x + x; }").f
    x = slanglab.tensor([1.0, 2.0], grad=True)
    y = slanglab.tensor([3.0, 4.0]).with_grads(
        grad_in=slanglab.ones(2), grad_out=slanglab.zeros(2), zero=False
    )
    with pytest.raises(CallError, match="inout"):
        f.bwds(x=x, y=y)
    g = slanglab.compile(H + "[Differentiable] void g(float x, float y, out float z) { z = y * x + x; }").g
    y, z = slanglab.tensor([3.0, 4.0], grad=True), seeded(slanglab.zeros(2))
    g.bwds(x=x, y=y, z=z)
    assert x.grad.to_numpy().tolist() == [4, 5]
    assert y.grad.to_numpy().tolist() == [1, 2]


# ----- NaN and infinity; docs/lint.md says what these are -----


def edges(body, x, parameter="float x"):
    text = f"[Differentiable] float f({parameter}) {{ return {body}; }}"
    value, gradients = backward(text, "f", ["x"], x=x)
    return value, gradients["x"]


def test_NF_02_the_derivative_of_a_square_root_is_bounded():
    value, gradient = edges("sqrt(x)", [0.0, 4.0, -1.0])
    assert value.tolist()[:2] == [0, 2]
    assert np.isnan(value[2])
    np.testing.assert_allclose(gradient, [1 / (2 * np.sqrt(1e-7)), 0.25, 1 / (2 * np.sqrt(1e-7))], rtol=1e-3)
    value, gradient = edges("x > 0 ? sqrt(x) : 0.0", [0.0, 4.0, -1.0])
    assert value.tolist() == [0, 2, 0]
    np.testing.assert_allclose(gradient, [0, 0.25, 0], rtol=1e-6)


def test_NF_03_a_logarithm_at_zero_and_below():
    value, gradient = edges("log(x)", [0.0, 1.0, -1.0])
    assert value[0] == -np.inf
    assert value[1] == pytest.approx(0, abs=1e-6)
    assert np.isnan(value[2])
    assert gradient.tolist() == [np.inf, 1, -1]


def test_NF_04_directions_and_lengths_of_nothing():
    for body, expected in (("normalize(v).x", np.nan), ("length(v)", 0.0)):
        f = slanglab.compile(f"[Differentiable] float f(float3 v) {{ return {body}; }}").f
        v = slanglab.tensor(np.zeros((1, 3)), dtype="float3", grad=True)
        result = seeded(f(v, _result="tensor"))
        f.bwds(v, _result=result)
        np.testing.assert_array_equal(result.to_numpy(), [expected])
        np.testing.assert_array_equal(v.grad.to_numpy().ravel(), [expected] * 3)


def test_NF_05_a_maximum_hides_what_is_not_a_number():
    value, gradient = edges("max(x, 0.0)", [np.nan, 1.0, -1.0])
    assert value[1:].tolist() == [1, 0]
    assert gradient[1:].tolist() == [1, 0]
    # The device decides between 0 and NaN; the half says that neither side was larger.
    assert value[0] == 0 or np.isnan(value[0])
    assert gradient[0] == 0.5


def test_NF_06_an_overflow_in_a_plain_sigmoid():
    value, gradient = edges("exp(x) / (1.0 + exp(x))", [100.0, 0.0])
    assert np.isnan(value[0])
    assert np.isnan(gradient[0])
    assert (value[1], gradient[1]) == (0.5, pytest.approx(0.25))
    value, gradient = edges("0.5 + 0.5 * tanh(0.5 * x)", [100.0, 0.0])
    assert value.tolist() == [1, 0.5]
    np.testing.assert_allclose(gradient, [0, 0.25], atol=1e-6)


def test_a_parameter_pair_that_python_makes():
    """A scalar gets its gradient through a diffPair."""
    f = slanglab.compile("[Differentiable] float f(float x) { return x * x * x; }").f
    p, r = spy.diffPair(2.0, 0.0), spy.diffPair(0.0, 1.0)
    f.bwds(p, _result=r)
    assert p.grad == pytest.approx(12)
