"""A mistake costs the declaration that it is in; no text raises, hangs, or gives a place outside itself."""

from __future__ import annotations

import importlib.util
import os
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slanglab.text.source import clean, rewrite_imports
from slanglab.text.symbols import limitations, outline, signature

GOOD = [
    "/// Doc.\n[Differentiable]\nfloat NAME(float a, float b = 2)\n{\n    if (a > b) { return a; }\n    return b;\n}\n",
    "float NAME(float3 v) { return dot(v, v); }\n",
    "[Differentiable]\nvoid NAME(int idx, IDiffTensor<float, 1> x, IWDiffTensor<float, 1> y)\n{\n    y[idx] = x[idx];\n}\n",
    "T NAME<T : IFloat>(T x[2])\n{\n    for (int i = 0; i < 2; i++) { x[i] = x[i]; }\n    return x[0];\n}\n",
]

ACTIVATION = """import "slangpy";
import poly;

static const float slope = 0.1;

/// A leaky ramp.
[Differentiable]
float ramp(float x, no_diff float leak = slope) { return x > 0 ? x : leak * x; }

struct Layer<let N : int> : IDifferentiable
{
    float weights[N]; ///< one for each input
    float bias = 0;

    [Differentiable]
    float eval(float x[N])
    {
        float sum = bias;
        [MaxIters(N)]
        for (int i = 0; i < N; i++)
            sum += weights[i] * x[i];
        return ramp(sum);
    }
}

#ifdef WIDE
typealias Wide = Layer<8>;
#endif

[shader("compute")]
[numthreads(8, 1, 1)]
void main(uint3 tid : SV_DispatchThreadID, uniform RWStructuredBuffer<float> out_values) { out_values[tid.x] = ramp(tid.x); }
"""


@pytest.mark.parametrize(
    ("text", "functions"),
    [
        ("float f(float x { return x; }", ["f(float x) -> float"]),
        ("float f(float x)) { return x; }", ["f(float x) -> float"]),
        ("float f(float x, ) { return x; }", ["f(float x) -> float"]),
        ("float f(float x, +) { return x; }", ["f(float x) -> float"]),
        ("float f(float x float y) { return x; }", None),
        ("float f(float x) { if (x > 0) { return x;\n}", ["f(float x) -> float"]),
        ("float f(float x) { return x; }}", ["f(float x) -> float"]),
        ("float f(float x) { return (x; }", ["f(float x) -> float"]),
        ("float f(float x) { return x]; }", ["f(float x) -> float"]),
        ("float f(float x) return x;", ["f(float x) -> float"]),
        ("float f(float x)", ["f(float x) -> float"]),
        ("float f(", ["f() -> float"]),
        ("f(float x) { return x; }", []),
        ("float a = 3", []),
        ("float a = 3 *", []),
        ("import a", []),
        ("struct S { float x;", []),
        ("struct S { float m(float x) { return x; }", ["m(float x) -> float"]),
        ("enum E { A, B", []),
        ("typealias X = ", []),
        ("[Differentiable", []),
        ("[Differentiable]]", []),
        ("namespace n {", []),
        ("@ $ ` ? x y z +", []),
        ("return 1;", []),
        ("operator", []),
        ("else { }", []),
    ],
)
def test_a_broken_declaration_does_not_hide_its_neighbours(text: str, functions: list[str] | None) -> None:
    before, after = (
        "float before(float x) { return x; }\n",
        "\n\n[Differentiable]\nfloat after(float x) { return x; }\n",
    )
    parsed = outline(before + text + after)
    signatures = [signature(f) for f in parsed.functions]
    assert signatures[0] == "before(float x) -> float"
    assert signatures[-1] == "after(float x) -> float"
    assert parsed.functions[-1].differentiable or "[" in text
    if functions is not None:
        assert signatures[1:-1] == functions
    assert all(line > 1 for line, _ in parsed.errors)


