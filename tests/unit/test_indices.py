"""Indices in the text: their types, which are converted, which are checked, and the way back from the columns."""

import random
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slanglab.cells.prepare import prepare
from slanglab.cells.resolve import MAIN
from slanglab.cells.versions import Unit
from slanglab.text import bounds
from slanglab.text.accesses import Accesses
from slanglab.text.diagnostics import SourceText
from slanglab.text.edits import Edit, rewrite
from slanglab.text.indices import convert
from slanglab.text.symbols import outline

HEAD = (
    "[Differentiable] void f(int i, uint u, uint3 tid, int2 p, IDiffTensor<float, 2> W, IDiffTensor<float, 1> x, "
    "Tensor<uint, 1> perm, DiffTensor<float, 1> d, IWDiffTensor<float, 1> y)"
)


def function(body: str, head: str = HEAD) -> str:
    return f"{head}\n{{\n{body}\n}}\n"


def read(text: str) -> Accesses:
    return Accesses.read(text, outline(text))


def compiled(text: str, *, check: bool = False, shown: str = "", first_line: int = 1):
    unit = Unit(text, shown=shown or text, first_line=first_line, bounds=check)
    source = SourceText("In[1]", tuple(unit.shown.split("\n")), first_line)
    return prepare(unit, outline(unit.shown), {}, {MAIN: source}, 0)


def converted(body: str, head: str = HEAD) -> str:
    lines = compiled(function(body, head)).rewritten.text.split("\n")
    return "\n".join(lines[2:-2])


# ----- edits -----


@settings(deadline=None)
@given(st.data())
def test_edits_compose_and_columns_lead_back(data) -> None:
    text = data.draw(st.text(alphabet="ab \nü", max_size=40))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    edits = [
        Edit(a, b, data.draw(st.text(alphabet="XYZ", max_size=5)))
        for a, b in zip(cuts[::2], cuts[1::2], strict=False)
    ]
    edits = [
        e for e, before in zip(edits, [None, *edits], strict=False) if not before or e.start > before.end
    ]
    result = rewrite(text, data.draw(st.permutations(edits)))
    old, new = text.split("\n"), result.text.split("\n")
    assert len(new) == len(old)
    for number, (was, now) in enumerate(zip(old, new, strict=True), 1):
        columns = [result.original_column(number, c) for c in range(1, len(now) + 2)]
        assert columns == sorted(columns)
        assert columns[-1] == len(was) + 1
        for c, column in zip(now, columns, strict=False):
            assert c in "XYZ" or was[column - 1] == c


# ----- types -----

TYPES = [
    ("", "i", "int"),
    ("", "u", "uint"),
    ("", "tid.x", "uint"),
    ("", "tid.zy", "uint2"),
    ("", "p.y", "int"),
    ("", "p[0]", "int"),
    ("", "i + u", "uint"),
    ("", "i + 1", "int"),
    ("", "2 * (i - 1)", "int"),
    ("", "i << u", "int"),
    ("", "u >> i", "uint"),
    ("", "-u", "uint"),
    ("", "!u", "uint"),
    ("", "!(i < u)", "bool"),
    ("", "-(i < u)", "int"),
    ("", "~u", "uint"),
    ("", "i < u", "bool"),
    ("", "i >> 1 >= 2", "bool"),
    ("", "(uint)i", "uint"),
    ("", "(i)", "int"),
    ("", "int(u) % 3", "int"),
    ("", "i ? u : i", "uint"),
    ("", "min(i, 3)", "int"),
    ("", "max(i, u)", "uint"),
    ("", "x.shape[0] - 1", "uint"),
    ("", "perm[i]", "uint"),
    ("", "perm.load(u)", "uint"),
    ("", "d._primal[i]", "float"),
    ("", "x[i]", "float"),
    ("", "1.5f", "float"),
    ("", "0x10u", "uint"),
    ("", "5000000000", "int64_t"),
    ("", "0xffffffff", "uint"),
    ("", "no_diff i", "int"),
    ("", "uint2(1, 2).x", "uint"),
    ("uint64_t big = 3;", "big + u", "uint64_t"),
    ("int16_t small = 3;", "small + small", "int16_t"),
    ("let k = u + 1;", "k", "uint"),
    ("var k = i, j = u;", "j", "uint"),
    ("let k : int = u;", "k", "int"),
    ("const uint n = 3;", "n", "uint"),
    ("static const uint n = 3;", "n", "uint"),
    ("int a[3] = {1, 2, 3};", "a[i]", "int"),
    ("uint a[2][3];", "a[0][i]", "uint"),
    ("uint a[2][3];", "a[0]", "uint[3]"),
    ("int q = 1, r[2], s = 2;", "r", "int[2]"),
    ("vector<uint, 3> v;", "v.x", "uint"),
    ("int32_t w;", "w", "int"),
    ("for (uint k = 0; k < 3; k++) { }", "i", "int"),
    ("for (uint i = 0; i < 3; i++) x[0];", "i", "int"),
    ("{ uint i = 1; }", "i", "int"),
    ("uint i = 1;", "i", "uint"),
    ("auto q = i;", "q", "int"),
    ("", "unknown", ""),
    ("", "unknown(i)", ""),
    ("", "N", "uint"),
    ("", "count(3)", "uint64_t"),
    ("", "twice(i)", ""),
    ("Point q;", "q.column", "uint"),
    ("Index q;", "q", "uint"),
    ("Kind k;", "k", "Kind"),
    ("", "Kind.B", "enum"),
]
DECLARED = (
    "static const uint N = 3; struct Point { int row; uint column; }; typealias Index = uint; enum Kind { A, B };\n"
    "uint64_t count(int n) { return n; } T twice<T>(T x) { return x; }\n"
)


