"""Clipping, and steps that are skipped for gradients that are not finite."""

import numpy as np
import pytest
from optim_reference import Reference, error
from optim_ways import NUMPY, give, made, read

from slanglab import optim
from slanglab.errors import ArgumentError, CallError

KINDS = ("float", "double", "half", "float")
SIZES = (4099, 700, 33, 1)


def drawn(rng, scale=1.0):
    return [(rng.normal(size=n) * scale).astype(NUMPY[kind]) for n, kind in zip(SIZES, KINDS, strict=True)]


def tensors(rng):
    return [made(values, kind) for values, kind in zip(drawn(rng), KINDS, strict=True)]


def give_all(params, gradients):
    for tensor, g, kind in zip(params, gradients, KINDS, strict=True):
        give(tensor, g, kind)


def norm_of(gradients):
    return float(np.sqrt(sum(np.sum(np.square(g, dtype=np.float64)) for g in gradients)))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_clip_grad_norm(through, rng, scale):
    params = tensors(rng)
    gradients = drawn(rng, scale)
    norm = norm_of(gradients)
    for limit in (float(norm * rng.uniform(0.01, 0.9)), float(norm * rng.uniform(1.1, 10))):
        give_all(params, gradients)
        assert optim.clip_grad_norm(params, limit) == pytest.approx(norm, rel=1e-6)
        factor = min(1.0, limit / (norm + 1e-6))
        for tensor, g, kind in zip(params, gradients, KINDS, strict=True):
            wanted = g.astype(np.float64) * factor
            near = {"half": 1e-3, "float": 1e-6, "double": 1e-6}[kind]
            assert np.abs(tensor.grad.to_numpy() - wanted).max() <= near * np.abs(wanted).max() + 1e-7


def test_clip_grad_norm_is_torchs(device, rng):
    torch = pytest.importorskip("torch", reason="torch is not installed: numpy stands in above")
    g = rng.normal(size=1000).astype(np.float32)
    ours, theirs = made(np.zeros(1000), "float"), torch.zeros(1000, requires_grad=True)
    for spoiled in (None, np.nan, np.inf):
        if spoiled is not None:
            g[17] = spoiled
        give(ours, g)
        theirs.grad = torch.from_numpy(g.copy())
        norm = torch.nn.utils.clip_grad_norm_([theirs], 0.5).item()
        assert optim.clip_grad_norm(ours, 0.5) == pytest.approx(norm, rel=1e-6, nan_ok=True)
        assert np.allclose(ours.grad.to_numpy(), theirs.grad.numpy(), rtol=1e-5, atol=1e-9, equal_nan=True)


def test_clip_grad_value(through, rng):
    params = tensors(rng)
    gradients = drawn(rng)
    gradients[0][:3] = np.nan, np.inf, -np.inf
    give_all(params, gradients)
    optim.clip_grad_value(params, 0.25)
    for tensor, g in zip(params, gradients, strict=True):
        assert np.array_equal(tensor.grad.to_numpy(), np.clip(g, -0.25, 0.25), equal_nan=True)


@pytest.mark.parametrize("how", ["clip_norm", "clip_value"])
@pytest.mark.parametrize("rule", ["SGD", "Adam", "AdamW", "RMSProp"])
def test_optimizers_clip_what_they_read_and_leave_the_gradients(through, rng, rule, how):
    params = tensors(rng)
    exact = Reference(rule, read_all(params), kinds=[NUMPY[k] for k in KINDS], lr=1e-2)
    opt = getattr(optim, rule)(params, lr=1e-2, **{how: 0.3})
    for _ in range(5):
        gradients = drawn(rng)
        give_all(params, gradients)
        opt.step()
        if how == "clip_norm":
            norm = norm_of(gradients)
            assert opt.grad_norm == pytest.approx(norm, rel=1e-6)
            exact.step([g.astype(np.float64) * min(1, 0.3 / (norm + 1e-6)) for g in gradients])
        else:
            exact.step([np.clip(g.astype(np.float64), -0.3, 0.3) for g in gradients])
        for tensor, g in zip(params, gradients, strict=True):
            assert np.array_equal(tensor.grad.to_numpy(), g)
    for found, wanted, kind in zip(read(opt), exact.params, KINDS, strict=True):
        assert error(found, wanted) < {"half": 2e-3, "float": 1e-6, "double": 1e-6}[kind]


