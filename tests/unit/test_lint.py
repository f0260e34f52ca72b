"""The linter, on texts whose backward was run on software Vulkan with slangpy 0.43.1: what hung, crashed, failed or was wrong, and what
was right.
"""

import importlib.util
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slanglab.text.lint import RULES, causes, lint
from slanglab.text.lint.page import page
from slanglab.text.source import clean
from slanglab.text.symbols import outline

ROOT = Path(__file__).parents[2]


def codes(text):
    return [d.code for d in lint(outline(text), text)]


def loads(body, tensor="IDiffTensor", above=""):
    """Return a function of an index, a limit and a tensor."""
    return f"import slangpy;\n{above}\n[Differentiable]\nfloat f(no_diff int i, no_diff int lim, {tensor}<float, 1> s)\n{{\n{body}\n}}\n"


def loop(head, above="", body="a += s[k] * s[i];", attribute="[MaxIters(9)]"):
    return loads(f"float a = 0; {attribute} for ({head}) {{ {body} }} return a;", above=above)


def scalar(body, above="", parameters="float x, no_diff int r"):
    return f"import slangpy;\n{above}\n[Differentiable]\nfloat f({parameters})\n{{\n{body}\n}}\n"


READ = "[Differentiable] float ld(IDiffTensor<float, 1> s, no_diff int i) { return s[i]; }"
N = "static const int N = 2;"

HANGS = [
    "float a = 1; if (i < lim) a = s[i] * s[i]; return a;",
    "float a = 1; if (i < lim) { } else { a = s.load(i); } return a;",
    "float v = s[0]; float a = 1; if (v < 3.5) a = s[i]; return a;",
    "return i < lim ? s[i] * s[i] : 1.0;",
    "if (i >= lim) return 1.0; return s[i] * s[i];",
    "float a = 0; [MaxIters(3)] for (int k = 0; k < 3; k++) { if (i + k < 5) a += s[i + k]; } return a;",
    "float a = 0; [ForceUnroll] for (int k = 0; k < 3; k++) { if (i + k < 5) a += s[i + k]; } return a;",
    "float a = 0; [MaxIters(9)] for (int k = 0; k < 5; ++k) { if (k >= lim) break; a += s[k]; } return a;",
    "float a = 0; [MaxIters(9)] for (int k = 0; k < 5; ++k) { if (k == lim) continue; a += s[k]; } return a;",
    "float a = 0; [ForceUnroll] for (int k = 0; k < 5; ++k) { a += s[k]; if (k >= lim) break; } return a;",
    "float v = s[i]; float a = v; if (i < lim) a = v * (no_diff(s[i])); return a;",
    "float v = s[i]; float a = v; if (i < lim && s[0] > 1.5) a = v * v; return a;",
    "float a = 1; switch (i) { case 0: a = s[0]; break; default: a = s[2]; break; } return a;",
    "float a = 0; for (int k = 0; k < 3; k++) { if (k < 2) a += s[k] * s[i]; } return a;",
    "float a = 0; [MaxIters(3)] for (int k = 0; k < 3; k++) { a += s[k]; if (i > 3) return a; } return a * s[0];",
]
NO_HANGS = [
    "float v = s[i]; float a = 1; if (i < lim) a = v * v; return a;",
    "return select(i < lim, s[i] * s[i], 1.0);",
    "float a = 0; [ForceUnroll] for (int k = 0; k < 3; k++) { if (k < 2) a += s[i] * s[k]; } return a;",
    "float a = 0; if (true) { a += s[i] * s[i]; } return a;",
    "float v = s[i]; if (v < 2.5) return 0.0; return v * v;",
    "float v = s[i]; float a = 1; if (i < lim && v > 1.5) a = v * v; return a;",
    "float v = s[i]; float a = v; if (s[0] > 0.5) a = v * v; return a;",
    "const int M = 3; float a = 1; if (M > 0) a = s[i] * s[i]; return a;",
    "int M = 3; float a = 1; if (M > 0) a = s[i] * s[i]; return a;",
    "int j = i; if (i >= lim) j = 0; return s[j] * s[j];",
    "int j = i < lim ? i : 0; return s[j] * s[j];",
    "return s[i < lim ? i : 0] * s[i];",
    "float a = 1; if (i < lim) a = 2; return a * s[i];",
    "int j = 0; for (int k = 0; k < 5; k++) { if (k >= lim) break; j = k; } return s[j] * s[i];",
    "float v = s[i]; return v > 2.5 ? v * v : v;",
    "float a = 0; [MaxIters(9)] for (int k = 0; k < 5; ++k) { a += s[k] * s[i]; if (k >= lim) break; } return a;",
    "float a = 0; [MaxIters(3)] for (int k = 0; k < 3; k++) { a += s[k] * s[i]; if (i > 3) return a; } return a;",
    "float a = 0; [MaxIters(3)] for (int k = 0; k < 3; k++) { a += s[k]; if (i > 3) break; } return a * s[0];",
    "float a = 0; [ForceUnroll] for (int k = 0; k < 3; k++) { if (k == 2) break; a += s[k] * s[i]; } return a;",
    "float a = 0; int k = 0; [MaxIters(9)] while (k < lim) { a += s[k] * s[i]; k++; } return a;",
    "float a = 0; int k = 0; [MaxIters(9)] do { a += s[k] * s[i]; k++; } while (k < lim); return a;",
]


