"""What an explorer computes: knobs from signature and source, value and gradient against numpy and analysis, edits of the cell."""

import enum
import math

import numpy as np
import pytest

import slanglab as sl
from slanglab.exploring.descent import Walker
from slanglab.exploring.exploration import Exploration
from slanglab.exploring.knobs import ExploreError
from slanglab.widgets import explorer_frames

SOURCE = """\
uniform float unused; // @slider(0, 1, 0.5)
[playground::SLIDER(0.5, 0.0, 2.0)] uniform float gain;
[playground::COLOR_PICK(0.25, 0.5, 0.75)]
uniform float3 light;

struct Shape : IDifferentiable { float size; float2 offset; }

[Differentiable]
float wave(float x, float a, float b = 0.35, no_diff float c = 4.0) { return a * exp(-b * x * x) * cos(c * x); }

[Differentiable]
float annotated(float x, // @slider(-2, 2, 0.5)
                [playground::SLIDER(0.75, 0, 1)] float a, /* @slider(1, 3) */ float b = 1.5, // @slider(0, 4)
                int n = 2) // @slider(0, 5)
{ return a * x + b * float(n); }

[Differentiable]
float valley(float2 p, float k = 5.0) { float u = 1.2 - p.x; float v = p.y - p.x * p.x; return u * u + k * v * v; }

[Differentiable] float product(float x, float y, float a) { return a * x * y * y; }
[Differentiable] float shaped(float x, Shape s) { return x * s.size + s.offset.x * s.offset.y; }
[Differentiable] float3 picture(float2 uv, float3 tint) { return tint * uv.x + float3(uv.y); }
[Differentiable] float2 two(float x, float2 a) { return float2(a.x * x, a.y * x * x); }
[Differentiable] float amplified(float x) { return x * gain + light.x; }
[Differentiable] void written(float x, out float y) { y = x * x * x; }
[Differentiable] float holes(float x) { return log(x) / (x - 1.0); }
[Differentiable] float constant(float x, float a) { return a; }
float stairs(float x, float a) { return floor(x * a); }
void in_place(inout float x) { x = x * 2.0; }
void nothing(float x) {}
float flagged(float x, bool on, int n, uint m) { return (on ? x : -x) + float(n) * 10.0 + float(m); }
enum Mode { slow, fast }
float moded(float x, Mode mode) { return mode == Mode.fast ? x : -x; }
float strange(float x, float2x2 m) { return x * m[0][0]; }

void d_wrong(inout DifferentialPair<float> x, float g) { x = diffPair(x.p, g * 3.0 * x.p); }
[BackwardDerivative(d_wrong)]
float wrong(float x) { return x * x; }
"""


@pytest.fixture(scope="module")
def module(device):
    return sl.compile(SOURCE, "explored")


X = np.linspace(-3, 3, 101)
SINGLE = X.astype(np.float32).astype(np.float64)


def looked(function, **given):
    exploration = Exploration(function, given)
    return exploration, exploration.look()


# ----- knobs -----


def test_ranges_values_defaults_and_annotations(module):
    knobs = Exploration(module.wave, {"x": X, "a": (-5, 5, 1.5, 0.5)}).knobs
    assert (knobs["a"].low, knobs["a"].high, knobs["a"].start, knobs["a"].step) == (-5, 5, 1.5, 0.5)
    assert knobs["b"].start == pytest.approx(0.35)
    assert knobs["b"].low < 0.35 < knobs["b"].high
    assert knobs["a"].differentiable
    assert not knobs["c"].differentiable
    knobs = Exploration(module.annotated, {}).knobs
    assert [(k.path, k.low, k.high, k.start, k.kind) for k in knobs.values()] == [
        ("x", -2, 2, 0.5, "float"),
        ("a", 0, 1, 0.75, "float"),
        ("b", 0, 4, 1.5, "float"),
        ("n", 0, 5, 2, "int"),
    ]


