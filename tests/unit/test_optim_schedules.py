"""Learning-rate schedules against numpy and torch."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slanglab.errors import ArgumentError
from slanglab.optim import Constant, Cosine, Exponential, Linear, OneCycle, Step

RATES = st.floats(1e-6, 10)
COUNTS = st.integers(1, 200)


def run(schedule, count=300):
    return np.array([schedule(i) for i in range(count)])


@given(RATES, COUNTS, st.floats(0.1, 1))
def test_constant_step_and_exponential(lr, every, gamma):
    i = np.arange(300)
    assert np.array_equal(run(Constant(lr)), np.full(300, lr))
    assert np.allclose(run(Step(lr, every, gamma)), lr * gamma ** np.floor(i / every), rtol=1e-12, atol=0)
    assert np.allclose(run(Exponential(lr, gamma)), lr * np.exp(i * np.log(gamma)), rtol=1e-9, atol=0)


@given(RATES, RATES, COUNTS)
def test_linear(lr, end, steps):
    assert np.allclose(
        run(Linear(lr, end, steps)), np.interp(np.arange(300), [0, steps], [lr, end]), rtol=1e-12
    )


@given(RATES, st.floats(0, 1), st.integers(2, 250), st.data())
def test_cosine_with_a_warm_up(lr, end, steps, data):
    warmup = data.draw(st.integers(0, steps - 1))
    found = run(Cosine(lr, steps, end, warmup))
    i = np.arange(300)
    share = np.clip((i - warmup) / (steps - warmup), 0, 1)
    wanted = np.where(
        i < warmup, lr * (i + 1) / max(warmup, 1), end + (lr - end) * np.cos(np.pi * share / 2) ** 2
    )
    assert np.allclose(found, wanted, rtol=1e-9, atol=1e-12 * lr)
    assert found[-1] == pytest.approx(end, abs=1e-12)


@example(1.0, 20, 0.05, 2.0, 2.0)
@given(RATES, st.integers(5, 250), st.floats(0.05, 0.95), st.floats(1.5, 50), st.floats(1.5, 1e5))
def test_one_cycle(lr, steps, rise, divide, divide_end):
    found = run(OneCycle(lr, steps, rise, divide, divide_end), steps + 20)
    top, last = rise * steps - 1, lr / divide / divide_end
    i = np.arange(steps + 20)
    up = lr / divide + (lr - lr / divide) * np.sin(np.pi / 2 * np.clip(i / max(top, 1e-9), 0, 1)) ** 2
    down = last + (lr - last) * np.cos(np.pi / 2 * np.clip((i - top) / (steps - 1 - top), 0, 1)) ** 2
    # Where the way up has no length, the first step is at the peak.
    assert np.allclose(found, np.where((i <= top) & (top > 0), up, down), rtol=1e-7, atol=1e-12 * lr)
    assert found[steps - 1] == pytest.approx(last)
    assert found.max() <= lr * (1 + 1e-12)


def torch_rates(make, count):
    torch = pytest.importorskip("torch", reason="torch is not installed: the numpy formulas stand in")
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.3)
    scheduler = make(torch.optim.lr_scheduler, optimizer)
    found = []
    for _ in range(count):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return np.array(found)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (Step(0.3, 7, 0.5), lambda s, o: s.StepLR(o, 7, 0.5)),
        (Exponential(0.3, 0.97), lambda s, o: s.ExponentialLR(o, 0.97)),
        (Linear(0.3, 0.03, 40), lambda s, o: s.LinearLR(o, 1.0, 0.1, 40)),
        (Cosine(0.3, 60, 0.01), lambda s, o: s.CosineAnnealingLR(o, 60, 0.01)),
        (OneCycle(0.3, 60), lambda s, o: s.OneCycleLR(o, 0.3, 60)),
        (OneCycle(0.3, 60, 0.45, 10, 100), lambda s, o: s.OneCycleLR(o, 0.3, 60, pct_start=0.45, div_factor=10, final_div_factor=100)),
    ],
)  # fmt: skip
def test_schedules_are_torchs(ours, theirs):
    assert np.allclose(run(ours, 60), torch_rates(theirs, 60), rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: Constant(float("nan")), "lr"),
        (lambda: Constant(-1.0), "lr"),
        (lambda: Step(1.0, 0), "every"),
        (lambda: Step(1.0, 2.5), "every"),
        (lambda: Cosine(1.0, 10, warmup=10), "warmup"),
        (lambda: Cosine(1.0, True), "steps"),
        (lambda: OneCycle(1.0, 10, rise=1.5), "rise"),
        (lambda: OneCycle(1.0, 10, divide=0), "divide"),
        (lambda: Exponential("fast", 0.9), "lr"),
        (lambda: Linear(1.0, float("inf"), 3), "end"),
    ],
)
def test_what_is_no_schedule_is_refused(make, argument):
    with pytest.raises(ArgumentError) as caught:
        make()
    assert caught.value.argument == argument
    assert caught.value.expected
