"""What a Slang text declares: names, types, directions, defaults, documentation, places."""

from __future__ import annotations

import textwrap

import pytest

from slanglab.text.symbols import Function, Outline, Struct, outline, signature


def read(text: str) -> Outline:
    result = outline(textwrap.dedent(text))
    assert result.errors == (), result.errors
    return result


def function(text: str) -> Function:
    (found,) = read(text).functions
    return found


def struct(text: str) -> Struct:
    (found,) = read(text).structs
    return found


# ----- functions -----


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("float f() { return 1; }", "f() -> float"),
        ("void f(void) {}", "f() -> void"),
        ("float f(float) { return 1; }", "f(float) -> float"),
        ("float f(float x, out float y, float b = 8.0) {}", "f(float x, out float y, float b = 8.0) -> float"),
        ("float f(in float x, inout float3 y, in out int z) {}", "f(float x, inout float3 y, inout int z) -> float"),
        ("float f(no_diff float x, no_diff inout float y) {}", "f(no_diff float x, no_diff inout float y) -> float"),
        ("void f(ref float x, constref S s, const float y) {}", "f(inout float x, S s, float y) -> void"),
        ("void f(IDiffTensor<float,1> x, ITensor< float , 2 > y) {}", "f(IDiffTensor<float, 1> x, ITensor<float, 2> y) -> void"),
        ("T f<T : IFloat>(T x) { return x; }", "f<T : IFloat>(T x) -> T"),
        ("T f<T:IFloat, let N:int>(T x[N]) where T : IFoo {}", "f<T : IFloat, let N : int>(T[N] x) -> T"),
        ("__generic<T : IFloat> T f(T x) { return x; }", "f<T : IFloat>(T x) -> T"),
        ("T<V<float,3>,2> f(V<V<float,2>,3> x) {}", "f(V<V<float, 2>, 3> x) -> T<V<float, 3>, 2>"),
        ("float[3] f(int[2] x, float y[2][3]) {}", "f(int[2] x, float[3][2] y) -> float[3]"),
        ("func f(x : float, inout y : int = 2) -> float { return x; }", "f(float x, inout int y = 2) -> float"),
        ("func f(x : float) { }", "f(float x) -> void"),
        ("float f(float3 c = float3(1, 0, 0), int d = g(2)) {}", "f(float3 c = float3(1, 0, 0), int d = g(2)) -> float"),
        ("float f(V v = V<int, 3>(1), bool b = 1 < 2, int c) {}", "f(V v = V<int, 3>(1), bool b = 1 < 2, int c) -> float"),
        ("unsigned int f(unsigned int x, unsigned y) {}", "f(unsigned int x, unsigned y) -> unsigned int"),
        ("T.Differential f(T.Differential x, ns::S y, ::G z) {}", "f(T.Differential x, ns::S y, ::G z) -> T.Differential"),
        ("float* f(float *x, Optional<int>? y) {}", "f(float* x, Optional<int>? y) -> float*"),
        ("void f(uint3 tid : SV_DispatchThreadID, float2 uv : TEXCOORD0) {}", "f(uint3 tid, float2 uv) -> void"),
        ("float4 f() : SV_Target { return 0; }", "f() -> float4"),
        ("T f<each T>(expand each T xs) {}", "f<each T>(expand each T xs) -> T"),
        ("public static inline float f(float x);", "f(float x) -> float"),
        ("EXPORT_API float f(MAYBE_UNUSED float x, r32f RWTexture2D<float> t) {}", "f(float x, RWTexture2D<float> t) -> float"),
        ("float f(float x /* the x */, // first\n float y) {}", "f(float x, float y) -> float"),
        ("float\nf\n(\nfloat\nx\n)\n{\n}", "f(float x) -> float"),
        ("float µ(float α) {}", "µ(float α) -> float"),
        ("int f(int x) throws Error { return x; }", "f(int x) -> int"),
        ("float operator+(A a, B b) { }", "operator+(A a, B b) -> float"),
        ("A operator *(A a, B b) { }", "operator*(A a, B b) -> A"),
        ("float f(float x) { if (x < 1) { return x; } while (true) {} }", "f(float x) -> float"),
        ('void f(String s = "a, b") {}', 'f(String s = "a, b") -> void'),
    ],
)  # fmt: skip
def test_signature(text: str, expected: str) -> None:
    assert signature(function(text)) == expected


