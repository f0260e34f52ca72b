"""Cells in the style of slang-torch: the blocks of its guide, and others that the tests of several files use."""

SQUARE_PLAIN = """float square(float x)
{
    return x * x;
}
"""

SQUARE_FWD_KERNEL = """[CudaKernel]
void square_fwd_kernel(TensorView<float> input, TensorView<float> output)
{
    uint3 globalIdx = cudaBlockIdx() * cudaBlockDim() + cudaThreadIdx();

    if (globalIdx.x > input.size(0) || globalIdx.x > input.size(1))
        return;
    float result = square(input.load(globalIdx.x, globalIdx.y));
    output.store(globalIdx.x, globalIdx.y, result);
}
"""

SQUARE_FWD = """[TorchEntryPoint]
TorchTensor<float> square_fwd(TorchTensor<float> input)
{
    var result = TorchTensor<float>.alloc(input.size(0), input.size(1));
    let blockCount = uint3(1);
    let groupSize = uint3(result.size(0), result.size(1), 1);
    __dispatch_kernel(square_fwd_kernel, blockCount, groupSize)(input, result);
    return result;
}
"""

SQUARE_BACKWARD = "[BackwardDifferentiable]\n" + SQUARE_PLAIN

SQUARE_BWD_KERNEL = """[CudaKernel]
void square_bwd_kernel(TensorView<float> input, TensorView<float> grad_in, TensorView<float> grad_output)
{
    uint3 globalIdx = cudaBlockIdx() * cudaBlockDim() + cudaThreadIdx();

    if (globalIdx.x > input.size(0) || globalIdx.x > input.size(1))
        return;

    DifferentialPair<float> dpInput = diffPair(input.load(globalIdx.x, globalIdx.y));
    var gradInElem = grad_in.load(globalIdx.x, globalIdx.y);
    __bwd_diff(square)(dpInput, gradInElem);
    grad_output.store(globalIdx.x, globalIdx.y, dpInput.d);
}
"""

SQUARE_BWD = """[TorchEntryPoint]
TorchTensor<float> square_bwd(TorchTensor<float> input, TorchTensor<float> grad_in)
{
    var grad_out = TorchTensor<float>.alloc(input.size(0), input.size(1));
    let blockCount = uint3(1);
    let groupSize = uint3(input.size(0), input.size(1), 1);
    __dispatch_kernel(square_bwd_kernel, blockCount, groupSize)(input, grad_in, grad_out);
    return grad_out;
}
"""

FORWARD_ONLY = SQUARE_PLAIN + SQUARE_FWD_KERNEL + SQUARE_FWD
"""The guide's first module."""

SQUARE = SQUARE_BACKWARD + SQUARE_FWD_KERNEL + SQUARE_FWD + SQUARE_BWD_KERNEL + SQUARE_BWD
"""The guide's module with its gradient."""

MENDED = (
    SQUARE.replace(
        "globalIdx.x > input.size(0) || globalIdx.x > input.size(1)",
        "globalIdx.x >= input.size(0) || globalIdx.y >= input.size(1)",
    )
    .replace("uint3(1)", "uint3((input.size(0) + 15) / 16, (input.size(1) + 15) / 16, 1)")
    .replace("uint3(result.size(0), result.size(1), 1)", "uint3(16, 16, 1)")
    .replace("uint3(input.size(0), input.size(1), 1)", "uint3(16, 16, 1)")
)
"""The same as the linter says to write it."""

