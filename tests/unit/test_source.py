"""Pasted text: what is made regular, what is refused and where, names of modules, and imports put to other names."""

from __future__ import annotations

import keyword
import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slanglab.text.diagnostics import Diagnostic
from slanglab.text.source import clean, python_name, rewrite_imports, valid_name
from slanglab.text.tokens import scan

F = "float f(float x) {\n    return x + 1;\n}\n"

# Characters and pieces that mean something to one of the rules, so that random texts meet them often.
PIECES = [
    *"ab1 \t\n{}()<>[];,.\"'\\/*#=-+_R",
    *(
        "\r",
        "\r\n",
        "\f",
        "\v",
        "\x85",
        "\u2028",
        "\u2029",
        "\ufeff",
        "\u00a0",
        "\u202e",
        "\u2066",
        "\u200b",
        "\u200d",
    ),
    *(
        "\0",
        "\x1b",
        "\x7f",
        "\ud800",
        "\udfff",
        "\N{MINUS SIGN}",
        "\N{LEFT DOUBLE QUOTATION MARK}",
        "µ",
        "α",
        "𝑥",
        "é",
        "漢",
    ),
    *(
        "//",
        "/*",
        "*/",
        'R"(',
        ')"',
        "#if 0\n",
        "#else\n",
        "#endif\n",
        "import a;",
        "import b.c;",
        'import "d";',
        "\\\n",
    ),
]
texts = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=3)), max_size=40).map("".join)
well_formed = st.lists(
    st.sampled_from([F, "// α\n", "/* ß */ ", "import a;\n", "float x;\n", "\n", "  "])
).map("".join)


def found(text: str) -> list[tuple[str, str, int, int]]:
    return [(d.severity, d.code, d.line, d.column) for d in clean(text)[1]]


def only(text: str) -> Diagnostic:
    (diagnostic,) = clean(text)[1]
    return diagnostic


# ----- what is made regular -----


@pytest.mark.parametrize("end", ["\r\n", "\r"])
@settings(deadline=None)
@given(text=well_formed)
def test_line_ends_do_not_matter(end: str, text: str) -> None:
    assert clean(text.replace("\n", end)) == clean(text)


@settings(deadline=None)
@given(text=well_formed, blank=st.integers(0, 3))
def test_byte_order_mark_and_last_newline_do_not_matter(text: str, blank: int) -> None:
    assert clean("\ufeff" + text.rstrip("\n") + "\n" * blank)[0] == clean(text)[0]


@settings(deadline=None)
@given(text=texts)
def test_clean_text_is_clean(text: str) -> None:
    cleaned, diagnostics = clean(text)
    assert clean(cleaned) == (cleaned, diagnostics)


@settings(deadline=None)
@given(text=texts)
def test_nothing_is_dropped(text: str) -> None:
    """Only line ends and white space change: every other character is still there, in its order."""

    def rest(s: str) -> str:
        return "".join(c for c in s if not (c.isspace() or c == "\x85"))

    assert rest(clean(text)[0]) == rest(text.lstrip("\ufeff"))


@settings(deadline=None)
@given(text=texts)
def test_columns_and_lines_stay_those_of_the_editor(text: str) -> None:
    """JupyterLab and CPython end a line at LF, CR LF and CR, and at nothing else."""
    cleaned = clean(text)[0]
    editor = text.lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n").rstrip("\n").split("\n")
    if cleaned:
        assert [len(line) for line in cleaned[:-1].split("\n")] == [len(line) for line in editor]


@pytest.mark.parametrize("space", ["\f", "\v", "\x85", "\u2028", "\u2029"])
def test_rare_white_space_becomes_a_space_outside_strings(space: str) -> None:
    cleaned, diagnostics = clean(f"float{space}x; // a{space}b\n#define{space}K 1\n")
    assert cleaned == "float x; // a b\n#define K 1\n"
    assert diagnostics == []
    assert space in clean(f'String s = "a{space}b";')[0]


