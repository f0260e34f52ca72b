"""Torch tensors in calls: the numbers of plain torch, forward and backward, on the CPU's torch and whatever device there is."""

import gc
import subprocess
import sys
import threading
import warnings
import weakref

import numpy as np
import pytest
import slangpy as spy

torch = pytest.importorskip("torch", reason="torch is an extra")

import slanglab  # noqa: E402
from slanglab.engine.dispatch import GradientWarning, ValueWarning  # noqa: E402
from slanglab.errors import ArgumentError, CallError  # noqa: E402

POLYNOMIAL = """
[Differentiable] float polynomial(float a, float b, float c, float x) { return a * x * x + b * x + c; }
"""


@pytest.fixture(scope="module")
def module(device):
    return slanglab.compile(POLYNOMIAL, "torch_seed")


@pytest.mark.parametrize("where", ["cpu", "cuda"])
def test_the_seed_runs_with_its_numbers(module, where):
    """pytorch.rst, all of its blocks; `spy.create_torch_device` needs CUDA, and the module of a cell stands for it."""
    if where == "cuda" and not torch.cuda.is_available():
        pytest.skip("this machine has no CUDA")
    for _ in range(12):  # later calls go another way than the first ones
        x = torch.tensor([1, 2, 3, 4], dtype=torch.float32, requires_grad=True, device=where)
        result = module.polynomial(a=2, b=8, c=-1, x=x)
        assert isinstance(result, torch.Tensor)
        assert result.device == x.device
        assert result.tolist() == [9, 23, 41, 63]  # 2x² + 8x - 1
        result.backward(torch.ones_like(result))
        assert x.grad.tolist() == [12, 16, 20, 24]  # 4x + 8


def test_calls_with_slangpy_tensors_are_as_before(module):
    x = slanglab.tensor([1.0, 2.0, 3.0, 4.0])
    assert isinstance(module.polynomial(2, 8, -1, x, _result="tensor"), spy.Tensor)
    assert np.array_equal(module.polynomial(2, 8, -1, x, _result="numpy"), [9, 23, 41, 63])


# ----- what a call takes, and what comes back -----

SOURCE = """
import slangpy;
float f(float x) { return x * x; }
[Differentiable] float g(float x) { return x * x; }
half h(half x) { return x * x; }
double d(double x) { return x * x; }
int whole(int n) { return n + 1; }
uint8_t byte(uint8_t n) { return n; }
bool flipped(bool b) { return !b; }
float3 turned(float3 v) { return v.zxy; }
float2x2 transposed(float2x2 m) { return transpose(m); }
float added(float x, float y) { return x + y; }
[Differentiable] float sum(float x, float y) { return x + y; }
struct Inner { int n; bool b; };
struct Both { float a; float3 v; Inner inner; };
Both made(float x) { Both b; b.a = x; b.v = float3(x, 2 * x, 3 * x); b.inner.n = int(x); b.inner.b = x > 1; return b; }
[Differentiable] void squares(float x, out float y, out int n) { y = x * x; n = int(x); }
void advanced(inout float x) { x = x * x; }
[Differentiable] void stepped(IRWDiffTensor<float, 1> t, int i) { t[i] = t[i] * t[i]; }
struct Line : IDifferentiable
{
    float k;
    float b;
    [Differentiable] float at(float x) { return k * x + b; }
};
float which(float x) { return 1; }
float which(int x) { return 2; }
float which(float3 x) { return 3; }
[Differentiable] float größe(float x) { return 2 * x; }
[Differentiable] float wrong(float x) { return detach(x) * x; }
"""


@pytest.fixture(scope="module")
def m(device):
    return slanglab.compile(SOURCE, "torch_calls")


def test_a_cpu_tensor_on_any_device(m):
    """PT-01: the numbers, by one copy each way; slangpy's own fallback ends the process."""
    assert m.f(torch.tensor([1.0, 2.0, 3.0])).tolist() == [1, 4, 9]


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.uint8, torch.bool]
)
def test_dtypes_become_what_the_parameter_takes(m, dtype):
    """PT-04."""
    y = m.f(torch.tensor([1, 0, 3]).to(dtype))
    assert y.dtype == torch.float32
    assert y.tolist() == [1, 0, 9 if dtype != torch.bool else 1]


