"""Backward calls: what is refused, what is mended, what is added to (cases.json, GA and AD-24; facts of slangpy 0.43.1)."""

import numpy as np
import pytest
import slangpy as spy

import slanglab
from slanglab.engine.dispatch import GradientWarning
from slanglab.engine.plans import least
from slanglab.errors import ArgumentError, CallError

SOURCE = """
import slangpy;
[Differentiable] float square(float x) { return x * x; }
[Differentiable] float product(float a, float b) { return a * b; }
[Differentiable] float frozen(int i, IDiffTensor<float, 1> x, IDiffTensor<float, 1> y) { return x[i] * y[i]; }
[Differentiable] void step(int i, IRWDiffTensor<float, 1> x) { x[i] = x[i] * x[i]; }
[Differentiable] void both(float x, inout float y) { y = y * x + x; }
struct Plain { float a; float b; };
[Differentiable] float of_plain(Plain p, float k) { return p.a * p.b * k; }
struct Pair : IDifferentiable { float a; float b; };
[Differentiable] float of_pair(Pair p) { return p.a * p.b; }
[Differentiable] float constant(no_diff float x, float k) { return x * k; }
[Differentiable] void out_(float x, out float y) { y = x * x * x; }
float add_plain(int i, RWTensor<float, 1> t) { t[0] = t[0] + 1.0; return 0; }
void add_atomic(int i, AtomicTensor<float, 1> t) { t.add(0, 1.0); }
"""


@pytest.fixture(scope="module")
def m(device):
    return slanglab.compile(SOURCE, "gradients_under_test")


def seeded(values, seeds=None):
    """Return a tensor whose gradient holds seeds, ones unless given."""
    t = slanglab.tensor(np.asarray(values, np.float32), grad=True)
    t.grad.copy_from_numpy(
        np.ones(len(values), np.float32) if seeds is None else np.asarray(seeds, np.float32)
    )
    return t


def grad(t):
    return t.grad_out.to_numpy()


# ----- accumulation -----


def test_GA_01_with_grads_leaves_the_seeds_that_it_is_given(m):
    seeds = slanglab.ones((2,))
    x = slanglab.tensor([3.0, 5.0]).with_grads(grad_in=seeds, grad_out=slanglab.zeros((2,)))
    assert seeds.to_numpy().tolist() == [1, 1]
    m.step.bwds(spy.grid((2,)), x)
    assert grad(x).tolist() == [6, 10]


def test_GA_02_gradients_add_up_and_the_report_says_so(m, control):
    x, r = seeded([1, 2], [0, 0]), seeded([0, 0])
    m.square.bwds(x, _result=r)
    assert grad(x).tolist() == [2, 4]
    m.square.bwds(x, _result=r)
    assert grad(x).tolist() == [4, 8]
    assert slanglab.last_run().gradients == "accumulate"
    assert "added to what was there" in str(slanglab.last_run())
    x.grad.clear()
    m.square.bwds(x, _result=r)
    assert grad(x).tolist() == [2, 4]


def test_with_the_policy_zero_a_call_starts_from_nothing(m, control):
    control.change(gradients="zero")
    x, r = seeded([1, 2], [7, 7]), seeded([0, 0], [1, 10])
    for _ in range(3):
        m.square.bwds(x, _result=r)
        assert grad(x).tolist() == [2, 40]
    assert r.grad.to_numpy().tolist() == [1, 10]
    assert slanglab.last_run().gradients == "zero"


def test_with_the_policy_zero_one_tensor_for_two_parameters_gets_both_parts(m, control):
    control.change(gradients="zero")
    x, r = seeded([3, 4], [9, 9]), seeded([0, 0])
    m.product.bwds(x, x, _result=r)
    assert grad(x).tolist() == [6, 8]


def test_with_the_policy_zero_seeds_of_out_parameters_and_fields_stay_and_go(m, control):
    control.change(gradients="zero")
    x, y = seeded([1, 2], [5, 5]), seeded([0, 0], [1, 2])
    m.out_.bwds(x, y)
    assert grad(x).tolist() == [3, 24]
    assert y.grad.to_numpy().tolist() == [1, 2]
    a, b, r = seeded([2, 3], [4, 4]), seeded([5, 7], [4, 4]), seeded([0, 0])
    m.of_pair.bwds({"a": a, "b": b}, _result=r)
    assert (grad(a).tolist(), grad(b).tolist()) == ([5, 7], [2, 3])