def test_empty_text() -> None:
    assert clean("") == clean("\n\r\n") == clean("\ufeff") == ("", [])


def test_tabs_unicode_comments_and_greek_names_are_fine() -> None:
    text = "// größer 漢字 שלום 🙂\n/* наклон */\tfloat α(float Δx, float µ) { return α_0 * Δx; }\n"
    assert clean(text) == (text, [])


# ----- what is refused, and where -----


@pytest.mark.parametrize("before", ["", "α = ", "\t"])
@pytest.mark.parametrize(
    ("character", "code"),
    [
        ("\0", "control-character"),
        ("\x1b", "control-character"),
        ("\x7f", "control-character"),
        ("\ud800", "lone-surrogate"),
    ],
)
def test_control_characters_are_refused_everywhere(before: str, character: str, code: str) -> None:
    for line in (
        f"{before}x{character}y;",
        f"// {before}{character}",
        f'"{before}{character}"',
        f"#if 0\n{character}\n#endif",
    ):
        text = f"{F}{line}\n"
        place = text.index(character)
        row, column = text.count("\n", 0, place) + 1, place - text.rfind("\n", 0, place)
        assert found(text) == [("error", code, row, column)]
        assert clean(text)[0] == text


def test_a_form_feed_in_a_string_is_refused() -> None:
    assert found('String s = "a\fb";') == [("error", "control-character", 1, 14)]


@pytest.mark.parametrize(
    ("text", "column", "name", "write"),
    [
        ("return\u00a0x;", 7, "no-break space (U+00A0)", "write a space"),
        ("return x\N{MINUS SIGN}1;", 9, "minus sign (U+2212)", "write `-`"),
        ("return x \N{EN DASH} 1;", 10, "en dash (U+2013)", "write `-`"),
        ("return x\N{MULTIPLICATION SIGN}y;", 9, "multiplication sign (U+00D7)", "write `*`"),
        ("if (x \N{LESS-THAN OR EQUAL TO} y)", 7, "less-than or equal to (U+2264)", "write `<=`"),
        (
            "import \N{LEFT DOUBLE QUOTATION MARK}slangpy",
            8,
            "left double quotation mark (U+201C)",
            'write `"`',
        ),
        ("f(x\N{FULLWIDTH COMMA} y)", 4, "fullwidth comma (U+FF0C)", "write `,`"),
        ("x\N{GREEK QUESTION MARK}", 2, "greek question mark (U+037E)", "write `;`"),
        (
            "x\N{SUPERSCRIPT TWO};",
            2,
            "superscript two (U+00B2)",
            "write the product itself, for example `x * x`",
        ),
        ("\N{ARABIC-INDIC DIGIT THREE}", 1, "arabic-indic digit three (U+0663)", "write `3`"),
        ("#define A \N{MINUS SIGN}1", 11, "minus sign (U+2212)", "write `-`"),
        ("\u3000x", 1, "ideographic space (U+3000)", "write a space"),
        ("x = 🙂;", 5, "slightly smiling face (U+1F642)", "delete it, or keep it in a comment"),
    ],
)
def test_odd_characters_in_code_are_named(text: str, column: int, name: str, write: str) -> None:
    diagnostic = only(f"float α;\n  {text}\n")
    assert (diagnostic.severity, diagnostic.code) == ("error", "odd-character")
    assert (diagnostic.line, diagnostic.column, diagnostic.end_column) == (2, column + 2, column + 3)
    assert (diagnostic.text, diagnostic.hint) == (name, write)
    assert (2, f"  {text}") in diagnostic.source


@pytest.mark.parametrize("wrap", ["// {}", "/* {} */", 'print("{}");', "#if 0\n{}\n#endif", "float x; // {}"])
def test_the_same_characters_are_fine_in_comments_and_strings(wrap: str) -> None:
    assert (
        found(wrap.format("a\u00a0\N{MINUS SIGN}\N{RIGHT SINGLE QUOTATION MARK}\N{SUPERSCRIPT TWO}\u3000"))
        == []
    )


