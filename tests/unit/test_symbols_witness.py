"""The same text read by tree-sitter's grammar for Slang: where that sees no error, both must see the same functions.

The grammar does not know enough of Slang to be the reader (two attributes in a row are an error for it), but what it does read it
reads independently of ours.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slanglab.text.source import clean
from slanglab.text.symbols import outline

tree_sitter = pytest.importorskip("tree_sitter")
tree_sitter_slang = pytest.importorskip("tree_sitter_slang")

Seen = tuple[int, int, str, tuple[str, ...]]


def parse(text: str):  # type: ignore[no-untyped-def]
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_slang.language())).parse(text.encode())


def by_the_grammar(text: str) -> list[Seen] | None:
    """Return line, column, name and parameters of each function, or None where the grammar reports an error."""
    tree = parse(text)
    if tree.root_node.has_error:
        return None
    found: list[Seen] = []
    pending = [tree.root_node]
    while pending:
        node = pending.pop()
        pending += node.children
        if node.type != "function_definition":
            continue
        declarator = node.child_by_field_name("declarator")
        if declarator is None or declarator.type != "function_declarator":
            continue
        name = declarator.child_by_field_name("declarator")
        parameters = []
        for child in declarator.child_by_field_name("parameters").named_children:
            if "parameter" in child.type:
                inner = child.child_by_field_name("declarator")
                while inner is not None and inner.type != "identifier":
                    inner = inner.child_by_field_name("declarator") or next(iter(inner.named_children), None)
                parameters.append(inner.text.decode() if inner is not None else "")
        row, column = name.start_point
        line = text.split("\n")[row].encode()[:column].decode()
        found.append((row + 1, len(line) + 1, name.text.decode().split("<")[0], tuple(parameters)))
    return sorted(found)


def by_us(text: str) -> list[Seen]:
    functions = [f for f in outline(text).functions if f.has_body and f.name != "__init"]
    return sorted((f.line, f.column, f.name, tuple(p.name for p in f.parameters)) for f in functions)


names = st.from_regex(r"[a-zα-ω]_?[a-z0-9]{1,4}_", fullmatch=True)
types = st.sampled_from(
    ["float", "int", "float3", "Tensor<float, 2>", "IDiffTensor<vector<float, 3>, 1>", "bool"]
)
directions = st.sampled_from(["", "in ", "out ", "inout "])
defaults = st.sampled_from(["", " = 1", " = float3(1, 2, 3)", " = (2 + 3) * 4"])
spaces = st.sampled_from([" ", "  ", "\n", "\t", " /* , ) { */ ", " // } ( \n"])


@st.composite
def function_texts(draw: st.DrawFn) -> str:
    parameters = [
        f"{draw(directions)}{draw(types)}{draw(spaces)}{name}{draw(defaults)}"
        for name in draw(st.lists(names, unique=True, max_size=4))
    ]
    body = draw(
        st.sampled_from(
            ["return x;", "if (x) { y = 1; }", "for (int i = 0; i < 3; i++) { s += i; }", 'f("}");', ""]
        )
    )
    attribute = draw(st.sampled_from(["", "// [Differentiable]\n", "/* float g(float y) {} */\n"]))
    comma = "," + draw(spaces)
    return f"{attribute}{draw(types)}{draw(spaces)}{draw(names)}({comma.join(parameters)}){draw(spaces)}{{ {body} }}\n"


@settings(deadline=None)
@given(text=st.lists(function_texts(), min_size=1, max_size=4).map("".join))
def test_generated_functions(text: str) -> None:
    seen = by_the_grammar(text)
    ours = by_us(text)
    assert len(ours) >= 1
    assert not outline(text).has_errors
    if seen is not None and len({s[:2] for s in seen}) == len(ours):
        assert seen == ours


def test_files_that_the_grammar_reads() -> None:
    spec = importlib.util.find_spec("slangpy")
    if spec is None or spec.origin is None:
        pytest.skip("slangpy is not installed")
    compared = 0
    for path in sorted(Path(spec.origin).parent.rglob("*.slang")):
        text = clean(path.read_text(encoding="utf-8"))[0]
        if "#if" in text or (seen := by_the_grammar(text)) is None:
            continue
        # It takes `linear` in `float3 linear` for a modifier: functions with a parameter that lost its name do not count.
        known = [function for function in seen if all(function[3])]
        assert set(known) <= set(by_us(text)), path
        assert len(seen) == len(by_us(text)), path
        compared += len(known)
    assert compared > 0