@settings(deadline=None)
@given(
    bodies=st.lists(st.sampled_from(GOOD), min_size=2, max_size=6),
    which=st.integers(0, 5),
    where=st.floats(0, 1),
    piece=st.sampled_from(
        [
            "{",
            "}",
            "(",
            ")",
            "[",
            "]",
            ";",
            ",",
            "<",
            ">",
            "=",
            '"',
            "'",
            "float",
            "struct",
            "return",
            "@",
            "::",
        ]
    ),
    delete=st.booleans(),
)
def test_one_mistake_costs_one_function(
    bodies: list[str], which: int, where: float, piece: str, delete: bool
) -> None:
    texts = [body.replace("NAME", f"f{i}") for i, body in enumerate(bodies)]
    whole = {f.name: f for f in outline("".join(texts)).functions}
    broken = which % len(texts)
    at = int(where * (len(texts[broken]) - 2))
    texts[broken] = texts[broken][:at] + ("" if delete else piece) + texts[broken][at + delete :]
    found = {f.name: f for f in outline("".join(texts)).functions}
    for name, function in whole.items():
        if name != f"f{broken}":
            assert signature(found[name]) == signature(function)
            assert found[name].doc == function.doc


def check_places(text: str) -> None:
    """Everything that the outline says about places is inside the text, and names stand where it says."""
    cleaned, diagnostics = clean(text)
    parsed = outline(cleaned)
    lines = cleaned.split("\n")

    def named(name: str, line: int, column: int) -> None:
        assert 1 <= line <= len(lines)
        assert 1 <= column <= len(lines[line - 1]) + 1
        assert lines[line - 1].startswith(name, column - 1)

    for f in parsed.functions:
        named("operator" if f.name.startswith("operator") else f.name, f.line, f.column)
        assert f.line <= f.end_line <= len(lines)
        assert signature(f).startswith(f.name)
        for p in f.parameters:
            named(p.name, p.line, p.column)
    for s in (*parsed.structs, *parsed.extensions):
        named("" if s.kind == "extension" else s.name, s.line, s.column)
        assert s.line <= s.end_line <= len(lines)
        for field in (*s.fields, *s.properties):
            named(field.name, field.line, field.column)
    for v in parsed.globals:
        named(v.name, v.line, v.column)
    for include in parsed.includes:
        named(include.path, include.line, include.column)
    for place in parsed.errors:
        named("", *place)
    data = cleaned.encode("utf-8", "surrogatepass")
    for i in parsed.imports:
        named("", i.line, i.column)
        assert data[i.start_byte : i.end_byte].decode("utf-8", "surrogatepass") == cleaned[i.start : i.end]
    for d in (*limitations(parsed), *diagnostics):
        if d.line:
            named("", d.line, d.column)
            assert d.column < d.end_column
    rewritten = rewrite_imports(cleaned, {i.name: "other__v7" for i in parsed.imports}).text
    assert rewritten.count("\n") == cleaned.count("\n")


@settings(deadline=None)
@given(text=st.text())
def test_any_text_is_read(text: str) -> None:
    check_places(text)
    outline(text)


WORDS = [
    *"{}()[]<>;,:=*?.+-\"'\\#\n ",
    *(
        "::",
        "->",
        "//",
        "/*",
        "*/",
        "/// d\n",
        "#if 0\n",
        "#if A\n",
        "#else\n",
        "#endif\n",
        "#define A B\n",
        "\\\n",
        'R"(',
        "\r",
    ),
    *(
        "struct ",
        "enum ",
        "interface ",
        "extension ",
        "namespace ",
        "cbuffer ",
        "property ",
        "__subscript",
        "__init",
        "func ",
    ),
    *(
        "operator",
        "where ",
        "import ",
        "module ",
        "typealias ",
        "typedef ",
        "let ",
        "static ",
        "no_diff ",
        "out ",
        "__generic",
    ),
    *(
        "float ",
        "f",
        "x",
        "T",
        "A",
        "1",
        "[Differentiable]",
        "float f(float x) {",
        "}\n",
        "\u202e",
        "é",
        "\ud800",
        "\0",
    ),
]


@settings(deadline=None)
@given(text=st.lists(st.sampled_from(WORDS), max_size=60).map("".join))
def test_any_words_are_read(text: str) -> None:
    check_places(text)
    outline(text)


