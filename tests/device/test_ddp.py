"""Several processes: what `slanglab.torch.launch` sends, shows, returns and leaves behind, and training that is split among them."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

torch = pytest.importorskip("torch", reason="torch is an extra")
distributed = pytest.importorskip("torch.distributed", reason="this PyTorch has no torch.distributed")
if not (distributed.is_available() and distributed.is_gloo_available()):
    pytest.skip("this PyTorch has no Gloo", allow_module_level=True)

import slanglab as sl  # noqa: E402
from slanglab.errors import ArgumentError, DeviceError, SlangLabError  # noqa: E402
from slanglab.private import PREFIX, PrivateFolder  # noqa: E402
from slanglab.torch import Module, RankError, launch, launching, local_device, ranks, results, travel  # noqa: E402

NETWORK = """
[Differentiable] float first(no_diff float2 x, float2 w, float b) { return tanh(dot(x, w) + b); }

[Differentiable] float sum16(float x[16], float w[16], float b)
{
    float sum = b;
    [ForceUnroll] for (int k = 0; k < 16; ++k) sum += w[k] * x[k];
    return sum;
}

[Differentiable] float hidden(float x[16], float w[16], float b) { return tanh(sum16(x, w, b)); }

[Differentiable] float error(float score, no_diff float label)
{
    float wrong = -label * score;
    return max(wrong, 0.0) + log(1.0 + exp(-abs(wrong)));
}
"""

SPLATS = """
import slangpy;

[Differentiable]
float3 render(no_diff float2 at, IDiffTensor<float2, 1> position, IDiffTensor<float3, 1> colour,
    IDiffTensor<float, 1> size, float3 background)
{
    float3 light = background;
    [MaxIters(48)]
    for (int i = 0; i < 48; ++i)
    {
        float2 away = (at - position[i]) * exp(-size[i]);
        light += colour[i] * exp(-0.5 * dot(away, away));
    }
    return 1.0 / (1.0 + exp(-light));
}
"""

STEPS = 30


@pytest.fixture(scope="module")
def network(device):
    return sl.compile(NETWORK, "ddp_network")


@pytest.fixture(scope="module")
def splats(device):
    return sl.compile(SPLATS, "ddp_splats")


@pytest.fixture(autouse=True)
def _no_leftovers():
    """Whatever happens in a test, no process and no folder of a launch is left."""
    before = {p.pid for p in psutil.Process().children(recursive=True)}
    folders = _folders()
    yield
    until = time.monotonic() + 20
    while time.monotonic() < until:
        left = [
            p
            for p in psutil.Process().children(recursive=True)
            if p.pid not in before and any("slanglab.torch.rank" in part for part in _command(p))
        ]
        if not left and not _folders() - folders:
            return
        time.sleep(0.05)
    raise AssertionError(f"left behind: {left}, {_folders() - folders}")


def _command(process):
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _folders():
    names = (f"{PREFIX}launch-",)
    return {e.name for e in os.scandir(tempfile.gettempdir()) if e.name.startswith(names)}


# ----- training -----


class Network(torch.nn.Module):
    """The network of the course's notebook 06, its layers in Slang; tanh, as a kink makes a step of a rounding."""

    def __init__(self, net, values):
        super().__init__()
        self.one = Module(net.first, w=values["w1"], b=values["b1"])
        self.two = Module(net.hidden, w=values["w2"], b=values["b2"])
        self.three = Module(net.sum16, w=values["w3"], b=values["b3"])

    def forward(self, x):
        h = self.one(x[:, None])
        return self.three(self.two(h[:, None])[:, None])


def start(seed):
    rng = np.random.default_rng(seed)
    values = {}
    for layer, (inputs, units) in enumerate([(2, 16), (16, 16), (16, 1)], start=1):
        values[f"w{layer}"] = rng.normal(0, np.sqrt(2 / inputs), (units, inputs)).astype(np.float32)
        values[f"b{layer}"] = rng.uniform(-0.5, 0.5, units).astype(np.float32)
    return values


def spirals(seed):
    rng = np.random.default_rng(seed)
    turn = 2.0 * np.pi * 0.95 * np.sqrt(rng.uniform(0.02, 1, 64))
    arm = 0.15 * turn[:, None] * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    points = np.concatenate([arm, -arm]).astype(np.float32)
    return torch.from_numpy(points), torch.from_numpy(np.repeat([1.0, -1.0], 64).astype(np.float32)[:, None])


