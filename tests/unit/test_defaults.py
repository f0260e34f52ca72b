import pytest

from slanglab.cells.defaults import literal


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8.0", 8.0),
        ("-1", -1),
        ("- 1.5e-3", -1.5e-3),
        (".5f", 0.5),
        ("1e3", 1000.0),
        ("2.", 2.0),
        ("1f", 1.0),
        ("0x1F", 31),
        ("7u", 7),
        ("3UL", 3),
        ("true", True),
        ("false", False),
        ("0.5h", 0.5),
    ],
)
def test_literals(text, value):
    found = literal(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("text", ["2.0 * PI", "float3(1, 2, 3)", "", "x", "1 + 1", "--1", "1.2.3", "E.A"])
def test_expressions_are_left_to_the_compiler(text):
    assert literal(text) is None