def test_GA_03_a_result_without_a_gradient_is_refused(m):
    x = seeded([1, 2], [0, 0])
    r = m.square(x, _result="tensor")
    with pytest.raises(CallError, match="no gradient to start from"):
        m.square.bwds(x, _result=r)
    for other in (np.ones(2, np.float32), 1.0):
        with pytest.raises(CallError, match="no gradient to start from"):
            m.square.bwds(x, _result=other)


def test_a_backward_call_of_numbers_alone_says_that_it_computes_nothing(m):
    for _ in range(2):
        with pytest.warns(GradientWarning, match="got numbers only"):
            m.square.bwds(2.0, _result=1.0)
    with pytest.raises(CallError, match="the seed is missing"):
        m.square.bwds(2.0)


def test_GA_04_a_missing_result_is_named(m):
    with pytest.raises(CallError, match="the seed is missing"):
        m.square.bwds(seeded([1, 2]))


def test_GA_05_a_tensor_without_a_gradient_is_frozen_beside_one_that_has_one(m):
    x, y, r = seeded([1, 2], [0, 0]), slanglab.tensor([3.0, 4.0]), seeded([0, 0])
    m.frozen.bwds(spy.grid((2,)), x, y, _result=r)
    assert grad(x).tolist() == [3, 4]
    assert y.grad_out is None
    assert slanglab.last_run().frozen == ("y",)
    assert "no gradient  y" in str(slanglab.last_run())


def test_GA_05_also_when_the_other_one_is_frozen_later(m):
    x, y, r = slanglab.tensor([1.0, 2.0]), seeded([3, 4], [0, 0]), seeded([0, 0])
    for times in (1, 2):
        m.frozen.bwds(spy.grid((2,)), x, y, _result=r)
        assert grad(y).tolist() == [times, 2 * times]


def test_GA_06_one_tensor_for_both_arguments(m):
    x = slanglab.tensor([3.0, 4.0], grad=True)
    y = x.with_grads()
    m.product.bwds(y, y, _result=seeded([0, 0]))
    assert (grad(y).tolist(), grad(x).tolist()) == ([6, 8], [0, 0])


def test_GA_07_atomic_additions_all_arrive(m):
    t = slanglab.zeros((1,))
    m.add_atomic(spy.grid((20000,)), t)
    assert t.to_numpy().tolist() == [20000]


def test_GA_08_numbers_receive_no_gradient_and_the_report_names_them(m):
    x, r = seeded([1, 2, 3], [0, 0, 0]), seeded([0, 0, 0])
    m.product.bwds(5.0, x, _result=r)
    assert slanglab.last_run().frozen == ("a",)
    a = slanglab.tensor(np.array([5], np.float32), grad=True)
    m.product.bwds(a, x, _result=r)
    assert grad(a).tolist() == [6]
    assert slanglab.last_run().frozen == ()


# ----- what slangpy loses -----


def test_AD_24_inout_parameters_are_refused(m):
    x = seeded([1, 2], [0, 0])
    y = slanglab.tensor([3.0, 4.0]).with_grads(grad_in=slanglab.ones((2,)), grad_out=slanglab.zeros((2,)))
    with pytest.raises(CallError, match=r"inout parameter \(y\)") as refused:
        m.both.bwds(x, y)
    assert "IRWDiffTensor" in str(refused.value)


def test_gradients_of_a_struct_that_is_not_differentiable_are_refused(m):
    k, r = seeded([1, 1], [0, 0]), seeded([0, 0])
    fields = {"a": seeded([1, 2]), "b": slanglab.tensor([3.0, 4.0])}
    with pytest.raises(ArgumentError, match="Plain is not differentiable") as refused:
        m.of_plain.bwds(fields, k, _result=r)
    assert "IDifferentiable" in str(refused.value)
    m.of_plain.bwds({"a": slanglab.tensor([1.0, 2.0]), "b": fields["b"]}, k, _result=r)
    assert grad(k).tolist() == [3, 8]


def test_a_gradient_of_a_no_diff_parameter_is_no_reason_to_run(m):
    r = seeded([0, 0])
    with pytest.raises(CallError, match="no argument can receive a gradient"):
        m.constant.bwds(seeded([1, 2]), 3.0, _result=r)


def test_an_out_parameter_alone_is_no_reason_to_run(m):
    with pytest.raises(CallError, match="no argument can receive a gradient"):
        m.out_.bwds(2.0, seeded([1, 2]))


