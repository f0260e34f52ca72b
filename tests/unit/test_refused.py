"""What is said of a kernel that the compiler does not survive."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from slanglab.engine import refused
from slanglab.engine.parameters import Parameter
from slanglab.guard import KernelRefusedError


def target(*parameters: Parameter, backward: bool = True) -> Any:
    return SimpleNamespace(
        name="f", backward=backward, device=None, by_name={p.name: p for p in parameters}, causes=list
    )


HALF = Parameter("x", "vector<half,2>", "vector", differentiable=True)
FLOAT = Parameter("y", "float", "scalar", differentiable=True)
GIVEN = Parameter("n", "half", "scalar")


@pytest.mark.parametrize("adds", [False, True])
def test_gradients_of_halves_on_a_driver_that_does_not_add_them(
    monkeypatch: pytest.MonkeyPatch, adds: bool
) -> None:
    monkeypatch.setattr(refused, "adds_halves", lambda device: adds)
    error = KernelRefusedError("a kernel", "crash", "SIGSEGV")
    said = str(refused.explained(target(HALF, FLOAT), error))
    assert "the backward kernel of f" in said
    assert ("the gradients of halves (x)" in said) == (not adds)
    assert ("`%slang device cuda`" in said) == (not adds)
    for other in (target(HALF, backward=False), target(FLOAT, GIVEN)):
        assert "halves" not in str(refused.explained(other, error))


def test_a_cause_is_named_with_its_line() -> None:
    cause = SimpleNamespace(
        line=3, cell="In[2]", code="SL1", text="a loop without a bound", title="", hint="bound it"
    )
    one = target(FLOAT)
    one.causes = lambda: [cause, SimpleNamespace(**{**vars(cause), "code": "SL2", "line": 7})]
    said = str(refused.explained(one, KernelRefusedError("a kernel", "hang", "20 s")))
    assert "line 3 of In[2]: a loop without a bound (and in line 7)" in said
    assert "bound it" in said


def test_a_linter_in_trouble_hides_nothing() -> None:
    one = target(FLOAT)
    one.causes = lambda: 1 / 0
    assert "the backward kernel of f" in str(
        refused.explained(one, KernelRefusedError("a kernel", "crash", "SIGSEGV"))
    )