KERNELS = """struct Scale { float by; float plus; };

[AutoPyBindCUDA]
[CudaKernel]
[Differentiable]
void cube(DiffTensorView input, DiffTensorView output)
{
    uint3 at = cudaThreadIdx() + cudaBlockIdx() * cudaBlockDim();
    if (at.x >= input.size(0)) return;
    let x = input[at.x];
    output[at.x] = x * x * x;
}

[AutoPyBindCUDA]
[CudaKernel]
void scale(TensorView<float> input, TensorView<float> output, Scale s, float3 v)
{
    uint3 at = cudaThreadIdx() + cudaBlockIdx() * cudaBlockDim();
    if (at.x >= input.size(0)) return;
    output.store(at.x, input.load(at.x) * s.by + s.plus + v.y);
}

[AutoPyBindCUDA]
[CudaKernel]
[Differentiable]
void twice_over(DiffTensorView t)
{
    uint3 at = cudaThreadIdx() + cudaBlockIdx() * cudaBlockDim();
    if (at.x >= t.size(0)) return;
    t[at.x] = 2 * t[at.x];
}

[CudaDeviceExport]
float halved(float x) { return x / 2; }
"""
"""Kernels that Python launches itself."""

MIXED = """[Differentiable]
float f(float a, float b, no_diff float s) { return a * a * b + s * b; }

[CudaKernel]
void fwd_kernel(TensorView<float> a, TensorView<float> b, TensorView<int> n, float s, TensorView<float> sums, TensorView<float> products)
{
    let i = cudaBlockIdx().x * cudaBlockDim().x + cudaThreadIdx().x;
    if (i >= a.size(0)) return;
    sums.store(i, f(a.load(i), b.load(i), s) + n.load(i));
    products.store(i, a.load(i) * b.load(i));
}

struct Results { TorchTensor<float> sums; TorchTensor<float> products; };

[TorchEntryPoint]
Results mixed_fwd(TorchTensor<float> a, TorchTensor<float> b, TorchTensor<int> n, float s)
{
    Results r;
    r.sums = TorchTensor<float>.alloc(a.size(0));
    r.products = TorchTensor<float>.alloc(a.size(0));
    let blocks = uint3((a.size(0) + 31) / 32, 1, 1);
    let threads = uint3(32, 1, 1);
    __dispatch_kernel(fwd_kernel, blocks, threads)(a, b, n, s, r.sums, r.products);
    return r;
}

[CudaKernel]
void bwd_kernel(TensorView<float> a, TensorView<float> b, float s, TensorView<float> dsums, TensorView<float> dproducts,
    TensorView<float> da, TensorView<float> db)
{
    let i = cudaBlockIdx().x * cudaBlockDim().x + cudaThreadIdx().x;
    if (i >= a.size(0)) return;
    var pa = diffPair(a.load(i));
    var pb = diffPair(b.load(i));
    bwd_diff(f)(pa, pb, s, dsums.load(i));
    da.store(i, pa.d + dproducts.load(i) * b.load(i));
    db.store(i, pb.d + dproducts.load(i) * a.load(i));
}

struct Gradients { TorchTensor<float> a; TorchTensor<float> b; };

[TorchEntryPoint]
Gradients mixed_bwd(TorchTensor<float> a, TorchTensor<float> b, TorchTensor<int> n, float s, TorchTensor<float> dsums,
    TorchTensor<float> dproducts)
{
    Gradients g;
    g.a = TorchTensor<float>.alloc(a.size(0));
    g.b = TorchTensor<float>.alloc(a.size(0));
    let blocks = uint3((a.size(0) + 31) / 32, 1, 1);
    let threads = uint3(32, 1, 1);
    __dispatch_kernel(bwd_kernel, blocks, threads)(a, b, s, dsums, dproducts, g.a, g.b);
    return g;
}
"""
"""Two results, a tensor of whole numbers and a number among the inputs, structs of gradients."""


def guides_function(module):
    """Return the autograd function of a module with `square_fwd` and `square_bwd`, as the guide writes it."""
    import torch

    class MySquareFuncInSlang(torch.autograd.Function):
        @staticmethod
        def forward(ctx, input):
            ctx.save_for_backward(input)
            return module.square_fwd(input)

        @staticmethod
        def backward(ctx, grad_output):
            [input] = ctx.saved_tensors
            return module.square_bwd(input, grad_output)

    return MySquareFuncInSlang