def test_results_have_the_functions_type(m):
    x = torch.tensor([1.0, 2.0])
    assert m.h(x).dtype == torch.float16
    assert m.d(x).dtype == torch.float64
    assert m.d(torch.tensor([1 / 3], dtype=torch.float64)).item() == (1 / 3) * (1 / 3)
    assert m.whole(torch.tensor([1, 2])).dtype == torch.int32
    assert m.whole(torch.tensor([1, 2])).tolist() == [2, 3]
    assert m.byte(torch.tensor([1, 255])).dtype == torch.uint8
    flipped = m.flipped(torch.tensor([True, False, False]))
    assert flipped.dtype == torch.bool
    assert flipped.tolist() == [False, True, True]
    assert m.turned(torch.tensor([[1.0, 2, 3], [4, 5, 6]])).tolist() == [[3, 1, 2], [6, 4, 5]]
    assert m.turned(torch.tensor([1.0, 2, 3])).tolist() == [3, 1, 2]
    assert m.transposed(torch.tensor([[[1.0, 2], [3, 4]]])).tolist() == [[[1, 3], [2, 4]]]


def test_structs_come_as_dicts(m):
    found = m.made(torch.tensor([1.0, 2.0]))
    assert found["a"].tolist() == [1, 2]
    assert found["v"].tolist() == [[1, 2, 3], [2, 4, 6]]
    assert found["inner"]["n"].tolist() == [1, 2]
    assert found["inner"]["b"].tolist() == [False, True]


def test_tensors_without_axes_and_without_elements(m):
    y = m.g(torch.tensor(3.0))
    assert y.shape == ()
    assert y.item() == 9
    assert m.added(torch.tensor(1.0), torch.tensor([2.0])).shape == (1,)
    x = torch.zeros((0, 3), requires_grad=True)
    w = torch.ones(1, requires_grad=True)
    y = m.sum(x, w)
    assert y.shape == (0, 3)
    y.sum().backward()
    assert x.grad.shape == (0, 3)
    assert w.grad.tolist() == [0]


def test_numbers_arrays_and_slangpy_tensors_beside_torch(m):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    for other in (3, 3.0, np.array([3.0, 3.0]), slanglab.tensor([3.0, 3.0]), [3.0, 3.0]):
        y = m.sum(x, other)
        assert y.tolist() == [4, 5]
        (g,) = torch.autograd.grad(y.sum(), x)
        assert g.tolist() == [1, 1]


def test_a_slangpy_tensor_with_a_gradient_is_a_constant_and_that_is_said(device):
    m = slanglab.compile("[Differentiable] float sum(float x, float y) { return x * y; }", "torch_beside")
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = slanglab.tensor([3.0, 4.0], grad=True)
    with pytest.warns(GradientWarning, match="slangpy tensor y gets no gradient") as caught:
        m.sum(x, y).sum().backward()
    assert caught[0].filename == __file__
    assert x.grad.tolist() == [3, 4]
    assert y.grad.to_numpy().tolist() == [0, 0]


def test_an_array_that_changes_before_the_backward_call(m, device):
    n = slanglab.compile("[Differentiable] float f(float x, float y) { return x * y; }", "torch_array")
    x, y = torch.tensor([1.0, 2.0], requires_grad=True), np.array([3.0, 4.0], np.float32)
    z = n.f(x, y)
    y[:] = 0
    z.sum().backward()
    assert x.grad.tolist() == [3, 4]


def test_overloads(m):
    assert m.which(torch.tensor([1.0])).tolist() == [1]
    assert m.which(torch.tensor([1], dtype=torch.int32)).tolist() == [2]
    assert m.which(torch.tensor([[1.0, 2.0, 3.0]])).tolist() == [3]
    assert m.which(torch.tensor([1.0], dtype=torch.bfloat16)).tolist() == [1]


def test_unicode_names(m):
    x = torch.tensor([1.0], requires_grad=True)
    m.größe(x).backward()
    assert x.grad.tolist() == [2]


