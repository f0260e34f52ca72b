"""gradcheck on functions with float64 twins, and on every kind of wrong gradient that is known."""

import numpy as np
import pytest
import slangpy as spy
from gradcheck_cases import CASES, SOURCE, reference

import slanglab
from slanglab.checks.problem import random_cotangent
from slanglab.engine.binding import bind
from slanglab.engine.probing.custom_rules import of_proxy
from slanglab.engine.probing.first import first_check
from slanglab.engine.probing.gradcheck import gradcheck
from slanglab.engine.probing.probe import CannotProbeError, Probe
from slanglab.errors import CallError

WRONG = """
import slangpy;

[BackwardDerivative(clamped_back)] float clamped(float x) { return clamp(x, 0.0, 1.0); }
void clamped_back(inout DifferentialPair<float> p, float d) { p = diffPair(p.p, d); }
[Differentiable] float straight_through(float x) { return 3 * clamped(x * 2); }

[Differentiable] T cube<T>(T u) where T : __BuiltinArithmeticType { return u * u * u; }
[Differentiable] float dropped(float x) { return cube(x + 2.0) - x; }

[BackwardDerivative(factor_back)] float factor(float x) { return x * x * x; }
void factor_back(inout DifferentialPair<float> p, float d) { p = diffPair(p.p, 2 * d * p.p * p.p); }
[BackwardDerivative(sign_back)] float sign_lost(float x) { return sin(x); }
void sign_back(inout DifferentialPair<float> p, float d) { p = diffPair(p.p, -d * cos(p.p)); }
[BackwardDerivative(seed_back)] float seed_ignored(float x) { return sin(x); }
void seed_back(inout DifferentialPair<float> p, float d) { p = diffPair(p.p, cos(p.p)); }
[BackwardDerivative(nan_back)] float not_a_number(float x) { return x * x; }
void nan_back(inout DifferentialPair<float> p, float d) { p = diffPair(p.p, d * sqrt(-p.p)); }
[BackwardDerivative(swap_back)] float swapped(float x, float y) { return x * y * y; }
void swap_back(inout DifferentialPair<float> x, inout DifferentialPair<float> y, float d)
{
    x = diffPair(x.p, d * 2 * x.p * y.p);
    y = diffPair(y.p, d * y.p * y.p);
}
[BackwardDerivative(one_back)] float one_forgotten(float x, float y) { return x * sin(y); }
void one_back(inout DifferentialPair<float> x, inout DifferentialPair<float> y, float d)
{
    x = diffPair(x.p, d * sin(y.p));
    y = diffPair(y.p, 0.0);
}
[BackwardDerivative(branch_back)] float branch_forgotten(float x) { return x > 1 ? x * x : 3 * x; }
void branch_back(inout DifferentialPair<float> p, float d) { p = diffPair(p.p, d * 2 * p.p); }

[Differentiable] float held(float x, float w) { return tanh(detach(w) * x) + w * w; }

[BackwardDerivative(twice_back)]
float added_twice(int i, DiffTensor<float, 1> t) { return t[i] * t[i]; }
void twice_back(int i, DiffTensor<float, 1> t, float d)
{
    t._grad_out.add(i, d * 2 * t[i]);
    t._grad_out.add(i, d * 2 * t[i]);
}
[BackwardDerivative(neighbour_back)]
float neighbour(int i, DiffTensor<float, 1> t) { return t[i] * t[i]; }
void neighbour_back(int i, DiffTensor<float, 1> t, float d) { t._grad_out.add((i + 1) % 6, d * 2 * t[i]); }

[Differentiable] void both_ways(float x, inout float y) { y = y * x + x; }
struct Plain { float k; };
[Differentiable] float of_plain(Plain p, float x) { return p.k * x * x; }

[Differentiable] float tied(float x, float y) { return max(x, y) + 2 * min(x, y) + 4 * abs(x - y); }
[Differentiable] half halved(half x) { return x * x + x; }
[Differentiable] float plain(float x, no_diff float y) { return x * x * y; }
[Differentiable] float weighed(float x, float w) { return sin(x) * w; }
[Differentiable] void counted(no_diff int i, IDiffTensor<float, 1> x, RWTensor<float, 1> c, IWDiffTensor<float, 1> y)
{
    c[i] = c[i] + 1;
    y[i] = x[i] * x[i];
}
float undifferentiable(float x) { return x * x; }
"""


