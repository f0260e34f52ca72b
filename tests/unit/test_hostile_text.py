"""Text that wants to be something else: names, paths, macros and sizes that must not reach the compiler, a page or a file as they are."""

from __future__ import annotations

import json
import random
import secrets
from pathlib import Path

import pytest
from IPython.core.error import UsageError

from slanglab.cells.resolve import Resolver
from slanglab.notebook.magics import parse_line
from slanglab.settings import Settings
from slanglab.text.expansion import expansion_problems, largest_expansion, pasted
from slanglab.text.hazards import find_hazards, reads_files
from slanglab.text.source import clean, valid_name
from slanglab.text.symbols import outline
from slanglab.text.tokens import scan

SECRET = "SECRET_WORDS"


@pytest.fixture
def rng():
    """Random numbers from a fresh seed, which a failing test prints."""
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    return random.Random(seed)


def codes(text):
    return [d.code for d in clean(text)[1] if d.severity == "error"]


# ----- names and options -----


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("<svg/onload=alert(1)>", "'<' at character 1"),
        ("x\u202ey", "\\u202e"),
        ("a\u200db", "\\u200d"),
        ("../../x", "'.' at character 1"),
        ("/etc/passwd", "'/' at character 1"),
        ("x;import y", "two|unrecognized|';' at character 2"),
        ("a" * 10_000, "too long"),
        ("__class__", "internal"),
        ("'; rm -rf / #'", "character 1"),
        ("{x}", "'{' at character 1"),
        ("$HOME", "'$' at character 1"),
        ("`id`", "'`' at character 1"),
        ("'unclosed", "no closing quotation"),
        ("-D 'I=import'", "import"),
        ("-D 'I=x __include y'", "import"),
        ("-D '<script>'", "no macro"),
    ],
)
def test_the_magic_line_refuses_what_is_no_name_and_no_macro(line, says):
    with pytest.raises(UsageError) as caught:
        parse_line(line)
    said = str(caught.value)
    assert any(one in said for one in says.split("|")), said
    assert said.isprintable()
    assert len(said) < 400


@pytest.mark.parametrize(
    "name", ["constructor", "toString", "hasOwnProperty", "valueOf", "A__proto__", "é", "变量"]
)
def test_names_that_only_javascript_minds_are_names(name):
    assert valid_name(name) is None
    assert parse_line(name).name == name


def test_dollars_braces_and_marks_are_text():
    options = parse_line("m -D 'A={x}' -D 'B=$HOME' -D 'C=!ls' -D 'D=%run x'")
    assert options.define == ["A={x}", "B=$HOME", "C=!ls", "D=%run x"]


# ----- files -----


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Change to a notebook's folder; a file with a secret lies beside it, and links in it lead there."""
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret.slang").write_text(f"static const int {SECRET} = 1;\n")
    (root / "link.slang").symlink_to(tmp_path / "secret.slang")
    (root / "lib").symlink_to(tmp_path)
    (root / "loop").symlink_to(root / "loop")
    (root / "fine.slang").write_text("float fine(float x) { return x; }\n")
    monkeypatch.chdir(root)
    return root


def resolve(root, text, **options):
    cleaned, found = clean(text)
    resolver = Resolver((root,), lambda: [], lambda name: name == "slangpy")
    return found, resolver.resolve("m", cleaned, outline(cleaned), **options)


@pytest.mark.parametrize(
    "statement",
    [
        'import "../secret";',
        'import "/etc/x";',
        'import "file:///etc/x";',
        'import "\\\\\\\\host\\\\share\\\\x";',
        'import "\\\\\\\\?\\\\C:\\\\x";',
        'import "C:/x";',
        'import "~/x";',
        'import "~root/x";',
        'import "lib/../../secret";',
        'import "lib/secret";',
        "import link;",
        "import lib.secret;",
        'import "\\x2e./secret";',
        'import "\\56\\56/secret";',
        'import R"(../secret)";',
        'import\n"../secret"\n;',
        '#if X\n#else\nimport "../secret";\n#endif',
        '#include "../secret.slang"',
        "#include <../secret.slang>",
        '#include "/etc/passwd"',
        '#include "lib/secret.slang"',
        '#include "link.slang"',
        '#include "..\\\\secret.slang"',
        '#include "fine.slang\0../secret.slang"',
        '#include "loop/x.slang"',
        f'#include "{"a/" * 5000}x.slang"',
    ],
)
def test_no_import_leaves_the_folders(folder, statement):
    found, resolved = resolve(folder, f"{statement}\nfloat f(float x) {{ return x; }}\n")
    errors = [d for d in [*found, *resolved.diagnostics] if d.severity == "error"]
    assert errors, statement
    assert resolved.files == []
    assert SECRET not in resolved.text
    assert all(SECRET not in f"{d.title}{d.text}{d.hint}{d.source}" for d in errors)
    assert all(len(d.text) < 12_000 for d in errors)


