"""Which kernel a call goes to.

Small calls go to slangpy as they are: there the kernel's time does not matter, and choosing costs more than it saves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slanglab.engine.plans import Plan
from slanglab.engine.prepare import Prepared
from slanglab.engine.runs import Details, bytes_of
from slanglab.engine.target import Target

__all__ = ["go", "plan", "size"]


def size(target: Target, ready: Prepared) -> int:
    """Return the bytes of a call's arrays."""
    return bytes_of((*ready.values.values(), ready.result), target.backward)


def go(target: Target, ready: Prepared, details: Details) -> Any:
    """Run a call that was prepared, and say in `details` how it went."""
    positional, named = ready.arguments(target)
    return ready.node(*positional, **named)


def plan(
    target: Target, ready: Prepared, args: tuple[Any, ...], kwargs: Mapping[str, Any], details: Details
) -> Plan:
    """Return what to do for later calls like one that went the long way."""
    return Plan(ready.node, _whole(target, ready, args, kwargs), Details(frozen=details.frozen))


def _whole(
    target: Target, ready: Prepared, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[int | str, ...]:
    """Return where the user gave a whole number and slangpy was given a float."""
    positional, named = ready.arguments(target)
    positions = [i for i, v in enumerate(args) if type(v) is int and type(positional[i]) is float]
    names = [n for n, v in kwargs.items() if type(v) is int and type(named[n]) is float]
    return (*positions, *names)
