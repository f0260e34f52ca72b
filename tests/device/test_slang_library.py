"""Tensors that control flow reads and writes: right gradients, of kernels that are valid SPIR-V.

NVIDIA's Vulkan driver took what slangpy's own library gives for element 0 of each tensor, which software Vulkan does not. So the kernels
themselves are looked at here, and the values wherever the tests run.
"""

from pathlib import Path

import numpy as np
import pytest
import slangpy as spy
from spirv import device as opened
from spirv import held_buffers, kernels

import slanglab
from slanglab import slang_library
from slanglab.caches import place
from slanglab.engine import fences
from slanglab.engine.plans import least
from slanglab.engine.quick import MISSED

TEXT = """import "slangpy";
[Differentiable] float at(IDiffTensor<float, 1> s, no_diff int k) { return s[k]; }
[Differentiable] float at_struct(DiffTensor<float, 1> s, no_diff int k) { return s[k]; }
[PreferRecompute(SideEffectBehavior.Allow)] [Differentiable]
float again(IDiffTensor<float, 1> s, no_diff int k) { return s[k]; }
[Differentiable] void put(IWDiffTensor<float, 1> o, no_diff int k, float v) { o[k] = v; }
[Differentiable] void move(IRWDiffTensor<float, 1> o, no_diff int k, float v) { o[k] = v; }
void count(int i, AtomicTensor<float, 1> t) { t.add(0, 1.0); }
"""
HEAD = "[Differentiable] float f(no_diff int i, no_diff int m, {kind}<float, 1> s) {{ float a = 0;\n"
BY_INTERFACE, BY_STRUCT = HEAD.format(kind="IDiffTensor"), HEAD.format(kind="DiffTensor")
LOOP = "[MaxIters(9)] for (int t = 0; t < m; ++t) { int k = m - 1 - t; a += %s; } return a; }"
IF = "if (i < m) a = %s; return a; }"
READS = {
    "a loop": BY_INTERFACE + LOOP % "s[k] * s[k]",
    "a loop, through a function": BY_INTERFACE + LOOP % "at(s, k) * at(s, k)",
    "a loop, load": BY_INTERFACE + LOOP % "s.load(k) * s.load(k)",
    "a loop, recomputed": BY_INTERFACE + LOOP % "again(s, k) * again(s, k)",
    "a loop, the struct": BY_STRUCT + LOOP % "at_struct(s, k) * at_struct(s, k)",
    "a condition": BY_INTERFACE + IF % "at(s, i) * at(s, i)",
    "a condition, recomputed": BY_INTERFACE + IF % "again(s, i) * again(s, i)",
    "a condition, the struct": BY_STRUCT + IF % "at_struct(s, i) * at_struct(s, i)",
}
WRITE = "[Differentiable] void f(no_diff int i, no_diff int m, IDiffTensor<float, 1> s, {kind}<float, 1> o) {{ {body} }}"
WRITES = {
    "a condition": ("IWDiffTensor", "float v = s[i] * s[i]; if (i < m) put(o, i, v);"),
    "a loop": (
        "IWDiffTensor",
        "[MaxIters(9)] for (int t = 0; t < m; ++t) { float v = s[t] * s[t]; if (i == t) put(o, t, v); }",
    ),
    "a condition, read and written": ("IRWDiffTensor", "float v = s[i] * s[i]; if (i < m) move(o, i, v);"),
}
M = 4
USUAL = Path(spy.SHADER_PATH)


def _right(n, s, loop):
    """The value of each thread, and what a cotangent gives for `s`."""
    if loop:
        return np.full(n, (s[:M] ** 2).sum()), lambda g: np.where(np.arange(n) < M, 2 * s * g.sum(), 0)
    inside = np.arange(n) < M
    return np.where(inside, s**2, 0), lambda g: np.where(inside, 2 * s * g, 0)


