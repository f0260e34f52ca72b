"""The worker engine in a real kernel: what ends its process, or never ends, leaves Python's state as it was."""

import os
import signal
import sys
import time
from pathlib import Path

import nbformat
import pytest
import worker_engine
from nbclient import NotebookClient
from notebook_kernel import NotebookKernel
from worker_engine import CELL


@pytest.fixture
def kernel(tmp_path):
    with worker_engine.started(tmp_path) as kernel:
        yield kernel


def computes(kernel):
    return not worker_engine.computes(kernel)


@pytest.mark.skipif(
    sys.platform != "linux" or os.environ.get("SLANGLAB_DEVICE", "vulkan") != "vulkan",
    reason="what a write outside does is the driver's affair; CUDA's compiler refuses the cell",
)
def test_a_write_outside_the_group_shared_memory_costs_the_tensors_alone(kernel):
    for _ in range(2):
        # Where memory begins behind the group's own is not for us to say: one of these is outside of all that is mapped.
        out = kernel.run(
            "for at in (10**8, 2 * 10**8, 3 * 10**8, 4 * 10**8, 5 * 10**8, -(10**8), -5 * 10**8):\n"
            "    k.outside([0, 1, 2, 3], at, others[0]); others[0].to_numpy()"
        )
        if out.error is None and "llvmpipe" not in kernel.must("%slang"):
            pytest.skip("this driver lets such a write come to nothing")
        assert out.error is not None
        assert out.error.name == "DeviceGoneError"
        assert "SIGSEGV" in out.error.text
        assert "k.outside" in out.error.text
        assert "others[0]" in out.error.text
        assert kernel.intact()
        assert kernel.run("t.to_numpy()").error.name == "DeviceGoneError"
        assert computes(kernel)
        kernel.must("t = sl.tensor([1.0, 2.0], grad=True); others = [sl.zeros(4)]")
    assert (
        kernel.must("k.outside([0, 1, 2, 3], 0, others[0]); print(others[0].to_numpy())")
        .strip()
        .endswith("[1. 2. 3. 0.]")
    )


def test_an_endless_kernel_is_interrupted_and_given_up(kernel):
    for _ in range(2):
        out = kernel.run("k.endless(1.0, others[0]); others[0].to_numpy()", interrupt_after=1.0, timeout=20)
        assert out.error is not None
        assert out.error.name == "KeyboardInterrupt"
        assert "k.endless" in out.error.text
        assert out.prompt is not None
        assert out.prompt < 0.5
        assert kernel.intact()
        out = kernel.run("t.to_numpy()", interrupt_after=0.5, timeout=20)
        assert "still" in out.error.text
        assert out.prompt < 0.5
        text = kernel.must("%slang reset")
        assert "others[0]" in text
        assert computes(kernel)
        kernel.must("t = sl.tensor([1.0, 2.0], grad=True); others = [sl.zeros(4)]")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSEGV])
def test_a_worker_that_is_killed_while_idle_is_replaced(kernel, how):
    pid = int(kernel.must("from slanglab import remote; print(remote.active().engine.pid)"))
    os.kill(pid, how)
    time.sleep(0.3)
    out = kernel.run("k.square(2.0)")
    assert "4.0" in out.text
    assert "Gone with it: t, others[0]." in out.text
    assert kernel.intact()
    assert kernel.run("t.to_numpy()").error.name == "DeviceGoneError"
    assert computes(kernel)


def test_a_stopped_worker_can_be_interrupted_and_given_up(kernel):
    pid = int(kernel.must("from slanglab import remote; print(remote.active().engine.pid)"))
    os.kill(pid, signal.SIGSTOP)
    out = kernel.run("t.to_numpy()", interrupt_after=0.5, timeout=20)
    assert out.error.name == "KeyboardInterrupt"
    assert out.prompt < 0.5
    kernel.must("%slang reset")
    assert computes(kernel)


def test_a_forked_process_is_refused_and_leaves_the_worker_alone(kernel):
    text = kernel.must(
        "import os\n"
        "r, w = os.pipe()\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    try:\n"
        "        t.to_numpy(); said = 'nothing'\n"
        "    except BaseException as error:\n"
        "        said = str(error)\n"
        "    os.write(w, said.encode()); os._exit(0)\n"
        "os.waitpid(pid, 0)\n"
        "print(os.read(r, 1000).decode())\n"
    )
    assert "fork" in text
    assert kernel.must("print(t.to_numpy())").strip() == "[1. 2.]"


@pytest.mark.parametrize("busy", ["idle", "endless"])
@pytest.mark.parametrize("end", ["exit", "restart"])
def test_the_end_of_a_kernel_leaves_no_process(kernel, end, busy):
    if busy == "endless":
        kernel.send("k.endless(1.0, others[0]); others[0].to_numpy()")
        time.sleep(1)
    if end == "exit":
        seconds = kernel.shutdown()
        assert kernel.left() == []
    else:
        seconds = kernel.restart()
        assert not any(p.is_running() and p.status() != "zombie" for p in kernel.left_by_restart())
    assert seconds < 1


def test_switching_takes_the_cells_along(tmp_path):
    with NotebookKernel({"SLANGLAB_CONFIG": str(tmp_path / "config")}) as kernel:
        kernel.must(CELL)
        kernel.must("%slang config engine worker")
        kernel.must("%%slang user\nimport k;\nfloat fourth(float x) { return square(square(x)); }")
        assert "16.0" in kernel.must("user.fourth(2.0)")
        assert kernel.run("user.fourth(k.square)").error is not None
        kernel.must("%slang config engine notebook")
        kernel.must(CELL)
        assert "4.0" in kernel.must("k.square(2.0)")


def test_the_first_notebook_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("SLANGLAB_CONFIG", str(tmp_path / "config"))
    path = Path(__file__).parents[2] / "notebooks" / "01-first-cell.ipynb"
    notebook = nbformat.read(path, as_version=4)
    first = next(cell for cell in notebook.cells if cell.cell_type == "code")
    first.source += "\n%slang config engine worker"
    client = NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    client.execute()
    shown = [
        output
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type in ("execute_result", "display_data")
    ]
    assert sum("image/png" in output.data for output in shown) >= 3  # two tensors and a plot
    assert not [
        output.text
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type == "stream" and output.name == "stderr"
    ]