def descent(model, rate):
    """Gradient descent; not Adam, which divides by a gradient's size and makes a step of the rounding of one that has cancelled."""
    return torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)


def train(model, loss_of, rank, count, optimizer):
    """Train; return the losses over all ranks' data, and the parameters."""
    if count > 1:
        model = torch.nn.parallel.DistributedDataParallel(model)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        optimizer.step()
        whole = loss.detach().clone()
        if count > 1:
            distributed.all_reduce(whole)
        losses.append(float(whole) / count)
    return {
        "losses": np.array(losses),
        "state": {k.removeprefix("module."): v for k, v in model.state_dict().items()},
    }


def train_network(rank, net, count, seed, where):
    model = Network(net, start(seed)).to(where)
    points, labels = spirals(seed)
    x, y = points[rank::count].to(where), labels[rank::count].to(where)
    optimizer = descent(model, 0.2)
    return train(model, lambda m: net.error(m(x), y).mean(), rank, count, optimizer)


def waves(side):
    """Return the places of a picture, and its colours there."""
    axis = (np.arange(side) + 0.5) / side
    at = np.stack(np.meshgrid(axis, axis), axis=-1).astype(np.float32)
    return at, 0.5 + 0.4 * np.cos(9 * at[..., :1] + 5 * at[..., 1:] + np.array([0.0, 2.1, 4.2]))


def gaussians(splats, seed):
    """Return 48 gaussians at random places."""
    rng = np.random.default_rng(seed)
    return Module(
        splats.render,
        position=rng.uniform(0.1, 0.9, (48, 2)).astype(np.float32),
        colour=np.full((48, 3), 0.3, np.float32),
        size=np.full(48, np.log(0.07), np.float32),
        background=np.full(3, -2.0, np.float32),
    )


def train_splats(rank, splats, count, seed, where):
    at, picture = waves(32)
    model = gaussians(splats, seed).to(where)
    places, wanted = (torch.from_numpy(a.astype(np.float32))[rank::count].to(where) for a in (at, picture))
    optimizer = descent(model, 0.5)
    return train(model, lambda m: ((m(places) - wanted) ** 2).mean(), rank, count, optimizer)


@pytest.mark.parametrize(
    "backend",
    [
        "gloo",
        pytest.param(
            "nccl",
            marks=pytest.mark.skipif(
                not distributed.is_nccl_available() or torch.cuda.device_count() < 2,
                reason="NCCL needs a GPU for each process",
            ),
        ),
    ],
)
@pytest.mark.parametrize("case", ["network", "splats"])
def test_two_processes_learn_what_one_does(case, backend, request, seed):
    slang = request.getfixturevalue(case)
    trained = {"network": train_network, "splats": train_splats}[case]
    where = "cuda" if backend == "nccl" else "cpu"
    one = trained(0, slang, 1, seed, where)
    two = launch(trained, 2, slang, 2, seed, where, backend=backend)
    assert one["losses"][-1] < 0.8 * one["losses"][0]
    np.testing.assert_allclose(two["losses"], one["losses"], rtol=0, atol=1e-5)
    assert set(two["state"]) == set(one["state"])
    for name, value in one["state"].items():
        torch.testing.assert_close(two["state"][name], value.cpu(), rtol=0, atol=2e-5)


# ----- what goes there and comes back -----


def tell(rank, *args):
    return {"rank": rank, "world": distributed.get_world_size(), "args": args}


def test_results_of_rank_0_come_back(device):
    values = [1, 2.5, "three", None, True, b"bytes", (1, [2, {3}]), {"a": {"b": 1}}]
    found = launch(tell, 2, values, backend="gloo")
    assert found == {"rank": 0, "world": 2, "args": (values,)}
    array = np.arange(6.0).reshape(2, 3)
    t = sl.tensor([[1.0, 2.0, 3.0]], dtype="float3", grad=True)
    sl.assign(t.grad, 7.0)
    found = launch(read, 1, array, torch.eye(2), t, backend="gloo")
    assert np.array_equal(found[0], 2 * array)
    assert found[0].dtype == array.dtype
    assert torch.equal(found[1], 2 * torch.eye(2))
    assert np.array_equal(found[2], [[1, 2, 3]])
    assert np.array_equal(found[3], [[7, 7, 7]])
    assert found[4] == np.float32(2.5)


