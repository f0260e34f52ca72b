"""How often loops of differentiable functions run: more often than they have room for, or so often inside each other."""

from __future__ import annotations

from collections.abc import Iterator

from slanglab.text.diagnostics import Diagnostic
from slanglab.text.lint.bodies import Body
from slanglab.text.lint.rule import Rule, finding, rewritten
from slanglab.text.tree import Statement, walk

__all__ = ["NESTED_LOOPS", "TOO_FEW_ITERATIONS", "check"]

TOO_FEW_ITERATIONS = Rule(
    "too-few-iterations",
    "warning",
    "a loop runs more often than [MaxIters] says",
    "the forward call is right and the gradient is wrong, without a message: the backward keeps the values of so many iterations only, "
    "and what lies behind them in memory may hide it",
    """[Differentiable]
float power(float x)
{
    float v = 1;
    [MaxIters(4)]
    for (int i = 0; i < 8; i++) v *= x;
    return v;
}
""",
    """[Differentiable]
float power(float x)
{
    float v = 1;
    [MaxIters(8)]
    for (int i = 0; i < 8; i++) v *= x;
    return v;
}
""",
    "found by trying",
)

NESTED_LOOPS = Rule(
    "nested-loops",
    "warning",
    "loops of two sizes inside each other",
    "the forward call is right and the gradient is wrong or NaN, without a message, where the inner loop reads a tensor or multiplies "
    "what it carries along: the backward keeps the values of both loops in one array and mixes up its two sizes. Loops of one size, and "
    "an inner or outer loop that is unrolled, are right",
    """import slangpy;
[Differentiable]
float layers(float x, Tensor<float, 2> w)
{
    float a = 0;
    [MaxIters(8)]
    for (int r = 0; r < 8; ++r)
    {
        float s = 0.1;
        [MaxIters(3)]
        for (int c = 0; c < 3; ++c) s += w[r, c] * x * float(c + 1);
        a += s * s;
    }
    return a;
}
""",
    """import slangpy;
[Differentiable]
float layers(float x, Tensor<float, 2> w)
{
    float a = 0;
    [MaxIters(8)]
    for (int r = 0; r < 8; ++r)
    {
        float s = 0.1;
        [ForceUnroll]
        for (int c = 0; c < 3; ++c) s += w[r, c] * x * float(c + 1);
        a += s * s;
    }
    return a;
}
""",
    "shader-slang/slang#13000; that it takes two sizes was found by trying",
)


def check(body: Body) -> Iterator[Diagnostic]:
    """Find such loops in one function."""
    for loop, above in body.walked:
        if not loop.is_loop or loop.unrolled:
            continue
        yield from _too_few(body, loop)
        outer = next((s for s in reversed(above) if s.is_loop and not s.unrolled), None)
        if outer is not None:
            yield from _nested(body, outer, loop)


# ----- how often -----


def _too_few(body: Body, loop: Statement) -> Iterator[Diagnostic]:
    words = body.words
    most, trips = _most(body, loop), _trips(body, loop)
    if most is None or trips is None or trips <= most:
        return
    at = next(k for k in range(loop.start, loop.keyword) if words.word(k).lower() == "maxiters")
    text = f"the loop runs {trips} times and `MaxIters` says {most}: the gradient is wrong, without a message (slangpy 0.43.1)"
    line = rewritten(words, [(at + 2, words.pair[at + 1], str(trips))], at)
    yield finding(TOO_FEW_ITERATIONS, words, at, words.pair[at + 1] + 1, text, f"write `{line}`")


def _most(body: Body, loop: Statement) -> int | None:
    """Return what `[MaxIters(n)]` says, or None."""
    words = body.words
    for k in range(loop.start, loop.keyword):
        if words.word(k).lower() == "maxiters" and words.word(k + 1) == "(" and words.pair[k + 1] > k:
            return body.evaluate(k + 2, words.pair[k + 1])
    return None


