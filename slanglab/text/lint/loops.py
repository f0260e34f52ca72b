"""Loops in differentiable functions: where they start, how they end, how many they are inside each other."""

from __future__ import annotations

from collections.abc import Iterator

from slanglab.text.diagnostics import Diagnostic
from slanglab.text.lint.bodies import Body, Change
from slanglab.text.lint.rule import Rule, finding, rewritten
from slanglab.text.reading.bodies import Local
from slanglab.text.tree import Statement, walk

__all__ = ["LOOP_START", "NESTED_LOOPS", "TOO_FEW_ITERATIONS", "WHILE_CONDITION", "check"]

LOOP_START = Rule(
    "loop-start",
    "warning",
    "a counter starts at a computed value",
    'the forward call is right; the backward call fails with SLANG_FAIL ("Unhandled global inst in spirv-emit"), and ends the '
    "process where the start is computed from a differentiable value. Constants and parameters are no trouble; another loop's counter is",
    """[Differentiable]
float window(float x, no_diff int r)
{
    float a = 0;
    [MaxIters(5)]
    for (int k = -r; k <= r; ++k) a += x * x * float(k + 3);
    return a;
}
""",
    """[Differentiable]
float window(float x, no_diff int r)
{
    float a = 0;
    int n = r - (-r) + 1;
    [MaxIters(5)]
    for (int t = 0; t < n; ++t) { int k = -r + t; a += x * x * float(k + 3); }
    return a;
}
""",
    "shader-slang/slangpy#1051, which names negative starts; that it is every computed start was found by trying",
)

WHILE_CONDITION = Rule(
    "while-condition",
    "warning",
    "a `while` asks for two things",
    "the forward call is right; compiling the backward ends the Python process (SIGSEGV). `for`, `do` and unrolled loops are no trouble",
    """[Differentiable]
float grow(float x)
{
    float v = x;
    int i = 0;
    [MaxIters(8)]
    while (v < 50.0 && i < 8) { v = v * x; i++; }
    return v;
}
""",
    """[Differentiable]
float grow(float x)
{
    float v = x;
    int i = 0;
    [MaxIters(8)]
    while ((v < 50.0) & (i < 8)) { v = v * x; i++; }
    return v;
}
""",
    "shader-slang/slang#2914, shader-slang/slang#2901",
)

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

_JOINS = frozenset(("&&", "||", "?"))


def check(body: Body) -> Iterator[Diagnostic]:
    """Find such loops in one function."""
    for loop, above in body.walked:
        if not loop.is_loop or loop.unrolled:
            continue
        if loop.kind == "while" and loop.condition is not None:
            yield from _while(body, loop, loop.condition)
        yield from _start(body, loop)
        yield from _too_few(body, loop)
        outer = next((s for s in reversed(above) if s.is_loop and not s.unrolled), None)
        if outer is not None:
            yield from _nested(body, outer, loop)


# ----- `while (a && b)` -----


def _while(body: Body, loop: Statement, asked: tuple[int, int]) -> Iterator[Diagnostic]:
    words = body.words
    joined = _top_level(body, asked)
    if not joined and not any(words.word(k) in _JOINS for k in range(*asked)):
        return
    if body.is_constant(*asked):
        return
    text = f"compiling the backward of `{body.function.name}` ends the Python process (slangpy 0.43.1)"
    hint = "work the condition out in a variable: `bool go = true; while (go) { …; go = a && b; }`"
    operators = {words.word(k) for k in joined}
    if len(operators) == 1 and operators < {"&&", "||"}:
        sign = operators.pop()[0]
        pieces, begin = [], asked[0]
        for k in (*joined, asked[1]):
            pieces.append(f"({words.source(begin, k)})")
            begin = k + 1
        if not any(f in piece for piece in pieces for f in _JOINS):
            line = rewritten(words, [(*asked, f" {sign} ".join(pieces))], asked[0])
            hint = f"write `{line}`: both sides are then worked out each time"
    yield finding(WHILE_CONDITION, words, *asked, text, hint)


def _top_level(body: Body, asked: tuple[int, int]) -> list[int]:
    """Return the `&&` and `||` of a condition that stand in no bracket."""
    words, found, i = body.words, [], asked[0]
    while i < asked[1]:
        if words.word(i) in ("&&", "||"):
            found.append(i)
        i = words.skip(i, asked[1])
    return found


# ----- where a counter starts -----


def _start(body: Body, loop: Statement) -> Iterator[Diagnostic]:
    words = body.words
    if not _is_differentiated(body, loop):
        return
    told: set[str] = set()
    for change in body.changes:
        name = words.word(change.name)
        if not loop.start <= change.name < loop.end or name in told or not _counts(body, change):
            continue
        if _innermost(body, change.name) is not loop:
            continue
        variable = body.local(change.name)
        if variable is None or not body.is_integer(_type(body, change.name)):
            continue
        value = _started(body, loop, variable)
        if value is None or _starts_well(body, value) or not _used(body, loop, change):
            continue
        told.add(name)
        text = (
            f"`{name}` starts at `{words.source(*value)}`, which is computed at run time; the backward of `{body.function.name}` does not "
            "compile (slangpy 0.43.1)"
        )
        yield finding(
            LOOP_START, words, value[0], value[1], text, _from_zero(body, loop, variable, value, change)
        )


def _is_differentiated(body: Body, loop: Statement) -> bool:
    """Tell whether a loop changes anything but whole numbers."""
    return any(
        loop.start <= c.name < loop.end and not body.is_integer(_target_type(body, c)) for c in body.changes
    )


def _target_type(body: Body, change: Change) -> str:
    return body.expressions.type_of(*change.target)