def test_not_a_number_and_infinity(m):
    x = torch.tensor([float("nan"), float("inf"), -0.0], requires_grad=True)
    y = m.g(x)
    assert torch.equal(torch.isnan(y), torch.tensor([True, False, False]))
    y.sum().backward()
    assert torch.isnan(x.grad[0])
    assert x.grad[1:].tolist() == [float("inf"), 0]


# ----- outputs that the caller brings -----


def test_out_parameters_are_written_in_place(m):
    x = torch.tensor([1.5, 2.5], requires_grad=True)
    y, n = torch.zeros(2), torch.zeros(2, dtype=torch.int64)
    version = y._version
    assert m.squares(x, y, n) is None
    assert y.tolist() == [2.25, 6.25]
    assert n.tolist() == [1, 2]
    assert y._version > version
    assert y.requires_grad
    assert not n.requires_grad
    (3 * y).sum().backward()
    assert x.grad.tolist() == [9, 15]
    strided = torch.zeros((2, 2))[:, 0]
    with torch.no_grad():
        m.squares(x, strided, n)
    assert strided.tolist() == [2.25, 6.25]


def test_the_result_goes_into_a_tensor(m):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    r = torch.zeros(2)
    assert m.g(x, _result=r) is r
    assert r.tolist() == [1, 4]
    r.sum().backward()
    assert x.grad.tolist() == [2, 4]


def test_a_leaf_that_requires_a_gradient_cannot_be_written(m):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        m.squares(x, torch.zeros(2, requires_grad=True), torch.zeros(2))


def test_inout_parameters(m):
    x = torch.tensor([2.0, 3.0])
    m.advanced(x)
    assert x.tolist() == [4, 9]


def test_a_tensor_that_is_overwritten_in_place(m):
    x = torch.tensor([2.0, 3.0, 4.0], requires_grad=True)
    t = x * 1
    m.stepped(t, torch.arange(3))
    assert t.tolist() == [4, 9, 16]
    (t * torch.tensor([1.0, 10.0, 100.0])).sum().backward(retain_graph=True)
    assert x.grad.tolist() == [4, 60, 800]
    t.sum().backward()
    assert x.grad.tolist() == [8, 66, 808]


def test_other_results(m):
    x = torch.tensor([1.0, 2.0])
    assert m.f(x, _result="tensor").tolist() == [1, 4]
    with pytest.raises(CallError, match="result is a torch tensor"):
        m.f(x, _result="numpy")
    r = slanglab.zeros(2)
    m.f(x, _result=r)
    assert r.to_numpy().tolist() == [1, 4]
    with pytest.raises(CallError, match="not in torch's graph"):
        m.g(x.requires_grad_(), _result=r)


# ----- methods -----


def test_an_instance_as_a_dict(m):
    k = torch.tensor([2.0, 3.0], requires_grad=True)
    x = torch.tensor([1.0, 10.0], requires_grad=True)
    y = m.Line.at({"k": k, "b": 1.0}, x)
    assert y.tolist() == [3, 31]
    y.sum().backward()
    assert k.grad.tolist() == [1, 10]
    assert x.grad.tolist() == [2, 3]


# ----- what is refused, and what is said -----


def test_bwds_with_torch_tensors(m):
    x = torch.tensor([1.0])
    with pytest.raises(CallError, match=r"result\.backward\(\)"):
        m.g.bwds(x, _result=x)


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        (torch.empty(3, device="meta"), "meta device"),
        (torch.ones(3).to_sparse(), "sparse"),
        (torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8), "quantized"),
        (torch.ones(3, dtype=torch.complex64), "complex"),
        (torch.ones(3).to(torch.float8_e4m3fn), "float8_e4m3fn"),
    ],
)
def test_tensors_that_hold_no_plain_numbers(m, tensor, words):
    with pytest.raises(CallError, match=words) as caught:
        m.f(tensor)
    assert caught.value.argument == "x"


def test_whole_numbers(m):
    with pytest.raises(ArgumentError, match="whole numbers"):
        m.whole(torch.tensor([1.5]))
    with pytest.raises(ArgumentError, match=r"holds 1 to 2147483648; int holds"):
        m.whole(torch.tensor([1, 2**31]))
    assert m.whole(torch.tensor([2**31 - 2])).tolist() == [2**31 - 1]


