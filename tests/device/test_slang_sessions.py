"""Slang sessions keep all that was loaded into them, so the lab ends one when much of it is of no use any more."""

import gc
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

import slanglab
from slanglab.cells import slang_session
from slanglab.cells.slang_session import SlangSession

TEXT = "[Differentiable] float f(float x, float a) { return a * x * x + %s * x; }"
EDITS = 30


@pytest.fixture
def cells(shell):
    return slanglab.current().cells


@pytest.fixture
def sessions(cells, monkeypatch):
    """Every session that is made, for as long as it lives; the first is new, with no kernels of cells that other tests left held."""
    cells.release()
    cells.rebuild()
    made: weakref.WeakSet[SlangSession] = weakref.WeakSet()
    first = SlangSession.__init__

    def noted(self, device):
        first(self, device)
        made.add(self)

    monkeypatch.setattr(SlangSession, "__init__", noted)
    return made


def call(module, k, rng):
    """Call `TEXT` with `k` both ways, and compare with the derivative by hand."""
    values = rng.uniform(-1, 1, 8)
    x = slanglab.tensor(values, grad=True)
    y = module.f(x, 2.0, _result="tensor").with_grads()
    slanglab.assign(y.grad, 1.0)
    module.f.bwds(x, 2.0, _result=y)
    np.testing.assert_allclose(y.to_numpy(), 2 * values**2 + k * values, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(x.grad.to_numpy(), 4 * values + k, rtol=1e-5, atol=1e-5)


def collect():
    """Collect what is unreachable, and what was held only until the device is idle."""
    slanglab.sync()
    gc.collect()


def current_session(name):
    return slanglab.current().cells.cell(name).good.program.session


@pytest.mark.parametrize("held", [False, True], ids=["dropped", "held as a notebook's Out does"])
def test_what_was_made_for_old_versions_is_let_go(cells, sessions, rng, held):
    programs, out = [], []
    for i in range(EDITS):
        module = slanglab.compile(TEXT % f"{i}.0", "grown")
        call(module, i, rng)
        if held:
            out.append(module)
        programs.append(weakref.ref(cells.cell("grown").good.program))
    collect()
    alive = [i for i, program in enumerate(programs) if program() is not None]
    # Functions that are held and not called again keep what they ran last until the next new session. A version
    # counts with its two kernels, so that there are some six in a session.
    assert len(alive) < 8 if held else alive == [EDITS - 1]
    assert alive[-1] == EDITS - 1
    assert list(sessions) == [current_session("grown")]
    assert 3 <= current_session("grown").loaded < 2 * 16


@pytest.fixture
def asked_for(monkeypatch):
    """Nothing is collected unless somebody asks for it; how often sessions did so far."""
    times = []

    def collected():
        times.append(gc.collect())

    monkeypatch.setattr(slang_session, "gc", SimpleNamespace(collect=collected))
    gc.disable()
    yield times
    gc.enable()


def test_forgotten_cells_are_let_go_of_as_edited_ones(cells, sessions, rng, asked_for):
    """Also those that the collector has not found yet: what was called holds on to itself."""
    for i in range(EDITS):
        call(slanglab.compile(TEXT % f"{i}.0", f"short_lived_{i}"), i, rng)
        assert cells.forget(f"short_lived_{i}")
    slanglab.compile(TEXT % "0.5", "last")
    collect()
    assert list(sessions) == [current_session("last")]
    assert current_session("last").loaded < 2 * 16


def test_forgotten_cells_that_are_held_go_on_and_are_looked_for_now_and_then(cells, sessions, rng, asked_for):
    held = []
    for i in range(EDITS):
        held.append(slanglab.compile(TEXT % f"{i}.0", f"remembered_{i}"))
        call(held[-1], i, rng)
        assert cells.forget(f"remembered_{i}")
    assert len(asked_for) <= 3 * EDITS / 16
    slanglab.compile(TEXT % "0.5", "last")
    for i in (0, EDITS // 2, EDITS - 1):
        call(held[i], i, rng)


def test_texts_that_do_not_compile_count_too(cells, sessions):
    kept = slanglab.compile("float f(float x) { return x + 1; }", "mistaken")
    before = weakref.ref(current_session("mistaken"))
    for i in range(EDITS):
        with pytest.raises(slanglab.CompileError):
            slanglab.compile(f"float f(float x) {{ return nope{i}; }}", "mistaken")
    collect()
    assert before() is None
    assert kept.f(1.0) == 2.0


def test_kernels_in_use_are_kept_however_many(cells):
    """A new session would have every one of them compiled again."""
    kernels = 20
    module = slanglab.compile("float f(float x, float a) { return a * x; }", "in_use")
    session = current_session("in_use")
    before = session.loaded
    for rank in range(1, kernels + 1):  # a kernel for each name in the prelude
        assert module.f.prelude(f"// {rank}")(2.0, 3.0) == 6.0
    assert session.loaded == before + kernels
    slanglab.compile("float g(float x) { return x; }", "in_use_beside")
    slanglab.compile("float g(float x) { return x + 1; }", "in_use_beside")
    assert current_session("in_use") is session


def test_a_cell_that_cannot_follow_keeps_its_own_session_and_no_other(cells, sessions, rng):
    slanglab.compile(TEXT % "0.5" + " float other(float x) { return x + 1; }", "base")
    stale = slanglab.compile("import base; float g(float x) { return other(x) * 2; }", "user").g
    assert stale(1.0) == 4.0
    own = current_session("user")
    sessions.add(own)
    for i in range(EDITS):
        call(slanglab.compile(TEXT % f"{i}.0", "base"), i, rng)
    assert stale(1.0) == 4.0
    assert current_session("user") is own
    collect()
    assert set(sessions) == {own, current_session("base")}
    ended = weakref.ref(own)
    del own
    # Once it follows again, nothing runs in the old session any more, and the next renewal ends it.
    slanglab.compile("import base; float g(float x) { return f(x, 2.0) * 2; }", "user")
    for i in range(EDITS):
        call(slanglab.compile(TEXT % f"{i}.5", "base"), i + 0.5, rng)
    collect()
    assert ended() is None
    assert stale(1.0) == 2 * (2 + EDITS - 0.5)