def read_all(params):
    return [p.to_numpy() for p in params]


@pytest.mark.parametrize("spoiled", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("rule", ["SGD", "Adam", "AdamW", "RMSProp", "Lion"])
def test_a_gradient_that_is_not_finite(through, rng, rule, spoiled):
    """Without the option it spoils its parameter and no other; with it the step is none, and later ones are as if it never was."""
    hyper = {"momentum": 0.9, "dampening": 0.3} if rule == "SGD" else {}
    params = tensors(rng)
    exact = Reference(rule, read_all(params), kinds=[NUMPY[k] for k in KINDS], lr=1e-2, **hyper)
    opt = getattr(optim, rule)(params, lr=1e-2, skip_nonfinite=True, **hyper)
    plain = getattr(optim, rule)([made(p.to_numpy(), k) for p, k in zip(params, KINDS, strict=True)], lr=1e-2)
    bad = {0, 3, 4}
    for i in range(8):
        gradients = drawn(rng)
        where = int(rng.integers(4))
        before = read_all(params)
        if i in bad:
            gradients[where][int(rng.integers(SIZES[where]))] = spoiled
        give_all(params, gradients)
        opt.step()
        if i in bad:
            assert all(np.array_equal(a, b) for a, b in zip(before, read_all(params), strict=True))
        else:
            exact.step(gradients)
        if i == 0:
            give_all(plain.params.values(), gradients)
            plain.step()
            if rule != "Lion" or np.isnan(spoiled):
                spoilt = [np.count_nonzero(~np.isfinite(p)) for p in read(plain)]
                assert spoilt == [int(k == where) for k in range(4)]
    assert opt.skipped == len(bad)
    assert opt.steps == 8
    for found, wanted, kind, margin in zip(read(opt), exact.params, KINDS, exact.margin, strict=True):
        sure = margin > 1e-4
        assert error(found[sure], wanted[sure]) < {"half": 3e-3, "float": 1e-6, "double": 1e-6}[kind]


def test_corrections_of_bias_on_the_device_are_exact(device, rng):
    """With steps skipped the device works out 1 - beta^t, which for beta near 1 loses its digits if done naively."""
    w = made([0.0], "float")
    opt = optim.Adam(w, lr=1.0, betas=(0.99999, 0.9999999), eps=0.0, skip_nonfinite=True)
    for steps in (1, 2, 10, 1000, 10**6, 2**31 - 5):
        opt.steps = steps - 1
        give(w, [1.0])
        opt.step()
        found = opt._control.read(2), opt._control.read(3)
        exact = 1 / -np.expm1(steps * np.log1p(-1e-5)), np.sqrt(-np.expm1(steps * np.log1p(-1e-7)))
        assert np.allclose(found, exact, rtol=1e-6, atol=0), steps


def test_a_skipped_count_is_saved(device):
    w = made([1.0], "float")
    opt = optim.Adam(w, skip_nonfinite=True)
    give(w, [np.nan])
    opt.step()
    opt.step()
    other = optim.Adam(made([1.0], "float"), skip_nonfinite=True)
    other.load_state_dict(opt.state_dict())
    assert (other.steps, other.skipped) == (2, 2)


def test_what_cannot_be_clipped(device):
    w = made([1.0], "float")
    with pytest.raises(ArgumentError, match="both"):
        optim.Adam(w, clip_norm=1, clip_value=1)
    for wrong in (-1, float("nan"), "much"):
        with pytest.raises(ArgumentError, match="clip_norm"):
            optim.SGD(w, clip_norm=wrong)
        with pytest.raises(ArgumentError, match="max_norm"):
            optim.clip_grad_norm(w, wrong)
        with pytest.raises(ArgumentError, match="clip_value"):
            optim.clip_grad_value(w, wrong)
    with pytest.raises(CallError, match="does not measure"):
        optim.SGD(w).grad_norm
    with pytest.raises(CallError, match="no step"):
        optim.SGD(w, clip_norm=1.0).grad_norm


def test_a_limit_of_zero_stops_everything(through):
    for how in ("clip_norm", "clip_value"):
        w = made([1.0, 2.0], "float")
        give(w, [3.0, 4.0])
        optim.SGD(w, lr=1.0, **{how: 0}).step()
        assert np.array_equal(w.to_numpy(), [1, 2])
