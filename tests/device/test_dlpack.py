"""DLPack both ways, against numpy and torch."""

import ctypes
import gc
import sys
import warnings
import weakref

import numpy as np
import pytest
import slangpy as spy

import slanglab as sl
from slanglab.errors import ArgumentError, DeviceGoneError
from slanglab.tensors import capsules, dlpack, foreign, mended

TYPES = {
    "half": np.float16,
    "float": np.float32,
    "double": np.float64,
    "int8_t": np.int8,
    "int16_t": np.int16,
    "int": np.int32,
    "int64_t": np.int64,
    "uint8_t": np.uint8,
    "uint": np.uint32,
    "bool": np.bool_,
    "float3": np.float32,
    "half3": np.float16,
    "int2": np.int32,
    "float2x3": np.float32,
    "float[5]": np.float32,
}


@pytest.fixture(autouse=True)
def _mended(device):
    was = mended.installed()
    mended.install()
    dlpack._said.clear()
    yield
    if not was:
        mended.uninstall()


def _filled(device, rng, shape, dtype):
    made = spy.Tensor.empty(device, shape, dtype)
    values = rng.integers(0, 2 if dtype == "bool" else 100, (*shape, *made.dtype.shape.as_tuple()))
    values = values.astype(TYPES[dtype])
    made.copy_from_numpy(values)
    return made, values


def on_cuda(device):
    return device.info.type == spy.DeviceType.cuda


@pytest.fixture
def copies(device):
    """Where tensors are handed over by a copy, and CUDA has to be stood in for."""
    if on_cuda(device):
        pytest.skip("on CUDA itself test_on_cuda_memory_is_shared looks")


# ----- out -----


@pytest.mark.filterwarnings("ignore::slanglab.tensors.dlpack.CopyWarning")
@pytest.mark.parametrize("dtype", TYPES)
def test_numpy_takes_every_type(device, rng, dtype, copies):
    t, values = _filled(device, rng, (4, 3), dtype)
    for given in (np.from_dlpack(t), np.from_dlpack(t, device="cpu", copy=True)):
        assert given.dtype == values.dtype
        assert np.array_equal(given, values)
    strided = t[1:, ::2]
    assert np.array_equal(np.from_dlpack(strided), values[1:, ::2])


@pytest.mark.filterwarnings("ignore::slanglab.tensors.dlpack.CopyWarning")
@pytest.mark.parametrize("dtype", [d for d in TYPES if d != "uint"])
def test_torch_takes_them(device, rng, dtype, copies):
    torch = pytest.importorskip("torch", reason="DLPack's other side here is PyTorch")
    t, values = _filled(device, rng, (4, 3), dtype)
    given = torch.from_dlpack(t)
    assert np.array_equal(given.numpy(), values)
    given.zero_()  # a copy is its own to write
    assert np.array_equal(t.to_numpy(), values)
    assert np.array_equal(torch.utils.dlpack.from_dlpack(t).numpy(), values)


def test_a_copy_is_said_once_unless_it_was_asked_for(device, rng, copies):
    t, values = _filled(device, rng, (3,), "float")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.array_equal(np.from_dlpack(t, copy=True), values)
    with pytest.warns(dlpack.CopyWarning, match="not reachable") as caught:
        np.from_dlpack(t)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.from_dlpack(t)


def test_the_warning_points_at_the_users_line_through_torch_too(device, copies):
    torch = pytest.importorskip("torch", reason="DLPack's other side here is PyTorch")
    with pytest.warns(dlpack.CopyWarning) as caught:
        torch.from_dlpack(sl.ones((2,)))
    assert caught[0].filename == __file__


def test_what_cannot_be_is_an_error_that_says_why(device, rng, copies):
    t, _ = _filled(device, rng, (3,), "float")
    with pytest.raises(BufferError, match="copy=False"):
        np.from_dlpack(t, copy=False)
    with pytest.raises(BufferError, match="cannot be handed over on DLPack device"):
        t.__dlpack__(dl_device=(2, 0))
    module = sl.compile("struct Pair { float a; int b; }\nvoid use(Pair p) {}", "dlpack_pair")
    pairs = sl.empty((3,), dtype=module.Pair)
    with pytest.raises(BufferError, match="Pair are structs"):
        np.from_dlpack(pairs)
    assert t.__dlpack_device__() == (1, 0)


