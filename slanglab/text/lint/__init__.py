"""Known traps of Slang, most of them of differentiable Slang, found in the text of a cell when it is compiled.

The forward call of most is right; it is the gradient that is wrong, or the backward call that takes the kernel with it. The rules stand
on SlangLab's own word reader: the grammar of tree-sitter (0.3.1) does not read every function body, and has no types.
"""

from __future__ import annotations

from slanglab.text.accesses import Accesses
from slanglab.text.diagnostics import Diagnostic
from slanglab.text.indices import convert
from slanglab.text.lint import derivatives, doubles, endless, launches, loads, loops, sizes, tensors
from slanglab.text.lint.bodies import read_bodies
from slanglab.text.lint.rule import Rule
from slanglab.text.outline import Outline

__all__ = ["RULES", "Rule", "causes", "lint"]

RULES: tuple[Rule, ...] = (
    loads.CONDITIONAL_ACCESS,
    loads.LOOP_CONDITION,
    loops.WHILE_CONDITION,
    derivatives.NESTED_REVERSE,
    loops.LOOP_START,
    sizes.NESTED_LOOPS,
    sizes.TOO_FEW_ITERATIONS,
    derivatives.GENERIC_TYPE,
    derivatives.ONE_ARGUMENT_PAIR,
    derivatives.DERIVATIVE_UNSET,
    derivatives.DERIVATIVE_READ,
    derivatives.DERIVATIVE_ORDER,
    tensors.WITHOUT_DERIVATIVE,
    tensors.RACE,
    derivatives.CUT_OFF,
    tensors.INDEX_ORDER,
    launches.PAST_THE_END,
    launches.RANGE_CHECK_AXIS,
    launches.BLOCK_OF_A_TENSOR,
    endless.ENDLESS_LOOP,
    doubles.DOUBLE_FUNCTION,
)
"""Every rule, in the order in which a finding is likely to be the cause of what went wrong."""

_ORDER = {"mixed-index-kinds": -1, **{rule.code: n for n, rule in enumerate(RULES)}}
_CONCERNS = ("ifferentiable", "Derivative", "bwd_diff", "Tensor")


def lint(outline: Outline, text: str, backend: str = "") -> list[Diagnostic]:
    """Return the known traps in a text.

    Parameters
    ----------
    outline : Outline
        Of the same text.
    text : str
        Lines end at newlines.
    backend : str
        That of the device, as slangpy calls it, for what is wrong on some alone; without it all is told.

    Returns
    -------
    list of Diagnostic
        Warnings and notes in the order of the text; lines count from the text's first, `cell` is left empty. The codes are those of
        `RULES`.
    """
    if (
        not any(word in text for word in _CONCERNS)
        and not endless.concerns(text)
        and not doubles.concerns(text)
    ):
        return []
    left_out = () if backend in ("", "vulkan") else (doubles.DOUBLE_FUNCTION.code,)
    return [d for _, d in _found(Accesses.read(text, outline)) if d.code not in left_out]


def causes(outline: Outline, text: str, function: str) -> list[Diagnostic]:
    """Return what in a function, or in what it calls, may be why its backward call failed or its gradient is wrong.

    Parameters
    ----------
    outline : Outline
        Of the same text.
    text : str
    function : str
        Name or qualified name (`ns::S::f`).

    Returns
    -------
    list of Diagnostic
        Of `lint`, and the mixed indices of `slanglab.text.indices`; most likely first.
    """
    accesses = Accesses.read(text, outline)
    pending = [n for n, f in enumerate(outline.functions) if function in (f.qualified, f.name)]
    reached = set(pending)
    of = {made: by for by, made in derivatives.derivatives_of(outline.functions).items() if made is not None}
    while pending:
        number = pending.pop()
        others = {*accesses.calls.get(number, ()), *([of[number]] if number in of else [])}
        pending += others - reached
        reached |= others
    found = [d for number, d in _found(accesses) if number in reached]
    spans = [(f.line, f.end_line) for n, f in enumerate(outline.functions) if n in reached]
    mixed = [d for d in convert(accesses).diagnostics if d.severity == "warning"]
    found += [d for d in mixed if any(first <= d.line <= last for first, last in spans)]
    return sorted(found, key=lambda d: (_ORDER[d.code], d.line, d.column))


def _found(accesses: Accesses) -> list[tuple[int, Diagnostic]]:
    """Return the findings of a text, each with the place of its function, in the order of the text."""
    functions = accesses.outline.functions
    made = derivatives.derivatives_of(functions)
    found: list[tuple[int, Diagnostic]] = []
    for body in read_bodies(accesses):
        checks = [tensors.check(body), endless.check(body), launches.check(body), doubles.check(body)]
        if body.number in made:
            of = made[body.number]
            checks.append(derivatives.check_custom(body, functions[of] if of is not None else None))
        elif body.function.differentiable and not body.function.custom_derivative:
            checks += [loads.check(body), loops.check(body), sizes.check(body), derivatives.check(body)]
        found += [(body.number, d) for check in checks for d in check]
    return sorted(found, key=lambda pair: (pair[1].line, pair[1].column))