def test_the_first_line_is_counted_from_the_cell() -> None:
    diagnostic = clean("x\N{MINUS SIGN}1;", 5)[1][0]
    assert (diagnostic.line, diagnostic.column, diagnostic.source[0]) == (5, 2, (5, "x\N{MINUS SIGN}1;"))
    assert diagnostic.cell == ""


def test_a_run_of_one_character_is_one_message_and_there_is_no_wall() -> None:
    indented = only("\u00a0\u00a0\u00a0\u00a0float x;")
    assert (indented.column, indented.end_column) == (1, 5)
    many = clean("float\u00a0x;\n" * 5000)[1]
    assert len(many) == 21
    assert "4980 more" in many[-1].title
    # An error behind many warnings is still an error.
    assert any(d.severity == "error" for d in clean("// \u202e\n" * 100 + "x\N{MINUS SIGN}1")[1])


@pytest.mark.parametrize(
    "character", ["\u202e", "\u2066", "\u200e", "\u200b", "\u2060", "\ufeff", "\u00ad", "\U000e0041"]
)
def test_hidden_characters(character: str) -> None:
    """CVE-2021-42574: what a reader sees is not what is compiled. An error in code, a warning where it only misleads."""
    escaped = f"\\u{ord(character):04x}" if ord(character) > 0xFF else f"\\x{ord(character):02x}"
    escaped = escaped if ord(character) <= 0xFFFF else f"\\U{ord(character):08x}"
    code = only(f"float a{character}b;")
    assert (code.severity, code.code, code.column) == ("error", "text-order", 8)
    for text in (f"float b; // {character}", f'f("1234567{character}");', f"/* 12345678 {character} */"):
        comment = only(text)
        assert (comment.severity, comment.code, comment.title) == ("warning", "text-order", "text order")
        assert comment.column == text.index(character) + 1
    for diagnostic in (code, comment):
        assert escaped in diagnostic.text
        assert character not in diagnostic.text + diagnostic.title + diagnostic.hint


def test_joiners_between_letters_of_other_scripts_are_spelling() -> None:
    assert found("// می\u200cخواهم 👩\u200d🔬 ❤\ufe0f\n") == []
    assert found("// a\u200cb") == [("warning", "text-order", 1, 5)]
    assert found("float می\u200cخ;") == [("error", "text-order", 1, 9)]


@pytest.mark.parametrize(
    ("name", "plain"), [("ｘ", "x"), ("𝑥", "x"), ("ﬁt", "fit"), ("fоo", "foo"), ("\N{KELVIN SIGN}", "K")]
)
def test_letters_that_pass_for_ascii(name: str, plain: str) -> None:
    diagnostic = only(f"float {name};")
    assert (diagnostic.severity, diagnostic.code, diagnostic.hint) == (
        "error",
        "look-alike",
        f"write `{plain}`",
    )
    assert (diagnostic.column, diagnostic.end_column) == (7, 7 + len(name))


def test_unterminated_comment_and_strings() -> None:
    assert found(f"{F}/* oops\n{F}") == [("error", "unterminated-comment", 4, 1)]
    assert found(f"{F}  float x; /*/") == [("error", "unterminated-comment", 4, 12)]
    assert found("#define A 1 /* oops") == [("error", "unterminated-comment", 1, 13)]
    assert found("#if 0\n/* oops\n#endif") == [("error", "unterminated-comment", 2, 1)]
    assert found('f("abc);\nfloat x;') == [("error", "unterminated-string", 1, 3)]
    assert found('f("abc\\");') == [("error", "unterminated-string", 1, 3)]
    assert found("f('a);") == [("error", "unterminated-string", 1, 3)]
    assert found('x = R"d(abc\n)e"') == [("error", "unterminated-string", 1, 5)]