@pytest.mark.parametrize("include", ["~/../../root", "/", "..", "lib", "loop", "../root/.."])
def test_no_include_folder_leaves_the_folders(folder, include):
    found, resolved = resolve(folder, "import secret;\n", extra=[Path(include).expanduser()])
    assert found == []
    assert "include-folder" in [d.code for d in resolved.diagnostics]
    assert resolved.files == []


def test_what_lies_inside_is_found(folder):
    """The same calls do find a file that may be read; so the tests above do not pass because nothing is ever found."""
    _, resolved = resolve(folder, "import fine;\n")
    assert [f.path.name for f in resolved.files] == ["fine.slang"]
    _, resolved = resolve(folder, '#include "fine.slang"\n')
    assert "float fine" in resolved.text
    _, resolved = resolve(folder, "import secret;\n", extra=[folder / "lib"])
    assert resolved.files == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('#define P "/etc/passwd"\n#include P\n', "include-form"),
        ('#inc\\\nlude "/etc/passwd"\n', "broken-word"),
        ('#/**/include "/etc/passwd"\n', "include-form"),
        ('# include/**/"/etc/passwd"\n', "include-form"),
        ("#define A <\n#include A/etc/passwd>\n", "include-form"),
        ('#define I import\nI "/etc/x";\n', "import-form"),
        ('#define I(x) import x\nI("/etc/x");\n', "import-form"),
        ('#define J(a, b) a##b\nJ(im, port) "/etc/x";\n', "import-form"),
        ('#define J(a, b, c) a##b ## c\nJ(__, inc, lude) "/etc/x";\n', "import-form"),
        ('__import "/etc/x";\n', "import-form"),
        ('__include "/etc/x";\n', "import-form"),
        ('imp\\\nort "/etc/x";\n', "broken-word"),
        ('im\\\n\\\nport "/etc/x";\n', "broken-word"),
        ('#define false 1\n#if false\nimport "/etc/x";\n#endif\n', "macro-name"),
        ("#if 0\n#elif 1\n#include X\n#endif\n", "include-form"),
    ],
)
def test_files_named_by_the_preprocessor_are_refused(text, code):
    """The compiler would read all of these (seen with 2026.12); nothing of ours sees the file's name."""
    assert code in codes(text)


@pytest.mark.parametrize(
    "text",
    [
        '#include "a.slang"\n',
        "#  include <a.slang>\n",
        'import a;\nimport "b";\n',
        "// import macros: #define I import, __import\n/* #include X */\nfloat f;\n",
        'static String s = "__import #include X";\n',
        "#define CAT(a, b) a##b\nfloat CAT(x, y);\n",
        "#define important 1\nfloat imports = important;\n",
        "float a = 1 + \\\n  2;\n#define M(x) \\\n  x * \\\n  x\n",
        "#define TRUE 1\n#ifdef TRUE\n#endif\n",
    ],
)
def test_what_only_looks_like_it_is_accepted(text):
    assert codes(text) == []


def test_words_that_pasting_can_make():
    assert pasted("import", {"im", "port"})
    assert pasted("import", set("imort") | {"p"})
    assert not pasted("import", {"import", "im", "ort"})
    assert reads_files("a import")
    assert not reads_files("important")


# ----- sizes -----

