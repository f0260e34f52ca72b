"""Reading and writing differentiable tensors where it depends on a condition that is known only at run time.

The backward of such a function is never finished by the compiler of slangpy 0.43.1: it takes one core and more and more memory. It
takes an `IDiffTensor` (or `IWDiffTensor`, `IRWDiffTensor`) and an access in the function that holds the condition itself; the same
access in a function that is called there is no trouble, and neither are concrete types (`DiffTensor`) and constant conditions.
"""

from __future__ import annotations

from collections.abc import Iterator

from slanglab.text.accesses import Access
from slanglab.text.diagnostics import Diagnostic
from slanglab.text.lint.bodies import Body, Change
from slanglab.text.lint.rule import Rule, finding, rewritten
from slanglab.text.tree import Statement, walk

__all__ = ["CONDITIONAL_ACCESS", "LOOP_CONDITION", "check"]

_RECORD = "shader-slang/slangpy#1167"

CONDITIONAL_ACCESS = Rule(
    "conditional-access",
    "warning",
    "a differentiable tensor is read under a condition",
    "the forward call is right; the first backward call never returns, as the compiler does not finish. So it is for `if`, `switch`, "
    "`?:`, the right side of `&&` and `||`, and for what follows an early `return`, `break` or `continue`",
    """import slangpy;
[Differentiable]
float gate(no_diff int i, no_diff int limit, IDiffTensor<float, 1> s)
{
    float a = 1;
    if (i < limit) a = s[i] * s[i];
    return a;
}
""",
    """import slangpy;
[Differentiable]
float s_at(IDiffTensor<float, 1> s, no_diff int i0) { return s[i0]; }
[Differentiable]
float gate(no_diff int i, no_diff int limit, IDiffTensor<float, 1> s)
{
    float a = 1;
    if (i < limit) a = s_at(s, i) * s_at(s, i);
    return a;
}
""",
    f"{_RECORD}; the way round it was found by trying",
)

LOOP_CONDITION = Rule(
    "loop-condition",
    "warning",
    "a loop around a differentiable tensor has a computed end",
    "the forward call is right; the first backward call never returns, as the compiler does not finish. So it is where the condition "
    "takes two operations or more (`k < 2 * r + 1`), reads a shape, joins two with `&&`, or computes with another loop's counter",
    """import slangpy;
[Differentiable]
float window(no_diff int r, IDiffTensor<float, 1> s)
{
    float a = 0;
    [MaxIters(5)]
    for (int k = 0; k < 2 * r + 1; ++k) a += s[k] * s[k];
    return a;
}
""",
    """import slangpy;
[Differentiable]
float window(no_diff int r, IDiffTensor<float, 1> s)
{
    float a = 0;
    int n = 2 * r + 1;
    [MaxIters(5)]
    for (int k = 0; k < n; ++k) a += s[k] * s[k];
    return a;
}
""",
    f"{_RECORD}; which conditions it takes was found by trying",
)

_COMPARES = frozenset(("<", ">", "<=", ">=", "==", "!="))
_JOINS = frozenset(("&&", "||", "?"))
_OPERATES = frozenset(("+", "-", "*", "/", "%", "<<", "&", "|", "^", "[", "("))


def check(body: Body) -> Iterator[Diagnostic]:
    """Find such accesses in one function."""
    dynamic = [a for a in body.accesses if a.tensor.dynamic]
    if not dynamic:
        return
    told: set[int] = set()
    for access in dynamic:
        loop, condition = _computed_loop(body, access)
        if loop is not None and condition is not None and loop.start not in told:
            told.add(loop.start)
            yield _loop(body, loop, condition, access)
    lines: dict[int, list[Access]] = {}
    for access in dynamic:
        lines.setdefault(body.words.line(access.base[0]), []).append(access)
    for beside in lines.values():
        for access in beside:
            why = _condition(body, access)
            if why is not None:
                yield _conditional(body, access, why, beside)
                break


# ----- conditions -----


def _end(body: Body, access: Access) -> int:
    return body.words.pair[access.base[1] + (2 if access.method else 0)] + 1


def _condition(body: Body, access: Access) -> tuple[int, int] | None:
    """Return the condition of the run time that an access depends on, or None."""
    at = access.base[0]
    path = body.path(at)
    for statement in path:
        asked = statement.condition
        if asked is None or statement.kind not in ("if", "switch") or asked[0] <= at < asked[1]:
            continue
        if not body.is_constant(*asked):
            return asked
    return _inside_expression(body, path, at) or _after_exit(body, path, at)