@pytest.mark.parametrize(
    "text",
    [
        "// it's /* fine\nfloat x;",
        '/* "quoted */ float x;',
        'f("/* no comment");',
        "f(\"a\\\"b\", '\"', '\\'');",
        'f("abc\\\ndef");',
        'x = R"d(a " /* \n )d";',
        "#if 0\ndon't \"\n#endif\nfloat x;",
        "#error don't\nfloat x;",
        '#include "a//b.h"\nfloat x;',
        "// ends with a backslash \\\nit's still comment\nfloat x;",
        "/**/ /***/ float x;",
    ],
)
def test_what_only_looks_unterminated(text: str) -> None:
    assert found(text) == []


@settings(deadline=None)
@given(text=texts, first=st.integers(1, 50))
def test_diagnostics_point_into_the_text(text: str, first: int) -> None:
    cleaned, diagnostics = clean(text, first)
    lines = cleaned.split("\n")
    for d in diagnostics:
        if d.code == "more":
            continue
        assert 0 <= d.line - first < len(lines)
        assert 1 <= d.column < d.end_column <= len(lines[d.line - first]) + 1
        assert (d.line, lines[d.line - first]) in d.source
        assert d.hint
        assert d.cell == ""


@settings(deadline=None)
@given(text=texts)
def test_tokens_cover_the_text_in_order(text: str) -> None:
    at = 0
    for token in scan(text):
        assert at <= token.start < token.end
        assert text[token.start : token.end] == token.text
        gap = text[at : token.start].replace("\\\n", "").replace("\ufeff", "")
        assert gap == "" or gap.isspace()
        at = token.end


# ----- names -----


@settings(deadline=None)
@given(text=st.text())
def test_python_name_is_what_python_makes_of_it(text: str) -> None:
    name = python_name(text)
    assert name == unicodedata.normalize("NFKC", text)
    if text.isidentifier() and not keyword.iskeyword(name):
        namespace: dict[str, object] = {}
        exec(f"{text} = 1", namespace)
        assert name in namespace


@pytest.mark.parametrize(
    "name", ["poly", "Poly_2", "_private", "α", "größe", "µ", "cell_7", "v1", "match", "type"]
)
def test_names_that_modules_may_have(name: str) -> None:
    assert valid_name(name) is None


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("", "needs a name"),
        ("my module", "' '"),
        ("a.b", "'.'"),
        ("a/b", "'/'"),
        ("../../lesson", "'.'"),
        ("-rf", "'-'"),
        ("1st", "'1'"),
        ("<svg/onload=alert(1)>", "'<'"),
        ("a\0b", "NUL (\\x00)"),
        ("a\u202eb", "\\u202e"),
        ("a\u200db", "\\u200d"),
        ("ｐoly", "'poly'"),
        ("slangpy", "comes with"),
        ("sgl", "comes with"),
        ("core", "comes with"),
        ("glsl", "comes with"),
        ("float3", "Slang language"),
        ("struct", "Slang language"),
        ("import", "Slang language"),
        ("lambda", "Python language"),
        ("None", "Python language"),
        ("__init__", "internal"),
        ("poly__v12", "internal"),
        ("x" * 1000, "too long"),
    ],
)
def test_names_that_modules_may_not_have(name: str, word: str) -> None:
    message = valid_name(name)
    assert message is not None
    assert word in message
    assert message.isprintable()
    assert len(message) < 250


@settings(deadline=None)
@given(name=st.text(max_size=30))
def test_valid_names_work_in_python_and_slang(name: str) -> None:
    message = valid_name(name)
    if message is None:
        exec(f"{name} = 1", {})
        (imported,) = [t for t in scan(f"import {name};") if t.kind == "name" and t.text != "import"]
        assert imported.text == name
        assert clean(f"import {name};")[1] == []
    else:
        assert message.isprintable()


# ----- imports put to other names -----

