"""The guard: kernels that the compiler does not survive, workers that break, and what a notebook sees of it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import psutil
import pytest
import slangpy as spy
from deadly import DEADLY, call, good, salted, values
from faulty_worker import KINDS, POINTS
from notebook_kernel import NotebookKernel

import slanglab
from slanglab import children, guard
from slanglab.engine import building
from slanglab.guard import client, process, protocol
from slanglab.guard.verdicts import Verdicts
from slanglab.tensors import kernels

SECONDS = 3.0
"""That the compiler has for a kernel in these tests; one of the good ones takes some 50 ms."""


@pytest.fixture
def fresh(monkeypatch):
    """No guard from before, and none left behind."""
    guard.stop_all()
    monkeypatch.setattr(client, "_guards", {})
    monkeypatch.setattr(client, "_on", True)
    monkeypatch.setattr(guard.Guard, "seconds", SECONDS)
    control = slanglab.current().control
    before = control.policy
    control.change(check="off")  # which makes kernels of its own
    yield
    control.policy = before
    guard.stop_all()


@pytest.fixture
def faulty(fresh, monkeypatch, tmp_path):
    """Return what makes the next workers fail."""

    def fail(kind: str, point: str, count: int) -> None:
        log = tmp_path / f"{kind}-{point}"
        monkeypatch.setenv("SLANGLAB_TEST_FAULT", f"{kind}:{point}:{count}:{log}")
        monkeypatch.setattr(process, "_MODULE", "faulty_worker")

    return fail


def the_guard() -> guard.Guard:
    (found,) = client._guards.values()
    return found


def compiled(text: str, name: str = "guarded", **options: object) -> object:
    return slanglab.compile(text, name, **options)


def gradient(module, count: int = 5) -> np.ndarray:
    x = slanglab.tensor(np.arange(1, count + 1, dtype=np.float32), grad=True)
    r = slanglab.tensor(np.zeros(count, np.float32), grad=True)
    slanglab.assign(r.grad, 1.0)
    module.f.bwds(x, _result=r)
    return x.grad.to_numpy()


def check_good(count: int = 5) -> None:
    """Compile a new good kernel, run it, and compare with the derivative of factor·x²."""
    text, factor = good()
    found = gradient(compiled(text), count)
    np.testing.assert_allclose(found, 2 * factor * np.arange(1, count + 1), rtol=1e-5)


def statistics() -> tuple[int, int]:
    found = slanglab.current().device.shader_cache_stats
    return found.hit_count, found.miss_count


# ----- what the worker compiles is what the notebook runs -----


@pytest.mark.parametrize(
    ("count", "backward"),
    [(5, False), (5, True), (1 << 17, False), (1 << 17, True)],
    ids=["slangpy's, forward", "slangpy's, backward", "straight, forward", "straight, backward"],
)
def test_the_notebook_finds_what_the_worker_compiled(fresh, count, backward):
    text, factor = good()
    module = compiled(text)
    x = np.arange(1, count + 1, dtype=np.float32)
    slanglab.sync()
    hits, misses = statistics()
    if backward:
        np.testing.assert_allclose(gradient(module, count), 2 * factor * x, rtol=1e-5)
    else:
        np.testing.assert_allclose(module.f(slanglab.tensor(x), _result="numpy"), factor * x * x, rtol=1e-5)
    assert the_guard().compiled == 1
    assert the_guard().worker.misses >= 1  # it was in no cache before
    assert statistics()[1] == misses
    assert statistics()[0] > hits


SHAPES = """[Differentiable] float scaled(float x) { return x * FACTOR; }
interface IShape { float area(float x); }
struct Square : IShape { float side; float area(float x) { return side * x; } }
float area(float x) { IShape s = createDynamicObject<IShape, float>(0, FACTOR); return s.area(x); }
"""
USES = """import slangpy;
import shapes;
import doubles;
#include "part.slangh"
extern static const float SHIFT;
[Differentiable] float f(no_diff int i, IDiffTensor<float, 1> t) { return scaled(t[i]) + twice(t[i]) + PART * SCALE + SHIFT; }
float g(float x) { return area(x); }
"""


def test_imports_macros_constants_and_conformances_compile_to_the_same(fresh, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, factor = good()
    (tmp_path / "shapes.slang").write_text(SHAPES.replace("FACTOR", repr(factor)))
    (tmp_path / "part.slangh").write_text(f"static const float PART = {factor!r};\n")
    slanglab.compile(f"[Differentiable] float twice(float x) {{ return 2 * x * {factor!r}; }}", "doubles")
    module = slanglab.compile(USES, "uses", macros=["SCALE=3"], bounds=True)
    i = np.arange(1, 6)
    x = slanglab.tensor(i.astype(np.float32))
    # What SlangLab itself runs around a call with checked bounds is compiled without the guard, where the cache is cold.
    compiled(
        "import slangpy;\nfloat h(no_diff int i, IDiffTensor<float, 1> t) { return t[i]; }",
        "warm",
        bounds=True,
    ).h(spy.grid((5,)), x, _result="numpy")
    slanglab.sync()
    misses, before = statistics()[1], the_guard().compiled
    shifted = module.f.constants({"SHIFT": 1.5})
    np.testing.assert_allclose(
        shifted(spy.grid((5,)), x, _result="numpy"), factor * (3 * i + 3) + 1.5, rtol=1e-5
    )
    other = shifted.prelude(f"// {factor!r}")
    np.testing.assert_allclose(
        other(spy.grid((5,)), x, _result="numpy"), factor * (3 * i + 3) + 1.5, rtol=1e-5
    )
    square = module.g.constants({"SHIFT": 0.0}).type_conformances(
        [spy.TypeConformance("IShape", "Square", 0)]
    )
    np.testing.assert_allclose(square(x, _result="numpy"), factor * i, rtol=1e-5)
    assert the_guard().compiled - before == 3
    assert statistics()[1] == misses


@pytest.mark.parametrize("guarded", [True, False])
def test_kernels_of_its_own_are_compiled_elsewhere_where_an_interrupt_would_end_the_process(
    fresh, monkeypatch, guarded
):
    """As on CUDA, whose compiler exits when it is interrupted."""
    monkeypatch.setattr(kernels, "_compiler_ends_processes", lambda device: guarded)
    device = slanglab.current().device
    _, factor = good()
    text = f"""
