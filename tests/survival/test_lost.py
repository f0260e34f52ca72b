"""A lost device costs its tensors and a message: nothing blocks, no read gives zeros, and the next call computes on a new device."""

import numpy as np
import pytest
import slangpy as spy
from lost_device import Loss, possible

import slanglab
from slanglab.errors import DeviceGoneError
from slanglab.tensors.summary import summary

SOURCE = """
[Differentiable] float f(float x) { return x * x; }
float total(float a, float b) { return a + b; }
"""

PRINTS = """
import sgl.device.print;
float told(float x) { print("{}", x); return x + 1; }
"""


@pytest.fixture
def lab():
    lab = slanglab.current()
    if not possible(lab.device):
        pytest.skip("the loss of this device cannot be simulated")
    said = []
    before = lab.succession.say
    lab.succession.say = said.append
    policy = lab.control.policy
    lab.control.change(check="off")  # the first check makes dozens of submits
    yield lab, said
    lab.succession.say = before
    lab.control.policy = policy


def backward(m, x, y):
    m.f.bwds(x, _result=y)
    return x.grad.to_numpy()


def timed(m, x, y):
    with slanglab.timing():
        out = m.f(x)
        slanglab.last_run()
    return out.to_numpy()


def upload(m, x, y):
    x.copy_from_numpy(np.full(4, 7, np.float32))
    return x.to_numpy()


def large(m, x, y):
    return slanglab.full((100_000,), 3.0).to_numpy()


def waits(m, x, y):
    slanglab.sync()


SITES = {
    "call": (lambda m, x, y: m.f(x).to_numpy(), [1, 4, 9, 16]),
    "call with numbers": (lambda m, x, y: m.total(2.0, 3.0), 5.0),
    "call with an array": (lambda m, x, y: m.f(np.arange(4.0), _result="numpy"), [0, 1, 4, 9]),
    "call that prints": (lambda m, x, y: slanglab.compile(PRINTS, "prints").told(x).to_numpy(), [2, 3, 4, 5]),
    "timed call": (timed, [1, 4, 9, 16]),
    "backward call": (backward, [2, 4, 6, 8]),
    "read-back": (lambda m, x, y: x.to_numpy(), [1, 2, 3, 4]),
    "read-back of much": (large, np.full(100_000, 3.0)),
    "text": (lambda m, x, y: str(x), None),
    "cursor": (lambda m, x, y: x.cursor()[2].read(), 3.0),
    "upload": (upload, [7, 7, 7, 7]),
    "new tensor": (lambda m, x, y: slanglab.tensor([1.0, 2.0]).to_numpy(), [1, 2]),
    "clear": (lambda m, x, y: (x.clear(), x.to_numpy())[1], [0, 0, 0, 0]),
    "view": (lambda m, x, y: summary(x).value.maximum, 4.0),
    "wait": (waits, None),
}


@pytest.mark.parametrize("site", SITES)
def test_a_loss_at_any_submit_is_an_error_or_the_result_is_right(lab, site):
    lab, said = lab
    action, right = SITES[site]
    m = slanglab.compile(SOURCE, "lost")
    for after in (0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89):
        x = slanglab.tensor([1, 2, 3, 4], grad=True)
        y = m.f(x, _result="tensor").with_grads()
        slanglab.assign(y.grad, 1.0)
        said.clear()
        with Loss(lab.device) as loss:
            loss.lose(lab.device, after)
            try:
                result = action(m, x, y)
            except DeviceGoneError as error:
                assert loss.happened, "an error without a loss"
                assert "lost" in str(error)
            else:
                if right is not None:
                    np.testing.assert_allclose(result, right)
            if not loss.happened:
                break  # the action makes fewer submits than that
            with pytest.raises(DeviceGoneError, match="lost"):
                x.to_numpy()
            with pytest.raises((DeviceGoneError, slanglab.ArgumentError), match="lost"):
                m.f(x).to_numpy()
            np.testing.assert_array_equal(m.f(np.arange(3.0), _result="numpy"), [0, 1, 4])
            assert "values are gone" in str(x)
        assert len(said) == 1
        assert "lost" in said[0]
    else:
        raise AssertionError("no end of submits")
    assert after, "the action submits nothing, so there is nothing to lose"


def test_the_loss_is_known_after_a_submit_of_the_users_own_fails(lab):
    lab, said = lab
    device = lab.device
    x = slanglab.tensor([1, 2, 3])
    with Loss(device) as loss:
        loss.lose(lab.device)
        with pytest.raises(RuntimeError, match="lost"):
            device.submit_command_buffer(device.create_command_encoder().finish())
        with pytest.raises(DeviceGoneError):
            x.to_numpy()
        assert slanglab.tensor([5.0]).to_numpy().tolist() == [5.0]
    assert "tensor" in said[0]


def test_reset_of_a_device_that_is_lost_opens_another(lab):
    lab, _ = lab
    m = slanglab.compile(SOURCE, "lost")
    with Loss(lab.device) as loss:
        loss.lose(lab.device)
        assert lab.reset() == []
        assert m.f(np.arange(3.0), _result="numpy").tolist() == [0, 1, 4]
        assert lab.reset() == []
        assert m.f(3.0) == 9.0


def test_a_device_of_the_users_own_that_is_lost_refuses_and_is_not_replaced(lab):
    lab, said = lab
    with Loss(lab.device) as loss:
        own = slanglab.device.open_device("vulkan")
        x = spy.Tensor.from_numpy(own, np.arange(4, dtype=np.float32))
        assert x.to_numpy().tolist() == [0, 1, 2, 3]
        loss.lose(own)
        with pytest.raises(DeviceGoneError):
            x.to_numpy()
        assert not said
        own.close()
    assert slanglab.tensor([1.0]).to_numpy().tolist() == [1.0]
