"""The mended methods of slangpy.Tensor, against numpy."""

import numpy as np
import pytest
import slangpy as spy

import slanglab
from slanglab.errors import ArgumentError
from slanglab.tensors import mended

NUMBERS = {
    "half": np.float16,
    "float": np.float32,
    "double": np.float64,
    "uint8_t": np.uint8,
    "int16_t": np.int16,
    "int": np.int32,
    "uint64_t": np.uint64,
    "half3": np.float16,
    "float3": np.float32,
    "half2x2": np.float16,
    "float2[3]": np.float32,
}


@pytest.fixture(autouse=True)
def _mended():
    was = mended.installed()
    mended.install()
    yield
    if not was:
        mended.uninstall()


def _filled(device, rng, shape, dtype):
    """Return a tensor of small whole numbers, none of them 0, and what it holds."""
    made = spy.Tensor.empty(device, shape, dtype)
    values = rng.integers(1, 100, (*shape, *made.dtype.shape.as_tuple())).astype(NUMBERS[dtype])
    made.copy_from_numpy(values)
    assert np.array_equal(made.to_numpy(), values)
    return made, values


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("shape", [(1,), (3,), (5,), (3, 7)])
def test_clear_reaches_the_last_byte(device, rng, dtype, shape):
    t, _ = _filled(device, rng, shape, dtype)
    t.clear()
    assert not t.to_numpy().any()


@pytest.mark.parametrize("dtype", NUMBERS)
def test_zeros_are_zero_where_memory_was_used_before(device, rng, dtype):
    for _ in range(3):  # drivers hand out memory that was just let go
        t, _ = _filled(device, rng, (3,), dtype)
        like = spy.Tensor.zeros_like(t)
        del t
        assert not spy.Tensor.zeros(device, (3,), dtype).to_numpy().any()
        assert not like.to_numpy().any()


VIEWS = {
    "row": np.s_[1],
    "rows": np.s_[1:3],
    "column": np.s_[:, 1],
    "block": np.s_[1:3, 2:5],
    "steps": np.s_[::2, 1::3],
    "element": np.s_[2:3, 4:5],
}


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("view", VIEWS)
def test_clear_of_a_view_clears_the_view(device, rng, dtype, view):
    t, values = _filled(device, rng, (5, 7), dtype)
    t[VIEWS[view]].clear()
    values[VIEWS[view]] = 0
    assert np.array_equal(t.to_numpy(), values)


def test_clear_of_three_axes_and_of_a_transposed_view(device, rng):
    t, values = _filled(device, rng, (3, 4, 5), "float")
    t[0:2, 1:3, ::2].clear()
    values[0:2, 1:3, ::2] = 0
    assert np.array_equal(t.to_numpy(), values)
    across = t.view((3, 5), (20, 1), 5)  # t[:, 1]
    across.clear()
    values[:, 1] = 0
    assert np.array_equal(t.to_numpy(), values)


def test_clear_is_recorded_on_an_encoder(device, rng):
    t, values = _filled(device, rng, (3, 5), "half")
    whole, _ = _filled(device, rng, (5,), "uint8_t")
    encoder = device.create_command_encoder()
    t[:, 2].clear(encoder)
    whole.clear(cmd=encoder)
    assert np.array_equal(t.to_numpy(), values)
    assert whole.to_numpy().all()
    device.submit_command_buffer(encoder.finish())
    values[:, 2] = 0
    assert np.array_equal(t.to_numpy(), values)
    assert not whole.to_numpy().any()


def test_clear_of_a_gradient_and_of_an_empty_view(device, rng):
    t = _filled(device, rng, (3,), "half")[0].with_grads()
    t.grad.copy_from_numpy(np.ones(3, np.float16))
    t.grad.clear()
    assert not t.grad.to_numpy().any()
    assert t.to_numpy().all()
    t.view((0,), (1,), 0).clear()
    assert t.to_numpy().all()


