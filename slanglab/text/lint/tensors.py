"""Tensors: elements that all threads write at once, methods that lose the gradient, and the order of indices."""

from __future__ import annotations

import re
from collections.abc import Iterator

from slanglab.text.accesses import Access
from slanglab.text.diagnostics import Diagnostic
from slanglab.text.lint.bodies import Body
from slanglab.text.lint.rule import Rule, finding, rewritten
from slanglab.text.reading import values

__all__ = ["INDEX_ORDER", "RACE", "WITHOUT_DERIVATIVE", "check"]

RACE = Rule(
    "race",
    "warning",
    "all threads add to one element",
    "the sum is wrong and another one each time: threads overwrite what others have added (2500 instead of 20000 was seen)",
    """import slangpy;
void count(int i, RWTensor<float, 1> t) { t[0] = t[0] + 1.0; }
""",
    """import slangpy;
void count(int i, AtomicTensor<float, 1> t) { t.add(0, 1.0); }
""",
    "shader-slang/slangpy#910, shader-slang/slang#3855",
)

INDEX_ORDER = Rule(
    "index-order",
    "note",
    "a vector of indices counts from the last axis",
    "`t[int2(a, b)]` is `t[b, a]`: the first component of a vector is the last index. A network whose weights are read in the wrong "
    "order trains all the same, worse",
    """import slangpy;
float at(int row, int column, Tensor<float, 2> t) { return t[int2(row, column)]; }
""",
    """import slangpy;
float at(int row, int column, Tensor<float, 2> t) { return t[row, column]; }
""",
    "slangpy's manual; shader-slang/slangpy-samples, in a network of dense layers",
)

WITHOUT_DERIVATIVE = Rule(
    "load-by-vector",
    "warning",
    "an element that is loaded or stored by one vector of indices",
    "the value is right and its gradient is zero: `load` and `store` by a vector or an array have no derivative in `IDiffTensor`, "
    "`IWDiffTensor` and `IRWDiffTensor`. A subscript with the same index has one, and so have single indices and the concrete types",
    """import slangpy;
[Differentiable]
float at(no_diff int i, no_diff int j, IDiffTensor<float, 2> s) { return s.load(int2(j, i)); }
""",
    """import slangpy;
[Differentiable]
float at(no_diff int i, no_diff int j, IDiffTensor<float, 2> s) { return s[int2(j, i)]; }
""",
    "found by trying what slangpy's tensors offer",
)

_WRITES = frozenset(
    ("RWTensor", "WTensor", "IRWTensor", "IWTensor", "RWDiffTensor", "IRWDiffTensor", "RWPrimalTensor")
)
_FIRST = re.compile(r"(?:row|r|y|j_?row|out(?:put)?|neuron|line)(?:_?(?:i|id|idx|index))?", re.IGNORECASE)
_LAST = re.compile(r"(?:col(?:umn)?|c|x|in(?:put)?)(?:_?(?:i|id|idx|index))?", re.IGNORECASE)


def check(body: Body) -> Iterator[Diagnostic]:
    """Find such accesses in one function."""
    yield from _races(body)
    for access in body.accesses:
        yield from _without_derivative(body, access)
        yield from _order(body, access)


def _races(body: Body) -> Iterator[Diagnostic]:
    """Find elements at a constant index that are read and written again, in a function that is called for many elements."""
    words = body.words
    threads = [p for p in body.function.parameters if "Tensor" not in p.type and p.direction == "in"]
    if not threads or body.function.in_struct or body.function.is_entry_point:
        return
    for access in body.accesses:
        if access.method or access.tensor.name not in _WRITES or not access.indices:
            continue
        if not all(body.evaluate(*index) is not None for index in access.indices):
            continue
        end = words.pair[access.base[1]] + 1
        change = next((c for c in body.changes if c.target == (access.base[0], end)), None)
        if change is None or not _adds(
            body, change.operator, change.value, words.source(access.base[0], end)
        ):
            continue
        if any(s.condition is not None and s.kind in ("if", "switch") for s in body.path(access.base[0])):
            continue
        tensor, index = words.source(*access.base), words.source(access.base[1] + 1, end - 1)
        text = f"each thread reads `{words.source(access.base[0], end)}` and writes it again, and they overwrite each other"
        hint = f"declare `AtomicTensor<{access.tensor.element}, {access.tensor.rank}> {tensor}`"
        added = _added(body, change.operator, change.value, words.source(access.base[0], end))
        if added is not None:
            hint += f" and write `{tensor}.add({index}, {added});`"
        yield finding(RACE, words, access.base[0], end, text, hint)


def _adds(body: Body, operator: str, value: tuple[int, int], target: str) -> bool:
    if operator != "=":
        return True
    return target in body.words.source(*value)


def _added(body: Body, operator: str, value: tuple[int, int], target: str) -> str | None:
    """Return what is added to an element, where it is a sum."""
    written = body.words.source(*value)
    if operator in ("++", "+="):
        return written or "1"
    if operator in ("--", "-="):
        return f"-({written or '1'})"
    rest = written.removeprefix(target).lstrip()
    return rest[1:].strip() if rest != written and rest.startswith("+") and target not in rest else None


def _without_derivative(body: Body, access: Access) -> Iterator[Diagnostic]:
    """Find `s.load(int2(j, i))`."""
    words = body.words
    if not body.function.differentiable or not access.tensor.dynamic or not access.whole:
        return
    if access.method not in ("load", "store") or words.word(access.base[0] - 1) == "no_diff":
        return
    dot, opener = access.base[1], access.base[1] + 2
    closer = words.pair[opener]
    index_end = access.indices[0][1]
    edits = [(dot, opener + 1, "[")]
    if access.method == "load":
        edits.append((closer, closer + 1, "]"))
    else:
        edits += [(index_end, index_end + 1, "] ="), (closer, closer + 1, "")]
    written = words.source(access.base[0], closer + 1)
    text = f"the gradient of `{written}` is lost: `{access.method}` by one vector or array of indices has no derivative here"
    line = rewritten(words, edits, access.base[0])
    yield finding(
        WITHOUT_DERIVATIVE, words, access.base[0], closer + 1, text, f"write it as a subscript: `{line}`"
    )


def _order(body: Body, access: Access) -> Iterator[Diagnostic]:
    """Find `t[int2(row, column)]`."""
    words = body.words
    if len(access.indices) != 1:
        return
    start, end = access.indices[0]
    vector = values.vector(words.word(start))
    if vector is None or vector[1] != 2 or words.word(start + 1) != "(" or words.pair[start + 1] != end - 1:
        return
    parts = [words.source(*a) for a in words.split(start + 2, end - 1)]
    if len(parts) != 2 or not (_FIRST.fullmatch(parts[0]) and _LAST.fullmatch(parts[1])):
        return
    text = f"`{words.source(start, end)}` means the indices `{parts[1]}, {parts[0]}`: a vector's first component is the last index"
    line = rewritten(words, [(start, end, ", ".join(parts))], start)
    yield finding(
        INDEX_ORDER, words, start, end, text, f"for row `{parts[0]}` and column `{parts[1]}` write `{line}`"
    )
