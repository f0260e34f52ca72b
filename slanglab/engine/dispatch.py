"""One call: bind the arguments, convert them, run the kernel, bring back what it printed.

Every call in SlangLab goes through `call`, forward and backward, from a cell, a widget or a check.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import slangpy as spy

from slanglab import waiting
from slanglab.device import check_process
from slanglab.engine import building, empty, gradients, inplace, refused, routes
from slanglab.engine.binding import bind
from slanglab.engine.prepare import Prepared, prepare
from slanglab.engine.quick import MISSED
from slanglab.engine.runs import Details, Trace
from slanglab.engine.target import Target
from slanglab.engine.timing import Stopwatch
from slanglab.errors import CallError, SlangLabError
from slanglab.guard import KernelRefusedError
from slanglab.machine import contexts
from slanglab.messages import call_errors
from slanglab.tensors import writes
from slanglab.values import holds_torch

__all__ = [
    "GradientWarning",
    "Said",
    "Target",
    "ValueWarning",
    "append_to",
    "call",
    "explained",
    "made",
    "run",
]

_TO_THE_USER = 3
"""Frames between a warning and the line that called, by way of the function proxy."""


_FEW = 2048
"""Elements of a gradient that make no large call."""


class ValueWarning(UserWarning):
    """A value changed on its way to the device: it was too large for its type."""


class GradientWarning(UserWarning):
    """A gradient that differs from the difference quotient, or that cannot be what was meant."""


Said = tuple[type[UserWarning], str]
"""A warning that is to be given."""


def call(target: Target, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Call `target` and return what slangpy returns: a number, a tensor, or what `_result` asks for.

    Raises
    ------
    CallError
        When the call is refused, by SlangLab or by slangpy; the message is short and names the argument.
    """
    foreign = target.control.foreign
    if foreign is not None and holds_torch(args, kwargs):
        return foreign(target, args, kwargs)
    result, said = made(target, args, kwargs)
    for category, text in said:
        warnings.warn(text, category, stacklevel=_TO_THE_USER)
    return result


def made(
    target: Target, args: tuple[Any, ...], kwargs: Mapping[str, Any], fresh: Sequence[Any] = ()
) -> tuple[Any, Sequence[Said]]:
    """Make a call, and return what it returns with the warnings that are to be given: (category, text) each.

    Parameters
    ----------
    target, args, kwargs
        The call.
    fresh : sequence of slangpy.Tensor
        For a backward call, the gradients that it writes, where they hold anything yet: it leaves them as if they had been zero, and
        does without reading and clearing them where it can. All of them, or none.

    Raises
    ------
    CallError
    """
    control = target.control
    key = None
    result = MISSED
    said: Sequence[Said] = ()
    written = bool(fresh)
    contexts.entered()
    try:
        if control.plain:
            plans = target.plans
            if fresh and all(g.element_count <= _FEW for g in fresh):
                # Of few elements clearing costs less than what the kernel of a large call takes longer to launch.
                for gradient in fresh:
                    gradient.clear()
                fresh = ()
            if not fresh:
                result = plans.quick(args, kwargs)
            if result is MISSED:
                key, plan = plans.find(args, kwargs)
                if plan is not None:
                    result = plan.run(args, kwargs, fresh)
    except SlangLabError:
        raise
    except Exception as error:
        told = explained(target, args, kwargs, error)
        if told is error:
            raise
        raise told from error
    if result is MISSED:
        result, said = _call_checked(target, args, kwargs, key, fresh)
    elif target.after is not None:
        printed = target.after()
        if control.last is not None:
            trace, seconds, held, named = control.last
            control.last = replace(trace, printed=printed), seconds, held, named
    if written and control.last is not None:
        trace, seconds, held, named = control.last
        control.last = replace(trace, gradients="zero"), seconds, held, named
    if writes.watched:  # a view follows some tensor, perhaps one of these
        writes.wrote(args, kwargs, result)
    return result, said


def explained(
    target: Target, args: tuple[Any, ...], kwargs: Mapping[str, Any], error: Exception
) -> Exception:
    """Return the error to raise for one that came out of a planned call: one that says what to do.

    What came out of a call with torch tensors is torch's own, and stays as it is: torch steers by some of its errors.
    """
    if holds_torch(args, kwargs):
        return error
    values = bind(target, args, kwargs).values
    return call_errors.explain(error, target.name, values, messages=target.messages)


