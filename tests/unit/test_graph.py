import pytest
from graph_stand_in import StandIn, unit

from slanglab.cells.graph import CellGraph
from slanglab.cells.versions import CompileError


@pytest.fixture
def compiler():
    return StandIn()


@pytest.fixture
def graph(compiler):
    return CellGraph(compiler)


def value(graph, key):
    return graph.get(key).good.program


def test_an_unchanged_cell_is_not_compiled_again(graph, compiler):
    graph.run("a", unit(1))
    outcome = graph.run("a", unit(1, label="In[7]"))
    assert not outcome.compiled
    assert len(compiler.names) == 1
    assert graph.get("a").good.unit.label == "In[7]"


def test_an_edit_reaches_every_importer_in_order(graph, compiler):
    graph.run("a", unit(1))
    graph.run("b", unit(10, ("a",)))
    graph.run("c", unit(100, ("b",)))
    graph.run("d", unit(1000, ("a", "c")))
    graph.run("other", unit(5))
    outcome = graph.run("a", unit(2))
    assert [c.key for c in outcome.recompiled] == ["b", "c", "d"]
    assert (value(graph, "b"), value(graph, "c"), value(graph, "d")) == (12, 112, 1114)
    assert graph.get("other").good.number == 1


def test_a_handle_sees_the_new_version(graph):
    cell = graph.run("a", unit(1)).cell
    graph.run("a", unit(2))
    assert cell.good.program == 2


def test_a_failed_edit_keeps_the_last_good_version_and_marks_what_stands_on_it(graph):
    graph.run("a", unit(1))
    graph.run("b", unit(10, ("a",)))
    with pytest.raises(CompileError):
        graph.run("a", unit(2, broken=True))
    assert value(graph, "a") == 1
    assert graph.is_stale(graph.get("a"))
    assert [c.key for c in graph.stale_because(graph.get("b"))] == ["a"]
    graph.run("a", unit(3))
    assert value(graph, "b") == 13
    assert not graph.is_stale(graph.get("b"))


def test_going_back_to_the_good_text_ends_staleness_without_a_compile(graph, compiler):
    graph.run("a", unit(1))
    with pytest.raises(CompileError):
        graph.run("a", unit(2, broken=True))
    count = len(compiler.names)
    assert not graph.run("a", unit(1)).compiled
    assert len(compiler.names) == count
    assert not graph.is_stale(graph.get("a"))


def test_an_importer_that_cannot_follow_runs_the_old_version(graph, compiler):
    graph.run("a", unit(1))
    graph.run("b", unit(10, ("a",)))

    compile_a = compiler.compile

    def only_a(internal, unit_, renames):
        if internal.startswith("b"):
            compiler.fail_next = True
        return compile_a(internal, unit_, renames)

    compiler.compile = only_a
    outcome = graph.run("a", unit(2))
    assert [c.key for c in outcome.gone_stale] == ["b"]
    assert value(graph, "b") == 11
    compiler.compile = compile_a
    graph.run("a", unit(3))  # b follows by itself
    assert value(graph, "b") == 13
    assert not graph.is_stale(graph.get("b"))


def test_a_broken_importer_still_follows_with_its_good_text(graph):
    graph.run("a", unit(1))
    graph.run("b", unit(10, ("a",)))
    with pytest.raises(CompileError):
        graph.run("b", unit(20, ("a",), broken=True))
    graph.run("a", unit(2))
    assert value(graph, "b") == 12
    assert graph.is_stale(graph.get("b"))


@pytest.mark.parametrize(
    ("key", "imports", "cycle"),
    [("a", ("a",), ["a", "a"]), ("a", ("c",), ["a", "c", "b", "a"]), ("c", ("a",), None)],
)
def test_cycles_are_named_in_order(graph, key, imports, cycle):
    graph.run("a", unit(1))
    graph.run("b", unit(1, ("a",)))
    graph.run("c", unit(1, ("b",)))
    assert graph.find_cycle(key, imports) == cycle


def test_a_diamond_is_compiled_once_each(graph, compiler):
    graph.run("a", unit(1))
    graph.run("l", unit(1, ("a",)))
    graph.run("r", unit(2, ("a",)))
    graph.run("top", unit(0, ("l", "r")))
    before = len(compiler.names)
    graph.run("a", unit(5))
    assert len(compiler.names) - before == 4
    assert value(graph, "top") == 13


def test_a_chain_of_a_thousand_cells_needs_no_recursion(graph):
    graph.run("c0", unit(0))
    for i in range(1, 1000):
        graph.run(f"c{i}", unit(1, (f"c{i - 1}",)))
    graph.run("c0", unit(7))
    assert value(graph, "c999") == 7 + 999


def test_rebuild_compiles_everything_for_another_device(graph):
    graph.run("a", unit(1))
    graph.run("b", unit(10, ("a",)))
    other = StandIn()
    other.names = []
    assert graph.rebuild(other) == []
    assert value(graph, "b") == 11
    assert len(other.names) == 2


def test_release_keeps_the_texts(graph):
    graph.run("a", unit(1))
    graph.run("b", unit(10, ("a",)))
    graph.release()
    assert graph.get("b").good is None
    assert graph.rebuild(StandIn()) == []
    assert value(graph, "b") == 11


def test_a_cell_that_fails_to_rebuild_says_so(graph):
    graph.run("a", unit(1))
    other = StandIn()
    other.fail_next = True
    ((cell, error),) = graph.rebuild(other)
    assert cell.key == "a"
    assert error.diagnostics
    assert cell.good is None


def test_odd_names_become_identifiers_inside(graph, compiler):
    graph.run("a b/c", unit(1))
    graph.run("a_b_c", unit(2))
    assert all(name.isidentifier() for name in compiler.names)
    assert len(set(compiler.names)) == 2


def test_a_forgotten_cell_leaves_its_importers_running(graph):
    graph.run("a", unit(1))
    graph.run("b", unit(10, ("a",)))
    graph.forget("a")
    assert value(graph, "b") == 11
    assert "a" not in graph


def test_the_error_names_the_first_message_and_counts_the_rest(graph):
    with pytest.raises(CompileError, match=r"broken .*In\[1\], line 1, column 1"):
        graph.run("a", unit(2, broken=True))