def test_places_count_code_points() -> None:
    f = function(
        "/* größe 🙂 */\n\t[Differentiable] float γf(float α,\n    float b = 2)\n{\n  return α;\n}\n"
    )
    assert (f.line, f.column, f.end_line) == (2, 25, 6)
    assert [(p.line, p.column) for p in f.parameters] == [(2, 34), (3, 11)]


def test_parameters() -> None:
    a, b, c = function("void f(uint3 t : SV_GroupID, float, no_diff float x = 1 + 2) {}").parameters
    assert (a.name, a.type, a.semantic, a.default) == ("t", "uint3", "SV_GroupID", None)
    assert (b.name, b.type, b.column) == ("", "float", 30)
    assert (c.no_diff, c.default, c.direction) == (True, "1 + 2", "in")


@pytest.mark.parametrize(
    ("attributes", "expected", "differentiable", "custom"),
    [
        ("[Differentiable]", ("Differentiable",), True, False),
        ("[Differentiable]\n[ForceInline]\n", ("Differentiable", "ForceInline"), True, False),
        ("[ForceInline] [BackwardDifferentiable]", ("ForceInline", "BackwardDifferentiable"), True, False),
        ("[ForwardDifferentiable]", ("ForwardDifferentiable",), True, False),
        ("[Differentiable, BackwardDerivative(g)]", ("Differentiable", "BackwardDerivative(g)"), True, True),
        ("[BackwardDerivative(g)] public", ("BackwardDerivative(g)",), True, True),
        ("[ForwardDerivative(S.g)]", ("ForwardDerivative(S.g)",), True, True),
        ("[TreatAsDifferentiable]", ("TreatAsDifferentiable",), False, False),
        ("[PreferRecompute] // [Differentiable]\n", ("PreferRecompute",), False, False),
        ("/* [Differentiable] */", (), False, False),
        ("[[vk::binding(0, 1)]]", ("vk::binding(0, 1)",), False, False),
        ('[Doc("a, [b]")]', ('Doc("a, [b]")',), False, False),
    ],
)
def test_attributes(attributes: str, expected: tuple[str, ...], differentiable: bool, custom: bool) -> None:
    f = function(f"{attributes} float f(float x) {{ return x; }}")
    assert (f.attributes, f.differentiable, f.custom_derivative) == (expected, differentiable, custom)


def test_a_derivative_declared_elsewhere() -> None:
    parsed = read("""
        float f(float x) { return x; }
        float g(float x) { return x; }
        [BackwardDerivativeOf(f)] void f_bwd(inout DifferentialPair<float> x, float d) {}
        struct S {
            float f(float x) { return x; }
            [ForwardDerivativeOf(h)] void h_fwd(float x) {}
            float h(float x) { return x; }
        }
    """)
    assert [f.qualified for f in parsed.functions if f.custom_derivative] == ["f", "S::h"]
    assert all(f.differentiable == f.custom_derivative for f in parsed.functions)
    assert [m.differentiable for m in parsed.structs[0].methods] == [False, False, True]


def test_entry_points() -> None:
    main, _, kernel = read("""
        [shader("compute")]
        [numthreads(8, 1, 1)]
        void main(uint3 tid : SV_DispatchThreadID, uniform float k) {}
        [numthreads(1, 1, 1)] void other() {}
        [numthreads(1, 1, 1)] [shader("compute")] void kernel() {}
    """).functions
    assert main.is_entry_point
    assert main.attributes == ('shader("compute")', "numthreads(8, 1, 1)")
    assert kernel.is_entry_point
    assert [p.name for p in main.parameters] == ["tid", "k"]


def test_several_on_one_line_and_bodies_of_every_kind() -> None:
    parsed = read("""
        float a(float x) { return x; } float b(float x) { float s[2] = { 1, 2 }; return s[0]; }
        float c(float x) { /* } */ if (x > 0) { // }
            return '}' + "}"; } return 0; }
        float d(float x) { let g = (int y) => { return y; }; return g(1); }
        float e(float x);
    """)
    assert [(f.name, f.has_body) for f in parsed.functions] == [
        ("a", 1),
        ("b", 1),
        ("c", 1),
        ("d", 1),
        ("e", 0),
    ]