@pytest.mark.parametrize(("before", "expression", "expected"), TYPES)
def test_the_type_of_an_index(before: str, expression: str, expected: str) -> None:
    text = DECLARED + function(f"{before}\nperm[{expression}];\n")
    accesses = read(text)
    last = next(a for a in reversed(accesses.found) if accesses.source(a).startswith(f"perm[{expression[0]}"))
    assert last.types == ("enum" if expected == "Kind" else expected,)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("for (uint i = 0; i < 3; i++) perm[i];", "uint"),
        ("for (uint i = 0; i < 3; i++) if (u) { perm[i]; } else perm[i + 1];", "uint"),
        ("for (uint i = 0; i < 3; i++) { }\nperm[i];", "int"),
        ("for (uint i = 0; i < 3; i++) if (u) u += 1; else u += 2;\nperm[i];", "int"),
        ("for (uint i = 0; i < 3; i++) for (;;) do { u += 1; } while (u < 3);\nperm[i];", "int"),
        ("{ let i = u; perm[i]; }", "uint"),
        ("if (let i = u) perm[i];", "uint"),
        ("int q = u ? perm[u] : perm[i * u];", "uint"),
        ("u = u ? x[i] : W[0, 0] * i; perm[i];", "int"),
    ],
)
def test_what_a_name_means_ends_with_its_block(body: str, expected: str) -> None:
    accesses = read(function(body))
    found = [a.types[0] for a in accesses.found if accesses.source(a).startswith("perm")]
    assert found == [expected] * len(found)


def test_deep_and_odd_expressions_are_unknown_and_quick() -> None:
    deep = "(" * 4000 + "u" + ")" * 4000
    doubling = "let a0 = u;" + "".join(f"let a{n + 1} = a{n} + a{n};" for n in range(400))
    accesses = read(
        function(f"{doubling}\nperm[{deep}]; perm[a400]; perm[a3]; perm[+]; perm[1 +]; perm[i i]; perm[")
    )
    types = {accesses.source(a)[:9]: a.types for a in accesses.found}
    assert types["perm[(((("] == ("",)
    assert types["perm[a3]"] == ("uint",)


# ----- conversions -----

LINEAR = """import "slangpy";
[Differentiable]
void linear_layer(int idx, IDiffTensor<float, 2> weights, IDiffTensor<float, 1> bias,
    IDiffTensor<float, 1> input, IWDiffTensor<float, 1> output)
{
    uint in_features = weights.shape[1];
    float sum = bias[idx];
    [MaxIters(8)] for (uint i = 0; i < in_features; i++) {
        sum += weights[idx, i] * input[i];
    }
    output[idx] = sum;
}
"""


