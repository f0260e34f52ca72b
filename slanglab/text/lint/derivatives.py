"""What a derivative loses or cannot be taken of: nested reverse mode, generic types, custom derivatives, values cut off."""

from __future__ import annotations

import re
from collections.abc import Iterator

from slanglab.text.diagnostics import Diagnostic
from slanglab.text.lint.bodies import Body
from slanglab.text.lint.rule import Rule, finding, rewritten
from slanglab.text.outline import Function, Parameter

__all__ = [
    "CUT_OFF",
    "DERIVATIVE_ORDER",
    "DERIVATIVE_READ",
    "DERIVATIVE_UNSET",
    "GENERIC_TYPE",
    "NESTED_REVERSE",
    "ONE_ARGUMENT_PAIR",
    "check",
    "check_custom",
    "derivatives_of",
]

NESTED_REVERSE = Rule(
    "nested-reverse",
    "warning",
    "reverse mode inside a differentiable function",
    "the forward call is right; compiling the backward ends the Python process (SIGSEGV)",
    """[Differentiable]
float cube(float x) { return x * x * x; }
[Differentiable]
float slope(float x)
{
    var p = diffPair(x);
    bwd_diff(cube)(p, 1.0);
    return p.d;
}
""",
    """[Differentiable]
float cube(float x) { return x * x * x; }
[Differentiable]
float slope(float x) { return fwd_diff(cube)(diffPair(x, 1.0)).d; }
""",
    "shader-slang/slang#10745, shader-slang/slang#5203",
)

GENERIC_TYPE = Rule(
    "generic-type",
    "warning",
    "a generic type that is not known to be differentiable",
    "the forward call is right and the gradient through the function is zero, without a message",
    """[Differentiable]
T cube<T : __BuiltinArithmeticType>(T u) { return u * u * u; }
[Differentiable]
float f(float x) { return cube(x + 2.0) - x; }
""",
    """[Differentiable]
T cube<T : __BuiltinFloatingPointType>(T u) { return u * u * u; }
[Differentiable]
float f(float x) { return cube(x + 2.0) - x; }
""",
    "shader-slang/slang#3289, shader-slang/slang#4526, shader-slang/slang#5754",
)

ONE_ARGUMENT_PAIR = Rule(
    "one-argument-pair",
    "warning",
    "a derivative that is the value instead",
    "`diffPair(v)` holds the value `v` and a derivative of zero: the gradient is zero, without a message",
    """[BackwardDerivative(square_bwd)]
float square(float x) { return x * x; }
void square_bwd(inout DifferentialPair<float> x, float d) { x = diffPair(2 * d * x.p); }
[Differentiable]
float f(float x) { return square(x); }
""",
    """[BackwardDerivative(square_bwd)]
float square(float x) { return x * x; }
void square_bwd(inout DifferentialPair<float> x, float d) { x = diffPair(x.p, 2 * d * x.p); }
[Differentiable]
float f(float x) { return square(x); }
""",
    "found by trying",
)

DERIVATIVE_UNSET = Rule(
    "derivative-unset",
    "warning",
    "a derivative that is never set",
    "what stood in memory becomes the gradient: often NaN",
    """[BackwardDerivative(square_bwd)]
float square(float x) { return x * x; }
void square_bwd(inout DifferentialPair<float> x, float d) { float g = 2 * d * x.p; }
[Differentiable]
float f(float x) { return square(x); }
""",
    """[BackwardDerivative(square_bwd)]
float square(float x) { return x * x; }
void square_bwd(inout DifferentialPair<float> x, float d) { float g = 2 * d * x.p; x = diffPair(x.p, g); }
[Differentiable]
float f(float x) { return square(x); }
""",
    "found by trying",
)

DERIVATIVE_READ = Rule(
    "derivative-read",
    "warning",
    "a derivative that is read before it is set",
    "the pair comes in with an undefined derivative, so adding to it gives NaN; the compiler adds up the parts itself",
    """[BackwardDerivative(square_bwd)]
float square(float x) { return x * x; }
void square_bwd(inout DifferentialPair<float> x, float d) { x = diffPair(x.p, x.d + 2 * d * x.p); }
[Differentiable]
float f(float x) { return square(x) + square(x); }
""",
    """[BackwardDerivative(square_bwd)]
float square(float x) { return x * x; }
void square_bwd(inout DifferentialPair<float> x, float d) { x = diffPair(x.p, 2 * d * x.p); }
[Differentiable]
float f(float x) { return square(x) + square(x); }
""",
    "found by trying",
)