PRINTING = """
import slangpy;
import sgl.device.print;

void say(float x) { print("never {}", x); }
[Differentiable] float told(float x) { no_diff say(x); return x * x; }
float quiet(float x) { return x; }
"""


@pytest.fixture(scope="module")
def right(device):
    return slanglab.compile(SOURCE, "gradcheck_right")


@pytest.fixture(scope="module")
def wrong(device):
    return slanglab.compile(WRONG, "gradcheck_wrong")


SMALL = np.array([0.5], np.float32)
"""For `held`, whose error is large for a small weight: tanh(w·x) hardly depends on a large one."""


def numbers(rng, *shape, low=0.5, high=2.0):
    return rng.uniform(low, high, shape).astype(np.float32)


def test_there_are_forty_functions():
    assert len(CASES) >= 40


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_agrees_where_the_gradient_is_that_of_the_float64_twin(case, right, rng):
    """The gradient is compared with float64 first, so that "agrees" is known to be the right answer."""
    values = {path: numbers(rng, *shape, low=case.low, high=case.high) for path, shape in case.inputs.items()}
    args = case.call(**{path: slanglab.tensor(v) for path, v in values.items()})
    function = right[case.name]
    probe = Probe.of(function._target(tuple(args), {}), args, {})
    assert [leaf.path for leaf in probe.inputs] == list(case.inputs)
    cotangents = random_cotangent(probe.value, rng)
    gradients, held = probe.gradient(cotangents)
    exact = reference(case, values, [c.astype(np.float64) for c in cotangents])
    for leaf, gradient, after in zip(probe.inputs, gradients, held, strict=True):
        expected = exact[leaf.path]
        off = np.linalg.norm(gradient.astype(np.float64) - expected)
        assert off <= 1e-3 * np.linalg.norm(expected), leaf.path
        assert np.array_equal(after, values[leaf.path])
    found = gradcheck(function, *args)
    assert found.verdict == "agrees", found
    assert found.ok
    assert [i.name for i in found.inputs] == list(case.inputs)
    assert all(i.resolution <= 0.1 for i in found.inputs)


WRONG_CALLS = {
    "dropped": (["x"], {"x"}),
    "factor": (["x"], {"x"}),
    "sign_lost": (["x"], {"x"}),
    "seed_ignored": (["x"], {"x"}),
    "not_a_number": (["x"], {"x"}),
    "swapped": (["x", "y"], {"x", "y"}),
    "one_forgotten": (["x", "y"], {"y"}),
    "branch_forgotten": (["x"], {"x"}),
}


@pytest.mark.parametrize("name", WRONG_CALLS)
def test_a_wrong_gradient_differs(name, wrong, rng):
    inputs, guilty = WRONG_CALLS[name]
    args = [numbers(rng, 40) for _ in inputs]
    found = gradcheck(wrong[name], *args)
    assert found.verdict == "differs", found
    assert {i.name for i in found.inputs if i.verdict == "differs"} == guilty
    assert not found.ok
    assert "differs" in str(found)
    for entry in found.inputs:
        if entry.verdict == "differs":
            assert entry.worst
            assert entry.worst[0].off > 0 or np.isnan(entry.worst[0].given)


def test_the_worst_element_has_both_derivatives(wrong, rng):
    """The rule says 2x² where the derivative is 3x², so the largest x is off most."""
    x = numbers(rng, 30)
    x[17] = 3.0
    (entry,) = gradcheck(wrong.factor, x, cotangent=np.ones(30)).inputs
    first = entry.worst[0]
    assert first.index == (17,)
    assert first.value == 3.0
    assert first.given == pytest.approx(18, rel=1e-4)
    assert first.measured == pytest.approx(27, rel=1e-3)


def test_a_detached_value_is_seen_by_differences_though_both_modes_share_it(wrong, rng):
    found = gradcheck(wrong.held, numbers(rng, 40), SMALL)
    by_name = {i.name: i for i in found.inputs}
    assert by_name["x"].verdict == "agrees"
    assert by_name["w"].verdict == "differs"
    assert by_name["w"].forward.verdict == "agrees"


@pytest.mark.parametrize("name", ["added_twice", "neighbour"])
def test_a_wrong_rule_on_tensors_differs_and_names_an_element(name, wrong, rng):
    found = gradcheck(wrong[name], spy.grid((6,)), numbers(rng, 6))
    (entry,) = found.inputs
    assert entry.name == "t"
    assert entry.verdict == "differs"
    assert len(entry.worst) == 3
    if name == "added_twice":
        worst = entry.worst[0]
        assert worst.given == pytest.approx(2 * worst.measured, rel=1e-2)