def test_the_documents_linear_layer_is_compiled_with_int_and_a_note_says_so() -> None:
    prepared = compiled(LINEAR, first_line=2)
    line = "        sum += weights[idx, i] * input[int(i)];"
    assert prepared.rewritten.text == LINEAR.replace("        sum += weights[idx, i] * input[i];", line)
    (note,) = prepared.diagnostics
    assert (note.severity, note.code, note.cell, note.line) == ("note", "mixed-index-types", "In[1]", 10)
    written = LINEAR.split("\n")[8]
    assert written[note.column - 1 : note.end_column - 1] == "input[i]"
    assert "input[int(i)]" in note.hint
    assert "`input[i]`" in note.text
    assert "uint" in note.text
    for column, character in enumerate(line, 1):
        back = prepared.rewritten.original_column(9, column)
        inserted = line.index("int(") < column <= line.index("int(") + 4 or column == line.index(")") + 1
        assert inserted or written[back - 1] == character


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y[i] = x[u];", "y[i] = x[int(u)];"),
        ("y[u] = x[i];", "y[int(u)] = x[i];"),
        ("y[i] = x[0] * x[tid.x + 1];", "y[i] = x[0] * x[int(tid.x + 1)];"),
        ("y[i] = W[i, u] * x[x.shape[0] - 1];", "y[i] = W[i, u] * x[int(x.shape[0] - 1)];"),
        ("y.store(i, x.load(u));", "y.store(i, x.load(int(u)));"),
        ("y[i] = x[perm[u]] * x[1u];", "y[i] = x[int(perm[u])] * x[int(1u)];"),
        ("y[i] = x[(int64_t)i] /* x[u] */; // x[u]", "y[i] = x[int((int64_t)i)] /* x[u] */; // x[u]"),
        ("y[i] = W[i, 0] * x[u\n+ 1];", "y[i] = W[i, 0] * x[int(u\n+ 1)];"),
        ("#if 0\ny[i] = x[u];\n#endif\ny[i] = x[u];", "#if 0\ny[i] = x[u];\n#endif\ny[i] = x[int(u)];"),
        ("let t = x; y[i] = t[u];", "let t = x; y[i] = t[int(u)];"),
        ("IDiffTensor<float, 1> t = x; y[i] = t[u];", "IDiffTensor<float, 1> t = x; y[i] = t[int(u)];"),
        ("y[u] = x[u];", "y[int(u)] = x[int(u)];"),
    ],
)
def test_what_is_converted(body: str, expected: str) -> None:
    assert converted(body) == expected


@pytest.mark.parametrize(
    "body",
    [
        "y[i] = W[i, u] * x[i];",  # one meaning only
        "y[i] = x[i] * d[u] * float(perm[u]);",  # concrete types
        "y[i] = x[foo(i)] * x[i];",  # cannot be told
        "y[u] = W[p] * x[u];",  # all are vectors as it stands
        "y[u] = x[foo(i)];",  # perhaps all are
        "y[i] = x[i < u] * x[Kind.B] * x[1.0];",  # these become ints by themselves
        "float a[3]; y[i] = a[u];",
        'y[i] = x[i]; string s = "x[u]";',
        "#define AT x[u]\ny[i] = x[i];",
    ],
)
def test_what_is_left_alone(body: str) -> None:
    text = DECLARED + function(body)
    prepared = compiled(text)
    assert prepared.rewritten.text == text
    assert not prepared.touched
    assert not prepared.diagnostics


@pytest.mark.parametrize(
    "head",
    [
        HEAD.replace("[Differentiable] ", ""),
        "[Differentiable] void f<X : IDiffTensor<float, 1>>(int i, uint u, X x, IWDiffTensor<float, 1> y)",
        HEAD.replace("IDiffTensor", "DiffTensor").replace("IWDiffTensor", "WDiffTensor"),
        HEAD.replace("IDiffTensor<float, 1> x", "ITensor<float, 1> x"),
    ],
)
def test_functions_that_need_nothing(head: str) -> None:
    assert converted("y[i] = x[u];", head) == "y[i] = x[u];"


def test_functions_that_call_each_other_count_together() -> None:
    inner = "[Differentiable] float g(IDiffTensor<float, 1> x, uint u) { return x[u]; }\n"
    prepared = compiled(inner + function("y[i] = g(x, u);"))
    assert "return x[int(u)];" in prepared.rewritten.text
    (note,) = prepared.diagnostics
    assert note.line == 1
    assert "`y[i]`" in note.text
    # nobody indexes by int here, but another cell that calls it may: converted, with nothing to say
    alone = compiled(inner)
    assert "return x[int(u)];" in alone.rewritten.text
    assert not alone.diagnostics
    beside_a_vector = (
        inner + "[Differentiable] float h(IDiffTensor<float, 2> W, IDiffTensor<float, 1> x, uint u)"
    )
    assert compiled(beside_a_vector + " { return W[int2(0, 1)] * g(x, u); }").rewritten.text.startswith(inner)


