"""Runs over tensors on the device: losses that are read late, measures against numpy, kept states, what is not finite."""

import threading

import numpy as np
import pytest

import slanglab as sl
from slanglab.training import measuring, states
from slanglab.training.losses import Losses
from slanglab.training.pictures import shots
from slanglab.training.running import Run

SOURCE = """
[Differentiable] float squared(float w, float x, float y) { let e = w * x - y; return e * e; }
"""


class Watch:
    watched = True
    spacing = 0.0

    def begin(self, run): ...

    def frame(self, run): ...

    def state(self, run): ...

    def poll(self): ...

    def finish(self, run): ...


class Descent:
    def __init__(self, params, lr):
        self.params, self.lr = params, lr

    def zero_grad(self):
        for t in self.params.values():
            t.grad.clear()

    def step(self):
        for t in self.params.values():
            sl.assign(t, t.to_numpy() - self.lr * t.grad.to_numpy())


@pytest.fixture(scope="module")
def module(device):
    return sl.compile(SOURCE, "training_test")


def run_of(step, **options):
    run = Run(step, **{"name": "test", "params": {}, "steps": 10, "watcher": Watch(), **options})
    run._run()
    return run


def with_gradient(value, gradient):
    t = sl.tensor(np.asarray(value, np.float32), grad=True)
    t.grad.copy_from_numpy(np.asarray(gradient, np.float32))
    return t


