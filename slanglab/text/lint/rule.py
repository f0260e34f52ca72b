"""What a rule of the linter is, and how its findings become diagnostics."""

from __future__ import annotations

from dataclasses import dataclass

from slanglab.text.diagnostics import Diagnostic, Severity
from slanglab.text.reading.words import Words

__all__ = ["Rule", "finding", "rewritten"]


@dataclass(frozen=True)
class Rule:
    """One trap that the linter knows.

    Attributes
    ----------
    code : str
        The code of its diagnostics.
    severity : {"warning", "note"}
    title : str
    happens : str
        What happens without the rule, as it was seen with slangpy 0.43.1.
    bad, good : str
        The same function twice: as it goes wrong, and rewritten as the hint says.
    source : str
        Where the trap is on record, or how it was found.
    """

    code: str
    severity: Severity
    title: str
    happens: str
    bad: str
    good: str
    source: str


def finding(rule: Rule, words: Words, start: int, end: int, text: str, hint: str) -> Diagnostic:
    """Return the diagnostic about a stretch of tokens; lines count in the text that was read."""
    line, column = words.where.at(words.offset(start))
    end_line, end_column = words.where.at(words.tokens[end - 1].end)
    return Diagnostic(
        rule.severity,
        rule.code,
        rule.title,
        text,
        line=line,
        column=column,
        end_column=end_column if end_line == line else column + 1,
        hint=hint,
    )


def rewritten(words: Words, edits: list[tuple[int, int, str]], at: int) -> str:
    """Return the line of token `at` after stretches of tokens have been replaced, without its indentation.

    Parameters
    ----------
    words : Words
    edits : list of (int, int, str)
        First token, token after the last (the same for an insertion), and what is written instead; in the order of the text, all
        on that line.
    at : int
    """
    line = words.where.line(words.offset(at))
    text, begin = words.text, words.text.rfind("\n", 0, words.offset(at)) + 1
    parts: list[str] = []
    for first, last, new in edits:
        start = words.offset(first)
        if words.where.line(start) != line:
            continue
        parts += [text[begin:start], new]
        begin = words.tokens[last - 1].end if last > first else start
    end = text.find("\n", begin)
    return "".join([*parts, text[begin:] if end < 0 else text[begin:end]]).strip()