def _trips(body: Body, loop: Statement) -> int | None:
    """Return how often a `for` runs, where that is known when it is compiled and nothing leaves it."""
    words = body.words
    asked = loop.condition
    if loop.kind != "for" or loop.init is None or asked is None or loop.step is None:
        return None
    steps = [c for c in body.changes if _in(loop.step, c.name)]
    if len(steps) != 1 or any(s.kind in ("break", "return") for s, _ in walk(loop.body)):
        return None
    change, name = steps[0], words.word(steps[0].name)
    variable = body.local(change.name)
    if variable is None or variable.value is None or words.word(asked[0]) != name:
        return None
    if len(body.changes_of(variable, name)) != 1:
        return None
    by = 1 if change.operator in ("++", "--") else body.evaluate(*change.value)
    first, end = body.evaluate(*variable.value), body.evaluate(asked[0] + 2, asked[1])
    if by is None or by <= 0 or first is None or end is None or not body.counts(change):
        return None
    sign = words.word(asked[0] + 1)
    if change.operator in ("++", "+=") and sign in ("<", "<="):
        distance = end - first + (sign == "<=")
    elif change.operator in ("--", "-=") and sign in (">", ">="):
        distance = first - end + (sign == ">=")
    else:
        return None
    return max(0, -(-distance // by))


# ----- loops inside each other -----


def _nested(body: Body, outer: Statement, inner: Statement) -> Iterator[Diagnostic]:
    words = body.words
    sizes = _size(body, outer), _size(body, inner)
    if sizes[0] == sizes[1] or not _keeps_values(body, inner):
        return
    rounds = [f"up to {size}" if size is not None else "so many" for size in sizes]
    text = (
        f"this loop runs {rounds[1]} times inside one of {rounds[0]}; the gradient of `{body.function.name}` is wrong, without a "
        "message, unless both have room for the same number (slangpy 0.43.1)"
    )
    both = [int(s) for s in sizes if s is not None and s.isdigit()]
    same = (
        f"`[MaxIters({max(both)})]`" if len(both) == 2 else "the same `[MaxIters(n)]`, the larger of the two"
    )
    hint = f"give both loops {same}, or unroll one of them"
    if _trips(body, inner) is not None or _is_fixed(body, inner):
        head = words.source(inner.keyword, _head_end(body, inner))
        hint = f"write `[ForceUnroll] {head}`, or give both loops {same}"
    yield finding(NESTED_LOOPS, words, inner.keyword, _head_end(body, inner), text, hint)


def _is_fixed(body: Body, loop: Statement) -> bool:
    return (
        loop.kind == "for"
        and loop.init is not None
        and loop.condition is not None
        and all(body.is_constant(i, i + 1) or _in_steps(body, loop, i) for i in body.named(*loop.condition))
    )


def _in_steps(body: Body, loop: Statement, i: int) -> bool:
    name = body.words.word(i)
    return any(_in(loop.step, c.name) and body.words.word(c.name) == name for c in body.changes)


def _head_end(body: Body, loop: Statement) -> int:
    opener = loop.keyword + 1
    return body.words.pair[opener] + 1 if loop.kind != "do" and body.words.pair[opener] > opener else opener


def _size(body: Body, loop: Statement) -> str | None:
    """Return how many rounds the backward keeps room for: a number, or the text of one; None where that is not written."""
    most = loop.attribute("MaxIters")
    if most is not None:
        value = _most(body, loop)
        return str(value) if value is not None else most
    trips = _trips(body, loop)
    if trips is not None:
        return str(trips)
    asked = loop.condition
    if loop.kind == "for" and asked is not None and body.words.word(asked[0] + 1) == "<":
        return body.words.source(asked[0] + 2, asked[1])
    return None


def _keeps_values(body: Body, inner: Statement) -> bool:
    """Tell whether a loop has values that its backward cannot compute again: read from tensors, or carried along."""
    words = body.words
    if not body.is_differentiated(inner):
        return False
    if any(inner.start <= a.base[0] < inner.end for a in body.accesses):
        return True
    functions = {f.name for f in body.outline.functions}
    for i in range(inner.start, inner.end):
        if words.is_name(i) and words.word(i) in functions and body.is_call(i):
            return True
    for change in body.changes:
        if not inner.start <= change.name < inner.end or body.is_integer(body.changed_type(change)):
            continue
        variable = body.local(change.name)
        if variable is not None and variable.start >= inner.start:
            continue  # it lives in one round
        name = words.word(change.name)
        read = sum(words.word(i) == name for i in body.named(*change.value))
        target = words.source(*change.target)
        plain = change.operator in ("+=", "-=") or words.source(*change.value).startswith(
            (f"{target} +", f"{target} -")
        )
        if not plain or read > (change.operator == "="):
            return True
        if any(
            words.word(i) == name and not change.target[0] <= i < change.value[1]
            for i in body.named(inner.start, inner.end)
        ):
            return True
    return False


def _in(part: tuple[int, int] | None, at: int) -> bool:
    return part is not None and part[0] <= at < part[1]