SIZES = {
    "brackets": lambda n: f"float f(float x) {{ return {'(' * n}x{')' * n}; }}",
    "blocks": lambda n: f"void f() {{ {'{' * n}{'}' * n} }}",
    "signs": lambda n: f"float f(float x) {{ return {'- ' * 5 * n}x; }}",
    "sum": lambda n: f"float f(float x) {{ return x{' + x' * 3 * n}; }}",
    "members": lambda n: f"float f(float4 x) {{ return x{'.xyzw' * 3 * n}.x; }}",
    "choices": lambda n: f"float f(float x) {{ return {'x > 0 ? x : ' * n}x; }}",
    "ifs": lambda n: f"float f(float x) {{ {'if (x > 1) ' * n}x = 3; return x; }}",
    "elses": lambda n: f"float f(float x) {{ {'if (x > 1) x = 2; else ' * n}x = 3; return x; }}",
    "else blocks": lambda n: (
        f"float f(float x) {{ {'if (x > 1) { x = 2; x = 1; } else ' * n}x = 3; return x; }}"
    ),
    "generics": lambda n: f"void f({'Array<' * n}float{',1>' * n} x) {{}}",
    "parameters": lambda n: f"float f({', '.join(f'float p{i}' for i in range(9 * n))}) {{ return p0; }}",
}


@pytest.mark.parametrize("kind", SIZES)
def test_sizes_that_end_the_compiler_are_refused_and_others_are_not(kind):
    assert codes(SIZES[kind](300)) == []
    assert "too-large" in codes(SIZES[kind](7000))


def test_large_tables_many_functions_and_long_lines_are_no_hazard():
    table = f"static const float t[] = {{ {', '.join(['1.0'] * 70_000)} }};\n"
    many = "".join(
        f"float f{i}(float x) {{ if (x > 0) return 1; else return x + {i}; }}\n" for i in range(3000)
    )
    assert codes(table) == []
    assert codes(f"namespace n {{\n{many}}}\n") == []
    assert codes(many) == []
    assert codes("// " + "a" * 1_000_000 + "\nfloat f;\n") == []
    assert codes("float x; " * 100_000) == []


def bomb(words, levels):
    return f"#define A0 x\n{''.join(f'#define A{i} A{i - 1} {words} A{i - 1}{chr(10)}' for i in range(1, levels + 1))}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (bomb("", 30) + "float f(float x) { return A30; }\n", 2**30),
        (bomb("+", 13) + "float f(float x) { return A13; }\n", 2**14 - 1),
        (bomb("", 30) + "#if A30\n#endif\n", 2**30),
        ("#define F(a) a a\nfloat y = " + "F(" * 30 + "x" + ")" * 30 + ";\n", 2**30),
        ("#define F(a) a a a a\n#define CALL(f, x) f(x)\nfloat y = " + "CALL(F, " * 12 + "x" + ")" * 12 + ";\n", 4**12),
        (bomb("", 30) + "#define CAT(a, b) a##b\nfloat y = CAT(A3, 0);\n", 2**30),
        ("#define F(a) a a\n#define G F\nfloat y = " + "G(" * 30 + "x" + ")" * 30 + ";\n", 2**30),
    ],
)  # fmt: skip
def test_macros_that_grow_are_counted(text, words):
    largest = largest_expansion(text)
    assert largest is not None
    assert largest.words >= words
    (problem,) = expansion_problems(text, (), 2)
    assert problem.severity == "error"
    assert largest.name in problem.text
    line = text.split("\n")[problem.line - 2]
    assert line[problem.column - 1 :].startswith(largest.name)


def test_macros_that_grow_on_the_command_line_and_without_end():
    assert expansion_problems("float y = " + "F(" * 20 + "x" + ")" * 20 + ";\n", ["F(a)=a a"], 1)
    ring = "".join(f"#define A{i} {' '.join(f'A{j} A{j}' for j in range(25) if j != i)}\n" for i in range(25))
    assert expansion_problems(f"{ring}A0\n", (), 1)
    assert expansion_problems("#define F(a) a a\n" + "F(" * 5000 + "x" + ")" * 5000, (), 1)


@pytest.mark.parametrize(
    "text",
    [
        "float f(float x) { return x; }\n",
        bomb("", 30) + "float f(float x) { return x; }\n",
        bomb("", 30) + "float f(float x) { return A5; }\n",
        "#define A A A\n" * 30 + "float f(float x) { return A; }\n",
        "#define MAX(a, b) ((a) > (b) ? (a) : (b))\nfloat f(float x) { return MAX(MAX(1, x), MAX(x, MAX(2, 3))); }\n",
        "#define LIST(X) X(a) X(b) X(c)\n#define D(n) float n;\nstruct S { LIST(D) };\n" * 40,
        "#define E\n#define F() E\nF() F () G E\n",
        "#define K 1\n" + "x = K + K;\n" * 3000,
    ],
)
def test_ordinary_macros_are_accepted(text):
    assert expansion_problems(text, (), 1) == []


