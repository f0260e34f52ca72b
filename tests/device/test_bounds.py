"""`--bounds`: inside nothing changes, forward and backward; outside the call fails with the place, and nothing beyond is touched."""

import re

import numpy as np
import pytest
import slangpy as spy

import slanglab
from slanglab.errors import CallError

READS = """import slangpy;
float one(int i, Tensor<float, 1> t) { return t[i]; }
float one_u(uint i, ITensor<float, 1> t) { return t.load(i); }
float one_long(int64_t i, Tensor<float, 1> t) { return t[i]; }
float two(int i, uint j, Tensor<float, 2> t) { return t[i, j]; }
float vector(int2 p, Tensor<float, 2> t) { return t[p]; }
float list(int i, int j, Tensor<float, 2> t) { int a[2] = {i, j}; return t.load(a); }
float nested(int i, Tensor<float, 1> t, Tensor<int, 1> u) { return t[u[i]]; }
float cube(int i, int j, int k, Tensor<float, 3> t) { return t[i, j, k]; }
void write(int i, float v, RWTensor<float, 1> t) { t[i] = v; }
void save(int i, int j, float v, WTensor<float, 2> t) { t.store(i, j, v); }
"""


@pytest.fixture(scope="module")
def m(device):
    return slanglab.compile(READS, "bounds_reads", bounds=True)


@pytest.fixture(scope="module")
def plain(device):
    return slanglab.compile(READS, "plain_reads")


def indices(rng, size, n=40):
    """Return indices inside a dimension, and the same with some outside on both sides."""
    inside = rng.integers(0, size, n).astype(np.int32)
    mixed = inside.copy()
    mixed[rng.integers(0, n)] = size + rng.integers(0, 5)
    mixed[rng.integers(0, n)] = -1 - rng.integers(0, 5)
    mixed[rng.integers(0, n)] = rng.choice([2**31 - 1, -(2**31), size])
    return inside, mixed


def named(error):
    """Return the indices that an error names, by line and tensor."""
    found = {}
    pattern = r"line (\d+): index (-?\d+) is outside (.*), whose shape is (\([\d, ]*\))((?:; so are .*)?)"
    for match in re.finditer(pattern, str(error)):
        line, first, what, shape, more = match.groups()
        others = [int(n) for n in re.findall(r"-?\d+(?! more)\b", more) if f"{n} more" not in more]
        found[int(line), what, shape] = {int(first), *others}
    return found


def outside(values, size):
    return {int(v) for v in values if not 0 <= v < size}


def test_a_read_of_one_dimension(m, plain, rng):
    n = int(rng.integers(1, 9))
    a = rng.normal(size=n).astype(np.float32)
    inside, mixed = indices(rng, n)
    t = slanglab.tensor(a)
    np.testing.assert_array_equal(m.one(inside, t).to_numpy(), a[inside])
    np.testing.assert_array_equal(plain.one(inside, t).to_numpy(), a[inside])
    with pytest.raises(CallError) as caught:
        m.one(mixed, t)
    assert caught.value.function == "bounds_reads.one"
    assert str(caught.value).startswith("bounds_reads.one: line 2: index ")
    assert named(caught.value) == {(2, "t", f"({n},)"): outside(mixed, n)}
    np.testing.assert_array_equal(m.one(inside, t).to_numpy(), a[inside])  # nothing is left over


def test_unsigned_and_wide_indices(m, rng):
    n = int(rng.integers(1, 9))
    a = rng.normal(size=n).astype(np.float32)
    t = slanglab.tensor(a)
    inside, _ = indices(rng, n)
    np.testing.assert_array_equal(m.one_u(inside.astype(np.uint32), t).to_numpy(), a[inside])
    np.testing.assert_array_equal(m.one_long(inside.astype(np.int64), t).to_numpy(), a[inside])
    with pytest.raises(CallError) as caught:
        m.one_u(np.array([0, n, 2**32 - 1], np.uint32), t)
    assert named(caught.value) == {(3, "t", f"({n},)"): {n, 2**32 - 1}}
    wide = 2**32  # whose low 32 bits are an index inside
    with pytest.raises(CallError) as caught:
        m.one_long(np.array([0, wide, -wide], np.int64), t)
    assert named(caught.value) == {(4, "t", f"({n},)"): {wide, -wide}}


