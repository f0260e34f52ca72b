"""Statistics, histograms and pictures made on the device against NumPy in double and extended precision."""

from __future__ import annotations

import gc
import math
import weakref
from typing import Any

import numpy as np
import pytest
import slangpy as spy
from tensor_cases import DTYPES, FLOATING, case, numbers, upload
from tensor_checks import check_picture, check_statistics, exact, reference_counts, view_of

from slanglab.errors import ArgumentError
from slanglab.tensors import kernels, mended
from slanglab.tensors.summary import elements, histogram, nonfinite, picture, statistics, summary

pytestmark = pytest.mark.usefixtures("subnormals")


def test_random_tensors(device: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for n in range(200):
        c = case(device, rng)
        note = (seed, n, c)
        check_statistics(statistics(c.tensor), c.array, note)
        check_statistics(statistics(c.array), c.array, (*note, "host"))
        bins = int(rng.integers(1, 100))
        for given in (c.tensor, c.array):
            h = histogram(given, bins)
            x = exact(c.array)
            if x.size and float(x.min()) < float(x.max()) and np.isfinite(float(x.max() - x.min())):
                even = np.linspace(float(x.min()), float(x.max()), bins + 1)
                np.testing.assert_allclose(h.edges, even, rtol=1e-15, atol=1e-322)
            if c.array.dtype.itemsize < 8 or c.array.dtype.kind == "f" or given is c.tensor:
                assert h.counts.tolist() == reference_counts(c.array, h.edges), note
        plane = view_of(c)
        rows, cols = int(rng.integers(1, 20)), int(rng.integers(1, 20))
        block = (max(1, math.ceil(plane.shape[0] / rows)), max(1, math.ceil(plane.shape[1] / cols)))
        for given in (c.tensor, c.array) if not c.components else (c.tensor,):
            p = picture(given, rows, cols)
            assert p.block == block, note
            assert p.window == (0, plane.shape[0], 0, plane.shape[1]), note
            check_picture(p, plane, block, note)
        wrong = (
            np.argwhere(~np.isfinite(c.array))
            if c.array.dtype.kind == "f"
            else np.zeros((0, c.array.ndim), int)
        )
        limit = int(rng.integers(1, 50))
        for given in (c.tensor, c.array):
            assert nonfinite(given, limit) == [tuple(at) for at in wrong[:limit].tolist()], note
        np.testing.assert_array_equal(elements(c.tensor).reshape(plane.shape), plane)


def test_many_subnormal_halves_on_the_host(rng: np.random.Generator) -> None:
    # numpy 2.4.6 sorts these wrongly, and counts sorted ones.
    units = rng.integers(-9, 10, 50_000)
    found = histogram((units * 2.0**-24).astype(np.float16), 19, (-9.5 * 2.0**-24, 9.5 * 2.0**-24))
    assert found.counts.tolist() == np.bincount(units + 9, minlength=19).tolist()


@pytest.mark.parametrize("scale", ["linear", "symlog"])
def test_histogram_in_a_given_range(device: Any, seed: int, scale: Any) -> None:
    rng = np.random.default_rng(seed)
    for n in range(40):
        c = case(device, rng)
        x = exact(c.array)
        if x.size and rng.random() < 0.5:
            a, b = sorted(float(v) for v in rng.choice(x, 2))
        else:
            a, b = sorted(rng.normal(size=2) * 10.0 ** rng.integers(-3, 21))
        h = histogram(c.tensor, int(rng.integers(1, 1025)), (a, b), scale)
        assert (np.diff(h.edges) >= 0).all()
        assert h.edges[0] <= a
        assert h.edges[-1] >= b
        assert h.counts.tolist() == reference_counts(c.array, h.edges), (seed, n, c, a, b)


def test_symlog_edges_are_even_in_the_logarithm(device: Any) -> None:
    t = spy.Tensor.from_numpy(device, np.array([-100.0, 0.0, 1.0, 100.0], np.float32))
    h = histogram(t, 10, scale="symlog")
    assert h.threshold == 1.0
    even = np.sign(h.edges) * np.log1p(np.abs(h.edges))
    np.testing.assert_allclose(np.diff(even), 2 * np.log(101) / 10, rtol=1e-12)
    assert h.counts.sum() == 4


@pytest.mark.parametrize("kind", [np.int32, np.uint32, np.int64, np.uint64, np.int8, np.bool_])
def test_histogram_reaches_the_ends_of_integer_types(device: Any, kind: Any) -> None:
    names = {
        np.int32: "int",
        np.uint32: "uint",
        np.int64: "int64_t",
        np.uint64: "uint64_t",
        np.int8: "int8_t",
        np.bool_: "bool",
    }
    low, high = (0, 1) if kind is np.bool_ else (np.iinfo(kind).min, np.iinfo(kind).max)
    array = np.array([low, low, high, high, high], kind)
    t = upload(device, names[kind], array, ())
    assert histogram(t, 7).counts.tolist() == [2, 0, 0, 0, 0, 0, 3]
    wide = histogram(t, 30, (float(low) - 1e20, float(high) + 1e20))
    assert wide.counts.sum() == 5
    assert histogram(t, 5, (float(high) * 4 + 1, float(high) * 5 + 9)).counts.sum() == 0
    assert histogram(t, 5, (-float(high) * 5 - 9, -float(high) * 4 - 1)).counts.sum() == 0


def test_accuracy_of_ten_million_numbers_far_from_zero(device: Any, seed: int) -> None:
    x = np.random.default_rng(seed).normal(1000, 1e-3, 10_000_000).astype(np.float32)
    found = statistics(spy.Tensor.from_numpy(device, x))
    wide = x.astype(np.float64)
    assert abs(found.mean - wide.mean()) < 1e-6 * wide.std()
    assert abs(found.std / wide.std() - 1) < 1e-6


def test_hundred_million_elements(device: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    tile = rng.integers(0, 256, 1_000_000, np.uint8)
    x = np.tile(tile, 100)
    x[12_345_678] = 0
    t = spy.Tensor.from_numpy(device, x)
    counts = np.bincount(x, minlength=256)
    at = np.arange(256.0)
    mean = float((counts * at).sum() / 1e8)
    found = statistics(t)
    assert (found.count, found.zeros, found.minimum, found.maximum) == (10**8, counts[0], 0, 255)
    assert abs(found.mean - mean) < 1e-6
    assert abs(found.std - math.sqrt((counts * (at - mean) ** 2).sum() / 1e8)) < 1e-5
    assert histogram(t, 256, (0, 256)).counts.tolist() == counts.tolist()
    p = picture(t, 1, 1000)
    assert p.block == (1, 100_000)
    np.testing.assert_allclose(p.mean[0], x.reshape(1000, -1).mean(axis=1, dtype=np.float64), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["half", "float", "double", "float3"])
@pytest.mark.parametrize("size", [2, 7, 64, 1001, 50_000])
def test_the_largest_numbers_of_both_signs(device: Any, seed: int, dtype: str, size: int) -> None:
    # A compiler that scales a difference instead of both of its terms makes it infinite. Of powers of two all sums are exact.
    rng = np.random.default_rng(seed)
    kind, components = DTYPES[dtype]
    most = kind(2.0 ** (np.finfo(kind).maxexp - 1))
    array = rng.choice(np.array([-most, most, most / 2], kind), (size, *components))
    array[:2] = np.array([most, -most]).reshape(2, *[1] * len(components))
    tensor = upload(device, dtype, array, components)
    check_statistics(statistics(tensor), array)
    plane = array.reshape(1, size, -1)
    side = max(1, math.ceil(size / 8))
    check_picture(picture(tensor, 1, 8), plane, (1, side))


def test_counts_beyond_32_bits(device: Any) -> None:
    t = spy.Tensor.from_numpy(device, np.array([[0.0], [np.nan], [3.0], [np.inf]], np.float32))
    view = t.view((4, 70_000, 70_000), (1, 0, 0), 0)
    found = statistics(view)
    assert (found.count, found.zeros, found.nan, found.posinf) == (4 * 4_900_000_000, *[4_900_000_000] * 3)
    assert (found.mean, found.std) == (1.5, 1.5)
    assert histogram(view, 2).counts.tolist() == [4_900_000_000] * 2


def test_one_element_and_none(device: Any) -> None:
    one = spy.Tensor.from_numpy(device, np.array([2.5], np.float32))
    assert statistics(one).std == 0.0
    assert statistics(one).mean == 2.5
    h = histogram(one, 4)
    assert h.edges.tolist() == [2.0, 2.25, 2.5, 2.75, 3.0]
    assert h.counts.tolist() == [0, 0, 1, 0]
    p = picture(one)
    assert p.exact
    assert p.mean.tolist() == [[2.5]]
    none = one.view((0,), (1,), 0)
    assert statistics(none) == statistics(np.zeros(0, np.float32))
    assert statistics(none).count == 0
    assert histogram(none, 3).counts.tolist() == [0, 0, 0]
    assert picture(none).mean.shape == (1, 0)
    assert nonfinite(none) == []
    assert summary(none).bytes == 0


def test_zero_dimensions(device: Any) -> None:
    for value in (2.5, np.nan):
        t = spy.Tensor.from_numpy(device, np.array([value], np.float32)).view((), (), 0)
        check_statistics(statistics(t), np.array(value, np.float32))
        assert picture(t).mean.shape == (1, 1)
        assert nonfinite(t) == ([()] if np.isnan(value) else [])
        assert nonfinite(np.array(value)) == ([()] if np.isnan(value) else [])


def test_structs_have_a_summary_a_field(device: Any, seed: int) -> None:
    text = """
    struct Inner { half h; float3 v; bool b; }
    struct Outer { float a; Inner inner[2]; float3x2 m; double d; uint8_t c; int64_t q; }
    """
    module = spy.Module(device.load_module_from_source(f"summary_structs_{seed}", text))
    t = spy.Tensor.empty(device, (5, 7), module.Outer)
    layout = t.dtype.buffer_layout
    rng = np.random.default_rng(seed)
    memory = rng.integers(0, 256, (35, layout.stride), np.uint8)

    # What each field holds, from the compiler's own offsets.
    def member(reflection: Any, name: str) -> Any:
        return next(f for f in reflection.fields if f.name == name)

    outer = layout.reflection
    inner = member(outer, "inner").type_layout
    element = inner.element_type_layout
    at = member(outer, "inner").offset
    booleans = member(element, "b").type_layout.size
    wanted: dict[str, Any] = {}

    def put(name: str, offset: int, kind: Any, shape: tuple[int, ...], strides: tuple[int, ...] = ()) -> None:
        kind = np.dtype(kind)
        values = rng.normal(size=(35, *shape)) * 30
        boolean = name.endswith(".b")
        if boolean:
            values = (values > 0) * 1.0
        stored = (np.abs(values) if kind.kind == "u" else values).astype(kind)
        for where in np.ndindex(*shape):
            begin = offset + sum(i * s for i, s in zip(where, strides, strict=True))
            raw = (
                np.ascontiguousarray(stored[(slice(None), *where)]).view(np.uint8).reshape(35, kind.itemsize)
            )
            memory[:, begin : begin + kind.itemsize] = raw
        wanted[name] = stored.astype(np.bool_) if boolean else stored

    put("a", member(outer, "a").offset, np.float32, ())
    put("inner.h", at + member(element, "h").offset, np.float16, (2,), (inner.element_type_layout.stride,))
    put(
        "inner.v", at + member(element, "v").offset, np.float32, (2, 3), (inner.element_type_layout.stride, 4)
    )
    put(
        "inner.b", at + member(element, "b").offset, f"u{booleans}", (2,), (inner.element_type_layout.stride,)
    )
    row = member(outer, "m").type_layout.element_type_layout.stride
    put("m", member(outer, "m").offset, np.float32, (3, 2), (row, 4))
    put("d", member(outer, "d").offset, np.float64, ())
    put("c", member(outer, "c").offset, np.uint8, ())
    put("q", member(outer, "q").offset, np.int64, ())
    t.copy_from_numpy(memory.reshape(-1))
    s = summary(t)
    assert s.value is None
    assert list(s.fields) == list(wanted)
    for name, stored in wanted.items():
        check_statistics(s.fields[name].value, stored, (seed, name))
        check_statistics(statistics(t, field=name), stored, (seed, name))
        h = histogram(t, 8, field=name)
        assert h.counts.tolist() == reference_counts(stored, h.edges)
        got = elements(t, field=name)
        np.testing.assert_array_equal(got, stored.reshape(5, 7, *stored.shape[1:]).astype(got.dtype))
        check_picture(picture(t, 3, 3, field=name), stored.reshape(5, 7, -1), (2, 3), (seed, name))
    with pytest.raises(ArgumentError, match="name one of their fields"):
        statistics(t)
    with pytest.raises(ArgumentError, match="no field 'z'"):
        statistics(t, field="z")


@pytest.mark.parametrize("kind", ["float", "half", "float3", "float2x2"])
def test_gradient_and_ratio(device: Any, seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    dtype, components = {
        "float": (np.float32, ()),
        "half": (np.float16, ()),
        "float3": (np.float32, (3,)),
        "float2x2": (np.float32, (2, 2)),
    }[kind]
    x, g = (numbers(rng, dtype, (31, 45, *components), "infinite") for _ in range(2))
    t = upload(device, kind, x, components).with_grads(upload(device, kind, g, components), zero=False)
    s = summary(t, bins=16)
    assert s.shape == (31, 45)
    assert s.dtype == kind
    assert s.bytes == x.nbytes
    check_statistics(s.value, x)
    check_statistics(s.gradient, g)
    check_statistics(statistics(t, gradient=True), g)
    with np.errstate(all="ignore"):
        ratio = np.abs(g.astype(np.float64)) / np.abs(x.astype(np.float64))
    found = s.ratio
    assert found is not None
    assert (found.count, found.nan, found.posinf, found.zeros) == (
        ratio.size,
        np.isnan(ratio).sum(),
        np.isposinf(ratio).sum(),
        (ratio == 0).sum(),
    )
    some = ratio[np.isfinite(ratio)]
    np.testing.assert_allclose(
        [found.minimum, found.maximum, found.mean, found.std],
        [some.min(), some.max(), some.mean(), some.std()],
        rtol=1e-6,
    )
    assert s.gradient_histogram is not None
    assert s.gradient_histogram.edges[0] == -s.gradient_histogram.edges[-1]
    assert s.gradient_histogram.counts.tolist() == reference_counts(g, s.gradient_histogram.edges)
    check_picture(picture(t, 5, 5, gradient=True), g.reshape(31, 45, -1), (7, 9))


def test_the_gradient_of_a_view_is_its_part(device: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, g = rng.normal(size=(2, 6, 8)).astype(np.float32)
    t = upload(device, "float", x, ()).with_grads(upload(device, "float", g, ()), zero=False)
    check_statistics(statistics(t[2], gradient=True), g[2])
    check_statistics(statistics(t[1::2, 3:], gradient=True), g[1::2, 3:])
    found = summary(t[1::2, 3:]).ratio
    assert found is not None
    part = np.abs(g[1::2, 3:].astype(np.float64) / x[1::2, 3:])
    assert abs(found.mean - part.mean()) < 1e-6 * part.mean()
    # `with_grads` of SlangLab refuses such a gradient; slangpy's own does not.
    own = mended._own["with_grads"]
    stray = own(upload(device, "float", x, ()), upload(device, "float", g[:, :3], ()), None, False)
    said = summary(stray)
    assert said.gradient is None
    assert "shape (6, 3)" in said.notes[0]
    with pytest.raises(ArgumentError, match="no gradient"):
        statistics(upload(device, "float", x, ()), gradient=True)


def test_without_double_precision_the_host_computes(
    device: Any, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    monkeypatch.setattr(kernels, "has_wide", lambda device: False)
    seen = 0
    while seen < 25:
        c = case(device, rng, 3000)
        if c.array.dtype.itemsize < 4 or c.array.dtype == np.float32:
            continue
        seen += 1
        check_statistics(statistics(c.tensor), c.array, (seed, c))
        plane = view_of(c)
        p = picture(c.tensor, 9, 9)
        check_picture(p, plane, p.block, (seed, c))
        np.testing.assert_array_equal(elements(c.tensor).reshape(plane.shape), plane)


def test_results_repeat_and_tensors_stay(device: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for dtype in FLOATING:
        if dtype.endswith(("2", "3", "4", "]")):
            continue
        x = numbers(
            rng, {"float": np.float32, "half": np.float16, "double": np.float64}[dtype], (50021,), "infinite"
        )
        t = upload(device, dtype, x, ())
        first = statistics(t)
        assert first.finite > 0
        assert statistics(t) == first
        np.testing.assert_array_equal(t.to_numpy(), x)


def test_views_outside_their_memory_are_refused(device: Any) -> None:
    t = spy.Tensor.from_numpy(device, np.zeros(8, np.float32))
    with pytest.raises(ArgumentError, match="reaches beyond the memory"):
        statistics(t.view((100,), (1,), 0))


def test_what_cannot_be_summarised_is_said() -> None:
    with pytest.raises(ArgumentError, match="complex"):
        statistics(np.zeros(3, complex))
    with pytest.raises(ArgumentError, match="bins"):
        histogram(np.zeros(3), 0)
    with pytest.raises(ArgumentError, match="finite number"):
        histogram(np.zeros(3), 3, (0.0, np.inf))
    with pytest.raises(ArgumentError, match="no gradient"):
        picture(np.zeros(3), gradient=True)


def test_a_closed_device_is_let_go(device: Any) -> None:
    own = spy.Device(
        type=device.info.type, enable_hot_reload=False, compiler_options={"include_paths": [spy.SHADER_PATH]}
    )
    statistics(spy.Tensor.from_numpy(own, np.ones(5, np.float32)))
    assert id(own) in kernels._shelves
    own.close()
    assert id(own) not in kernels._shelves
    gone = weakref.ref(own)
    del own
    gc.collect()
    assert gone() is None


def test_kernels_are_loaded_once_and_dropped_on_request(device: Any) -> None:
    form = kernels.FORMATS["float32"]
    macros = {"GROUP": kernels.group_size(device), "FLAT": 1}
    one = kernels.kernel(device, "statistics", "statistics", form, **macros)
    assert kernels.kernel(device, "statistics", "statistics", form, **macros) is one
    kernels.drop(device)
    assert kernels.kernel(device, "statistics", "statistics", form, **macros) is not one
