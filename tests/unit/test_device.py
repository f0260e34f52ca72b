"""Opening a device where none can be had: what is said then."""

import pytest
import slangpy as spy

from slanglab import device as devices
from slanglab.errors import DeviceError
from slanglab.machine import cuda


def test_a_cuda_that_has_failed_asks_for_a_new_process(monkeypatch):
    """After an illegal access CUDA's driver says its error to everything, also to a new context (seen on an H200)."""

    class Driver:
        @staticmethod
        def cuCtxCreate_v2(*_):
            return 700

    monkeypatch.setattr(cuda, "_driver", Driver)
    monkeypatch.setattr(cuda, "_abandoned", True)
    with pytest.raises(DeviceError, match=r"failed in this process.*error 700") as caught:
        devices.open_device("cuda")
    assert "restart the kernel" in caught.value.hint
    assert "%slang device vulkan" in caught.value.hint
    assert cuda.torchs() is None  # nobody shares a context that has failed


def test_what_is_missing_is_said(monkeypatch):
    def fails(*_, **__):
        raise RuntimeError("no driver\nmore")

    monkeypatch.setattr(devices, "_open", fails)
    with pytest.raises(DeviceError, match=r"Vulkan: no driver\)") as caught:
        devices.open_device("vulkan")
    assert "setup-device" in caught.value.hint


def test_only_another_backend_shares_memory():
    class Device:
        def __init__(self, kind, interop):
            self.info = type("Info", (), {"type": kind})
            self.supports_cuda_interop = interop

    assert devices.shares_memory(Device(spy.DeviceType.vulkan, True))
    assert not devices.shares_memory(Device(spy.DeviceType.vulkan, False))
    assert not devices.shares_memory(Device(spy.DeviceType.cuda, True))
