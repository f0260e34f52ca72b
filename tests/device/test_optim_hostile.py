"""Optimizers given what they cannot take, devices that go, tensors that move; state saved and loaded; views that follow."""

import gc

import numpy as np
import pytest
import slangpy as spy
from optim_ways import give, made

import slanglab
from slanglab import optim
from slanglab.device import open_device
from slanglab.errors import ArgumentError, CallError, DeviceGoneError
from slanglab.tensors import writes

RULES = ("SGD", "Adam", "AdamW", "RMSProp", "Lion", "LBFGS")


@pytest.mark.parametrize("rule", RULES)
def test_a_tensor_without_a_gradient(device, rule):
    with pytest.raises(ArgumentError, match="'w' has no gradient") as caught:
        getattr(optim, rule)({"w": slanglab.tensor([1.0, 2.0])})
    assert "with_grads()" in caught.value.hint
    assert "grad=True" in caught.value.hint


@pytest.mark.parametrize(
    ("params", "said"),
    [
        (None, "'0' is no slangpy.Tensor"),
        (3.0, "'0' is no slangpy.Tensor"),
        (np.ones(3), "'0' is no slangpy.Tensor"),
        ("w", "'0' is no slangpy.Tensor"),
        ([np.ones(3, np.float32)], "'0' is no slangpy.Tensor"),
        ([], "no parameters"),
        ({}, "no parameters"),
        ({3: None}, "The name 3"),
        ({"größe": "a"}, "'größe' is no slangpy.Tensor"),
    ],
)
def test_what_is_no_tensor(device, params, said):
    with pytest.raises(ArgumentError, match=said) as caught:
        optim.Adam(params)
    assert caught.value.given


def test_a_generator_of_tensors_is_a_list(device):
    ws = [made([1.0], "float") for _ in range(3)]
    opt = optim.Adam(w for w in ws)
    assert list(opt.params) == ["0", "1", "2"]
    assert list(opt.params.values()) == ws
    assert repr(opt) == "Adam(3 tensors (0, 1, 2), 3 numbers, lr=0.001, steps=0)"


def test_the_same_memory_twice(device):
    w = made(np.ones((4, 3)), "float")
    other = made(np.ones((4, 3)), "float")
    for params in ([w, w], [w, w[1]], [w[0:2], w[1:3]], [w, w.view((12,), (1,), 0)]):
        with pytest.raises(ArgumentError, match="'0' and '1' are the same tensor, or share memory"):
            optim.SGD(params)
    optim.SGD([w[0:2], w[2:4]])
    shared = other.detach().with_grads(grad_in=w.grad, grad_out=w.grad, zero=False)
    with pytest.raises(ArgumentError, match="'a' and 'b' have the same gradient"):
        optim.SGD({"a": w, "b": shared})
    own = w.detach()
    with pytest.raises(ArgumentError, match=r"(value|gradient) of the parameter"):
        optim.SGD(own.with_grads(grad_in=own, grad_out=own, zero=False))


def test_strided_views_are_refused(device):
    w = made(np.ones((4, 3)), "float")
    for view in (w[:, 1], w[::2], w[1:3, 0:2]):
        with pytest.raises(ArgumentError, match="strided view") as caught:
            optim.Adam({"w": view})
        assert "strides" in caught.value.given
    optim.Adam(w[2])


def test_a_gradient_of_another_shape(device):
    w = made(np.ones((4, 3)), "float")
    row = w.detach()[1].with_grads(grad_in=w.grad[1], grad_out=w.grad[1], zero=False)
    give(w, np.arange(12).reshape(4, 3))
    optim.SGD(row, lr=1.0).step()
    assert np.array_equal(w.to_numpy()[1], 1 - np.arange(3, 6))
    assert np.array_equal(w.to_numpy()[[0, 2, 3]], np.ones((3, 3)))


def test_integers_and_structs(device):
    whole = spy.Tensor.zeros(device, (3,), "int")
    with pytest.raises(ArgumentError):
        optim.Adam(whole)
    cell = slanglab.compile(
        "struct Ball : IDifferentiable { float3 at; float size; };"
        "[Differentiable] float area(Ball b) { return b.size * b.size + b.at.x; }",
        "optim_ball",
    )
    balls = spy.Tensor.zeros(device, (3,), cell.Ball).with_grads()
    with pytest.raises(ArgumentError, match="elements are structs"):
        optim.Adam(balls)


def test_two_devices(device):
    second = open_device("vulkan")
    try:
        w = made([1.0], "float")
        other = spy.Tensor.from_numpy(second, np.ones(1, np.float32)).with_grads()
        with pytest.raises(ArgumentError, match="on two devices"):
            optim.Adam([w, other])
        optim.Adam(other, lr=0.5).step()
    finally:
        del other
        second.close()