@pytest.mark.parametrize("body", HANGS)
def test_accesses_that_hang(body):
    text = loads(body)
    found = lint(outline(text), text)
    assert [d.code for d in found] == ["conditional-access"]
    assert text.split("\n")[found[0].line - 1][found[0].column - 1 : found[0].end_column - 1].startswith("s")


@pytest.mark.parametrize("body", HANGS)
def test_the_same_accesses_elsewhere_do_not(body):
    assert codes(loads(body, "DiffTensor")) == []
    through = re.sub(r"\bs\[([^\]]*)\]|\bs\.load\(([^)]*)\)", lambda m: f"ld(s, {m[1] or m[2]})", body)
    assert codes(loads(through, above=READ)) == []
    assert codes(loads(body).replace("[Differentiable]\n", "")) == []


@pytest.mark.parametrize("body", NO_HANGS)
def test_accesses_that_do_not_hang(body):
    assert codes(loads(body)) == []


@pytest.mark.parametrize("above", ["static const int M = 3;", "#define M 3", "enum M { a, b }"])
def test_conditions_that_are_constant(above):
    assert codes(loads("float a = 1; if (int(M) > 0) a = s[i]; return a;", above=above)) == []


def test_a_uniform_is_no_constant():
    assert codes(loads("float a = 1; if (M > 0) a = s[i]; return a;", above="uniform int M;")) == [
        "conditional-access"
    ]


@pytest.mark.parametrize(
    "head",
    [
        "int k = 0; k < 2 * lim + 1; ++k",
        "int k = 0; k < 5 && k < lim; ++k",
        "int k = 0; k * k < lim; ++k",
        "int k = 0; k < s.shape[0]; ++k",
        "int k = 0; k < int(s.shape[0]) - 1; ++k",
        "int k = 0; k < (lim + 1) / 2; ++k",
        "int k = 0; k < N * 2 + 1; ++k",
        "int k = 0; uint(k) < uint(lim); ++k",
    ],
)
def test_conditions_of_loops_that_hang(head):
    above = N.replace("static const", "uniform")
    assert codes(loop(head, above)) == ["loop-condition"]
    assert codes(loop(head, f"{above}\n{READ}", "a += ld(s, k) * ld(s, i);")) == []
    assert codes(loop(head, above, attribute="[ForceUnroll]")) == []


