"""Reading the compiler's messages: real texts of slangpy 0.43.1, and hostile ones."""

import random
import string

import pytest
from slangpy_texts import COMPILES, messages, rename

from slanglab.text.diagnostics import GENERATED, SourceText, parse
from slanglab.text.imports import rewrite_imports

KERNEL = "0fae0a12e8d8ef2e43a9a9888d99a2e4dd129939"


def block(
    file,
    line,
    column,
    echo,
    carets="^",
    text="",
    severity="error",
    code="E30015",
    title="undefined identifier",
):
    """Write a message as slang 2026.12 does, the echo without its leading space."""
    margin = len(echo) - len(echo.lstrip())
    pad = " " * (column - 1 - margin)
    head = f"{severity}[{code}]: {title}\n --> {file}:{line}:{column}\n  |\n"
    return head + f"{line} | {echo.lstrip()}\n  | {pad}{carets} {text}\n--'\n"


def test_place_points_at_the_word_in_the_users_line():
    for case in COMPILES:
        for d in messages(case):
            if d.code != "E30015":
                continue
            line = dict(d.source)[d.line]
            assert line[d.column - 1 : d.end_column - 1] in d.text
            assert line in COMPILES[case]["source"].split("\n")


def test_two_undefined_names():
    first, second = messages("undef")
    assert (first.severity, first.code, first.title) == ("error", "E30015", "undefined identifier")
    assert first.text == "undefined identifier 'aa'"
    assert first.place == "In[5], line 3, column 12"
    assert first.end_column == 14
    assert first.source == (
        (1, "float f(float x, float a)"),
        (2, "{"),
        (3, "    return aa * x + b;"),
        (4, "}"),
    )
    assert second.text == "undefined identifier 'b'"


def test_boilerplate_is_dropped():
    for case in COMPILES:
        for d in messages(case):
            assert "import failed" not in d.title
            assert "compilation ceased" not in d.title


@pytest.mark.parametrize("first_line", [1, 2, 17])
def test_lines_count_from_the_cells_own_first_line(first_line):
    data = COMPILES["undef"]
    text = data["text"].replace(":3:", f":{first_line + 2}:")
    source = SourceText("In[5]", tuple(data["source"].split("\n")), first_line)
    first = parse(text, lambda _: source, rename)[0]
    assert dict(first.source)[first_line + 2] == "    return aa * x + b;"


def test_notes_hang_on_the_message_before_them():
    (d,) = messages("dup")
    (note,) = d.notes
    assert note.severity == "note"
    assert note.title == "see previous definition of 'f'"
    assert note.line == 1
    assert note.source == ((1, "float f(float x){return x;}"),)
    (d,) = messages("macro")  # from the log, a warning with an older kind of note
    assert d.severity == "warning"
    assert d.notes[0].line == 1


def test_candidates_are_folded():
    (d,) = messages("op")
    assert COMPILES["op"]["text"].count("note[") > 20
    assert len(d.notes) <= 7
    assert d.notes[-1].title.endswith("more notes of the compiler")
    assert all("argument 0 does not match" not in n.title for n in d.notes)
    assert d.text == ""  # the title says it already


def test_lexer_errors_get_a_column():
    (d,) = messages("ff")
    assert d.title == "illegal character (0xC)"
    assert dict(d.source)[d.line][d.column - 1] == "\f"


def test_warnings_of_the_log():
    (d,) = messages("noret")
    assert (d.severity, d.code, d.line, d.column) == ("warning", "E41010", 1, 7)


def test_end_of_file_lies_inside_the_text():
    source = SourceText("In[1]", ("float f(float x){", "  return x;"), 1)
    text = block("a__v1", 3, 1, "", title="unexpected token", text="unexpected end of file, expected '}'")
    (d,) = parse(text, lambda _: source)
    assert (d.line, d.column) == (2, len("  return x;") + 1)


# ----- text of other files -----


def test_text_of_foreign_files_never_comes_out():
    text = COMPILES["include"]["text"]
    assert "root" in text
    found = messages("include")
    assert found
    for d in found:
        assert d.cell == "/etc/passwd"
        assert d.source == ()
        assert "root" not in repr(d)
        assert "unexpected ':'" not in repr(d)


def test_secret_words_of_foreign_files_never_come_out_wherever_they_stand():
    seed = random.randrange(2**32)
    print("seed", seed)
    rng = random.Random(seed)
    for _ in range(300):
        secret = "".join(rng.choice(string.ascii_letters) for _ in range(12)) + rng.choice(
            ["", "'", '"', "`", "''", " x", "(", "|", "^"]
        )
        title = rng.choice(
            [
                f"undefined identifier '{secret}'",
                f"candidate: func {secret}(int)",
                f"no overload for '{secret}' (x)",
                "unexpected token",
                f"#error: {secret}",
            ]
        )
        text = block(
            "/home/u/secret.h",
            3,
            2,
            f"x {secret}",
            text=rng.choice([f"#error: {secret}", f"'{secret}' is bad", ""]),
            title=title,
        )
        lexer = f"/home/u/secret.h(4): error 10000: illegal character '{secret}'\n{secret} more\n   ^\n"
        note = (
            f"note: see declaration of '{secret}'\n --> /home/u/secret.h:1:2\n  |\n1 | {secret}\n  | ^\n--'\n"
        )
        found = parse(text + lexer + note, lambda _: None)
        assert len(found) >= 2
        assert secret[:12] not in repr(found)
        assert all(d.source == () for d in found)