def test_uniforms_are_knobs_of_the_functions_that_reach_them(module):
    exploration, found = looked(module.amplified, x=X)
    assert list(exploration.knobs) == ["gain", "light.x", "light.y", "light.z"]
    assert all(exploration.knobs[f"light.{c}"].color for c in "xyz")
    np.testing.assert_allclose(found.value, SINGLE * 0.5 + 0.25, rtol=1e-6)
    exploration.set("gain", 1.5)
    found = exploration.look()
    np.testing.assert_allclose(found.value, SINGLE * 1.5 + 0.25, rtol=1e-6)
    np.testing.assert_allclose(found.gradients["x"], 1.5, rtol=1e-6)
    assert "gain" not in Exploration(module.wave, {"x": X, "a": 1}).knobs


def test_switches_whole_numbers_and_choices(module):
    class Size(enum.IntEnum):
        small = 1
        large = 5

    exploration, found = looked(module.flagged, x=X, on=True, n=Size, m=(0, 9, 2))
    assert [k.kind for k in exploration.knobs.values()] == ["bool", "choice", "int"]
    np.testing.assert_allclose(found.value, SINGLE + 12, rtol=1e-6)
    exploration.set("on", False)
    exploration.set("n", "large")
    exploration.set("m", 2.6)
    np.testing.assert_allclose(exploration.look().value, -SINGLE + 53, rtol=1e-6)
    assert exploration.values == {"x": exploration.axes[0].value, "on": False, "n": 5, "m": 3}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"x": X}, "a (float) is neither given nor has a default"),
        ({"x": X, "a": (5, -5)}, "runs backward"),
        ({"x": X, "a": (1, 1)}, "both ends are the same"),
        ({"x": X, "a": (math.nan, 1)}, "NaN"),
        ({"x": X, "a": (0, 1, 2)}, "lies outside"),
        ({"x": X, "a": (0, 1, 0.5, -1)}, "step"),
        ({"x": X, "a": (0,)}, "holds 1 numbers"),
        ({"x": X, "a": math.inf}, "cannot be turned"),
        ({"x": X, "a": "one"}, "str"),
        ({"x": X, "a": {}}, "nothing to choose"),
        ({"x": X, "a": 1, "zz": 1}, "no parameter 'zz'"),
        ({"x": np.array([0, 1, 0.5]), "a": 1}, "up and down"),
        ({"x": np.array([0, np.nan]), "a": 1}, "NaN or an infinity"),
        ({"x": np.zeros((2, 3)), "a": 1}, "one dimension"),
        ({"x": np.zeros(1), "a": 1}, "an axis needs two"),
        ({"x": X, "a": X, "b": X}, "3 axes"),
    ],
)
def test_what_cannot_be_a_control_is_refused_in_words(module, given, words):
    with pytest.raises(ExploreError) as caught:
        Exploration(module.wave, given)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("in_place", {"x": X}, "inout"),
        ("nothing", {"x": X}, "nothing"),
        ("strange", {"x": X}, "no control"),
        ("moded", {"x": X}, '"slow": 0, "fast": 1'),
        ("shaped", {"x": X, "s": 1.0}, "its fields"),
        ("shaped", {"x": X, "s": {"sise": 1.0}}, "no field 'sise'"),
        ("shaped", {"x": X}, "s.size"),
        ("two", {"x": X, "a": (1, 2, 3)}, "2 components"),
    ],
)
def test_functions_that_cannot_be_drawn_say_what_to_do(module, name, given, words):
    with pytest.raises(ExploreError) as caught:
        Exploration(getattr(module, name), given)
    assert words in str(caught.value)
    assert caught.value.hint


def test_python_functions_are_refused():
    with pytest.raises(ExploreError, match="not a Slang function"):
        Exploration(math.sin, {"x": X})


# ----- values and gradients -----


