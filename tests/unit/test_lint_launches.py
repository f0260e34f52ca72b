"""The linter's rules about kernels that are launched over tensors: range checks and blocks, right and wrong."""

import re

import pytest

from slanglab.text.lint import RULES, lint
from slanglab.text.symbols import outline

RULE = {r.code: r for r in RULES}
CODES = {"past-the-end", "range-check-axis", "block-of-a-tensor"}
ATTRIBUTES = {
    "slang-torch": "[CudaKernel]",
    "a compute shader": '[shader("compute")] [numthreads(32, 1, 1)]',
    "an ordinary function": "",
}


def kernel(check, body="o.store(i.x, t.load(i.x));", above="[CudaKernel]"):
    return (
        f"{above}\nvoid k(TensorView<float> t, TensorView<float> o, uint n)\n{{\n"
        f"uint3 i = cudaBlockIdx() * cudaBlockDim() + cudaThreadIdx();\n{check}\n{body}\n}}\n"
    )


def found(text):
    return [d for d in lint(outline(text), text) if d.code in CODES]


WRITTEN = re.compile(r"write `(.*)`$")
TWO = "o.store(i.x, i.y, t.load(i.x, i.y));"


@pytest.mark.parametrize("above", ATTRIBUTES.values(), ids=ATTRIBUTES)
@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("if (i.x > t.size(0)) return;", "if (i.x >= t.size(0)) return;"),
        ("if (t.size(0) < i.x) return;", "if (t.size(0) <= i.x) return;"),
        ("if (i.x > t.size(0)) { return; }", "if (i.x >= t.size(0)) { return; }"),
        ("if (n == 0 || i.x > t.size(0)) return;", "if (n == 0 || i.x >= t.size(0)) return;"),
        ("if ((i.x > t.size(0)) || n == 0) return;", "if ((i.x >= t.size(0)) || n == 0) return;"),
        ("if (i.x > t.shape[0]) return;", "if (i.x >= t.shape[0]) return;"),
    ],
)
def test_checks_that_let_one_too_many_through(above, wrong, right):
    (d,) = found(kernel(wrong, above=above))
    assert d.code == "past-the-end"
    assert d.severity == "warning"
    assert WRITTEN.match(d.hint)[1] == right
    assert d.line == 5
    assert found(kernel(right, above=above)) == []


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        (
            "if (i.x <= t.size(0)) o.store(i.x, t.load(i.x));",
            "if (i.x < t.size(0)) o.store(i.x, t.load(i.x));",
        ),
        ("if (t.size(0) >= i.x) o[i.x] = t[i.x];", "if (t.size(0) > i.x) o[i.x] = t[i.x];"),
    ],
)
def test_checks_around_the_access(wrong, right):
    (d,) = found(kernel(wrong, ""))
    assert d.code == "past-the-end"
    assert WRITTEN.match(d.hint)[1] == right
    assert found(kernel(right, "")) == []


@pytest.mark.parametrize(
    "text",
    [
        kernel("if (i.x >= t.size(0)) return;"),
        kernel("if (i.x > t.size(0) - 1) return;"),
        kernel("if (i.x + 1 > t.size(0)) return;"),  # that is right
        kernel("if (n > t.size(0)) return;"),  # no index
        kernel("if (i.x > n) return;"),  # nobody knows n
        kernel("if (i.x > t.size(0)) n = 2;"),  # it does not leave
        kernel("if (i.x <= t.size(0)) n = 2;"),
        kernel("for (uint k = 0; k < t.size(0); k++) { if (k > t.size(0)) n++; }"),
        kernel("// if (i.x > t.size(0)) return;"),
        kernel("if (i.x > t.size()) return;", "n = 1;"),
        kernel("if (i.x > other.size(0)) return;"),
    ],
)
def test_checks_that_are_right(text):
    assert [d.code for d in found(text)] == []


def test_both_mistakes_of_the_guide_in_one_line():
    text = kernel("if (i.x > t.size(0) || i.x > t.size(1))\n    return;", TWO)
    codes = {d.code: d for d in found(text)}
    assert set(codes) == {"past-the-end", "range-check-axis"}
    for d in codes.values():
        assert WRITTEN.match(d.hint)[1] == "if (i.x >= t.size(0) || i.y >= t.size(1))"
    assert "axis 1 of `t`, on which `i.y` stands" in codes["range-check-axis"].text


