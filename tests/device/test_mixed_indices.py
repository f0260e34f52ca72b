"""Indices of mixed types in differentiable functions, with the compiler as the witness.

What crashes the compiler ends the process, so those calls run in a process of their own.
"""

import json
import re
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import slanglab
from slanglab.scalars import type_name
from slanglab.text.accesses import Accesses
from slanglab.text.symbols import outline

DECLARED = """static const uint N = 3;
struct Point { int row; uint column; };
uint counted(int n) { return n; }
"""
PARAMETERS = (
    "int i, uint u, uint3 t, int2 p, int64_t w, int16_t h, float x, bool b, Tensor<uint, 1> r, Point q"
)
LEAVES = """
i u t.x t.y t.z t.xy p.x p.y p[0] w h x b 1 2u 3.5 0x7fu 5000000000 N q.row q.column r[0] r.load(1) r.shape[0] a[1] s z.y
counted(2) int(u) uint(i) (uint)i (int)w true v
"""
LOCALS = "int a[2] = {1, 2}; let s = u + 1; var v = i - 1; vector<int, 3> z = 1;"


def expression(rng, depth=3):
    if depth == 0 or rng.random() < 0.25:
        return str(rng.choice(LEAVES.split()))
    shape = rng.integers(0, 8)
    first, second = expression(rng, depth - 1), expression(rng, depth - 1)
    if shape == 0:
        return f"({first})"
    if shape == 1:
        return f"(b ? {first} : {second})"
    if shape == 2:
        return f"{rng.choice(['-', '~', '!'])}({first})"
    if shape == 3:
        return f"{rng.choice(['min', 'max'])}({first}, {second})"
    operator = rng.choice(["+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^", "<", "==", "&&"])
    return f"({first} {operator} {second})"


def told_types(texts):
    """Return the type of each expression, read out of the text."""
    lines = "\n".join(f"r[{text}];" for text in texts)
    source = f"{DECLARED}int f({PARAMETERS})\n{{\n{LOCALS}\n{lines}\n}}\n"
    accesses = Accesses.read(source, outline(source))
    first = 1 + source[: source.index("r[" + texts[0])].count("\n")
    found = {}
    for access in accesses.found:  # the outermost access of a line comes first
        found.setdefault(accesses.line(access) - first, access.types[0])
    return [found[n] for n in range(len(texts))]


def compilers_types(texts):
    """Return the type of each expression, as the compiler names it when it refuses the value; None for what is no expression."""
    head = f"import slangpy;\n{DECLARED}struct Never {{ int never; }};\nint f({PARAMETERS})\n{{\n{LOCALS}\n"
    first = head.count("\n") + 1
    found = [None] * len(texts)
    for start in range(0, len(texts), 40):  # a report has a hundred messages
        batch = texts[start : start + 40]
        lines = [f"Never n{n} = {text};" for n, text in enumerate(batch)]
        with pytest.raises(slanglab.CompileError) as caught:
            slanglab.compile(head + "\n".join(lines) + "\nreturn 0;\n}\n", "mixed_witness")
        for d in caught.value.diagnostics:
            if match := re.search(
                r"expected an expression of type 'Never', got '(.*)'", f"{d.title} {d.text}"
            ):
                found[start + d.line - first] = type_name(match[1])
    return found


def test_the_type_of_an_index_is_what_the_compiler_says(device, rng):
    texts = list(dict.fromkeys(expression(rng) for _ in range(400)))
    told = told_types(texts)
    compared = 0
    for text, said, witness in zip(texts, told, compilers_types(texts), strict=True):
        if said and witness:
            compared += 1
            assert said == witness, text
    assert compared > len(texts) // 4


# ----- what crashes -----