@pytest.mark.filterwarnings("ignore::slanglab.tensors.dlpack.CopyWarning")
def test_empty_tensors_and_those_with_one_element(device, copies):
    assert np.from_dlpack(sl.empty((0, 3))).shape == (0, 3)
    assert np.from_dlpack(sl.tensor(2.5)).tolist() == [2.5]
    assert np.from_dlpack(sl.tensor([np.nan, np.inf])).tolist()[1] == np.inf


class _Refused:
    """An array that says it is on the host, and hands over a capsule that says otherwise: numpy refuses it."""

    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **_):
        return capsules.make(
            self, self.array.ctypes.data, self.array.shape, (1,), self.array.dtype, (2, 0), versioned=True
        )


def test_a_consumer_that_refuses_says_why(rng):
    before = len(capsules._alive)
    refused = _Refused(rng.random(10))
    gone = weakref.ref(refused)
    with pytest.raises((BufferError, RuntimeError), match=r"[Uu]nsupported device"):
        np.from_dlpack(refused)
    del refused
    gc.collect()
    gc.collect()
    assert gone() is None
    assert len(capsules._alive) == before


def test_a_capsule_that_nobody_took_lets_go(device, rng):
    array = rng.random(1000).astype(np.float32)
    for versioned in (False, True):
        owner = type("Owner", (), {})()
        gone = weakref.ref(owner)
        capsule = capsules.make(
            owner, array.ctypes.data, (1000,), (1,), array.dtype, (1, 0), versioned=versioned
        )
        del owner
        gc.collect()
        assert gone() is not None
        del capsule
        gc.collect()
        assert gone() is None


@pytest.mark.parametrize("versioned", [False, True])
def test_memory_is_shared_and_its_owner_lives_as_long(rng, versioned):
    """The way of CUDA tensors, with memory of the processor in their place."""
    torch = pytest.importorskip("torch", reason="DLPack's other side here is PyTorch")
    array = rng.random((6, 5)).astype(np.float32)

    class Owner:
        def __dlpack_device__(self):
            return 1, 0

        def __dlpack__(self, **_):
            return capsules.make(
                self, array.ctypes.data + 4, (3, 2), (10, 2), array.dtype, (1, 0), versioned=versioned
            )

    owner = Owner()
    gone = weakref.ref(owner)
    view = torch.from_dlpack(owner)
    del owner
    gc.collect()
    assert gone() is not None
    assert np.array_equal(view.numpy(), array[::2, 1:5:2])
    view.zero_()
    assert not array[::2, 1:5:2].any()
    assert array[1::2].all()
    part = view[1]
    del view
    gc.collect()
    assert gone() is not None
    del part
    gc.collect()
    assert gone() is None


class _CudaStandIn:
    """Says that the host is a CUDA device, and notes what CUDA was asked for."""

    def __init__(self, monkeypatch):
        self.streams = []
        monkeypatch.setattr(dlpack, "_is_cuda", lambda _: True)
        monkeypatch.setattr(dlpack, "_ordinal", lambda _: 3)
        monkeypatch.setattr(dlpack.cuda, "let_wait", lambda _, stream: self.streams.append(stream))


def test_a_cuda_tensor_is_handed_over_as_it_lies(device, rng, monkeypatch, copies):
    cuda = _CudaStandIn(monkeypatch)
    t, _ = _filled(device, rng, (4, 6), "half3")
    view = t[1:, ::2]
    for version, stream in ((None, None), ((1, 0), 2), ((2, 1), -1), ((1, 1), 12345)):
        held = capsules.Opened(view.__dlpack__(stream=stream, max_version=version))
        assert held.device == (2, 3)
        assert (held.shape, held.strides) == ((3, 3, 3), (18, 6, 1))
        assert held.dtype == np.float16
        assert held.address == t.storage.device_address + 6 * 3 * 2
        held.close()
    assert cuda.streams == [1, 2, 12345]
    with pytest.raises(BufferError, match="ambiguous"):
        view.__dlpack__(stream=0)
    assert t.__dlpack_device__() == (2, 3)
    # The host is a copy, and copy=True memory of its own.
    held = capsules.Opened(t.__dlpack__(copy=True, max_version=(1, 0)))
    assert held.address != t.storage.device_address
    held.close()
    array = np.from_dlpack(t, device="cpu", copy=True)
    assert np.array_equal(array, t.to_numpy())


