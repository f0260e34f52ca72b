"""Each rule of the linter, run: its bad text by slangpy alone, its good text and what the hint says through SlangLab.

A bad text that gives the right gradient fails its test: the compiler has been mended, and the rule has to go.
"""

import numpy as np
import pytest
import slangpy as spy
from plain_slangpy import plain_backward

import slanglab
from slanglab.device import is_software
from slanglab.guard import KernelRefusedError
from slanglab.messages.refusal import KernelError
from slanglab.text.lint import RULES, doubles, lint
from slanglab.text.symbols import outline

RULE = {rule.code: rule for rule in RULES}
S = [1.0, 2.0, 3.0, 4.0, 5.0]
X = np.array([1.3, -0.7, 2.0])
W = np.array([[0.3 * ((7 * r + 3 * c) % 5 - 2) for c in range(3)] for r in range(8)])


def layers_gradient():
    """Of the sum over r of (0.1 + x b_r)², with b_r the sum over c of w[r, c] (c + 1)."""
    b = W @ np.array([1.0, 2.0, 3.0])
    return (2 * (0.1 + X[:, None] * b) * b).sum(axis=1)


# function, arguments, gradients (from analysis), and how slangpy fails on the bad text
CASES = {
    "conditional-access": (
        "gate",
        {"i": [0, 1, 2, 3, 4], "limit": 3, "s": S},
        {"s": [2, 4, 6, 0, 0]},
        "hangs",
    ),
    "loop-condition": ("window", {"r": [1, 1], "s": S}, {"s": [4, 8, 12, 0, 0]}, "hangs"),
    "while-condition": ("grow", {"x": [2.0, 3.0]}, {"x": [192, 108]}, "crashes"),
    "nested-reverse": ("slope", {"x": X.tolist()}, {"x": 6 * X}, "crashes"),
    "loop-start": ("window", {"x": X.tolist(), "r": 2}, {"x": 30 * X}, "fails"),
    "nested-loops": ("layers", {"x": X.tolist(), "w": W.tolist()}, {"x": layers_gradient()}, "wrong"),
    "too-few-iterations": ("power", {"x": X.tolist()}, {"x": 8 * X**7}, "wrong"),
    "generic-type": ("f", {"x": X.tolist()}, {"x": 3 * (X + 2) ** 2 - 1}, "wrong"),
    "one-argument-pair": ("f", {"x": X.tolist()}, {"x": 2 * X}, "wrong"),
    "derivative-unset": ("f", {"x": X.tolist()}, {"x": 2 * X}, "wrong"),
    "derivative-read": ("f", {"x": X.tolist()}, {"x": 4 * X}, "wrong"),
    "derivative-order": ("f", {"x": X.tolist()}, {"x": 6 * X}, "wrong"),
    "load-by-vector": (
        "at",
        {"i": [0, 1], "j": [1, 0], "s": [[1.0, 2.0], [3.0, 4.0]]},
        {"s": [[0, 1], [1, 0]]},
        "wrong",
    ),
    "cut-off": ("f", {"x": X.tolist(), "y": [2.0, 3.0, 4.0]}, {"x": [2, 3, 4]}, "wrong"),
}


def gradients(text, function, arguments, wrt):
    """Return the gradients through SlangLab, with a cotangent of ones."""
    module = slanglab.compile(text)
    given = {}
    for name, value in arguments.items():
        if isinstance(value, list):
            array = np.array(value)
            value = (
                slanglab.tensor(array, grad=name in wrt)
                if array.dtype.kind == "f"
                else array.astype(np.int32)
            )
        given[name] = value
    call = getattr(module, function)
    result = call(**given, _result="tensor").with_grads()
    result.grad.copy_from_numpy(np.ones(result.shape.as_tuple(), np.float32))
    call.bwds(**given, _result=result)
    return {name: given[name].grad.to_numpy() for name in wrt}


def test_every_rule_is_run():
    launches = {"past-the-end", "range-check-axis", "block-of-a-tensor"}  # run by test_torch_cells_calls.py
    assert set(CASES) | {"race", "index-order", "endless-loop", "double-function"} | launches == set(RULE)


@pytest.mark.parametrize("code", CASES)
def test_the_good_text_is_right(device, code):
    function, arguments, expected, _ = CASES[code]
    found = gradients(RULE[code].good, function, arguments, expected)
    for name, right in expected.items():
        np.testing.assert_allclose(found[name], right, rtol=2e-5)


@pytest.mark.parametrize("code", CASES)
def test_the_bad_text_is_bad(device, code):
    function, arguments, expected, fails = CASES[code]
    value, found = plain_backward(device, RULE[code].bad, function, arguments, expected)
    assert value is not None  # the forward call is no trouble
    if isinstance(found, str):
        assert found == fails
    else:
        assert fails == "wrong"
        assert not all(np.allclose(found[name], right, rtol=1e-3) for name, right in expected.items())


def test_both_texts_of_a_race(device):
    i = spy.grid((20000,))
    bad = slanglab.zeros(1)
    slanglab.compile(RULE["race"].bad).count(i, bad)
    good = slanglab.zeros(1)
    slanglab.compile(RULE["race"].good).count(i, good)
    assert good.to_numpy().tolist() == [20000]
    assert bad.to_numpy()[0] < 20000


def test_both_texts_of_an_index_order(device):
    t = slanglab.tensor(np.arange(9.0).reshape(3, 3))
    assert slanglab.compile(RULE["index-order"].bad).at(2, 1, t) == 5.0
    assert slanglab.compile(RULE["index-order"].good).at(2, 1, t) == 7.0