def test_tensors_of_another_device_are_refused(m, device):
    other = spy.Device(type=device.info.type, compiler_options={"include_paths": [spy.SHADER_PATH]})
    try:
        strange = spy.Tensor.zeros(other, (2,), "float").with_grads()
        with pytest.raises(ArgumentError, match="another device"):
            m.square.bwds(strange, _result=seeded([0, 0]))
        with pytest.raises(ArgumentError, match="another device"):
            m.square.bwds(seeded([1, 2]), _result=strange)
    finally:
        del strange
        other.close()


# ----- in place -----


def in_place(values):
    n = len(values)
    return slanglab.tensor(np.asarray(values, np.float32)).with_grads(
        grad_in=slanglab.ones((n,)), grad_out=slanglab.zeros((n,))
    )


def test_a_backward_call_starts_from_what_the_forward_call_overwrote(m):
    x = in_place([1, 2, 3, 4])
    grid = spy.grid((4,))
    m.step(grid, x)
    assert x.to_numpy().tolist() == [1, 4, 9, 16]
    m.step.bwds(grid, x)
    assert grad(x).tolist() == [2, 4, 6, 8]
    assert x.to_numpy().tolist() == [1, 4, 9, 16]
    m.step.bwds(grid, x)
    assert grad(x).tolist() == [4, 8, 12, 16]


def test_a_backward_call_without_a_forward_one_leaves_the_tensor_as_it_is(m):
    x = in_place([1, 2, 3, 4])
    for times in (1, 2):
        m.step.bwds(spy.grid((4,)), x)
        assert grad(x).tolist() == [2 * times, 4 * times, 6 * times, 8 * times]
        assert x.to_numpy().tolist() == [1, 2, 3, 4]


def test_values_that_were_written_after_the_forward_call_count(m):
    x = in_place([1, 2, 3, 4])
    m.step(spy.grid((4,)), x)
    x.copy_from_numpy(np.array([5, 6, 7, 8], np.float32))
    m.step.bwds(spy.grid((4,)), x)
    assert grad(x).tolist() == [10, 12, 14, 16]
    assert x.to_numpy().tolist() == [5, 6, 7, 8]


def test_values_that_the_user_restored_count_too(m):
    x = in_place([1, 2, 3, 4])
    m.step(spy.grid((4,)), x)
    x.copy_from_numpy(np.array([1, 2, 3, 4], np.float32))
    m.step.bwds(spy.grid((4,)), x)
    assert grad(x).tolist() == [2, 4, 6, 8]


def test_each_of_two_tensors_is_told_from_the_other(m):
    x, y = in_place([1, 2]), in_place([1, 4])
    m.step(spy.grid((2,)), x)  # x now holds what y holds
    m.step.bwds(spy.grid((2,)), y)
    assert grad(y).tolist() == [2, 8]


def test_two_steps_are_two_calls(m):
    x = in_place([2, 3])
    m.step(spy.grid((2,)), x)
    m.step(spy.grid((2,)), x)
    m.step.bwds(spy.grid((2,)), x)  # of the second step alone, from 4 and 9
    assert grad(x).tolist() == [8, 18]
    assert x.to_numpy().tolist() == [16, 81]


def test_one_buffer_for_seed_and_gradient_is_refused_in_place(m):
    x = slanglab.tensor([1.0, 2.0], grad=True)
    with pytest.raises(ArgumentError, match="share one buffer") as refused:
        m.step.bwds(spy.grid((2,)), x)
    assert "with_grads(grad_in=" in str(refused.value)


def test_in_place_at_an_odd_place_in_a_larger_buffer(m, rng):
    values = rng.normal(size=(3, 7)).astype(np.float32)
    whole = slanglab.tensor(values)
    row = whole[1].with_grads(grad_in=slanglab.ones((7,)), grad_out=slanglab.zeros((7,)))
    m.step(spy.grid((7,)), row)
    m.step.bwds(spy.grid((7,)), row)
    np.testing.assert_allclose(grad(row), 2 * values[1].astype(np.float64), rtol=1e-6)
    expected = values.astype(np.float64)
    expected[1] **= 2
    np.testing.assert_allclose(whole.to_numpy(), expected, rtol=1e-6)


# ----- large calls, on slangpy's own path and appended -----


LARGE = """
import slangpy;
struct Line : IDifferentiable { float slope; float offset; };
[Differentiable] float line(Line l, float x) { return l.slope * x + l.offset; }
[Differentiable] float gathered(int i, IDiffTensor<float, 1> w, float x) { return w[i % 4] * x; }
"""


@pytest.fixture(scope="module")
def large(device):
    return slanglab.compile(LARGE, "large_gradients")