@pytest.mark.parametrize(
    ("check", "body"),
    [
        ("if (i.x >= t.size(0) || i.y >= t.size(1)) return;", TWO),
        ("if (i.x >= t.size(1) || i.y >= t.size(0)) return;", "o.store(i.y, i.x, t.load(i.y, i.x));"),
        ("if (i.x >= t.size(1)) return;", "o.store(i.x, t.load(0, i.x));"),
        (
            "if (i.x >= t.size(1)) return;",
            "o.store(i.x, t.load(i.x, n) + t.load(n, i.x));",
        ),  # it stands on both
        ("if (i.x >= t.size(1)) return;", "o.store(i.x, t.load(n, n));"),  # it stands nowhere
        (
            "if (i.x >= t.size(1)) return;",
            "o.store(i.x, t.load(i.x, 1) + t.load(i.x, 2));",
        ),  # two on that axis
        ("if (i.x >= t.size(n)) return;", TWO),
        ("if (i.x >= t.size(7)) return;", TWO),
    ],
)
def test_axes_that_are_right_or_unknown(check, body):
    assert found(kernel(check, body)) == []


def launch(blocks, threads):
    return (
        "[TorchEntryPoint] TorchTensor<float> go(TorchTensor<float> t, int n)\n{\n"
        f"let blocks = {blocks};\nlet threads = {threads};\n__dispatch_kernel(k, blocks, threads)(t);\nreturn t;\n}}\n"
    )


@pytest.mark.parametrize(
    ("threads", "blocks", "block"),
    [
        ("uint3(t.size(0), 1, 1)", "uint3((t.size(0) + 255) / 256, 1, 1)", "uint3(256, 1, 1)"),
        (
            "uint3(t.size(0), t.size(1), 1)",
            "uint3((t.size(0) + 15) / 16, (t.size(1) + 15) / 16, 1)",
            "uint3(16, 16, 1)",
        ),
        ("uint3(1, t.size(0) * 3, 1)", "uint3(1, (t.size(0) * 3 + 255) / 256, 1)", "uint3(1, 256, 1)"),
    ],
)
def test_a_block_for_a_whole_tensor(threads, blocks, block):
    (d,) = found(launch("uint3(1)", threads))
    assert d.code == "block-of-a-tensor"
    assert f"`{blocks}` for the blocks and `{block}` for the threads" in d.hint
    assert found(launch(blocks, block)) == []


@pytest.mark.parametrize(
    ("blocks", "threads"),
    [
        ("uint3(1)", "uint3(32, 32, 1)"),
        ("uint3(t.size(0), 1, 1)", "uint3(t.size(1), 1, 1)"),  # several blocks: the row may be short
        ("uint3(1)", "uint3(min(t.size(0), 1024), 1, 1)"),
        ("uint3(1)", "uint3(n, 1, 1)"),
        ("uint3(n, 1, 1)", "uint3(t.size(0), 1, 1)"),
        ("elsewhere(t)", "uint3(t.size(0), 1, 1)"),
    ],
)
def test_blocks_that_are_right_or_unknown(blocks, threads):
    assert found(launch(blocks, threads)) == []


def test_sizes_that_stand_in_the_launch_itself():
    text = launch("uint3(1)", "uint3(1)").replace(
        "blocks, threads)(t)", "uint3(1, 1, 1), uint3(t.size(0), 1, 1))(t)"
    )
    assert [d.code for d in found(text)] == ["block-of-a-tensor"]


@pytest.mark.parametrize("code", sorted(CODES))
def test_the_hint_gives_the_good_text(code):
    rule = RULE[code]
    (d,) = found(rule.bad)
    lines = rule.bad.split("\n")
    if code == "block-of-a-tensor":
        blocks, threads = re.findall(r"`(uint3\(.*?\))`", d.hint)
        lines = [
            re.sub(r"= uint3\(.*\);", f"= {blocks if 'blockCount' in line else threads};", line)
            for line in lines
        ]
    else:
        at = d.line - 1
        indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
        lines[at] = indent + WRITTEN.match(d.hint)[1]
    assert "\n".join(lines) == rule.good