MAPPING = {"poly": "poly__v12", "a.b": "b_1234__v1", "lib/x.slang": "x_99__v3", "µ": "mu__v1", "p": "p__v10"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import poly;", "import poly__v12;"),
        ("__exported import poly;", "__exported import poly__v12;"),
        ('import "poly";', 'import "poly__v12";'),
        ('import "lib/x.slang";', 'import "x_99__v3";'),
        ('import "pol\\x79";', 'import "poly__v12";'),
        ("import a.b;", "import b_1234__v1;"),
        ("import a . b ;", "import b_1234__v1 ;"),
        ("import /* poly */ poly // poly\n;", "import /* poly */ poly__v12 // poly\n;"),
        ("import a.\n  b; float x;", "import b_1234__v1\n; float x;"),
        ("import poly; import p; float poly;", "import poly__v12; import p__v10; float poly;"),
        (
            "#if A\nimport p;\n#else\nimport poly;\n#endif",
            "#if A\nimport p__v10;\n#else\nimport poly__v12;\n#endif",
        ),
        ("import poly\nfloat x;", "import poly__v12\nfloat x;"),
        ("import µ;", "import mu__v1;"),
    ],
)
def test_rewrite(text: str, expected: str) -> None:
    assert rewrite_imports(text, MAPPING).text == expected


@pytest.mark.parametrize(
    "text",
    [
        "import other;",
        "import poly.sub;",
        "import polynomial;",
        "// import poly;",
        "/* import poly;\nimport poly; */",
        'print("import poly;");',
        'R"(import poly;)"',
        "#if 0\nimport poly;\n#endif",
        "#if 1\n#else\nimport poly;\n#endif",
        "#if 0\n#if A\n#endif\nimport poly;\n#endif",
        "#define IMPORT import poly;",
        "float x = a.import poly;",
        "float import; float poly;",
        '__include "poly";',
        "module poly;",
    ],
)
def test_rewrite_leaves_the_rest_alone(text: str) -> None:
    assert rewrite_imports(text, MAPPING).text == text


def test_import_in_live_branch_beside_a_dead_one() -> None:
    text = "#if 0\nimport poly;\n#else\nimport poly;\n#endif\nimport poly;"
    assert rewrite_imports(text, MAPPING).text.split("\n")[1::2] == [
        "import poly;",
        "import poly__v12;",
        "import poly__v12;",
    ]


@settings(deadline=None)
@given(text=texts)
def test_rewrite_touches_nothing_but_names_and_maps_columns_back(text: str) -> None:
    cleaned = clean(text)[0]
    mapping = {"a": "first__v1", "b.c": "z__v9", "d": "a_much_longer_name__v123"}
    result = rewrite_imports(cleaned, mapping)
    assert rewrite_imports(cleaned, {}).text == cleaned
    old_lines, new_lines = cleaned.split("\n"), result.text.split("\n")
    assert len(old_lines) == len(new_lines)
    for number, (old, new) in enumerate(zip(old_lines, new_lines, strict=True), 1):
        columns = [result.original_column(number, c) for c in range(1, len(new) + 2)]
        assert columns == sorted(columns)
        assert columns[-1] == len(old) + 1
        replaced = {
            i
            for name in mapping.values()
            for m in re.finditer(re.escape(name), new)
            for i in range(*m.span())
        }
        for i, column in enumerate(columns[:-1]):
            assert i in replaced or old[column - 1] == new[i]


def test_original_column_around_two_names() -> None:
    text = "import poly; import p; float y;"
    result = rewrite_imports(text, MAPPING)
    assert result.text == "import poly__v12; import p__v10; float y;"
    assert result.original_column(1, result.text.index("float") + 1) == text.index("float") + 1
    assert result.original_column(1, result.text.index("p__v10") + 1) == text.index("p;") + 1
    assert result.original_column(1, result.text.index("; import") + 1) == text.index("; import") + 1
    assert result.original_column(1, result.text.index("v12") + 1) == len("import poly")
    assert result.original_column(2, 7) == 7