def test_a_curve_and_each_elements_own_gradient(module, rng):
    a, b, c = rng.uniform(0.5, 3), rng.uniform(0.1, 1), rng.uniform(1, 6)
    exploration, _ = looked(module.wave, x=X, a=(0, 4), b=(0, 2), c=(0, 8))
    for name, value in (("a", a), ("b", b), ("c", c)):
        exploration.set(name, value)
    found = exploration.look()
    hull = np.exp(-b * SINGLE**2)
    np.testing.assert_allclose(found.value, a * hull * np.cos(c * SINGLE), atol=1e-5)
    np.testing.assert_allclose(found.gradients["a"], hull * np.cos(c * SINGLE), atol=1e-5)
    np.testing.assert_allclose(found.gradients["b"], -a * SINGLE**2 * hull * np.cos(c * SINGLE), atol=5e-5)
    slope = a * hull * (-2 * b * SINGLE * np.cos(c * SINGLE) - c * np.sin(c * SINGLE))
    np.testing.assert_allclose(found.gradients["x"], slope, atol=1e-4)
    assert "c" not in found.gradients
    exploration.set("x", 1.0)
    exploration.look_here(found)
    at = int(np.argmin(np.abs(SINGLE - 1.0)))
    assert found.here.gradients["x"][0] == pytest.approx(slope[at], abs=1e-4)


def test_a_plane_its_axes_and_the_point(module):
    x, y = np.linspace(-1, 2, 21), np.linspace(0, 3, 13)
    exploration, found = looked(module.product, x=x, y=y, a=(0, 4, 2.0))
    xs, ys = (v.astype(np.float32).astype(np.float64) for v in (x, y))
    np.testing.assert_allclose(found.value, 2 * xs[None, :] * ys[:, None] ** 2, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        found.gradients["x"], np.broadcast_to(2 * ys[:, None] ** 2, (13, 21)), rtol=1e-5
    )
    np.testing.assert_allclose(found.gradients["y"], 4 * xs[None, :] * ys[:, None], rtol=1e-5, atol=1e-6)
    exploration.set("x", 1.4)
    exploration.set("y", 2.5)
    found = exploration.look()
    px, py = exploration.axes[0].value, exploration.axes[1].value
    assert (px, py) == (pytest.approx(1.4, abs=0.1), pytest.approx(2.5, abs=0.15))
    assert found.here.value[0] == pytest.approx(2 * px * py**2, rel=1e-5)
    assert found.here.gradients["a"][0] == pytest.approx(px * py**2, rel=1e-5)


def test_a_float2_with_two_ranges_is_a_plane(module):
    exploration, found = looked(module.valley, p=((-2, 2), (-1, 3)))
    assert exploration.form == "field"
    assert found.value.shape == (128, 128)
    x = exploration.axes[0].points[None, :]
    y = exploration.axes[1].points[:, None]
    np.testing.assert_allclose(found.value, (1.2 - x) ** 2 + 5 * (y - x * x) ** 2, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found.gradients["p.y"], 10 * (y - x * x), rtol=1e-4, atol=1e-4)


def test_a_struct_is_a_group_of_knobs(module):
    exploration, found = looked(module.shaped, x=X, s={"size": (0, 3, 1.5), "offset": (0.5, (0, 4, 2.0))})
    assert list(exploration.knobs) == ["s.size", "s.offset.x", "s.offset.y"]
    np.testing.assert_allclose(found.value, SINGLE * 1.5 + 1.0, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.gradients["s.size"], SINGLE, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.gradients["s.offset.x"], 2.0, rtol=1e-6)


def test_an_image_a_vector_and_an_out_parameter(module):
    exploration, found = looked(module.picture, uv=((0, 1), (0, 1)), tint=(1.0, 0.5, 0.25))
    assert exploration.form == "image"
    assert found.value.shape == (128, 128, 3)
    u, v = exploration.axes[0].points[None, :, None], exploration.axes[1].points[:, None, None]
    np.testing.assert_allclose(found.value, np.array([1, 0.5, 0.25]) * u + v, rtol=1e-5, atol=1e-6)
    assert all(exploration.knobs[f"tint.{c}"].color for c in "xyz")
    assert found.here.gradients["uv.y"][0] == pytest.approx(3)

    exploration, found = looked(module.two, x=X, a=(2.0, 3.0))
    np.testing.assert_allclose(found.gradients["x"], 2.0)
    exploration.component = 1
    np.testing.assert_allclose(exploration.look().gradients["x"], 6 * SINGLE, rtol=1e-5, atol=1e-6)

    _, found = looked(module.written, x=X)
    np.testing.assert_allclose(found.value, SINGLE**3, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.gradients["x"], 3 * SINGLE**2, rtol=1e-5, atol=1e-6)