def read(rank, array, tensor, t):
    return array * 2, tensor * 2, t, t.grad, np.float32(2.5)


def test_what_is_printed_is_shown_with_its_rank(device, capfd):
    launch(speak, 2, backend="gloo")
    out, err = capfd.readouterr()
    for rank in range(2):
        assert f"[rank {rank}] to out {rank}\n" in out
        assert f"[rank {rank}] from C {rank}\n" in out
        assert f"[rank {rank}] to err {rank}\n" in err
        assert f"[rank {rank}] without an end {rank}" in out


def speak(rank):
    print(f"to out {rank}")
    os.write(1, f"from C {rank}\n".encode())
    print(f"to err {rank}", file=sys.stderr)
    print(f"without an end {rank}", end="")


NOTEBOOK = """
import torch
import torch.nn as nn
import torch.distributed as dist
import slanglab as sl

GAIN = 3.0
calls = 0

class Base(nn.Module):
    kind = "base"

    @property
    def gain(self):
        return GAIN

    @staticmethod
    def double(x):
        return 2 * x

class Scaled(Base):
    def __init__(self, w):
        super().__init__()
        self.layer = sl.torch.Module(nb_f, a=w)

    def forward(self, x):
        return self.double(self.layer(x)) * self.gain

def count():
    global calls
    calls += 1
    return calls

def recursive(n):
    return 1 if n == 0 else n * recursive(n - 1)

def closing(k):
    def inner(x, *, more=1):
        return x * k + more
    return inner

times = closing(5)

def work(rank, model):
    count()
    x = torch.arange(3.0)
    y = model(x)
    dist.all_reduce(y)
    z = nb_mod.g(x, 1.0)
    return y.detach(), z, count(), recursive(4), times(2), times(2, more=0), torch.nn.functional.relu(-x).sum(), Base.kind
"""


def test_a_function_of_a_notebook_takes_all_it_uses_along(shell, monkeypatch):
    """Cells that import each other, one without a name, classes, closures, globals that are written."""
    shell.run("import slanglab.torch")
    shell.run("%%slang nb_base\nfloat cube(float x) { return x * x * x; }")
    shell.run("%%slang nb_mod\nimport nb_base;\nfloat g(float x, float y) { return cube(x) + y; }")
    shell.run("%%slang\n[Differentiable] float nb_f(float x, float a) { return a * x; }")
    shell.run(NOTEBOOK)
    shell.run("model = Scaled(torch.tensor(2.0))")
    shell.run("found = sl.torch.launch(work, 2, model, backend='gloo')")
    y, z, counted, factorial, first, second, zero, kind = shell["found"]
    assert y.tolist() == [0, 24, 48]
    assert z.tolist() == [1, 2, 9]
    assert (counted, factorial, first, second, float(zero), kind) == (2, 24, 11, 10, 0.0, "base")
    assert shell["calls"] == 0


def test_what_cannot_be_sent_is_named(device, network):
    lock = threading.Lock()
    unused = threading.Lock()

    def closes(rank):
        return lock

    def fine(rank):
        unused_attribute = type("T", (), {"unused": 3})
        return unused_attribute.unused

    with pytest.raises(travel.TravelError, match="closes cannot be launched: `lock`, which it closes over"):
        launch(closes, 2)
    with pytest.raises(travel.TravelError, match="argument 2 is a lock"):
        launch(tell, 2, 1, unused)
    with pytest.raises(travel.TravelError, match=r"argument 1: a slangpy\.Device belongs to this process"):
        launch(tell, 2, device)
    assert launch(fine, 1, backend="gloo") == 3
    namespace = {"__name__": "__main__", "lock": lock}
    exec("def g(rank):\n    return lock", namespace)
    with pytest.raises(travel.TravelError, match="its global `lock` is a lock"):
        launch(namespace["g"], 2)


def test_functions_with_modifiers_and_structs_travel(device):
    m = sl.compile(
        "struct P { float a; float b; };\nfloat sum(P p) { return p.a + p.b; }\n"
        "float lift(float x, float by) { return x + by; }",
        "ddp_modifiers",
    )
    found = launch(modified, 1, m.lift.map((1,), (0,)), m.sum, m.P, backend="gloo")
    assert np.array_equal(found[0], np.add.outer([10.0, 20.0], [1.0, 2.0, 3.0]))
    assert found[1:] == (7.0, "P")