def run(target: Target, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Call `target` without a check, a report or anything printed: what checks of gradients use.

    Raises
    ------
    CallError
    """
    contexts.entered()
    ready = prepare(target, args, kwargs)
    details = Details()
    with _in_place(target, ready):
        result = _submit(target, ready, details)
    for step in ready.converter.after:
        step()
    return _read(target, ready, result)


def _read(target: Target, ready: Prepared, result: Any) -> Any:
    """Return a result as it was asked for."""
    if ready.reads and type(result) is spy.Tensor:
        return result.to_numpy()
    if type(result) is np.ndarray and ready.bound is None:
        waiting.probe(target.device)  # slangpy read it, and what that brings of a lost device is anything
    return result


def _call_checked(
    target: Target, args: tuple[Any, ...], kwargs: Mapping[str, Any], key: Any, fresh: Sequence[Any]
) -> tuple[Any, Sequence[Said]]:
    """Check and convert every argument, then call."""
    check_process()
    started = time.perf_counter()
    control = target.control
    policy = control.policy
    ready = prepare(target, args, kwargs)
    details = Details(frozen=ready.frozen, warnings=list(ready.remarks))
    stopwatch = Stopwatch(target.device) if policy.timing else None
    if target.backward and policy.gradients == "zero" and ready.bound is not None:
        gradients.clear(target.parameters, ready.values, ready.result, ready.this)
    spent = building.seconds()
    with _in_place(target, ready) as restored:
        with stopwatch or nullcontext():
            result = _submit(target, ready, details, fresh)
        details.compile_ms = (building.seconds() - spent) * 1e3
        seconds = time.perf_counter() - started
        trace = Trace(target.name, target.backward, details, policy.gradients, stopwatch)
        control.last = trace, seconds, (), {}
        if target.after is not None:  # before the check, which throws away what its own calls print
            trace.printed = target.after()
        if target.backward and target.checker is not None and details.path != "none":
            if restored is not None:
                restored.again()
            target.checker(target, ready, details)
    if key is not None and ready.as_they_are and details.path != "none" and _may_be_planned(target):
        target.plans.keep(key, routes.plan(target, ready, args, kwargs, details))
    for step in ready.converter.after:
        step()
    said: list[Said] = [(ValueWarning, note) for note in ready.converter.notes]
    said += [(GradientWarning, text) for text in details.warnings]
    details.warnings[:0] = ready.converter.notes
    return _read(target, ready, result), said


def _may_be_planned(target: Target) -> bool:
    """Tell whether nothing has to be done around each call."""
    return not target.overwrites and not (target.backward and target.check_always)


def _submit(target: Target, ready: Prepared, details: Details, fresh: Sequence[Any] = ()) -> Any:
    """Run the kernel, or make what a call over no elements returns."""
    if ready.converter.empty:
        shape = empty.call_shape(target.name, target.parameters, ready.values)
        if 0 in shape:
            details.path = "none"
            for gradient in fresh:
                gradient.clear()
            if target.backward:
                return None
            wanted = ready.result if ready.result is not None else target.returned
            return empty.result(target.device, target.slang_function, shape, wanted)
    return _go(target, ready, details, fresh=fresh)


def _go(
    target: Target, ready: Prepared, details: Details, encoder: Any = None, fresh: Sequence[Any] = ()
) -> Any:
    """Run the kernel, or append it to an encoder; whatever fails on the way is an error that says what to do."""
    if any(type(v) is np.ndarray for v in ready.values.values()):
        waiting.before_copy(target.device)
    try:
        return routes.go(target, ready, details, encoder, fresh)
    except KernelRefusedError as error:
        raise refused.explained(target, error) from None
    except SlangLabError:
        raise
    except Exception as error:
        raise call_errors.explain(error, target.name, ready.values, messages=target.messages) from error


def _in_place(target: Target, ready: Prepared) -> Any:
    """Return what surrounds a call of a function that overwrites a differentiable tensor that it reads."""
    if not target.overwrites:
        return nullcontext()
    found = inplace.tensors(target.parameters, ready.values)
    if not found:
        return nullcontext()
    surround = inplace.Restored if target.backward else inplace.forward
    return surround(target.steps, found)


def append_to(target: Target, encoder: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Append the call to a command encoder; what it needs done afterwards cannot be done, so such calls are refused."""
    check_process()
    contexts.entered()
    ready = prepare(target, args, kwargs)
    if ready.converter.after:
        raise CallError(
            f"{target.name}.append_to cannot copy results back into an array",
            function=target.name,
            hint="pass tensors, and read them after the submit",
        )
    if target.backward and target.overwrites and inplace.tensors(target.parameters, ready.values):
        raise CallError(
            f"{target.name}.append_to: the function overwrites what it reads, and its backward call has to restore that first",
            function=target.name,
            hint=f"call `{target.name}.bwds(…)` by itself, after the submit",
        )
    details = Details(frozen=ready.frozen)
    _go(target, ready, details, encoder)
