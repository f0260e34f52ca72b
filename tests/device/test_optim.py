"""Steps of the optimizers against numpy in float64 and against torch.optim, on every way through the tensors."""

import dataclasses

import numpy as np
import pytest
from optim_reference import Reference, error, random_hyper, random_problems
from optim_ways import NUMPY, WAYS, give, made, read

import slanglab
from slanglab import optim
from slanglab.optim import steps

RULES = ("SGD", "Adam", "AdamW", "RMSProp", "Lion")
STEPS = 100


@pytest.mark.parametrize("dtype", ["float", "double"])
@pytest.mark.parametrize("rule", RULES)
def test_a_hundred_steps_agree_with_numpy(through, rng, rule, dtype):
    problems = random_problems(rule, rng)
    hyper = random_hyper(rule, rng)
    print(rule, hyper)
    starts = [v.start.astype(NUMPY[dtype]) for v in problems]
    # Parameters are rounded as the tensors hold them: a step far below their last digit is rounded the same way each time.
    exact = Reference(rule, starts, kinds=[NUMPY[dtype]] * len(starts), **hyper)
    opt = getattr(optim, rule)([made(s, dtype) for s in starts], **hyper)
    for _ in range(STEPS):
        given, own = [], []
        for v, p, q in zip(problems, read(opt), exact.params, strict=True):
            given.append(v.gradient(p))
            own.append(v.gradient(q))
        for tensor, g in zip(opt.params.values(), given, strict=True):
            give(tensor, g, dtype)
        opt.step()
        exact.step(own)
    assert opt.steps == STEPS
    limit = 1e-6 if dtype == "float" else 1e-12
    for found, wanted, margin in zip(read(opt), exact.params, exact.margin, strict=True):
        sure = margin > 1e-5
        assert np.mean(sure) > 0.9 or found.size < 100  # Lion's sign at a mean of almost 0 may be either
        if sure.any():
            assert error(found[sure], wanted[sure]) < limit


@pytest.mark.parametrize("dtype", ["float", "double"])
@pytest.mark.parametrize("rule", RULES[:-1])
def test_a_hundred_steps_agree_with_torch(device, rng, rule, dtype):
    torch = pytest.importorskip("torch", reason="torch is not installed: the numpy reference stands in")
    problems = random_problems(rule, rng)
    hyper = random_hyper(rule, rng)
    print(rule, hyper)
    starts = [v.start.astype(NUMPY[dtype]) for v in problems]
    theirs = [torch.tensor(s, requires_grad=True) for s in starts]
    peer = getattr(torch.optim, "RMSprop" if rule == "RMSProp" else rule)(theirs, **hyper)
    opt = getattr(optim, rule)([made(s, dtype) for s in starts], **hyper)
    for _ in range(STEPS):
        for v, tensor, p, t in zip(problems, opt.params.values(), read(opt), theirs, strict=True):
            give(tensor, v.gradient(p), dtype)
            t.grad = torch.from_numpy(v.gradient(t.detach().numpy()).astype(NUMPY[dtype]))
        opt.step()
        peer.step()
    for found, t in zip(read(opt), theirs, strict=True):
        assert error(found, t.detach().numpy()) < (1e-6 if dtype == "float" else 1e-12)


@pytest.mark.parametrize("rule", RULES[:-1])
def test_defaults_are_torchs(device, rule):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    name = "RMSprop" if rule == "RMSProp" else rule
    theirs = getattr(torch.optim, name)([torch.zeros(1, requires_grad=True)]).defaults
    opt = getattr(optim, rule)(made([0.0], "float"))
    for key in ("lr", *opt.hyper):
        assert getattr(opt, key) == theirs[key], key