def test_a_declaration_is_listed_once_beside_its_definition() -> None:
    parsed = read(
        "float f(float x);\nfloat f(float y) { return y; }\nfloat f(float2 x);\nfloat g(float x);\nfloat g(float x);"
    )
    assert [(f.line, f.name, f.has_body) for f in parsed.functions] == [
        (2, "f", True),
        (3, "f", False),
        (4, "g", False),
    ]
    # Twice with a body is a mistake that the compiler names.
    assert len(read("float f(float x) {}\nfloat f(float x) {}").functions) == 2


# ----- documentation -----


@pytest.mark.parametrize(
    ("above", "doc"),
    [
        ("/// One.\n", "One."),
        ("/// One.\n///\n///   Two.\n", "One.\n\n  Two."),
        ("//! One.\n", "One."),
        ("/** One. */\n", "One."),
        ("/**\n * One.\n *   * two\n */\n", "One.\n  * two"),
        ("/*!\n    One.\n      two\n*/\n", "One.\n  two"),
        ("/// Old.\n\n/// New.\n", "New."),
        ("/// Old.\n/** New. */\n", "New."),
        ("/// One.\n// remark\n", "One."),
        ("/// One.\n[Differentiable]\n", "One."),
        ("[Differentiable]\n/// One.\n", "One."),
        ("/// Far.\n\n", ""),
        ("// One.\n", ""),
        ("/* One. */\n", ""),
        ("//// One.\n", ""),
        ("/*** One. ***/\n", ""),
        ("/// One.\n#define A\n", ""),
        ("float y; /// y's\n", ""),
        (
            "/// <img src=x onerror=alert(1)> [x](javascript:alert(1))\n",
            "<img src=x onerror=alert(1)> [x](javascript:alert(1))",
        ),
        ("/// größe 漢字\n", "größe 漢字"),
    ],
)
def test_documentation(above: str, doc: str) -> None:
    assert read(f"float z;\n{above}float f(float x) {{ return x; }}").functions[0].doc == doc


def test_documentation_of_members() -> None:
    s = struct("""
        /// A pair.
        struct S {
            /// The first.
            float a;
            float b; ///< The second.
            float c, d; // no documentation
            /// Adds.
            float sum() { return a + b; }
        }
    """)
    assert s.doc == "A pair."
    assert [(f.name, f.doc) for f in s.fields] == [
        ("a", "The first."),
        ("b", "The second."),
        ("c", ""),
        ("d", ""),
    ]
    assert s.methods[0].doc == "Adds."


# ----- types -----


def test_struct_members() -> None:
    parsed = read("""
        namespace ns {
        public struct S<T : IFloat, let N : int> : IDifferentiable, IFoo<T, int> where T : IBar {
            typealias Differential = S<T, N>;
            public T a, b = 2;
            float c[3];
            static const int kCount = 3;
            __init(T a) { this.a = a; }
            __init(T a, T b) { }
            [mutating] void set(T x) { a = x; }
            static T zero() { return T(0); }
            property T p { get { return a; } set { a = newValue; } }
            property q : float { get { return 1; } }
            __subscript(int i) -> T { get { return a; } }
            float operator()(float x) { return x; }
            struct Inner { float z; float get() { return z; } }
        }
        }
    """)
    s, alias, inner = parsed.structs
    assert (s.name, s.qualified, s.kind, s.namespace) == ("S", "ns::S", "struct", "ns")
    assert s.generics == ("T : IFloat", "let N : int")
    assert s.bases == ("IDifferentiable", "IFoo<T, int>")
    assert [(f.name, f.type) for f in s.fields] == [("a", "T"), ("b", "T"), ("c", "float[3]")]
    assert [(f.name, f.type) for f in s.properties] == [("p", "T"), ("q", "float")]
    assert [m.name for m in s.methods] == ["__init", "__init", "set", "zero", "operator()"]
    assert [m.result for m in s.methods[:2]] == ["S", "S"]
    assert (s.methods[2].mutating, s.methods[3].static, s.methods[3].mutating) == (True, True, False)
    assert (s.methods[3].qualified, s.methods[3].in_struct, s.methods[3].namespace) == (
        "ns::S::zero",
        "S",
        "ns",
    )
    assert (s.line, s.end_line) == (3, 17)
    assert (alias.qualified, alias.kind, alias.bases) == ("ns::S::Differential", "typealias", ("S<T, N>",))
    assert (inner.qualified, inner.namespace, inner.methods[0].in_struct) == (
        "ns::S::Inner",
        "ns::S",
        "S::Inner",
    )
    assert [f.qualified for f in parsed.functions][-1] == "ns::S::Inner::get"