def test_two_dimensions_by_numbers_vectors_and_arrays(m, plain, rng):
    rows, columns = (int(n) for n in rng.integers(1, 7, 2))
    a = rng.normal(size=(rows, columns)).astype(np.float32)
    t = slanglab.tensor(a)
    i, bad_i = indices(rng, rows)
    j, bad_j = indices(rng, columns)
    shape = f"({rows}, {columns})"
    expected = a[i, j]
    vectors = np.stack([j, i], axis=-1)  # the last dimension first
    bad_vectors = np.stack([bad_j, bad_i], axis=-1)
    np.testing.assert_array_equal(m.two(i, j, t).to_numpy(), expected)
    np.testing.assert_array_equal(m.vector(vectors, t).to_numpy(), expected)
    np.testing.assert_array_equal(m.list(i, j, t).to_numpy(), expected)
    np.testing.assert_array_equal(plain.vector(vectors, t).to_numpy(), expected)
    calls = {
        5: lambda: m.two(bad_i, np.maximum(bad_j, 0), t),
        6: lambda: m.vector(bad_vectors, t),
        7: lambda: m.list(bad_i, bad_j, t),
    }
    for line, call in calls.items():
        with pytest.raises(CallError) as caught:
            call()
        wrong_j = np.maximum(bad_j, 0) if line == 5 else bad_j
        expected_names = {
            (line, "axis 0 of t", shape): outside(bad_i, rows),
            (line, "axis 1 of t", shape): outside(wrong_j, columns),
        }
        assert named(caught.value) == {k: v for k, v in expected_names.items() if v}


def test_nested_and_three_dimensions(m, rng):
    a = rng.normal(size=5).astype(np.float32)
    u = np.array([4, 0, 7, 1], np.int32)
    with pytest.raises(CallError) as caught:
        m.nested(np.array([0, 2, 4], np.int32), slanglab.tensor(a), slanglab.tensor(u))
    assert named(caught.value) == {(8, "u", "(4,)"): {4}, (8, "t", "(5,)"): {7}}
    b = rng.normal(size=(2, 3, 4)).astype(np.float32)
    i, j, k = (rng.integers(0, n, 30).astype(np.int32) for n in b.shape)
    np.testing.assert_array_equal(m.cube(i, j, k, slanglab.tensor(b)).to_numpy(), b[i, j, k])
    with pytest.raises(CallError, match=r"index 4 is outside axis 2 of t, whose shape is \(2, 3, 4\)"):
        m.cube(i, j, k + np.int32(4) - k, slanglab.tensor(b))


def test_writes_inside_land_and_writes_outside_touch_nothing_beyond(m, device, rng):
    n = int(rng.integers(3, 8))
    whole = np.full(n + 6, -7, np.float32)
    big = slanglab.tensor(whole)
    part = big.view((n,), offset=3)
    values = rng.normal(size=n).astype(np.float32)
    order = rng.permutation(n).astype(np.int32)
    m.write(order, values, part)
    expected = whole.copy()
    expected[3 + order] = values
    np.testing.assert_array_equal(big.to_numpy(), expected)
    outside_part = np.array([-1, -3, n, n + 2], np.int32)
    with pytest.raises(CallError) as caught:
        m.write(outside_part, np.full(4, 9, np.float32), part)
    assert named(caught.value) == {(10, "t", f"({n},)"): set(outside_part.tolist())}
    after = big.to_numpy()
    assert (after[:3] == -7).all()
    assert (after[-3:] == -7).all()
    np.testing.assert_array_equal(after[4 : n + 2], expected[4 : n + 2])
    grid = slanglab.zeros((2, 3))
    i, j = np.divmod(np.arange(6, dtype=np.int32), 3)
    m.save(i.astype(np.int32), j.astype(np.int32), np.arange(6, dtype=np.float32), grid)
    np.testing.assert_array_equal(grid.to_numpy(), np.arange(6).reshape(2, 3))
    with pytest.raises(CallError, match=r"line 11: index 3 is outside axis 1 of t, whose shape is \(2, 3\)"):
        m.save(0, 3, 1.0, grid)


