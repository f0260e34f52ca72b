"""`%%slang --torch` without CUDA: what it says, the code that it shows, versions, imports, and the build's end in an error."""

import os
import re
import subprocess
import sys
import time

import pytest
import torch_texts as texts

import slanglab
from slanglab.errors import SlangLabError
from slanglab.torch.entry_points import machine
from slanglab.torch.entry_points.machine import Missing
from slanglab.torch.entry_points.session import TorchCells

LACKING = (Missing("there is no CUDA", "buy a GPU"),)


@pytest.fixture(autouse=True)
def _no_cuda(monkeypatch):
    """Without CUDA, wherever the tests run, and without the import of PyTorch that asking takes."""
    monkeypatch.setattr(machine, "missing", lambda: LACKING)
    monkeypatch.setattr(machine, "versions", lambda: {"for": "tests"})
    lab = slanglab.current()
    monkeypatch.setattr(lab, "torch_cells", TorchCells(lab.roots, lab.cells.cell))


def torch_cell(shell, text, name="", **kwargs):
    return shell.run(f"%%slang --torch {name}\n{text}", **kwargs)


def test_the_seed_compiles_and_says_what_is_missing(shell):
    said = torch_cell(shell, texts.SQUARE, "square").text
    assert "not built: there is no CUDA" in said
    assert "buy a GPU" in said
    assert dir(shell["square"]) == ["square", "square_bwd", "square_fwd"]
    assert "as one function in torch's autograd graph" in said


def test_the_forward_module_of_the_seed_has_no_gradient(shell):
    torch_cell(shell, texts.FORWARD_ONLY, "square")
    assert dir(shell["square"]) == ["square_fwd"]
    failed = shell.run("square.square", fails=True)
    assert "write [TorchEntryPoint]" in str(failed.error)


def test_a_call_says_what_is_missing(shell):
    torch_cell(shell, texts.SQUARE, "square")
    for call in ("square.square_fwd(1)", "square.square(x=1)"):
        error = shell.run(call, fails=True).error
        assert "there is no CUDA" in str(error)
        assert "buy a GPU" in str(error)


def test_the_code_view_shows_the_cuda(shell):
    torch_cell(shell, texts.SQUARE, "square")
    shown = shell.run("%slang code square")
    assert "__global__ void square_fwd_kernel(TensorView" in shown.text
    assert "PYBIND11_MODULE" in shown.text
    assert "#line" not in shown.text
    assert len(shown.text.split("\n")) < 300  # without what is the same for every cell
    assert "TensorView&lt;" in shown.html or "load&lt;float&gt;" in shown.html
    assert "<script" not in shown.html
    found = slanglab.torch.generated(shell["square"])
    assert "__global__ void square_bwd_kernel" in found.kernels
    assert set(found.offered) == {"square_fwd", "square_bwd"}
    assert len(found.cuda) > 10 * len(found.kernels)


def test_the_code_view_of_a_cell_that_is_none(shell):
    torch_cell(shell, texts.SQUARE, "square")
    assert "there are square" in str(shell.run("%slang code sqare", fails=True).error)
    assert "takes the name" in str(shell.run("%slang code", fails=True).error)


def test_messages_have_the_notebooks_lines(shell):
    bad = texts.SQUARE.replace("gradInElem);", "gradInElemm);")
    line = next(n for n, t in enumerate(bad.split("\n"), 2) if "gradInElemm" in t)
    said = torch_cell(shell, bad, "square", fails=True).text
    assert f"line {line}" in said
    assert "gradInElemm" in said
    lifted = shell.run(f"# a comment\n\n%%slang --torch square\n{bad}", fails=True).text
    assert f"line {line + 2}" in lifted


def test_the_linters_lines_too(shell):
    said = torch_cell(shell, "\n\n" + texts.SQUARE, "square").text
    line = next(n for n, t in enumerate(texts.SQUARE.split("\n"), 4) if "globalIdx.x > input.size(0)" in t)
    assert f"line {line}" in said
    assert "`if (globalIdx.x >= input.size(0) || globalIdx.y >= input.size(1))`" in said.replace(
        "\n        ", " "
    )


def test_a_failed_edit_keeps_the_last_good_version(shell):
    torch_cell(shell, texts.SQUARE, "square")
    held = shell["square"].square_fwd
    failed = torch_cell(shell, texts.SQUARE.replace("return x * x", "return y"), "square", fails=True)
    assert "still runs the version of" in failed.text
    assert "float input" in repr(held) or "input" in repr(held)
    assert "stale" in shell.run("%slang modules").text
    assert "unchanged" in torch_cell(shell, texts.SQUARE, "square").text
    assert "stale" not in shell.run("%slang modules").text


