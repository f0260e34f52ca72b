"""What is read from texts of `--torch` cells without a compiler: signatures, pairs, what kernels read and write; and what a build says."""

import pytest

from slanglab.text.diagnostics import SourceText
from slanglab.text.symbols import outline
from slanglab.torch.entry_points.generated import Generated
from slanglab.torch.entry_points.messages import build_messages, shifted
from slanglab.torch.entry_points.signatures import callables, element, pairs, tensors_in
from slanglab.torch.entry_points.writes import Use, uses

T, D = "TorchTensor<float>", "TorchTensor<double>"


def matched(text):
    parsed = outline(text)
    return pairs(callables([parsed]), [parsed])


def entry(result, name, parameters, above=""):
    return f"{above}\n[TorchEntryPoint] {result} {name}({parameters}) {{ }}\n"


def both(fwd, bwd, result=T, gradients=T, above=""):
    return above + entry(result, "f_fwd", fwd) + entry(gradients, "f_bwd", bwd)


def test_only_what_python_calls_is_callable():
    parsed = outline(
        "[CudaKernel] void k(TensorView<float> t) { }\n"
        "[AutoPyBindCUDA] [CUDAKernel] void bound(TensorView<float> t) { }\n"
        "[CudaDeviceExport] float d(float x) { return x; }\n"
        "[TorchEntryPoint] void e(TorchTensor<float> t) { }\n"
        "float plain(float x) { return x; }\n"
        "struct S { [TorchEntryPoint] void m() { } };\n"
    )
    assert {n: c.kind for n, c in callables([parsed]).items()} == {"bound": "kernel", "e": "entry point"}


def test_the_importers_own_function_comes_first():
    one, other = outline(entry(T, "f", f"{T} a")), outline(entry(T, "f", f"{T} b") + entry(T, "g", ""))
    found = callables([one, other])
    assert [p.name for p in found["f"].parameters] == ["a"]
    assert "g" in found


@pytest.mark.parametrize(
    ("fwd", "bwd", "result", "gradients", "above", "differentiable", "takes_outputs"),
    [
        (f"{T} x", f"{T} x, {T} g", T, T, "", (0,), False),
        (f"{T} x", f"{T} x, {T} y, {T} g", T, T, "", (0,), True),
        (f"{T} x, float s", f"{T} x, float s, {T} g", T, T, "", (0,), False),
        (f"float s, {T} x, TorchTensor<int> n", f"float s, {T} x, TorchTensor<int> n, {T} g", T, T, "", (1,), False),
        (f"{T} x, {T} w", f"{T} x, {T} w, {T} g", T, "G", f"struct G {{ {T} a; {T} b; }};", (0, 1), False),
        (f"{T} x", f"{T} x, {T} g, {T} h", "R", T, f"struct R {{ {T} a; {T} b; }};", (0,), False),
        (f"{T} x, {T} w", f"{T} x, {T} w, {T} g", T, f"{T}[2]", "", (0, 1), False),
        (f"{D} x", f"{D} x, {D} g", D, D, "", (0,), False),
    ],
)  # fmt: skip
def test_pairs_by_signature(fwd, bwd, result, gradients, above, differentiable, takes_outputs):
    found, refused = matched(both(fwd, bwd, result, gradients, above))
    assert not refused
    assert found["f"].differentiable == differentiable
    assert found["f"].takes_outputs is takes_outputs