[shader("compute")] [numthreads(4, 1, 1)]
void fill(uint3 at: SV_DispatchThreadID, RWStructuredBuffer<float> t) {{ t[at.x] = {factor!r} * at.x; }}
"""
    t = slanglab.zeros(4)
    slanglab.sync()
    misses = statistics()[1]
    kernels.load(device, f"slanglab/test-{factor!r}", text, "fill").dispatch(spy.uint3(4, 1, 1), t=t.storage)
    np.testing.assert_allclose(t.to_numpy(), factor * np.arange(4), rtol=1e-6)
    assert (statistics()[1] == misses) == guarded
    if guarded:
        assert the_guard().compiled == 1


def test_a_dispatched_kernel_and_one_that_is_appended_go_through_the_guard(fresh):
    _, factor = good()
    module = compiled(
        f"""import slangpy;
void fill(uint3 dispatchThreadID, RWTensor<float, 1> t) {{ t[dispatchThreadID.x] = {factor!r} * dispatchThreadID.x; }}
float f(float x) {{ return x * {factor!r}; }}
"""
    )
    x = slanglab.tensor(np.arange(1, 6, dtype=np.float32))
    out = slanglab.tensor(np.zeros(5, np.float32))
    slanglab.sync()
    misses = statistics()[1]
    module.fill.dispatch((5, 1, 1), t=out)
    np.testing.assert_allclose(out.to_numpy(), factor * np.arange(5), rtol=1e-5)
    encoder = slanglab.current().device.create_command_encoder()
    module.f.append_to(encoder, x, _result=out)
    slanglab.current().device.submit_command_buffer(encoder.finish())
    np.testing.assert_allclose(out.to_numpy(), factor * np.arange(1, 6), rtol=1e-5)
    assert the_guard().compiled == 2
    assert statistics()[1] == misses


def test_the_worker_gets_the_text_that_slangpy_compiles(fresh, monkeypatch):
    sent = []
    request = process.Worker.request
    monkeypatch.setattr(
        process.Worker, "request", lambda self, kernel, s: (sent.append(kernel), request(self, kernel, s))[1]
    )
    module = compiled(good()[0])
    x = slanglab.tensor(np.arange(1, 6, dtype=np.float32))
    module.f(x)
    (kernel,) = sent
    data = module.f.debug_build_call_data(x)
    assert kernel.source == data.code
    assert module.f.module.pipeline_cache[kernel.name] is data.pipeline


def test_a_session_that_was_replaced_is_let_go_of_and_the_next_works(fresh):
    check_good()
    worker = the_guard().worker
    cells = slanglab.current().cells

    def session():
        return cells.cell("guarded").good.program.session

    before, first = set(worker._sent), session()
    for _ in range(60):  # edits, until most of what is loaded is of no use any more
        check_good()
        if session() is not first:
            break
    assert session() is not first
    check_good()
    assert the_guard().worker is worker
    assert worker._sent.keys().isdisjoint(before)


def test_a_kernel_that_was_good_in_an_earlier_session_is_not_compiled_by_a_worker_again():
    text, factor = good()
    lines = [
        "import numpy as np, slanglab as sl",
        "from slanglab.guard import client",
        'sl.current().control.change(check="off")',
        f"m = sl.compile({text!r}, 'kept')",
        call("m", "(x,)", True),
        'print("compiled", *[g.compiled for g in client._guards.values()])',
    ]
    for compiled_there in (1, 0):
        done = subprocess.run(
            [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, timeout=120, check=True
        )
        np.testing.assert_allclose(values(done.stdout), 2 * factor * np.arange(1, 6), rtol=1e-5)
        assert done.stdout.splitlines()[-1] == f"compiled {compiled_there}"


def test_switched_off_there_is_no_worker(fresh):
    lab = slanglab.current()
    check_good()
    pid = the_guard().worker.child.pid
    try:
        lab.configure("guard", "off")
        assert the_guard().worker is None
        check_good()
        assert the_guard().compiled == 1
        wait_until(lambda: not psutil.pid_exists(pid))
    finally:
        lab.configure("guard", "on")
    lab.control.change(check="off")
    check_good()
    assert the_guard().compiled == 2


def wait_until(true, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


# ----- workers that break -----


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("kind", ["killed", "stopped", "garbage"])
def test_a_worker_that_breaks_once_is_replaced_and_nobody_notices(faulty, kind, point):
    faulty(kind, point, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_good()
        time.sleep(0.2)  # for the fault after the answer
        check_good()
    assert the_guard().workers == 2
    assert the_guard().off == ""
    assert the_guard().refused == 0


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"killed", "stopped", "garbage"}))
def test_an_answer_that_is_none_does_not_mislead(faulty, kind):
    faulty(kind, "answer", 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_good()
    assert the_guard().workers == 2
    assert the_guard().refused == 0


@pytest.mark.parametrize(
    ("kind", "point"), [("killed", "start"), ("garbage", "compile"), ("stopped", "modules")]
)
def test_a_worker_that_breaks_twice_is_done_without_after_one_warning(faulty, kind, point):
    faulty(kind, point, 100)
    with pytest.warns(guard.GuardWarning, match="without the guard"):
        check_good()
    assert the_guard().off
    with warnings.catch_warnings():
        warnings.simplefilter("error", guard.GuardWarning)
        check_good()
    assert the_guard().workers <= 3  # one may break before there is a kernel
    assert the_guard().worker is None


def test_the_guard_comes_back_when_workers_answer_again(faulty, monkeypatch):
    monkeypatch.setattr(client, "_PAUSE", 0.0)
    faulty("garbage", "compile", 2)
    with pytest.warns(guard.GuardWarning, match="until a worker answers again"):
        check_good()
    assert the_guard().compiled == 0
    check_good()  # starts a worker, and does not wait for it
    wait_until(lambda: the_guard().worker is not None and the_guard().worker.became_ready())
    check_good()
    assert the_guard().compiled == 1
    assert the_guard().off == ""


def test_a_worker_that_is_killed_twice_at_a_kernel_refuses_it(faulty):
    faulty("killed", "answer", 2)
    text, _ = good()
    module = compiled(text)
    with pytest.raises(guard.KernelRefusedError, match="killed twice"):
        gradient(module)
    check_good()


def test_a_worker_that_cannot_be_started_is_done_without(fresh, monkeypatch):
    def fail(*_):
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(children, "start", fail)
    with pytest.warns(guard.GuardWarning, match="no process can be started"):
        check_good()


def test_a_worker_of_another_device_is_not_believed(fresh, monkeypatch):
    device = guard.kernels.likeness.device
    monkeypatch.setattr(guard.kernels.likeness, "device", lambda of: {**device(of), "adapter": "another"})
    slanglab.current().cells.rebuild()
    try:
        with pytest.warns(guard.GuardWarning, match="another device"):
            check_good()
    finally:
        monkeypatch.undo()
        slanglab.current().cells.rebuild()


def test_a_worker_that_has_grown_is_replaced(fresh, monkeypatch):
    monkeypatch.setattr(client, "_MOST_KERNELS", 2)
    for _ in range(4):
        check_good()
    assert the_guard().workers == 3
    assert the_guard().compiled == 4


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_compile_that_takes_more_and_more_memory_is_ended_before_its_time(fresh, monkeypatch):
    check_good()
    text, _ = salted(DEADLY[0])
    module = compiled(text)
    x = slanglab.tensor(np.arange(1, 6, dtype=np.float32), grad=True)
    r = slanglab.tensor(np.zeros(5, np.float32), grad=True)
    with monkeypatch.context() as patch:
        patch.setattr(guard.Guard, "seconds", 300.0)
        patch.setattr(process, "_most_memory", lambda: 6)  # of which this one takes more in some seconds
        with pytest.raises(guard.KernelRefusedError, match="of memory after"):
            module.f.bwds(spy.grid((5,)), 3, x, _result=r)
    check_good()


READERS = """
import os, struct, sys
table = open(sys.argv[1], "rb").read()
pids = {struct.unpack_from("<I", table, at + 8)[0] for at in range(128, len(table), 64)} - {0}
print(*[p for p in pids if not os.path.exists(f"/proc/{p}")])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_workers_that_crash_do_not_fill_the_table_of_the_caches_readers(fresh):
    crash = next(case for case in DEADLY if case.kind == "crash")
    shaders = slanglab.current().device.desc.shader_cache_path
    dead = set()
    for _ in range(3):
        module = compiled(salted(crash)[0], "deadly")
        check_good()  # the worker looks into the cache, and is a reader of it
        dead.add(the_guard().worker.child.pid)
        with pytest.raises(guard.KernelRefusedError):
            gradient(module)
    check_good()
    # Another process looks: if this one closed the file, the locks that its device has on it would end.
    done = subprocess.run(
        [sys.executable, "-c", READERS, str(shaders / "rhi" / "lock.mdb")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert dead.isdisjoint(int(pid) for pid in done.stdout.split())


def test_two_threads_compile_at_the_same_time(fresh):
    modules = [
        (compiled(*named), factor)
        for named, factor in (((text, f"two{n}"), f) for n, (text, f) in enumerate(good() for _ in range(4)))
    ]
    wrong = []

    def work(module, factor):
        try:
            np.testing.assert_allclose(gradient(module), 2 * factor * np.arange(1, 6), rtol=1e-5)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=pair) for pair in modules]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert the_guard().compiled == 4


