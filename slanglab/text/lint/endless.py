"""Loops that nothing leaves."""

from __future__ import annotations

import re
from collections.abc import Iterator

from slanglab.text.diagnostics import Diagnostic
from slanglab.text.lint.bodies import Body
from slanglab.text.lint.rule import Rule, finding
from slanglab.text.tree import Statement

__all__ = ["ENDLESS_LOOP", "check", "concerns"]

ENDLESS_LOOP = Rule(
    "endless-loop",
    "warning",
    "nothing leaves a loop",
    "where the loop writes to a tensor it never ends, and takes the device with it; where it does not, the compiler drops it with all that "
    "follows, and the call returns whatever the memory held, without a word",
    """float root(float x)
{
    float r = x;
    while (true) { r = 0.5 * (r + x / r); }
    return r;
}
""",
    """float root(float x)
{
    float r = x;
    for (int k = 0; k < 30; k++) { r = 0.5 * (r + x / r); }
    return r;
}
""",
    "found by trying: `while (true) {}` before a `return`",
)

_ALWAYS = re.compile(r"true|[1-9]\d*[uUlL]*")
_MAY_BE = re.compile(r"\bwhile\b|\bfor\b[^{}]*;\s*(?:true|\d+)?\s*;")


def concerns(text: str) -> bool:
    """Tell at a glance whether a text may hold such a loop."""
    return _MAY_BE.search(text) is not None


def check(body: Body) -> Iterator[Diagnostic]:
    """Find such loops in one function."""
    words = body.words
    for loop, _ in body.walked:
        if not loop.is_loop or loop.unrolled or not _goes_on(body, loop) or _is_left(loop):
            continue
        start = loop.keyword
        end = loop.condition[1] + 1 if loop.kind != "do" and loop.condition is not None else start + 1
        yield finding(
            ENDLESS_LOOP,
            words,
            start,
            end,
            f"this loop of `{body.function.name}` has no end: no `break` and no `return` is in it, and what follows it is never reached",
            "say how often at most: `for (int k = 0; k < 1000; k++)`, and leave with `break` when it is done",
        )


def _goes_on(body: Body, loop: Statement) -> bool:
    """Tell whether a loop asks for nothing, or for what is always so."""
    if loop.condition is None or loop.condition[0] >= loop.condition[1]:
        return loop.kind == "for"
    first, last = loop.condition
    return last - first == 1 and _ALWAYS.fullmatch(body.words.word(first)) is not None


def _is_left(loop: Statement) -> bool:
    return any(_leaves(inner, nested=False) for inner in loop.body)


def _leaves(statement: Statement, nested: bool) -> bool:
    """Tell whether a statement may leave the loop that it is in; a `break` in an inner loop or a `switch` leaves that one."""
    if statement.kind in ("return", "discard"):
        return True
    if statement.kind == "break":
        return not nested
    nested = nested or statement.is_loop or statement.kind == "switch"
    return any(_leaves(inner, nested) for inner in (*statement.body, *statement.otherwise))
