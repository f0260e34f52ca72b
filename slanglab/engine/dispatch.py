"""One call: bind the arguments, convert them, run the kernel, bring back what it printed.

Every call in SlangLab goes through `call`, forward and backward, from a cell, a widget or a check.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slanglab.device import check_process
from slanglab.engine import empty, gradients
from slanglab.engine.arrays import Converter
from slanglab.engine.binding import Bound, bind
from slanglab.engine.plans import Plan, may_plan
from slanglab.engine.target import Target
from slanglab.errors import CallError, SlangLabError
from slanglab.messages import call_errors

__all__ = ["Target", "ValueWarning", "append_to", "call"]


class ValueWarning(UserWarning):
    """A value changed on its way to the device: it was too large for its type."""


@dataclass
class _Prepared:
    """A call that was checked.

    Attributes
    ----------
    node : slangpy.FunctionNode
        What to call.
    args, named : tuple of object, dict of str to object
        With what.
    converter : Converter
        What is left to do afterwards.
    values : dict of str to object
        The arguments by parameter.
    as_they_are : bool
        True when the next call with such arguments need not be prepared: these are the user's, but for whole numbers as floats.
    """

    node: Any
    args: tuple[Any, ...]
    named: dict[str, Any]
    converter: Converter
    values: dict[str, Any]
    as_they_are: bool = False


def _prepare(target: Target, args: Sequence[Any], kwargs: Mapping[str, Any]) -> _Prepared:
    converter = Converter(target.device, target.name, target.mapping)
    if not target.checked:
        given = (*args, *kwargs.values())
        return _Prepared(_node(target, given), tuple(args), dict(kwargs), converter, dict(kwargs))
    bound = bind(target, args, kwargs)
    values, options = bound.values, bound.options
    before = (*values.values(), options.get("_result"))
    values = {name: converter.convert(value, target.by_name[name]) for name, value in values.items()}
    result = options.get("_result")
    if result is not None and target.result is not None:
        converter.check_result(result, target.result)
    gradients.check_concrete(target.name, target.parameters, values)
    if target.backward:
        _check_differentiable(target)
        this = bound.this[0] if bound.this else target.this
        returns = bool(target.slang_function.have_return_value)
        gradients.check_backward(target.name, target.parameters, values, result, returns, this)
    after = (*values.values(), result)
    bound = Bound(values, options, bound.result_last, bound.count, bound.this)
    positional, named = bound.ordered(target)
    specs = (*target.parameters, target.result)
    as_they_are = (
        not (converter.after or converter.notes or converter.empty or bound.this)
        and (target.this is None or not target.plans.binds_gradients)
        and len(args) + len(kwargs) == len(values) + len(options)  # no default took part
        and target.positional <= bound.count
        and may_plan(before, after, specs)
    )
    this = (*bound.this, target.this)
    return _Prepared(_node(target, (*this, *after)), positional, named, converter, values, as_they_are)


def _node(target: Target, values: Sequence[Any]) -> Any:
    """Return the node whose kernels are for such arguments."""
    key = gradients.kernel_key(values, target.plans.binds_gradients)
    return target.keyed(key) if key else target.node


def _check_differentiable(target: Target) -> None:
    if not target.slang_function.differentiable:
        raise CallError(
            f"{target.name} is not differentiable",
            function=f"{target.name}.bwds",
            hint="write [Differentiable] before the function, and before every function that it calls",
        )


def call(target: Target, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Call `target` and return what slangpy returns: a number, a tensor, or what `_result` asks for.

    Raises
    ------
    CallError
        When the call is refused, by SlangLab or by slangpy; the message is short and names the argument.
    """
    check_process()
    plans = target.plans
    key = None
    matches, plan = plans.written_out
    if not matches(args, kwargs):
        key, plan = plans.find(args, kwargs)
    if plan is None:
        result = _call_checked(target, args, kwargs, key)
    else:
        try:
            if plan.whole:
                positional, named = plan.converted(args, kwargs)
                result = plan.node(*positional, **named)
            else:
                result = plan.node(*args, **kwargs)
        except SlangLabError:
            raise
        except Exception as error:
            values = bind(target, args, kwargs).values
            raise call_errors.explain(error, target.name, values, messages=target.messages) from error
    if target.after is not None:
        target.after()
    return result


def _call_checked(
    target: Target, args: tuple[Any, ...], kwargs: Mapping[str, Any], key: tuple[object, ...] | None
) -> Any:
    """Check and convert every argument, then call."""
    ready = _prepare(target, args, kwargs)
    converter = ready.converter
    if converter.empty:
        shape = empty.call_shape(target.name, target.parameters, ready.values)
        if 0 in shape:
            wanted = ready.named.get("_result", target.returned)
            if target.backward:
                return None
            return empty.result(target.device, target.slang_function, shape, wanted)
    try:
        result = ready.node(*ready.args, **ready.named)
    except SlangLabError:
        raise
    except Exception as error:
        raise call_errors.explain(error, target.name, ready.values, messages=target.messages) from error
    if key is not None and ready.as_they_are:
        target.plans.keep(key, Plan(ready.node, _whole(args, kwargs, ready)))
    for step in converter.after:
        step()
    for note in converter.notes:
        warnings.warn(note, ValueWarning, stacklevel=4)
    return result


def _whole(args: tuple[Any, ...], kwargs: Mapping[str, Any], ready: _Prepared) -> tuple[int | str, ...]:
    """Return where the user gave a whole number and slangpy was given a float."""
    positions = [i for i, v in enumerate(args) if type(v) is int and type(ready.args[i]) is float]
    names = [n for n, v in kwargs.items() if type(v) is int and type(ready.named[n]) is float]
    return (*positions, *names)


def append_to(target: Target, encoder: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Append the call to a command encoder; what it needs done afterwards cannot be done, so such calls are refused."""
    check_process()
    ready = _prepare(target, args, kwargs)
    if ready.converter.after:
        raise CallError(
            f"{target.name}.append_to cannot copy results back into an array",
            function=target.name,
            hint="pass tensors, and read them after the submit",
        )
    try:
        ready.node.append_to(encoder, *ready.args, **ready.named)
    except SlangLabError:
        raise
    except Exception as error:
        raise call_errors.explain(error, target.name, ready.values, messages=target.messages) from error