def _inside_expression(body: Body, path: tuple[Statement, ...], at: int) -> tuple[int, int] | None:
    """Return the condition of the `?:`, `&&` or `||` that an access is a part of."""
    words = body.words
    begin = path[-1].keyword if path else at
    level: list[
        tuple[int, int]
    ] = []  # from the statement's begin to the access, one stretch for each open bracket
    i, start = begin, begin
    while i < at:
        if words.word(i) in ("(", "[", "{") and words.pair[i] > at:
            level.append((start, i))
            start = i + 1
        i = words.pair[i] + 1 if words.word(i) in ("(", "[", "{") and i < words.pair[i] < at else i + 1
    level.append((start, at))
    for first, last in level:
        begin_of, k = first, first
        while k < last:
            word = words.word(k)
            if word in (",", ";", "=", "return", "+=", "-=", "*=", "/="):
                begin_of = k + 1
            elif word in _JOINS and begin_of < k and not body.is_constant(begin_of, k):
                return begin_of, k
            k = words.pair[k] + 1 if words.pair[k] > k and words.pair[k] < last else k + 1
    return None


def _after_exit(body: Body, path: tuple[Statement, ...], at: int) -> tuple[int, int] | None:
    """Return the condition of an earlier `return`, `break` or `continue` that may skip an access."""
    holders: list[tuple[tuple[Statement, ...], Statement | None]] = [(body.statements, None)]
    for statement in path:
        holders.append((statement.body, statement))
        holders.append((statement.otherwise, statement))
    loops = [s for s in path if s.is_loop]
    for held, holder in holders:
        again = holder is not None and holder.is_loop and holder.unrolled
        for statement in held if body.leaving else ():
            if statement.start not in body.leaving or (statement.end > at and not again):
                continue
            asked = _leaving(body, statement, bool(loops))
            if asked is not None:
                return asked
    return None


def _leaving(body: Body, statement: Statement, in_loop: bool) -> tuple[int, int] | None:
    """Return the condition of the run time under which a statement leaves the function, or the loop that it stands in."""
    for inner, above in walk((statement,)):
        leaves = inner.kind == "return" or (
            in_loop
            and inner.kind in ("break", "continue")
            and not any(s.is_loop or (s.kind == "switch" and inner.kind == "break") for s in above)
        )
        if not leaves:
            continue
        for one in above:
            if one.condition is None or (one.is_loop and one.unrolled):
                continue
            if one.kind in ("if", "switch", "for", "while") and not body.is_constant(*one.condition):
                return one.condition
    return None


def _conditional(body: Body, access: Access, asked: tuple[int, int], beside: list[Access]) -> Diagnostic:
    words = body.words
    written = words.source(access.base[0], _end(body, access))
    text = (
        f"`{written}` is reached only where `{words.source(*asked)}` allows it, which is known at run time; compiling the backward of "
        f"`{body.function.name}` never ends (slangpy 0.43.1)"
    )
    return finding(
        CONDITIONAL_ACCESS,
        words,
        access.base[0],
        _end(body, access),
        text,
        _through_function(body, access, beside),
    )


def _through_function(body: Body, access: Access, beside: list[Access]) -> str:
    """Return how the line reads with its accesses in a function of their own."""
    words = body.words
    tensor = words.source(*access.base)
    if (
        access.method not in ("", "load")
        or not words.is_name(access.base[0])
        or access.base[1] != access.base[0] + 1
    ):
        return "move the access into a `[Differentiable]` function of its own and call that here"
    if any(c.target == (access.base[0], _end(body, access)) for c in body.changes):
        return _writing(body, access)
    whole = len(access.indices) == 1 and access.types[0] not in ("", "int", "uint")
    kinds = [access.types[0]] if whole else ["int"] * len(access.indices)
    names = ["p"] if whole else [f"i{n}" for n in range(len(kinds))]
    parameters = ", ".join(f"no_diff {kind} {name}" for kind, name in zip(kinds, names, strict=True))
    head = (
        f"[Differentiable] {access.tensor.element} {tensor}_at({_tensor(access)} {tensor}, {parameters}) "
        f"{{ return {tensor}[{', '.join(names)}]; }}"
    )
    edits = [
        (a.base[0], _end(body, a), f"{tensor}_at({tensor}, {', '.join(words.source(*i) for i in a.indices)})")
        for a in beside
        if words.source(*a.base) == tensor and a.method in ("", "load")
    ]
    if any(words.word(k) == "[" for a in beside for index in a.indices for k in range(*index)):
        edits = edits[:1]
    return f"declare `{head}` above and write `{rewritten(words, edits, access.base[0])}`"