FORMS = {
    "i": lambda i, u, perm: i,
    "u": lambda i, u, perm: u,
    "0": lambda i, u, perm: 0,
    "1u": lambda i, u, perm: 1,
    "(i + u) % 4": lambda i, u, perm: (i + u) % 4,
    "perm[i]": lambda i, u, perm: perm[i],
    "perm[perm[u]]": lambda i, u, perm: perm[perm[u]],
    "uint3(u, i, 0).y": lambda i, u, perm: i,
    "x.shape[0] - 1": lambda i, u, perm: 3,
    "(int64_t)u": lambda i, u, perm: u,
    "k": lambda i, u, perm: u,
    "n": lambda i, u, perm: i,
}
RUN = """
    import json, sys
    import numpy as np, slangpy as spy, slanglab
    data = json.load(sys.stdin)
    for text in data["texts"]:
        m = slanglab.compile(text, "mixed", bounds=data["bounds"])
        W, x = (slanglab.tensor(np.array(data[a]), grad=True) for a in "Wx")
        y = slanglab.zeros(4, grad=True)
        perm = slanglab.tensor(data["perm"], dtype="uint")
        arguments = (spy.grid((4,)), data["u"], perm, W, x, y)
        m.f(*arguments)
        slanglab.assign(y.grad, np.array(data["seed"]))
        m.f.bwds(*arguments)
        print(json.dumps([a.to_numpy().tolist() for a in (y, W.grad, x.grad)]), flush=True)
"""


def in_a_process(script, data=None):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        input=json.dumps(data),
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("bounds", [False, True])
def test_any_mix_of_integer_indices_has_the_right_gradients(device, rng, bounds):
    u, perm = int(rng.integers(0, 4)), rng.permutation(4)
    W, x, seed = rng.normal(size=(4, 4)), rng.normal(size=4), rng.normal(size=4)  # noqa: N806 - as in the text
    texts, wanted = [], []
    for _ in range(4):
        terms = [[str(rng.choice(list(FORMS))) for _ in range(3)] for _ in range(2)]
        total = " + ".join(f"W[{a}, {b}] * x[{c}]" for a, b, c in terms)
        into = str(rng.choice(["y[i]", "y[n]", "y[uint(i)]"]))
        texts.append(
            "import slangpy;\n[Differentiable]\nvoid f(int i, uint u, Tensor<uint, 1> perm, IDiffTensor<float, 2> W,\n"
            "    IDiffTensor<float, 1> x, IWDiffTensor<float, 1> y)\n"
            f"{{ let k = u; uint n = i; {into} = {total}; }}\n"
        )
        print(texts[-1])
        y, by_w, by_x = np.zeros(4), np.zeros((4, 4)), np.zeros(4)
        for i in range(4):
            for term in terms:
                a, b, c = (FORMS[t](i, u, perm) for t in term)
                y[i] += W[a, b] * x[c]
                by_w[a, b] += x[c] * seed[i]
                by_x[c] += W[a, b] * seed[i]
        wanted.append((y, by_w, by_x))
    arrays = {"W": W.tolist(), "x": x.tolist(), "seed": seed.tolist(), "perm": perm.tolist()}
    done = in_a_process(RUN, {"texts": texts, "bounds": bounds, "u": u, **arrays})
    assert done.returncode == 0, done.stderr
    for line, expected in zip(done.stdout.splitlines(), wanted, strict=True):
        for given, right in zip(json.loads(line), expected, strict=True):
            np.testing.assert_allclose(given, right, rtol=1e-4, atol=1e-5)


def test_the_conversion_is_still_needed():
    """When this fails slangpy has been mended, and `slanglab.text.indices` can go."""
    done = in_a_process(
        """
        import numpy as np, slangpy as spy
        from slanglab.device import open_device
        device = open_device("auto")
        text = 'import slangpy; [Differentiable] void f(int i, uint u, IDiffTensor<float, 1> x, IWDiffTensor<float, 1> y)'
        m = spy.Module(device.load_module_from_source("mixed", text + "{ y[i] = x[u]; }"))
        x, y = (spy.Tensor.from_numpy(device, np.ones(4, np.float32)).with_grads() for _ in range(2))
        m.f(spy.grid((4,)), 1, x, y)
        print("forward", flush=True)
        m.f.bwds(spy.grid((4,)), 1, x, y)
        print("backward")
        """
    )
    assert done.stdout.split() == ["forward"], done.stderr
    assert done.returncode != 0