def test_a_scalar_and_its_sensitivities(module):
    exploration, found = looked(module.product, x=1.5, y=2.0, a=(0, 4, 3.0))
    assert exploration.form == "dial"
    assert found.value[0] == pytest.approx(18)
    assert {p: float(g[0]) for p, g in found.here.gradients.items()} == pytest.approx(
        {"x": 12, "y": 18, "a": 6}
    )


def test_what_has_no_gradient_says_why(module):
    exploration, found = looked(module.stairs, x=X, a=2.0)
    np.testing.assert_allclose(found.value, np.floor(SINGLE * 2))
    assert found.gradients == {}
    assert "[Differentiable]" in exploration.refused
    with pytest.raises(ExploreError, match="downhill"):
        exploration.begin_descent((0,))


def test_constants_and_holes(module):
    _, found = looked(module.constant, x=X, a=2.0)
    assert set(found.value) == {2.0}
    assert set(found.gradients["x"]) == {0.0}
    assert set(found.gradients["a"]) == {1.0}
    exploration, found = looked(module.holes, x=X)
    meta, arrays = explorer_frames.frame(exploration, found, 1)
    assert meta["missing"]["nan"] == np.isnan(found.value).sum() > 0
    assert np.isnan(arrays["value"]).sum() == meta["missing"]["nan"]


# ----- differences -----


def test_differences_agree_where_the_gradient_is_true_and_not_where_it_is_wrong(module):
    exploration = Exploration(module.wave, {"x": X, "a": (0, 4, 1.5)})
    exploration.differences = True
    found = exploration.look()
    assert {p: q.verdict for p, q in found.quotients.items()} == {"x": "agrees", "a": "agrees", "b": "agrees"}
    np.testing.assert_allclose(
        found.quotients["a"].measured, np.exp(-0.35 * SINGLE**2) * np.cos(4 * SINGLE), atol=1e-3
    )
    exploration = Exploration(module.wrong, {"x": X})
    exploration.differences = True
    found = exploration.look()
    assert found.quotients["x"].verdict == "differs"
    assert found.quotients["x"].worst == pytest.approx(3, rel=0.05)
    assert any("differs" in note for note in found.notes)


def test_differences_measure_what_has_no_gradient(module):
    exploration = Exploration(module.stairs, {"x": X, "a": 2.0})
    exploration.differences = True
    found = exploration.look().quotients["x"]
    assert found.verdict == "cannot tell"
    assert found.reason


# ----- descent -----


@pytest.mark.parametrize("name", ["Adam", "momentum", "GD"])
def test_a_descent_is_that_of_numpy(module, name):
    exploration = Exploration(module.valley, {"p": ((-2, 2), (-1, 3))})
    exploration.descent.optimizer, exploration.descent.rate = name, 0.005
    exploration.begin_descent((-1.0, 2.0))
    for _ in range(30):
        assert exploration.descent.step()
    p, m, v = np.array([-1.0, 2.0]), np.zeros(2), np.zeros(2)
    for k in range(1, 31):
        x, y = p
        g = np.array([-2 * (1.2 - x) - 20 * x * (y - x * x), 10 * (y - x * x)])
        if name == "GD":
            p = p - 0.005 * g
        elif name == "momentum":
            m = 0.9 * m + g
            p = p - 0.005 * m
        else:
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            p = p - 0.005 * (m / (1 - 0.9**k)) / (np.sqrt(v / (1 - 0.999**k)) + 1e-8)
    np.testing.assert_allclose(exploration.descent.path[-1], p, rtol=2e-3, atol=2e-4)
    assert exploration.descent.values[-1] < exploration.descent.values[0]


def test_a_descent_that_runs_away_says_so(module):
    exploration = Exploration(module.valley, {"p": ((-2, 2), (-1, 3))})
    exploration.descent.optimizer, exploration.descent.rate = "GD", 1e3
    exploration.begin_descent((-1.0, 2.0))
    for _ in range(50):
        if not exploration.descent.step():
            break
    assert exploration.descent.stopped