# ----- a real notebook -----


@pytest.fixture(scope="module")
def notebook():
    with NotebookKernel() as kernel:
        kernel.must(f"from slanglab import guard\nguard.Guard.seconds = {SECONDS}")
        yield kernel


@pytest.mark.parametrize("case", DEADLY, ids=[c.name for c in DEADLY])
def test_a_deadly_kernel_is_an_error_and_the_notebook_goes_on(notebook, case):
    text, factor = salted(case)
    notebook.must(f"m = sl.compile({text!r}, 'deadly')")
    forward = values(notebook.must(call("m", case.arguments, False)))
    np.testing.assert_allclose(forward, factor * np.array(case.forward), rtol=1e-5)
    out = notebook.run(call("m", case.arguments, True))
    assert out.error is not None
    assert out.error.name == "KernelRefusedError"
    assert "deadly.f" in out.error.text
    assert f"line {case.line}" in out.error.text
    assert "hint: " in out.error.text
    again = notebook.run(call("m", case.arguments, True))
    assert again.error is not None
    assert "as it did before" in again.error.text
    assert again.seconds < SECONDS / 2
    text, factor = good()
    notebook.must(f"m = sl.compile({text!r}, 'after')")
    np.testing.assert_allclose(
        values(notebook.must(call("m", "(x,)", True))), 2 * factor * np.arange(1, 6), rtol=1e-5
    )
    assert notebook.intact()


