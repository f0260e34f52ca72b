"""The course's notebooks, from top to bottom in a kernel of their own, and their last numbers beside numpy's in float64."""

import json
from pathlib import Path

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))

# What a notebook's last numbers are asked for with, by its name.
ASKED = {
    "05-fit-a-curve.ipynb": "again.restore(); tell(params=params, losses=again.history['loss'], points=[x, y])",
    "06-a-small-network.ipynb": """
tame.restore(); field(); adam.zero_grad(); loss = step(0)
tell(params=params, gradients={name: t.grad for name, t in params.items()}, points=points, labels=labels,
     places=places, chances=chances, loss=loss, losses=run.history['loss'])
""",
    "07-splats.ipynb": """
adam.zero_grad(); loss = step(0)
tell(params=params, gradients={name: t.grad for name, t in params.items()}, places=places, target=target,
     output=output, loss=loss, losses=run.history['loss'])
""",
    "08-pytorch.ipynb": """
optimizer.zero_grad(); loss = net.error(model(points), labels).mean(); loss.backward()
layer = {"one": 1, "two": 2, "three": 3}
own = {f"{name[-1]}{layer[name[:-2]]}": p for name, p in model.named_parameters()}
tell(params={name: p.detach().numpy() for name, p in own.items()},
     gradients={name: p.grad.numpy() for name, p in own.items()}, points=points.numpy(), labels=labels.numpy(),
     places=places.numpy(), chances=field.numpy(), loss=loss.item(), losses=run.history['loss'])
""",
}
TELL = """
def tell(**asked):
    import json, numpy
    def plain(x):
        if isinstance(x, dict): return {name: plain(value) for name, value in x.items()}
        if isinstance(x, list): return [plain(value) for value in x]
        return numpy.asarray(x.to_numpy() if hasattr(x, 'to_numpy') else x).tolist()
    print(json.dumps(plain(asked)))
"""


def test_there_are_notebooks():
    assert NOTEBOOKS
    assert {path.name for path in NOTEBOOKS} >= set(ASKED) == set(CHECKS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.name)
def test_a_notebook_runs(path, tmp_path):
    if "torch" in path.name:
        pytest.importorskip("torch", reason="this notebook is about PyTorch")
    notebook = nbformat.read(path, as_version=4)
    asked = ASKED.get(path.name)
    if asked is not None:
        notebook.cells.append(nbformat.v4.new_code_cell(TELL + asked))
    client = NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    client.execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            streams = [o.text for o in cell.outputs if o.output_type == "stream" and o.name == "stderr"]
            assert not streams, f"{cell.source[:60]!r} wrote to stderr: {streams}"
            shown = "".join(o.get("data", {}).get("text/plain", "") for o in cell.outputs)
            assert "warning" not in shown, f"{cell.source[:60]!r} warns: {shown}"
    if asked is not None:
        text = "".join(o.text for o in notebook.cells[-1].outputs)
        CHECKS[path.name](_arrays(json.loads(text)))


def _arrays(found):
    if isinstance(found, dict):
        return {name: _arrays(value) for name, value in found.items()}
    return np.asarray(found, np.float64)


def _curve(found):
    """Descend as the notebook does."""
    x, y = found["points"]
    a, f, o = 1.0, 1.2, 0.0
    losses = []
    for _ in range(400):
        off = a * np.sin(f * x) + o - y
        losses.append(np.mean(off**2))
        slopes = np.mean([off * np.sin(f * x), off * a * x * np.cos(f * x), off], axis=1)
        a, f, o = np.array([a, f, o]) - 0.05 * 2 * slopes
    np.testing.assert_allclose(found["losses"], losses, rtol=1e-4)
    ends = np.concatenate([found["params"][name] for name in ("amplitude", "frequency", "offset")])
    np.testing.assert_allclose(ends, [a, f, o], atol=1e-4)


def _network(found):
    """Run the network and its backpropagation with matrices."""
    p = found["params"]

    def forward(x):
        h1 = np.maximum(x @ p["w1"].T + p["b1"], 0)
        h2 = np.maximum(h1 @ p["w2"].T + p["b2"], 0)
        return h1, h2, h2 @ p["w3"].T + p["b3"]

    x, labels = found["points"], found["labels"]
    h1, h2, score = forward(x)
    np.testing.assert_allclose(found["loss"], np.logaddexp(0, -labels * score).mean(), rtol=1e-3, atol=1e-6)
    wanted = {}
    flow = -labels / (1 + np.exp(labels * score)) / len(x)
    for layer, before in ((3, h2), (2, h1), (1, x)):
        wanted[f"w{layer}"], wanted[f"b{layer}"] = flow.T @ before, flow.sum(axis=0)
        flow = (flow @ p[f"w{layer}"]) * (before > 0)
    _alike(found["gradients"], wanted)
    chances = 1 / (1 + np.exp(-forward(found["places"])[2]))
    np.testing.assert_allclose(found["chances"].ravel(), chances.ravel(), atol=1e-3)
    assert np.mean(np.sign(score) == labels) > 0.98
    assert found["losses"][-1] < found["losses"][0] / 20


def _splats(found):
    """Render the blots, and the gradients by the chain rule."""
    p, at = found["params"], found["places"][:, :, None]
    away = (at - p["position"]) * np.exp(-p["size"])[:, None]
    bell = np.exp(-0.5 * np.sum(away**2, axis=-1))
    output = 1 / (1 + np.exp(-(bell @ p["colour"] + p["background"].reshape(3))))
    off = output - found["target"]
    np.testing.assert_allclose(found["output"], output, atol=1e-5)
    np.testing.assert_allclose(found["loss"], np.mean(off**2), rtol=1e-4)
    flow = 2 * off / off.size * output * (1 - output)
    each = bell * (flow @ p["colour"].T)
    _alike(
        found["gradients"],
        {
            "background": flow.sum(axis=(0, 1)).reshape(1, 3),
            "colour": np.einsum("yxn,yxc->nc", bell, flow),
            "size": np.sum(each * np.sum(away**2, axis=-1), axis=(0, 1)),
            "position": np.sum(each[..., None] * away, axis=(0, 1)) * np.exp(-p["size"])[:, None],
        },
    )
    assert found["losses"][-1] < found["losses"][0] / 20


def _alike(gradients, wanted):
    assert set(gradients) == set(wanted)
    for name, values in wanted.items():
        assert gradients[name].shape == values.shape
        most = np.abs(values).max()
        np.testing.assert_allclose(gradients[name], values, atol=1e-3 * most, rtol=1e-3, err_msg=name)


CHECKS = {
    "05-fit-a-curve.ipynb": _curve,
    "06-a-small-network.ipynb": _network,
    "07-splats.ipynb": _splats,
    "08-pytorch.ipynb": _network,
}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.name)
def test_a_notebook_is_committed_without_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    assert all(not c.get("outputs") and not c.get("execution_count") for c in notebook.cells)