MEMBERS = """import slangpy;
struct Net { Tensor<float, 2> w; Tensor<float, 1> b; float at(int i, uint j) { return w[i, j] + b[i]; } };
float g<T : ITensor<float, 1>>(int i, T t) { return t[i]; }
float generic(int i, Tensor<float, 1> t) { return g(i, t); }
float net(int i, int j, Net n) { return n.at(i, j) + n.w.load(i, j); }
float several(int i, Tensor<float, 1> a, Tensor<float, 1> b) { Tensor<float, 1> ts[2] = {a, b}; return ts[1][i]; }
float3 wide(int i, Tensor<float3, 1> t) { return t[i]; }
void count(int i, AtomicTensor<float, 1> t) { t.add(i, 2.0); }
"""


def test_members_generic_parameters_arrays_and_atomic_tensors(device, rng):
    m = slanglab.compile(MEMBERS, "bounds_members", bounds=True)
    a, w = rng.normal(size=3).astype(np.float32), rng.normal(size=(3, 4)).astype(np.float32)
    t = slanglab.tensor(a)
    net = {"w": slanglab.tensor(w), "b": t}
    i, bad = np.array([0, 2, 2], np.int32), np.array([1, 5, -2], np.int32)
    counted = slanglab.zeros(3)
    calls = {
        "in g (bounds_members), line 3: index 5 is outside t, whose shape is (3,); so are -2": (
            lambda i: m.generic(i, t).to_numpy(),
            a[i],
        ),
        "in Net::at (bounds_members), line 2: index 5 is outside axis 0 of w, whose shape is (3, 4); so are -2": (
            lambda i: m.net(i, 3, net).to_numpy(),
            2 * w[i, 3] + a[i],
        ),
        "line 6: index 5 is outside ts[1], whose shape is (3,); so are -2": (
            lambda i: m.several(i, slanglab.zeros(9), t).to_numpy(),
            a[i],
        ),
        "line 7: index 5 is outside t, whose shape is (3,); so are -2": (
            lambda i: m.wide(i, slanglab.tensor(w[:, :3], dtype="float3")).to_numpy(),
            w[i, :3],
        ),
        "line 8: index 5 is outside t, whose shape is (3,); so are -2": (
            lambda i: (m.count(i, counted), counted.to_numpy())[1],
            [2, 0, 4],
        ),
    }
    for says, (call, expected) in calls.items():
        np.testing.assert_allclose(call(i), expected, rtol=1e-5, atol=1e-6)
        with pytest.raises(CallError, match=re.escape(says)):
            call(bad)


# ----- differentiable functions -----

LAYER = """import "slangpy";
[Differentiable]
float weighted(int row, IDiffTensor<float, 2> w, IDiffTensor<float, 1> x, int n)
{
    float sum = 0;
    [MaxIters(12)] for (uint k = 0; k < n; k++)
        sum += w[row, k] * x[k];
    return sum;
}
[Differentiable]
void layer(int row, IDiffTensor<float, 2> w, IDiffTensor<float, 1> x, Tensor<int, 1> order, no_diff int n, IWDiffTensor<float, 1> y)
{
    float s = weighted(order[row], w, x, n);
    y[row] = s * s;
}
"""