DERIVATIVE_ORDER = Rule(
    "derivative-order",
    "warning",
    "a custom derivative whose parameters stand in another order",
    "they are matched by position, not by name: each gradient goes to the wrong argument, without a message",
    """[BackwardDerivative(weigh_bwd)]
float weigh(float x, float w) { return x * x * w; }
void weigh_bwd(inout DifferentialPair<float> w, inout DifferentialPair<float> x, float d)
{
    float p = x.p, q = w.p;
    x = diffPair(p, 2 * d * p * q);
    w = diffPair(q, d * p * p);
}
[Differentiable]
float f(float x) { return weigh(x, 3.0); }
""",
    """[BackwardDerivative(weigh_bwd)]
float weigh(float x, float w) { return x * x * w; }
void weigh_bwd(inout DifferentialPair<float> x, inout DifferentialPair<float> w, float d)
{
    float p = x.p, q = w.p;
    x = diffPair(p, 2 * d * p * q);
    w = diffPair(q, d * p * p);
}
[Differentiable]
float f(float x) { return weigh(x, 3.0); }
""",
    "found by trying",
)

CUT_OFF = Rule(
    "cut-off",
    "note",
    "a parameter that no gradient can reach",
    "every use of it stands in `detach(…)`, `no_diff …`, or a conversion to whole numbers or bits, so its gradient is zero",
    """[Differentiable]
float f(float x, float y) { return asfloat(asuint(x)) * y; }
""",
    """[Differentiable]
float f(float x, float y) { return x * y; }
""",
    "found by trying",
)

_PLAIN_CONSTRAINTS = frozenset(
    ("", "__BuiltinArithmeticType", "__BuiltinRealType", "IArithmetic", "__BuiltinType")
)
_CUTS = frozenset(
    ("detach", "no_diff", "asuint", "asint", "asuint16", "int", "uint", "int64_t", "uint64_t", "bool")
)
_NAMED_BY = re.compile(r"(Backward|Forward)Derivative\s*\(\s*([\w:]+)\s*\)")
_NAMES = re.compile(r"(Backward|Forward)DerivativeOf\s*\(\s*([\w:.]+)\s*\)")
_SCALARS = re.compile(r"(?:float|half|double)(?:[1-4](?:x[1-4])?)?")


def check(body: Body) -> Iterator[Diagnostic]:
    """Find what a differentiable function loses."""
    yield from _nested_reverse(body)
    yield from _generic(body)
    yield from _cut_off(body)


def _nested_reverse(body: Body) -> Iterator[Diagnostic]:
    words = body.words
    for i in range(body.start, body.end):
        if (
            words.word(i) not in ("bwd_diff", "__bwd_diff")
            or words.word(i + 1) != "("
            or words.pair[i + 1] < i
        ):
            continue
        inner = words.source(i + 2, words.pair[i + 1])
        text = (
            f"`{body.function.name}` is differentiable and calls `bwd_diff({inner})`; compiling its backward ends the Python process "
            "(slangpy 0.43.1)"
        )
        hint = (
            f"use forward mode: `fwd_diff({inner})(diffPair(x, 1.0)).d`; or take `[Differentiable]` off `{body.function.name}` and call it "
            f"as `no_diff {body.function.name}(…)`"
        )
        yield finding(NESTED_REVERSE, words, i, words.pair[i + 1] + 1, text, hint)


def _generic(body: Body) -> Iterator[Diagnostic]:
    """Find values whose type is a generic parameter without a differentiable constraint."""
    words, function = body.words, body.function
    for written in function.generics:
        name, _, constraint = (part.strip() for part in written.partition(":"))
        if (
            written.startswith(("let ", "each "))
            or " " in name
            or constraint.partition("=")[0].strip() not in _PLAIN_CONSTRAINTS
        ):
            continue
        if any(re.match(rf"where\s+{re.escape(name)}\b", w) for w in _where(body)):
            continue
        held = re.compile(rf"(?:vector<|matrix<)?{re.escape(name)}\b(?!\s*\.)[^.]*")
        passed = [p for p in function.parameters if not p.no_diff and held.fullmatch(p.type)]
        gives = held.fullmatch(function.result) or any(p.direction != "in" for p in passed) or constraint
        if not passed or not gives:
            continue
        written_as = (
            f"`{name}` has the constraint `{constraint}`" if constraint else f"`{name}` has no constraint"
        )
        text = f"{written_as}, so `{passed[0].name}` counts as not differentiable: its gradient is zero, without a message"
        hint = f"write `{name} : __BuiltinFloatingPointType`, or another constraint that includes `IDifferentiable`"
        at = _token(body, passed[0])
        yield finding(GENERIC_TYPE, words, at, at + 1, text, hint)


def _where(body: Body) -> list[str]:
    """Return the `where` clauses of a function, whose constraints do not stand in the list of its generic parameters."""
    words, found, i = body.words, [], body.start - 1
    while i > 0 and words.word(i) not in (")", ";", "}"):
        if words.word(i) == "where":
            constraint = words.source(i + 3, body.start)
            if constraint.split(" ")[0] not in _PLAIN_CONSTRAINTS:
                found.append(words.source(i, body.start))
        i -= 1
    return found


def _token(body: Body, parameter: Parameter) -> int:
    """Return the token of a parameter's name."""
    words = body.words
    for i in range(body.start - 1, -1, -1):
        if words.where.at(words.offset(i)) == (parameter.line, parameter.column):
            return i
    return body.start


