// What the texts that Slang writes for slang-torch need of CUDA and PyTorch, on the CPU: one thread after another, torch's tensors through
// Python. Their own preambles are left out in its favour; what they refuse (types, elements that share a place) is refused here too.
#pragma once
#ifdef FOR_PYTHON
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
namespace py = pybind11;
#endif

#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

typedef uint32_t uint;

struct uint3 { uint x, y, z; };
inline uint3 operator*(uint3 a, uint3 b) { return {a.x * b.x, a.y * b.y, a.z * b.z}; }
inline uint3 operator+(uint3 a, uint3 b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
struct float3 { float x, y, z; };
inline float3 make_float3(float x, float y, float z) { return {x, y, z}; }
struct dim3 { uint x, y, z; };
extern uint3 blockIdx, blockDim, threadIdx;
#define __device__ inline
#define __global__
#define SLANG_PRELUDE_EXPORT
inline float atomicAdd(float *at, float by) { float old = *at; *at += by; return old; }
inline float atomicExch(float *at, float by) { float old = *at; *at = by; return old; }
inline float F32_exp(float x) { return std::exp(x); }

struct TensorView
{
    uint8_t *data;
    uint strides[5], sizes[5], dimensionCount, outside;

    template <class T, class... I> T *data_ptr_at(I... index) const
    {
        uint at[] = {uint(index)...};
        uint8_t *found = data;
        for (uint i = 0; i < sizeof...(I); i++)
        {
            if (i >= dimensionCount || at[i] >= sizes[i])
                throw std::runtime_error("outside of a tensor: index " + std::to_string(at[i]) + " on axis " + std::to_string(i));
            found += size_t(at[i]) * strides[i];
        }
        return (T *)found;
    }
    template <class T, class... I> T load(I... index) const { return *data_ptr_at<T>(index...); }
    template <class T> void store(uint a, T v) { *data_ptr_at<T>(a) = v; }
    template <class T> void store(uint a, uint b, T v) { *data_ptr_at<T>(a, b) = v; }
    template <class T> void store(uint a, uint b, uint c, T v) { *data_ptr_at<T>(a, b, c) = v; }
};

template <class T, int N> struct FixedArray
{
    T v[N];
    T &operator[](int i) { return v[i]; }
};

#ifdef FOR_PYTHON
template <class T, int N> struct Vector;
template <class T> struct Vector<T, 3>
{
    T x, y, z;
    Vector() = default;
    explicit Vector(T all) : x(all), y(all), z(all) {}
    template <class A, class B, class C> Vector(A a, B b, C c) : x(T(a)), y(T(b)), z(T(c)) {}
};
template <class T, int N> T _slang_vector_get_element(Vector<T, N> v, int i) { return i == 0 ? v.x : i == 1 ? v.y : v.z; }
template <class To, class From> To slang_bit_cast(From from)
{
    To to;
    static_assert(sizeof(To) == sizeof(From));
    std::memcpy((void *)&to, (const void *)&from, sizeof(To));
    return to;
}
namespace Slang
{
struct Slice
{
    const char *text;
    const char *getBuffer() const { return text; }
    operator const char *() const { return text; }
};
inline Slice toTerminatedSlice(const char *text) { return {text}; }
}

namespace torch
{
enum Kind { kFloat32, kInt32, kCUDA };
inline py::object dtype(Kind kind) { return py::module_::import("torch").attr(kind == kInt32 ? "int32" : "float32"); }
struct Tensor
{
    py::object it;
    uint size(uint i) const { return it.attr("size")(i).cast<uint>(); }
};
struct TensorOptions
{
    Kind kind = kFloat32;
    TensorOptions device(Kind) const { return *this; }
    TensorOptions dtype(Kind k) const { return {k}; }
};
inline Tensor empty(std::initializer_list<int64_t> sizes, TensorOptions options)
{
    py::dict given;
    given["dtype"] = dtype(options.kind);
    // Whatever memory held before: a result that no thread wrote must not look right.
    auto full = py::module_::import("torch").attr("full")(py::cast(std::vector<int64_t>(sizes)), -12345, **given);
    return {full};
}
}
namespace pybind11::detail
{
template <> struct type_caster<torch::Tensor>
{
    PYBIND11_TYPE_CASTER(torch::Tensor, const_name("torch.Tensor"));
    bool load(handle from, bool)
    {
        if (!isinstance(from, module_::import("torch").attr("Tensor")))
            return false;
        value.it = reinterpret_borrow<object>(from);
        return true;
    }
    static handle cast(const torch::Tensor &from, return_value_policy, handle) { return object(from.it).release(); }
};
}
inline TensorView make_tensor_view(torch::Tensor given, const char *name, torch::Kind kind, bool)
{
    TensorView view{};
    py::object has = given.it.attr("dtype");
    if (!has.is(torch::dtype(kind)))
        throw std::runtime_error(std::string(name) + ": tensor is not of the expected type.");
    view.data = (uint8_t *)given.it.attr("data_ptr")().cast<uintptr_t>();
    view.dimensionCount = given.it.attr("dim")().cast<uint>();
    bool empty = given.it.attr("numel")().cast<size_t>() == 0;
    for (uint i = 0; i < view.dimensionCount; i++)
    {
        view.sizes[i] = given.size(i);
        view.strides[i] = given.it.attr("stride")(i).cast<uint>() * given.it.attr("element_size")().cast<uint>();
        if (!empty && view.strides[i] == 0)
            throw std::runtime_error(std::string(name) + ": tensors with broadcasted dimensions are not supported");
    }
    return view;
}

template <class... A, size_t... I> void call_with(void (*kernel)(A...), void **args, std::index_sequence<I...>)
{
    kernel(*(std::remove_reference_t<A> *)args[I]...);
}
template <class... A> int cudaLaunchKernel(void (*kernel)(A...), dim3 grid, dim3 block, void **args, int, int)
{
    size_t threads = size_t(block.x) * block.y * block.z;
    if (threads < 1 || threads > 1024 || size_t(grid.x) * grid.y * grid.z < 1)
        throw std::runtime_error("CUDA error: invalid configuration argument");
    blockDim = {block.x, block.y, block.z};
    for (uint g = 0; g < grid.x * grid.y * grid.z; g++)
        for (uint t = 0; t < threads; t++)
        {
            blockIdx = {g % grid.x, g / grid.x % grid.y, g / grid.x / grid.y};
            threadIdx = {t % block.x, t / block.x % block.y, t / block.x / block.y};
            call_with(kernel, args, std::index_sequence_for<A...>());
        }
    return 0;
}
#define AT_CUDA_CHECK(x) x
typedef int cudaStream_t;
namespace at::cuda { inline int getCurrentCUDAStream() { return 0; } }
#endif
