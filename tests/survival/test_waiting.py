"""Interrupt, endless kernels, forks and ends, each once in a real kernel; `waiting.runs` has them many times."""

import signal
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
import slangpy as spy
import waiting
from waiting import CELL, LOSSES, SITUATIONS, WHILE

import slanglab
from slanglab.errors import DeviceGoneError
from slanglab.waiting import methods, watch


@pytest.fixture(scope="module")
def kernel():
    kernel = waiting.started()
    yield kernel
    kernel.close()


@pytest.fixture
def slow():
    """A function that keeps the device at work."""
    module = slanglab.compile(CELL.split("\n", 1)[1], "slow_cell")
    out = slanglab.zeros(64)
    module.slow(spy.grid((64,)), 1, _result=out)
    slanglab.sync()
    yield lambda turns: module.slow(spy.grid((64,)), turns, _result=out)
    slanglab.sync()


@pytest.mark.parametrize("name", SITUATIONS)
def test_LP_01_interrupt_gives_the_prompt_back_within_half_a_second(kernel, name):
    row = waiting.interrupted(kernel, name, 0.7)
    waiting.recovered(kernel)
    assert row.ok, row.detail


def test_a_second_interrupt_says_again_what_is_running_and_the_work_goes_on(kernel):
    first = kernel.run("poly.slow(spy.grid((64,)), SOME, _result=o)\no.to_numpy()", interrupt_after=0.5)
    assert "poly.slow is running on the device" in first.error.text
    assert "%slang reset" in first.error.text
    second = kernel.run("x.to_numpy()", interrupt_after=0.5)
    assert "poly.slow is still running on the device" in second.error.text
    assert kernel.must("print(x.to_numpy().tolist())", timeout=60).strip().endswith("[1.0, 2.0, 3.0, 4.0]")


def test_an_edit_while_the_old_version_runs_does_not_wait_for_it(kernel):
    kernel.must("poly.slow(spy.grid((64,)), SOME, _result=o);")
    edited = kernel.run(CELL.replace("x * x", "x * x + 0"), timeout=30)
    assert edited.ok
    assert not kernel.must(
        "from slanglab import waiting\nprint(waiting.is_idle(sl.current().device))"
    ).endswith("True\n")
    assert kernel.must("sl.sync(); print(poly.f(3.0))", timeout=60).strip().endswith("9.0")


@pytest.mark.parametrize("site", LOSSES)
def test_a_lost_device_costs_a_message_and_the_tensors(kernel, site):
    row = waiting.losses(kernel, site)
    assert row.ok, row.detail


def test_a_forked_child_is_refused_and_the_parent_goes_on(kernel):
    row = waiting.left_alone(kernel)
    assert row.ok, row.detail


def test_LP_02_an_endless_kernel_costs_the_device_twice():
    with waiting.started() as kernel:
        for way in ("reset", "on"):
            row = waiting.endless(kernel, way)
            assert row.ok, row.detail


@pytest.mark.parametrize("what", WHILE)
def test_a_kernel_restarts_at_once_and_leaves_no_process(what):
    row = waiting.ended(what, "restart")
    assert row.ok, row.detail


@pytest.mark.parametrize("running", ["pass", "poly.slow(spy.grid((64,)), LONG, _result=o)"])
def test_a_file_that_the_notebook_left_open_is_written_when_it_ends(tmp_path, running):
    plain, held = tmp_path / "plain.txt", tmp_path / "held.txt"
    with waiting.started() as kernel:
        kernel.must(f"plain = open({str(plain)!r}, 'w'); plain.write('a b')")
        kernel.must(f"class Log: pass\nlog = Log(); log.me = log; log.file = open({str(held)!r}, 'w')")
        kernel.must("log.file.write('c d')\ndel log\n" + running)
        kernel.shutdown()
    assert (plain.read_text(), held.read_text()) == ("a b", "c d")