def test_too_large_values_are_said_at_the_users_line(m):
    with pytest.warns(ValueWarning, match="became infinite") as caught:
        m.f(torch.tensor([1e300], dtype=torch.float64))
    assert caught[0].filename == __file__


def test_wrong_shapes(m):
    with pytest.raises(ArgumentError, match=r"\(…, 3\)"):
        m.turned(torch.zeros(4, 2))
    with pytest.raises(CallError):
        m.added(torch.zeros(2), torch.zeros(3))
    with pytest.raises(CallError, match="no parameter"):
        m.added(torch.zeros(2), z=torch.zeros(2))
    with pytest.raises(CallError, match="struct"):
        m.Line.at(torch.zeros(2), torch.zeros(2))


def test_functions_without_a_derivative(device):
    m = slanglab.compile("float f(float x) { return x * x; }", "torch_not_differentiable")
    x = torch.tensor([3.0], requires_grad=True)
    with pytest.warns(GradientWarning, match=r"not \[Differentiable\]") as caught:
        y = m.f(x)
    assert caught[0].filename == __file__
    assert not y.requires_grad
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not m.f(x).requires_grad


def test_a_wrong_gradient_is_said_where_backward_is_called(device):
    m = slanglab.compile("[Differentiable] float wrong(float x) { return detach(x) * x; }", "torch_wrong")
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = m.wrong(x)
    with pytest.warns(GradientWarning, match="differs from the difference quotient") as caught:
        y.sum().backward()
    assert caught[0].filename == __file__


def test_torchs_own_structures(m):
    p = torch.nn.Parameter(torch.tensor([2.0, 3.0]))
    m.g(p).sum().backward()
    assert p.grad.tolist() == [4, 6]


def test_detach_and_reading_back(m):
    """PT-06."""
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    t = slanglab.tensor(x, grad=True)
    assert t.to_numpy().tolist() == [1, 2]
    with pytest.raises(RuntimeError, match="requires grad"):
        m.g(x).numpy()


def test_calls_from_several_threads(m):
    found = {}

    def work(k):
        for i in range(20):
            x = torch.full((5,), float(k + i), requires_grad=True)
            m.g(x).sum().backward()
            found[k, i] = x.grad.tolist()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(found[k, i] == [2.0 * (k + i)] * 5 for k in range(4) for i in range(20))


def test_memory_is_flat(m):
    """PT-07, with tensors of the CPU: 1000 calls forward and backward of one megabyte each."""
    psutil = pytest.importorskip("psutil")
    process = psutil.Process()

    def step():
        x = torch.ones(1 << 18, requires_grad=True)
        m.g(x).sum().backward()
        return x.grad[-1].item()

    for _ in range(50):
        step()
    gc.collect()
    before = process.memory_info().rss
    for _ in range(1000):
        assert step() == 2
    gc.collect()
    assert process.memory_info().rss - before < 64 << 20


def test_a_graph_that_is_dropped_frees_the_tensors(m):
    x = torch.ones(1000, requires_grad=True)
    out, n = torch.zeros(1000), torch.zeros(1000)
    gone = weakref.ref(out)
    m.squares(x, out, n)
    del out
    gc.collect()
    assert gone() is None


# ----- slangpy's own arguments and modifiers -----

MODIFIED = """
import slangpy;
[Differentiable] float product(float x, float y) { return x * y; }
[Differentiable] float place(float x, no_diff int2 at) { return x * at.x + at.y; }
[Differentiable] float sum3(float v[3]) { return v[0] * v[1] + v[2]; }
extern static const float SCALE = 1;
[Differentiable] float constant(float x) { return SCALE * x; }
uniform float offset;
[Differentiable] float shifted(float x) { return x * x + offset; }
"""


@pytest.fixture(scope="module")
def modified(device):
    return slanglab.compile(MODIFIED, "torch_modified")