@pytest.mark.parametrize(
    "head",
    [
        *("int k = 0; k < lim; ++k", "int k = 0; k <= lim + 1; ++k", "int k = 0; k < 2 * lim; ++k"),
        *("int k = 0; k < i + lim; ++k", "int k = 0; k < min(lim, 4); ++k", "int k = 0; lim > k; ++k"),
        *("int k = 0; k + 1 < lim; ++k", "int k = 0; 2 * k < lim; ++k", "int k = 0; k != lim; ++k"),
        *("int k = lim; k >= 0; --k", "int k = i; k < i + lim; ++k", "int k = 4; k >= 0; --k"),
        *("int k = 0; k < lim; k += 2", "int k = 0; k < 9; k += lim", "uint k = 0; k < lim; ++k"),
    ],
)
def test_loops_that_are_right(head):
    assert codes(loop(head)) == []


def test_a_triangle_of_loops():
    bad = "float a = 0; for (int k = 0; k < 3; k++) [MaxIters(3)] for (int l = 0; l < k + 1; l++) a += s[k] * s[l]; return a;"
    assert codes(loads(bad)) == ["loop-condition"]
    assert codes(loads(bad.replace("k + 1", "n").replace("float a", "int n = lim; float a"))) == []


@pytest.mark.parametrize(
    "body",
    [
        "[MaxIters(9)] for (int k = -r; k <= r; ++k) a += x * x * float(k);",
        "[MaxIters(9)] for (int k = r - 1; k >= 0; --k) a += x * x * float(k);",
        "[MaxIters(9)] for (int k = max(r, 0); k < 5; ++k) a += x;",
        "[MaxIters(9)] for (int k = r > 1 ? 1 : 0; k < 5; ++k) a += x * x;",
        "[MaxIters(9)] for (int k = int(x); k < 6; ++k) a += x * x;",
        "[MaxIters(9)] for (int k = U; k < 6; ++k) a += x * x;",
        "[MaxIters(9)] for (uint k = uint(r) + 1; k < 5; k++) a += x * x * float(k);",
        "int k = -r; [MaxIters(9)] while (k <= r) { a += x * x * float(k); k++; }",
        "int k = r; k = k * 2 - 1; [MaxIters(9)] for (; k < 5; ++k) a += x * x * float(k);",
        "int lo = -r; [MaxIters(9)] for (int k = lo; k < 5; ++k) a += x;",
        "int m = r * 2; [MaxIters(9)] for (int k = 0; k < 3; ++k) { a += x * x * float(m); m = m + 1; }",
        "[MaxIters(9)] for (int k = 0; k < r; ++k) [MaxIters(9)] for (int l = k; l < r; ++l) a += x;",
    ],
)
def test_starts_that_do_not_compile(body):
    assert codes(scalar(f"float a = 0; {body} return a;", "uniform int U;")) == ["loop-start"]


@pytest.mark.parametrize(
    "body",
    [
        "[MaxIters(9)] for (int k = -1; k <= 1; ++k) a += x;",
        "const int R = 1; [MaxIters(9)] for (int k = -R; k <= R; ++k) a += x;",
        "int R = 2; [MaxIters(9)] for (int k = -R; k <= R; ++k) a += x;",
        "[MaxIters(9)] for (int k = N - 1; k < 5; ++k) a += x;",
        "[MaxIters(9)] for (int k = r; k < 5; ++k) a += x;",
        "int lo = r; [MaxIters(9)] for (int k = lo; k < 5; ++k) a += x;",
        "[ForceUnroll] for (int k = -2; k <= 2; ++k) { if (k <= r) a += x; }",
        "[MaxIters(9)] for (float t = -x; t < x; t += 1.0) { a += t * x; }",
        "int m = r + 1; [MaxIters(3)] for (int k = 0; k < 3; ++k) { m = m * 2; a += x * float(m); }",
        "int m = r + 1; [MaxIters(3)] for (int k = 0; k < 3; ++k) { a += x; m++; } a *= float(m);",
        "int j = 0; [MaxIters(9)] for (int k = r + 1; k < 5; k++) j += k; a = x * float(j);",
        "int n = 2 * r + 1; [MaxIters(9)] for (int t = 0; t < n; ++t) { int k = t - r; a += x * float(k); }",
    ],
)
def test_starts_that_are_right(body):
    assert codes(scalar(f"float a = 0; {body} return a;", N)) == []