def test_unknown_optimizers_are_refused():
    with pytest.raises(ValueError, match="Adam, momentum, GD"):
        Walker("SGDD")


# ----- the view -----


def test_the_code_gives_the_result(module, rng):
    space = {"np": np, "explored": module}
    cases = [
        sl.explore(module.wave, x=np.linspace(-2, 2, 55), a=(0, 3)),
        sl.explore(module.valley, p=((-2, 2), (-1, 3))),
        sl.explore(module.product, x=np.linspace(0, 1, 7), y=np.linspace(1, 2, 5), a=(0, 3)),
        sl.explore(module.shaped, x=np.linspace(0, 1, 7), s={"size": 1.5, "offset": (0.5, 2.0)}),
        sl.explore(module.product, x=1.0, y=2.0, a=3.0),
        sl.explore(module.amplified, x=np.linspace(0, 1, 7)),
    ]
    for e in cases:
        for knob in e._explored.knobs.values():
            e.set(**{knob.path: round(float(rng.uniform(knob.low, knob.high)), 3)})
        made = eval(e.code, dict(space))
        made = made.to_numpy() if hasattr(made, "to_numpy") else np.array([made])
        np.testing.assert_allclose(made, e.result, rtol=2e-5, atol=2e-6, err_msg=e.code)
        e.close()


def test_settings_results_and_gradients(module):
    e = sl.explore(module.wave, x=X, a=(-5, 5, 1.5))
    e.set(a=2.5, x=0.6)
    assert e.values["a"] == 2.5
    assert e.values["x"] == pytest.approx(0.6)
    np.testing.assert_allclose(e.grads["a"], np.exp(-0.35 * SINGLE**2) * np.cos(4 * SINGLE), atol=1e-5)
    with pytest.raises(ExploreError, match="nothing is called 'q'"):
        e.set(q=1)
    with pytest.raises(ExploreError, match="finite"):
        e.set(a=math.nan)
    e.reset()
    assert e.values["a"] == 1.5
    data, metadata = e._repr_mimebundle_()
    assert "wave(float x" in data["text/plain"]
    assert data["image/png"].startswith("iVBOR")
    assert metadata["image/png"]["width"] == 860
    e.close()


def test_requests_of_the_browser(module, monkeypatch):
    e = sl.explore(module.wave, x=X, a=(-5, 5, 1.5))
    sent = []
    monkeypatch.setattr(e, "answer", lambda kind, meta, arrays=None: sent.append((kind, meta, arrays)))
    e._take({"kind": "set", "ask": 7, "values": {"a": 3.0, "nobody": 1, "b": "x", "c": None}})
    kind, meta, arrays = sent.pop()
    assert (kind, meta["ask"], meta["values"]["a"], meta["values"]["b"]) == ("look", 7, 3.0, 0.35)
    np.testing.assert_allclose(arrays["value"], 3 * np.exp(-0.35 * SINGLE**2) * np.cos(4 * SINGLE), atol=1e-5)
    e._take({"kind": "set", "ask": 8, "values": {"a": 1e9}})
    assert sent.pop()[1]["values"]["a"] == 5.0
    e._take({"kind": "point", "values": {"x": 1.0}, "ask": 9})
    assert sent.pop()[0] == "here"
    assert e.values["x"] == pytest.approx(1.0, abs=0.04)
    for hostile in ({"values": 3}, {"values": {"a": []}}, {"component": 99}, {"steps": -1}, {"point": ["x"]}):
        for kind in ("set", "point", "choose", "descend"):
            e._take({"kind": kind, **hostile})
    e.close()


