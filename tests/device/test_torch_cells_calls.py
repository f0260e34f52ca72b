"""Calls of `--torch` cells, run without CUDA: what Slang really wrote, compiled for the CPU by a stand-in for slangtorch (`cuda_on_cpu`).

The numbers are those of slang-torch's guide, of analysis, or of plain torch.
"""

import contextlib
import gc
import os
import shutil
import sys
import sysconfig
import threading
import warnings
from pathlib import Path

import pytest
import torch_texts as texts

torch = pytest.importorskip("torch", reason="calls of --torch cells take torch tensors")

import slanglab  # noqa: E402
from slanglab.errors import ArgumentError, SlangLabError  # noqa: E402
from slanglab.text.lint import RULES  # noqa: E402
from slanglab.torch.entry_points import calling, machine, staging  # noqa: E402

_HEADER = Path(sysconfig.get_paths()["include"]) / "Python.h"
pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("g++") is None or not _HEADER.is_file(),
    reason="the stand-in for CUDA is compiled by g++, with Python's headers",
)


@pytest.fixture(scope="module")
def standing_in(tmp_path_factory):
    """The stand-in in the place of slangtorch, and the CPU in that of CUDA; binaries live as long as the module's tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parent / "cuda_on_cpu"))
        patch.delitem(sys.modules, "slangtorch", raising=False)
        patch.setenv("SLANGLAB_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(machine, "missing", lambda: ())
        patch.setattr(machine, "versions", lambda: {"for": "the CPU"})
        patch.setattr(staging, "default_device", lambda: torch.device("cpu"))
        patch.setattr(staging, "on", lambda _: contextlib.nullcontext())
        yield
        sys.modules.pop("slangtorch", None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, standing_in):
    return tmp_path_factory.mktemp("cells")


def load(folder, name, text):
    file = folder / f"{name}.slang"
    file.write_text(text)
    return slanglab.torch.load(file)


WIDE = texts.SQUARE_FWD.replace("square_fwd(", "square_wide(").replace(
    "uint3(result.size(0), result.size(1), 1)", "uint3(8, 8, 1)"
)
"""The guide's launch with more threads than the tensor has elements."""


@pytest.fixture(scope="module")
def square(folder):
    return load(folder, "square", texts.SQUARE + WIDE)


@pytest.fixture(scope="module")
def others(folder):
    """Everything else in one cell, which is built once."""
    return load(folder, "others", texts.MENDED + texts.KERNELS + texts.MIXED)


@pytest.fixture(scope="module")
def mended(others):
    return others


@pytest.fixture(scope="module")
def kernels(others):
    return others


@pytest.fixture(scope="module")
def mixed(others):
    return others


# ----- the guide -----


def test_the_guides_square(square):
    x = torch.tensor([[0.1407, 0.6594], [-0.8978, -1.7230]])
    expected = torch.tensor([[0.0198, 0.4349], [0.8060, 2.9688]])
    y = square.square_fwd(x)
    assert torch.allclose(y.cpu(), expected, atol=1e-4)


def test_the_guides_autograd_function(square):
    x = torch.tensor([[3.0, 4.0], [0.0, 1.0]], requires_grad=True)
    y_pred = texts.guides_function(square).apply(x)
    loss = y_pred.sum()
    loss.backward()  # the gradient that arrives has one place for all elements, which slangtorch refuses
    assert x.grad.tolist() == [[6.0, 8.0], [0.0, 2.0]]


def test_the_pair_is_that_function(square):
    x = torch.tensor([[3.0, 4.0], [0.0, 1.0]], requires_grad=True)
    y = square.square(x)
    assert y.tolist() == [[9.0, 16.0], [0.0, 1.0]]
    y.sum().backward()
    assert x.grad.tolist() == [[6.0, 8.0], [0.0, 2.0]]


def test_gradcheck_in_single_precision(square, rng):
    x = torch.tensor(rng.uniform(-2, 2, (3, 4)), dtype=torch.float32, requires_grad=True)
    assert torch.autograd.gradcheck(square.square, (x,), eps=1e-2, atol=2e-2, rtol=1e-2)


