"""Marks in the work of a device, and CUDA's events under them, with a driver of our own in the place of CUDA's."""

from types import SimpleNamespace

import pytest
import slangpy as spy

from slanglab.machine import cuda
from slanglab.waiting import marks


class Driver:
    """Answers as CUDA's driver does, and keeps what it was asked."""

    def __init__(self):
        self.codes = {}
        self.asked = []
        self.contexts = []
        self.events = 0

    def __getattr__(self, name):
        def call(*args):
            self.asked.append(name)
            if name == "cuCtxPushCurrent_v2":
                self.contexts.append(args[0])
            elif name == "cuCtxPopCurrent_v2":
                self.contexts.pop()
            elif name == "cuEventCreate":
                self.events += 1
                args[0]._obj.value = self.events
            elif name == "cuCtxCreate_v2":
                self.contexts.append(77)
                args[0]._obj.value = 77
            return self.codes.get(name, 0)

        return call


class Device:
    """A CUDA device, as far as marks know one; each of its submits counts as finished."""

    def __init__(self, kind=spy.DeviceType.cuda):
        self.info = SimpleNamespace(type=kind)
        self.native_handles = [
            spy.NativeHandle(spy.NativeHandleType.CUdevice, 0),
            spy.NativeHandle(spy.NativeHandleType.CUcontext, 5),
        ]

    def is_submit_finished(self, submit):
        return submit == 1


@pytest.fixture
def driver(monkeypatch):
    made = Driver()
    monkeypatch.setattr(cuda, "_driver", lambda: made)
    return made


def test_a_mark_on_cuda_is_an_event_and_not_a_submit(driver):
    device = Device()
    mark = marks.mark(device, submit=1)
    assert isinstance(mark, cuda.Event)
    driver.codes["cuEventQuery"] = 600
    assert not marks.is_reached(device, mark)
    driver.codes["cuEventQuery"] = 0
    assert marks.is_reached(device, mark)
    assert driver.contexts == []  # whatever was current is again


def test_events_are_used_again(driver):
    device = Device()
    for _ in range(5):
        marks.is_reached(device, marks.mark(device))
    assert driver.events == 1
    kept = [marks.mark(device) for _ in range(3)]
    assert driver.events == 3
    del kept


@pytest.mark.parametrize("name", ["cuCtxPushCurrent_v2", "cuEventRecord", "cuEventQuery"])
def test_a_failed_context_is_a_lost_device(driver, name):
    device = Device()
    driver.codes[name] = 700
    with pytest.raises(RuntimeError, match=r"DEVICE_LOST.*700"):
        marks.is_reached(device, marks.mark(device))


def test_a_submit_is_a_mark_elsewhere(driver):
    device = Device(spy.DeviceType.vulkan)
    assert marks.mark(device, submit=1) == 1
    assert marks.is_reached(device, 1)
    assert not marks.is_reached(device, 2)
    assert driver.asked == []


def test_a_device_after_one_that_was_left_has_a_context_of_its_own(driver, monkeypatch):
    monkeypatch.setattr(cuda, "_abandoned", False)
    assert cuda.handles() is None
    cuda.abandon()
    made = cuda.handles()
    assert len(made) == 3  # slangpy takes no other number
    assert [(h.type, h.value) for h in made[:2]] == [
        (spy.NativeHandleType.CUdevice, 0),
        (spy.NativeHandleType.CUcontext, 77),
    ]
    assert cuda.handles() is None
    assert driver.contexts == []
