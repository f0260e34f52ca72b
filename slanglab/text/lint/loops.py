"""Loops in differentiable functions: where their counters start, and what a `while` asks."""

from __future__ import annotations

from collections.abc import Iterator

from slanglab.text.diagnostics import Diagnostic
from slanglab.text.lint.bodies import Body, Change
from slanglab.text.lint.rule import Rule, finding, rewritten
from slanglab.text.reading.bodies import Local
from slanglab.text.tree import Statement

__all__ = ["LOOP_START", "WHILE_CONDITION", "check"]

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

_JOINS = frozenset(("&&", "||", "?"))


def check(body: Body) -> Iterator[Diagnostic]:
    """Find such loops in one function."""
    for loop, _ in body.walked:
        if not loop.is_loop or loop.unrolled:
            continue
        if loop.kind == "while" and loop.condition is not None:
            yield from _while(body, loop, loop.condition)
        yield from _start(body, loop)


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
    if not body.is_differentiated(loop):
        return
    told: set[str] = set()
    for change in body.changes:
        name = words.word(change.name)
        if not loop.start <= change.name < loop.end or name in told or not body.counts(change):
            continue
        if _innermost(body, change.name) is not loop:
            continue
        variable = body.local(change.name)
        if variable is None or not body.is_integer(body.type_of(change.name)):
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


def _innermost(body: Body, at: int) -> Statement | None:
    return next((s for s in reversed(body.path(at)) if s.is_loop), None)


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
