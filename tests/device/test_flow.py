"""How gradients flow: recorded calls, and norms against numpy's."""

import numpy as np
import pytest

import slanglab as sl
from slanglab.cells.function import SlangFunction
from slanglab.cells.recording import key

SOURCE = """
[Differentiable] float layer(float w, float x) { return tanh(w * x); }
[Differentiable] float squared(float a, no_diff float y) { let e = a - y; return e * e; }
"""


@pytest.fixture(scope="module")
def module(device):
    return sl.compile(SOURCE, "flow_test")


def tensor(values):
    return sl.tensor(np.asarray(values, np.float32), grad=True)


def norms(found):
    return {node.name: node.gradient for node in found.nodes.values()}


def test_one_call(module, rng):
    w, x = (tensor(rng.normal(size=40)) for _ in range(2))
    a, b = w.to_numpy().astype(np.float64), x.to_numpy().astype(np.float64)
    w.grad.copy_from_numpy(np.full(40, 5, np.float32))
    found = sl.flow(module.layer, w, x)
    slope = 1 - np.tanh(a * b) ** 2
    known = norms(found)
    assert known["w"] == pytest.approx(np.linalg.norm(slope * b), rel=1e-4)
    assert known["x"] == pytest.approx(np.linalg.norm(slope * a), rel=1e-4)
    assert known["layer(…)"] == pytest.approx(np.sqrt(40), rel=1e-6)
    assert len(found.calls) == 1
    assert found.calls[0].backward == 1


def test_a_chain_of_layers(module, rng):
    ws = [tensor(rng.normal(size=16)) for _ in range(3)]
    hs = [tensor(np.zeros(16)) for _ in range(3)]
    x, loss = tensor(rng.normal(size=16)), tensor(np.zeros(16))
    plain = SlangFunction.__call__

    def step():
        inputs = [x, *hs]
        for w, before, after in zip(ws, inputs, hs, strict=False):
            module.layer(w, before, _result=after)
        module.squared(hs[-1], 0.5, _result=loss)
        loss.grad.copy_from_numpy(np.ones(16, np.float32))
        module.squared.bwds(hs[-1], 0.5, _result=loss)
        for i in (2, 1, 0):
            module.layer.bwds(ws[i], inputs[i], _result=hs[i])

    found = sl.flow(step)
    assert SlangFunction.__call__ is plain
    assert [call.name for call in found.calls] == ["layer", "layer", "layer", "squared"]
    assert all(call.backward == 1 for call in found.calls)
    # The result of each is what the next one takes.
    for one, other in zip(found.calls, found.calls[1:], strict=False):
        assert key(one.outputs[0][1]) in [key(t) for _, t in other.inputs]
    values = [x.to_numpy().astype(np.float64)]
    for w in ws:
        values.append(np.tanh(w.to_numpy() * values[-1]))
    slope = 2 * (values[-1] - 0.5)
    for i in (2, 1, 0):
        node = found.nodes[key(hs[i])]
        assert node.gradient == pytest.approx(np.linalg.norm(slope), rel=1e-3)
        inner = slope * (1 - values[i + 1] ** 2)
        assert found.nodes[key(ws[i])].gradient == pytest.approx(np.linalg.norm(inner * values[i]), rel=1e-3)
        slope = inner * ws[i].to_numpy()
    html = found.html()
    assert html.count('class="f"') == 4
    assert "<script" not in html
    assert found.text.splitlines()[0] == "layer"


def test_a_block_and_what_is_odd(module, rng):
    with sl.flow() as empty:
        pass
    assert "no call" in repr(empty)
    assert "No call" in empty.html()
    w = tensor([1.0, 2.0])
    with sl.flow() as found:
        module.layer(w, np.ones(2, np.float32))
    assert found.calls[0].backward == 0
    assert "(no backward call)" in found.text
    assert norms(found)["w"] == 0
    w.grad.copy_from_numpy(np.array([np.nan, 1], np.float32))
    with sl.flow() as found:
        module.layer(w, 1.0)
    assert "gradient not finite" in found.text
    with pytest.raises(sl.SlangLabError, match="recorded already"), found:
        pass
    plain = SlangFunction.__call__
    with pytest.raises(ZeroDivisionError):
        sl.flow(lambda: 1 / 0)
    assert SlangFunction.__call__ is plain
    with pytest.raises(sl.ArgumentError):
        sl.flow(3)


def test_names_are_escaped(module):
    from slanglab.widgets.flow import Flow, Node

    w = tensor([1.0])
    with sl.flow() as found:
        module.layer(w, 1.0)
    assert isinstance(found, Flow)
    found.nodes[key(w)] = Node("<b>größe</b>", (1,), 1.0)
    assert "<b>" not in found.html()
    assert "größe" in found.html()