@pytest.mark.parametrize(
    ("end", "status"), [("sys.exit(7)", 7), ("raise SystemExit(3)", 3), ("pass", 0), ("1 / 0", 1)]
)
def test_a_script_whose_device_never_stops_ends_with_its_status_and_runs_what_others_registered(end, status):
    script = f"""
        import atexit, sys, numpy as np, slangpy as spy
        atexit.register(print, "registered before")
        import slanglab
        m = slanglab.compile({CELL.split(chr(10), 1)[1]!r}, "m")
        t = slanglab.zeros(32)
        m.forever(spy.grid((32,)), t)
        {end}
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == status, done.stderr
    assert done.stdout.strip() == "registered before"


def test_waiting_in_a_thread_and_in_the_main_one_at_once(slow):
    slow(20_000)
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(slanglab.ones(5).to_numpy().sum())) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    assert slanglab.ones(7).to_numpy().sum() == 7
    for thread in threads:
        thread.join()
    assert found == [5.0] * 4


def test_an_interrupt_leaves_the_tensors_and_what_was_asked_for(slow):
    x = slanglab.tensor([1, 2, 3])
    slow(200_000)
    threading.Timer(0.2, signal.raise_signal, [signal.SIGINT]).start()
    with pytest.raises(KeyboardInterrupt, match="running on the device"):
        x.to_numpy()
    slanglab.sync()
    assert x.to_numpy().tolist() == [1, 2, 3]


@pytest.mark.parametrize("calls", [0, 1, 40])
def test_where_copies_block_a_call_waits_before_its_arrays_are_copied(slow, monkeypatch, calls):
    """As on CUDA, whose copies wait natively: a first call, a planned one, and one that is written out."""
    monkeypatch.setattr(slanglab.waiting, "copies_block", lambda device: True)
    monkeypatch.setattr(watch.marks, "copies_block", lambda device: True)
    square = slanglab.compile("float square(float x) { return x * x; }", f"squares{calls}").square
    x = np.arange(5, dtype=np.float32)
    square(x, _result="numpy")  # compiled
    for _ in range(calls):
        square(x, _result="tensor")
    slow(200_000)
    threading.Timer(0.2, signal.raise_signal, [signal.SIGINT]).start()
    with pytest.raises(KeyboardInterrupt, match="running on the device"):
        square(x, _result="tensor")
    slanglab.sync()
    assert square(x, _result="numpy").tolist() == [0, 1, 4, 9, 16]


def test_patience_ends_and_another_device_takes_the_place(slow, monkeypatch):
    monkeypatch.setattr(watch, "PATIENCE", 1.0)
    monkeypatch.setattr(watch, "_LEAST", 0.3)
    lab = slanglab.current()
    said = []
    monkeypatch.setattr(lab.succession, "say", said.append)
    x = slanglab.tensor([1, 2, 3])
    slow(600_000)  # some seconds: it ends by itself, long after the patience
    threading.Timer(0.2, signal.raise_signal, [signal.SIGINT]).start()
    with pytest.raises(KeyboardInterrupt):
        x.to_numpy()
    assert slanglab.tensor([4.0]).to_numpy().tolist() == [4.0]
    assert "slow_cell.slow did not end" in said[0]
    for use in (x.to_numpy, lambda: slanglab.compile("float g(float x) { return x; }", "g").g(x)):
        with pytest.raises((DeviceGoneError, slanglab.ArgumentError), match="given up"):
            use()
    assert "gone" in str(x)


def test_unloading_gives_slangpy_its_methods_back(slow):
    methods.uninstall()
    try:
        assert not methods.installed()
        assert type(spy.Device.wait).__name__ == "nb_method"
        assert type(spy.Buffer.to_numpy).__name__ == "nb_method"
    finally:
        methods.install()
    assert methods.installed()


@pytest.mark.parametrize("count", [1, 3, 64, 1000, 16_384, 16_385, 100_000])
@pytest.mark.parametrize("dtype", ["float", "float3", "int", "half", "double", "bool", "uint8_t", "float2x2"])
def test_reads_are_those_of_slangpy(rng, count, dtype):
    device = slanglab.current().device
    try:
        tensor = spy.Tensor.empty(device, (count,), dtype)
    except Exception:
        pytest.skip(f"no tensors of {dtype} here")
    raw = rng.integers(0, 2 if dtype == "bool" else 100, tensor.storage.size, dtype=np.uint8)
    tensor.storage.copy_from_numpy(raw)
    slanglab.lab.Lab.unmend()
    try:
        theirs = tensor.to_numpy(), tensor.storage.to_numpy()
    finally:
        slanglab.lab.Lab.mend()
    ours = tensor.to_numpy(), tensor.storage.to_numpy()
    if dtype != "bool":  # slangpy reads bools as if they had one byte
        assert ours[0].dtype == theirs[0].dtype
        assert ours[0].shape == theirs[0].shape
        assert ours[0].tobytes() == theirs[0].tobytes()
        assert ours[0].flags.writeable == theirs[0].flags.writeable
    assert ours[1].tobytes() == theirs[1].tobytes()
