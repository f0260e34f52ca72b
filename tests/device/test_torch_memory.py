"""The ways between torch's memory and the device's that take CUDA, with stand-ins where there is none: what is copied, kept and learned.

Torch's memory of the GPU is stood in for by tensors of the CPU that are copied at the places where the GPU would see them by itself.
"""

import numpy as np
import pytest
import slangpy as spy

torch = pytest.importorskip("torch", reason="torch is an extra")

import slanglab  # noqa: E402
from slanglab.engine.straight import Memory  # noqa: E402
from slanglab.errors import CallError  # noqa: E402
from slanglab.torch import exchange, gpu, host, pointers  # noqa: E402

SOURCE = """
[Differentiable] float f(float x, float w) { return w * x * x + x; }
[Differentiable] float3 turned(float3 v, float s) { return v.zxy * s; }
bool above(float x, float y) { return x > y; }
float3 spread(float x) { return float3(x, 2 * x, 3 * x); }
"""
LARGE = 1 << 14


class Seen(host.HostExchange):
    """Stands for memory that torch and the device both see: copied to the device when it is named, and back at the end."""

    direct = True

    def __init__(self, device):
        super().__init__(device)
        self.named = []
        self.uploads = 0

    def memory(self, tensor, grad_in=None, grad_out=None):
        there = slanglab.empty(tuple(tensor.shape) or (1,), {torch.float32: "float"}[tensor.dtype])
        there.copy_from_numpy(tensor.numpy().reshape(there.shape.as_tuple()))
        self.named.append((tensor, there))
        return Memory(
            there.storage.device_address, there.shape.as_tuple(), there.storage, grad_in, grad_out, there
        )

    def upload(self, tensor, element, shape):
        self.uploads += 1
        return super().upload(tensor, element, shape)

    def end(self):
        super().end()
        for tensor, there in self.named:
            tensor.copy_(torch.from_numpy(there.to_numpy()).reshape(tensor.shape))
        self.named.clear()


@pytest.fixture
def seen(device, monkeypatch):
    made = Seen(device)
    monkeypatch.setattr(exchange.host, "exchange", lambda _: made)
    return made


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


@pytest.mark.parametrize(
    "shapes", [((LARGE,), (LARGE,)), ((LARGE,), (1,)), ((128, 128), (128, 128)), ((LARGE,), ())]
)
def test_later_calls_of_a_kind_upload_nothing(device, seen, shapes, seed):
    torch.manual_seed(seed)
    m = slanglab.compile(SOURCE, "torch_seen")
    _check(m, *_inputs(*shapes))
    before = seen.uploads
    assert before
    for _ in range(3):
        _check(m, *_inputs(*shapes))
        assert slanglab.last_run().path == "straight"
        assert slanglab.last_run().mode == "backward"
    assert seen.uploads == before


def test_calls_that_do_not_lie_so_go_the_way_of_all(device, seen, control, seed):
    torch.manual_seed(seed)
    m = slanglab.compile(SOURCE, "torch_seen_other")
    for _ in range(2):
        _check(m, *_inputs((LARGE,), (LARGE,)))
    before = seen.uploads
    x, w = torch.randn((128, 128), requires_grad=True), torch.randn(LARGE, requires_grad=True)
    _check(m, x[:, 0].expand(128, 128).reshape(-1)[: LARGE // 2].repeat(2), w)
    assert seen.uploads == before
    _check(m, torch.randn(2 * LARGE, requires_grad=True)[::2].requires_grad_(), w)  # strided
    assert seen.uploads > before
    before = seen.uploads
    _check(m, *_inputs((5,), (5,)))  # small
    assert seen.uploads > before
    before = seen.uploads
    control.change(path="slangpy")
    _check(m, *_inputs((LARGE,), (LARGE,)))
    assert seen.uploads > before


def test_a_forward_call_on_torchs_memory_and_a_backward_call_of_another_kind(device, seen, seed):
    """The forward kernel is known, the backward one is not: what it takes is uploaded then."""
    torch.manual_seed(seed)
    m = slanglab.compile(SOURCE, "torch_seen_mixed")
    with torch.no_grad():
        for _ in range(2):
            m.f(torch.randn(LARGE), torch.randn(LARGE))
    for asking in ((True, False), (False, True), (True, True), (True, False)):
        x, w = (torch.randn(LARGE, requires_grad=a) for a in asking)
        y = m.f(x, w)
        seed = torch.randn(LARGE)
        y.backward(seed)
        if asking[0]:
            assert torch.allclose(x.grad, seed * (2 * w * x + 1).detach(), atol=1e-4)
        if asking[1]:
            assert torch.allclose(w.grad, seed * (x * x).detach(), atol=1e-4)


def test_vectors_on_torchs_memory(device, seen, seed):
    torch.manual_seed(seed)
    m = slanglab.compile(SOURCE, "torch_seen_vectors")
    for _ in range(3):
        v, s = _inputs((LARGE, 3), (LARGE,))
        y = m.turned(v, s)
        assert torch.allclose(y, v[:, [2, 0, 1]] * s[:, None])
        y.sum().backward()
        assert torch.allclose(v.grad, s.detach()[:, None].expand(-1, 3))
        assert torch.allclose(s.grad, v.detach().sum(1), atol=1e-5)


def test_memory_is_refused_by_kernels_of_buffers(device):
    from slanglab.engine import straight

    m = slanglab.compile(SOURCE, "torch_seen_buffers")
    x = slanglab.linspace(0, 1, LARGE)
    (target,) = m.f.targets()
    buffers = straight.Strategy(False, 1, 1, 256, 64)
    kernel = straight.build(target, {"x": x, "w": 2.0}, "tensor", strategy=buffers)
    memory = Memory(x.storage.device_address, (LARGE,), x.storage)
    assert kernel.fits({"x": x, "w": 2.0}, "tensor")
    assert "takes no addresses" in kernel.reason({"x": memory, "w": 2.0}, "tensor")


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
    for make, module in ((host.HostExchange, host), (Mirrored, gpu)):
        monkeypatch.setattr(module, "_MOST_KEPT", 10000)
        made = make(device)
        tensors = [made.upload(torch.ones(1000), "float", (1000,)) for _ in range(5)]
        made.free(tensors)
        assert made._pool._kept <= 10000
        assert sum(len(v) for v in made._pool._free.values()) == 2


# ----- which way -----


def test_a_tensor_of_cuda_on_a_device_that_shares_nothing(device):
    if device.supports_cuda_interop:
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


def test_kinds_tell_calls_apart(device):
    from slanglab.torch import leaves

    m = slanglab.compile(SOURCE, "torch_kinds")
    (target,) = m.f.targets()

    def kind(*args, **kwargs):
        return pointers.kind_of(leaves.collect(target, args, kwargs))

    x, y = torch.ones(3), torch.ones(3, 1)
    assert kind(x, 1.0) == kind(torch.zeros(7), 2.0)
    assert len({kind(x, 1.0), kind(x, x), kind(x, y), kind(x=x, w=1.0), kind(w=x, x=1.0)}) == 5
    assert kind(x.double(), 1.0) is None
    assert kind(x, 1.0, _result=torch.zeros(3)) is None
    assert kind(x, slanglab.ones(3)) is None
    assert spy.Tensor  # what is no torch tensor and no number has no such kind