def test_an_upload_takes_any_layout_of_the_right_numbers(device, rng):
    t = spy.Tensor.empty(device, (4, 3), "float")
    values = rng.random((4, 3)).astype(np.float32)
    frozen = values.copy()
    frozen.flags.writeable = False
    wide = np.zeros((8, 6), np.float32)
    wide[::2, ::2] = values
    for given in (
        values,
        frozen,
        np.asfortranarray(values),
        values.astype(">f4"),
        wide[::2, ::2],
        np.ascontiguousarray(values[::-1])[::-1],
        values.ravel(),
        values[:, None],
    ):
        t.clear()
        t.copy_from_numpy(given)
        assert np.array_equal(t.to_numpy(), values)


def test_axes_of_length_one_have_any_strides(device, rng):
    values = rng.random((3, 5)).astype(np.float32)
    for given, shape in (
        (values[None], (1, 3, 5)),
        (values[:1], (1, 5)),
        (values[:1, :1], (1, 1)),
        (values[2, 3:4], (1,)),
    ):
        t = spy.Tensor.empty(device, shape, "float")
        t.copy_from_numpy(given)
        assert np.array_equal(t.to_numpy(), given)


def test_bools_go_up_and_come_back(device, rng):
    import slanglab

    pick = slanglab.compile("float pick(bool c) { return c ? 1.0 : -1.0; }", "mended_bools").pick
    t = spy.Tensor.empty(device, (5, 7), "bool")
    for _ in range(4):
        values = rng.random((5, 7)) < 0.5
        t.copy_from_numpy(values)
        assert np.array_equal(pick(t).to_numpy(), np.where(values, 1, -1))
        assert np.array_equal(t.to_numpy(), values)
        assert t.to_numpy().dtype == np.bool_
        assert np.array_equal(t[1:4, ::2].to_numpy(), values[1:4, ::2])
        assert np.array_equal(slanglab.tensor(values).to_numpy(), values)


@pytest.mark.parametrize(
    "given",
    [
        np.ones((4, 3), np.int32),
        np.ones((4, 3), np.float64),
        np.ones((2, 3), np.float64),  # of as many bytes
        np.ones((3, 4), np.float32),
        np.ones((2, 3), np.float32),
        np.ones((4, 3, 2), np.float32),
        np.ones(13, np.float32),
        np.array(1, np.float32),
    ],
)
def test_an_upload_of_something_else_is_refused_and_changes_nothing(device, rng, given):
    t, values = _filled(device, rng, (4, 3), "float")
    with pytest.raises(ArgumentError, match=r"(does not fit|is larger than) a tensor of float") as caught:
        t.copy_from_numpy(given)
    assert "float32, shape (4, 3)" in str(caught.value)
    assert "slanglab.assign" in str(caught.value)
    assert np.array_equal(t.to_numpy(), values)


def test_an_upload_of_structs_is_bytes(device, rng, shell):
    import slanglab

    cell = slanglab.compile(
        "struct P { float a; int b; };\nP make(float x) { P p; p.a = x; p.b = int(x); return p; }", "mended_p"
    )
    x, _ = _filled(device, rng, (5,), "float")
    points = cell.make(x, _result="tensor")
    stored = points.to_numpy()
    points.clear()
    assert not points.to_numpy().any()
    points.copy_from_numpy(stored)
    assert np.array_equal(points.to_numpy(), stored)
    with pytest.raises(ArgumentError, match="does not fit a tensor of P"):
        points.copy_from_numpy(stored[:4])


def test_an_upload_to_a_view(device, rng):
    t, values = _filled(device, rng, (4, 3), "float")
    t[2].copy_from_numpy(np.full(3, 0.5, np.float32))
    values[2] = 0.5
    assert np.array_equal(t.to_numpy(), values)
    with pytest.raises(RuntimeError, match="contiguous"):
        t[:, 1].copy_from_numpy(np.ones(4, np.float32))