@pytest.mark.parametrize("bounds", [False, True])
def test_gradients_are_those_of_numpy(device, rng, bounds):
    m = slanglab.compile(LAYER, "bounds_layer", bounds=bounds)
    rows, n = int(rng.integers(1, 6)), int(rng.integers(1, 12))
    w, x = rng.normal(size=(rows, n)), rng.normal(size=n)
    order, seed = rng.permutation(rows), rng.normal(size=rows)
    wt, xt = slanglab.tensor(w, grad=True), slanglab.tensor(x, grad=True)
    yt = slanglab.zeros(rows, grad=True)
    ot = slanglab.tensor(order.astype(np.int32))
    m.layer(spy.grid((rows,)), wt, xt, ot, n, yt)
    s = (w @ x)[order]
    np.testing.assert_allclose(yt.to_numpy(), s**2, rtol=2e-4, atol=1e-5)
    slanglab.assign(yt.grad, seed)
    m.layer.bwds(spy.grid((rows,)), wt, xt, ot, n, yt)
    back = np.zeros(rows)
    back[order] = 2 * s * seed
    np.testing.assert_allclose(wt.grad.to_numpy(), np.outer(back, x), rtol=2e-4, atol=1e-4)
    np.testing.assert_allclose(xt.grad.to_numpy(), back @ w, rtol=2e-4, atol=1e-4)
    if not bounds:
        return
    for call in (m.layer, m.layer.bwds):
        with pytest.raises(CallError) as caught:
            call(spy.grid((rows,)), wt, xt, ot, n + 1, yt)
        text = str(caught.value)
        assert f"in weighted (bounds_layer), line 7: index {n} is outside axis 1 of w" in text
        assert f"in weighted (bounds_layer), line 7: index {n} is outside x, whose shape is ({n},)" in text
        with pytest.raises(CallError, match=rf"line 14: index {rows} is outside y"):
            call(spy.grid((rows + 1,)), wt, xt, ot, n, yt)


CONCRETE = """import "slangpy";
[Differentiable]
float pick(int i, DiffTensor<float, 1> x) { if (i < 0) return x[-i]; return i > 2 ? x[i] * x[i] : x.load(i); }
[Differentiable] [BackwardDerivative(cube_back)]
float cube(int i, DiffTensor<float, 1> x) { float v = x[i]; return v * v * v; }
void cube_back(int i, DiffTensor<float, 1> x, float d)
{
    float v = x._primal[i];
    x._grad_out.add(i, 3 * v * v * d);
}
"""


def test_concrete_tensors_branches_and_custom_derivatives(device, rng):
    m = slanglab.compile(CONCRETE, "bounds_concrete", bounds=True)
    x = rng.normal(size=5)
    i = np.array([0, 1, 2, 3, 4, -1, -2], np.int32)
    seed = rng.normal(size=7)
    xt = slanglab.tensor(x, grad=True)
    result = slanglab.zeros(7, grad=True)
    slanglab.assign(result.grad, seed)
    m.pick(i, xt, _result=result)
    np.testing.assert_allclose(result.to_numpy(), np.where(i > 2, x[np.abs(i)] ** 2, x[np.abs(i)]), rtol=1e-5)
    m.pick.bwds(i, xt, _result=result)
    expected = np.zeros(5)
    np.add.at(expected, np.abs(i), np.where(i > 2, 2 * x[np.abs(i)], 1) * seed)
    np.testing.assert_allclose(xt.grad.to_numpy(), expected, rtol=1e-4, atol=1e-5)
    j = np.arange(5, dtype=np.int32)
    slanglab.assign(xt.grad, np.zeros(5))
    cubed = slanglab.zeros(5, grad=True)
    slanglab.assign(cubed.grad, seed[:5])
    m.cube.bwds(j, xt, _result=cubed)
    np.testing.assert_allclose(xt.grad.to_numpy(), 3 * x**2 * seed[:5], rtol=1e-4, atol=1e-5)
    for call, line in ((m.pick, 3), (m.pick.bwds, 3), (m.cube, 5)):
        with pytest.raises(CallError, match=rf"line {line}: index 5 is outside x, whose shape is \(5,\)"):
            call(np.array([5, 0, 1, 2, 3], np.int32), xt, _result=cubed)
    with pytest.raises(CallError, match=r"in cube_back .*line 9: index 5 is outside x._grad_out"):
        m.cube.bwds(np.array([5, 0, 1, 2, 3], np.int32), xt, _result=cubed)


# ----- in the notebook -----

CELL = "import slangpy;\nfloat idx(int i, Tensor<float, 1> t) { return t[i]; }\n"


