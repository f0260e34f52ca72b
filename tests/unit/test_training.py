"""The loop, its history and controls, with numpy parameters: no device."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from slanglab.errors import ArgumentError, SlangLabError
from slanglab.tensors.sources import Arrays
from slanglab.training import run as run_module
from slanglab.training import running as running_module
from slanglab.training.controls import Controls
from slanglab.training.flags import flag
from slanglab.training.interrupts import Deferred
from slanglab.training.losses import Losses
from slanglab.training.run import FRAME
from slanglab.training.running import Run, Steps
from slanglab.training.series import Column, decimated
from slanglab.training.states import Kept, State


class Watch:
    """A watcher that keeps what it is told."""

    watched = True
    spacing = 0.0

    def __init__(self, act=None):
        self.told = []
        self.act = act

    def begin(self, run):
        self.told.append("begin")

    def frame(self, run):
        self.told.append((run.phase, run.done))
        if self.act:
            self.act(run)

    def state(self, run):
        self.told.append(("state", run.phase))

    def poll(self):
        pass

    def finish(self, run):
        self.told.append(("finish", run.stopped))


class Descent:
    """Gradient descent on numpy arrays, with the interface of the optimizers."""

    def __init__(self, params, lr):
        self.params, self.lr = params, lr
        self.calls = []

    def zero_grad(self):
        self.calls.append("zero")
        for pair in self.params.values():
            pair.gradient[...] = 0

    def step(self):
        self.calls.append("step")
        for pair in self.params.values():
            pair.value[...] -= self.lr * pair.gradient


def made(step, **options):
    settings = {"name": "test", "params": {}, "steps": 10, **options}
    return Run(step, **settings)


def quadratic(rng, n=5):
    """Return a pair, its optimizer and a step: the loss is half the squared distance to a target."""
    target = rng.normal(size=n)
    pair = Arrays(np.zeros(n), np.zeros(n))
    optimizer = Descent({"größe": pair}, 0.1)

    def step(i):
        pair.gradient[...] += pair.value - target
        return 0.5 * float(np.sum((pair.value - target) ** 2))

    return pair, optimizer, step, target


# ----- numbers -----


def test_columns_grow_and_keep_what_was_read(rng):
    numbers = rng.normal(size=5000)
    column = Column()
    for x in numbers[:1500]:
        column.append(x)
    early = column.view()
    column.extend(numbers[1500:4000])
    for x in numbers[4000:]:
        column.append(x)
    assert np.array_equal(early, numbers[:1500])
    assert np.array_equal(column.view(), numbers)
    assert np.array_equal(column.view(4321), numbers[4321:])


def test_decimation_keeps_extremes_and_ends(rng):
    for n in (0, 1, 100, 101, 4567, 100_003):
        y = rng.normal(size=n)
        y[rng.random(n) < 0.01] = np.nan
        for most in (6, 100, 777):
            at = decimated(y, most)
            assert len(at) <= max(most, 0) or len(at) == n <= most
            assert np.all(np.diff(at) > 0)
            if n:
                assert at[0] == 0
                assert at[-1] == n - 1
                assert np.nanmin(y[at]) == np.nanmin(y)
                assert np.nanmax(y[at]) == np.nanmax(y)


def test_decimation_of_nothing_finite():
    at = decimated(np.full(1000, np.nan), 50)
    assert 2 <= len(at) <= 50


def test_losses_that_are_numbers():
    losses = Losses()
    for given in (1.5, np.float32(1.5), np.array([1.5]), np.array([[1.5]]), 1, True):
        assert losses.take(given) == float(np.asarray(given).reshape(()))
    for wrong in (None, "a", [1.0, 2.0], np.zeros((2, 2)), np.zeros(0), {}):
        with pytest.raises(ArgumentError, match="one number"):
            losses.take(wrong)
    assert losses.waiting == 0


def test_kept_states_are_spread_and_end_with_the_latest():
    kept = Kept(8)
    for step in range(1000):
        kept.add(State(step, 0.0, {}, {}))
    steps = [state.step for state in kept]
    assert len(steps) <= 8
    assert steps[0] == 0
    assert steps[-1] == 999
    assert max(np.diff(steps)) < 500
    none = Kept(0)
    none.add(State(1, 0.0, {}, {}))
    assert len(none) == 0
    one = Kept(1)
    for step in (1, 2, 3):
        one.add(State(step, 0.0, {}, {}))
    assert [state.step for state in one] == [3]


def test_flags():
    steps = np.arange(30.0) * 10
    norms = np.ones(30)
    assert flag(steps, norms) is None
    assert flag(steps[:0], norms[:0]) is None
    norms[-1] = 6
    assert flag(steps, norms).text() == "jumped x6"
    norms[-1] = 600
    assert flag(steps, norms).kind == "exploding"
    norms[20:] = 0
    assert flag(steps, norms).text() == "dead 90 steps"
    assert flag(steps[:21], norms[:21]) is None
    assert flag(steps, norms, 3).text() == "3 not finite"


# ----- the loop -----


def test_a_run_records_what_happened(rng):
    pair, optimizer, step, target = quadratic(rng)
    run = made(step, params=optimizer.params, optimizer=optimizer, steps=50, watcher=(watch := Watch()))
    run._run()
    # The same descent in closed form: the distance shrinks by 1 - lr a step.
    expected = 0.5 * np.sum(target**2) * 0.9 ** (2 * np.arange(50))
    np.testing.assert_allclose(run.history["loss"], expected, rtol=1e-12)
    np.testing.assert_allclose(pair.value, target * (1 - 0.9**50), rtol=1e-12)
    assert run.stopped == "done"
    assert run.done == 50
    assert optimizer.calls == ["zero", "step"] * 50
    assert np.all(run.history["learning_rate"] == 0.1)
    assert np.all(np.diff(run.history["time"]) >= 0)
    measured = run.history["measured_step"]
    assert measured[0] == 0
    assert measured[-1] == 49
    norms = run.history["gradient_norm/größe"]
    np.testing.assert_allclose(norms[0], np.linalg.norm(target), rtol=1e-6)
    np.testing.assert_allclose(norms[-1], np.linalg.norm(target) * 0.9**49, rtol=1e-6)
    assert watch.told[0] == "begin"
    assert watch.told[-1] == ("finish", "done")


def test_the_update_ratio(rng):
    pair, optimizer, step, target = quadratic(rng)
    pair.value[...] = before = rng.normal(size=5)
    moved = 0.1 * (before - target)
    run = made(step, params=optimizer.params, optimizer=optimizer, steps=1, watcher=Watch())
    run._run()
    ratio = run.history["update_ratio/größe"][0]
    np.testing.assert_allclose(ratio, np.linalg.norm(moved) / np.linalg.norm(before), rtol=1e-5)


def test_no_steps():
    run = made(lambda i: 1 / 0, steps=0, watcher=(watch := Watch()))
    run._run()
    assert run.stopped == "done"
    assert len(run.history["loss"]) == 0
    assert watch.told == ["begin", ("finish", "done")]
    with pytest.raises(ArgumentError, match="0 steps or more"):
        made(lambda i: 0.0, steps=-1)


def test_an_exception_is_the_users_own_and_the_history_stays():
    def step(i):
        if i == 7:
            raise KeyError("mine")
        return float(i)

    run = made(step, watcher=(watch := Watch()))
    with pytest.raises(KeyError, match="mine") as caught:
        run._run()
    assert caught.traceback[-1].name == "step"
    assert run.stopped == "error"
    assert run.error is caught.value
    assert np.array_equal(run.history["loss"], np.arange(7.0))
    assert watch.told[-1] == ("finish", "error")


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_not_finite_stops_before_the_update(rng, bad):
    pair, optimizer, step, _ = quadratic(rng)

    def spoiled(i):
        found = step(i)
        return bad if i == 4 else found

    run = made(spoiled, params=optimizer.params, optimizer=optimizer)
    run._run()
    assert run.stopped == "nan"
    assert run.done == 4
    assert len(run.history["loss"]) == 5
    assert optimizer.calls.count("step") == 4
    assert run.trouble.step == 4
    assert run.trouble.what.name == "loss"
    assert run.trouble.intact
    assert np.isfinite(pair.value).all()


def test_a_gradient_that_is_not_finite_is_named(rng):
    pair, optimizer, step, _ = quadratic(rng)

    def spoiled(i):
        found = step(i)
        if i == 6:
            pair.gradient[3] = np.inf
            pair.gradient[4] = np.nan
        return found

    run = made(spoiled, params=optimizer.params, optimizer=optimizer, check_every=1)
    run._run()
    assert run.stopped == "nan"
    assert run.trouble.what.place() == "größe.grad[3]"
    assert run.trouble.what.count == 2
    assert run.trouble.what.kind == "+Inf"
    assert "+Inf at step 6: größe.grad[3], first of 2." in str(run.trouble)
    assert run.flags()["größe"].text() == "2 not finite"
    kept = run.trouble.kept
    state = run.restore()
    assert state.step == kept
    assert np.array_equal(pair.value, state.values["größe"])


def test_parameters_that_are_not_finite_are_refused_before_the_first_step():
    pair = Arrays(np.array([0.0, np.nan]), np.zeros(2))
    run = made(lambda i: 0.0, params={"w": pair})
    with pytest.raises(ArgumentError, match=r"w\[1\]"):
        run._run()


def test_restore(rng):
    pair, optimizer, step, target = quadratic(rng)
    run = made(step, params=optimizer.params, optimizer=optimizer, steps=30, watcher=Watch())
    run._run()
    run.restore(0)
    assert np.array_equal(pair.value, np.zeros(5))
    run.restore()
    np.testing.assert_allclose(pair.value, target * (1 - 0.9**30))
    with pytest.raises(SlangLabError, match="no kept state 99"):
        run.restore(99)


def test_params_without_gradients():
    plain = np.ones(3)
    run = made(lambda i: 1.0, params={"plain": plain}, steps=3, watcher=Watch())
    run._run()
    assert run.measures["plain"].gradient is None
    assert np.isnan(run.history["gradient_norm/plain"]).all()


# ----- controls -----


def test_pause_step_play_and_stop_from_another_thread():
    seen = []

    def step(i):
        seen.append(i)
        return 1.0

    run = made(step, steps=10**9, watcher=Watch())
    run.pause()
    thread = threading.Thread(target=run._run)
    thread.start()
    wait_until(lambda: run.phase == "paused")
    assert seen == []
    assert run.controls.waiting
    for expected in (1, 2, 3):
        run.step()
        wait_until(lambda n=expected: len(seen) == n and run.phase == "paused")
    time.sleep(4 * FRAME)
    assert seen == [0, 1, 2]
    assert run.controls.waiting
    run.play()
    assert not run.controls.waiting
    wait_until(lambda: len(seen) > 50)
    run.stop()
    thread.join(20)
    assert not thread.is_alive()
    assert run.stopped == "stopped"
    assert len(run.history["loss"]) == run.done == len(seen)


def wait_until(check):
    for _ in range(2000):
        if check():
            return
        time.sleep(0.01)
    raise AssertionError("it did not happen")


def test_a_new_learning_rate_counts_from_the_next_step(rng):
    _, optimizer, step, _ = quadratic(rng)

    def changing(i):
        if i == 3:
            run.lr = 0.05
        return step(i)

    run = made(changing, params=optimizer.params, optimizer=optimizer, steps=8)
    run._run()
    assert run.history["learning_rate"].tolist() == [0.1] * 4 + [0.05] * 4
    run.lr = 0.5
    assert optimizer.lr == 0.5
    for wrong in (math.nan, -1.0, math.inf):
        with pytest.raises(ArgumentError):
            run.lr = wrong
    with pytest.raises(SlangLabError, match="no optimizer"):
        made(step).lr = 1.0


def test_a_step_that_is_asked_for_is_used_up_once():
    controls = Controls()
    controls.step(2)
    assert not controls.paused
    controls.take()
    assert not controls.paused
    controls.take()
    assert controls.paused
    controls.play()
    controls.take()
    assert not controls.pending


def test_pauses_do_not_count_as_time():
    run = made(lambda i: 1.0, steps=2, watcher=Watch())
    run.step()
    thread = threading.Thread(target=run._run)
    thread.start()
    wait_until(lambda: run.done == 1 and run.phase == "paused")
    time.sleep(1.0)
    run.play()
    thread.join(20)
    assert run.history["time"][-1] < 0.9


# ----- interrupts -----


def test_an_interrupt_ends_between_two_steps(rng):
    _, optimizer, step, _ = quadratic(rng)
    halves = []

    def interrupted(i):
        if i == 5:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)
        halves.append(i)
        return step(i)

    run = made(interrupted, params=optimizer.params, optimizer=optimizer, steps=1000)
    before = signal.getsignal(signal.SIGINT)
    run._run()
    assert signal.getsignal(signal.SIGINT) is before
    assert run.stopped == "interrupted"
    # The step in which it came was done to its end, with its update.
    assert run.done == 6
    assert optimizer.calls.count("step") == 6
    assert halves == list(range(6))
    assert len(run.history["loss"]) == 6


def test_a_step_that_does_not_end_is_interrupted():
    def endless(i):
        os.kill(os.getpid(), signal.SIGINT)
        while True:
            time.sleep(0.01)

    run = made(endless)
    run._run()
    assert run.stopped == "interrupted"
    assert run.done == 0


def test_an_interrupt_while_paused():
    run = made(lambda i: 1.0, steps=10)
    run.pause()
    threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT]).start()
    run._run()
    assert run.stopped == "interrupted"


def test_an_interrupt_of_a_run_in_a_run_ends_both():
    inner = []

    def step(i):
        one = made(lambda k: (os.kill(os.getpid(), signal.SIGINT) if k == 2 else None) or 1.0, steps=100)
        one._run()
        inner.append(one.stopped)
        return 1.0

    run = made(step)
    run._run()
    assert inner == ["interrupted"]
    assert run.stopped == "interrupted"


def test_the_second_interrupt_raises():
    deferred = Deferred(patience=100)

    def twice():
        with deferred:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)
            assert deferred.asked
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)

    with pytest.raises(KeyboardInterrupt):
        twice()


# ----- own loops -----


def test_steps_of_an_own_loop():
    steps = Steps(name="own", params={}, steps=5, watcher=(watch := Watch()))
    for i in steps:
        steps.log(2.0 * i, accuracy=i / 10)
    assert steps.history["loss"].tolist() == [0, 2, 4, 6, 8]
    assert steps.history["accuracy"].tolist() == [0, 0.1, 0.2, 0.3, 0.4]
    assert steps.stopped == "done"
    assert watch.told[-1] == ("finish", "done")
    with pytest.raises(SlangLabError, match="inside the loop"):
        steps.log(1.0)
    with pytest.raises(SlangLabError, match="done already"):
        iter(steps)


def test_leaving_a_loop():
    steps = Steps(name="own", params={}, steps=50)
    for i in steps:
        steps.log(1.0)
        if i == 3:
            break
    assert steps.stopped == "left"
    assert len(steps.history["loss"]) == 4


def test_an_error_in_an_own_loop_is_noted_when_its_cell_ends():
    steps = Steps(name="own", params={}, steps=50, watcher=(watch := Watch()))

    def loop():
        for i in steps:
            steps.log(1.0)
            if i == 3:
                raise KeyboardInterrupt

    try:
        loop()
    except KeyboardInterrupt as error:
        steps.fail(error)
    assert steps.stopped == "interrupted"
    assert watch.told[-1] == ("finish", "interrupted")


def test_an_error_after_a_loop_is_not_its_own():
    steps = Steps(name="own", params={}, steps=50)
    for i in steps:
        if i == 3:
            break
    try:
        raise ValueError("something else")
    except ValueError as error:
        steps.fail(error)
    assert steps.stopped == "left"
    assert steps.error is None


def test_an_own_loop_stops_at_what_is_not_finite():
    steps = Steps(name="own", params={}, steps=50)
    seen = []
    for i in steps:
        seen.append(i)
        steps.log(math.nan if i == 4 else 1.0)
    assert seen == [0, 1, 2, 3, 4]
    assert steps.stopped == "nan"
    assert steps.trouble.step == 4


def test_a_loss_of_an_own_loop_from_a_function():
    holder = SimpleNamespace(x=0.0)
    steps = Steps(lambda: holder.x, name="own", params={}, steps=4)
    for i in steps:
        holder.x = i**2
    assert steps.history["loss"].tolist() == [0, 1, 4, 9]


# ----- in the background -----


def test_a_run_in_the_background_leaves_room_for_others():
    ticks = []

    async def main():
        run = made(lambda i: time.sleep(0.002) or 1.0, steps=200)
        run._start()
        assert run.done == 0
        while run.phase != "ended":
            ticks.append(run.done)
            await asyncio.sleep(0)
        return await run

    run = asyncio.run(main())
    assert run.stopped == "done"
    assert run.done == 200
    assert len(set(ticks)) > 5


def test_an_error_in_the_background_is_raised_by_wait():
    async def main():
        run = made(lambda i: 1 / (3 - i))
        run._start()
        while run.phase != "ended":
            await asyncio.sleep(0.01)
        return run

    run = asyncio.run(main())
    with pytest.raises(ZeroDivisionError):
        run.wait()
    with pytest.raises(ZeroDivisionError):
        run.result


def test_wait_goes_on_with_what_the_background_began():
    async def main():
        run = made(lambda i: time.sleep(0.001) or float(i), steps=300)
        run._start()
        await asyncio.sleep(0.1)
        begun = run.done
        assert run.wait() is run
        await asyncio.sleep(0.01)
        return run, begun

    run, begun = asyncio.run(main())
    assert 0 < begun < 300
    assert np.array_equal(run.history["loss"], np.arange(300.0))


def test_the_background_needs_a_loop():
    with pytest.raises(SlangLabError, match="event loop"):
        made(lambda i: 1.0)._start()


def test_a_step_cannot_wait_for_its_own_run():
    run = made(lambda i: run.wait())
    with pytest.raises(SlangLabError, match="own end"):
        run._run()


# ----- tables -----


def test_to_pandas(rng, monkeypatch):
    pandas = pytest.importorskip("pandas")
    _, optimizer, step, _ = quadratic(rng)
    run = made(step, params=optimizer.params, optimizer=optimizer, steps=20, watcher=Watch())
    run._run()
    frame = run.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame["loss"].tolist() == run.history["loss"].tolist()
    norms = frame["gradient_norm/größe"].dropna()
    assert norms.index.tolist() == run.history["measured_step"].tolist()
    assert norms.tolist() == run.history["gradient_norm/größe"].tolist()


def test_without_pandas(monkeypatch):
    run = made(lambda i: 1.0)
    run._run()
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(SlangLabError, match="pip install pandas"):
        run.to_pandas()


@pytest.mark.parametrize("share", [0.03, 0.1, 0.4])
def test_looks_take_their_share(monkeypatch, share):
    """Also after a first picture that had to be compiled: it is counted once, and puts nothing off."""
    now, looks = [0.0], []
    for module in (run_module, running_module):
        monkeypatch.setattr(module, "clock", lambda: now[0], raising=False)
    watch = Watch()
    watch.watched = False

    def shown():
        now[0] += 0.05 if looks else 5.0
        looks.append(now[0])
        return Arrays(np.eye(4), None)

    def step(i):
        watch.watched = True
        now[0] += 0.01
        return 1.0

    run = made(step, steps=6000, show={"shown": shown}, watcher=watch, look_share=share)
    run._run()
    assert run.stopped == "done"
    gaps = np.diff(looks)
    # Five looks a second at most, and what the first ones leave of the share is made up for.
    assert gaps[:-1].min() > 0.2  # the last is at the end
    assert gaps.max() < 1.2 * (0.05 / share + 0.05) + 0.2
    spent = 0.05 * len(gaps) / now[0]
    assert 0.4 * share / (1 + share) < spent < 1.05 * share