def test_on_cuda_memory_is_shared(device, rng):
    torch = pytest.importorskip("torch", reason="DLPack's other side here is PyTorch")
    if not on_cuda(device):
        pytest.skip("needs a CUDA device")
    t, values = _filled(device, rng, (4, 3), "float")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        given = torch.from_dlpack(t)
    assert given.device.type == "cuda"
    assert np.array_equal(given.cpu().numpy(), values)
    given.add_(1)
    torch.cuda.synchronize()
    assert np.array_equal(t.to_numpy(), values + 1)
    assert torch.equal(torch.from_dlpack(t[1:, ::2]), given[1:, ::2])
    with pytest.raises(BufferError):
        np.from_dlpack(t)
    assert np.array_equal(np.from_dlpack(t, device="cpu"), values + 1)
    back = sl.from_dlpack(given * 2)
    assert np.array_equal(back.to_numpy(), 2 * values + 2)


def test_a_tensor_that_is_handed_over_keeps_its_memory(device, monkeypatch, copies):
    _CudaStandIn(monkeypatch)
    t = sl.ones((8,))
    capsule = t.__dlpack__()
    count = len(capsules._alive)
    del t
    gc.collect()
    assert any(isinstance(part, spy.Tensor) for kept in capsules._alive.values() for part in kept)
    del capsule
    gc.collect()
    assert len(capsules._alive) == count - 1


def test_methods_go_with_unloading(device):
    mended.uninstall()
    assert not hasattr(spy.Tensor, "__dlpack__")
    assert not hasattr(spy.Tensor, "__dlpack_device__")
    mended.install()
    assert hasattr(spy.Tensor, "__dlpack__")


def test_a_tensor_of_a_closed_device_is_refused():
    other = spy.Device(
        type=spy.DeviceType.vulkan,
        enable_hot_reload=False,
        compiler_options={"include_paths": [spy.SHADER_PATH]},
    )
    t = spy.Tensor.zeros(other, (3,), "float")
    other.close()
    with pytest.raises(DeviceGoneError):
        np.from_dlpack(t)


# ----- in -----


@pytest.mark.parametrize("dtype", [d for d in TYPES if d.isidentifier() and d[-1] not in "23"])
def test_torch_tensors_come_in_their_own_type(device, rng, dtype):
    torch = pytest.importorskip("torch", reason="DLPack's other side here is PyTorch")
    values = rng.integers(0, 2 if dtype == "bool" else 100, (4, 6)).astype(TYPES[dtype])
    given = torch.from_numpy(values.copy())
    for x, wanted in (
        (given, values),
        (given.t(), values.T),
        (given[::2, 1:5:3], values[::2, 1:5:3]),
        (given[:1].expand(5, 6), np.repeat(values[:1], 5, axis=0)),
        (given[:0], values[:0]),
        (given[1, 2], values[1, 2].reshape(1)),
    ):
        made = sl.from_dlpack(x)
        assert isinstance(made, spy.Tensor)
        assert made.dtype.full_name == dtype
        assert np.array_equal(made.to_numpy(), wanted)


def test_gradients_stay_behind_and_bfloat16_becomes_float(device, rng):
    torch = pytest.importorskip("torch", reason="DLPack's other side here is PyTorch")
    x = torch.randn(5, 7, requires_grad=True)
    assert np.array_equal(sl.from_dlpack(x, grad=True).to_numpy(), x.detach().numpy())
    assert sl.from_dlpack(x, grad=True).grad.to_numpy().any() == np.False_
    values = torch.tensor([[1.5, -2.0, 3e38, float("nan")], [0.0, -0.0, float("inf"), 1e-30]])
    brain = values.to(torch.bfloat16)
    for given in (brain, brain.t(), brain[:, ::2]):
        assert sl.from_dlpack(given).dtype.full_name == "float"
        np.testing.assert_array_equal(sl.from_dlpack(given).to_numpy(), given.float().numpy())
        np.testing.assert_array_equal(sl.tensor(given).to_numpy(), given.float().numpy())
    negative = torch.complex(torch.ones(3), torch.arange(3.0)).conj().imag
    assert sl.tensor(negative).to_numpy().tolist() == [0.0, -1.0, -2.0]


def test_tensor_converts_and_from_dlpack_does_not(device):
    torch = pytest.importorskip("torch", reason="DLPack's other side here is PyTorch")
    x = torch.tensor([1.0, 2.0], dtype=torch.float64)
    assert sl.tensor(x).dtype.full_name == "float"
    assert sl.from_dlpack(x).dtype.full_name == "double"
    assert sl.tensor(torch.arange(3)).dtype.full_name == "int"


def test_numpy_arrays_and_tensors_come_in_too(device, rng):
    values = rng.random((3, 4))
    assert np.array_equal(sl.from_dlpack(values[::-1]).to_numpy(), values[::-1])
    t = sl.tensor(values, dtype="float4")
    again = sl.from_dlpack(t)
    t.clear()
    assert again.dtype.full_name == "vector<float,4>"
    assert np.array_equal(again.to_numpy(), values.astype(np.float32))


