"""The report under a cell, as HTML and as text: what it says, and what it does with hostile text."""

import random
from html.parser import HTMLParser

import pytest
from slangpy_texts import COMPILES, messages

from slanglab.cells.report import CellReport, FunctionRow, ParameterRow
from slanglab.errors import CallError, DeviceError, SlangLabError
from slanglab.messages.call_errors import KernelError
from slanglab.messages.hints import hint
from slanglab.text.diagnostics import GENERATED, Diagnostic, SourceText
from slanglab.widgets import errors, report
from slanglab.widgets.excerpt import excerpt, visible, width

P, F = ParameterRow, FunctionRow
ROWS = (
    F(
        "f",
        (
            P("x", "float", gradient=True),
            P("a", "float", gradient=True),
            P("b", "float", default="8.0", gradient=True),
        ),
        "float",
        True,
        "Quadratic with a soft clamp.\nMore.",
    ),
    F("soft", (P("y", "float", gradient=True), P("k", "float", "no_diff")), "float", True),
    F("bucket", (P("x", "float"), P("n", "int")), "int", False),
    F("store", (P("v", "float", "out"),), "void", False, note="overloaded: call `m['store(float)']`"),
    F("Ray", (P("o", "float3"), P("t", "float")), "", False, kind="struct"),
)
EVIL = "<img src=x onerror=alert(1)>\"'&`</style><script>"
ALLOWED = {"section", "style", "div", "b", "span", "svg", "path", "table", "thead", "tbody", "tr", "th", "td", "u", "code",
           "pre", "i", "dl", "dt", "dd", "details", "summary", "br", "bdi"}  # fmt: skip


