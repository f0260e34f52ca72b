"""The state machine over cells with the real compiler: text through the magic, values through the device.

A cell `c` declares `float f_c(float x)` as a polynomial of its number and of what it imports; the oracle is a few lines of Python.
"""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule
from shell import Shell

import slanglab

NAMES = st.sampled_from(["a", "b", "c", "λ"])
IMPORTS = st.lists(NAMES, max_size=2, unique=True).map(tuple)
X = 0.5


def text(name, number, imports, broken):
    lines = [f"import {i};" for i in imports]
    terms = " + ".join([f"{number} * x", *(f"f_{i}(x)" for i in imports)])
    lines.append(f"[Differentiable] float f_{name}(float x) {{ return {terms}{' +' if broken else ''}; }}")
    return "\n".join(lines)


class RealCells(RuleBasedStateMachine):
    handles = Bundle("handles")

    def __init__(self):
        super().__init__()
        lab = slanglab.current()
        for cell in lab.cells.cells():
            lab.cells.forget(cell.key)
        self.shell = Shell()
        self.good = {}
        self.mine = set()

    def teardown(self):
        self.shell.close()

    def expected(self, name):
        number, imports = self.good[name]
        return number * X + sum(self.expected(i) for i in imports)

    def reaches(self, start, goal):
        return start == goal or any(self.reaches(i, goal) for i in self.good.get(start, (0, ()))[1])

    @rule(name=NAMES, number=st.integers(0, 9), imports=IMPORTS, broken=st.booleans())
    def run(self, name, number, imports, broken):
        unresolved = any(i not in self.good or self.reaches(i, name) for i in imports)
        fails = broken or unresolved
        output = self.shell.run(f"%%slang {name}\n{text(name, number, imports, broken)}", fails=fails)
        if not fails:
            self.good[name] = (number, imports)
            return
        cells = {c.key for c in slanglab.current().cells.cells()}
        for d in (
            output.error.diagnostics
        ):  # I11: every message names an existing cell and a place inside its text
            if d.line and d.severity == "error":
                assert d.cell.startswith("In[")
                assert 2 <= d.line <= 2 + len(imports)
        assert name in cells

    @rule(name=NAMES)
    def run_again(self, name):
        cell = slanglab.current().cells.cell(name)
        if cell is None or cell.good is None or cell.failure or name not in self.good:
            return
        internal = cell.good.internal
        number, imports = self.good[name]
        output = self.shell.run(f"%%slang {name}\n{text(name, number, imports, False)}")
        assert cell.good.internal == internal  # I2
        assert "unchanged" in output.text

    @rule(target=handles, name=NAMES)
    def hold(self, name):
        if name not in self.good or name in self.mine:
            return None
        return name, getattr(self.shell[name], f"f_{name}")

    @rule(pair=handles)
    def call(self, pair):
        if pair is not None and pair[0] in self.good:
            assert pair[1](X) == pytest.approx(self.expected(pair[0]), rel=1e-6)  # I1

    @rule()
    def reload(self):
        self.shell.run("%reload_ext slanglab")

    @rule(name=NAMES)
    def bind_a_python_object(self, name):
        self.shell.ns[name] = 3.0
        self.mine.add(name)

    @rule()
    def small_call(self):
        self.shell.run("%%slang -q one_more\nfloat plus(float x) { return x + 1; }")
        assert self.shell["one_more"].plus(1.0) == 2.0  # I12

    @invariant()
    def python_objects_are_left_alone(self):
        assert all(self.shell.ns[name] == 3.0 for name in self.mine)  # I7

    @invariant()
    def what_runs_is_what_was_good(self):
        for name in self.good:
            module = slanglab.current().cells.module(name)
            assert getattr(module, f"f_{name}")(X) == pytest.approx(self.expected(name), rel=1e-6)


RealCells.TestCase.settings = settings(
    max_examples=6, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck)
)
TestRealCells = RealCells.TestCase