@pytest.mark.parametrize("what", READS)
def test_reads(device, rng, what):
    n = int(rng.integers(M, 40))
    s, seed = rng.normal(size=n), rng.normal(size=n)
    module = slanglab.compile(TEXT + READS[what])
    value, gradient = _right(n, s, what.startswith("a loop"))
    st, rt = slanglab.tensor(s, grad=True), slanglab.zeros(n, grad=True)
    i = np.arange(n, dtype=np.int32)
    module.f(i, M, st, _result=rt)
    np.testing.assert_allclose(rt.to_numpy(), value, rtol=1e-5, atol=1e-6)
    slanglab.assign(rt.grad, seed)
    module.f.bwds(i, M, st, _result=rt)
    np.testing.assert_allclose(st.grad.to_numpy(), gradient(seed), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(rt.to_numpy(), value, rtol=1e-5, atol=1e-6)


# Where nothing is written the result is what was there, which is a derivative of 1 that no kernel can give.
@pytest.mark.filterwarnings("ignore:.*the gradient by o differs")
@pytest.mark.parametrize("what", WRITES)
def test_writes(device, rng, what):
    kind, body = WRITES[what]
    n = int(rng.integers(M, 40))
    s, seed = rng.normal(size=n), rng.normal(size=n)
    module = slanglab.compile(TEXT + WRITE.format(kind=kind, body=body))
    st, ot = slanglab.tensor(s, grad=True), slanglab.zeros(n, grad=True)
    if kind.startswith("IRW"):
        ot = ot.detach().with_grads(slanglab.zeros(n), slanglab.zeros(n))
    i = np.arange(n, dtype=np.int32)
    module.f(i, M, st, ot)
    inside = np.arange(n) < M
    np.testing.assert_allclose(ot.to_numpy(), np.where(inside, s**2, 0), rtol=1e-5)
    slanglab.assign(ot.grad_in, seed)
    module.f.bwds(i, M, st, ot)
    np.testing.assert_allclose(st.grad.to_numpy(), np.where(inside, 2 * s * seed, 0), rtol=1e-4, atol=1e-6)
    # The backward kernel runs the writes once more: to where they were.
    np.testing.assert_allclose(ot.to_numpy(), np.where(inside, s**2, 0), rtol=1e-5)


ELEMENTS = {"float3": (3,), "float2x3": (2, 3), "float[3]": (3,), "float3[2]": (2, 3)}


@pytest.mark.parametrize("element", ELEMENTS)
def test_elements_of_every_kind(device, rng, element):
    _gathered(rng, element, ELEMENTS[element], np.float32)


@pytest.mark.usefixtures("adding_halves")
def test_elements_that_are_halves(device, rng):
    _gathered(rng, "half", (), np.float16)


def _gathered(rng, element, inner, dtype):
    """Read elements that a call names, some of them more than once, and compare what comes back with numpy's sums."""
    module = slanglab.compile(
        f"{TEXT}[Differentiable] {element} f(no_diff int i, IDiffTensor<{element}, 1> s) {{ return s[i]; }}"
    )
    s = slanglab.tensor(rng.integers(-4, 5, (5, *inner)).astype(dtype), dtype=element, grad=True)
    i, seed = rng.integers(0, 5, 7).astype(np.int32), rng.integers(-4, 5, (7, *inner)).astype(dtype)
    result = module.f(i, s, _result="tensor").with_grads()
    np.testing.assert_array_equal(result.to_numpy(), s.to_numpy()[i])
    slanglab.assign(result.grad, seed)
    module.f.bwds(i, s, _result=result)
    expected = np.zeros((5, *inner))
    np.add.at(expected, i, seed)
    np.testing.assert_array_equal(s.grad.to_numpy(), expected)


@pytest.mark.parametrize("count", [1, 3, 4, 5, 9, 20])
def test_arguments_that_fit_among_push_constants_and_others(device, rng, count, capfd):
    log = slanglab.current().log
    log.install()
    names = [f"a{k}" for k in range(count)]
    module = slanglab.compile(
        f"[Differentiable] float f({', '.join(f'float {n}' for n in names)}) {{ return {' * '.join(names)}; }}"
    )
    values = rng.uniform(0.5, 1.5, (count, 3))
    tensors = [slanglab.tensor(v, grad=True) for v in values]
    result = module.f(*tensors, _result="tensor").with_grads()
    slanglab.assign(result.grad, np.ones(3))
    for _ in range(2):
        module.f.bwds(*tensors, _result=result)
    for value, tensor in zip(values, tensors, strict=True):
        np.testing.assert_allclose(tensor.grad.to_numpy(), 2 * values.prod(axis=0) / value, rtol=1e-5)
    if device.info.type == spy.DeviceType.vulkan and device.info.limits.max_entry_point_uniform_size <= 256:
        code = module.f.bwds.debug_build_call_data(*tensors, _result=result).code
        # Address 8, shape, strides and offset 4 each: 24, twice for each tensor; 28 for the call.
        assert ("ParameterBlock<CallData>" in code) == (48 * (count + 1) + 28 > 256)
    assert "push constant" not in capfd.readouterr().err
    assert not [r for r in log.take() if "push constant" in r.text]


# ----- the kernels themselves -----


def _spirv_of(text, arguments, include_paths, folder):
    """Return the kernels of a function's calls, forward and backward, by slangpy alone."""
    own = opened(include_paths, folder)
    try:
        module = spy.Module.load_from_source(own, "looked_at", TEXT + text)
        given, options = arguments(own)
        module.f(*given, **options)
        module.f.bwds(*given, **options)
        own.wait()
    finally:
        own.close()
    return kernels(folder)


def _numbers(own, n=5):
    return spy.Tensor.from_numpy(own, np.ones(n, np.float32)).with_grads(zero=True)


def _reading(own):
    i = spy.Tensor.from_numpy(own, np.arange(5, dtype=np.int32))
    return (i, M, _numbers(own)), {"_result": _numbers(own)}


def _writing(own):
    i = spy.Tensor.from_numpy(own, np.arange(5, dtype=np.int32))
    return (i, M, _numbers(own), _numbers(own)), {}


@pytest.fixture
def only_vulkan(device):
    if device.info.type != spy.DeviceType.vulkan:
        pytest.skip("SPIR-V is Vulkan's")


@pytest.mark.usefixtures("only_vulkan")
@pytest.mark.parametrize("what", READS)
def test_no_kernel_that_reads_holds_a_buffer(tmp_path, what):
    made = _spirv_of(READS[what], _reading, slang_library.include_paths("vulkan", tmp_path), tmp_path / "c")
    assert len(made) >= 2
    assert [held_buffers(k) for k in made] == [0] * len(made)


@pytest.mark.usefixtures("only_vulkan")
@pytest.mark.parametrize("what", [w for w in WRITES if "read" not in w])
def test_no_kernel_that_writes_holds_a_buffer(tmp_path, what):
    kind, body = WRITES[what]
    text = WRITE.format(kind=kind, body=body)
    made = _spirv_of(text, _writing, slang_library.include_paths("vulkan", tmp_path), tmp_path / "c")
    assert len(made) >= 2
    assert [held_buffers(k) for k in made] == [0] * len(made)


@pytest.mark.usefixtures("only_vulkan")
def test_slangpys_own_library_does(tmp_path):
    """Should this fail, the compiler has been mended, and the copy may go."""
    made = _spirv_of(READS["a loop"], _reading, [spy.SHADER_PATH], tmp_path / "c")
    assert any(held_buffers(k) for k in made)


# ----- outside -----


@pytest.mark.parametrize("far", [5, 6, 70, 10**6, 2**29, -1, -(10**6)])
def test_what_is_outside_changes_nothing(device, rng, far):
    if device.info.type == spy.DeviceType.cuda:
        pytest.skip("CUDA's own addresses, which slangpy does not look at")
    text = "[Differentiable] float f(no_diff int i, IDiffTensor<float, 1> s) { return 2 * s[i]; }"
    module = slanglab.compile(TEXT + text)
    beside = [slanglab.zeros(5, grad=True) for _ in range(4)]
    s = slanglab.tensor(rng.normal(size=5), grad=True)
    beside += [slanglab.zeros(5, grad=True) for _ in range(4)]
    i = np.array([0, far, 4], np.int32)
    result = slanglab.zeros(3, grad=True)
    slanglab.assign(result.grad, [1, 10, 100])
    module.f.bwds(i, s, _result=result)
    assert s.grad.to_numpy().tolist() == [2, 0, 0, 0, 200]
    assert all(not t.to_numpy().any() and not t.grad.to_numpy().any() for t in beside)


# ----- barriers -----


class _Counted(fences.Fence):
    """A fence that counts."""

    count = 0

    def after(self, encoder=None):
        type(self).count += encoder is not None  # else `end` counts it
        super().after(encoder)

    def end(self, encoder):
        type(self).count += 1
        super().end(encoder)


@pytest.fixture
def fenced(device, control, monkeypatch):
    """Barriers as on a GPU, counted; without the check at a first call, which makes calls of its own."""
    if device.info.type != spy.DeviceType.vulkan:
        pytest.skip("other devices order their kernels themselves")
    monkeypatch.setattr(fences, "is_software", lambda device: False)
    monkeypatch.setattr(fences, "Fence", _Counted)
    control.change(check="off")
    _Counted.count = 0
    return _Counted


def test_a_barrier_follows_each_backward_call(fenced, rng):
    module = slanglab.compile(TEXT + READS["a condition"])
    total = np.zeros(9)
    s = rng.normal(size=9)
    st, rt = slanglab.tensor(s, grad=True), slanglab.zeros(9, grad=True)
    slanglab.assign(rt.grad, np.ones(9))
    i = slanglab.tensor(np.arange(9, dtype=np.int32))
    gradient = np.where(np.arange(9) < M, 2 * s, 0)
    module.f(i, M, st, _result=rt)
    assert fenced.count == 0  # a forward call binds its tensors
    for calls in range(1, 21):
        module.f.bwds(i, M, st, _result=rt)
        total += gradient
        assert fenced.count == calls  # prepared, planned, and written out after some of them
    np.testing.assert_allclose(st.grad.to_numpy(), total, rtol=1e-5)
    plans = module.f.bwds._target((), {}).plans
    assert plans.quick((i, M, st), {"_result": rt}) is not MISSED
    assert fenced.count == 21
    encoder = st.device.create_command_encoder()
    module.f.bwds.append_to(encoder, i, M, st, _result=rt)
    assert fenced.count == 22
    st.device.submit_command_buffer(encoder.finish())
    np.testing.assert_allclose(st.grad.to_numpy(), total + 2 * gradient, rtol=1e-5)


def test_a_barrier_follows_calls_of_other_kinds(device, fenced, rng):
    module = slanglab.compile(
        TEXT + READS["a condition, the struct"] + "\n[Differentiable] float g(float x) { return x * x; }"
    )
    s = rng.normal(size=9)
    st = slanglab.tensor(s, grad=True)
    i = np.arange(9, dtype=np.int32)
    found = module.f(i, M, st, _result="numpy")
    np.testing.assert_allclose(found, np.where(i < M, s**2, 0), rtol=1e-5)
    assert fenced.count == 1  # its parameter is the tensor with its gradient, forward too
    counter = slanglab.zeros(1)
    module.count(i, counter)
    assert fenced.count == 2  # an `AtomicTensor` is reached by its address too
    assert counter.to_numpy()[0] == 9
    n = max(1 << 18, least(device))
    large = rng.normal(size=n)
    xt, rt = slanglab.tensor(large, grad=True), slanglab.zeros(n, grad=True)
    slanglab.assign(rt.grad, np.ones(n))
    before = fenced.count
    module.g.bwds(xt, _result=rt)
    assert slanglab.last_run().path == "straight"
    assert fenced.count == before  # it binds what it writes
    np.testing.assert_allclose(xt.grad.to_numpy(), 2 * large, rtol=1e-5)
    back = slanglab.zeros(9, grad=True)
    slanglab.assign(back.grad, np.ones(9))
    module.f.bwds(i, M, st, _result=back)  # with an array, of which slangpy might bring something back
    assert fenced.count == before + 1
    np.testing.assert_allclose(st.grad.to_numpy(), np.where(i < M, 2 * s, 0), rtol=1e-5)


def test_a_barrier_follows_dispatches_where_they_are(device, fenced, monkeypatch):
    places = []
    monkeypatch.setattr(fenced, "after", lambda self, encoder=None: places.append(encoder))
    module = slanglab.compile(
        "void k(uint3 dispatchThreadID, RWStructuredBuffer<float> b) { b[dispatchThreadID.x] = 3; }"
    )
    out = slanglab.zeros(8)
    module.k.dispatch((8, 1, 1), b=out.storage)
    encoder = device.create_command_encoder()
    module.k.dispatch((8, 1, 1), b=out.storage, command_encoder=encoder)
    device.submit_command_buffer(encoder.finish())
    assert places == [None, encoder]
    assert out.to_numpy().tolist() == [3.0] * 8


# ----- the copy -----


def test_the_lab_imports_the_copy(device):
    folder = place()
    assert folder is not None
    expected = slang_library.include_paths(device.info.type.name, folder)
    assert len(expected) == (2 if device.info.type == spy.DeviceType.vulkan else 1)
    cell = slanglab.compile("float f(float x) { return x; }").f._single().module.session
    for session in (device.slang_session, cell):
        assert session.desc.compiler_options.include_paths == expected


def test_a_copy_that_was_changed_is_made_anew(tmp_path):
    assert slang_library.is_new("vulkan", tmp_path)
    folder = slang_library.mended(tmp_path)
    assert not slang_library.is_new("vulkan", tmp_path)
    right = {p.name: p.read_bytes() for p in folder.iterdir()}
    assert right == {name: text.encode() for name, text in slang_library.texts().items()}
    (folder / "tensor.slang").write_bytes(b"cut")
    (folder / "atomics.slang").unlink()
    assert slang_library.mended(tmp_path) == folder
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == right


def test_only_vulkan_has_a_copy(tmp_path):
    for backend in ("cuda", "d3d12", "metal"):
        assert slang_library.include_paths(backend, tmp_path) == [USUAL]
        assert not slang_library.is_new(backend, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_without_a_place_a_warning_says_what_is_wrong(tmp_path):
    with pytest.warns(slang_library.LibraryWarning, match="no folder can be written.*NVIDIA's Vulkan"):
        assert slang_library.include_paths("vulkan", None) == [USUAL]
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.warns(slang_library.LibraryWarning, match="under a condition"):
        assert slang_library.include_paths("vulkan", blocked) == [USUAL]


def test_another_slangpy_is_noticed(tmp_path, monkeypatch):
    for path in USUAL.glob("*.slang"):
        (tmp_path / path.name).write_text(path.read_text())
    changed = tmp_path / "atomics.slang"
    changed.write_text("implementing slangpy;\n")
    monkeypatch.setattr(slang_library.spy, "SHADER_PATH", tmp_path)
    slang_library.texts.cache_clear()
    try:
        with pytest.raises(slang_library.LibraryChangedError, match=r"atomics\.slang"):
            slang_library.texts()
        with pytest.warns(slang_library.LibraryWarning, match="is not the one that SlangLab knows"):
            assert slang_library.include_paths("vulkan", tmp_path) == [tmp_path]
    finally:
        slang_library.texts.cache_clear()
