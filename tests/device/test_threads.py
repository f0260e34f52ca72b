"""Work for the device from other threads than the one that opened it: on CUDA each has to enter its context first."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import slanglab
from slanglab.machine import contexts

SOURCE = "[Differentiable] float f(float x, float w) { return w * x * x; }"


@pytest.fixture(scope="module")
def m(device):
    return slanglab.compile(SOURCE, "threads")


def elsewhere(work):
    """Return what some work returns in a new thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def test_each_kind_of_first_work(m, device):
    array = np.arange(5, dtype=np.float32)
    x = slanglab.tensor(array, grad=True)

    def backward():
        y = slanglab.ones((5,), grad=True)
        slanglab.assign(y.grad, 1.0)
        x.grad.clear()
        m.f.bwds(x, 2.0, _result=y)
        return x.grad.to_numpy()

    assert elsewhere(lambda: x.copy_from_numpy(array)) is None
    assert np.array_equal(elsewhere(x.to_numpy), array)
    assert np.array_equal(elsewhere(lambda: m.f(array, 2.0).to_numpy()), 2 * array * array)
    assert np.array_equal(elsewhere(lambda: m.f(x, 2.0).to_numpy()), 2 * array * array)
    assert np.array_equal(elsewhere(backward), 4 * array)
    assert np.array_equal(elsewhere(lambda: slanglab.zeros((7,)).to_numpy()), np.zeros(7))
    assert np.array_equal(elsewhere(lambda: slanglab.summary(x).value.minimum), 0.0)
    assert elsewhere(lambda: m.f(2.0, 3.0)) == 12.0
    optimizer = slanglab.optim.SGD(x, lr=0.5)
    elsewhere(optimizer.step)
    assert np.array_equal(x.to_numpy(), array - 0.5 * 4 * array)


def test_planned_calls(m):
    """A call that was written out enters too."""
    x = slanglab.tensor(np.arange(5, dtype=np.float32))
    for _ in range(12):
        m.f(x, 2.0)
    assert elsewhere(lambda: m.f(x, 3.0)).to_numpy().tolist() == [0, 3, 12, 27, 48]


def test_a_thread_enters_once_for_each_device(monkeypatch):
    entered = []

    class Device:
        class Info:
            type = contexts.spy.DeviceType.cuda

        info = Info()

        def set_cuda_context_current(self):
            entered.append((threading.current_thread().name, self))

    monkeypatch.setattr(contexts, "_opened", 0)
    monkeypatch.setattr(contexts, "_device", lambda: None)
    monkeypatch.setattr(contexts, "_here", contexts._Here())
    contexts.entered()
    first = Device()
    contexts.opened(first)
    contexts.entered()  # this thread has opened it
    assert not entered
    elsewhere(lambda: (contexts.entered(), contexts.entered()))
    assert [device for _, device in entered] == [first]
    second = Device()
    contexts.opened(second)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(contexts.entered).result()
        contexts.opened(first)
        pool.submit(contexts.entered).result()
    assert [device for _, device in entered] == [first, second, first]