def test_the_setting_that_follows_is_run_ahead(module, monkeypatch):
    """A step is followed by the frame of the next one; where that comes, nothing is run for it again."""
    e = sl.explore(module.wave, x=X, a=(0, 4, 1.5))
    sent = []
    for name in ("answer", "tell"):
        monkeypatch.setattr(e, name, lambda kind, meta, arrays=None: sent.append((kind, meta, arrays)))

    def asks(ask, a, **more):
        sent.clear()
        e._take({"kind": "set", "ask": ask, "values": {"a": a, "b": 0.35}, **more})
        return {kind: (meta, arrays) for kind, meta, arrays in sent}

    def value(a):
        return a * np.exp(-0.35 * SINGLE**2) * np.cos(4 * SINGLE)

    found = asks(1, 1.6, ahead={"a": 1.7, "b": 0.35})
    np.testing.assert_allclose(found["look"][1]["value"], value(1.6), atol=1e-6)
    meta, arrays = found["ahead"]
    np.testing.assert_allclose(arrays["value"], value(1.7), atol=1e-6)
    assert meta["values"]["a"] == 1.7
    assert "a=1.7" in meta["code"]
    assert (meta["ask"], meta["answers"]) == (None, None)
    # It is no setting yet.
    assert e.values["a"] == 1.6
    np.testing.assert_allclose(e.result, value(1.6), atol=1e-6)

    looks = []
    look = Exploration.look
    monkeypatch.setattr(Exploration, "look", lambda self: looks.append(self.knobs["a"].value) or look(self))
    found = asks(2, 1.7, known=True, ahead={"a": 1.8, "b": 0.35})
    assert looks == [1.8]
    assert "look" not in found
    assert found["ahead"][0]["answers"] == 2
    assert e.values["a"] == 1.7
    np.testing.assert_allclose(e.result, value(1.7), atol=1e-6)
    assert "a=1.7" in e.text
    # What the view takes for known is another picture by now: it is told.
    e._take({"kind": "choose", "ask": 3, "differences": True})
    found = asks(4, 1.8, known=True)
    assert found["look"][0]["ask"] == 4
    assert found["look"][0]["values"] == {"a": 1.8, "b": 0.35, "c": 4.0}
    assert found["look"][0]["quotients"]["a"]["verdict"] == "agrees"
    # Without a guess, and with a senseless one.
    assert asks(5, 1.9, ahead={"a": 2.0, "nothing": 3})["look"][0]["ask"] == 5
    assert "ahead" not in asks(6, 2.0, ahead=[1, 2])
    assert e.values["a"] == 2.0
    e.close()


def test_what_prints_is_not_run_ahead(device, capsys, monkeypatch):
    loud = sl.compile(
        'import sgl.device.print;\nfloat loud(float x, float a) { if (x > 2.9) print("a={}", a); return a * x; }',
        "explore_loud",
    )
    e = sl.explore(loud.loud, x=X, a=(0, 4, 1.5))
    sent = []
    for name in ("answer", "tell"):
        monkeypatch.setattr(e, name, lambda kind, meta, arrays=None: sent.append(kind))
    capsys.readouterr()
    e._take({"kind": "set", "ask": 1, "values": {"a": 2.0}, "ahead": {"a": 2.5}})
    assert sent == ["look"]
    assert "2.5" not in capsys.readouterr().out
    e.close()


def test_a_path_is_in_the_twins(module):
    e = sl.explore(module.valley, p=((-2, 2), (-1, 3)))
    before = e.text, e.png
    path = e.descend((-1.5, 2.0), steps=5, optimizer="momentum", lr=0.01)
    assert path.shape == (6, 2)
    assert path.dtype == np.float64
    assert "momentum: 5 steps" in e.text
    assert e.png != before[1]
    e._take({"kind": "descend", "steps": 2, "ask": 3})
    assert "momentum: 7 steps" in e.text
    e.set(k=7.0)  # other walls: the steps would be others
    assert "momentum: 0 steps" in e.text
    e.close()


def test_linked_knobs_turn_together(module):
    one = sl.explore(module.wave, x=X, a=(-5, 5, 1.5))
    other = sl.explore(module.product, x=X, y=1.0, a=(0, 4, 2.0))
    one.link(other, "a")
    assert other.values["a"] == 1.5
    one.set(a=3.0)
    assert other.values["a"] == 3.0
    np.testing.assert_allclose(other.result, 3 * SINGLE, rtol=1e-5, atol=1e-6)
    other.set(a=0.5)
    assert one.values["a"] == 0.5
    one.set(a=-2.0)  # outside the other's range: that stands at its end
    assert other.values["a"] == 0.0
    assert one.values["a"] == -2.0
    with pytest.raises(ExploreError, match="no knob 'q'"):
        one.link(other, "q")
    one.close()
    other.close()