def test_a_line_of_source_cannot_pass_for_a_message():
    line = "error[E30015]: undefined identifier // --> In[1]:1:1"
    source = SourceText("In[2]", (line,), 1)
    found = parse(block("a__v1", 1, 3, line, text="real"), lambda _: source)
    assert [d.text for d in found] == ["real"]


def test_generated_kernels_are_labelled():
    text = block(
        KERNEL,
        35,
        53,
        "x.__slangpy_load(a, __tmp_x);",
        title="argument must be l-value",
        text="argument must be l-value",
    )
    (d,) = parse(text, lambda _: None)
    assert d.generated
    assert d.text == GENERATED
    assert d.line == 0
    assert d.source == ()
    long = KERNEL + "0" * 24
    (d,) = parse(text.replace(KERNEL, long), lambda _: None)
    assert d.generated


def test_driver_messages_point_into_the_cell():
    text = (
        "m_rhi_command_encoder->finish() failed with error: -2147467259 (SLANG_FAIL)\n\nRHI messages:\nslang: "
        + block(
            "poly__v7",
            2,
            7,
            "float noret(float x){ }",
            "^^^^^",
            code="E41009",
            title="non-void function must return",
        )
    )
    source = SourceText("poly", ("", "float noret(float x){ }"), 1)
    (d,) = parse(text, lambda f: source if f == "poly__v7" else None)
    assert d.place == "poly, line 2, column 7"
    assert dict(d.source)[2][d.column - 1 : d.end_column - 1] == "noret"


# ----- names of versions -----


def test_names_of_versions_become_the_users():
    own = "import poly; float f(float x){ return poly_f(x) + zork; } import geom;"
    rewritten = rewrite_imports(own, {"poly": "poly__v31", "geom": "geom__v2"})
    compiled = rewritten.text
    for word in ("zork", "geom", "f("):
        column = compiled.index(word) + 1
        text = block(
            "user__v9", 1, column, compiled, "^" * len(word), f"undefined identifier '{word}' in poly__v31"
        )
        source = SourceText("user", (own,), 1, rewritten.original_column)
        (d,) = parse(text, lambda _, source=source: source, rename)
        assert own[d.column - 1 : d.end_column - 1].rstrip(";").startswith(word[:1])
        assert own[d.column - 1 :].startswith(word)
        assert d.text == f"undefined identifier '{word}' in poly"


def test_a_place_inside_a_replaced_name_is_inside_the_old_one():
    own = "    import poly;"
    rewritten = rewrite_imports(own, {"poly": "poly__v31"})
    text = block("user__v9", 1, rewritten.text.index("v31") + 1, rewritten.text, "^^^")
    (d,) = parse(text, lambda _: SourceText("user", (own,), 1, rewritten.original_column), rename)
    assert own.index("poly") < d.column <= own.index(";")


# ----- bounds -----


def test_duplicates_are_dropped_and_many_are_counted():
    source = SourceText("In[1]", tuple(f"float f{i}(float x) {{ return u{i}; }}" for i in range(3000)), 1)
    text = "".join(block("a__v1", i + 1, 3, source.lines[i], text=f"'u{i}'") for i in range(3000))
    found = parse(text + text, lambda _: source)
    assert len(found) == 101
    assert found[-1].title == "2900 more messages of the compiler"


def test_a_name_of_a_megabyte_is_cut_and_the_length_told():
    name = "y" * 2**20
    line = f"float f(float x) {{ return {name}; }}"
    (d,) = parse(
        block("a__v1", 1, 27, line, "^" * len(name), f"undefined identifier '{name}'"),
        lambda _: SourceText("a", (line,), 1),
    )
    assert len(d.text) < 1000
    assert "characters)" in d.text
    assert d.end_column == 27 + len(name)


def test_any_text_is_read_without_an_error():
    seed = random.randrange(2**32)
    print("seed", seed)
    rng = random.Random(seed)
    corpus = "\n".join(data["text"] for data in COMPILES.values())
    source = SourceText("In[1]", ("float f(float x)", "{", "return x;", "}"), 1)
    for _ in range(300):
        at = rng.randrange(len(corpus))
        piece = list(corpus[at : at + rng.randrange(400)])
        for _ in range(rng.randrange(20)):
            if piece:
                piece[rng.randrange(len(piece))] = rng.choice("\n |^-'[]:>0é\u202e\x00")
        for d in parse("".join(piece), lambda f: source if f.endswith("3") else None, rename):
            if d.source:  # a message names a place inside the text
                line = source.line(d.line)
                assert line is not None
                assert 1 <= d.column <= len(line) + 1
                assert d.end_column > d.column
