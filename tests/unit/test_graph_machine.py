"""A state machine over the cell graph with a stand-in compiler; the letters are the invariants that it holds."""

from graph_stand_in import StandIn, unit
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from slanglab.cells.graph import CellGraph
from slanglab.cells.versions import CompileError

NAMES = st.sampled_from(["a", "b", "c", "d", "e_1", "λ"])
IMPORTS = st.lists(NAMES, max_size=2, unique=True).map(tuple)


class CellGraphMachine(RuleBasedStateMachine):
    """`good` is the oracle: for each cell the value and imports of its last good text, evaluated with plain recursion."""

    handles = Bundle("handles")

    def __init__(self):
        super().__init__()
        self.compiler = StandIn()
        self.graph = CellGraph(self.compiler)
        self.good = {}
        self.latest = {}
        self.used = set()

    def expected(self, key):
        number, imports = self.good[key]
        return number + sum(self.expected(i) for i in imports)

    def versions(self):
        return {c.key: c.good.internal for c in self.graph if c.good is not None}

    def importers(self, key):
        """Return the transitive importers of `key` among the good texts."""
        found, pending = set(), [key]
        while pending:
            one = pending.pop()
            for other, (_, imports) in self.good.items():
                if one in imports and other not in found:
                    found.add(other)
                    pending.append(other)
        return found

    def unresolved(self, key, imports):
        return any(i not in self.good for i in imports) or self.graph.find_cycle(key, imports) is not None

    @rule(name=NAMES, number=st.integers(0, 9), imports=IMPORTS, broken=st.booleans())
    def run(self, name, number, imports, broken):
        text = unit(number, imports, broken=broken)
        before = self.versions()
        unchanged = (
            self.good.get(name) == (number, imports)
            and not broken
            and all(self.graph.get(name).good.built_on.get(i) == before.get(i) for i in imports)
            and (not self.graph.get(name).failure or self.latest[name] != text.text)
        )
        if self.unresolved(name, imports):
            self.graph.refuse(
                name, text, []
            )  # the session refuses what cannot be resolved before it is compiled
            self.latest[name] = text.text
            assert self.versions() == before  # I3
            return
        compiles = len(self.compiler.names)
        self.latest[name] = text.text
        try:
            outcome = self.graph.run(name, text)
        except CompileError:
            assert broken
            assert self.versions() == before  # I3: a failed compile changes nothing that callers see
            assert self.graph.is_stale(self.graph.get(name))
            return
        assert not broken
        self.good[name] = (number, imports)
        after = self.versions()
        if unchanged:
            assert not outcome.compiled  # I2
            assert len(self.compiler.names) == compiles
            assert after == before
        if outcome.compiled:
            retried = {
                c.key for c in outcome.recompiled if self.good.get(c.key) != _parsed(c.good.unit)
            }  # a cell whose failed text compiles now that its import does
            for key in retried:
                self.good[key] = _parsed(self.graph.get(key).good.unit)
            changed = {k for k in after if before.get(k) != after[k]}
            assert changed == {name} | (self.importers(name) | retried)  # I5: no fewer and no more

    @rule(name=NAMES)
    def run_again(self, name):
        cell = self.graph.get(name)
        if cell is None or cell.good is None or cell.failure or self.graph.is_stale(cell):
            return
        if any(self.graph.get(i) is None for i in cell.good.unit.imported):
            return
        before, compiles = self.versions(), len(self.compiler.names)
        assert not self.graph.run(name, cell.good.unit).compiled  # I2
        assert (self.versions(), len(self.compiler.names)) == (before, compiles)

    @rule(target=handles, name=NAMES)
    def hold(self, name):
        return self.graph.get(name)

    @rule(cell=handles)
    def call(self, cell):
        if cell is not None and cell.good is not None and not cell.forgotten and cell.key in self.good:
            assert cell.good.program == self.expected(cell.key)  # I1: old handles run the new code

    @rule(cell=consumes(handles))
    def drop(self, cell):
        pass

    @rule()
    def another_device(self):
        names = self.versions()
        self.graph.release()
        self.compiler = StandIn()
        assert self.graph.rebuild(self.compiler) == []
        assert sorted(self.compiler.names) == sorted(names.values())  # each once, under the name it had

    @rule()
    def restart_and_run_all(self):
        fresh = CellGraph(StandIn())  # I9: the order of edits does not matter
        done = set()
        while len(done) < len(self.good):
            for key, (number, imports) in self.good.items():
                if key not in done and done.issuperset(imports):
                    fresh.run(key, unit(number, imports))
                    done.add(key)
        for key in self.good:
            assert fresh.get(key).good.program == self.graph.get(key).good.program

    @invariant()
    def values_are_right(self):
        for key in self.good:
            assert self.graph.get(key).good.program == self.expected(key)  # I1

    @invariant()
    def acyclic(self):
        edges = self.graph.edges()  # I4
        for key in {a for a, _ in edges}:
            assert self.graph.find_cycle(key, [b for a, b in edges if a == key]) is None

    @invariant()
    def names_are_used_once(self):
        assert len(set(self.compiler.names)) == len(self.compiler.names)  # I6


def _parsed(text):
    lines = text.text.split("\n")
    number = next(int(line.split()[1]) for line in lines if line.startswith("value"))
    return number, tuple(line.split()[1] for line in lines if line.startswith("import"))


CellGraphMachine.TestCase.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
TestCellGraph = CellGraphMachine.TestCase