@pytest.mark.parametrize("rule", RULES)
def test_a_device_that_is_gone(device, rule):
    second = open_device("vulkan")
    w = spy.Tensor.from_numpy(second, np.ones(3, np.float32)).with_grads()
    opt = getattr(optim, rule)(w)
    second.close()
    with pytest.raises(DeviceGoneError, match="closed"):
        opt.step(lambda: 1.0) if rule == "LBFGS" else opt.step()
    with pytest.raises(DeviceGoneError, match="closed"):
        opt.zero_grad()
    with pytest.raises(DeviceGoneError, match="closed"):
        getattr(optim, rule)(w)
    with pytest.raises(DeviceGoneError, match="closed"):
        optim.clip_grad_value(w, 1.0)
    assert opt.steps == 0
    del opt
    gc.collect()


@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf"), "fast", None, 1e35, [0.1]])
def test_rates_that_are_none(device, wrong):
    w = made([1.0], "float")
    with pytest.raises(ArgumentError, match="lr is"):
        optim.Adam(w, lr=wrong)
    opt = optim.Adam(w, lr=0.25)
    with pytest.raises(ArgumentError, match="lr is"):
        opt.lr = wrong
    assert opt.lr == 0.25
    with pytest.raises(ArgumentError, match=r"lr\(0\) is"):
        optim.Adam(w, lr=lambda i: wrong)
    with pytest.raises(ArgumentError, match=r"lr\(0\) is"):
        opt.lr = lambda i: wrong
    assert opt.lr == 0.25


def test_a_schedule_that_fails_in_the_middle_leaves_everything(device):
    w = made([1.0], "float")
    give(w, [1.0])
    opt = optim.SGD(w, lr=lambda i: 0.5 if i < 1 else 1 / 0)
    with pytest.raises(ZeroDivisionError):
        opt.step() or opt.step()
    assert opt.steps == 1
    assert w.to_numpy()[0] == 0.5


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda w: optim.SGD(w, momentum=-1), "momentum"),
        (lambda w: optim.SGD(w, nesterov=True), "nesterov"),
        (lambda w: optim.SGD(w, momentum=0.9, dampening=0.1, nesterov=True), "nesterov"),
        (lambda w: optim.Adam(w, betas=(0.9, 1.0)), "betas[1]"),
        (lambda w: optim.Adam(w, betas=0.9), "betas"),
        (lambda w: optim.Adam(w, betas=(0.9, 0.9, 0.9)), "betas"),
        (lambda w: optim.AdamW(w, eps=-1e-8), "eps"),
        (lambda w: optim.Lion(w, betas=(float("nan"), 0)), "betas[0]"),
        (lambda w: optim.RMSProp(w, alpha="x"), "alpha"),
        (lambda w: optim.LBFGS(w, max_iter=0), "max_iter"),
        (lambda w: optim.LBFGS(w, history_size=2.5), "history_size"),
        (lambda w: optim.LBFGS(w, line_search_fn="armijo"), "line_search_fn"),
    ],
)
def test_hyper_parameters_that_are_none(device, make, argument):
    with pytest.raises(ArgumentError) as caught:
        make(made([1.0], "float"))
    assert caught.value.argument == argument


@pytest.mark.parametrize("rule", RULES[:-1])
def test_a_run_goes_on_from_a_file(through, rng, tmp_path, rule):
    hyper = {"momentum": 0.9} if rule in ("SGD", "RMSProp") else {}
    start = {"größe/1": rng.normal(size=(3, 5)), "b": rng.normal(size=700)}
    gradients = [{k: rng.normal(size=v.shape) for k, v in start.items()} for _ in range(6)]

    def run(opt, given):
        for one in given:
            for name, g in one.items():
                give(opt.params[name], g)
            opt.step()

    whole = getattr(optim, rule)({k: made(v, "float") for k, v in start.items()}, lr=0.01, **hyper)
    run(whole, gradients)
    first = getattr(optim, rule)({k: made(v, "float") for k, v in start.items()}, lr=0.01, **hyper)
    run(first, gradients[:3])
    first.save(tmp_path / "run")
    again = {k: made(v.to_numpy(), "float") for k, v in first.params.items()}
    second = getattr(optim, rule)(again, lr=0.5, **hyper)
    second.load(tmp_path / "run")
    assert (second.steps, second.lr) == (3, 0.01)
    for name in first.hyper:
        assert getattr(second, name) == getattr(first, name)
        assert type(getattr(second, name)) is type(getattr(first, name))
    run(second, gradients[3:])
    for name, tensor in whole.params.items():
        assert np.array_equal(tensor.to_numpy(), again[name].to_numpy())


def test_states_of_others_are_refused_and_change_nothing(device, rng):
    w = made(rng.normal(size=4), "float")
    give(w, np.ones(4))
    opt = optim.Adam({"w": w}, lr=0.1)
    opt.step()
    before = opt.state_dict()
    others = [
        optim.SGD({"w": made(np.ones(4), "float")}, momentum=0.9),
        optim.Lion({"w": made(np.ones(4), "float")}),
        optim.LBFGS({"w": made(np.ones(4), "float")}),
        optim.Adam({"v": made(np.ones(4), "float")}),
        optim.Adam({"w": made(np.ones((2, 2)), "float")}),
    ]
    for other in others:
        with pytest.raises(ArgumentError, match="does not fit"):
            opt.load_state_dict(other.state_dict())
    after = opt.state_dict()
    assert after["steps"] == before["steps"] == 1
    assert after["hyper"] == before["hyper"]
    for key, array in before["state"]["w"].items():
        assert np.array_equal(after["state"]["w"][key], array)