def test_a_fit_is_numpys(module, rng):
    x = rng.uniform(1, 2, 64).astype(np.float32)
    y = rng.uniform(-1, 1, 64).astype(np.float32)
    w = sl.zeros((64,), grad=True)
    optimizer = Descent({"w": w}, 0.05)

    def step(i):
        loss = module.squared(w, x, y, _result="tensor").with_grads()
        sl.assign(loss.grad, 1.0)
        module.squared.bwds(w, x, y, _result=loss)
        return float(loss.to_numpy().astype(np.float64).sum())

    run = run_of(step, params=optimizer.params, optimizer=optimizer, steps=30)
    p, losses, norms = np.zeros(64), [], []
    for _ in range(30):
        error = p * x - y
        losses.append(np.sum(error**2))
        gradient = 2 * error * x
        norms.append(np.linalg.norm(gradient))
        p = p - 0.05 * gradient
    np.testing.assert_allclose(run.history["loss"], losses, rtol=1e-4)
    at = run.history["measured_step"]
    np.testing.assert_allclose(run.history["gradient_norm/w"], np.array(norms)[at], rtol=1e-3)
    np.testing.assert_allclose(w.to_numpy(), p, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float", "half", "double"])
def test_losses_on_the_device_are_all_read(device, rng, dtype):
    if dtype == "double" and not device.has_feature(_double()):
        pytest.skip("no double precision here")
    numbers = rng.normal(size=6000).astype(
        {"float": np.float32, "half": np.float16, "double": np.float64}[dtype]
    )
    losses, found = Losses(), []
    pool = sl.tensor(numbers[:, None], dtype=dtype)
    for i in range(6000):
        if losses.full:
            found.append(losses.flush())
        # One buffer for all: each loss is a view into it.
        assert losses.take(pool[i]) is None
    found.append(losses.flush())
    assert np.array_equal(np.concatenate(found), numbers.astype(np.float64))


def _double():
    import slangpy as spy

    return spy.Feature.double


def test_a_loss_that_is_overwritten_was_copied_before(device):
    loss = sl.zeros((1,))

    def step(i):
        sl.assign(loss, [float(i)])
        return loss

    run = run_of(step, steps=500)
    assert np.array_equal(run.history["loss"], np.arange(500.0))


def test_a_late_loss_that_is_not_finite(device):
    loss, w = sl.zeros((1,)), sl.ones((3,), grad=True)

    def step(i):
        sl.assign(loss, [np.nan if i >= 40 else 1.0])
        return loss

    run = run_of(step, steps=5000, params={"w": w})
    assert run.stopped == "nan"
    assert run.trouble.step == 40
    assert np.isnan(run.history["loss"][40])
    assert run.states[-1].step <= 40


def test_numbers_of_gradients(device, rng):
    value, gradient = rng.normal(size=(2, 33, 7))
    gradient *= 10.0 ** rng.integers(-14, 8, (33, 7))
    gradient[rng.random((33, 7)) < 0.1] = 0
    t = with_gradient(value, gradient)
    single = gradient.astype(np.float32).astype(np.float64)
    measure = measuring.gradient({"t": t})["t"]
    np.testing.assert_allclose(measure.gradient, np.linalg.norm(single), rtol=1e-5)
    low, high = measuring.DECADES
    edges = 10.0 ** (np.arange((high - low) * measuring.PER_DECADE + 1) / measuring.PER_DECADE + low)
    # numpy's own bins are closed below; those below zero are closed at the other end, where no random number lies.
    expected = np.histogram(np.abs(single), edges)[0] / single.size
    np.testing.assert_allclose(measuring.spread({"t": t}), expected, rtol=1e-12)


def test_the_update_ratio(device, rng):
    t = sl.tensor(rng.normal(size=(50,)).astype(np.float32), grad=True)
    before = t.to_numpy().astype(np.float64)
    old = states.copied({"t": t}, gradients=False)[0]
    after = (before * 1.25 + 0.1).astype(np.float32)
    sl.assign(t, after)
    found = measuring.update(old, {"t": t})["t"]
    np.testing.assert_allclose(found, np.linalg.norm(after - before) / np.linalg.norm(before), rtol=1e-4)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_the_first_element_that_is_not_finite(device, rng, bad):
    gradient = rng.normal(size=(5, 6))
    place = tuple(int(n) for n in rng.integers((5, 6)))
    gradient[place] = bad
    t = with_gradient(rng.normal(size=(5, 6)), gradient)
    found = measuring.first_not_finite({"fine": with_gradient([1.0], [1.0]), "t": t})
    assert found.place() == f"t.grad[{place[0]}, {place[1]}]"
    assert found.kind == {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}[str(bad)]


def test_kinds_are_told_apart_where_there_are_several(device):
    t = with_gradient(np.zeros((4, 3)), [[0, 0, 0], [0, -np.inf, 0], [np.nan, 0, 0], [0, 0, np.inf]])
    found = measuring.first_not_finite({"t": t})
    assert (found.place(), found.kind, found.count) == ("t.grad[1, 1]", "-Inf", 3)


def test_copies_and_putting_back(device, rng):
    made = {
        "plain": with_gradient(rng.normal(size=(4, 5)), rng.normal(size=(4, 5))),
        "vector": sl.tensor(rng.normal(size=(6, 3)).astype(np.float32), dtype="float3", grad=True),
        "without": sl.ones((3,)),
        "empty": sl.zeros((0, 2), grad=True),
    }
    before = {name: t.to_numpy().copy() for name, t in made.items()}
    slope = made["plain"].grad.to_numpy().copy()
    state = states.State(3, 0.0, *states.copied(made))
    for t in made.values():
        if t.element_count:
            sl.assign(t, 7.0)
    made["plain"].grad.clear()
    states.put_back(state, made)
    for name, t in made.items():
        assert np.array_equal(t.to_numpy(), before[name]), name
    assert np.array_equal(made["plain"].grad.to_numpy(), slope)
    assert "without" not in state.gradients


def test_pictures(device, rng):
    t = with_gradient(np.arange(12.0).reshape(3, 4), np.array([[0, 1, -1, 0]] * 3))
    rgb = sl.tensor(rng.random((8, 8, 3)).astype(np.float32))
    curve = sl.tensor(rng.normal(size=100).astype(np.float32))
    first, second, third, fourth = shots({"t": t, "rgb": rgb, "curve": curve, "made": lambda: np.eye(3)})
    assert first.kind == "map"
    assert first.value.shape == (3, 4)
    assert (first.low, first.high) == (0, 11)
    assert first.value[0, 0] == 1
    assert first.value[2, 3] == 255
    assert first.gradient[0].tolist() == [128, 255, 1, 128]
    assert second.kind == "colors"
    assert second.value.shape == (8, 8, 3)
    assert third.kind == "line"
    assert np.array_equal(third.value[0], curve.to_numpy())
    assert fourth.shape == (3, 3)


def test_calls_from_four_threads_beside_a_run(module, rng):
    """NB-13."""
    x = rng.uniform(1, 2, 32).astype(np.float32)
    wrong = []

    def calls():
        for _ in range(30):
            found = module.squared(x, x, np.zeros(32, np.float32), _result="numpy")
            if not np.allclose(found, (x * x) ** 2, rtol=1e-5):
                wrong.append(found)

    threads = [threading.Thread(target=calls) for _ in range(4)]
    w = sl.ones((32,), grad=True)

    def step(i):
        return float(module.squared(w, x, x, _result="numpy").sum())

    for thread in threads:
        thread.start()
    run = run_of(step, params={"w": w}, steps=50)
    for thread in threads:
        thread.join()
    assert run.stopped == "done"
    assert wrong == []


@pytest.mark.parametrize("kind", ["Adam", "SGD", "LBFGS"])
def test_restore_puts_back_the_optimizer(device, rng, kind):
    target = rng.normal(size=7).astype(np.float32)
    w = sl.zeros((7,), grad=True)
    options = {"SGD": {"momentum": 0.9}}.get(kind, {})
    optimizer = getattr(sl.optim, kind)({"w": w}, lr=0.05, **options)

    def step(i=0):
        off = w.to_numpy() - target
        sl.assign(w.grad, off)
        return float((off**2).sum())

    if kind == "LBFGS":

        class Closed:
            """What `train` drives: LBFGS evaluates the loss itself."""

            params = optimizer.params
            lr = 1.0
            zero_grad = staticmethod(optimizer.zero_grad)
            state_dict, load_state_dict = optimizer.state_dict, optimizer.load_state_dict

            def step(self):
                optimizer.step(step)

        driven = Closed()
    else:
        driven = optimizer
    run = sl.train(step, steps=6, optimizer=driven, plot=False, keep=30)
    kept = run.states[-1]
    assert kept.step == 6
    after = []
    for _ in range(2):
        for _ in range(4):
            driven.zero_grad()
            step()
            driven.step()
        after.append(w.to_numpy().copy())
        state = run.restore()
        assert state.moments is not None
        assert np.array_equal(w.to_numpy(), kept.values["w"].to_numpy())
        assert optimizer.steps == 6
    # The same way again from the same point: moments and step count were put back.
    assert np.array_equal(after[0], after[1])
    assert not np.array_equal(after[0], kept.values["w"].to_numpy())


def test_a_gradient_that_was_not_finite_when_it_was_measured(device):
    w = sl.zeros((5,), grad=True)

    def step(i):
        sl.assign(w.grad, np.array([0, 1, np.nan if i == 0 else 1, 1, 1], np.float32))
        return 1.0

    # The first step is looked at, and what was found is read some steps later; the gradient is fine again then.
    run = run_of(step, params={"w": w}, steps=10**6)
    assert run.stopped == "nan"
    assert run.trouble.step == 0
    assert run.trouble.late >= 1
    assert run.trouble.what.name == "w.grad"
    assert run.trouble.what.count == 1
    assert "check_every=1 stops before the update" in str(run.trouble)
    run = run_of(step, params={"w": w}, steps=3, check_every=1)
    assert run.trouble.what.place() == "w.grad[2]"
    assert run.done == 0