@pytest.mark.parametrize(
    ("condition", "rewritten"),
    [
        ("v < 50.0 && i < 8", "(v < 50.0) & (i < 8)"),
        ("i < 8 || i < r", "(i < 8) | (i < r)"),
        ("!(v >= 50.0 || i >= 8)", None),
        ("i < 8 ? v < 50.0 : false", None),
        ("a && b || c", None),
    ],
)
def test_conditions_of_while(condition, rewritten):
    body = "float v = x; int i = 0; [MaxIters(8)] {} {{ v = v * x; i++; }} return v;"
    text = scalar(body.replace("{}", f"while ({condition})", 1).replace("{{", "{").replace("}}", "}"))
    (told,) = lint(outline(text), text)
    assert told.code == "while-condition"
    assert (rewritten or "go = a && b") in told.hint
    for head in (f"for (; {condition};)", f"[ForceUnroll] while ({condition})"):
        assert "while-condition" not in codes(
            scalar(body.replace("{}", head, 1).replace("{{", "{").replace("}}", "}"))
        )
    if rewritten is not None:
        assert codes(text.replace(condition, rewritten)) == []


def nested(outer, inner, o="", i="", body="s += w[r, c] * x;"):
    return scalar(
        f"float a = 0; {o} for (int r = 0; r < {outer}; ++r) {{ float s = 0.1; {i} for (int c = 0; c < {inner}; ++c) "
        f"{{ {body} }} a += s * s; }} return a;",
        "[Differentiable] float g(float x) { return x; }",
        "float x, no_diff int n, no_diff int m, Tensor<float, 2> w",
    )


@pytest.mark.parametrize(
    "text",
    [
        nested(3, 8),
        nested(8, 3),
        nested(8, 3, "[MaxIters(8)]", "[MaxIters(3)]"),
        nested(8, 3, "[MaxIters(9)]", "[MaxIters(4)]"),
        nested("n", "m", "[MaxIters(8)]", "[MaxIters(3)]"),
        nested(8, 3, body="s = s * x + float(r);"),
        nested(8, 3, body="s += g(x);"),
        nested("O", "I", "[MaxIters(O)]", "[MaxIters(I)]").replace(" f(", " f<let O : int, let I : int>("),
    ],
)
def test_loops_of_two_sizes(text):
    assert codes(text) == ["nested-loops"]


@pytest.mark.parametrize(
    "text",
    [
        nested(3, 3),
        nested(8, 3, "[MaxIters(8)]", "[MaxIters(8)]"),
        nested("n", "m", "[MaxIters(8)]", "[MaxIters(8)]"),
        nested(8, 3, i="[ForceUnroll]"),
        nested(8, 3, o="[ForceUnroll]"),
        nested(8, 3, body="s += x * float(c);"),
        nested(8, 3, body="s += sin(x * float(c + r));"),
        nested("N", "N", "[MaxIters(N)]", "[MaxIters(N)]"),
    ],
)
def test_loops_of_one_size(text):
    assert codes(text) == []


@pytest.mark.parametrize(
    ("head", "most", "found"),
    [
        ("int i = 0; i < 8; i++", 4, True),
        ("int i = 0; i <= 8; i++", 8, True),
        ("int i = 8; i > 0; --i", 7, True),
        ("int i = 0; i < 8; i += 3", 2, True),
        ("int i = 0; i < 2 * N + 1; i++", 4, True),
        ("int i = 0; i < 8; i++", 8, False),
        ("int i = 0; i < 8; i += 3", 3, False),
        ("int i = 0; i < r; i++", 4, False),
        ("int i = 8; i >= 0; --i", 9, False),
    ],
)
def test_how_often_a_loop_runs(head, most, found):
    text = scalar(f"float v = 1; [MaxIters({most})] for ({head}) v *= x; return v;", N)
    assert codes(text) == (["too-few-iterations"] if found else [])