def test_mapped_arguments(modified):
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = torch.tensor([10.0, 100.0], requires_grad=True)
    outer = modified.product.map(x=(1,), y=(0,))
    z = outer(x=x, y=y)
    assert z.tolist() == [[10, 20, 30], [100, 200, 300]]
    z.backward(torch.tensor([[1.0, 1, 1], [2, 2, 2]]))
    assert x.grad.tolist() == [210, 210, 210]
    assert y.grad.tolist() == [6, 12]


def test_grids(modified):
    x = torch.ones((2, 3), requires_grad=True)
    z = modified.place(x, spy.grid((2, 3)))
    plain = modified.place(slanglab.ones((2, 3)), spy.grid((2, 3)), _result="numpy")
    assert np.array_equal(z.detach().numpy(), plain)
    z.sum().backward()
    assert x.grad.tolist() == [[0, 1, 2], [0, 1, 2]]


def test_a_scalar_over_a_grid_has_the_grids_shape(modified):
    x = torch.tensor(2.0, requires_grad=True)
    z = modified.place(x, spy.grid((2, 3)))
    assert z.shape == (2, 3)
    z.sum().backward()
    assert x.grad.item() == 6


def test_fixed_arrays(modified):
    v = torch.tensor([[1.0, 2, 3], [4, 5, 6]], requires_grad=True)
    assert modified.sum3(v).tolist() == [5, 26]
    modified.sum3(v).sum().backward()
    assert v.grad.tolist() == [[2, 1, 1], [5, 4, 1]]


def test_constants_uniforms_and_groups(modified):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    scaled = modified.constant.constants({"SCALE": 3.0})
    assert scaled(x).tolist() == [3, 6]
    scaled(x).sum().backward()
    assert x.grad.tolist() == [3, 3]
    assert modified.shifted.set({"offset": 5.0})(x).tolist() == [6, 9]
    assert modified.product.call_group_shape(spy.slangpy.Shape((64,)))(x, x).tolist() == [1, 4]


def test_return_types(modified):
    x = torch.tensor([1.0, 2.0])
    assert isinstance(modified.product.return_type(spy.Tensor)(x, 2.0), torch.Tensor)
    with pytest.raises(CallError, match="was asked for"):
        modified.product.return_type("numpy")(x, 2.0)


def test_every_backward_call_can_be_checked(modified, control):
    control.change(check="always")
    for _ in range(3):
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        modified.product(x, 2.0).sum().backward()
        assert slanglab.last_run().check.verdict == "agrees"
        assert x.grad.tolist() == [2, 2]


def test_the_device_is_timed(modified, control):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with slanglab.timing():
        modified.product(x, 2.0).sum().backward()
    assert slanglab.last_run().device_ms > 0
    assert x.grad.tolist() == [2, 2]


def test_a_cell_that_changes(device):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    f = slanglab.compile("[Differentiable] float f(float x) { return x; }", "torch_edited").f
    assert f(x).tolist() == [1, 2]
    y = f(x)
    slanglab.compile("[Differentiable] float f(float x) { return 3 * x; }", "torch_edited")
    assert f(x).tolist() == [3, 6]
    f(x).sum().backward()
    assert x.grad.tolist() == [3, 3]
    y.sum().backward()  # of the version that ran
    assert x.grad.tolist() == [4, 4]


def test_printing_functions(device, capsys):
    m = slanglab.compile(
        'import slangpy; import sgl.device.print;\nfloat loud(float x) { print("x={}", x); return x; }',
        "torch_loud",
    )
    assert m.loud(torch.tensor([2.0])).tolist() == [2]
    assert "x=2" in capsys.readouterr().out + slanglab.last_run().prints


def test_torch_is_loaded_by_whoever_uses_it():
    """SlangLab loads torch never (slangpy does, where it is installed), and its own part for torch with the first torch tensor."""
    program = """
import sys, numpy as np, slanglab
assert "torch" not in sys.modules
m = slanglab.compile("[Differentiable] float f(float x) { return x * x; }", "no_torch")
assert m.f(np.ones(3, np.float32), _result="numpy").tolist() == [1, 1, 1]
import torch
m.f(np.ones(3, np.float32), _result="numpy")
assert "slanglab.torch.bridge" not in sys.modules
assert m.f(torch.ones(3)).tolist() == [1, 1, 1]
assert "slanglab.torch.bridge" in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