def test_an_edit_replaces_the_module_that_is_held(shell):
    torch_cell(shell, texts.SQUARE, "square")
    module, function = shell["square"], shell["square"].square_fwd
    renamed = texts.SQUARE.replace("square_bwd", "square_back")
    torch_cell(shell, renamed, "square")
    assert dir(module) == ["square_back", "square_fwd"]
    assert "square_fwd" in repr(function)


def test_the_same_content_is_not_compiled_again(shell, monkeypatch):
    torch_cell(shell, texts.SQUARE, "square")
    from slanglab.torch.entry_points import compiler

    def never(*_):
        raise AssertionError("compiled")

    monkeypatch.setattr(compiler, "_child", never)
    assert "unchanged" in torch_cell(shell, texts.SQUARE, "square").text
    slanglab.current().torch_cells.forget("square")
    del shell.ns["square"]
    torch_cell(shell, texts.SQUARE, "square")  # as after a restart: the folder of the content is there


def test_a_cell_without_a_name_binds_its_functions(shell):
    said = torch_cell(shell, texts.SQUARE).text
    assert "bound: square, square_fwd, square_bwd" in said
    assert callable(shell["square"])
    shell.ns["square_fwd"] = 3
    assert "left alone: square_fwd" in torch_cell(shell, texts.SQUARE + "\n").text
    assert shell["square_fwd"] == 3


LIBRARY = "float twice(float x) { return 2 * x; }\n"
USER = (
    "import library;\n"
    "[CudaKernel] void k(TensorView<float> t) { t.store(0, twice(t.load(0))); }\n"
    "[TorchEntryPoint] TorchTensor<float> go(TorchTensor<float> t)\n"
    "{ let one = uint3(1); __dispatch_kernel(k, one, one)(t); return t; }\n"
)


@pytest.mark.parametrize("magic", ["%%slang --torch", "%%slang"])
def test_imports_of_torch_cells_and_of_ordinary_ones(shell, magic):
    shell.run(f"{magic} library\n{LIBRARY}")
    torch_cell(shell, USER, "user")
    assert "* 2.0f" in slanglab.torch.generated(shell["user"]).kernels.replace("2.0f *", "* 2.0f")
    shell.run(f"{magic} library\n{LIBRARY.replace('2', '7')}")
    torch_cell(shell, USER, "user")
    assert "7.0f" in slanglab.torch.generated(shell["user"]).kernels


def test_an_importer_follows_its_torch_cell(shell):
    torch_cell(shell, LIBRARY, "library")
    torch_cell(shell, USER, "user")
    said = torch_cell(shell, LIBRARY.replace("2", "5"), "library").text
    assert "also recompiled: user" in said
    assert "5.0f" in slanglab.torch.generated(shell["user"]).kernels
    broken = torch_cell(shell, LIBRARY.replace("twice", "thrice"), "library").text
    assert "stale now: user" in broken


def test_entry_points_of_an_imported_cell_are_offered(shell):
    torch_cell(shell, texts.SQUARE, "library")
    torch_cell(
        shell, "import library;\n[TorchEntryPoint] float one(TorchTensor<float> t) { return 1; }", "user"
    )
    assert dir(shell["user"]) == ["one", "square", "square_bwd", "square_fwd"]
    assert set(slanglab.torch.generated(shell["user"]).offered) == {"one", "square_fwd", "square_bwd"}


def test_an_ordinary_cell_with_a_file_an_include_and_a_cell_of_its_own(shell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "filed.slang").write_text("float filed(float x) { return x * 3; }\n")
    (tmp_path / "included.slang").write_text("float included(float x) { return x * 5; }\n")
    shell.run("%%slang base\nfloat base_of(float x) { return x * 7; }")
    shell.run(
        '# one line more\n%%slang library\nimport base;\nimport filed;\n#include "included.slang"\n'
        "float twice(float x) { return filed(x) + included(x) + base_of(x); }"
    )
    torch_cell(shell, USER, "user")
    kernels = slanglab.torch.generated(shell["user"]).kernels
    assert all(f"{n}.0f" in kernels for n in (3, 5, 7))
    assert "base" not in shell.run("%slang").text.split("for PyTorch:")[1].split("\n")[0]