def test_interrupt_ends_a_hanging_compile_at_once(notebook):
    case = DEADLY[0]
    text, _ = salted(case)
    notebook.must(f"guard.Guard.seconds = 60.0\nm = sl.compile({text!r}, 'deadly')")
    try:
        out = notebook.run(call("m", case.arguments, True), interrupt_after=1.0)
        assert out.error is not None
        assert out.error.name == "KeyboardInterrupt"
        assert out.prompt is not None
        assert out.prompt < 0.5
        # It is not refused: what was interrupted may be tried again.
        again = notebook.run(call("m", case.arguments, True), interrupt_after=1.0)
        assert again.error is not None
        assert again.error.name == "KeyboardInterrupt"
        text, factor = good()
        notebook.must(f"m = sl.compile({text!r}, 'after')")
        np.testing.assert_allclose(
            values(notebook.must(call("m", "(x,)", True))), 2 * factor * np.arange(1, 6), rtol=1e-5
        )
        assert notebook.intact()
    finally:
        notebook.must(f"guard.Guard.seconds = {SECONDS}")


def test_interrupts_at_idle_do_not_reach_the_worker(notebook):
    text, _ = good()
    notebook.must(f"m = sl.compile({text!r}, 'after')")
    notebook.must(call("m", "(x,)", True))
    pid = notebook.must(
        "from slanglab.guard import client\n(g,) = client._guards.values()\nprint('pid', g.worker.child.pid)"
    )
    for _ in range(3):
        notebook.run("import time; time.sleep(5)", interrupt_after=0.2)
    text, _ = good()
    notebook.must(f"m = sl.compile({text!r}, 'after')")
    notebook.must(call("m", "(x,)", True))
    assert notebook.must("print('pid', g.worker.child.pid)") == pid