def modified(rank, lift, sum_of, kind):
    table = lift(np.array([1.0, 2.0, 3.0]), np.array([10.0, 20.0]), _result="numpy")
    return table, float(sum_of({"a": 3.0, "b": 4.0})), kind.name


def test_results_that_cannot_come_back_are_named():
    for value, why in (
        ([1, {"a": object()}], r"the result\[1\]\['a'\] is a object"),
        (torch.nn.Linear(1, 1), "a module, which stays"),
        (np.array(["text"]), "an array of <U4"),
    ):
        with pytest.raises(results.ResultError, match=why):
            results.dump(value)
    loop = []
    loop.append(loop)
    with pytest.raises(results.ResultError, match="holds itself"):
        results.dump(loop)
    view = torch.zeros(1000, 1000)[0, :3]
    assert len(results.dump(view)) < 10_000


def test_arguments_are_checked(device):
    with pytest.raises(ArgumentError, match="not callable"):
        launch(3, 2)
    for count in (0, -1, 2.0, True):
        with pytest.raises(ArgumentError, match="nprocs"):
            launch(tell, count)
    with pytest.raises(ArgumentError, match="no backend is called 'mpi'"):
        launch(tell, 2, backend="mpi")
    if not torch.cuda.is_available():
        with pytest.raises(ArgumentError, match="NCCL needs a GPU for each process"):
            launch(tell, 2, backend="nccl")


def test_cells_of_the_worker_engine_stay_there(device, monkeypatch):
    monkeypatch.setattr(launching.elsewhere, "is_sent", lambda: True)
    with pytest.raises(SlangLabError, match="they are in the worker"):
        launch(tell, 2)


# ----- how it ends -----


def fail(rank):
    if rank == 1:
        raise ValueError(f"rank {rank} has had enough")
    distributed.barrier()


def test_an_exception_of_any_rank_ends_all(device):
    with pytest.raises(RankError, match="rank 1 raised ValueError: rank 1 has had enough") as caught:
        launch(fail, 2, backend="gloo")
    assert (caught.value.rank, caught.value.kind) == (1, "ValueError")
    assert 'raise ValueError(f"rank {rank} has had enough")' in caught.value.traceback
    assert "slanglab/torch" not in caught.value.traceback


def die(rank):
    if rank == 0:
        print("my last words", flush=True)
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(600)


def test_a_process_that_dies_ends_all(device):
    with pytest.raises(RankError, match=r"the process of rank 0 was ended by SIGKILL(.|\n)*my last words"):
        launch(die, 2, backend="gloo")


def leave(rank):
    sys.exit(0 if rank == 0 else 3)


def test_leaving_early(device):
    with pytest.raises(RankError, match="rank 1 raised SystemExit: 3"):
        launch(leave, 2, backend="gloo")
    assert launch(leave, 1, backend="gloo") is None


def sleep(rank):
    print("asleep", flush=True)
    time.sleep(600)


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to oneself")
@pytest.mark.parametrize("seconds", [0.05, None])
def test_interrupt_ends_all(device, capfd, seconds, monkeypatch):
    """While the processes start, and while they run."""
    if seconds is None:
        shown = launching._Ranks._print

        def told(self, rank, stream, text):
            shown(self, rank, stream, text)
            os.kill(os.getpid(), signal.SIGINT)

        monkeypatch.setattr(launching._Ranks, "_print", told)
    else:
        threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        launch(sleep, 2, backend="gloo")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a child notices the end of its input")
