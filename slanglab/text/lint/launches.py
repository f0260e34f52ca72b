"""Kernels that are launched over a tensor: range checks that let one index too many through, and blocks that grow with the tensor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from slanglab.text.diagnostics import Diagnostic
from slanglab.text.lint.bodies import Body
from slanglab.text.lint.rule import Rule, finding, rewritten
from slanglab.text.tree import Statement

__all__ = ["BLOCK_OF_A_TENSOR", "PAST_THE_END", "RANGE_CHECK_AXIS", "check"]

PAST_THE_END = Rule(
    "past-the-end",
    "warning",
    "a range check lets one index too many through",
    "indices count from 0, so the last one is the size less 1; the thread whose index is the size reads behind the row, or behind the "
    "tensor, and writes there",
    """[CudaKernel]
void twice(TensorView<float> input, TensorView<float> output)
{
    uint3 i = cudaBlockIdx() * cudaBlockDim() + cudaThreadIdx();
    if (i.x > input.size(0)) return;
    output.store(i.x, 2 * input.load(i.x));
}
""",
    """[CudaKernel]
void twice(TensorView<float> input, TensorView<float> output)
{
    uint3 i = cudaBlockIdx() * cudaBlockDim() + cudaThreadIdx();
    if (i.x >= input.size(0)) return;
    output.store(i.x, 2 * input.load(i.x));
}
""",
    "the `square` of slang-torch's own guide",
)

RANGE_CHECK_AXIS = Rule(
    "range-check-axis",
    "warning",
    "a range check compares an index with another axis",
    "where the tensor is not square, threads with an index inside the tensor return, or threads with one outside go on",
    """[CudaKernel]
void twice(TensorView<float> input, TensorView<float> output)
{
    uint3 i = cudaBlockIdx() * cudaBlockDim() + cudaThreadIdx();
    if (i.x >= input.size(0) || i.x >= input.size(1)) return;
    output.store(i.x, i.y, 2 * input.load(i.x, i.y));
}
""",
    """[CudaKernel]
void twice(TensorView<float> input, TensorView<float> output)
{
    uint3 i = cudaBlockIdx() * cudaBlockDim() + cudaThreadIdx();
    if (i.x >= input.size(0) || i.y >= input.size(1)) return;
    output.store(i.x, i.y, 2 * input.load(i.x, i.y));
}
""",
    "the `square` of slang-torch's own guide",
)

BLOCK_OF_A_TENSOR = Rule(
    "block-of-a-tensor",
    "warning",
    "one block for a whole tensor",
    "CUDA takes 1024 threads of a block at most, so the launch fails for a tensor of more elements (`invalid configuration argument`)",
    """[CudaKernel]
void twice(TensorView<float> t)
{
    uint3 i = cudaBlockIdx() * cudaBlockDim() + cudaThreadIdx();
    if (i.x >= t.size(0)) return;
    t.store(i.x, 2 * t.load(i.x));
}
[TorchEntryPoint]
TorchTensor<float> twice_all(TorchTensor<float> t)
{
    let blockCount = uint3(1);
    let groupSize = uint3(t.size(0), 1, 1);
    __dispatch_kernel(twice, blockCount, groupSize)(t);
    return t;
}
""",
    """[CudaKernel]