def test_kinds_of_types() -> None:
    parsed = read("""
        class C { float x; }
        interface IShape : IDifferentiable { associatedtype D : IFloat; [Differentiable] float area(float s); static int n(); }
        enum class E : uint { A = 1, /* x */ B, ///< second
            C = (1 << 2), }
        enum { LOOSE }
        union U { float x; int y; }
        typedef vector<float, 3> V3;
        typealias Vec<let N : int> = vector<float, N>;
        extern struct Op : IOp;
        export struct Op2 : IOp = Plus;
        struct Forward;
    """)
    kinds = [(s.name, s.kind) for s in parsed.structs]
    assert kinds == [
        *(
            ("C", "class"),
            ("IShape", "interface"),
            ("E", "enum"),
            ("", "enum"),
            ("U", "union"),
            ("V3", "typealias"),
        ),
        *(("Vec", "typealias"), ("Op", "struct"), ("Op2", "struct"), ("Forward", "struct")),
    ]
    by_name = {s.name: s for s in parsed.structs}
    assert [(f.name, f.doc) for f in by_name["E"].fields] == [("A", ""), ("B", "second"), ("C", "")]
    assert by_name["E"].bases == ("uint",)
    assert [(m.name, m.has_body, m.static) for m in by_name["IShape"].methods] == [
        ("area", False, False),
        ("n", False, True),
    ]
    assert by_name["V3"].bases == ("vector<float, 3>",)
    assert by_name["Vec"].generics == ("let N : int",)
    assert (by_name["Op"].bases, by_name["Op2"].bases) == (("IOp",), ("IOp",))


def test_extensions_are_apart() -> None:
    parsed = read(
        "extension float3 : IFoo { float len() { return 1; } }\nextension<T> S<T> { T twice(T x) { return x; } }\nfloat f();"
    )
    assert parsed.structs == ()
    first, second = parsed.extensions
    assert (first.name, first.bases, first.methods[0].in_struct) == ("float3", ("IFoo",), "float3")
    assert (second.name, second.generics, second.methods[0].name) == ("S<T>", ("T",), "twice")
    assert [f.qualified for f in parsed.functions if not f.in_struct] == ["f"]


def test_namespaces() -> None:
    parsed = read(
        "namespace a { float f(); namespace b::c { float g(); struct S {} } } namespace d.e { uniform float h; }"
    )
    assert [(f.qualified, f.namespace) for f in parsed.functions] == [
        ("a::f", "a"),
        ("a::b::c::g", "a::b::c"),
    ]
    assert parsed.structs[0].qualified == "a::b::c::S"
    assert parsed.globals[0].qualified == "d::e::h"


def test_structs_without_semicolons_and_with_variables() -> None:
    parsed = read("struct A { float x; }\nstruct B { float y; } b1, b2;\nfloat f(A a) { return a.x; }")
    assert [s.name for s in parsed.structs] == ["A", "B"]
    assert [(v.name, v.type) for v in parsed.globals] == [("b1", "B"), ("b2", "B")]
    assert [f.name for f in parsed.functions] == ["f"]
    # The compiler wants a `;` here; both are read, and the place is known.
    one_line = outline("struct A{float x;} struct B{float y;}")
    assert [s.name for s in one_line.structs] == ["A", "B"]
    assert one_line.errors == ((1, 20),)


# ----- globals, imports, directives -----


def test_globals() -> None:
    parsed = read("""
        uniform float gain;
        static const float pi = 3.14, table[2] = { 1, 2 };
        extern static const int K;
        export static const int L = vector<int, 2>(1, 2).x;
        groupshared float cache[64];
        RWStructuredBuffer<float> buffer : register(u0);
        let golden = 1.6;
        var total : float = 0;
        cbuffer Params : register(b0) { float4x4 view; float scale : packoffset(c0); }
        ParameterBlock<S> block;
    """)
    assert [(v.name, v.type, v.value) for v in parsed.globals] == [
        ("gain", "float", None),
        ("pi", "float", "3.14"),
        ("table", "float[2]", "{ 1, 2 }"),
        ("K", "int", None),
        ("L", "int", "vector<int, 2>(1, 2).x"),
        ("cache", "float[64]", None),
        ("buffer", "RWStructuredBuffer<float>", None),
        ("golden", "", "1.6"),
        ("total", "float", "0"),
        ("view", "float4x4", None),
        ("scale", "float", None),
        ("block", "ParameterBlock<S>", None),
    ]
    modifiers = {v.name: v.modifiers for v in parsed.globals}
    assert modifiers["gain"] == ("uniform",)
    assert modifiers["K"] == ("extern", "static", "const")
    assert modifiers["scale"] == ("cbuffer",)


