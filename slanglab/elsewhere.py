"""Public functions that another process may run in the place of this one.

While the worker engine is on, the device is another process's (`slanglab.remote`): what makes tensors, and what asks about calls, goes
there. Functions say so with `by_engine`; those that are about a value say `by_value`, and go where that value is.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar

__all__ = ["There", "by_engine", "by_value", "is_sent", "send_to"]

P = ParamSpec("P")
R = TypeVar("R")


class There(Protocol):
    """Runs a public function elsewhere."""

    def __call__(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], /) -> Any:
        """Return what the function called `name` returns there."""
        ...


_there: There | None = None


def send_to(there: There | None) -> None:
    """Send what is marked `by_engine` there from now on; None brings it back."""
    global _there
    _there = there


def is_sent() -> bool:
    """Tell whether what is marked `by_engine` runs elsewhere now."""
    return _there is not None


def by_engine(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function run elsewhere while that is where the device is."""
    name = function.__name__

    @functools.wraps(function)
    def chosen(*args: P.args, **kwargs: P.kwargs) -> R:
        if _there is None:
            return function(*args, **kwargs)
        found: R = _there(name, args, kwargs)
        return found

    return chosen


def by_value(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function run where its first argument is: a value of elsewhere has a `slanglab_there`, which says where."""
    name = function.__name__

    @functools.wraps(function)
    def chosen(*args: P.args, **kwargs: P.kwargs) -> R:
        first = args[0] if args else next(iter(kwargs.values()), None)
        there: There | None = getattr(type(first), "slanglab_there", None)
        if there is None:
            return function(*args, **kwargs)
        found: R = there(name, args, kwargs)
        return found

    return chosen