def test_what_slangpy_gives_zeros_for_is_refused_or_differs(wrong, rng):
    """Case AD-24, and structs that are not IDifferentiable."""
    x, y = slanglab.tensor(numbers(rng, 8)), slanglab.tensor(numbers(rng, 8))
    for function, args in ((wrong.both_ways, (x, y)), (wrong.of_plain, ({"k": x}, y))):
        try:
            found = gradcheck(function, *args)
        except CallError as error:
            assert function.name in error.message
        else:
            assert found.verdict == "differs", found


def test_a_straight_through_rule_is_marked_and_no_alarm(wrong, rng):
    """Case AD-11: the rule is the definition."""
    for x in (np.array([-1, 0.25, 2], np.float32), np.linspace(-1, 2, 50, dtype=np.float32)):
        found = gradcheck(wrong.straight_through, x)
        assert found.verdict == "cannot tell", found
        assert found.custom == ("clamped",)
        assert any("clamped" in note for note in found.notes)
        assert "value does not move" in found.inputs[0].reason


def test_ties_are_no_alarm(wrong, rng):
    """Case AD-16: at a tie Slang splits evenly."""
    x = numbers(rng, 30)
    y = x.copy()
    y[::2] += 0.5
    assert gradcheck(wrong.tied, x, y).verdict != "differs"
    assert gradcheck(wrong.tied, np.ones(20, np.float32), np.ones(20, np.float32)).verdict != "differs"


def test_tensors_and_gradients_of_the_caller_are_left_alone(wrong, right, rng):
    values = numbers(rng, 6)
    y = slanglab.tensor(values, grad=True)
    y.grad.copy_from_numpy(np.arange(6, dtype=np.float32))
    counter = slanglab.zeros(6)
    out = slanglab.zeros(6)
    assert gradcheck(wrong.counted, spy.grid((6,)), y, counter, out).ok
    assert gradcheck(right.squared, spy.grid((6,)), y).ok
    assert np.array_equal(y.to_numpy(), values)
    assert np.array_equal(y.grad.to_numpy(), np.arange(6))
    assert not counter.to_numpy().any()
    assert not out.to_numpy().any()


def test_nothing_is_printed(device, rng, capsys):
    cell = slanglab.compile(PRINTING, "gradcheck_printing")
    assert gradcheck(cell.told, numbers(rng, 4)).ok
    cell.quiet(1.0)
    assert "never" not in capsys.readouterr().out
    cell.told(numbers(rng, 4))
    assert "never" in capsys.readouterr().out


def test_wrt_chooses_inputs(right, wrong, rng):
    args = [{"k": numbers(rng, 5), "v": numbers(rng, 5, 3)}, numbers(rng, 5)]
    assert [i.name for i in gradcheck(right.sprung, *args, wrt="s.v").inputs] == ["s.v"]
    assert [i.name for i in gradcheck(right.sprung, *args, wrt=["s", "x"]).inputs] == ["s.k", "s.v", "x"]
    assert [i.name for i in gradcheck(wrong.plain, numbers(rng, 5), numbers(rng, 5)).inputs] == ["x"]
    with pytest.raises(CallError, match="has no parameter q"):
        gradcheck(right.sprung, *args, wrt="q")


def test_the_backward_function_and_its_seed_are_taken_too(wrong, rng):
    x = slanglab.tensor(numbers(rng, 12), grad=True)
    result = wrong.weighed(x, 2.0, _result="tensor").with_grads()
    result.grad.copy_from_numpy(numbers(rng, 12))
    found = gradcheck(wrong.weighed.bwds, x, 2.0, _result=result)
    assert found.ok
    assert found.function == "gradcheck_wrong.weighed"
    assert [i.name for i in found.inputs] == ["x", "w"]


def test_cotangents_are_checked(wrong, rng):
    with pytest.raises(CallError, match="does not fit"):
        gradcheck(wrong.weighed, numbers(rng, 5), 1.0, cotangent=np.ones(7))
    with pytest.raises(CallError, match="not differentiable"):
        gradcheck(wrong.undifferentiable, numbers(rng, 5))
    with pytest.raises(CallError, match="direction"):
        gradcheck(wrong.weighed, 1.0, 1.0, directions=0)