@pytest.mark.parametrize(
    ("body", "rewritten"),
    [
        ("y[i] = W[p];", "y[i] = W[p.y, p.x];"),
        ("y[i] = W[int2(u, i + 1)];", "y[i] = W[i + 1, u];"),
        ("int a[2] = {0, 1}; y[i] = W[a];", "int a[2] = {0, 1}; y[i] = W[a[0], a[1]];"),
        ("y[i] = W.load(p);", "y[i] = W.load(p.y, p.x);"),
        ("y[i] = W[p + 1];", ""),
    ],
)
def test_vectors_beside_single_numbers_are_warned_of_and_left_alone(body: str, rewritten: str) -> None:
    prepared = compiled(function(body))
    assert prepared.rewritten.text == function(body)
    (warning,) = prepared.diagnostics
    assert (warning.severity, warning.code, warning.line) == ("warning", "mixed-index-kinds", 3)
    assert rewritten in warning.hint
    assert "W" in warning.text
    assert "`y[i]`" in warning.text


def test_methods_see_their_fields_and_globals() -> None:
    text = (
        "static const uint N = 1;\nstruct Net { uint k; [Differentiable] float at(int i, IDiffTensor<float, 1> x)\n"
        "{ return x[i] * x[k] * x[this.k] * x[N]; } };\n"
    )
    assert "x[i] * x[int(k)] * x[int(this.k)] * x[int(N)]" in compiled(text).rewritten.text


# ----- checks -----


def checked(body: str, head: str = HEAD) -> str:
    return "\n".join(compiled(function(body, head), check=True).rewritten.text.split("\n")[2:-2])


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("d[i];", "d[slanglab_in(i, d.shape, 0)];"),
        ("W[i, u];", "W[slanglab_at(i, W.shape, 0, 0), slanglab_at(u, W.shape, 1, 0)];"),
        ("W[p];", "W[slanglab_in(p, W.shape, 0)];"),
        ("W.load(i, 1);", "W.load(slanglab_at(i, W.shape, 0, 0), slanglab_at(1, W.shape, 1, 0));"),
        ("y.store(i, d[0]);", "y.store(slanglab_in(i, y.shape, 0), d[slanglab_in(0, d.shape, 1)]);"),
        ("d._grad_out.add(i, 1.0);", "d._grad_out.add(slanglab_in(i, d._grad_out.shape, 0), 1.0);"),
        (
            "d[perm[tid.x]];",
            "d[slanglab_in(perm[slanglab_in(tid.x, perm.shape, 1)], d.shape, 0)];",
        ),
        ("y[i] = x[u];", "y[slanglab_in(i, y.shape, 0)] = x[int(slanglab_in(u, x.shape, 1))];"),
        ("d[i++];", "d[slanglab_in(i++, d.shape, 0)];"),
        ("d.shape[3]; float a[2]; a[5];", "d.shape[3]; float a[2]; a[5];"),
    ],
)
def test_every_index_goes_through_its_check(body: str, expected: str) -> None:
    assert checked(body) == expected


def test_tensors_in_structs_arrays_and_generic_parameters() -> None:
    head = "void f<T : ITensor<float, 1>>(int i, Net net, T t, Tensor<float, 1> ts[2])"
    struct = "struct Net { RWTensor<float, 2> w; float at(int i) { return w[i, 0]; } };\n"
    text = struct + function("net.w[i, 0] = t[i] + ts[1][i];", head)
    result = compiled(text, check=True).rewritten.text
    assert "return w[slanglab_at(i, w.shape, 0, 0), slanglab_at(0, w.shape, 1, 0)];" in result
    assert "net.w[slanglab_at(i, net.w.shape, 0, 1)" in result
    assert "t[slanglab_in(i, t.shape, 2)] + ts[1][slanglab_in(i, ts[1].shape, 3)]" in result


