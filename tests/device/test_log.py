"""What slangpy logs, from any thread, while Python is busy calling."""

import threading

import pytest
import slangpy as spy

import slanglab
from slanglab.log import LogCapture, Record


@pytest.fixture
def log(device):
    """The lab's, with nothing in it yet."""
    log = slanglab.current().log
    log.install()
    log.take()
    return log


def test_records_keep_their_level_and_lines(log):
    spy.Logger.get().warn("one\ntwo")
    spy.Logger.get().error("three")
    assert log.take() == [Record("warn", "one\ntwo"), Record("error", "three")]
    assert log.take() == []
    log.put_back([Record("warn", "again")])
    assert log.take() == [Record("warn", "again")]


def test_what_slangpy_does_another_way_is_not_told(log):
    spy.Logger.get().error("(rhi) layer: Total push constant size (264) exceeds the maximum allowed (256).")
    spy.Logger.get().error("(rhi) layer: something else")
    assert log.take() == [Record("error", "(rhi) layer: something else")]


def test_no_output_of_the_logger_is_python(device):
    """One in Python deadlocks: a driver thread that logs waits for the GIL with the logger's lock in hand."""
    log = slanglab.current().log
    log.install()
    assert isinstance(log._output, spy.FileLoggerOutput)
    assert not issubclass(LogCapture, spy.LoggerOutput)


def test_calls_and_logging_threads_do_not_wait_for_each_other(device):
    f = slanglab.compile("float logged(float x) { return x + 1; }", "logged").logged
    x = slanglab.ones(16)
    ends = threading.Event()

    def chatter():
        while not ends.is_set():
            spy.Logger.get().warn("busy")

    threads = [threading.Thread(target=chatter, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(300):
            assert f(x).to_numpy()[0] == 2.0
    finally:
        ends.set()
        for thread in threads:
            thread.join()
        slanglab.current().log.take()