@pytest.mark.parametrize("rule", RULES)
def test_halves_floats_and_doubles_in_one_dispatch(through, rng, rule):
    kinds = ["half", "double", "half", "float"]
    starts = [rng.normal(size=n).astype(NUMPY[k]) for n, k in zip((3001, 700, 5, 1029), kinds, strict=True)]
    hyper = random_hyper(rule, rng)
    print(rule, hyper)
    exact = Reference(rule, starts, kinds=[NUMPY[k] for k in kinds], **hyper)
    opt = getattr(optim, rule)([made(s, k) for s, k in zip(starts, kinds, strict=True)], **hyper)
    for _ in range(10):
        given = [rng.normal(size=s.shape).astype(s.dtype) for s in starts]
        for tensor, g, kind in zip(opt.params.values(), given, kinds, strict=True):
            give(tensor, g, kind)
        opt.step()
        exact.step(given)
    for found, wanted, margin, kind in zip(read(opt), exact.params, exact.margin, kinds, strict=True):
        sure = margin > 1e-4
        # A half may be rounded the other way in some steps, and stay an ulp off.
        limit = {"half": 3 * 2.0**-11, "float": 1e-6, "double": 1e-12}[kind]
        assert error(found[sure], wanted[sure]) < limit
        assert found.dtype == NUMPY[kind]


@pytest.mark.parametrize("dtype", ["float2", "float3", "float4", "float2x3", "half3", "float[5]"])
def test_vectors_matrices_and_arrays_are_their_scalars(through, rng, dtype):
    inner = {"float2": (2,), "float3": (3,), "float4": (4,), "float2x3": (2, 3), "half3": (3,)}.get(
        dtype, (5,)
    )
    kind = "half" if dtype == "half3" else "float"
    start = rng.normal(size=(7, 3, *inner)).astype(NUMPY[kind])
    import slangpy as spy

    if dtype == "float[5]":
        tensor = spy.Tensor.empty(slanglab.current().device, (7, 3), dtype)
        tensor.copy_from_numpy(start)
        tensor = tensor.with_grads()
    else:
        tensor = made(start, dtype)
    if dtype == "half3" and slanglab.current().device.info.type == spy.DeviceType.cuda:
        with pytest.raises(slanglab.ArgumentError, match="gaps between its elements"):
            optim.Adam({"w": tensor}, lr=0.1)
        return
    opt = optim.Adam({"w": tensor}, lr=0.1)
    exact = Reference("Adam", [start], kinds=[NUMPY[kind]], lr=0.1)
    for _ in range(3):
        g = rng.normal(size=start.shape).astype(NUMPY[kind])
        tensor.grad.copy_from_numpy(g)
        opt.step()
        exact.step([g])
    assert error(tensor.to_numpy(), exact.params[0]) < (2e-3 if kind == "half" else 1e-6)
    assert opt.state["w"]["exp_avg"].to_numpy().shape == start.shape


def test_contiguous_views_are_parameters_and_their_neighbours_stay(through, rng):
    start = rng.normal(size=(5, 7)).astype(np.float32)
    g = rng.normal(size=start.shape).astype(np.float32)
    whole = made(start, "float")
    give(whole, g)
    opt = optim.SGD([whole[1:3], whole[4]], lr=0.5)
    opt.step()
    wanted = start.copy()
    wanted[[1, 2, 4]] -= np.float32(0.5) * g[[1, 2, 4]]
    assert np.allclose(whole.to_numpy(), wanted, rtol=1e-6, atol=0)
    opt.zero_grad()
    left = g.copy()
    left[[1, 2, 4]] = 0
    assert np.array_equal(whole.grad.to_numpy(), left)


def test_a_view_that_starts_between_packs(through, rng):
    start = rng.normal(size=3001).astype(np.float32)
    g = rng.normal(size=3001).astype(np.float32)
    for begin in range(5):
        whole = made(start, "float")
        give(whole, g)
        optim.SGD(whole[begin:2990], lr=0.25).step()
        wanted = start.copy()
        wanted[begin:2990] -= np.float32(0.25) * g[begin:2990]
        assert np.allclose(whole.to_numpy(), wanted, rtol=1e-6, atol=1e-7)