def test_what_autograd_may_ask(square, rng):
    x = torch.tensor(rng.normal(size=(3, 4)), dtype=torch.float32, requires_grad=True)
    with torch.no_grad():
        assert not square.square(x).requires_grad
    assert not square.square(x.detach()).requires_grad
    y = square.square(x)  # and back
    seed = torch.tensor(rng.normal(size=(3, 4)), dtype=torch.float32)
    (gradient,) = torch.autograd.grad(y, x, seed)
    assert torch.allclose(gradient, 2 * x.detach() * seed)
    y = square.square(x.t())  # a view that is not contiguous
    (gradient,) = torch.autograd.grad(y.sum(), x)
    assert torch.allclose(gradient, 2 * x.detach())
    row = torch.tensor(rng.normal(size=4), dtype=torch.float32, requires_grad=True)
    (gradient,) = torch.autograd.grad(square.square(row.expand(3, 4)).sum(), row)
    assert torch.allclose(gradient, 6 * row.detach())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_gradients_come_back_in_the_inputs_type(square, dtype):
    x = torch.tensor([[3.0, -4.0]], dtype=dtype, requires_grad=True)
    y = square.square(x)
    assert y.dtype == torch.float32
    y.sum().backward()
    assert x.grad.dtype == dtype
    assert x.grad.tolist() == [[6.0, -8.0]]


def test_changing_an_input_in_place_is_seen(square):
    x = torch.ones(2, 2, requires_grad=True)
    z = x * 1
    y = square.square(z)
    z.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_a_second_derivative_says_that_there_is_none(square):
    x = torch.ones(2, 2, requires_grad=True)
    (first,) = torch.autograd.grad(square.square(x).sum(), x, create_graph=True)
    assert first.tolist() == [[2.0, 2.0], [2.0, 2.0]]
    with pytest.raises(SlangLabError, match="no second derivative"):
        first.sum().backward()


def test_special_values_and_empty_tensors(square):
    x = torch.tensor([[float("nan"), float("inf")]], requires_grad=True)
    y = square.square(x)
    y.sum().backward()
    assert torch.isnan(y[0, 0])
    assert y[0, 1] == float("inf")
    assert x.grad[0, 1] == float("inf")


# ----- several inputs and results -----


def test_two_results_against_plain_torch(mixed, rng):
    n = int(rng.integers(1, 100))
    a, b = (torch.tensor(rng.normal(size=n), dtype=torch.float32, requires_grad=True) for _ in range(2))
    whole = torch.tensor(rng.integers(-5, 5, n))
    seeds = [torch.tensor(rng.normal(size=n), dtype=torch.float32) for _ in range(2)]
    found = mixed.mixed(a, b, whole, s=1.5)
    expected = (a * a * b + 1.5 * b + whole, a * b)
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one, other.float(), rtol=1e-5, atol=1e-5)
    for one, other in zip(
        torch.autograd.grad(found, (a, b), seeds), torch.autograd.grad(expected, (a, b), seeds), strict=True
    ):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-5)


def test_one_input_alone_asks(mixed):
    a, b = torch.ones(3, requires_grad=True), torch.full((3,), 2.0)
    sums, products = mixed.mixed(a, b, torch.zeros(3, dtype=torch.int32), 0.0)
    sums.sum().backward()  # nobody asks for the products
    assert a.grad.tolist() == [4.0, 4.0, 4.0]
    assert b.grad is None
    assert products.requires_grad


def test_random_shapes_strides_and_types(mended, rng):
    types = [torch.float32, torch.float64, torch.float16]
    for _ in range(60):
        shape = tuple(int(k) for k in rng.integers(1, 6, 2))
        kind = types[int(rng.integers(3))]
        leaf = torch.tensor(
            rng.uniform(-2, 2, (*shape[::-1], 2)), dtype=kind, requires_grad=bool(rng.integers(2))
        )
        x = leaf[..., int(rng.integers(2))]
        x = x.t() if rng.integers(2) else x[::2] if rng.integers(2) else x
        y = mended.square(x)
        assert torch.allclose(y, (x.float()) ** 2, rtol=1e-6)
        assert y.requires_grad == leaf.requires_grad
        if leaf.requires_grad:
            (found,) = torch.autograd.grad(y.sum(), leaf)
            (expected,) = torch.autograd.grad((x.float() ** 2).sum(), leaf)
            assert torch.allclose(found, expected, rtol=1e-3)


# ----- arguments -----