def _writing(body: Body, access: Access) -> str:
    words, tensor = body.words, body.words.source(*access.base)
    change = next(c for c in body.changes if c.target == (access.base[0], _end(body, access)))
    names = [f"i{n}" for n in range(len(access.indices))]
    parameters = ", ".join(f"no_diff int {name}" for name in names)
    head = (
        f"[Differentiable] void set_{tensor}({_tensor(access)} {tensor}, {parameters}, {access.tensor.element} value) "
        f"{{ {tensor}[{', '.join(names)}] = value; }}"
    )
    if change.operator != "=":
        return f"declare `{head}` above and call it here"
    indices = ", ".join(words.source(*i) for i in access.indices)
    call = f"set_{tensor}({tensor}, {indices}, {words.source(*change.value)})"
    edits = [(change.target[0], change.value[1], call)]
    return f"declare `{head}` above and write `{rewritten(words, edits, access.base[0])}`"


def _tensor(access: Access) -> str:
    return f"{access.tensor.name}<{access.tensor.element}, {access.tensor.rank}>"


# ----- loops -----


def _computed_loop(body: Body, access: Access) -> tuple[Statement | None, tuple[int, int] | None]:
    """Return the loop around an access whose condition the compiler does not get through, with the condition."""
    at = access.base[0]
    around = [s for s in body.path(at) if s.is_loop]
    for n, loop in enumerate(around):
        asked = loop.condition
        if asked is None or loop.unrolled or asked[0] <= at < asked[1] or body.is_constant(*asked):
            continue
        if _is_computed(body, loop, asked, around[:n]):
            return loop, asked
    return None, None


def _is_computed(body: Body, loop: Statement, asked: tuple[int, int], outer: list[Statement]) -> bool:
    words = body.words
    if any(words.word(k) in _JOINS for k in range(*asked)):
        return True
    operations = sum(words.word(k) in _OPERATES and k > asked[0] for k in range(*asked))
    operations += sum(words.word(k) == "shape" and words.word(k - 1) == "." for k in range(*asked))
    operations -= sum(words.word(k) == "(" and not words.is_name(k - 1) for k in range(*asked))
    if operations == 0:
        return False
    if operations >= 2:
        return True
    counters = {words.word(c.name) for other in (*outer, loop) for c in _steps(body, other)}
    own = {words.word(c.name) for c in _steps(body, loop)}
    used = [words.word(k) for k in body.named(*asked) if words.word(k) in counters]
    # `k * k < n`, and `l < k + 1` in a loop over k
    return sum(name in own for name in used) > 1 or any(name not in own for name in used)


def _steps(body: Body, loop: Statement) -> list[Change]:
    start, end = loop.step if loop.step is not None else (loop.start, loop.end)
    return [c for c in body.changes if start <= c.name < end]


def _loop(body: Body, loop: Statement, asked: tuple[int, int], access: Access) -> Diagnostic:
    words = body.words
    tensor = words.source(*access.base)
    text = (
        f"the loop goes on while `{words.source(*asked)}` and reads or writes `{tensor}`; compiling the backward of "
        f"`{body.function.name}` never ends (slangpy 0.43.1)"
    )
    return finding(LOOP_CONDITION, words, *asked, text, _variable_before(body, loop, asked))


def _variable_before(body: Body, loop: Statement, asked: tuple[int, int]) -> str:
    """Return how the loop reads with its end in a variable."""
    words = body.words
    other = "or move what is read into a `[Differentiable]` function of its own"
    compares = [k for k in range(*asked) if words.word(k) in _COMPARES]
    if len(compares) != 1 or any(words.word(k) in _JOINS for k in range(*asked)):
        return (
            "ask for one thing only, such as `k < n` with `n` computed before the loop "
            "(`int n = min(a, b);` for `k < a && k < b`), " + other
        )
    at = compares[0]
    left, right = (asked[0], at), (at + 1, asked[1])
    counters = {words.word(c.name) for c in _steps(body, loop)}
    if any(words.word(k) in counters for k in body.named(*right)) or left[1] - left[0] != 1:
        return "count with `k < n`, where `n` is computed before the loop, " + other
    taken = {v.name for v in body.variables} | {p.name for p in body.function.parameters}
    name = next(n for n in ("n", "count", "trips", f"n{at}") if n not in taken)
    line = rewritten(words, [(*right, name)], right[0])
    return f"write `int {name} = {words.source(*right)};` before the loop and `{line}`, {other}"