def _cut_off(body: Body) -> Iterator[Diagnostic]:
    words = body.words
    for parameter in body.function.parameters:
        if parameter.no_diff or parameter.direction != "in" or not _SCALARS.fullmatch(parameter.type):
            continue
        uses = [
            i
            for i in body.named(body.start, body.end)
            if words.word(i) == parameter.name and body.is_parameter(i)
        ]
        if not uses or not all(_is_cut(body, i) for i in uses):
            continue
        text = f"every use of `{parameter.name}` stands in `detach`, `no_diff` or a conversion that has no derivative: its gradient is zero"
        hint = f"where that is meant, write `no_diff {parameter.type} {parameter.name}`; otherwise use `{parameter.name}` itself"
        at = _token(body, parameter)
        yield finding(CUT_OFF, words, at, at + 1, text, hint)


def _is_cut(body: Body, i: int) -> bool:
    """Tell whether a token stands in the argument of something that has no derivative."""
    words = body.words
    if words.word(i - 1) == "no_diff":
        return True
    for k in range(i - 1, body.start, -1):
        if words.word(k) == "(" and words.pair[k] > i and words.word(k - 1) in _CUTS:
            return True
        if words.word(k) in (";", "{", "}"):
            return False
    return False


# ----- custom derivatives -----


def check_custom(body: Body, of: Function | None) -> Iterator[Diagnostic]:
    """Find mistakes in a function that is the backward derivative of another.

    Parameters
    ----------
    body : Body
        Of the derivative.
    of : Function or None
        What it is the derivative of, where the text declares that.
    """
    words = body.words
    pairs = [
        p
        for p in body.function.parameters
        if p.direction == "inout" and p.type.startswith("DifferentialPair")
    ]
    for pair in pairs:
        yield from _pair(body, pair)
    if of is None:
        return
    theirs = [p.name for p in of.parameters]
    ours = [p.name for p in body.function.parameters[: len(theirs)]]
    wrong = next((k for k, name in enumerate(ours) if name != theirs[k]), None)
    if wrong is not None and sorted(ours) == sorted(theirs):
        text = f"`{of.name}({', '.join(theirs)})` and `{body.function.name}({', '.join(ours)}, …)`: the parameters are matched by position"
        at = _token(body, body.function.parameters[wrong])
        yield finding(
            DERIVATIVE_ORDER,
            words,
            at,
            at + 1,
            text,
            f"put them in the order of `{of.name}`: `{', '.join(theirs)}`",
        )


def _pair(body: Body, pair: Parameter) -> Iterator[Diagnostic]:
    words, name = body.words, pair.name
    changes = [c for c in body.changes if words.word(c.name) == name and body.is_parameter(c.name)]
    passed = any(
        words.word(i) == name and words.word(i - 1) in ("(", ",") and words.word(i + 1) in (")", ",")
        for i in body.named(body.start, body.end)
    )
    if not changes and not passed:
        at = _token(body, pair)
        text = f"`{name}` comes back as it came in, with an undefined derivative"
        yield finding(
            DERIVATIVE_UNSET, words, at, at + 1, text, f"end with `{name} = diffPair({name}.p, …);`"
        )
    for change in changes:
        start, end = change.value
        opener = start + 1
        if words.word(start) != "diffPair" or words.word(opener) != "(" or words.pair[opener] != end - 1:
            continue
        if len(words.split(opener + 1, end - 1)) == 1:
            inner = words.source(opener + 1, end - 1)
            text = f"`diffPair({inner})` has that as its value, and a derivative of zero"
            line = rewritten(words, [(start, end, f"diffPair({name}.p, {inner})")], start)
            yield finding(ONE_ARGUMENT_PAIR, words, start, end, text, f"write `{line}`")
    first = min((c.value[1] for c in changes if c.operator == "="), default=body.end)
    for i in body.named(body.start, first):
        if words.word(i) == name and body.is_parameter(i) and words.source(i + 1, i + 3) == ".d":
            text = f"`{name}.d` is not defined here: the derivative is what this function has to give"
            hint = f"leave `{name}.d` out; what `{body.function.name}` gives is added up by the compiler"
            yield finding(DERIVATIVE_READ, words, i, i + 3, text, hint)
            break


def derivatives_of(functions: tuple[Function, ...]) -> dict[int, int | None]:
    """Return the functions that are the backward derivative of another, and of which, by their places; None where it is elsewhere."""
    found: dict[int, int | None] = {}
    for number, function in enumerate(functions):
        for attribute in function.attributes:
            if (match := _NAMED_BY.search(attribute)) and match[1] == "Backward":
                for other in _called(functions, match[2], function):
                    found[other] = number
            elif (match := _NAMES.search(attribute)) and match[1] == "Backward":
                named = _called(functions, match[2], function)
                found[number] = named[0] if len(named) == 1 else None
    return found


def _called(functions: tuple[Function, ...], name: str, beside: Function) -> list[int]:
    last = name.replace("::", ".").rpartition(".")[2]
    return [
        n
        for n, f in enumerate(functions)
        if f.name == last and (f.in_struct == beside.in_struct or "." in name.replace("::", "."))
    ]