class LateCallError(Exception):
    """A name takes for its arguments brackets that came out of an expanded argument; the bound says that it may miss these."""


def expand(tokens, macros):
    """Expand macros by doing it, as the C standard says (Prosser's algorithm with hide sets); the reference for the bound.

    A token is a word, the macros it is hidden from, and whether it came out of an argument. Gives up, with fewer words, when there
    are many.
    """
    out, todo = [], list(tokens)
    while todo and len(out) + len(todo) < 20_000:
        word, hidden, given = todo.pop(0)
        if word not in macros or word in hidden:
            out.append((word, hidden, given))
            continue
        parameters, body = macros[word]
        if parameters is None:
            todo = [(b, hidden | {word}, False) for b in body] + todo
            continue
        arguments, depth, end = [[]], 1, 1
        while todo and todo[0][0] == "(" and end < len(todo) and depth:
            depth += {"(": 1, ")": -1}.get(todo[end][0], 0)
            if depth == 1 and todo[end][0] == ",":
                arguments.append([])
            elif depth:
                arguments[-1].append(todo[end])
            end += 1
        if depth:
            out.append((word, hidden, given))
            continue
        if todo[0][2]:
            raise LateCallError
        hidden = (hidden & todo[end - 1][1]) | {word}
        values = dict.fromkeys(parameters, ())  # a call with too few arguments is an error
        values |= zip(parameters, (expand(a, macros) for a in arguments), strict=False)
        filled = [
            (w, h | hidden, b in values) for b in body for w, h, _ in values.get(b, [(b, frozenset(), False)])
        ]
        todo = filled + todo[end:]
    return out


def test_the_bound_is_not_below_what_the_preprocessor_makes(rng):
    compared = 0
    for _ in range(400):
        names = [f"M{i}" for i in range(rng.randint(1, 6))]
        macros, text = {}, ""
        for i, name in enumerate(names):
            earlier = names[:i]
            parameters = rng.choice([None, None, ["a"], ["a", "b"]])
            words = []
            for _ in range(rng.randint(0, 5)):
                pick = rng.choice([*earlier, "x", "+", *(parameters or []), *(parameters or [])])
                words.append(pick)
                if rng.random() < 0.5:
                    words += [
                        "(",
                        rng.choice(["x", *(parameters or []), *earlier]),
                        *rng.choice([[], [",", "x"]]),
                        ")",
                    ]
            macros[name] = (parameters, words)
            head = f"({', '.join(parameters)})" if parameters else ""
            text += f"#define {name}{head} {' '.join(words)}\n"
        use = []
        for _ in range(rng.randint(1, 4)):
            use += [
                rng.choice(names),
                *rng.choice([[], ["(", "x", ")"], ["(", rng.choice(names), ",", "x", ")"]]),
            ]
        try:
            made = len(expand([(word, frozenset(), False) for word in use], macros))
        except LateCallError:
            continue
        compared += 1
        found = largest_expansion(text + " ".join(use) + "\n")
        assert made == 0 or (found is not None and found.total >= made), (text, use, made, found)
    assert compared > 300


def test_hazards_cost_one_pass():
    text = "#define K 1\n" + "x = K + f(K, (1 + 2) * 3); // K\n" * 5_000
    assert find_hazards(text, scan(text)) == []
    assert largest_expansion(text).total < 40 * 5_000


# ----- settings -----


@pytest.mark.parametrize(
    "content",
    [
        "x" * 10_000_000,
        "!!python/object/apply:os.system ['touch pwned']",
        "{\"device\": \"__import__('os').system('touch pwned')\"}",
        '{"__class__": "x", "__proto__": {"device": "cuda"}}',
        "[" * 100_000,
        '{"device": 1e999}',
        '{"include": "/nowhere/at/all"}',
        '"device"',
        "\x00\xff",
        "",
    ],
)
def test_a_settings_file_is_data(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "settings.json"
    file.write_text(content, encoding="latin-1")
    settings = Settings(file)
    assert settings["device"] == "auto"
    assert settings.folders("include") == []
    assert settings.problems
    assert all(len(problem) < 1000 for problem in settings.problems)
    assert not (tmp_path / "pwned").exists()
    settings.set("report", "short")
    assert json.loads(file.read_text())["report"] == "short"