def shipped() -> list[Path]:
    """Return the Slang files that slangpy brings: thousands of lines that people wrote."""
    spec = importlib.util.find_spec("slangpy")
    if spec is None or spec.origin is None:
        return []
    return sorted(Path(spec.origin).parent.rglob("*.slang"))


def test_what_slangpy_ships_is_read_without_an_error() -> None:
    files = shipped()
    if not files:
        pytest.skip("slangpy is not installed")
    wrong = {}
    for path in files:
        text, diagnostics = clean(path.read_text(encoding="utf-8"))
        # The compiler's own modules consist of several files; a cell cannot (slanglab.text.hazards).
        assert {d.code for d in diagnostics} <= {"import-form", "more"}, path
        if (errors := outline(text).errors) and path.name != "test_shader_compile_error.slang":
            wrong[path.name] = errors
    assert wrong == {}


def test_random_edits_of_real_code() -> None:
    seed = int(os.environ.get("SLANGLAB_SEED", random.SystemRandom().randrange(2**32)))
    print(f"SLANGLAB_SEED={seed}")
    rng = random.Random(seed)
    files = shipped()
    texts = [ACTIVATION, *(p.read_text(encoding="utf-8") for p in rng.sample(files, min(20, len(files))))]
    for _ in range(300):
        text = rng.choice(texts)
        start = rng.randrange(len(text))
        text = text[start : start + rng.choice((60, 600, 3000))]
        for _ in range(rng.randrange(6)):
            at = rng.randrange(len(text) + 1)
            piece = rng.choice(WORDS) if rng.random() < 0.7 else ""
            text = text[:at] + piece + text[at + rng.choice((0, 1, 5)) :]
        try:
            check_places(text)
        except AssertionError:
            print(repr(text))
            raise


# ----- sizes that would break a recursive or quadratic reader (no time limits: such a reader would not come back) -----


def test_nested_brackets() -> None:
    for depth in (300, 50_000):
        parsed = outline(
            f"float f(float x) {{ return {'(' * depth}x{')' * depth}; }}\nfloat g(float x) {{ return x; }}"
        )
        assert [f.name for f in parsed.functions] == ["f", "g"]
        assert not parsed.has_errors
    generic = outline(f"{'A<' * 300}int{'>' * 300} f(float x = {'(' * 300}1{')' * 300}) {{}}")
    assert [f.name for f in generic.functions] == ["f"]


def test_a_line_of_a_megabyte() -> None:
    parsed = outline("float f(float x) { return " + "x+" * 500_000 + "x; } float g(float y) { return y; }")
    assert [(f.name, f.line) for f in parsed.functions] == [("f", 1), ("g", 1)]
    assert parsed.functions[1].column > 1_000_000


def test_sixty_five_thousand_parameters() -> None:
    (f,) = outline(
        "float f(" + ", ".join(f"float p{i} = {i}" for i in range(65_536)) + ") { return p0; }"
    ).functions
    assert len(f.parameters) == 65_536
    assert (f.parameters[-1].name, f.parameters[-1].default) == ("p65535", "65535")


def test_three_thousand_functions() -> None:
    text = "".join(GOOD[i % len(GOOD)].replace("NAME", f"f{i}") for i in range(3000))
    assert len(outline(text).functions) == 3000


@pytest.mark.parametrize(
    "unit",
    [
        *(
            "(",
            "{",
            "}",
            "<",
            "a<",
            "a<(",
            "([",
            "])",
            "float f(",
            "float f() ",
            "struct a{",
            "namespace a{",
            "extension a{",
        ),
        *(
            "#if A\n",
            "#if A\n#else\n",
            "/// a\n",
            "/*",
            '"',
            "'",
            'R"a(',
            "\\\n",
            "a\n",
            "float a = 1\n",
            "float a\n",
            "import a ",
        ),
        *(
            "float f(float x) {\n",
            "float f(float x){}\n",
            "[BackwardDerivativeOf(f)] float f(){}\n",
            "#define A\nA\n",
            "a:",
            "::a",
        ),
        *("\u00a0a ", "// \u202e\n", "\0", "float fоo;\n", '\f"\f'),
    ],
)
def test_hostile_repetition(unit: str) -> None:
    check_places(unit * (40_000 // len(unit)))
    outline(unit * (40_000 // len(unit)))