@pytest.mark.parametrize(
    ("fwd", "bwd", "result", "gradients", "why"),
    [
        (f"{T} x", f"{T} x", T, T, "takes 0 more parameters"),
        (f"{T} x", f"{T} g", T, T, "takes 0 more"),
        (f"{T} x, {T} w", f"{T} x, float s, {T} g", T, T, "parameter 2 of `f_bwd` is `float s`"),
        (f"{T} x", f"{T} x, TorchTensor<half> g", T, T, "takes 1 more parameter;"),
        (f"{T} x, {T} w", f"{T} x, {T} w, {T} g", T, T, "returns 1 tensor (float)"),
        (f"{T} x", f"{T} x, {T} g", T, "TorchTensor<half>", "returns 1 tensor (half)"),
        (f"{T} x", f"{T} x, {T} g", "void", T, "`f_fwd` returns `void`"),
        (f"{T} x", f"{T} x, {T} g", T, "void", "`f_bwd` returns `void`"),
        (f"{T} x", f"{T} x, {T} g", "float", T, "`f_fwd` returns `float`"),
        ("TorchTensor<int> n", f"TorchTensor<int> n, {T} g", T, "TorchTensor<int>", "there are none"),
        (f"{T} x, {T} w", f"{T} x", T, T, "parameter 2 of `f_bwd` is nothing"),
    ],
)
def test_functions_that_do_not_fit_are_no_pair_and_why(fwd, bwd, result, gradients, why):
    found, refused = matched(both(fwd, bwd, result, gradients))
    assert not found
    assert why in refused["f"]


def test_a_function_that_has_the_pairs_name_stays_itself():
    found, refused = matched(both(f"{T} x", f"{T} x, {T} g") + entry(T, "f", f"{T} x"))
    assert not found
    assert "itself" in refused["f"]


def test_plain_slang_of_the_pairs_name_is_no_obstacle():
    found, _ = matched("float f(float x) { return x; }" + both(f"{T} x", f"{T} x, {T} g"))
    assert "f" in found


def test_kernels_are_no_pair():
    text = "".join(
        f"[AutoPyBindCUDA] [CudaKernel] void k_{d}(TensorView<float> t) {{ }}\n" for d in ("fwd", "bwd")
    )
    assert "kernel" in matched(text)[1]["k"]


def test_a_lone_fwd_is_nothing_special():
    assert matched(entry(T, "f_fwd", f"{T} x") + entry(T, "_bwd", "") + entry(T, "_fwd", "")) == ({}, {})


def test_the_tensors_of_a_type():
    structs = {
        s.name: s
        for s in outline(
            f"struct A {{ {T} t; B b; }}; struct B {{ TorchTensor<int>[2] n; }}; struct R {{ R r; }}; struct M {{ {T} t; float x; }};"
        ).structs
    }
    assert tensors_in("A", structs) == ("float", "int", "int")
    assert tensors_in("R", structs) is None  # it holds itself: no end
    assert tensors_in("M", structs) is None
    assert tensors_in("float", structs) is None


@pytest.mark.parametrize(
    ("kind", "of"),
    [(T, "float"), ("TensorView<int>", "int"), ("DiffTensorView", "float"), ("DiffTensorView<half, W>", "half"),
     ("float", None), ("Scale", None), ("TorchTensor< double >", "double")],
)  # fmt: skip
def test_element_types(kind, of):
    assert element(kind) == of


READ, WRITE, BOTH, UNKNOWN = Use(reads=True), Use(writes=True), Use(reads=True, writes=True), Use(known=False)
HELPERS = (
    "void put(DiffTensorView t, uint i, float v) { t.storeOnce(i, v); } float got(DiffTensorView t, uint i) { return t[i]; }"
    "void again(DiffTensorView t) { again(t); } void one(DiffTensorView t) {} void one(DiffTensorView t, int n) {}"
)


