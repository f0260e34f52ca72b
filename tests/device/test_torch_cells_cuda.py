"""The blocks of slang-torch's guide where CUDA is: built by slangtorch and nvcc, run on the GPU, with the guide's numbers.

Without CUDA the same texts and the same code of SlangLab's run in `test_torch_cells_calls.py`, on a stand-in.
"""

import pytest
import torch_texts as texts

torch = pytest.importorskip("torch", reason="needs PyTorch with CUDA")

import slanglab  # noqa: E402
from slanglab.errors import SlangLabError  # noqa: E402
from slanglab.torch.entry_points import machine  # noqa: E402

LACKING = machine.missing()
pytestmark = pytest.mark.skipif(
    bool(LACKING), reason=f"needs CUDA: {'; '.join(m.what for m in LACKING) or 'it is here'}"
)

ONE = {"blockSize": (32, 1, 1), "gridSize": (2, 1, 1)}


@pytest.fixture(scope="module")
def square(tmp_path_factory):
    file = tmp_path_factory.mktemp("cells") / "square.slang"
    file.write_text(texts.SQUARE)
    return slanglab.torch.load(file)


def test_the_forward_module(tmp_path, capsys):
    (tmp_path / "square.slang").write_text(texts.FORWARD_ONLY)
    m = slanglab.torch.load(tmp_path / "square.slang")
    x = torch.tensor([[0.1407, 0.6594], [-0.8978, -1.7230]])
    y = m.square_fwd(x)
    assert y.device.type == "cuda"
    assert torch.allclose(y.cpu(), torch.tensor([[0.0198, 0.4349], [0.8060, 2.9688]]), atol=1e-4)


def test_the_autograd_class(square):
    x = torch.tensor([[3.0, 4.0], [0.0, 1.0]], requires_grad=True, device="cuda")
    y_pred = texts.guides_function(square).apply(x)
    loss = y_pred.sum()
    loss.backward()
    assert x.grad.cpu().tolist() == [[6.0, 8.0], [0.0, 2.0]]


@pytest.mark.parametrize("place", ["cuda", "cpu"])
def test_the_pair(square, place):
    x = torch.tensor([[3.0, 4.0], [0.0, 1.0]], requires_grad=True, device=place)
    y = square.square(x)
    assert y.device.type == "cuda"
    y.sum().backward()
    assert x.grad.device.type == place
    assert x.grad.tolist() == [[6.0, 8.0], [0.0, 2.0]]


def test_a_cell(shell):
    said = shell.run(f"%%slang --torch square\n{texts.MENDED}")
    assert "not built" not in said.text
    shell.run(
        "import torch; x = torch.randn(70, 33, device='cuda', requires_grad=True); square.square(x).sum().backward()"
    )
    x = shell["x"]
    assert torch.allclose(x.grad, 2 * x.detach())
    failed = shell.run(f"%%slang --torch square\n{texts.MENDED.replace('x * x', 'x * y')}", fails=True)
    assert "still runs" in failed.text
    assert shell["square"].square_fwd(torch.full((1, 1), 3.0)).item() == 9.0


def test_too_large_a_block(square):
    with pytest.raises(SlangLabError) as raised:
        square.square_fwd(torch.ones(64, 64, device="cuda"))
    assert "1024 threads" in raised.value.hint


@pytest.mark.parametrize("place", ["cuda", "cpu"])
def test_kernels(tmp_path, rng, place):
    (tmp_path / "kernels.slang").write_text(texts.KERNELS)
    kernels = slanglab.torch.load(tmp_path / "kernels.slang")
    x = torch.tensor(rng.normal(size=40), dtype=torch.float32, device=place, requires_grad=True)
    y = torch.zeros(40, device=place)
    kernels.cube(input=x, output=y).launchRaw(**ONE)
    y.sum().backward()
    assert torch.allclose(y, x.detach() ** 3, rtol=1e-4, atol=1e-5)
    assert torch.allclose(x.grad, 3 * x.detach() ** 2, rtol=1e-3, atol=1e-4)
    z = torch.zeros(40, device=place)
    kernels.scale(input=x.detach(), output=z, s=(2.0, 1.0), v=(0.0, 0.5, 0.0)).launchRaw(**ONE)
    assert torch.allclose(z, 2 * x.detach() + 1.5, rtol=1e-5)
    kernels.scale(input=x.detach(), output=z, s={"by": 3.0, "plus": 0.0}, v=(0.0, 0.0, 0.0)).launchRaw(**ONE)
    assert torch.allclose(z, 3 * x.detach(), rtol=1e-5)


def test_two_results(tmp_path, rng):
    (tmp_path / "mixed.slang").write_text(texts.MIXED)
    mixed = slanglab.torch.load(tmp_path / "mixed.slang")
    a, b = (
        torch.tensor(rng.normal(size=77), dtype=torch.float32, device="cuda", requires_grad=True)
        for _ in "ab"
    )
    n = torch.arange(77, device="cuda")
    found, expected = mixed.mixed(a, b, n, 1.5), (a * a * b + 1.5 * b + n, a * b)
    seeds = [torch.randn(77, device="cuda") for _ in "ab"]
    for one, other in zip(
        torch.autograd.grad(found, (a, b), seeds), torch.autograd.grad(expected, (a, b), seeds), strict=True
    ):
        assert torch.allclose(one, other, rtol=1e-3, atol=1e-4)