def test_imports_and_includes() -> None:
    text = (
        "// größe\nimport poly;\n__exported import cells_2;\nimport sgl.device.print;\n"
        '/* α */ import "lib/x.slang";\n#include "a b.h"\n#  include <c/d.h> // import no;\n// import no;\n'
        '#if 0\nimport no;\n#include "no.h"\n#endif\nimport "..\\\\x";\n'
    )
    parsed = outline(text)
    assert [(i.name, i.quoted, i.exported, i.line, i.column) for i in parsed.imports] == [
        ("poly", False, False, 2, 8),
        ("cells_2", False, True, 3, 19),
        ("sgl.device.print", False, False, 4, 8),
        ("lib/x.slang", True, False, 5, 17),
        ("..\\x", True, False, 13, 9),
    ]
    written = [text.encode()[i.start_byte : i.end_byte].decode() for i in parsed.imports]
    assert written == ["poly", "cells_2", "sgl.device.print", "lib/x.slang", "..\\\\x"]
    assert [text[i.start : i.end] for i in parsed.imports] == written
    assert [(i.path, i.angled, i.line, i.column) for i in parsed.includes] == [
        ("a b.h", False, 6, 11),
        ("c/d.h", True, 7, 13),
    ]


def test_imports_in_a_broken_text() -> None:
    assert [i.name for i in outline("import a\nfloat f( { import b;\n}}} import c;").imports] == [
        "a",
        "b",
        "c",
    ]


def test_module_declaration() -> None:
    declared = outline("// x\n  module zork;\nfloat f();").module_declaration
    assert declared is not None
    assert (declared.name, declared.line, declared.column) == ("zork", 2, 3)
    quoted = outline('module "zork";').module_declaration
    assert quoted is not None
    assert quoted.name == "zork"
    assert outline("float module; // module x;").module_declaration is None


def test_macros() -> None:
    parsed = read(
        "#define K 1\n#define K 2\n#define SQ(x) ((x) * \\\n  (x))\n#undef K\n#if 0\n#define NO\n#endif\nfloat f();"
    )
    assert parsed.macros == ("K", "SQ")
    assert [f.line for f in parsed.functions] == [9]


def test_macros_that_stand_for_code() -> None:
    parsed = read("""
        #define BODY float hidden() { return 1; }
        #define REQUIRES where T : IFloat
        BODY
        DECLARE(a, b)
        DECLARE(c);
        T f<T>(T x)
        REQUIRES
        { return x; }
    """)
    assert [f.name for f in parsed.functions] == ["f"]


def test_branches_are_all_listed_except_dead_ones() -> None:
    parsed = read("""
        #ifdef FAST
        float a(float x) { return x; }
        #elif defined(SLOW)
        float a(float x) { return 2 * x; }
        float b(float x) { return x; }
        #else
        float c(float x) { return x; }
        #endif
        #if 0
        float dead(float x) { return x; }
        don't mind { this
        #endif
        #if 1
        float live() { return 1; }
        #elif X
        float dead2() { return 1; }
        #else
        float dead3() { return 1; }
        #endif
    """)
    assert [f.name for f in parsed.functions] == ["a", "b", "c", "live"]


def test_a_head_written_once_for_each_branch() -> None:
    parsed = read("""
        #ifdef A
        float f(float x) {
        #else
        float f(double x) {
        #endif
            return x;
        }
        float g(float x) { return x; }
    """)
    expected = ["f(float x) -> float", "f(double x) -> float", "g(float x) -> float"]
    assert [signature(f) for f in parsed.functions] == expected
    assert parsed.functions[0].excludes(parsed.functions[1])
    assert not parsed.functions[0].excludes(parsed.functions[2])