def test_places_name_function_tensor_and_line() -> None:
    prepared = compiled(function("y[i] = d[i];"), check=True, first_line=5)
    assert {n: (p.cell, p.function, p.tensor, p.line) for n, p in prepared.places.items()} == {
        0: ("In[1]", "f", "y", 7),
        1: ("In[1]", "f", "d", 7),
    }


@pytest.mark.parametrize(
    ("body", "line", "says"),
    [
        ("ts[next()][i];", 3, "ts[next()][i]"),
        ("ts[i++][i];", 3, "ts[i++][i]"),
        ("1;\n#define AT(t, i) t[i]\n2;", 4, "macro"),
        ("1;\n#define AT(t, i) t.load(i)\n2;", 4, "macro"),
        ("ts[0].read_buffer(i);", 3, "read_buffer"),
        ("ts[0]._data[i];", 3, "_data"),
    ],
)
def test_what_cannot_be_checked_is_named(body: str, line: int, says: str) -> None:
    text = function(body, "void f(int i, Tensor<float, 1> ts[2])")
    prepared = compiled(text, check=True)
    (warning,) = prepared.diagnostics
    assert (warning.code, warning.severity, warning.line) == ("unchecked-index", "warning", line)
    assert says in warning.text
    assert prepared.rewritten.text == text


def test_without_the_option_nothing_is_checked() -> None:
    text = function("d[i];")
    assert compiled(text).rewritten.text == text


def test_lines_that_the_compiler_does_not_take_are_left_and_named() -> None:
    text = function("d[i];\nd[u];")
    checks = bounds.checks(read(text), frozenset({3}))
    assert len(checks.sites) == 1
    (warning,) = checks.unchecked
    assert warning.line == 3


# ----- included files -----


def test_messages_and_columns_of_included_files_are_their_own() -> None:
    inner = "[Differentiable] float g(int i, uint u, IDiffTensor<float, 1> x) { return x[i] * x[u]; }"
    text = f'float a;\n#line 1 "inc"\n{inner}\n#line 4 "{MAIN}"\nfloat b;\n{function("y[i] = x[u];")}'
    shown = f'float a;\n#include "g.slang"\nfloat b;\n{function("y[i] = x[u];")}'
    unit = Unit(text, shown=shown, first_line=2, included=(("inc", "/g.slang", inner),), bounds=True)
    sources = {
        MAIN: SourceText("In[1]", tuple(shown.split("\n")), 2),
        "inc": SourceText("/g.slang", (inner,)),
    }
    prepared = prepare(unit, outline(shown), {}, sources, 10)
    found = {(d.cell, d.line) for d in prepared.diagnostics}
    assert found == {("/g.slang", 1), ("In[1]", 7)}
    assert [(p.cell, p.line) for p in prepared.places.values()] == [
        ("/g.slang", 1),
        ("/g.slang", 1),
        ("In[1]", 7),
        ("In[1]", 7),
    ]
    assert min(prepared.places) == 10


# ----- any text -----

WORDS = """
f g x y W i u p tid perm d [Differentiable] void float int uint for ( ) { } [ ] < > , ; . :: = + - * / ? : 0
1u 2.5 let var if else IDiffTensor<float,1> IWDiffTensor<float,2> Tensor<uint,1> struct load store add shape
no_diff return while do #if #endif // /*
"""


def texts() -> Iterator[str]:
    seed = random.randrange(2**32)
    print("seed", seed)
    rng = random.Random(seed)
    for _ in range(300):
        words = rng.choices(WORDS.split(), k=rng.randrange(120))
        body = "".join(w + rng.choice([" ", " ", "\n", ""]) for w in words)
        yield rng.choice([body, function(body), LINEAR[: rng.randrange(len(LINEAR))] + body])


def test_any_text_is_read_without_an_error_and_loses_nothing() -> None:
    for text in texts():
        prepared = compiled(text, check=True)
        result = prepared.rewritten.text
        assert result.count("\n") == text.count("\n")
        for number, (old, new) in enumerate(zip(text.split("\n"), result.split("\n"), strict=True), 1):
            back = [prepared.rewritten.original_column(number, c) for c in range(1, len(new) + 2)]
            kept = "".join(c for c, here, after in zip(new, back, back[1:], strict=False) if after > here)
            assert kept == old
        for d in (*prepared.diagnostics, *convert(read(text)).diagnostics):
            assert 1 <= d.line <= text.count("\n") + 1