def test_arguments_by_name_and_position(mixed):
    a, n = torch.ones(3), torch.zeros(3, dtype=torch.int32)
    by_name = mixed.mixed_fwd(s=2.0, n=n, b=a, a=a)
    assert by_name[0].tolist() == mixed.mixed_fwd(a, a, n, 2.0)[0].tolist() == [3.0, 3.0, 3.0]
    for args, kwargs, message in (
        ((a, a, n), {}, "lacks `s`"),
        ((a, a, n, 1.0, 2.0), {}, "takes 4 arguments, and got 5"),
        ((a, a, n, 1.0), {"t": 1}, "has no parameter `t`"),
        ((a, a, n, 1.0), {"a": a}, "got `a` twice"),
    ):
        with pytest.raises(ArgumentError, match=message) as raised:
            mixed.mixed(*args, **kwargs)
        assert "TorchTensor<float> a" in raised.value.hint
    with pytest.raises(SlangLabError) as raised:
        mixed.mixed_fwd("no", a, n, 1.0)
    assert "signature" in raised.value.hint
    with pytest.raises(ArgumentError, match="sparse"):
        mixed.mixed(a.to_sparse(), a, n, 1.0)


def test_tensors_on_several_devices_are_named():
    a = torch.ones(3)
    with torch.device("meta"):
        elsewhere = torch.ones(3)
    with pytest.raises(ArgumentError, match=r"`b` is on meta, and --torch cells run on CUDA"):
        staging.place([("a", a), ("b", [elsewhere])], "f")
    on_gpu = _Elsewhere()
    assert staging.place([("a", a), ("b", on_gpu)], "f") == torch.device("cuda", 1)
    with pytest.raises(
        ArgumentError, match=r"f: its tensors are on several devices: `b` on meta, `c` on cuda:1"
    ):
        staging.place([("a", a), ("b", elsewhere), ("c", {"x": on_gpu})], "f")


class _Elsewhere(torch.Tensor):
    """A tensor that says it is on a GPU."""

    @property
    def device(self):
        return torch.device("cuda", 1)