def test_processes_die_with_their_parent(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(
        textwrap.dedent("""
        import time, os
        import slanglab.torch

        def work(rank):
            print("pid", os.getpid(), flush=True)
            time.sleep(600)

        if __name__ == "__main__":
            slanglab.torch.launch(work, 2, backend="gloo")
        """)
    )
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as parent:
        pids = [int(re.search(r"pid (\d+)", parent.stdout.readline())[1]) for _ in range(2)]
        parent.kill()
    until = time.monotonic() + 20
    while any(psutil.pid_exists(pid) for pid in pids) and time.monotonic() < until:
        time.sleep(0.05)
    assert not [pid for pid in pids if psutil.pid_exists(pid)]
    time.sleep(1.1)  # so old is a folder that nobody holds before the next one that is made takes it away
    PrivateFolder("after").remove()


# ----- the plot -----


def descend(rank, count, spoil=False):
    for i in (run := sl.steps(count, name="descent")):
        time.sleep(0.001)
        run.log(float("nan") if spoil and i == 5 else 1.0 / (i + 1))
    return run.done


def test_losses_of_rank_0_are_drawn_here(device):
    assert launch(descend, 2, 300, backend="gloo") == 300
    run = sl.last_training()
    assert (run.name, run.total, run.done, run.stopped) == ("descent", 300, 300, "done")
    np.testing.assert_allclose(run.history["loss"], 1.0 / np.arange(1, 301))


def test_a_run_that_ends_in_nan_is_drawn_to_its_end(device):
    launch(descend, 1, 300, True, backend="gloo")
    run = sl.last_training()
    assert run.stopped == "nan"
    assert len(run.history["loss"]) == 6


def test_without_a_plot(device):
    before = sl.last_training()
    assert launch(descend, 1, 10, backend="gloo", plot=False) == 10
    assert sl.last_training() is before


def test_stop_in_the_plot_ends_all(device, monkeypatch):
    own = sl.steps

    def steps(*args, **kwargs):
        run = own(*args, **kwargs)
        log = run.log

        def logged(loss):
            log(loss)
            if run.done == 20:
                run.stop()

        run.log = logged
        return run

    monkeypatch.setattr(sl, "steps", steps)
    assert launch(descend, 2, 1_000_000, backend="gloo") is None
    assert sl.last_training().stopped == "stopped"


# ----- torchrun -----


@pytest.mark.skipif(sys.platform == "win32", reason="torchrun needs libuv there")
@pytest.mark.skipif(torch.cuda.device_count() == 1, reason="two processes with NCCL need two GPUs")
def test_a_script_under_torchrun(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        import torch
        import torch.distributed as dist
        import slanglab as sl
        import slanglab.torch

        device = sl.torch.local_device()
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
        m = sl.compile("[Differentiable] float f(float x, float a) { return a * x; }", "line")
        torch.manual_seed(0)
        model = torch.nn.parallel.DistributedDataParallel(sl.torch.Module(m.f, a=torch.tensor(0.0)).to(device))
        x = torch.arange(8.0, device=device)[dist.get_rank()::2]
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for _ in range(40):
            optimizer.zero_grad()
            ((model(x) - 3 * x) ** 2).mean().backward()
            optimizer.step()
        print(f"rank {dist.get_rank()}: {model.module.a.item():.3f}", flush=True)
        dist.destroy_process_group()
        """)
    )
    names = {k: v for k, v in os.environ.items() if k != "SLANGLAB_LOCAL_GPU"}
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", script],
        capture_output=True,
        text=True,
        env={**names, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "rank 0: 3.000" in done.stdout
    assert "rank 1: 3.000" in done.stdout


def test_each_rank_sees_its_own_gpu():
    for before, rank, after in (("", 2, "2"), ("4,5,7", 1, "5"), ("GPU-a, GPU-b", 1, "GPU-b")):
        variables = {"CUDA_VISIBLE_DEVICES": before}
        ranks.show_one_gpu(rank, variables)
        assert variables["CUDA_VISIBLE_DEVICES"] == after
    with pytest.raises(DeviceError, match="process 2 of this machine has no GPU"):
        ranks.show_one_gpu(2, {"CUDA_VISIBLE_DEVICES": "0,1"})
    if not torch.cuda.is_available():
        assert local_device() == torch.device("cpu")


def test_what_the_processes_find_in_their_environment(monkeypatch):
    monkeypatch.setenv("NCCL_DEBUG", "WARN")
    monkeypatch.setenv("TORCH_API_KEY", "secret")
    monkeypatch.setenv("SOME_TOKEN", "secret")
    found = launching._variables(1, 4, "vulkan")
    assert found["NCCL_DEBUG"] == "WARN"
    assert "secret" not in found.values()
    assert {found["RANK"], found["LOCAL_RANK"]} == {"1"}
    assert {found["WORLD_SIZE"], found["LOCAL_WORLD_SIZE"]} == {"4"}
    assert found["SLANGLAB_DEVICE"] == "vulkan"
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth7")
    assert launching._variables(0, 1, None)["GLOO_SOCKET_IFNAME"] == "eth7"


def test_torch_is_not_imported_by_slanglab():
    code = "import sys, slanglab, slanglab.torch; assert 'torch' not in sys.modules, 'torch'"
    subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        cwd=Path(tempfile.gettempdir()),
    )
