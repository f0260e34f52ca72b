"""Statements of function bodies, with tree-sitter as the witness where its grammar reads a body without an error."""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slanglab.text.reading.bodies import body_of
from slanglab.text.reading.words import Words
from slanglab.text.source import clean
from slanglab.text.symbols import outline
from slanglab.text.tree import read_statements, walk


def read(body):
    """Return the words and the statements of `void f() { body }`."""
    words = Words(f"void f() {{ {body} }}")
    tokens = body_of(words, 1, 6)
    assert tokens is not None
    return words, read_statements(words, *tokens)


def shape(statements):
    """Return the kinds of statements, nested."""
    return [
        (s.kind, shape(s.body), shape(s.otherwise)) if s.body or s.otherwise else s.kind for s in statements
    ]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("a = 1; b();", ["plain", "plain"]),
        ("if (a) b; else c;", [("if", ["plain"], ["plain"])]),
        ("if (a) if (b) c; else d;", [("if", [("if", ["plain"], ["plain"])], [])]),
        (
            "if (a) { } else if (b) { c; } else { d; e; }",
            [("if", [], [("if", ["plain"], ["plain", "plain"])])],
        ),
        ("for (int i = 0; i < 3; ++i) a += i; b;", [("for", ["plain"], []), "plain"]),
        ("for (;;) { break; }", [("for", ["break"], [])]),
        ("do { x; } while (a < b); y;", [("do", ["plain"], []), "plain"]),
        ("while (a) while (b) { continue; }", [("while", [("while", ["continue"], [])], [])]),
        (
            "switch (i) { case 0: a; break; case N: default: { b; } }",
            [("switch", ["case", "plain", "break", "case", "case", ("block", ["plain"], [])], [])],
        ),
        ("{ { a; } }", [("block", [("block", ["plain"], [])], [])]),
        ("float q[3] = { 1, 2, 3 }; return q[0];", ["plain", "return"]),
        ("struct S { int x; } S s; return;", ["plain", "plain", "return"]),
        ("outer: for (;;) break outer;", [("for", ["break"], [])]),
        ("[ForceUnroll] [MaxIters(3)] for (int i = 0; i < 3; ++i) { }", ["for"]),
        ("__target_switch { case cuda: return 1; default: return 2; }", None),
        ("no_diff f(x); int[2] a; let y = x;", ["plain", "plain", "plain"]),
        ("if (a) ; else ;", [("if", ["plain"], ["plain"])]),
    ],
)
def test_statements(body, expected):
    words, statements = read(body)
    if expected is None:
        assert [s.kind for s, _ in walk(statements)].count("return") == 2
    else:
        assert shape(statements) == expected
    assert statements[-1].end == words.size - 1


def test_parts_of_a_loop():
    words, (loop,) = read(
        "[MaxIters(N + 1)] [PreferRecompute] for (int i = 0, j = f(1, 2); i < g(a; b); ++i, ++j) { }"
    )
    assert loop.attributes == ("MaxIters(N + 1)", "PreferRecompute")
    assert loop.attribute("maxiters") == "N + 1"
    assert loop.attribute("ForceUnroll") is None
    assert words.source(*loop.init) == "int i = 0, j = f(1, 2)"
    assert words.source(*loop.condition) == "i < g(a; b)"
    assert words.source(*loop.step) == "++i, ++j"
    assert not loop.unrolled


@pytest.mark.parametrize("head", ["[ForceUnroll] for (;;)", "[unroll] for (;;)", "$for (i in Range(0, 3))"])
def test_unrolled_loops(head):
    _, (loop,) = read(f"{head} {{ x; }}")
    assert loop.is_loop
    assert loop.unrolled


def nested_well(statements, start, end):
    at = start
    for statement in statements:
        assert at <= statement.start < statement.end <= end
        at = statement.end
        inner = (*statement.body, *statement.otherwise)
        nested_well(statement.body, statement.start, statement.end)
        nested_well(statement.otherwise, statement.start, statement.end)
        assert all(statement.start <= s.start for s in inner)


WORDS = (
    "if else for while do switch case default return break continue [MaxIters(3)] [ForceUnroll] $for ( ) { } [ ] ; : ? = + "
    "a b 1 float struct __target_switch <"
)


@settings(max_examples=300)
@given(st.lists(st.sampled_from(WORDS.split()), max_size=60))
def test_any_words_are_read_to_the_end(parts):
    words = Words(f"void f() {{ {' '.join(parts)} }}")
    tokens = body_of(words, 1, 6)
    if tokens is not None:
        nested_well(read_statements(words, *tokens), tokens[0] + 1, tokens[1])


@pytest.mark.parametrize("deep", ["{ ", "if (a) ", "for (;;) ", "if (a) b; else ", "do "])
def test_deep_nesting_costs_no_stack(deep):
    words = Words(f"void f() {{ {deep * 900} x; {'}' * 900 if deep == '{ ' else ''} }}")
    tokens = body_of(words, 1, 6)
    assert sum(1 for _ in walk(read_statements(words, *tokens))) > 100


# ----- the witness -----

KINDS = {
    "if_statement": "if",
    "for_statement": "for",
    "while_statement": "while",
    "do_statement": "do",
    "switch_statement": "switch",
    "return_statement": "return",
    "break_statement": "break",
    "continue_statement": "continue",
}


def test_slangpys_own_bodies_read_like_the_grammar_reads_them():
    tree_sitter = pytest.importorskip("tree_sitter")
    grammar = pytest.importorskip("tree_sitter_slang")
    parser = tree_sitter.Parser(tree_sitter.Language(grammar.language()))
    spec = importlib.util.find_spec("slangpy")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    compared = statements = 0
    for path in sorted(Path(next(iter(spec.submodule_search_locations))).rglob("*.slang")):
        text, _ = clean(path.read_text(encoding="utf-8", errors="replace"))
        words = Words(text)
        for function in outline(text).functions:
            tokens = body_of(words, function.line, function.column) if function.has_body else None
            if tokens is None or any(words.code.branch[i] for i in range(*tokens)):
                continue
            body = text[words.offset(tokens[0]) : words.tokens[tokens[1] - 1].end]
            if re.search(r"^\s*#", body, re.MULTILINE):
                continue  # the grammar reads what `#if 0` switches off
            root = parser.parse(f"void f() {body}".encode()).root_node
            if root.has_error:
                continue
            seen = Counter()
            pending = [root]
            while pending:
                node = pending.pop()
                pending += node.children
                if node.type in KINDS:
                    seen[KINDS[node.type]] += 1
            ours = Counter(
                s.kind for s, _ in walk(read_statements(words, *tokens)) if s.kind in KINDS.values()
            )
            assert ours == seen, f"{path.name}: {function.qualified}"
            compared += 1
            statements += seen.total()
    assert compared > 500
    assert statements > 500