def test_methods_of_instances(right, rng):
    spring = spy.InstanceList(
        right.Spring, {"k": slanglab.tensor(numbers(rng, 7)), "v": slanglab.tensor(numbers(rng, 7, 3))}
    )
    found = gradcheck(spring.energy, numbers(rng, 7))
    assert found.ok
    assert {i.name for i in found.inputs} == {"x", "this.k", "this.v"}


def test_halves_never_give_a_false_alarm(wrong, rng):
    found = gradcheck(wrong.halved, rng.uniform(0.5, 2, 200).astype(np.float16))
    assert found.verdict != "differs", found


def test_a_seed_repeats_the_check(wrong, rng):
    x = numbers(rng, 20)
    first, second = (gradcheck(wrong.factor, x, seed=5) for _ in range(2))
    assert first.inputs[0].error == second.inputs[0].error
    assert first.seed == 5


# ----- the check of a first backward call -----


def checked(function, *args, result=True, custom=None, **options):
    """Check a backward call as the engine does."""
    kwargs = {}
    if result:
        value = function(*args, _result="tensor").with_grads()
        value.grad.copy_from_numpy(np.ones_like(value.to_numpy()))
        kwargs["_result"] = value
    target = function.bwds._target(args, kwargs)
    return first_check(
        target, bind(target, args, kwargs), custom=of_proxy(function) if custom is None else custom, **options
    )


def test_the_first_check_agrees_and_differs(wrong, rng):
    def tensors(*shapes):
        return [slanglab.tensor(numbers(rng, *s), grad=True) for s in shapes]

    assert checked(wrong.weighed, *tensors((100,), (1,))).verdict == "agrees"
    # One direction of a hundred, or fewer, misses an error in a sum, or does not see whose it is.
    tries = [checked(wrong.held, *tensors((100,)), slanglab.tensor(SMALL, grad=True)) for _ in range(3)]
    found = next((t for t in tries if t.inputs == ("w",)), tries[0])
    assert found.verdict == "differs"
    assert found.inputs == ("w",)
    assert "by w" in found.text
    found = checked(wrong.factor, *tensors((100,)))
    assert found.verdict == "differs"
    assert "factor has a derivative of its own" in found.text
    assert checked(wrong.dropped, *tensors((10,))).verdict == "differs"
    assert "NaN" in checked(wrong.not_a_number, *tensors((10,))).text


def test_the_first_check_knows_a_straight_through_rule(wrong):
    x = slanglab.tensor(np.linspace(-1, 2, 50, dtype=np.float32), grad=True)
    found = checked(wrong.straight_through, x)
    assert found.verdict == "cannot tell"
    assert "clamped" in found.text


@pytest.mark.parametrize("shape", [(50_000,), (300, 200)])
def test_the_first_check_takes_a_sample_of_large_calls(shape, wrong, rng):
    x = slanglab.tensor(numbers(rng, *shape), grad=True)
    w = slanglab.tensor(SMALL, grad=True)
    result = wrong.weighed(x, w, _result="tensor").with_grads()
    target = wrong.weighed.bwds._target((x, w), {"_result": result})
    probe = Probe.of(target, (x, w), {"_result": result}, attached=True, sample=4096)
    assert probe.inputs[0].value.shape == (*(1,) * (len(shape) - 1), 4096)
    assert np.isin(probe.inputs[0].value, x.to_numpy()).all()
    assert probe.inputs[1].value.shape == (1,)
    whole = x.to_numpy().reshape(-1)
    sample = probe.inputs[0].value.reshape(-1)
    assert np.array_equal(sample[:512], whole[:512])
    assert np.array_equal(sample[-512:], whole[-512:])
    assert checked(wrong.weighed, x, w).verdict == "agrees"
    assert any(checked(wrong.held, x, w).inputs == ("w",) for _ in range(3))  # one direction may miss it


def test_a_large_call_that_is_not_elementwise_is_not_checked(wrong):
    big = slanglab.zeros(2**20 + 1)
    target = wrong.counted.bwds._target((), {})
    out = slanglab.zeros(4)
    found = first_check(target, bind(target, (spy.grid((4,)), big.with_grads(), out, out.with_grads()), {}))
    assert found.verdict == "cannot tell"
    assert "too large" in found.text


def test_whatever_goes_wrong_is_a_reason(wrong):
    target = wrong.weighed.bwds._target((), {})
    found = first_check(target, bind(target, ("no number", object()), {}))
    assert found.verdict == "cannot tell"
    with pytest.raises(CannotProbeError):
        Probe.of(wrong.weighed._target((), {}), (1.0, 2.0), {}, attached=True)
