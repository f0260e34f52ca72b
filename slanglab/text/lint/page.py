"""The page `docs/lint.md`, made from the rules: `python -m slanglab.text.lint.page > docs/lint.md`."""

from __future__ import annotations

import sys

from slanglab.text.lint import RULES, Rule

__all__ = ["page"]

_HEAD = """# What the linter knows

Made from the rules by `python -m slanglab.text.lint.page`; do not edit it by hand.

When a cell is compiled, SlangLab reads it for known traps, most of them of differentiable Slang: the forward call is right, and it is the
gradient that is wrong, or the backward call that does not come back. Each was seen with slangpy 0.43.1 (Slang 2026.12); both texts under a
rule are run by the tests, the first in a process of its own. Mixed kinds of indices (`mixed-index-kinds`, `mixed-index-types`) and what
slangpy cannot call are told by other parts of SlangLab. `past-the-end`, `range-check-axis` and `block-of-a-tensor` are about kernels
that are launched over a tensor, above all those of `%%slang --torch` cells ([torch-cells.md](torch-cells.md)).

| code | what it is about |
|---|---|
"""


_EDGES = """
## Not told by the linter: the edges of Slang's own functions

There is no warning for these, as they depend on values. What Slang 2026.12 gives there, on software Vulkan:

| at | value | derivative |
|---|---|---|
| `sqrt(x)`, x = 0 | 0 | 1581.14, that is 1 / (2 √1e-7): bounded, where 1 / (2 √x) is infinite |
| `sqrt(x)`, x < 0 | NaN | 1581.14 |
| `log(x)`, x = 0 | -inf | inf |
| `log(x)`, x < 0 | NaN | 1 / x |
| `normalize(v)`, v = 0 | NaN | NaN |
| `length(v)`, v = 0 | 0 | 0 |
| `max(x, y)`, `min(x, y)` at x = y | x | one half for each |
| `abs(x)`, x = 0 | 0 | 0 |
| `clamp(x, a, b)`, `saturate(x)` at an edge | x | 1 for x, 0 for a and b |
| `max(x, 0)`, x is NaN | 0 | 0.5: a NaN leaves no trace |
| `exp(x) / (1 + exp(x))`, x = 100 | NaN | NaN, as `exp(100)` is more than float holds |
"""


def page() -> str:
    """Return the text of the page, in Markdown."""
    rows = "".join(f"| [`{rule.code}`](#{rule.code}) | {rule.title} |\n" for rule in RULES)
    return _HEAD + rows + "".join(_section(rule) for rule in RULES) + _EDGES


def _section(rule: Rule) -> str:
    title = rule.title[0].upper() + rule.title[1:]
    happens = rule.happens[0].upper() + rule.happens[1:]
    return (
        f"\n## {rule.code}\n\n{title} ({rule.severity}). {happens}.\n\n```hlsl\n{rule.bad}```\n\nInstead:\n\n```hlsl\n{rule.good}```\n\n"
        f"On record: {rule.source}.\n"
    )


if __name__ == "__main__":
    sys.stdout.write(page())