class Page(HTMLParser):
    """Checks that elements nest, and keeps what can be read."""

    def __init__(self, html):
        super().__init__()
        self.open, self.text, self.tags, self.attributes, self.styles = [], [], [], [], []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        assert tag in ALLOWED, tag
        self.tags.append(tag)
        self.attributes += [(tag, k, v) for k, v in attrs]
        if tag not in ("br", "path"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        assert tag == "path"

    def handle_endtag(self, tag):
        if tag != "path":
            assert self.open.pop() == tag

    def handle_data(self, data):
        (self.styles if self.open and self.open[-1] == "style" else self.text).append(data)

    @property
    def words(self):
        return " ".join("".join(self.text).split())


def read(html):
    page = Page(html)
    assert {k for _, k, _ in page.attributes} <= {
        "class", "aria-label", "aria-hidden", "scope", "title", "tabindex", "role", "viewbox", "width", "height", "data-before"
    }  # fmt: skip
    return page


def at(line, column, end, text, source, **more):
    around = SourceText("In[7]", tuple(source), 1).around(line)
    more = {"severity": "error", "code": "E30015", "title": "undefined identifier", "cell": "In[7]", **more}
    return Diagnostic(text=text, line=line, column=column, end_column=end, source=around, **more)


SOURCE = [
    "%%slang poly",
    "",
    "[Differentiable]",
    "float f(float x, float a)",
    "{",
    "    return soft(aa * x + c);",
    "}",
]
UNKNOWN = at(6, 17, 19, "undefined identifier 'aa'", SOURCE, hint="did you mean the parameter `a` (line 4)?")
OTHER = at(6, 26, 27, "undefined identifier 'c'", SOURCE)


# ----- states -----


def test_compiled():
    r = CellReport(
        "poly",
        "compiled",
        "Vulkan, llvmpipe",
        42.0,
        ROWS,
        ("geom",),
        ("poly", "f"),
        (),
        "the text changed",
        ("train",),
    )
    page = read(report.html(r))
    for words in (
        "poly ✓ compiled",
        "4 functions, 1 struct",
        "42 ms",
        "Vulkan, llvmpipe",
        "imports geom",
        "f(float x, float a, float b = 8.0) → float",
        "Quadratic with a soft clamp. …",
        "∂ differentiable",
        "no derivative",
        "store(out float v)",
        "overloaded: call m['store(float)']",
        "struct Ray { float3 o; float t }",
        "bound: poly, f",
        "also recompiled: train",
    ):
        assert words in page.words, words
    assert page.tags.count("u") == 4  # one for each parameter that receives a gradient
    assert "the text changed" not in page.words
    assert "compiled because the text changed" in read(report.html(r, verbose=True)).words

    assert report.text(r) == (
        "poly: compiled, 42 ms (Vulkan, llvmpipe)\n"
        "  f(float x, float a, float b = 8.0) -> float\n"
        "      differentiable in x, a, b\n"
        "  soft(float y, no_diff float k) -> float\n"
        "      differentiable in y\n"
        "  bucket(float x, int n) -> int\n"
        "      no derivative\n"
        "  store(out float v)\n"
        "      no derivative\n"
        "      overloaded: call `m['store(float)']`\n"
        "  struct Ray { float3 o; float t }\n"
        "  bound: poly, f; also recompiled: train"
    )
    assert "compiled because the text changed" in report.text(r, verbose=True)


def test_unchanged_is_one_line():
    r = CellReport("poly", "unchanged", "Vulkan", 4.2, ROWS, bound=("poly",))
    page = read(report.html(r))
    assert "unchanged" in page.words
    assert "4 functions, 1 struct, bound again" in page.words
    assert "4.2 ms" in page.words
    assert "table" not in page.tags
    assert report.text(r) == "poly: unchanged, 4.2 ms"


def test_warnings():
    w = at(6, 5, 11, "only the last round", SOURCE, severity="warning", code="nested-max-iters", title="a loop loses gradient",
           hint="write `[ForceUnroll]`")  # fmt: skip
    r = CellReport(
        "fit",
        "compiled",
        "Vulkan",
        3.0,
        ROWS[:1],
        left_alone=(("loss", "is a Python function of yours; use `fit.loss`"),),
        diagnostics=(w,),
    )
    page = read(report.html(r))
    for words in ("⚠ compiled, 1 warning", "a loop loses gradient", "In[7], line 6, column 5", "hint", "write [ForceUnroll]",
                  "rule", "nested-max-iters", "left alone: loss is a Python function of yours; use fit.loss"):  # fmt: skip
        assert words in page.words, words
    text = report.text(r)
    assert "compiled, 1 warning" in text
    assert "  warning: In[7], line 6, column 5\n" in text
    assert "left alone: loss is a Python function of yours" in text


def test_failed():
    r = CellReport(
        "poly", "failed", diagnostics=(UNKNOWN, OTHER), runs_version="In[5], 14:02:11", gone_stale=("train",)
    )
    page = read(report.html(r))
    for words in (
        "✗ does not compile",
        "E30015 undefined identifier",
        "In[7], line 6, column 17",
        "^^ undefined identifier 'aa'",
        "did you mean the parameter a (line 4)?",
        "line 6, column 26: undefined identifier 'c'",
        "poly still runs the version of In[5], 14:02:11",
        "stale now: train",
    ):
        assert words in page.words, words
    assert report.text(r) == (
        "poly: does not compile, E30015 undefined identifier\n"
        "  In[7], line 6, column 17\n"
        "   4 | float f(float x, float a)\n"
        "   5 | {\n"
        "   6 |     return soft(aa * x + c);\n"
        "     |                 ^^ undefined identifier 'aa'\n"
        "   7 | }\n"
        "  hint: did you mean the parameter `a` (line 4)?\n"
        "  also: line 6, column 26: undefined identifier 'c'\n"
        "  poly still runs the version of In[5], 14:02:11\n"
        "  stale now: train"
    )


def test_stale():
    r = CellReport("train", "stale", imports=("poly",), runs_version="In[6], 14:02:11")
    words = read(report.html(r)).words
    assert "stale runs the version of In[6], 14:02:11" in words
    assert "poly, which it imports, does not compile. Once that compiles, train follows by itself." in words
    assert "runs the version of In[6], 14:02:11" in report.text(r)


def test_messages_about_generated_code_have_no_place():
    d = Diagnostic("warning", "E30081", "implicit conversion", GENERATED, generated=True)
    r = CellReport("poly", "compiled", "Vulkan", 1.0, diagnostics=(d,))
    assert GENERATED in read(report.html(r)).words
    assert GENERATED in report.text(r)
    assert "line 0" not in report.html(r) + report.text(r)


def test_a_note_shows_its_line():
    (d,) = messages("dup", cell="In[7]")
    page = read(report.html(CellReport("In[7]", "failed", diagnostics=(d,))))
    assert "see previous definition of 'f' (line 1, column 7)" in page.words
    assert page.words.count("float f(float x){return x;}") == 2  # in the excerpt, and under the note


@pytest.mark.parametrize("case", sorted(COMPILES))
def test_real_messages_in_both_forms(case):
    found = tuple(d.with_hint(hint(d) or "") for d in messages(case))
    state = "failed" if any(d.severity == "error" for d in found) else "compiled"
    r = CellReport("poly", state, "Vulkan", 1.0, diagnostics=found)
    page, text = read(report.html(r)), report.text(r)
    for d in found:
        if d.text and not d.generated and len(d.text) < 100:
            assert " ".join(visible(d.text).split()) in page.words
            assert visible(d.text) in text


def test_the_carets_stand_under_the_word_in_text():
    for case in COMPILES:
        for d in messages(case):
            lines = excerpt(d)
            for line in lines:
                if line.hit and line.text.isascii():
                    own = dict(d.source)[d.line]
                    assert line.text[line.indent : line.indent + line.carets] == visible(
                        own[d.column - 1 : d.end_column - 1]
                    )


# ----- errors -----


def test_call_refused():
    e = CallError(
        "poly.f: the shape of y does not fit",
        function="poly.f",
        argument="y",
        expected="shape (4,)",
        given="shape (5,)",
        hint="write `.map(…)`",
        details="Shape mismatch\n" * 84,
    )
    page = read(errors.html(e))
    joined = page.words.replace(" ", "")  # keys and values stand in elements of their own
    for words in (
        "poly.f ✗ call refused argument y",
        "The shape of y does not fit",
        "expected shape (4,)",
        "given shape (5,)",
    ):
        assert words.replace(" ", "") in joined, words
    assert "full message, 84 lines" in page.words
    assert "details" in page.tags
    assert errors.text(e) == (
        "poly.f: call refused, argument y\n"
        "  The shape of y does not fit\n"
        "  expected: shape (4,)\n"
        "  given: shape (5,)\n"
        "  hint: write `.map(…)`"
    )


def test_kernel_error_shows_the_users_line():
    e = KernelError(
        "poly.f: its kernel does not compile", diagnostics=(UNKNOWN,), function="poly.f", details="long"
    )
    words = read(errors.html(e)).words
    assert "its kernel does not compile" in words
    assert "^^ undefined identifier 'aa'" in words
    assert "   6 |     return soft(aa * x + c);" in errors.text(e)


def test_errors_with_a_report_show_it():
    class CompileError(SlangLabError):
        name = "poly"
        diagnostics = (UNKNOWN,)

    e = CompileError("poly does not compile")
    assert "✗ does not compile" in read(errors.html(e)).words
    assert errors.text(e).startswith("poly: does not compile")


def test_other_errors():
    for e in (
        SlangLabError("there is no kernel", hint="run it"),
        DeviceError("no device", hint="`make setup-device`"),
    ):
        assert e.message in read(errors.html(e)).words
        assert e.message in errors.text(e)
        assert e.hint in errors.text(e)


# ----- hostile and long -----


def evil_report(state="compiled", text=EVIL):
    note = Diagnostic("note", text, text, text, text, 1, 1, 2, ((1, text),))
    d = Diagnostic(
        "error" if state == "failed" else "warning",
        text,
        text,
        text,
        text,
        1,
        1,
        5,
        ((1, text), (2, text)),
        (note,),
        f"`{text}` {text}",
    )
    row = F(text, (P(text, text, text, text, True), P(text, text, text, text)), text, True, text, note=text)
    names = (text, text)
    return CellReport(
        text, state, text, 1.0, (row, row), names, names, ((text, text),), text, names, names, (d, d), text
    )


@pytest.mark.parametrize("state", ["compiled", "unchanged", "failed", "stale"])
def test_markup_in_every_field_is_text(state):
    page = read(report.html(evil_report(state), verbose=True))
    assert "script" not in page.tags
    assert "img" not in page.tags
    assert all("<" not in style for style in page.styles)
    assert "<img src=x onerror=alert(1)>" in page.words


def test_markup_in_errors_is_text():
    e = CallError(EVIL, function=EVIL, argument=EVIL, expected=EVIL, given=EVIL, hint=EVIL, details=EVIL)
    assert "<img src=x onerror=alert(1)>" in read(errors.html(e)).words
    read(
        errors.html(
            KernelError(
                EVIL, diagnostics=evil_report("failed").diagnostics, function=EVIL, hint=EVIL, details=EVIL
            )
        )
    )


@pytest.mark.parametrize(
    "character",
    ["\u202e", "\u2066", "\u200d", "\u200b", "\x00", "\x1b", "\u2028", "\ud800", "\u00a0", "\ufeff"],
)
def test_characters_that_hide_or_reorder_are_written_out(character):
    text = f"a{character}b"
    assert visible(text) == f"a\\u{ord(character):04x}b"
    r = evil_report("failed", text)
    for shown in (report.html(r), report.text(r), errors.html(CallError(text, function=text, details=text))):
        assert character not in shown
        assert f"a\\u{ord(character):04x}b" in shown
        shown.encode("utf-8")


def test_right_to_left_words_are_isolated():
    html = report.html(
        CellReport("poly", "compiled", functions=(F("שלום", (P("b", "int"),), "void", False),))
    )
    assert "<bdi>שלום</bdi>" in html


def test_carets_stand_under_the_word_in_any_line():
    seed = random.randrange(2**32)
    print("seed", seed)
    rng = random.Random(seed)
    for _ in range(500):

        def noise():
            length = rng.choice([0, 5, 40, 300, 2000])
            return "".join(rng.choice("ab (){};\t\u00e9\u6f22\u202e\u0301\u05d0") for _ in range(length))

        before, after = noise(), noise()
        line = f"{before}WORD{after}"
        start = len(before) + 1
        d = Diagnostic("error", "", "t", "", "c", 1, start, start + 4, source=((1, line), (2, "x" * 2000)))
        hit, below = excerpt(d)
        assert width(hit.text[: hit.text.index("WORD")]) == hit.indent
        assert hit.carets == 4
        assert width(hit.text) <= 162
        assert hit.text.endswith(visible(line[-1:]).strip() or " ") or hit.text.endswith("…")
        assert "…" in below.text
        assert len(below.text) <= 162


def test_a_line_of_a_megabyte_is_cut_around_the_place():
    line = "x + " * 2**18 + "lost" + " + x" * 2**18
    column = line.index("lost") + 1
    d = at(1, column, column + 4, "undefined identifier 'lost'", [line])
    r = CellReport("poly", "failed", diagnostics=(d,))
    html, text = report.html(r), report.text(r)
    assert len(html) < 20_000
    assert "lost" in text
    caret = next(x for x in text.split("\n") if "^^^^" in x)
    source = text.split("\n")[text.split("\n").index(caret) - 1]
    assert source[caret.index("^") : caret.index("^") + 4] == "lost"
    assert f"column {column}" in text


def test_fewer_than_200_lines_whatever_the_cell_holds():
    many = tuple(
        at(6, 17, 19, f"undefined identifier 'u{i}'", SOURCE, hint="x " * 400, notes=(UNKNOWN,) * 20)
        for i in range(3000)
    )
    parameters = tuple(P(f"p{k}", "float", gradient=True) for k in range(3000))
    rows = tuple(
        F(
            f"f{i}",
            parameters,
            "float",
            True,
            "doc\n" * 99,
        )
        for i in range(400)
    )
    names = tuple(f"n{i}" for i in range(5000))
    for state in ("compiled", "unchanged", "failed", "stale"):
        for found in (
            many,
            tuple(
                Diagnostic(
                    "warning", d.code, d.title, d.text, d.cell, d.line, d.column, d.end_column, d.source
                )
                for d in many
            ),
        ):
            r = CellReport(
                "x" * 5000,
                state,
                "d" * 5000,
                1.0,
                rows,
                names,
                names,
                ((("y" * 5000), "z" * 5000),) * 300,
                "r" * 5000,
                names,
                names,
                found,
                "v" * 5000,
            )
            text = report.text(r, verbose=True)
            assert text.count("\n") < 200
            assert max(map(len, text.split("\n"))) < 500
            read(report.html(r, verbose=True))


def test_forty_functions_are_folded_and_counted():
    rows = tuple(F(f"function_{i}", (P("x", "float"),), "float", False) for i in range(40))
    page = read(report.html(CellReport("many", "compiled", functions=rows)))
    assert "details" in page.tags
    assert "28 more" in page.words
    for row in rows:
        assert f"{row.name}(" in page.words
    assert "40 functions" in page.words