def _type(body: Body, i: int) -> str:
    return body.expressions.variable(i) or ""


def _innermost(body: Body, at: int) -> Statement | None:
    found = None
    for statement, _ in body.walked:
        if statement.is_loop and statement.start <= at < statement.end:
            found = statement
    return found


def _counts(body: Body, change: Change) -> bool:
    """Tell whether an assignment adds the same to a variable each time: `k++`, `k += 2`, `k = k + 1`."""
    words = body.words
    if change.target[1] - change.target[0] != 1:
        return False
    if change.operator in ("++", "--"):
        return True
    if change.operator in ("+=", "-="):
        return body.evaluate(*change.value) is not None
    start, end = change.value
    return (
        change.operator == "="
        and end - start == 3
        and words.word(start) == words.word(change.name)
        and words.word(start + 1) in ("+", "-")
        and body.evaluate(start + 2, end) is not None
    )


def _started(body: Body, loop: Statement, variable: Local) -> tuple[int, int] | None:
    """Return what a variable holds when a loop begins: the last value that it was given before."""
    value = variable.value
    for change in body.changes_of(variable, variable.name):
        if change.operator == "=" and (change.name < loop.start or _in(loop.init, change.name)):
            value = change.value
    inside = value is not None and loop.start <= value[0] < loop.end and not _in(loop.init, value[0])
    return None if inside else value


def _in(part: tuple[int, int] | None, at: int) -> bool:
    return part is not None and part[0] <= at < part[1]


def _starts_well(body: Body, value: tuple[int, int], depth: int = 0) -> bool:
    """Tell whether a value is a constant, a parameter, or a variable that holds one of these."""
    words = body.words
    if body.is_constant(*value):
        return True
    if value[1] - value[0] != 1 or not words.is_name(value[0]) or depth > 4:
        return False
    if body.is_parameter(value[0]):
        return not body.changes_of(None, words.word(value[0]))
    variable = body.local(value[0])
    if variable is None or variable.value is None or body.changes_of(variable, variable.name):
        return False
    return _starts_well(body, variable.value, depth + 1)


def _used(body: Body, loop: Statement, change: Change) -> bool:
    """Tell whether a loop does anything with a counter but count."""
    name = body.words.word(change.name)
    return any(
        body.words.word(i) == name and not change.target[0] <= i < max(change.target[1], change.value[1])
        for i in body.named(loop.start, loop.end)
        if not (loop.init is not None and loop.init[0] <= i < loop.init[1])
    )


def _from_zero(body: Body, loop: Statement, variable: Local, value: tuple[int, int], change: Change) -> str:
    """Return how the loop reads when it counts from zero."""
    words = body.words
    start = words.source(*value)
    general = (
        f"count from zero: compute the number of rounds before the loop (`int n = …;`), loop with `for (int t = 0; t < n; ++t)`, and "
        f"begin its body with `int {variable.name} = {start} + t;`"
    )
    asked = loop.condition
    if (
        loop.kind != "for"
        or asked is None
        or not _in(loop.init, value[0])
        or change.operator not in ("++", "--")
    ):
        return general
    if words.word(asked[0]) != variable.name or words.word(asked[0] + 1) not in ("<", "<=", ">", ">="):
        return general
    if any(words.word(k) in _JOINS for k in range(*asked)):
        return general
    sign, end = words.word(asked[0] + 1), words.source(asked[0] + 2, asked[1])
    up = change.operator == "++"
    if up != sign.startswith("<"):
        return general
    taken = {v.name for v in body.variables} | {p.name for p in body.function.parameters}
    count = next(n for n in ("n", "count", f"n{asked[0]}") if n not in taken)
    counter = next(n for n in ("t", "step", f"t{asked[0]}") if n not in taken)
    more = " + 1" if sign.endswith("=") else ""
    last, first = (_bracketed(end), _bracketed(start)) if up else (_bracketed(start), _bracketed(end))
    head = f"for (int {counter} = 0; {counter} < {count}; ++{counter})"
    return (
        f"write `int {count} = {last} - {first}{more};` before the loop, then `{head}`, and begin its body with "
        f"`int {variable.name} = {start} {'+' if up else '-'} {counter};`"
    )


def _bracketed(written: str) -> str:
    return written if written.isidentifier() or written.isdigit() else f"({written})"


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
    if by is None or by <= 0 or first is None or end is None or not _counts(body, change):
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
    text = (
        f"this loop runs up to {sizes[1] or 'some'} times inside one of up to {sizes[0] or 'some'}; the gradient of `{body.function.name}` is wrong, "
        "without a message, unless both sizes are the same (slangpy 0.43.1)"
    )
    both = [int(s) for s in sizes if s is not None and s.isdigit()]
    larger = (
        f"[MaxIters({max(both)})]" if len(both) == 2 else "the same `[MaxIters(n)]`, the larger of the two,"
    )
    same = f"give both loops {f'`{larger}`' if len(both) == 2 else larger}"
    hint = f"{same} or unroll this one"
    if _trips(body, inner) is not None or _is_fixed(body, inner):
        hint = f"unroll it: write `[ForceUnroll]` before `{words.source(inner.keyword, _head_end(body, inner))}`; or {same}"
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
    if not _is_differentiated(body, inner):
        return False
    if any(inner.start <= a.base[0] < inner.end for a in body.accesses):
        return True
    functions = {f.name for f in body.outline.functions}
    for i in range(inner.start, inner.end):
        if words.is_name(i) and words.word(i) in functions and body.is_call(i):
            return True
    for change in body.changes:
        if not inner.start <= change.name < inner.end or body.is_integer(_target_type(body, change)):
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
