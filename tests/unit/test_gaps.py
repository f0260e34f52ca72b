"""Which elements have gaps between their scalars."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from slanglab.tensors import gaps


@pytest.mark.parametrize(
    ("name", "stride", "expected"),
    [
        ("vector<half,3>", 8, True),
        ("matrix<half,2,3>", 16, True),
        ("vector<half,3>[5]", 40, True),
        ("matrix<half,2,3>[3]", 48, True),
        ("vector<float,3>", 16, True),
        ("vector<half,3>", 6, False),
        ("vector<half,4>", 8, False),
        ("vector<float,3>", 12, False),
        ("matrix<float,3,3>", 36, False),
        ("vector<bool,3>", 12, False),
        ("half", 2, False),
        ("half", 4, False),
        ("Ray", 8, False),
        ("Ray[2]", 16, False),
    ],
)
def test_which_elements_have_gaps(name: str, stride: int, expected: bool) -> None:
    element = SimpleNamespace(full_name=name, buffer_layout=SimpleNamespace(stride=stride))
    assert gaps._has_gaps(element) is expected