def test_a_cell_is_built_once_what_was_missing_is_there(shell, monkeypatch):
    from slanglab.torch.entry_points import compiler

    torch_cell(shell, texts.SQUARE, "square")
    held = shell["square"]
    monkeypatch.setattr(machine, "missing", lambda: ())
    monkeypatch.setattr(compiler.TorchCompiler, "_library", lambda *_: type("built", (), {}))
    said = torch_cell(shell, texts.SQUARE, "square").text
    assert "not built" not in said
    assert "not built" not in repr(held)
    assert "unchanged" in torch_cell(shell, texts.SQUARE, "square").text


def test_imports_that_cannot_be(shell):
    said = torch_cell(shell, "import slangpy;\n" + texts.SQUARE, "square", fails=True).text
    assert "has no `slangpy`" in said
    said = torch_cell(shell, "import nowhere;\n" + texts.SQUARE, "square", fails=True).text
    assert "nowhere" in said
    torch_cell(shell, LIBRARY, "library")
    torch_cell(shell, USER, "user")
    said = torch_cell(shell, "import user;\n" + LIBRARY, "library", fails=True).text
    assert "import each other" in said
    said = torch_cell(shell, '#include "/etc/passwd"\n' + LIBRARY, "leak", fails=True).text
    assert "root:" not in said
    said = torch_cell(shell, 'import "../../outside";\n' + LIBRARY, "leak", fails=True).text
    assert "outside" in said


def test_an_ordinary_cell_that_is_not_for_cuda_cannot_be_imported(shell):
    shell.run(f"%%slang library\n{LIBRARY}")
    torch_cell(shell, USER, "user")
    shell.run(f"# above\n%%slang library\n\nimport slangpy;\n{LIBRARY}")
    said = torch_cell(shell, USER, "user", fails=True).text
    assert "line 4" in said
    assert "has no `slangpy`" in said
    shell.run("%slang forget library")
    assert "no cell, file or library is called 'library'" in torch_cell(shell, USER, "user", fails=True).text
    assert dir(shell["user"]) == ["go"]


def test_macros_and_includes(shell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "more.slang").write_text("float more(float x) { return x + N; }\n")
    shell.run(
        '%%slang --torch -D N=41.5 user\n#include "more.slang"\n'
        "[CudaDeviceExport] float go(float x) { return more(x); }\n[CudaDeviceExport] float bad(float x) { return y; }",
        fails=True,
    )
    failed = shell.run(
        '%%slang --torch -D N=41.5 user\n#include "more.slang"\n\nfloat bad(float x) { return y; }',
        fails=True,
    )
    assert "line 4" in failed.text
    shell.run(
        '%%slang --torch -D N=41.5 user\n#include "more.slang"\n[CudaDeviceExport] float go(float x) { return more(x); }'
    )
    assert "41.5f" in slanglab.torch.generated(shell["user"]).kernels


def test_what_a_macro_leaves_out_is_not_offered(shell):
    text = f"#ifdef MORE\n{texts.SQUARE_BWD_KERNEL}{texts.SQUARE_BWD}#endif\n"
    text = texts.SQUARE_BACKWARD + texts.SQUARE_FWD_KERNEL + texts.SQUARE_FWD + text
    torch_cell(shell, text, "square")
    assert dir(shell["square"]) == ["square_fwd"]
    shell.run(f"%%slang --torch square -D MORE\n{text}")
    assert dir(shell["square"]) == ["square", "square_bwd", "square_fwd"]


def test_a_file(shell, tmp_path):
    file = tmp_path / "square.slang"
    file.write_text(texts.SQUARE)
    (tmp_path / "beside.slang").write_text(LIBRARY)
    module = slanglab.torch.load(file)
    assert dir(module) == ["square", "square_bwd", "square_fwd"]
    file.write_text("import beside;\n" + texts.FORWARD_ONLY.replace("x * x", "twice(x) * SIDE"))
    assert slanglab.torch.load(str(file), defines={"SIDE": 3}) is not module
    assert dir(module) == ["square_fwd"]
    assert "3.0f" in slanglab.torch.generated(module).kernels
    with pytest.raises(SlangLabError, match="cannot be read"):
        slanglab.torch.load(tmp_path / "none.slang")
    file.write_text("float f( { }")
    with pytest.raises(slanglab.CompileError, match=re.escape(str(file))):
        slanglab.torch.load(file)


