"""Notebook cases of the explorer: floods of changes (NB-03), interrupts (NB-12), several threads (NB-13)."""

import signal
import threading
import time

import numpy as np
import pytest

import slanglab as sl
from slanglab.widgets.gate import GATE_SECONDS

X = np.linspace(-2, 2, 64)
SINGLE = X.astype(np.float32).astype(np.float64)


@pytest.fixture(scope="module")
def module(device):
    return sl.compile(
        "[Differentiable] float bend(float x, float a, float b) { return a * x * x + b * x; }",
        "explore_cases",
    )


def is_right(e):
    """Tell whether value and gradients are those of the settings."""
    a, b = e.values["a"], e.values["b"]
    grads = e.grads
    np.testing.assert_allclose(e.result, a * SINGLE**2 + b * SINGLE, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(grads["x"], 2 * a * SINGLE + b, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(grads["a"], SINGLE**2, rtol=1e-5, atol=1e-5)


def explored(module):
    return sl.explore(module.bend, x=X, a=(-5, 5, 1.0), b=(-5, 5, 0.5))


def test_a_view_is_not_flooded_and_gets_the_last_value(module, monkeypatch):
    """NB-03: a loop that turns a knob 2000 times, before a browser that draws ten pictures a second, and one that draws none."""
    e = explored(module)
    sent = []
    monkeypatch.setattr(e._gate, "_send", sent.append)
    e._take({"kind": "ready"})
    begin = acknowledged = time.monotonic()
    for i in range(2000):
        e.set(a=-5 + i / 200)
        if time.monotonic() - acknowledged > 0.1:
            acknowledged = time.monotonic()
            e._take({"kind": "ack", "seq": sent[-1].content["seq"]})
    took = time.monotonic() - begin
    # One for each picture that was drawn, and the first.
    assert len(sent) <= took / 0.1 + took / GATE_SECONDS + 2
    e._take({"kind": "ack", "seq": sent[-1].content["seq"]})
    assert sent[-1].content["meta"]["values"]["a"] == pytest.approx(-5 + 1999 / 200)
    e._take({"kind": "ack", "seq": sent[-1].content["seq"]})
    before = len(sent)
    begin = time.monotonic()
    for i in range(500):
        e.set(a=i / 200)
    assert len(sent) - before <= 1 + (time.monotonic() - begin) / GATE_SECONDS
    e.close()


def test_an_interrupt_leaves_an_explorer_that_is_right(module, rng):
    """NB-12: Ctrl-C at any moment of a loop of changes; values, result and gradients still belong together."""
    e = explored(module)
    earlier = signal.signal(signal.SIGALRM, signal.default_int_handler)
    stopped = 0
    try:
        for wait in rng.uniform(0.002, 0.05, 25):
            try:
                signal.setitimer(signal.ITIMER_REAL, wait)
                while True:
                    a, b = rng.uniform(-5, 5, 2)
                    e.set(a=float(a), b=float(b))
            except KeyboardInterrupt:
                stopped += 1
            is_right(e)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, earlier)
    assert stopped == 25
    e.set(a=2.0, b=0.25)
    assert e.values["a"] == 2.0
    is_right(e)
    e.close()


def test_one_explorer_in_four_threads(module):
    """NB-13: each change is whole, whoever makes it; linked explorers do not wait for each other for ever."""
    e, other = explored(module), explored(module)
    e.link(other, "a")
    wrong = []

    def turn(one, seed):
        rng = np.random.default_rng(seed)
        for _ in range(30):
            try:
                one.set(a=float(rng.uniform(-5, 5)), b=float(rng.uniform(-5, 5)))
                if not np.isfinite(one.result).all():
                    wrong.append("not finite")
            except Exception as error:
                wrong.append(repr(error))

    threads = [threading.Thread(target=turn, args=(one, i)) for i, one in enumerate((e, other, e, other))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert wrong == []
    assert e.values["a"] == other.values["a"]
    is_right(e)
    is_right(other)
    e.close()
    other.close()


def test_an_explorer_for_each_of_four_threads(module):
    """NB-13."""
    wrong = []

    def turn(seed):
        rng = np.random.default_rng(seed)
        e = explored(module)
        try:
            for _ in range(30):
                e.set(a=float(rng.uniform(-5, 5)), b=float(rng.uniform(-5, 5)))
                is_right(e)
        except BaseException as error:
            wrong.append(repr(error))
        finally:
            e.close()

    threads = [threading.Thread(target=turn, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []
