"""One call: bind the arguments, convert them, run the kernel, bring back what it printed.

Every call in SlangLab goes through `call`, forward and backward, from a cell, a widget or a check.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import slangpy as spy

from slanglab.device import check_process
from slanglab.engine import empty, gradients
from slanglab.engine.arrays import Converter
from slanglab.engine.parameters import Parameter
from slanglab.errors import CallError, SlangLabError
from slanglab.messages import call_errors
from slanglab.messages.diagnostics import Diagnostic
from slanglab.values import describe_value

__all__ = ["RESERVED", "Target", "ValueWarning", "append_to", "call"]

RESERVED = frozenset({"self", "_result", "_append_to", "_thread_count", "_native_cache"})
"""Parameter names that slangpy's own call takes for itself, or that its generated kernel declares."""


class ValueWarning(UserWarning):
    """A value changed on its way to the device: it was too large for its type."""


@dataclass(eq=False)
class Target:
    """A function of one version of a cell, ready to be called.

    Attributes
    ----------
    name : str
        As the user wrote it: "poly.f".
    node : slangpy.FunctionNode
        slangpy's function, with the modifiers that the user applied.
    slang_function : object
        slangpy's reflection of it.
    parameters : tuple of Parameter
    device : slangpy.Device
    backward : bool
    defaults : dict of str to callable
        For parameters with a default value, what returns it.
    returned : object
        The result type set by `.return_type(...)`, or None.
    after : callable or None
        What to do when the call has been submitted: showing what it printed.
    by_position : bool
        True when slangpy knows the parameters under other names, so that all must be passed by position.
    checked : bool
        False for a function whose parameters are not known (a generic one): its arguments go to slangpy as they are.
    messages : callable or None
        Reads the compiler's messages with the texts of the cells at hand.
    """

    name: str
    node: Any
    slang_function: Any
    parameters: tuple[Parameter, ...]
    device: spy.Device
    backward: bool = False
    defaults: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    returned: Any = None
    after: Callable[[], object] | None = None
    by_position: bool = False
    checked: bool = True
    messages: Callable[[str], list[Diagnostic]] | None = None

    def __post_init__(self) -> None:
        self.names = tuple(p.name for p in self.parameters)
        self.by_name = {p.name: p for p in self.parameters}
        # Parameters whose names slangpy keeps for itself can only be passed by position, and so must all before them.
        reserved = [i for i, n in enumerate(self.names) if n in RESERVED]
        self.positional = len(self.names) if self.by_position else reserved[-1] + 1 if reserved else 0
        self.has_tensor_parameters = any(p.kind == "tensor" for p in self.parameters)
        self._masked: dict[str, Any] = {}

    def modified(self, node: Any, *, backward: bool, returned: Any) -> Target:
        """Return the same function with modifiers applied to its node."""
        return replace(self, node=node, backward=backward, returned=returned)

    def masked(self, mask: str) -> Any:
        """Return the node for calls in which just these arguments carry gradients.

        slangpy's kernel cache does not know the difference; a comment in the prelude makes it part of the key.
        """
        node = self._masked.get(mask)
        if node is None:
            node = self._masked[mask] = self.node.prelude(f"// gradients: {mask}")
        return node


def _bind(
    target: Target, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arguments by parameter name, in the order of the declaration, and slangpy's own options (`_result`)."""
    names = target.names
    if len(args) > len(names):
        raise CallError(
            f"{target.name} takes {_count(len(names), 'argument')}, and {len(args)} were given",
            function=target.name,
            hint=f"its parameters are {', '.join(names)}" if names else None,
        )
    values = dict(zip(names, args, strict=False))
    options: dict[str, Any] = {}
    for name, value in kwargs.items():
        if name in target.by_name:
            if name in values:
                raise CallError(
                    f"{target.name} got two values for {name}", function=target.name, argument=name
                )
            values[name] = value
        elif name.startswith("_"):
            options[name] = value
        else:
            near = difflib.get_close_matches(name, names, n=1, cutoff=0.5) or [
                n for n in names if n.lower() == name.lower()
            ]
            raise CallError(
                f"{target.name} has no parameter {name}",
                function=target.name,
                argument=name,
                expected=f"{', '.join(names) or 'no arguments'}",
                given=f"{name} = {describe_value(value)}",
                hint=f"did you mean `{near[0]}`?" if near else None,
            )
    for name in names:
        if name not in values:
            if name not in target.defaults:
                spec = target.by_name[name]
                raise CallError(
                    f"{target.name}: parameter {name} is missing",
                    function=target.name,
                    argument=name,
                    expected=spec.expected,
                    given="nothing",
                )
            values[name] = target.defaults[name]()
    return {name: values[name] for name in names}, options


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _prepare(
    target: Target, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Any, tuple[Any, ...], dict[str, Any], Converter, dict[str, Any]]:
    """Return the node to call, its arguments, the converter that made them, and the arguments by name."""
    check_process()
    values, options = _bind(target, args, kwargs)
    converter = Converter(target.device, target.name)
    by_name = target.by_name
    values = {name: converter.convert(value, by_name[name]) for name, value in values.items()}
    given_result = options.get("_result")
    if isinstance(given_result, spy.Tensor):
        _check_result_device(target, given_result)
    node = target.node
    gradients.check_concrete(target.name, target.parameters, values)
    if target.backward:
        if not target.slang_function.differentiable:
            raise CallError(
                f"{target.name} is not differentiable",
                function=f"{target.name}.bwds",
                hint="write [Differentiable] before the function, and before every function that it calls",
            )
        gradients.check_backward(
            target.name, target.parameters, values, given_result, target.slang_function.have_return_value
        )
    if target.backward or target.has_tensor_parameters:
        node = target.masked(gradients.gradient_mask((*values.values(), given_result)))
    if target.positional:
        ordered = list(values.items())
        positional = tuple(v for _, v in ordered[: target.positional])
        named = dict(ordered[target.positional :])
    else:
        # As the user passed them: `.map((0,), x=(1,))` refers to arguments by position or by name.
        positional = tuple(values[name] for name in target.names[: len(args)])
        named = {name: values[name] for name in target.names[len(args) :]}
    return node, positional, {**named, **options}, converter, values


def _check_result_device(target: Target, result: Any) -> None:
    if result.device != target.device:
        raise CallError(
            f"{target.name}: _result lives on another device than the function",
            function=target.name,
            argument="_result",
            given=describe_value(result),
            hint="make it on the current device: `slanglab.empty(shape)`",
        )


def call(target: Target, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call `target` and return what slangpy returns: a number, a tensor, or what `_result` asks for.

    Raises
    ------
    CallError
        When the call is refused, by SlangLab or by slangpy; the message is short and names the argument.
    """
    node, positional, named, converter, values = _prepare(target, args, kwargs)
    if converter.empty:
        shape = empty.call_shape(target.name, target.parameters, values)
        if 0 in shape:
            wanted = named.get("_result", target.returned)
            return (
                None if target.backward else empty.result(target.device, target.slang_function, shape, wanted)
            )
    try:
        result = node(*positional, **named)
    except SlangLabError:
        raise
    except Exception as error:
        raise call_errors.explain(error, target.name, values, messages=target.messages) from error
    for step in converter.after:
        step()
    for note in converter.notes:
        warnings.warn(note, ValueWarning, stacklevel=3)
    if target.after is not None:
        target.after()
    return result


def append_to(target: Target, encoder: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Append the call to a command encoder; what it needs done afterwards cannot be done, so such calls are refused."""
    node, positional, named, converter, values = _prepare(target, args, kwargs)
    if converter.after:
        raise CallError(
            f"{target.name}.append_to cannot copy results back into an array",
            function=target.name,
            hint="pass tensors, and read them after the submit",
        )
    try:
        node.append_to(encoder, *positional, **named)
    except SlangLabError:
        raise
    except Exception as error:
        raise call_errors.explain(error, target.name, values, messages=target.messages) from error