def test_with_grads_keeps_what_it_is_given(device, rng):
    t, values = _filled(device, rng, (3,), "float")
    seed, held = _filled(device, rng, (3,), "float")
    out, kept = _filled(device, rng, (3,), "float")
    made = t.with_grads(grad_in=seed, grad_out=out)
    assert np.array_equal(made.grad_in.to_numpy(), held)
    assert np.array_equal(made.grad_out.to_numpy(), kept)
    one = t.with_grads(grad_out=out)
    assert one.grad_in is None
    assert np.array_equal(one.grad_out.to_numpy(), kept)
    t.with_grads(seed, seed, zero=False)
    assert np.array_equal(seed.to_numpy(), held)
    t.with_grads(seed, out, True)
    assert not seed.to_numpy().any()
    assert not out.to_numpy().any()
    assert np.array_equal(t.to_numpy(), values)


def test_with_grads_zeroes_what_it_makes(device, rng):
    for dtype in ("float", "half", "half3"):
        for _ in range(3):
            t, _ = _filled(device, rng, (3,), dtype)
            made = t.with_grads()
            assert not made.grad.to_numpy().any()
            del t, made


def test_with_grads_refuses_another_shape_or_type(device, rng):
    t, _ = _filled(device, rng, (3,), "float")
    for wrong in (spy.Tensor.zeros(device, (4,), "float"), spy.Tensor.zeros(device, (3,), "half")):
        for name in ("grad_in", "grad_out"):
            with pytest.raises(ArgumentError, match=name) as caught:
                t.with_grads(**{name: wrong})
            assert "float, shape (3,)" in str(caught.value)


def test_uninstall_leaves_nothing(device, rng):
    names = ("clear", "zeros", "zeros_like", "copy_from_numpy", "to_numpy", "with_grads")
    own = mended._own
    assert all(spy.Tensor.__dict__[n] is not own[n] for n in names)
    mended.install()
    mended.uninstall()
    try:
        assert not mended.installed()
        assert all(spy.Tensor.__dict__[n] is own[n] for n in names)
        assert all(type(own[n]).__module__ == "nanobind" for n in names)
        # slangpy's own: the faults that are mended here, so that the tests above could fail
        t = spy.Tensor.empty(device, (3,), "half")
        t.copy_from_numpy(np.ones(3, np.float16))
        t.clear()
        assert t.to_numpy().tolist() == [0, 0, 1]
        seed = spy.Tensor.from_numpy(device, np.ones(3, np.float32))
        seed.with_grads(grad_in=seed)
        assert not seed.to_numpy().any()
    finally:
        mended.install()


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[::2],
        lambda a: a[::-1],
        lambda a: a[:, ::3],
        lambda a: a.T,
        lambda a: a.astype(">f4"),
        lambda a: np.broadcast_to(a[0], (4, a.shape[1])),
        lambda a: a[:, 2:3],
    ],
)
def test_from_numpy_takes_any_layout(device, rng, view):
    array = view(rng.normal(size=(6, 9)).astype(np.float32))
    array.flags.writeable = False
    assert np.array_equal(spy.Tensor.from_numpy(device, array).to_numpy(), array)


def test_vectors_of_bools_come_back_with_their_axis(device, rng):
    flags = slanglab.compile("bool3 flags(float3 v) { return v > 0; }", "mended_bool_vectors").flags
    v = rng.normal(size=(5, 7, 3)).astype(np.float32)
    made = flags(v, _result="tensor")
    assert np.array_equal(made.to_numpy(), v > 0)
    assert np.array_equal(made[2:, 3].to_numpy(), v[2:, 3] > 0)
    assert np.array_equal(made.view((4,), (8,), 1).to_numpy(), (v > 0).reshape(-1, 3)[1::8][:4])


def test_tensors_in_upload_memory_can_be_read(device, rng):
    """slangpy reads none; what a bridge to another library writes there is read by checks and views."""
    usage = spy.BufferUsage.unordered_access | spy.BufferUsage.shader_resource | spy.BufferUsage.copy_source
    for count in (1, 5, 70000):
        values = rng.standard_normal(count).astype(np.float32)
        made = spy.Tensor.empty(device, (count,), "float", usage=usage, memory_type=spy.MemoryType.upload)
        made.copy_from_numpy(values)
        assert np.array_equal(made.to_numpy(), values)
