import contextlib

import pytest
from optim_ways import WAYS
from shell import Shell
from tensor_checks import LEAST, flushes

import slanglab
from slanglab.engine.plans import adds_halves
from slanglab.memory import give_back
from slanglab.optim import clipping, steps


@pytest.fixture(scope="session", autouse=True)
def _own_settings(tmp_path_factory):
    """Keep the settings of whoever runs the tests out of them; the caches are shared, since they only save time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLANGLAB_CONFIG", str(tmp_path_factory.mktemp("config")))
        yield


@pytest.fixture(scope="session")
def device(_own_settings):
    """The lab's device: one for all tests, as a kernel has one. Beside torch with CUDA it shares torch's context or memory."""
    with contextlib.suppress(ImportError):
        import torch

        if torch.cuda.is_available():
            torch.cuda.init()
    return slanglab.current().device


@pytest.fixture(scope="module", autouse=True)
def _cells_end_with_their_file():
    """Forget the cells of a file when its tests are done: a Slang session keeps a few MB for each, and for each kernel."""
    yield
    lab = slanglab.current()
    for cell in lab.cells.cells():
        lab.cells.forget(cell.key)
    give_back()


@pytest.fixture
def shell(device):
    """An IPython shell with the extension loaded, and none of the cells of other tests."""
    lab = slanglab.current()
    for cell in lab.cells.cells():
        lab.cells.forget(cell.key)
    shell = Shell()
    yield shell
    shell.close()


@pytest.fixture
def adding_halves(device):
    """For tests in which slangpy's kernels add to halves."""
    if not adds_halves(device):
        pytest.skip("NVIDIA's Vulkan driver does not take slangpy's kernels for gradients of halves")


@pytest.fixture
def control(device):
    """The lab's control, whose policy is put back."""
    control = slanglab.current().control
    before = control.policy
    yield control
    control.policy = before


@pytest.fixture(scope="session")
def subnormals(device):
    """Expect zeros for subnormal numbers where the device makes zeros of them."""
    if flushes(device):
        LEAST["single"] = 2.0**-126


@pytest.fixture(params=WAYS)
def through(request, monkeypatch, device):
    """Every way through the tensors: this device's, that of CUDA, and that of backends without device addresses."""
    if WAYS[request.param] is not None:
        for module in (steps, clipping):
            monkeypatch.setattr(module, "way", lambda _: WAYS[request.param])
    return request.param