def generic(constraint, where=""):
    return f"[Differentiable] T cube<T{constraint}>(T u) {where} {{ return u; }}\n[Differentiable] float f(float x) {{ return cube(x); }}"


@pytest.mark.parametrize(
    "text",
    [
        *(generic(c) for c in ("", " : __BuiltinArithmeticType", ": IArithmetic", " : __BuiltinRealType")),
        generic("", "where T : __BuiltinArithmeticType"),
        "[Differentiable] vector<T, 3> f<T : IArithmetic>(vector<T, 3> u) { return u; }",
    ],
)
def test_generic_types_that_lose_the_gradient(text):
    assert codes(text) == ["generic-type"]


@pytest.mark.parametrize(
    "text",
    [
        *(generic(c) for c in (" : __BuiltinFloatingPointType", " : IFloat", " : IDifferentiable")),
        generic("", "where T : IDifferentiable"),
        "[Differentiable] float f<T : IDiffTensor<float, 1>>(T t, int i) { return t[i]; }",
        "[Differentiable] float f<let N : int>(float x[N]) { return x[0]; }",
        "[Differentiable] float f<T : IArithmetic>(no_diff T t, float x) { return x; }",
        "T f<T>(T t) { return t; }",
    ],
)
def test_generic_types_that_do_not(text):
    assert codes(text) == []


def test_a_derivative_by_other_functions_is_set():
    text = (
        "[BackwardDerivative(b)] float f(float x) { return g(x); }\n"
        "void b(inout DifferentialPair<float> p, float d) { bwd_diff(g)(p, d); }"
    )
    assert codes(text) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("void f(int i, RWTensor<float, 1> t) { t[0] += 2.0; }", True),
        ("void f(float x, RWTensor<float, 2> t) { t[0, 1] = t[0, 1] + x; }", True),
        ("void f(int i, RWTensor<float, 1> t) { t[0]++; }", True),
        ("void f(int i, RWTensor<float, 1> t) { t[i] += 2.0; }", False),
        ("void f(int i, RWTensor<float, 1> t) { if (i == 0) t[0] += 2.0; }", False),
        ("void f(int i, RWTensor<float, 1> t) { t[0] = 2.0; }", False),
        ("void f(RWTensor<float, 1> t) { t[0] += 2.0; }", False),
        ("void f(int i, AtomicTensor<float, 1> t) { t.add(0, 2.0); }", False),
    ],
)
def test_races(text, found):
    assert codes(text) == (["race"] if found else [])


@pytest.mark.parametrize(
    ("index", "found"),
    [
        ("int2(row, column)", True),
        ("int2(y, x)", True),
        ("int2(x, y)", False),
        ("int2(column, row)", False),
        ("int2(a, b)", False),
        ("row, column", False),
    ],
)
def test_orders_of_indices(index, found):
    text = f"float f(int row, int column, int x, int y, int a, int b, Tensor<float, 2> t) {{ return t[{index}]; }}"
    assert codes(text) == (["index-order"] if found else [])


