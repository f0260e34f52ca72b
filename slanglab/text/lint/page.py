"""The page `docs/lint.md`, made from the rules: `python -m slanglab.text.lint.page > docs/lint.md`."""

from __future__ import annotations

import sys

from slanglab.text.lint import RULES, Rule

__all__ = ["page"]

_HEAD = """# What the linter knows

Made from the rules by `python -m slanglab.text.lint.page`; do not edit it by hand.

When a cell is compiled, SlangLab reads it for known traps of differentiable Slang. The forward call of each is right; it is the gradient
that is wrong, or the backward call that does not come back. Each was seen with slangpy 0.43.1 (Slang 2026.12); both texts under a rule are
run by the tests, the first in a process of its own. Mixed kinds of indices (`mixed-index-kinds`, `mixed-index-types`) and what slangpy
cannot call are told by other parts of SlangLab.

| code | what it is about |
|---|---|
"""


def page() -> str:
    """Return the text of the page, in Markdown."""
    rows = "".join(f"| [`{rule.code}`](#{rule.code}) | {rule.title} |\n" for rule in RULES)
    return _HEAD + rows + "".join(_section(rule) for rule in RULES)


def _section(rule: Rule) -> str:
    title = rule.title[0].upper() + rule.title[1:]
    happens = rule.happens[0].upper() + rule.happens[1:]
    return (
        f"\n## {rule.code}\n\n{title} ({rule.severity}). {happens}.\n\n```hlsl\n{rule.bad}```\n\nInstead:\n\n```hlsl\n{rule.good}```\n\n"
        f"On record: {rule.source}.\n"
    )


if __name__ == "__main__":
    sys.stdout.write(page())