def test_a_schedule_stays_when_a_state_is_loaded(device):
    opt = optim.Adam(made([1.0], "float"), lr=optim.Exponential(1.0, 0.5))
    assert "lr" not in opt.state_dict()["hyper"]
    other = optim.Adam(made([1.0], "float"), lr=0.125)
    other.steps = 3
    opt.load_state_dict(other.state_dict())
    assert opt.lr == 0.125  # after three steps
    assert opt.schedule is not None
    opt.steps = 1
    other.load_state_dict(opt.state_dict())
    assert (other.lr, other.steps) == (0.125, 1)


def test_a_tensor_that_moves_is_followed(through, rng):
    w, other = made(np.zeros(5), "float"), made(np.full(5, 9.0), "float")
    opt = optim.SGD(w, lr=1.0, momentum=0.5)
    give(w, np.ones(5))
    opt.step()
    w.point_to(other.detach())
    opt.step()  # the momentum is 1.5 by now
    assert np.array_equal(other.to_numpy(), np.full(5, 7.5))
    fresh = spy.Tensor.from_numpy(w.device, np.full(5, 0.25, np.float32))
    w.grad_out = fresh
    opt.step()
    assert np.array_equal(other.to_numpy(), np.full(5, 6.5))  # 0.75 + 0.25
    opt.zero_grad()
    assert not fresh.to_numpy().any()


class Watcher:
    def __init__(self, tensor):
        self.times = 0
        writes.watch(tensor, self.told)

    def told(self):
        self.times += 1


def test_views_are_told(device):
    a, b = made([1.0], "float"), made([1.0], "float")
    first, second = Watcher(a), Watcher(b)
    try:
        opt = optim.Adam(a, lr=0.1)
        opt.step()
        opt.zero_grad()
        optim.clip_grad_norm(a, 1.0)
        optim.clip_grad_value(a, 1.0)
        assert (first.times, second.times) == (4, 0)
        lbfgs = optim.LBFGS(b)
        give(b, [1.0])
        lbfgs.step(lambda: float(b.to_numpy()[0]))
        assert second.times > 0
    finally:
        writes.ignore(first)
        writes.ignore(second)


def test_a_step_brings_nothing_to_the_host_and_waits_for_nothing(device, monkeypatch):
    params = [made(np.ones(5000), "float"), made(np.ones(3), "double")]
    opts = [
        getattr(optim, rule)(params, clip_norm=0.5, skip_nonfinite=True) for rule in RULES if rule != "LBFGS"
    ]
    for opt in opts:
        opt.step()
        opt.zero_grad()

    def refuse(*_, **__):
        pytest.fail("a step read or waited")

    for kind, name in (
        (spy.Buffer, "to_numpy"),
        (spy.Buffer, "copy_from_numpy"),
        (spy.Device, "wait"),
        (spy.Device, "wait_for_idle"),
        (spy.Device, "wait_for_submit"),
        (spy.Device, "create_buffer"),
    ):
        monkeypatch.setattr(kind, name, refuse)
    submits = []
    own = spy.Device.submit_command_buffer
    monkeypatch.setattr(
        spy.Device, "submit_command_buffer", lambda *a, **k: submits.append(1) or own(*a, **k)
    )
    for opt in opts:
        opt.step()
        opt.zero_grad()
    assert len(submits) == 2 * len(opts)


def test_optim_is_an_attribute_of_the_package():
    assert slanglab.optim is optim
    assert "optim" in dir(slanglab)
    for name in optim.__all__:
        assert hasattr(optim, name)


def test_lbfgs_without_a_closure(device):
    with pytest.raises(CallError, match="closure"):
        optim.LBFGS(made([1.0], "float")).step()


def test_a_tensor_in_the_worker_process(device):
    class There:
        def slanglab_there(self, *_):
            pytest.fail("asked the worker")

    for params in (There(), [There()], {"w": There()}):
        with pytest.raises(ArgumentError, match="lies in the worker process") as caught:
            optim.Adam(params)
        assert "engine notebook" in caught.value.hint


def test_hyper_parameters_change_between_steps_or_are_refused(device):
    w = made([0.0], "float")
    give(w, [1.0])
    opt = optim.SGD(w, lr=1.0, momentum=0.5)
    opt.step()
    opt.momentum = 0.25
    opt.step()
    assert w.to_numpy()[0] == -2.25
    for made_with, name, value in (
        (opt, "momentum", 0.0),
        (opt, "nesterov", True),
        (optim.SGD(made([0.0], "float")), "momentum", 0.9),
        (optim.RMSProp(made([0.0], "float")), "centered", True),
        (optim.Adam(made([0.0], "float")), "betas", 0.9),
    ):
        before = getattr(made_with, name)
        with pytest.raises(ArgumentError, match=f"{name} cannot become"):
            setattr(made_with, name, value)
        assert getattr(made_with, name) == before
