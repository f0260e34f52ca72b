"""What slangpy cannot call is said with the way round it, and nothing else is."""

from __future__ import annotations

from slanglab.text.diagnostics import Diagnostic
from slanglab.text.symbols import limitations, outline


def said(text: str) -> list[Diagnostic]:
    found = limitations(outline(text))
    assert all(d.severity == "warning" and d.hint and d.cell == "" for d in found)
    for d in found:
        line = text.split("\n")[d.line - 1]
        assert 1 <= d.column < d.end_column <= len(line) + 1
    return found


def only(text: str) -> Diagnostic:
    (found,) = said(text)
    return found


def test_nothing_to_say() -> None:
    assert (
        said("""
import poly;
/// sin of it
[Differentiable] float f(float x, out float y, float z = sin(1)) { return sin(x); }
T g<T : IFloat>(T x) { return x; }
struct S { float sin; __init(float a) {} __init(float a, float b) {} float length() { return 1; } }
interface I { static float zero(); float f(float x); }
[shader("compute")] [numthreads(1, 1, 1)] void mul(uint3 self : SV_GroupID) {}
float once(float x);
float once(float x) { return x; }
#ifdef A
float either(float x) { return x; }
#else
float either(float2 x) { return x.x; }
#endif
namespace mine { float dot(float x) { return x; } }
""")
        == []
    )


def test_names_of_intrinsics() -> None:
    diagnostic = only("float x;\n  float mul(float a, float b) { return a * b; }")
    assert (diagnostic.code, diagnostic.line, diagnostic.column, diagnostic.end_column) == (
        "intrinsic-name",
        2,
        9,
        12,
    )
    assert "`my_mul`" in diagnostic.hint
    # Overloads of an intrinsic are one message, not two.
    assert [d.code for d in said("float sin(float x) {}\nfloat sin(float2 x) {}")] == ["intrinsic-name"]


def test_overloads_list_their_signatures() -> None:
    diagnostic = only("float f(float x) {}\nfloat f(float2 x) {}\nint f(int) {}\nfloat g(float x) {}")
    assert (diagnostic.code, diagnostic.line) == ("overloaded", 2)
    for expected in ("f(float x) -> float", "f(float2 x) -> float", "f(int) -> int"):
        assert expected in diagnostic.text
    assert "`f_float2`" in diagnostic.hint
    assert only("struct S { void f(float x) {} void f(vector<float, 2> x) {} }").code == "overloaded"
    many = only("\n".join(f"float f(S{i} x) {{}}" for i in range(50)))
    assert "and 42 more" in many.text
    assert "S49" not in many.text


def test_static_methods() -> None:
    diagnostic = only("namespace ns { struct S { static float st(float x) { return x; } } }")
    assert (diagnostic.code, diagnostic.column) == ("static-method", 40)
    assert '`module["ns::S::st"](...)`' in diagnostic.hint


def test_module_declarations() -> None:
    diagnostic = only("module zork;\nfloat f(float x) { return x; }")
    assert (diagnostic.code, diagnostic.line, diagnostic.column, diagnostic.end_column) == (
        "module-declaration",
        1,
        1,
        7,
    )
    assert "public" in diagnostic.text


def test_parameters_that_python_cannot_name() -> None:
    found = said("float f(float self, float _result, float lambda, float x) { return x; }")
    assert [(d.code, d.column) for d in found] == [
        ("parameter-name", 15),
        ("parameter-name", 27),
        ("parameter-name", 42),
    ]
    assert "`self_value`" in found[0].hint
    assert '`**{"lambda": value}`' in found[2].hint


def test_operators() -> None:
    assert (
        only("A operator+(A a, A b) { return a; }\nstruct A { A operator-(A a) { return a; } }").code
        == "operator"
    )


def test_order_is_that_of_the_text() -> None:
    found = said("float f(float self) {}\nfloat sin(float x) {}\nmodule a;\nfloat f(float2 x) {}")
    assert [d.line for d in found] == [1, 2, 3, 4]