@pytest.mark.parametrize(
    ("kind", "body", "instead"),
    [
        ("IDiffTensor<float, 2>", "return t.load(int2(i, 1)) + x;", "return t[int2(i, 1)] + x;"),
        ("IRWDiffTensor<float, 2>", "return x + t.load(p);", "return x + t[p];"),
        ("IDiffTensor<float, 1>", "int k[1] = {i}; return t.load(k);", "int k[1] = {i}; return t[k];"),
        ("IWDiffTensor<float, 2>", "t.store(p, max(x, 1)); return x;", "t[p] = max(x, 1); return x;"),
        ("IDiffTensor<float, 1>", "return t.load(i);", None),
        ("IDiffTensor<float, 1>", "return t.load(u);", None),
        ("IDiffTensor<float, 2>", "return t.load(i, 1);", None),
        ("IDiffTensor<float, 2>", "return t[p];", None),
        ("IDiffTensor<float, 2>", "return x * no_diff t.load(p);", None),
        ("DiffTensor<float, 2>", "return t.load(p);", None),
        ("ITensor<float, 2>", "return t.load(p);", None),
    ],
)
def test_loads_by_a_vector(kind, body, instead):
    text = f"float f(no_diff int i, no_diff uint u, no_diff int2 p, float x, {kind} t)\n{{\n{body}\n}}"
    assert codes(text) == []  # nobody asks for its gradient
    found = lint(outline(f"[Differentiable] {text}"), f"[Differentiable] {text}")
    assert [d.code for d in found] == ([] if instead is None else ["load-by-vector"])
    if instead is not None:
        assert f"`{instead}`" in found[0].hint


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("return detach(x) * y;", True),
        ("return float(int(x)) * y;", True),
        ("return no_diff(x * 2.0) * y;", True),
        ("return detach(x) * y + x;", False),
        ("return y;", False),
        ("float x = 2.0; return x * y;", False),
    ],
)
def test_what_cuts_a_gradient_off(body, found):
    assert codes(f"[Differentiable] float f(float x, float y) {{ {body} }}") == (["cut-off"] if found else [])
    assert codes(f"[Differentiable] float f(no_diff float x, float y) {{ {body} }}") == []


# ----- causes -----


def test_causes_are_those_of_a_function_and_what_it_calls():
    text = (
        loads("float a = 1; if (i < lim) a = s[i]; return a;").replace(" f(", " inner(")
        + "[Differentiable] float outer(int i, float x, IDiffTensor<float, 1> s)\n{ float v = 1; [MaxIters(2)] for (int k = 0; k < 4; k++) "
        "v *= x; return v * inner(i, 3, s); }\n[Differentiable] float apart(float x) { return detach(x); }\n"
    )
    parsed = outline(text)
    assert [d.code for d in causes(parsed, text, "outer")] == ["conditional-access", "too-few-iterations"]
    assert [d.code for d in causes(parsed, text, "inner")] == ["conditional-access"]
    assert [d.code for d in causes(parsed, text, "apart")] == ["cut-off"]
    assert causes(parsed, text, "nothing") == []


def test_causes_know_custom_derivatives_and_mixed_indices():
    rule = next(r for r in RULES if r.code == "derivative-unset")
    assert [d.code for d in causes(outline(rule.bad), rule.bad, "f")] == ["derivative-unset"]
    text = "[Differentiable] float g(IDiffTensor<float, 2> W, int i, int2 p) { return W[i, i] * W[p]; }"
    assert [d.code for d in causes(outline(text), text, "g")] == ["mixed-index-kinds"]


# ----- all rules -----


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_examples(rule):
    found = lint(outline(rule.bad), rule.bad)
    assert [d.code for d in found] == [rule.code]
    assert found[0].severity == rule.severity
    assert found[0].hint
    assert 0 < found[0].column < found[0].end_column
    assert codes(rule.good) == []


@pytest.mark.parametrize(
    "code",
    ["conditional-access", "loop-condition", "while-condition", "too-few-iterations", "load-by-vector"],
)
def test_the_hint_gives_the_good_text(code):
    rule = next(r for r in RULES if r.code == code)
    (told,) = lint(outline(rule.bad), rule.bad)
    for piece in re.findall(r"`([^`]*)`", told.hint)[
        : 2 if "before" in told.hint or "above" in told.hint else 1
    ]:
        assert " ".join(piece.split()) in " ".join(rule.good.split())


def test_the_page_is_up_to_date():
    assert (ROOT / "docs" / "lint.md").read_text(encoding="utf-8") == page(), (
        "python -m slanglab.text.lint.page > docs/lint.md"
    )


