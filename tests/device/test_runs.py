"""`slanglab.last_run()`, `sync()`, `timing()`, and the settings that steer calls."""

import numpy as np
import pytest

import slanglab
from slanglab.engine.plans import least

SOURCE = """
import slangpy;
[Differentiable] float quadratic(float a, float x) { return a * x * x; }
float twice(float x) { return 2 * x; }
"""


@pytest.fixture(scope="module")
def m(device):
    return slanglab.compile(SOURCE, "runs_under_test")


def count():
    """Elements for which a straight kernel pays on this device, and not a whole number of groups."""
    return max(100_000, least(slanglab.current().device) + 37)


def large():
    return slanglab.tensor(np.linspace(-1, 1, count(), dtype=np.float32), grad=True)


def test_a_small_call_went_to_slangpy_and_says_why(m):
    m.twice(slanglab.tensor([1.0, 2.0, 3.0]))
    run = slanglab.last_run()
    assert (run.function, run.mode, run.path, run.group_shape) == (
        "runs_under_test.twice",
        "forward",
        "slangpy",
        None,
    )
    assert "small" in run.reason
    assert run.host_ms > 0
    assert run.device_ms is None
    assert run.bytes == 12
    assert run.prints == ""
    assert run.warnings == []
    assert run.check.verdict is None


@pytest.mark.parametrize("times", [1, 2, 30])
def test_large_calls_take_the_straight_path_also_when_planned(m, times):
    x = large()
    for _ in range(times):
        y = m.quadratic(2.0, x)
    run = slanglab.last_run()
    assert (run.path, run.reason) == ("straight", "")
    assert run.group_shape is not None
    assert run.bytes == 4 * count()
    expected = 2 * np.linspace(-1, 1, count(), dtype=np.float32).astype(np.float64) ** 2
    np.testing.assert_allclose(y.to_numpy(), expected, rtol=1e-6)


def test_path_slangpy_sends_everything_there(m, control):
    x = large()
    fast = m.quadratic(2.0, x).to_numpy()
    control.change(path="slangpy")
    module = slanglab.compile(SOURCE, "runs_through_slangpy")
    plain = module.quadratic(2.0, x).to_numpy()
    run = slanglab.last_run()
    assert run.path == "slangpy"
    assert "asked for" in run.reason
    np.testing.assert_array_max_ulp(fast, plain, 1)


def test_the_path_can_be_changed_for_calls_that_are_planned(m, control):
    x = large()
    for _ in range(20):
        m.quadratic(2.0, x)
    control.change(path="slangpy")
    m.quadratic(2.0, x)
    assert slanglab.last_run().path == "slangpy"
    control.change(path="auto")
    m.quadratic(2.0, x)
    assert slanglab.last_run().path == "straight"


def test_a_new_kernel_has_a_time_and_an_old_one_has_none(device):
    module = slanglab.compile("float once(float x) { return x + 41; }", "compiled_once")
    x = slanglab.tensor([1.0, 2.0])
    module.once(x)
    first = slanglab.last_run()
    module.once(x)
    again = slanglab.last_run()
    assert 0 < first.compile_ms <= first.host_ms
    assert again.compile_ms == 0


def test_the_device_is_timed_when_asked(m, control):
    x = large()
    with slanglab.timing():
        m.quadratic(2.0, x)
        run = slanglab.last_run()
        assert run.device_ms is not None
        assert 0 < run.device_ms < 60_000
        assert "GB/s" in str(run)
    m.quadratic(2.0, x)
    assert slanglab.last_run().device_ms is None


def test_a_planned_small_call_is_reported_with_its_own_arguments(m):
    for n in (3, 5):
        for _ in range(20):
            m.twice(slanglab.tensor(np.ones(n, np.float32)))
        assert slanglab.last_run().bytes == 4 * n


def test_what_a_kernel_printed_is_in_the_report(device, capsys):
    module = slanglab.compile(
        'import sgl.device.print;\nvoid speak(int i) { print("number {}", i); }', "speaking"
    )
    module.speak(7)
    assert slanglab.last_run().prints.strip() == "number 7"
    slanglab.compile("float quiet(float x) { return x; }", "quiet").quiet(1.0)
    assert slanglab.last_run().prints == ""


def test_an_empty_call_took_no_path(m):
    m.twice(np.zeros((0,), np.float32))
    assert slanglab.last_run().path == "none"


def test_sync_waits(m):
    m.quadratic(2.0, large())
    slanglab.sync()


def test_settings_steer_the_calls_that_follow(shell, control):
    shell.run("%slang config path slangpy")
    assert control.policy.path == "slangpy"
    shell.run("%slang config gradients zero")
    shell.run("%slang config check off")
    shell.run("%slang config timing on")
    assert (control.policy.gradients, control.policy.check, control.policy.timing) == ("zero", "off", True)
    for name, value in (("path", "auto"), ("gradients", "accumulate"), ("check", "first"), ("timing", "off")):
        shell.run(f"%slang config {name} {value}")
    assert control.policy == type(control.policy)()


def test_the_last_run_lets_go_of_tensors_when_the_device_is_reset(shell):
    shell.run("%%slang\nfloat plus(float x) { return x + 1; }")
    for _ in range(20):
        shell["plus"](slanglab.tensor([1.0, 2.0]))
    slanglab.current().cells.release()
    assert slanglab.last_run() is None
    slanglab.current().cells.rebuild()


@pytest.mark.parametrize("asked", ["numpy", np.ndarray])
def test_large_results_are_what_was_asked_for_every_time(m, asked):
    x = large()
    expected = 2 * x.to_numpy().astype(np.float64)
    returning = m.twice.return_type(asked)
    for call in (returning, lambda v: m.twice(v, _result=asked)):
        for _ in range(12):
            found = call(x)
            assert type(found) is np.ndarray
            assert slanglab.last_run().path == "straight"
            np.testing.assert_allclose(found, expected, rtol=1e-6)
