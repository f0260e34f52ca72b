"""Which argument is for which parameter, by Python's rules and slangpy's."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slanglab.engine.target import Target
from slanglab.errors import CallError
from slanglab.messages.slangpys import unresolved
from slanglab.values import describe_value

__all__ = ["Bound", "bind"]


@dataclass
class Bound:
    """The arguments of one call.

    Attributes
    ----------
    values : dict of str to object
        By parameter, in the order of the declaration.
    options : dict of str to object
        slangpy's own: `_result`, `_thread_count`.
    result_last : bool
        True for a backward call whose `_result` was passed by position, after all others.
    count : int
        How many of the values were passed by position.
    this : tuple of object
        The instance that came before them, for a method that is bound to none.
    """

    values: dict[str, Any]
    options: dict[str, Any]
    result_last: bool
    count: int
    this: tuple[Any, ...] = field(default=())

    def ordered(self, target: Target) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments as slangpy is to be given them, by position and by name."""
        # As the user passed them: `.map((0,), x=(1,))` refers to arguments by position or by name.
        count = max(self.count, target.positional)
        given = list(self.values.items())
        positional = (*self.this, *(v for _, v in given[:count]))
        named = {**dict(given[count:]), **self.options}
        if self.result_last:
            positional = (*positional, named.pop("_result"))
        return positional, named


def bind(target: Target, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Bound:
    """Assign arguments to parameters.

    Raises
    ------
    CallError
        When there are too many, one is missing, unknown or given twice.
    """
    names = target.names
    this: tuple[Any, ...] = ()
    if target.this_first and args:
        this, args = (args[0],), args[1:]
    options = {n: v for n, v in kwargs.items() if n not in target.by_name and n.startswith("_")}
    # In slangpy's backward call the last argument by position is the result, unless `_result` names it.
    result_last = (
        target.backward
        and "_result" not in options
        and bool(args)
        and len(args) + len(kwargs) - len(options) == len(names) + 1
        and bool(target.slang_function.have_return_value)
    )
    if result_last:
        options["_result"], args = args[-1], args[:-1]
    if len(args) > len(names):
        error = CallError(
            f"{target.name} takes {_count(len(names), 'argument')}, and {len(args)} were given",
            function=target.name,
            hint=f"its parameters are {', '.join(names)}" if names else None,
        )
        raise unresolved(error, f"Too many arguments: expected {len(names)}, got {len(args)}")
    values = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        if name in options:
            continue
        if name not in target.by_name:
            raise _unknown(target, name, value)
        if name in values:
            error = CallError(f"{target.name} got two values for {name}", function=target.name, argument=name)
            raise unresolved(error, f"Parameter '{name}' specified multiple times.")
        values[name] = value
    for name in names:
        if name not in values:
            values[name] = _default(target, name)
    return Bound({name: values[name] for name in names}, options, result_last, len(args), this)


def _default(target: Target, name: str) -> Any:
    if name in target.defaults:
        return target.defaults[name]()
    error = CallError(
        f"{target.name}: parameter {name} is missing",
        function=target.name,
        argument=name,
        expected=target.by_name[name].expected,
        given="nothing",
    )
    raise unresolved(error, f"Parameter '{name}' not specified.")


def _unknown(target: Target, name: str, value: Any) -> CallError:
    names = target.names
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5) or [
        n for n in names if n.lower() == name.lower()
    ]
    error = CallError(
        f"{target.name} has no parameter {name}",
        function=target.name,
        argument=name,
        expected=f"{', '.join(names) or 'no arguments'}",
        given=f"{name} = {describe_value(value)}",
        hint=f"did you mean `{near[0]}`?" if near else None,
    )
    return unresolved(error, f"No parameter named '{name}'.")


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