def test_a_fork_leaves_the_worker_alone(notebook):
    text, factor = good()
    notebook.must(f"m = sl.compile({text!r}, 'after')")
    notebook.must(call("m", "(x,)", True))
    before = notebook.must("print('pid', g.worker.child.pid)")
    status = notebook.must(
        "import os\nfrom slanglab import children\npid = os.fork()\nif pid == 0:\n    children._end_all()\n    os._exit(7)\n"
        "print('status', os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))"
    )
    assert "status 7" in status
    text, factor = good()
    notebook.must(f"m = sl.compile({text!r}, 'after')")
    np.testing.assert_allclose(
        values(notebook.must(call("m", "(x,)", True))), 2 * factor * np.arange(1, 6), rtol=1e-5
    )
    assert notebook.must("print('pid', g.worker.child.pid)") == before


@pytest.mark.parametrize("end", ["exit", "restart", "kill"])
def test_no_process_is_left_when_a_notebook_ends_while_its_worker_hangs(end):
    case = DEADLY[0]
    text, _ = salted(case)
    with NotebookKernel() as kernel:
        kernel.must(f"from slanglab import guard\nm = sl.compile({text!r}, 'deadly')")
        kernel.send(call("m", case.arguments, True))
        worker = wait_for_worker(kernel)
        if end == "exit":
            kernel.shutdown()
            assert kernel.left(1.0) == []
        elif end == "restart":
            kernel.restart()
            wait_until(
                lambda: (
                    kernel.left_by_restart() == []
                    or not any(p.is_running() for p in kernel.left_by_restart())
                ),
                1.0,
            )
            assert kernel.intact()
        else:
            os.kill(kernel.pid, 9)
            assert kernel.left(1.0) == []
        assert not psutil.pid_exists(worker) or psutil.Process(worker).status() == psutil.STATUS_ZOMBIE