def test_slangpys_own_texts():
    """Two findings, both real: the gradients of these two functions are wrong (slangpy's tests look at other ones)."""
    spec = importlib.util.find_spec("slangpy")
    assert spec is not None
    found = set()
    for path in Path(next(iter(spec.submodule_search_locations))).rglob("*.slang"):
        text, _ = clean(path.read_text(encoding="utf-8", errors="replace"))
        for d in lint(outline(text), text):
            found.add((path.name, d.code, re.search(r"of `(\w+)`", d.text)[1]))
    assert found == {
        ("test_tensor.slang", "nested-loops", "matrix_vector_interfaces"),
        ("test_tensor.slang", "nested-loops", "matrix_vector_interfaces_diff"),
    }


SNIPPETS = [r.bad for r in RULES] + [r.good for r in RULES]


@given(
    st.sampled_from(SNIPPETS),
    st.integers(0, 400),
    st.integers(0, 60),
    st.sampled_from(["", "{", ")", "[", "&&", "?", "=", "\n"]),
)
def test_broken_texts_are_read(text, at, length, instead):
    broken = text[:at] + instead + text[at + length :]
    lines = broken.split("\n")
    for d in lint(outline(broken), broken):
        assert 1 <= d.line <= len(lines)
        assert 1 <= d.column <= len(lines[d.line - 1]) + 1
    causes(outline(broken), broken, "f")


# ----- loops that nothing leaves -----


@pytest.mark.parametrize(
    "loop",
    [
        "while (true) {}",
        "while (1) x *= 2;",
        "for (;;) { x *= 2; }",
        "for (int k = 0; ; k++) { x *= 2; }",
        "for (int k = 0; true; k++) { x *= 2; }",
        "do { x *= 2; } while (true);",
        "while (true) { for (int k = 0; k < 3; k++) { if (x > 2) break; x *= 2; } }",
        "while (true) { switch (int(x)) { case 1: x = 2; break; default: break; } }",
        "while (true) { if (x > 2) continue; x *= 2; }",
    ],
)
def test_LP_03_a_loop_that_nothing_leaves(loop):
    text = f"float f(float x) {{ {loop} return x; }}"
    (found,) = lint(outline(text), text)
    assert found.code == "endless-loop"
    assert text[found.column - 1 :].startswith(loop.split(" ")[0].split("(")[0])


@pytest.mark.parametrize(
    "loop",
    [
        "while (x < 2) { x *= 2; }",
        "while (true) { if (x > 2) break; x *= 2; }",
        "while (true) { if (x > 2) return x; x *= 2; }",
        "while (true) { if (x > 2) { x *= 2; } else break; }",
        "for (;;) { x *= 2; if (x > 9) { break; } }",
        "for (int k = 0; ; k++) { switch (k) { case 3: return x; default: break; } }",
        "do { x *= 2; } while (false);",
        "while (false) {}",
        "while (true) { discard; }",
        "while (go()) {}",
        "while (trueish) {}",
    ],
)
def test_a_loop_that_something_leaves(loop):
    text = f"float f(float x) {{ {loop} return x; }}"
    assert lint(outline(text), text) == []


# ----- functions of doubles -----


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("return sin(x);", ["sin"]),
        ("let y = x * 2.0; return log(y);", ["log"]),
        ("double y = 1.0; return pow(2.0f, y);", ["pow"]),
        ("double2 v = double2(x, x); return cos(v).x;", ["cos"]),
        ("return exp(0.5L) + x;", ["exp"]),
        ("return sqrt(x) + abs(x) + fmod(x, 2.0L);", []),
        ("return double(exp(float(x)));", []),
        ("float y = float(x); return exp(y);", []),
        ("// exp(x)\n return x;", []),
    ],
)
def test_functions_of_doubles(body, found):
    text = f"double f(double x) {{ {body} }}"
    told = [d for d in lint(outline(text), text) if d.code == "double-function"]
    assert [re.match(r"`(\w+)`", d.text)[1] for d in told] == found
    assert [d for d in lint(outline(text), text, "cuda") if d.code == "double-function"] == []


def test_functions_of_ones_own_with_such_a_name():
    text = "double exp(double x) { return 1 + x; }\ndouble f(double x) { return exp(x); }"
    assert codes(text) == []