def test_compared_functions_share_the_knobs(module):
    made = sl.compile(
        "[Differentiable] float f(float x, float a) { return a * x; }\n"
        "[Differentiable] float g(float a, float x) { return a * x * x; }\n"
        "[Differentiable] float2 h(float x, float a) { return float2(a); }"
    )
    e = sl.explore(made.f, compare=[made.f, made.g], x=X, a=(0, 4, 2.0))
    assert [name for name, _ in e._looked.others] == ["g"]
    e.set(a=3.0)
    np.testing.assert_allclose(e._looked.others[0][1], 3 * SINGLE**2, rtol=1e-5, atol=1e-6)
    with pytest.raises(ExploreError, match="float2"):
        sl.explore(made.f, compare=made.h, x=X, a=1.0)
    e.close()


def test_an_explorer_follows_its_cell(device):
    text = "[Differentiable] float f(float x, float a) { return a * x; }"
    made = sl.compile(text, "followed")
    e = sl.explore(made.f, x=X, a=(0, 4, 2.0))
    e.set(a=3.0)
    sl.compile(text.replace("a * x", "a * x * x"), "followed")
    np.testing.assert_allclose(e.result, 3 * SINGLE**2, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(e.grads["x"], 6 * SINGLE, rtol=1e-5, atol=1e-6)
    assert e.values["a"] == 3.0
    # One that fits no more keeps the last picture and says so; so does one that does not compile.
    sl.compile("[Differentiable] float f(float x, float c) { return c * x; }", "followed")
    np.testing.assert_allclose(e.result, 3 * SINGLE**2, rtol=1e-5, atol=1e-6)
    assert "does not fit" in e.info["trouble"]
    assert "'a'" in e.info["trouble"]
    sl.compile(text, "followed")
    np.testing.assert_allclose(e.result, 3 * SINGLE, rtol=1e-5, atol=1e-6)
    assert e.info["trouble"] == ""
    with pytest.raises(sl.CompileError):
        sl.compile(text.replace("a * x", "a * y"), "followed")
    np.testing.assert_allclose(e.result, 3 * SINGLE, rtol=1e-5, atol=1e-6)
    assert "does not compile" in e.info["trouble"]
    e.close()


def test_a_closed_explorer_is_left_alone(device):
    text = "[Differentiable] float f(float x, float a) { return a * x; }"
    made = sl.compile(text, "closed")
    e = sl.explore(made.f, x=X, a=(0, 4, 2.0))
    other = sl.explore(made.f, x=X, a=(0, 4, 1.0))
    e.link(other, "a")
    e.close()
    sl.compile(text.replace("a * x", "a"), "closed")
    other.set(a=3.0)
    assert e._explored.knobs["a"].value == 2.0
    other.close()


def test_long_curves_keep_what_stands_out(module, rng):
    count = int(rng.integers(200_000, 1_000_000))
    curve = np.sin(np.linspace(0, 9, count))
    spikes = rng.choice(count, 5, replace=False)
    curve[spikes[:4]] = [5, -5, 7, -7]
    curve[spikes[4]] = np.nan
    kept = explorer_frames.thinned([curve, curve * 2], 1000)
    assert len(kept) < 1600
    assert {0, count - 1} <= set(kept)
    assert {int(np.nanargmax(curve)), int(np.nanargmin(curve)), int(spikes[4])} <= set(kept.tolist())
    e = sl.explore(module.wave, x=np.linspace(-3, 3, 1_000_000), a=1.5)
    _meta, arrays = explorer_frames.frame(e._explored, e._looked, None)
    assert arrays["value"].size < 2000
    assert arrays["gradients"].shape[1] == arrays["value"].size
    assert arrays["value"].max() == np.float32(e.result.max())
    e.close()
