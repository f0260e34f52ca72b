"""What the worker finds out, by value: reports, runs, checks, summaries, and the errors and warnings that it raises."""

from __future__ import annotations

import builtins
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from IPython.core.error import UsageError

from slanglab.cells.report import CellReport, FunctionRow, ParameterRow
from slanglab.cells.versions import CompileError
from slanglab.checks.results import Outcome
from slanglab.checks.worst import Element
from slanglab.engine.dispatch import GradientWarning, ValueWarning
from slanglab.engine.probing.report import GradCheck, InputCheck
from slanglab.engine.runs import Run
from slanglab.errors import SlangLabError
from slanglab.guard.errors import GuardWarning
from slanglab.tensors.records import Histogram, Statistics, Summary
from slanglab.text.diagnostics import Diagnostic

__all__ = ["RECORDS", "Told", "error_of", "state_of", "types_of", "warning_of"]


@dataclass(frozen=True)
class Told:
    """What the check of a backward call came to, as the worker told it; see `slanglab.engine.runs.Checked`."""

    verdict: Literal["agrees", "differs", "cannot tell"] | None
    text: str


RECORDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        CellReport,
        Diagnostic,
        Element,
        FunctionRow,
        GradCheck,
        Histogram,
        InputCheck,
        Outcome,
        ParameterRow,
        Run,
        Statistics,
        Summary,
        Told,
    )
}
"""Dataclasses that go by value."""

_WARNINGS = (GradientWarning, ValueWarning, GuardWarning)
_BUILT_IN: dict[str, type[Exception]] = {
    name: kind
    for name, kind in vars(builtins).items()
    if isinstance(kind, type)
    and issubclass(kind, Exception)
    and not issubclass(kind, (StopIteration, StopAsyncIteration, UnicodeError))
}
_BUILT_IN["UsageError"] = UsageError


def types_of(error: BaseException) -> list[str]:
    """Return the names of an error's or warning's types, its own first."""
    return [kind.__name__ for kind in type(error).__mro__]


def state_of(error: SlangLabError, encode: Callable[[Any], Any]) -> dict[str, Any]:
    """Return what an error of ours knows; what cannot be sent is left out."""
    found = {}
    for name, value in vars(error).items():
        try:
            found[name] = encode(value)
        except TypeError:
            continue
    return found


def error_of(types: Iterable[str], text: str, state: dict[str, Any]) -> Exception:
    """Return the error that the worker raised: of the first of those types that there is here."""
    every: list[type[SlangLabError]] = [SlangLabError, *_below(SlangLabError)]
    ours = {kind.__name__: kind for kind in every}
    names = list(types)
    for name in names:
        if (own := ours.get(name)) is not None:
            error: SlangLabError = own.__new__(own)
            Exception.__init__(error, text)
            vars(error).update({"hint": None, "details": None, "message": text, "shown": False} | state)
            return error
        known = _BUILT_IN.get(name)
        if known is not None and known is not Exception and not issubclass(known, Warning):
            return known(text.strip("'")) if known is KeyError else known(text)
    return RuntimeError(f"{names[0] if names else 'an error'}: {text}")


def warning_of(types: Iterable[str]) -> type[Warning]:
    """Return the category of a warning that the worker gave."""
    ours = {kind.__name__: kind for kind in _WARNINGS}
    for name in types:
        known = ours.get(name) or getattr(warnings, name, None) or _BUILT_IN.get(name)
        if isinstance(known, type) and issubclass(known, Warning):
            return known
    return UserWarning


def _below(kind: type[SlangLabError]) -> Iterator[type[SlangLabError]]:
    for child in kind.__subclasses__():
        yield child
        yield from _below(child)


assert issubclass(CompileError, SlangLabError)  # imported, so that it is known by its name