def test_a_call_that_loses_the_gradient_warns(square):
    x = torch.ones(2, 2, requires_grad=True)
    with pytest.warns(calling.NoGradientWarning, match=r"call .*square, which has one"):
        square.square_fwd(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        square.square_fwd(x.detach())
        with torch.no_grad():
            square.square_fwd(x)


def test_too_many_threads_say_what_to_write(square):
    with pytest.raises(SlangLabError, match="invalid configuration argument") as raised:
        square.square_fwd(torch.ones(64, 64))
    assert "1024 threads" in raised.value.hint


def test_the_mended_check_and_blocks_of_the_linter(mended, rng):
    """What the linter says to write runs where the guide's own text does not."""
    x = torch.tensor(rng.normal(size=(70, 33)), dtype=torch.float32)
    assert torch.equal(mended.square_fwd(x), x * x)


def test_the_guides_check_leaves_rows_out(square):
    found = square.square_fwd(torch.ones(5, 1))  # it compares the row with the number of columns
    assert found[:2].tolist() == [[1.0], [1.0]]
    assert (found[2:] != 1).all()


def test_the_guides_check_reads_past_the_end(square):
    with pytest.raises(SlangLabError, match="outside of a tensor: index 4"):
        square.square_wide(torch.ones(4, 4))


# ----- kernels that Python launches -----

ONE = {"blockSize": (32, 1, 1), "gridSize": (1, 1, 1)}


def test_a_launch(kernels):
    x, y = torch.arange(40.0), torch.zeros(40)
    kernels.scale(input=x, output=y, s=(2.0, 1.0), v=(0.0, 0.5, 0.0)).launchRaw(
        blockSize=(32, 1, 1), gridSize=(2, 1, 1)
    )
    assert torch.equal(y, 2 * x + 1.5)


def test_tensors_that_a_launch_cannot_take_as_they_are(kernels):
    x = torch.arange(4, dtype=torch.float64)
    y = torch.zeros(4, dtype=torch.float64)
    kernels.scale(x, y, (2.0, 0.0), (0.0, 0.0, 0.0)).launchRaw(**ONE)
    assert y.tolist() == [0.0, 2.0, 4.0, 6.0]  # written through a copy
    one = torch.full((), 3.0).expand(4)
    kernels.scale(one, y, (2.0, 0.0), (0.0, 0.0, 0.0)).launchRaw(**ONE)
    assert y.tolist() == [6.0] * 4
    with pytest.raises(SlangLabError, match="share places"):
        kernels.scale(y, one, (2.0, 0.0), (0.0, 0.0, 0.0)).launchRaw(**ONE)


def test_a_launch_in_the_autograd_graph(kernels, rng):
    x = torch.tensor(rng.normal(size=40), dtype=torch.float32, requires_grad=True)
    y = torch.zeros(40)
    kernels.cube(input=x, output=y).launchRaw(blockSize=(32, 1, 1), gridSize=(2, 1, 1))
    assert torch.allclose(y.detach(), x.detach() ** 3, rtol=1e-5)
    seed = torch.tensor(rng.normal(size=40), dtype=torch.float32)
    kept = seed.clone()
    y.backward(seed)
    assert torch.allclose(x.grad, 3 * x.detach() ** 2 * seed, rtol=1e-4)
    assert torch.equal(seed, kept)  # the kernel uses up a copy


def test_launches_one_behind_the_other(kernels):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y, z = torch.zeros(2), torch.zeros(2, dtype=torch.float64)
    kernels.cube(x, y).launchRaw(**ONE)
    kernels.cube(y, z).launchRaw(**ONE)
    assert z.tolist() == [1.0, 512.0]
    z.sum().backward()
    assert x.grad.tolist() == [9.0, 9 * 2.0**8]


def test_backward_by_hand(kernels):
    x, dx, y, dy = torch.tensor([1.0, 2.0]), torch.zeros(2), torch.zeros(2), torch.ones(2)
    kernels.cube.bwd(input=(x, dx), output=(y, dy)).launchRaw(**ONE)
    assert dx.tolist() == [3.0, 12.0]
    dx.zero_()
    kernels.cube.fwd(input=(x, torch.ones(2)), output=(y, dx)).launchRaw(**ONE)
    assert dx.tolist() == [3.0, 12.0]
    with pytest.raises(SlangLabError, match=r"has no \.bwd"):
        kernels.scale.bwd(x, y, (1.0, 1.0), (0.0, 0.0, 0.0))


def test_a_kernel_that_overwrites_what_it_reads_is_refused_for_autograd(kernels):
    t = torch.ones(2, requires_grad=True) * 1
    with pytest.raises(SlangLabError, match="reads and overwrites `t`"):
        kernels.twice_over(t).launchRaw(**ONE)
    plain = torch.ones(2)
    kernels.twice_over(plain).launchRaw(**ONE)
    assert plain.tolist() == [2.0, 2.0]


def test_what_a_launch_changes_autograd_knows(kernels):
    x = torch.ones(2, requires_grad=True)
    saved = torch.full((2,), 3.0)
    y = x * saved
    kernels.scale(torch.ones(2), saved, (2.0, 0.0), (0.0, 0.0, 0.0)).launchRaw(**ONE)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_a_launch_in_inference_mode(kernels):
    with torch.inference_mode():
        y = torch.zeros(2)
        kernels.cube(torch.tensor([1.0, 2.0]), y).launchRaw(**ONE)
        assert y.tolist() == [1.0, 8.0]


@pytest.mark.parametrize(
    ("block", "grid", "message"),
    [
        ((2048, 1, 1), (1, 1, 1), "2048 threads"),
        ((32, 33, 1), (1, 1, 1), "1056 threads"),
        ((1, 1, 128), (1, 1, 1), "64 of them over z"),
        ((0, 1, 1), (1, 1, 1), "blockSize is"),
        ((32,), (1, 1, 1), "blockSize is"),
        (32, (1, 1, 1), "blockSize is"),
        ((32, 1, 1), (1, 1.5, 1), "gridSize is"),
        ((32, 1, 1), (1, 70000, 1), "larger than CUDA takes"),
        ((32, 1, 1), (1, "1", 1), "gridSize is"),
    ],
)
def test_sizes_that_cuda_does_not_take(kernels, block, grid, message):
    launch = kernels.cube(torch.ones(2), torch.ones(2))
    with pytest.raises(ArgumentError, match=message):
        launch.launchRaw(blockSize=block, gridSize=grid)


def test_a_call_without_a_launch_warns(kernels):
    with pytest.warns(UserWarning, match="not launched"):
        _called_only(kernels)


def _called_only(kernels):
    kernels.cube(torch.ones(2), torch.ones(2))
    gc.collect()


def test_names_of_a_module(kernels, square):
    assert {"cube", "scale", "twice_over", "mixed", "mixed_fwd"} < set(dir(kernels))
    assert "DiffTensorView input" in kernels.cube.__doc__
    assert isinstance(kernels.DiffTensorView, type)
    with pytest.raises(AttributeError, match="not for Python"):
        kernels.halved
    with pytest.raises(AttributeError, match="did you mean `cube`"):
        kernels.cub
    with pytest.raises(AttributeError, match="cannot be set"):
        kernels.cube = 3
    with pytest.raises(AttributeError, match="only kernels have"):
        square.square.bwd


# ----- builds -----


def cell(shell, text, name="built", **kwargs):
    return shell.run(f"%%slang --torch {name}\n{text}", **kwargs)


ENTRY = "[TorchEntryPoint] float number(TorchTensor<float> t) { return 1; }\n"


def test_a_cell_is_built_once_for_its_content(shell, standing_in):
    cells = slanglab.current().torch_cells
    cell(shell, ENTRY)
    assert shell["built"].number(torch.ones(1)) == 1.0
    held = shell["built"]
    cell(shell, ENTRY.replace("1;", "2;"))
    assert held.number(torch.ones(1)) == 2.0
    cell(shell, ENTRY)  # the first content again
    assert held.number(torch.ones(1)) == 1.0
    cells.forget("built")
    del shell.ns["built"]
    cell(shell, ENTRY)
    assert shell["built"].number(torch.ones(1)) == 1.0
    built = [(f / "builds").read_text() for f in folders_with("number")]
    assert built == ["1", "1"]


def folders_with(word):
    """Return the folders of the cells called `built` in whose text a word stands."""
    return [
        f.parent for f in Path(os.environ["SLANGLAB_CACHE"]).rglob("built.slang") if word in f.read_text()
    ]


def test_a_binary_that_was_cut_off_is_built_again(shell, standing_in):
    text = ENTRY.replace("number", "cut_off")
    cell(shell, text)
    (folder,) = folders_with("cut_off")
    (binary,) = folder.rglob("*.so")
    slanglab.current().torch_cells.forget("built")
    binary.unlink()
    binary.write_bytes(b"\x7fELF and nothing more")
    cell(shell, text)
    assert shell["built"].cut_off(torch.ones(1)) == 1.0


def test_what_nvcc_refuses_stands_at_its_line_and_the_last_version_stays(shell, standing_in):
    cell(shell, ENTRY)
    failed = cell(shell, "\n\n// NVCC_REFUSES\n" + ENTRY, fails=True)
    assert "line 4" in failed.text
    assert 'identifier "undeclared" is undefined' in failed.text
    assert "still runs the version of" in failed.text
    assert shell["built"].number(torch.ones(1)) == 1.0


def test_an_interrupt_ends_a_build(shell, standing_in):
    import _thread

    threading.Timer(3.0, _thread.interrupt_main).start()
    failed = cell(shell, "// SLOW_BUILD\n" + ENTRY, fails=True)
    assert isinstance(failed.error, KeyboardInterrupt)
    cell(shell, ENTRY)
    assert shell["built"].number(torch.ones(1)) == 1.0


# ----- the linter's rules about launches -----


def test_both_texts_of_the_rules_about_launches(folder):
    """Each bad text reads outside, leaves elements out or fails; each good one is right."""
    rules = {r.code: r for r in RULES}
    parts = []
    for code in ("past-the-end", "range-check-axis", "block-of-a-tensor"):
        for which in ("bad", "good"):
            text = getattr(rules[code], which)
            if code != "block-of-a-tensor":
                text = text.replace("[CudaKernel]", "[AutoPyBindCUDA] [CudaKernel]")
            parts.append(text.replace("twice", f"{code.replace('-', '_')}_{which}"))
    module = load(folder, "rules", "\n".join(parts))

    x, y = torch.arange(4.0), torch.zeros(4)
    with pytest.raises(SlangLabError, match="outside of a tensor: index 4"):
        module.past_the_end_bad(x, y).launchRaw(**ONE)
    y.zero_()
    module.past_the_end_good(x, y).launchRaw(**ONE)
    assert torch.equal(y, 2 * x)

    x, y = torch.arange(10.0).reshape(5, 2), torch.zeros(5, 2)
    sizes = {"blockSize": (8, 2, 1), "gridSize": (1, 1, 1)}
    module.range_check_axis_bad(x, y).launchRaw(**sizes)
    assert y[2:].eq(0).all()
    module.range_check_axis_good(x, y).launchRaw(**sizes)
    assert torch.equal(y, 2 * x)

    x = torch.arange(2000.0)
    with pytest.raises(SlangLabError, match="invalid configuration"):
        module.block_of_a_tensor_bad_all(x.clone())
    assert torch.equal(module.block_of_a_tensor_good_all(x.clone()), 2 * x)