void twice(TensorView<float> t)
{
    uint3 i = cudaBlockIdx() * cudaBlockDim() + cudaThreadIdx();
    if (i.x >= t.size(0)) return;
    t.store(i.x, 2 * t.load(i.x));
}
[TorchEntryPoint]
TorchTensor<float> twice_all(TorchTensor<float> t)
{
    let blockCount = uint3((t.size(0) + 255) / 256, 1, 1);
    let groupSize = uint3(256, 1, 1);
    __dispatch_kernel(twice, blockCount, groupSize)(t);
    return t;
}
""",
    "the `square` of slang-torch's own guide; the limit is CUDA's own",
)

_DEEPEST = 20  # conditions inside each other
_OPPOSITE = {">": "<", "<": ">", ">=": "<=", "<=": ">="}
_METHODS = frozenset(("load", "store", "loadOnce", "storeOnce", "add", "get", "set"))
_BLOCKS = {
    1: "256",
    2: "16",
    3: "8",
}  # threads over an axis of a block, by the number of axes that a tensor covers


@dataclass(frozen=True)
class _Comparison:
    """`index OP tensor.size(axis)`, turned so that the index stands on the left."""

    index: tuple[int, int]
    operator: str
    sign: tuple[int, int]
    tensor: str
    axis: int | None
    size: tuple[int, int]


def check(body: Body) -> Iterator[Diagnostic]:
    """Find such checks and launches in one function."""
    for statement, _ in body.walked:
        if statement.kind == "if" and statement.condition is not None:
            yield from _range_check(body, statement, statement.condition)
    yield from _launches(body)


# ----- range checks -----


def _range_check(body: Body, statement: Statement, condition: tuple[int, int]) -> Iterator[Diagnostic]:
    """Find what is wrong in the condition of an `if`; the line to write mends all of it."""
    words = body.words
    leaves = bool(statement.body) and statement.body[-1].kind in ("return", "continue", "break")
    edits: list[tuple[int, int, str]] = []
    late: list[_Comparison] = []
    elsewhere: list[tuple[_Comparison, str]] = []
    for comparison in _comparisons(body, condition):
        meant = _sign_meant(body, statement, comparison, leaves)
        other = _index_meant(body, statement, comparison)
        if other is not None:
            elsewhere.append((comparison, other))
            edits.append((*comparison.index, other))
        if meant is not None:
            late.append(comparison)
            edits.append((*comparison.sign, meant))
    hint = f"write `{rewritten(words, sorted(edits), condition[0])}`" if edits else ""
    if late:
        first, last = late[0], late[-1]
        index, size = words.source(*first.index), words.source(*first.size)
        text = f"where `{index}` is `{size}`, the index is one past the end, and the check lets it through"
        yield finding(PAST_THE_END, words, _start(first), _end(last), text, hint)
    for comparison, other in elsewhere:
        index = words.source(*comparison.index)
        text = f"`{index}` is compared with axis {comparison.axis} of `{comparison.tensor}`, on which `{other}` stands"
        yield finding(RANGE_CHECK_AXIS, words, _start(comparison), _end(comparison), text, hint)


def _start(comparison: _Comparison) -> int:
    return min(comparison.index[0], comparison.size[0])


def _end(comparison: _Comparison) -> int:
    return max(comparison.index[1], comparison.size[1])


def _comparisons(body: Body, condition: tuple[int, int]) -> Iterator[_Comparison]:
    """Yield the comparisons of a condition, joined by `||` and `&&`, that have the size of a tensor on one side."""
    words = body.words
    for start, end in _terms(body, *condition):
        signs = [i for i in range(start, end) if words.word(i) in _OPPOSITE]
        if len(signs) != 1:
            continue
        sign = signs[0], signs[0] + 1
        if words.word(sign[1]) == "=" and words.tokens[sign[1]].start == words.tokens[sign[0]].end:
            sign = (
                sign[0],
                sign[1] + 1,
            )  # `>=`, which the reader keeps apart for the sake of generic arguments
        operator = "".join(words.word(i) for i in range(*sign))
        left, right = (start, sign[0]), (sign[1], end)
        if (found := _size(body, *right)) is not None:
            yield _Comparison(left, operator, sign, *found, right)
        elif (found := _size(body, *left)) is not None:
            yield _Comparison(right, _OPPOSITE[operator], sign, *found, left)


def _terms(body: Body, start: int, end: int, depth: int = 0) -> Iterator[tuple[int, int]]:
    """Yield what `||` and `&&` join, without the parentheses around it."""
    words = body.words
    while words.word(start) == "(" and words.pair[start] == end - 1:
        start, end = start + 1, end - 1
    pieces, begin, at = [], start, start
    while at < end:
        word = words.word(at)
        if word in ("||", "&&"):
            pieces.append((begin, at))
            begin = at + 1
        at = words.pair[at] + 1 if word in ("(", "[") and words.pair[at] > at else at + 1
    if not pieces or depth > _DEEPEST:
        yield start, end
        return
    for piece in (*pieces, (begin, end)):
        yield from _terms(body, *piece, depth + 1)


def _size(body: Body, start: int, end: int) -> tuple[str, int | None] | None:
    """Return the tensor and the axis of `t.size(0)` and `t.shape[0]`; None for anything else."""
    words = body.words
    if end - start < 5 or not words.is_name(start) or words.word(start + 1) != ".":
        return None
    opener = start + 3
    form = words.word(start + 2), words.word(opener)
    if form not in (("size", "("), ("shape", "["), ("shape", "(")) or words.pair[opener] != end - 1:
        return None
    if not _is_tensor(body, words.word(start)):
        return None
    return words.word(start), body.evaluate(opener + 1, end - 1)


def _is_tensor(body: Body, name: str) -> bool:
    return any(p.name == name and "Tensor" in p.type for p in body.function.parameters)


def _sign_meant(body: Body, statement: Statement, comparison: _Comparison, leaves: bool) -> str | None:
    """Return the sign to write, where the one that stands there lets an index past the end reach a tensor."""
    wrong, right = (">", ">=") if leaves else ("<=", "<")
    index = body.words.source(*comparison.index)
    first, last = (statement.end, body.end) if leaves else (statement.start, statement.end)
    if comparison.operator != wrong or not any(index in places for _, places in _accesses(body, first, last)):
        return None
    return right if comparison.size[0] > comparison.sign[0] else _OPPOSITE[right]


def _accesses(body: Body, start: int, end: int) -> Iterator[tuple[str, list[str]]]:
    """Yield each access to a tensor that is a parameter: its name, and its indices as written."""
    words = body.words
    for i in range(start, end):
        if not words.is_name(i) or words.word(i - 1) in (".", "::") or not _is_tensor(body, words.word(i)):
            continue
        method = words.word(i + 2) if words.word(i + 1) == "." else ""
        opener = i + 1 if words.word(i + 1) == "[" else i + 3 if method in _METHODS else -1
        if opener < 0 or words.pair[opener] < opener:
            continue
        parts = [words.source(*part) for part in words.split(opener + 1, words.pair[opener])]
        if method in ("store", "storeOnce", "set", "add"):
            parts = parts[:-1]  # the value
        yield words.word(i), parts


def _index_meant(body: Body, statement: Statement, comparison: _Comparison) -> str | None:
    """Return the index to compare, where the one that is compared never stands on that axis, and another one always does."""
    axis, index = comparison.axis, body.words.source(*comparison.index)
    found = [
        places
        for tensor, places in _accesses(body, statement.start, body.end)
        if tensor == comparison.tensor and len(places) > 1
    ]
    if axis is None or not found or any(axis >= len(places) for places in found):
        return None
    there = {places[axis] for places in found}
    if index in there or len(there) != 1 or not all(index in places for places in found):
        return None
    return there.pop()


# ----- launches -----


def _launches(body: Body) -> Iterator[Diagnostic]:
    words = body.words
    for i in range(body.start, body.end):
        if words.word(i) != "__dispatch_kernel" or words.word(i + 1) != "(" or words.pair[i + 1] < i:
            continue
        parts = words.split(i + 2, words.pair[i + 1])
        if len(parts) != 3:
            continue
        blocks, group = _vector(body, parts[1]), _vector(body, parts[2])
        if blocks is None or group is None or any(body.evaluate(*part) != 1 for part in blocks):
            continue
        large = [k for k, part in enumerate(group) if _has_size(body, *part)]
        if not large or len(group) != 3:
            continue
        threads = _BLOCKS[len(large)]
        sizes = [words.source(*part) for part in group]
        counts = [
            f"({s} + {int(threads) - 1}) / {threads}" if k in large else "1" for k, s in enumerate(sizes)
        ]
        in_block = [threads if k in large else s for k, s in enumerate(sizes)]
        hint = (
            f"write `uint3({', '.join(counts)})` for the blocks and `uint3({', '.join(in_block)})` for the threads of one, "
            "each in a `let` of its own"
        )
        text = f"the block has {' × '.join(sizes[k] for k in large)} threads, and CUDA takes 1024 at most: larger tensors fail"
        yield finding(BLOCK_OF_A_TENSOR, words, *parts[2], text, hint)


def _vector(body: Body, part: tuple[int, int], depth: int = 0) -> list[tuple[int, int]] | None:
    """Return the components of `uint3(a, b, c)`, of `uint3(1)`, or of a variable that is one of these."""
    words = body.words
    start, end = part
    if end - start == 1 and depth < 4:
        variable = body.local(start)
        if variable is None or variable.value is None or body.changes_of(variable, variable.name):
            return None
        return _vector(body, variable.value, depth + 1)
    if words.word(start) not in ("uint3", "int3") or words.word(start + 1) != "(":
        return None
    if words.pair[start + 1] != end - 1:
        return None
    found = words.split(start + 2, end - 1)
    return found * 3 if len(found) == 1 else found


def _has_size(body: Body, start: int, end: int) -> bool:
    """Tell whether an expression is the size of a tensor's axis, with no bound to it."""
    words = body.words
    if any(words.word(i) in ("min", "/", "%", "clamp", ">>", "?") for i in range(start, end)):
        return False
    return any(words.word(i) == "size" and words.word(i - 1) == "." for i in range(start, end))