def test_both_texts_of_a_function_of_doubles(device):
    if device.info.type.name != "vulkan":
        pytest.skip("only Vulkan has these functions for float alone")
    x = np.array([0.3, 0.7, 0.9])
    bad = slanglab.compile(RULE["double-function"].bad).f(x).to_numpy()
    good = slanglab.compile(RULE["double-function"].good).f(x).to_numpy()
    assert not np.allclose(bad, np.exp(x), rtol=1e-7)
    np.testing.assert_allclose(good, np.exp(x), rtol=1e-6)


@pytest.mark.parametrize("name", sorted(doubles._FUNCTIONS - {"sincos", "exp10", "atanh"}))
def test_functions_that_vulkan_has_for_float_alone(device, name):
    """Each is worse than double precision; one that is right has to leave the rule."""
    if device.info.type.name != "vulkan":
        pytest.skip("only Vulkan has these functions for float alone")
    x = np.array([1.3, 1.7]) if name == "acosh" else np.array([0.3, 0.7])
    second = ", 0.7L" if name in ("pow", "atan2") else ""
    own = {
        "asin": "arcsin",
        "acos": "arccos",
        "atan": "arctan",
        "atan2": "arctan2",
        "asinh": "arcsinh",
        "acosh": "arccosh",
        "pow": "power",
    }
    right = getattr(np, own.get(name, name))(x, *([0.7] if second else []))
    module = slanglab.compile(f"double f(double x) {{ return {name}(x{second}); }}")
    try:
        found = module.f(x).to_numpy()
    except (KernelError, KernelRefusedError):
        assert not is_software(device)  # NVIDIA's driver does without, and says so
        return
    assert not np.allclose(found, right, rtol=1e-12)


def test_LP_03_an_endless_loop_is_warned_of_and_its_rewrite_is_right(device):
    x = np.array([1.0, 2.0, 9.0], np.float32)
    good = slanglab.compile(RULE["endless-loop"].good).root(x, _result="numpy")
    np.testing.assert_allclose(good, np.sqrt(x), rtol=1e-6)
    # What the call of a loop that the compiler drops returns is whatever the memory held.
    module = slanglab.compile("float f(float x) { while (true) {} return x; }")
    assert module.f(x, _result="numpy").shape == (3,)


# ----- other rewrites that hints give, and other spellings that are right -----

RIGHT = {
    "&": (
        "[Differentiable] float f(float x) { float v = x; int i = 0; [MaxIters(8)] while ((v < 50.0) & (i < 8)) { v = v * x; i++; } "
        "return v; }",
        {"x": [2.0, 3.0]},
        {"x": [192, 108]},
    ),
    "|": (
        "[Differentiable] float f(float x) { float v = x; int i = 0; [MaxIters(8)] while ((i < 1) | (i < 3)) { v = v * x; i++; } "
        "return v; }",
        {"x": [2.0, 3.0]},
        {"x": [32, 108]},
    ),
    "one size": (
        RULE["nested-loops"].bad.replace("MaxIters(3)", "MaxIters(8)").replace("layers", "f"),
        {"x": X.tolist(), "w": W.tolist()},
        {"x": layers_gradient()},
    ),
    "no_diff reverse": (
        "[Differentiable] float cube(float x) { return x * x * x; }\n"
        "float slope(float x) { var p = diffPair(x); bwd_diff(cube)(p, 1.0); return p.d; }\n"
        "[Differentiable] float f(float x) { return x * no_diff slope(x); }",
        {"x": X.tolist()},
        {"x": 3 * X**2},
    ),
    "downwards": (
        "import slangpy;\n[Differentiable] float f(no_diff int i, no_diff int m, IDiffTensor<float, 1> s) { float a = 0; "
        "int n = (m - 1) - 0 + 1; [MaxIters(5)] for (int t = 0; t < n; ++t) { int k = m - 1 - t; a += s[k] * s[k]; } return a; }",
        {"i": [0], "m": 3, "s": S},
        {"s": [2, 4, 6, 0, 0]},
    ),
    "a select": (
        "import slangpy;\n[Differentiable] float f(no_diff int i, no_diff int m, IDiffTensor<float, 1> s) "
        "{ return select(i < m, s[i] * s[i], 1.0); }",
        {"i": [0, 1, 2, 3, 4], "m": 3, "s": S},
        {"s": [2, 4, 6, 0, 0]},
    ),
}


@pytest.mark.parametrize("what", RIGHT)
def test_spellings_that_are_right(device, what):
    text, arguments, expected = RIGHT[what]
    assert lint(outline(text), text) == []
    found = gradients(text, "f", arguments, expected)
    for name, right in expected.items():
        np.testing.assert_allclose(found[name], right, rtol=2e-5)


def test_a_write_under_a_condition_through_a_function(device):
    bad = (
        "import slangpy;\n[Differentiable] void f(no_diff int i, IDiffTensor<float, 1> s, IWDiffTensor<float, 1> o)\n"
        "{ float v = s[i];\nif (i < 3) o[i] = v * v;\n}"
    )
    (told,) = lint(outline(bad), bad)
    head, line = told.hint.split("`")[1], told.hint.split("`")[3]
    good = f"import slangpy;\n{head}\n" + bad.removeprefix("import slangpy;\n").replace(
        "if (i < 3) o[i] = v * v;", line
    )
    assert lint(outline(good), good) == []
    s, o = slanglab.tensor(S, grad=True), slanglab.zeros(5, grad=True)
    o.grad.copy_from_numpy(np.ones(5, np.float32))
    f = slanglab.compile(good).f
    i = np.arange(5, dtype=np.int32)
    f(i, s, o)
    assert o.to_numpy().tolist() == [1, 4, 9, 0, 0]
    f.bwds(i, s, o)
    assert s.grad.to_numpy().tolist() == [2, 4, 6, 0, 0]