@pytest.mark.parametrize(
    ("body", "use"),
    [
        ("float v = t[i];", READ),
        ("float v = t.load(i) + t.loadOnce(i);", READ),
        ("t[i] = 1;", WRITE),
        ("t.store(i, 1);", WRITE),
        ("t[i] += 1;", BOTH),
        ("t[i]++;", BOTH),
        ("++t[i];", BOTH),
        ("t[i] = t[i] * 2;", BOTH),
        ("if (i >= t.size(0)) return;", Use()),
        ("if (t[i] == 1) return;", READ),
        ("t.InterlockedAdd(i, 1);", BOTH),
        ("put(t, i, 1);", WRITE),
        ("float v = got(t, i);", READ),
        ("elsewhere(t);", UNKNOWN),
        ("one(t);", UNKNOWN),
        ("let u = t;", UNKNOWN),
        ("t.odd(i);", UNKNOWN),
        ("again(t);", UNKNOWN),
        ("// t[i] = 1;\nother.t[i] = 1;", Use()),
        ("", Use()),
    ],
)
def test_what_a_kernel_does_with_a_tensor(body, use):
    text = f"{HELPERS}\nvoid k(DiffTensorView t, uint i)\n{{ {body} }}"
    parsed = outline(text)
    function = next(f for f in parsed.functions if f.name == "k")
    assert uses([(text, parsed)], function)["t"] == use


def test_the_cells_own_part_of_what_slang_wrote():
    cuda = (
        '#define A\n#include "x"\n\n#line 3 "poly"\n__device__ float f(float x)\n{\n\n#line 4\n    return x;\n}\n\n\n\n'
        "#line 9\n__global__ void k()\n{\n}\n"
    )
    found = Generated(
        cuda,
        'PYBIND11_MODULE(N, m) {\n    m.def("go", &go, "go");\n    m.def("__funcinfo__go", &x, "x");\n}\n',
    )
    assert found.kernels == "__device__ float f(float x)\n{\n    return x;\n}\n\n__global__ void k()\n{\n}\n"
    assert found.binding.startswith("PYBIND11_MODULE")
    assert found.offered == ("go",)


SOURCES = {"square": SourceText("In[3]", ("float a;", "    float b = c;", ""))}


def test_messages_of_nvcc_stand_at_lines_of_the_cell():
    said = (
        "FAILED: [code=1] square_cuda.cuda.o\n/usr/local/cuda/bin/nvcc -c square_cuda.cu\n"
        'square(2): error: identifier "c" is undefined\n      float b = c;\n                ^\n\nsquare(1): warning #177-D: unused\n'
        'square(2): error: identifier "c" is undefined\n1 error detected in the compilation of "square_cuda.cu".\nninja: build stopped'
    )
    (found,) = build_messages(said, SOURCES.get)
    assert (found.severity, found.cell, found.line, found.column) == ("error", "In[3]", 2, 5)
    assert found.text == 'identifier "c" is undefined'
    assert (2, "    float b = c;") in found.source
    moved = shifted(found, {"In[3]": 4})
    assert (moved.line, moved.source[1]) == (5, (5, "    float b = c;"))


@pytest.mark.parametrize(
    ("said", "text", "hint"),
    [
        ("x.cpp:15570:5: error: 'Foo' was not declared in this scope", "'Foo' was not declared", ""),
        (
            "/usr/bin/ld: cannot find -lc10_cuda: No such file or directory",
            "cannot find -lc10_cuda",
            "without CUDA",
        ),
        (
            "RuntimeError: \nThe detected CUDA version (12.1) mismatches the version that was used",
            "mismatches",
            "",
        ),
        ("nvcc fatal : Unsupported gpu architecture 'compute_90'", "compute_90", "TORCH_CUDA_ARCH_LIST"),
        ("ptxas /tmp/x.ptx, line 3; error   : Arguments mismatch", "Arguments mismatch", ""),
        ("OSError: CUDA_HOME environment variable is not set. Please set it", "CUDA_HOME environment", ""),
        ("", "ended without a word", ""),
        ("x" * 5000, "x" * 50, ""),
    ],
)
def test_other_messages_of_a_build(said, text, hint):
    found = build_messages(said, SOURCES.get)
    assert any(text in d.text for d in found)
    assert all(len(d.text) < 400 for d in found)
    assert hint in found[0].hint


def test_many_messages_are_counted():
    said = "\n".join(f"x.cpp:{n}:1: error: number {n}" for n in range(1, 60))
    found = build_messages(said, SOURCES.get)
    assert len(found) == 21
    assert "39 more" in found[-1].title or "39 more" in found[-1].text
