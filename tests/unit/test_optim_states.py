"""States of optimizers: what fits, and files of them."""

import numpy as np
import pytest

from slanglab.errors import ArgumentError
from slanglab.optim import states

HYPER = {"betas": (0.9, 0.999), "eps": 1e-8, "nesterov": False, "lr": 0.1}
SHAPES = {"w": {"exp_avg": (2, 3)}, "läuft/hin": {"exp_avg": (4,)}}


def state(**changes):
    return {
        "steps": 7,
        "skipped": 1,
        "hyper": dict(HYPER),
        "state": {"w": {"exp_avg": np.ones((2, 3), np.float32)}, "läuft/hin": {"exp_avg": np.arange(4.0)}},
        **changes,
    }


def test_a_state_that_fits():
    found = states.checked(state(), HYPER, SHAPES)
    assert (found.steps, found.skipped) == (7, 1)
    assert np.array_equal(found.arrays["läuft/hin"]["exp_avg"], np.arange(4))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, "no dict but NoneType"),
        ({}, "'hyper', 'skipped', 'state', 'steps' are missing"),
        (state(steps=-1), "'steps' is -1 and no count"),
        (state(steps=1.5), "no count"),
        (state(steps=np.ones(2, int)), "no count"),
        (state(hyper=3), "no dicts"),
        (state(hyper={"lr": 1}), "of another optimizer ('betas', 'eps', 'nesterov' are missing)"),
        (state(hyper={**HYPER, "alpha": 1}), "of another optimizer (it has 'alpha')"),
        (state(state={"w": {"exp_avg": np.ones((2, 3))}}), "parameters 'w', and these are 'w', 'läuft/hin'"),
        (state(state={"w": {}, "läuft/hin": {}}), "for the parameter 'w' it has nothing"),
        (state(state={"w": {"momentum_buffer": 1}, "läuft/hin": {}}), "it has 'momentum_buffer', and this"),
        (state(state={"w": {"exp_avg": np.ones(6)}, "läuft/hin": {}}), "shape (6,), and it should be (2, 3)"),
        (state(state={"w": {"exp_avg": np.full((2, 3), "x")}, "läuft/hin": {}}), "holds no numbers"),
        (state(state={"w": {"exp_avg": None}, "läuft/hin": {}}), "holds no numbers"),
    ],
)
def test_a_state_that_does_not_fit_says_why(given, said):
    with pytest.raises(ArgumentError) as caught:
        states.checked(given, HYPER, SHAPES)
    assert said in caught.value.message
    assert caught.value.hint


def test_a_file_brings_the_same_back(tmp_path, rng):
    given = state()
    given["state"]["w"]["exp_avg"] = rng.normal(size=(2, 3))
    given["state"][""] = {"a%2Fb": np.zeros(0)}
    given["state"]["none"] = {}
    states.save(tmp_path / "run.7", given)
    found = states.load(tmp_path / "run.7")
    assert int(found["steps"]) == 7
    assert np.array_equal(found["state"]["w"]["exp_avg"], given["state"]["w"]["exp_avg"])
    assert set(found["state"]) == set(given["state"])
    assert found["state"]["none"] == {}
    assert found["state"][""]["a%2Fb"].shape == (0,)
    assert states.like((0.5, 0.5), found["hyper"]["betas"], "betas") == (0.9, 0.999)
    assert states.like(True, found["hyper"]["nesterov"], "nesterov") is False


def test_npz_is_added(tmp_path):
    states.save(tmp_path / "run", state())
    assert (tmp_path / "run.npz").exists()
    assert int(states.load(str(tmp_path / "run"))["steps"]) == 7


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04 and no more"])
def test_a_file_of_something_else(tmp_path, content):
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(ArgumentError, match="no state of an optimizer"):
        states.load(tmp_path / "x.npz")


def test_a_pickle_is_not_run(tmp_path):
    class Harm:
        def __reduce__(self):
            return (pytest.fail, ("a pickle was run",))

    np.savez(tmp_path / "x.npz", harm=np.array([Harm()], dtype=object))
    with pytest.raises(ArgumentError, match="no state of an optimizer"):
        states.load(tmp_path / "x.npz")
    np.save(tmp_path / "y.npy", np.ones(3))
    with pytest.raises(ArgumentError, match="no state of an optimizer"):
        states.load(tmp_path / "y.npy")


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        states.load(tmp_path / "nothing.npz")
