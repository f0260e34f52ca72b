"""The ways between torch's memory and the device's that take CUDA, with stand-ins where there is none: what is copied and kept.

Torch's memory of the GPU is stood in for by tensors of the CPU that are copied at the places where the GPU would see them by itself.
"""

import subprocess
import sys

import numpy as np
import pytest
import slangpy as spy

torch = pytest.importorskip("torch", reason="torch is an extra")

import slanglab  # noqa: E402
from slanglab.errors import CallError  # noqa: E402
from slanglab.torch import exchange, gpu, host  # noqa: E402

SOURCE = """
[Differentiable] float f(float x, float w) { return w * x * x + x; }
[Differentiable] float3 turned(float3 v, float s) { return v.zxy * s; }
bool above(float x, float y) { return x > y; }
float3 spread(float x) { return float3(x, 2 * x, 3 * x); }
"""


def _inputs(*shapes):
    return [torch.randn(shape, requires_grad=True) for shape in shapes]


def _check(m, x, w):
    y = m.f(x, w)
    seed = torch.randn(y.shape)
    dx, dw = torch.autograd.grad(y, (x, w), seed)
    p, q = (t.detach().double().requires_grad_() for t in (x, w))
    expected = q * p * p + p
    ex, ew = torch.autograd.grad(expected, (p, q), seed.double())
    assert torch.allclose(y.double(), expected, rtol=1e-5, atol=1e-5)
    assert torch.allclose(dx.double(), ex, rtol=1e-5, atol=1e-5)
    scale = float((seed * p * p).abs().sum()) if w.numel() == 1 else 1.0
    assert torch.allclose(dw.double(), ew, rtol=1e-4, atol=1e-6 * scale + 1e-5)


# ----- shared memory -----


class Mirrored(gpu.GpuExchange):
    """Stands for memory that slangpy shares with CUDA: torch sees a copy, which `begin` and `end` keep up to date."""

    def __init__(self, device):
        super().__init__(device, torch.device("cpu"))
        self._usage = gpu.USAGE
        self.mirrors = []

    def _seen(self, tensor, dtype, shape):
        if dtype == torch.bool and tensor.storage.struct_size == 4:
            dtype = torch.int32
        mirror = torch.zeros(shape, dtype=dtype)
        self.mirrors.append((tensor, mirror))
        self._pull(tensor, mirror)
        return mirror

    @staticmethod
    def _pull(tensor, mirror):
        mirror.copy_(torch.from_numpy(np.array(tensor.to_numpy())))

    def begin(self):
        for tensor, mirror in self.mirrors:
            array = mirror.numpy()
            tensor.copy_from_numpy(array != 0 if tensor.dtype.full_name == "bool" else array)

    def end(self):
        for tensor, mirror in self.mirrors:
            self._pull(tensor, mirror)


@pytest.fixture
def mirrored(device, monkeypatch):
    if device.info.type == spy.DeviceType.cuda:
        pytest.skip("on CUDA torch's memory is the device's, and its addresses are no stand-in's")
    monkeypatch.setattr(gpu, "_most", lambda where: 1 << 30)
    made = Mirrored(device)
    monkeypatch.setattr(exchange.host, "exchange", lambda _: made)
    return made


def test_calls_through_shared_memory(device, mirrored, seed):
    torch.manual_seed(seed)
    m = slanglab.compile(SOURCE, "torch_mirrored")
    for _ in range(2):
        _check(m, *_inputs((40,), (40,)))
        _check(m, *_inputs((40,), (1,)))
        x, y = torch.randn(7), torch.randn(7)
        assert torch.equal(m.above(x, y), x > y)
        assert torch.allclose(m.spread(x), x[:, None] * torch.tensor([1.0, 2.0, 3.0]))
        assert m.f(torch.zeros(0), 1.0).shape == (0,)


def test_shared_memory_stays_as_it_is_after_the_first_calls(device, mirrored):
    """PT-07: what is shared is used again."""
    m = slanglab.compile(SOURCE, "torch_mirrored_flat")

    def step():
        x = torch.ones(100, requires_grad=True)
        m.f(x, 2.0).sum().backward()
        assert x.grad.tolist() == [5] * 100

    for _ in range(3):
        step()
    made = len(mirrored.mirrors)
    for _ in range(20):
        step()
    assert len(mirrored.mirrors) == made


def test_results_do_not_change_with_later_calls(device, mirrored):
    m = slanglab.compile(SOURCE, "torch_mirrored_results")
    first = m.f(torch.ones(5), 2.0)
    m.f(torch.zeros(5), 2.0)
    assert first.tolist() == [3] * 5


def test_memory_that_is_kept_has_a_limit(device, monkeypatch):
    monkeypatch.setattr(host, "_MOST_KEPT", 10000)
    monkeypatch.setattr(gpu, "_most", lambda where: 10000)
    for make in (host.HostExchange, Mirrored):
        made = make(device)
        tensors = [made.upload(torch.ones(1000), "float", (1000,)) for _ in range(5)]
        made.free(tensors)
        assert made._pool._kept <= 10000
        assert sum(len(v) for v in made._pool._free.values()) == 2


def test_shared_memory_is_let_go_of_at_the_end(device, mirrored):
    """slangpy ends the process where a device goes before memory of it that CUDA sees."""
    assert mirrored in gpu._sharing
    made = [mirrored.upload(torch.ones(1000), "float", (1000,)) for _ in range(3)]
    mirrored.free(made[:2])
    gpu._close_all()
    assert not mirrored._lent
    assert not mirrored._pool._kept
    assert not mirrored._pool._free
    assert mirrored.upload(torch.ones(5), "float", (5,)).to_numpy().shape == (5,)


SHARED = """
import atexit
order = []
atexit.register(lambda: print(order, flush=True))
import slanglab
from slanglab import device, lab
device.shares_memory = lambda _: True
close = lab.Lab.close
lab.Lab.close = lambda self: (order.append("lab"), close(self))
m = slanglab.compile("float f(float x) { return x; }", "ends")
assert m.f(2.0) == 2
if "reset" in sys.argv:
    slanglab.current().reset()
    order.clear()
    assert slanglab.current().device is not None
"""


@pytest.mark.parametrize("how", ["once", "reset"])
def test_a_device_that_shares_memory_is_closed_before_the_interpreter_ends(device, how):
    """Left to the interpreter, slangpy ended the process with SIGABRT there (seen with torch's gradients on an H200)."""
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.argv = ['', '{how}']\n{SHARED}"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[-2] == "['lab']"


# ----- which way -----


def test_a_tensor_of_cuda_on_a_device_that_shares_nothing(device):
    if device.supports_cuda_interop or device.info.type == spy.DeviceType.cuda:
        pytest.skip("this device shares memory with CUDA")
    with pytest.raises(CallError, match="shares no memory with CUDA") as caught:
        gpu.check("f", "x", device, torch.device("cuda:0"))
    assert caught.value.argument == "x"
    assert "vulkan" in str(caught.value).lower()
    assert "cuda" in str(caught.value).lower()


class _Elsewhere:
    def __init__(self, where, device):
        self.where, self.tensor = where, type("T", (), {"device": torch.device(device)})()


def test_tensors_on_several_devices_are_named(device):
    with pytest.raises(CallError, match="x is on cpu, and y is on cuda:1"):
        exchange.choose("f", device, [_Elsewhere("x", "cpu"), _Elsewhere("y", "cuda:1")])
    with pytest.raises(CallError, match="mps"):
        exchange.choose("f", device, [_Elsewhere("x", "mps")])