def test_fields_that_every_thread_reads_are_summed(large, rng):
    n = max(1 << 18, least(slanglab.current().device))
    values = rng.uniform(0.5, 1.5, n).astype(np.float32)
    x, r = slanglab.tensor(values), seeded(np.zeros(n))
    fields = {
        name: slanglab.tensor(np.array([v], np.float32), grad=True)
        for name, v in (("slope", 2), ("offset", 3))
    }
    large.line.bwds(fields, x, _result=r)
    run = slanglab.last_run()
    assert run.path == "slangpy"
    assert "struct" in run.reason or "Line" in run.reason
    np.testing.assert_allclose(grad(fields["slope"]), [values.astype(np.float64).sum()], rtol=1e-6)
    np.testing.assert_allclose(grad(fields["offset"]), [n], rtol=1e-6)


def test_calls_that_are_appended_are_summed_as_well(m, device, rng):
    n = 1 << 18
    values = rng.uniform(0.5, 1.5, n).astype(np.float32)
    a, x, r = (
        slanglab.tensor(np.array([2], np.float32), grad=True),
        slanglab.tensor(values),
        seeded(np.zeros(n)),
    )
    encoder = device.create_command_encoder()
    for _ in range(3):
        m.product.bwds.append_to(encoder, a, x, _result=r)
    device.submit_command_buffer(encoder.finish())
    np.testing.assert_allclose(grad(a), [3 * values.astype(np.float64).sum()], rtol=1e-6)


@pytest.mark.usefixtures("adding_halves")
def test_a_half_that_takes_too_many_additions_is_named(large, device):
    module = slanglab.compile(
        "import slangpy;\n[Differentiable] half g(int i, IDiffTensor<half, 1> w, half x) { return w[i % 4] * x; }",
        "halves",
    )
    n = 1 << 16
    w = slanglab.tensor(np.ones(4, np.float16), grad=True)
    x = slanglab.tensor(np.ones(n, np.float16))
    r = slanglab.tensor(np.zeros(n, np.float16), grad=True)
    r.grad.copy_from_numpy(np.ones(n, np.float16))
    with pytest.warns(UserWarning, match="additions"):
        module.g.bwds(spy.grid((n,)), w, x, _result=r)
    assert any("w" in text for text in slanglab.last_run().warnings)


# ----- views -----


@pytest.mark.parametrize("again", [1, 20])
def test_the_gradient_of_a_view_is_part_of_its_owners(m, rng, again):
    values = rng.normal(size=(5, 6)).astype(np.float32)
    whole = slanglab.tensor(values, grad=True)
    seeds = slanglab.tensor(np.zeros((5, 6), np.float32), grad=True)
    weights = rng.normal(size=(5, 6)).astype(np.float32)
    seeds.grad.copy_from_numpy(weights)
    for _ in range(again):
        m.square.bwds(whole[2], _result=seeds[3])
    expected = np.zeros((5, 6))
    expected[2] = again * 2 * values[2].astype(np.float64) * weights[3]
    np.testing.assert_allclose(grad(whole), expected, rtol=1e-5, atol=1e-6)
    m.square.bwds(whole[:, 1], _result=seeds[:, 4])
    expected[:, 1] += 2 * values[:, 1].astype(np.float64) * weights[:, 4]
    np.testing.assert_allclose(grad(whole), expected, rtol=1e-5, atol=1e-6)


def test_a_view_of_the_other_order_too(m, rng):
    values = rng.normal(size=(4, 6)).astype(np.float32)
    whole = slanglab.tensor(values, grad=True)
    turned = whole.view((6, 4), (1, 6))
    seeds = slanglab.tensor(np.zeros((6, 4), np.float32), grad=True)
    weights = rng.normal(size=(6, 4)).astype(np.float32)
    seeds.grad.copy_from_numpy(weights)
    for _ in range(12):
        m.square.bwds(turned, _result=seeds)
    expected = 12 * 2 * values.astype(np.float64) * weights.T
    np.testing.assert_allclose(grad(whole), expected, rtol=1e-5, atol=1e-6)


def test_a_view_of_a_view_with_a_gradient_of_its_own_is_refused(m):
    rows = slanglab.tensor(np.ones((5, 6), np.float32))
    inner = rows[1].with_grads()  # a gradient of 6 elements, for a buffer of 30
    with pytest.raises(ArgumentError, match="is a view"):
        m.square.bwds(inner[2:4], _result=seeded([0, 0]))