def test_the_option_makes_another_version(shell):
    shell.run("import numpy as np\nimport slanglab\nt = slanglab.tensor([1.0, 2.0, 3.0])")
    shell.run("%%slang m\n" + CELL)
    held = shell["m"].idx
    shell.run("r = m.idx(np.array([0, 3], np.int32), t)")
    shown = shell.run("%%slang m --bounds --verbose\n" + CELL)
    assert "options changed" in shown.text
    failed = shell.run("m.idx(np.array([0, 3], np.int32), t)", fails=True)
    assert "m.idx: line 3: index 3 is outside t, whose shape is (3,)" in failed.text
    with pytest.raises(CallError):
        held(np.array([0, 3], np.int32), shell["t"])
    assert "not compiled again" in shell.run("%%slang m --bounds --verbose\n" + CELL).text
    assert "options changed" in shell.run("%%slang m --verbose\n" + CELL).text
    shell.run("r = m.idx(np.array([0, 3], np.int32), t)")


def test_a_cell_that_imports_a_checked_one(shell):
    shell.run("import numpy as np\nimport slanglab\nt = slanglab.tensor([1.0, 2.0, 3.0])")
    shell.run("%%slang inner --bounds\n" + CELL)
    shell.run(
        "%%slang\nimport slangpy;\nimport inner;\nfloat twice(int i, Tensor<float, 1> t) { return 2 * idx(i, t); }"
    )
    assert shell.run("float(twice(np.array([1], np.int32), t).to_numpy()[0])").value == 4
    failed = shell.run("twice(np.array([1, 7], np.int32), t)", fails=True)
    assert "twice: in idx (In[2]), line 3: index 7 is outside t, whose shape is (3,)" in failed.text


def test_what_the_user_prints_stays_in_the_cell(shell):
    shell.run("import numpy as np\nimport slanglab\nt = slanglab.tensor([1.0, 2.0, 3.0])")
    shell.run(
        "%%slang m --bounds\nimport slangpy;\nimport sgl.device.print;\n"
        'float idx(int i, Tensor<float, 1> t) { print("i={}", i); return t[i]; }\n'
    )
    shown = shell.run("r = m.idx(np.array([0, 2], np.int32), t)")
    assert sorted(shown.stdout.split()) == ["i=0", "i=2"]
    failed = shell.run("m.idx(np.array([1, 8], np.int32), t)", fails=True)
    assert sorted(re.findall("^i=.*$", failed.stdout, re.MULTILINE)) == ["i=1", "i=8"]
    assert "slanglab-outside" not in failed.text
    assert "index 8 is outside t" in str(failed.error)


def test_a_great_many_indices_outside_make_a_short_error(m):
    with pytest.raises(CallError) as caught:
        m.one(np.arange(200_000, dtype=np.int32), slanglab.ones(3))
    assert len(str(caught.value)) < 600
    assert "more" in str(caught.value)


def test_a_check_that_the_compiler_does_not_take_is_named(shell):
    shell.run("import numpy as np\nimport slanglab\nt = slanglab.tensor([1.0, 2.0, 3.0])")
    shown = shell.run(
        "%%slang m --bounds\nimport slangpy;\nfloat odd(float x, Tensor<float, 1> t) {\n return t[x + 0.5];\n}\n"
        + CELL[16:]
    )
    assert "`t[x + 0.5]` is not compared with the shape" in shown.text
    assert "line 4" in shown.text
    assert shell.run("float(m.odd(1.0, t))").value == 2.0
    shell.run("m.idx(np.array([4], np.int32), t)", fails=True)


def test_mistakes_are_told_in_the_users_own_text(shell):
    body = "float idx(int i, uint u, Tensor<float, 1> t) { return t[u] + t[nope]; }"
    failed = shell.run("%%slang m --bounds\nimport slangpy;\n" + body, fails=True)
    (error,) = [d for d in failed.error.diagnostics if d.severity == "error"]
    assert (error.line, error.column) == (3, body.index("nope") + 1)
    assert "slanglab" not in failed.text


def test_warnings_are_placed_in_the_users_own_text(shell):
    body = "int half_of(int i, int k, Tensor<float, 1> t) { float a = t[i]; int b = t[k]; return b; }"
    shown = shell.run("%%slang m --bounds\nimport slangpy;\n" + body)
    version = slanglab.current().cells.cell("m").good
    (warning,) = [d for d in version.warnings if d.severity == "warning"]
    assert warning.line == 3
    assert body[warning.column - 1 :].startswith("[k]")
    assert "slanglab_" not in shown.text