def test_gradients_of_a_kernel_drive_the_step(device, rng):
    loss = slanglab.compile(
        "[Differentiable] float loss(float w, float target) { return (w - target) * (w - target); }",
        "optim_loss",
    ).loss
    target = rng.normal(size=50).astype(np.float32)
    w = made(np.zeros(50), "float")
    out = slanglab.empty(50, grad=True)
    out.grad_in.copy_from_numpy(np.ones(50, np.float32))
    opt = optim.Adam({"w": w}, lr=0.05)
    for _ in range(400):
        opt.zero_grad()
        loss.bwds(w, slanglab.tensor(target), _result=out)
        opt.step()
    assert np.abs(w.to_numpy() - target).max() < 1e-3


def test_empty_tensors_take_part_and_do_nothing(through, rng):
    start = rng.normal(size=3).astype(np.float32)
    full, none = made(start, "float"), slanglab.empty((0,), grad=True)
    give(full, np.ones(3))
    opt = optim.Adam([none, full], lr=0.1, clip_norm=10)
    opt.step()
    assert np.allclose(full.to_numpy(), start - 0.1, atol=1e-6)
    alone = optim.Adam(slanglab.empty((0,), grad=True), skip_nonfinite=True)
    alone.step()
    alone.zero_grad()
    assert alone.steps == 1
    assert alone.skipped == 0
    assert alone.state_dict()["state"]["0"]["exp_avg"].size == 0


def test_a_schedule_is_followed_and_a_number_replaces_it(device, rng):
    w = made([0.0], "float")
    asked = []

    def rate(i):
        asked.append(i)
        return 1.0 if i < 2 else 0.25

    opt = optim.SGD(w, lr=rate)
    give(w, [1.0])
    assert opt.lr == 1.0
    for wanted in (-1.0, -2.0, -2.25):
        opt.step()
        assert w.to_numpy()[0] == wanted
    assert opt.lr == 0.25
    assert opt.schedule is rate
    assert max(asked) == 3
    opt.lr = 0.5
    assert opt.schedule is None
    opt.step()
    assert w.to_numpy()[0] == -2.75
    opt.lr = optim.Step(1.0, every=2, gamma=0.5)
    assert opt.lr == 0.25  # after four steps


def test_two_optimizers_share_nothing(device, rng):
    a, b = made([1.0], "float"), made([1.0], "float")
    first, second = optim.SGD(a, lr=1.0, momentum=0.5), optim.SGD(b, lr=0.1, momentum=0.5)
    for tensor in (a, b):
        give(tensor, [1.0])
    for opt in (first, second, first, second):
        opt.step()
    assert np.allclose([a.to_numpy()[0], b.to_numpy()[0]], [1 - 1 - 1.5, 1 - 0.1 - 0.15])


def test_an_optimizer_that_is_dropped_at_once_has_made_its_step(device, rng):
    for _ in range(20):
        w = made(np.zeros(100_000), "float")
        give(w, np.ones(100_000))
        optim.Adam(w, lr=0.5).step()
        assert np.allclose(w.to_numpy(), -0.5)


@pytest.mark.parametrize("kind", WAYS)
def test_the_compiler_has_nothing_to_say(kind, monkeypatch, device, rng):
    """What it warns of is written into the notebook of whoever takes the first step on a machine."""
    like = WAYS[kind] or steps.way(device)
    # Of a size that nobody used: a kernel out of the cache is not compiled.
    how = dataclasses.replace(like, chunk=like.group * like.packs * 8 * int(rng.integers(1000, 10**5)))
    monkeypatch.setattr(steps, "way", lambda _: how)
    log = slanglab.current().log
    log.install()
    log.take()
    for rule in RULES:
        t = made(np.ones(5), "float")
        give(t, np.ones(5))
        getattr(optim, rule)(t, lr=0.1).step()
        assert np.all(t.to_numpy() < 1)
    assert log.take() == []