def test_what_is_no_array_is_refused_by_name(device):
    torch = pytest.importorskip("torch", reason="DLPack's other side here is PyTorch")
    with pytest.raises(ArgumentError, match="list has no __dlpack__"):
        sl.from_dlpack([1.0, 2.0])
    with pytest.raises(ArgumentError, match="Slang has no type"):
        sl.from_dlpack(torch.zeros(3, dtype=torch.complex64))
    with pytest.raises(ArgumentError, match="cannot be taken over"):
        sl.from_dlpack(torch.eye(3).to_sparse())


class _OnAGpu:
    """An array that says it is on a GPU, and is brought to the host by its library's own means."""

    def __init__(self, array, means):
        self.array = array
        setattr(self, means, lambda: array)

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, **_):
        raise AssertionError("memory of a GPU is not to be read from here")


@pytest.mark.parametrize("means", ["get", "cpu"])
def test_an_array_on_a_gpu_is_brought_and_that_is_said(device, rng, means, copies):
    values = rng.random((3, 2)).astype(np.float32)
    with pytest.warns(dlpack.CopyWarning, match="by way of the host"):
        made = sl.from_dlpack(_OnAGpu(values, means))
    assert np.array_equal(made.to_numpy(), values)
    assert np.array_equal(sl.tensor(_OnAGpu(values, means)).to_numpy(), values)


def test_a_gpus_array_is_copied_on_the_gpu(device, rng, monkeypatch):
    """The steps of CUDA with memory of the processor in its place; the copy is left to a stand-in for the driver."""
    values = rng.random((3, 4)).astype(np.float32)
    copies = []
    monkeypatch.setattr(dlpack, "current_device", lambda: _Cuda(device))
    monkeypatch.setattr(dlpack.cuda, "ordinal", lambda _: 0)
    monkeypatch.setattr(dlpack.cuda, "copy", lambda *args: copies.append(args[1:]))

    class Array:
        def __init__(self, array):
            self.array = array

        def copy(self):
            return Array(np.ascontiguousarray(self.array))

        def __dlpack_device__(self):
            return 2, 0

        def __dlpack__(self, *, stream, **_):
            assert stream == 1
            a = self.array
            strides = [s // a.itemsize for s in a.strides]
            return capsules.make(a, a.ctypes.data, a.shape, strides, a.dtype, (2, 0), versioned=True)

    with pytest.warns(dlpack.CopyWarning, match="on the GPU"):
        made = sl.from_dlpack(Array(values))
    sl.from_dlpack(Array(values.T))
    assert made.shape.as_tuple() == (3, 4)
    assert copies[0] == (made.storage.device_address, values.ctypes.data, 48)
    assert copies[1][1] != values.ctypes.data


class _Cuda:
    def __init__(self, device):
        self.device = device
        self.info = type("Info", (), {"type": spy.DeviceType.cuda})


def test_a_foreign_array_shares_memory_and_keeps_its_owner(rng):
    torch = pytest.importorskip("torch", reason="DLPack's other side here is PyTorch")
    x = torch.from_numpy(rng.random((4, 5)))
    array = foreign.on_host(x)
    assert array.ctypes.data == x.data_ptr()
    before = x.clone()
    del x
    gc.collect()
    assert np.array_equal(array, before.numpy())


def test_a_capsule_is_taken_once():
    array = np.arange(3.0)
    capsule = array.__dlpack__()
    held = capsules.Opened(capsule)
    assert ctypes.cast(held.address, ctypes.POINTER(ctypes.c_double))[2] == 2.0
    with pytest.raises(ValueError, match="taken before"):
        capsules.Opened(capsule)
    held.close()
    held.close()
    with pytest.raises(ValueError, match="no DLPack capsule"):
        capsules.Opened(object())


def test_references_are_given_back(device, rng):
    """Five hundred there and back leave nothing alive."""
    array = rng.random(256).astype(np.float32)
    foreign.on_host(np.ones(1).view(_Own))
    before = len(capsules._alive), sys.getrefcount(array)
    for _ in range(500):
        held = capsules.Opened(
            capsules.make(array, array.ctypes.data, (256,), (1,), array.dtype, (1, 0), versioned=True)
        )
        held.close()
        foreign.on_host(array.view(_Own))
    gc.collect()
    assert (len(capsules._alive), sys.getrefcount(array)) == before


class _Own(np.ndarray):
    """An array that counts as another library's."""