def wait_for_worker(kernel: NotebookKernel) -> int:
    """Wait until the kernel's worker has been busy for a while, and return its process."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        for process_ in kernel.processes():
            if process_.pid != kernel.pid and process_.cpu_times().user > 1.5:
                return process_.pid
        time.sleep(0.1)
    raise AssertionError("no worker is at work")


# ----- child processes -----


def test_a_child_gets_the_listed_variables_only():
    given = {
        "PATH": "/bin",
        "HOME": "/home/a",
        "VK_DRIVER_FILES": "a.json",
        "CUDA_VISIBLE_DEVICES": "1",
        "SLANGLAB_CACHE": "/c",
        "LD_LIBRARY_PATH": "/lib",
        "XDG_CACHE_HOME": "/x",
        "LD_PRELOAD": "evil.so",
        "LD_AUDIT": "evil.so",
        "PYTHONSTARTUP": "evil.py",
        "PYTHONPATH": "/evil",
        "PYTHONINSPECT": "1",
        "AWS_SECRET_ACCESS_KEY": "s",
        "JPY_API_TOKEN": "t",
        "SLANGLAB_TOKEN": "t",
        "NVIDIA_API_KEY": "k",
        "SSH_AUTH_SOCK": "/s",
        "GITHUB_TOKEN": "t",
    }
    kept = set(children.environment(given))
    assert kept == {
        "PATH",
        "HOME",
        "VK_DRIVER_FILES",
        "CUDA_VISIBLE_DEVICES",
        "SLANGLAB_CACHE",
        "LD_LIBRARY_PATH",
        "XDG_CACHE_HOME",
    }


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_the_worker_has_a_private_folder_two_pipes_and_no_secret(fresh, monkeypatch, tmp_path):
    monkeypatch.setenv("MY_TOKEN", "hidden-value-of-a-token")
    monkeypatch.chdir(tmp_path)
    # Modules of these names in the notebook's folder must not run in the worker.
    for name in ("json", "slangpy", "numpy"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('taken from the folder of the notebook')")
    open_file = open(tmp_path / "data", "w")  # noqa: SIM115  (stays open on purpose)
    try:
        check_good()
        child = the_guard().worker.child
        root = Path(f"/proc/{child.pid}")
        assert root.joinpath("environ").read_bytes().find(b"hidden-value") < 0
        assert os.readlink(root / "cwd") == str(child.folder)
        assert child.folder.stat().st_mode & 0o777 == 0o700
        opened = [os.readlink(p) for p in (root / "fd").iterdir()]
        assert not any(str(tmp_path) in name for name in opened)
        assert not any(name.startswith("socket:") for name in opened)
    finally:
        open_file.close()
    folder = child.folder
    guard.stop_all()
    wait_until(lambda: not psutil.pid_exists(child.pid) and not folder.exists())


# ----- parts -----


@pytest.mark.parametrize(
    "data",
    [
        b"\x05",
        b"\x05\0\0\0{}",
        b"\xff\xff\xff\xff",
        b"\x02\0\0\0[]",
        b"\x03\0\0\0\xff\xfe\xfd",
        b"\x04\0\0\0nope",
    ],
)
def test_bytes_that_are_no_message_are_told(data):
    rest = bytearray(data)

    def take(count):
        part = bytes(rest[:count])
        del rest[:count]
        return part

    with pytest.raises(protocol.FrameError):
        protocol.read(take, 1 << 20)


def test_messages_go_and_come_whole():
    message = {"is": "done", "text": "ü\n" * 1000, "n": 3}
    rest = bytearray(protocol.pack(message) * 2)

    def take(count):
        part = bytes(rest[:count])
        del rest[:count]
        return part

    assert protocol.read(take, 1 << 20) == message
    assert protocol.read(take, 1 << 20) == message
    assert protocol.read(take, 1 << 20) is None


def test_good_kernels_are_remembered_and_lines_that_are_none_are_passed_over(tmp_path):
    file = tmp_path / "shaders" / "compiled"
    first, second = Verdicts(file), Verdicts(file)
    first.good("a" * 64)
    second.good("b" * 64)
    with file.open("a") as lines:
        lines.write("c" * 63 + "\n../../x\n" + "d" * 30)
    third = Verdicts(file)
    assert third.is_good("a" * 64)
    assert third.is_good("b" * 64)
    assert not third.is_good("c" * 63)
    third.bad("e" * 64, "hang: it")
    assert Verdicts(file).why_bad("e" * 64) is None


def test_the_file_of_good_kernels_stays_bounded(tmp_path):
    file = tmp_path / "compiled"
    file.write_text("".join(f"{n:064x}\n" for n in range(20_000)))
    assert Verdicts(file).is_good(f"{19_999:064x}")
    assert file.stat().st_size < 8192 * 65
    assert Verdicts(file).is_good(f"{19_999:064x}")
    assert not Verdicts(file).is_good(f"{0:064x}")


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="needs links")
def test_a_link_in_the_place_of_the_file_is_not_followed(tmp_path):
    target = tmp_path / "target"
    target.write_text("a" * 64 + "\n")
    (tmp_path / "compiled").symlink_to(target)
    verdicts = Verdicts(tmp_path / "compiled")
    assert not verdicts.is_good("a" * 64)
    verdicts.good("b" * 64)
    assert target.read_text() == "a" * 64 + "\n"


def test_slangpys_functions_are_put_back(fresh):
    originals = {(owner, name): theirs for owner, name, _, theirs in building._PLACES}
    building.uninstall()
    try:
        assert all(getattr(owner, name) is theirs for (owner, name), theirs in originals.items())
    finally:
        building.install()