def test_one_name_is_one_cell(shell):
    shell.run("%%slang poly\nfloat f(float x) { return x; }")
    torch_cell(shell, texts.SQUARE, "poly")
    assert slanglab.current().cells.cell("poly") is None
    shell.run("%%slang poly\nfloat f(float x) { return x; }")
    assert slanglab.current().torch_cells.cell("poly") is None
    assert shell["poly"].f(2.0) == 2.0


def test_forgetting(shell):
    torch_cell(shell, texts.SQUARE, "square")
    assert "for PyTorch: square" in shell.run("%slang").text
    shell.run("%slang forget square")
    assert "square" not in shell.run("%slang modules").text


@pytest.mark.parametrize(
    "body", [texts.SQUARE, texts.KERNELS, texts.SQUARE.replace("return x * x", "return y")]
)
def test_an_ordinary_cell_says_that_it_is_for_torch(shell, body):
    outputs = shell.run(f"%%slang square\n{body}", fails="return y" in body)
    assert "--torch" in outputs.text


def test_a_pair_that_is_none_is_said(shell):
    text = texts.SQUARE.replace("TorchTensor<float> grad_in)", "TorchTensor<float> grad_in, float much)")
    said = torch_cell(shell, text, "square").text
    assert "not offered as `square`" in said
    assert "square" not in dir(shell["square"])
    assert "no pair" in str(shell.run("square.square", fails=True).error)


def test_options_that_make_no_sense(shell):
    for option in ("--bounds", "--check"):
        assert "ordinary cells" in str(
            shell.run(f"%%slang --torch {option} m\n{texts.SQUARE}", fails=True).error
        )
    assert "empty" in str(shell.run("%%slang --torch m\n   ", fails=True).error)


@pytest.mark.parametrize("name", ["größe", "числа", "a" * 100])
def test_odd_names(shell, name):
    torch_cell(shell, texts.SQUARE, name)
    assert "square_fwd_kernel" in shell.run(f"%slang code {name}").text


def test_launch_sizes_in_place_say_what_to_write(shell):
    text = (
        USER.replace("import library;\n", LIBRARY)
        .replace("let one = uint3(1); ", "")
        .replace("k, one, one", "k, uint3(1), uint3(1)")
    )
    said = torch_cell(shell, text, "user", fails=True).text
    assert "let blockCount = uint3(1);" in said


def test_hostile_texts_end_in_messages(shell):
    for text in (
        "[TorchEntryPoint] " * 400,
        "float f() { return 1; } }" * 9,
        "#error <b>no</b>\n",
        "struct A { A a; };",
    ):
        shown = torch_cell(shell, text, "hostile", fails=True)
        assert "<b>no" not in shown.html


def test_all_of_it_works_without_torch(tmp_path):
    code = (
        "import sys; sys.modules['torch'] = sys.modules['slangtorch'] = None\n"
        "import slanglab; from pathlib import Path; import slanglab.notebook.extension\n"
        f"Path('square.slang').write_text({texts.SQUARE!r})\n"
        "m = slanglab.torch.load('square.slang')\n"
        "assert '__global__' in slanglab.torch.generated(m).kernels\n"
        "try: m.square(1)\n"
        "except slanglab.DeviceError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "PyTorch is not installed" in done.stdout
    assert 'pip install "slanglab[slangtorch]"' in done.stdout


def test_what_is_missing_here(monkeypatch):
    monkeypatch.undo()
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("CUDA_HOME", "/nowhere")
    monkeypatch.delenv("CXX", raising=False)  # it may be a path
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monkeypatch.setattr(machine, "_has", lambda _: False)
    found = machine.missing()
    assert [m.what.split()[0] for m in found] == ["PyTorch", "slangtorch", "ninja", "nvcc,", "there"]
    assert all(m.command for m in found)


def test_an_interrupt_ends_the_compiler(shell, monkeypatch):
    """Ctrl-C while the worker runs: no process is left."""
    import _thread
    import threading

    from slanglab import children

    started = []
    start = children.start
    monkeypatch.setattr(
        children, "start", lambda *a: started.append(start("slanglab_sleeper", *a[1:])) or started[-1]
    )
    monkeypatch.syspath_prepend(os.path.join(os.path.dirname(__file__), "cuda_on_cpu"))
    threading.Timer(1.0, _thread.interrupt_main).start()
    error = torch_cell(
        shell, texts.SQUARE.replace("square", f"s{time.time_ns()}"), "square", fails=True
    ).error
    assert isinstance(error, KeyboardInterrupt)
    assert started[0].wait(10.0) is not None
