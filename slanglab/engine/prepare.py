"""From what the user passed to what slangpy is given: bound, converted, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import slangpy as spy

from slanglab.engine import apart, gradients
from slanglab.engine.arrays import Converter
from slanglab.engine.binding import Bound, bind
from slanglab.engine.plans import may_plan
from slanglab.engine.target import Target
from slanglab.errors import CallError
from slanglab.messages.slangpys import unresolved

__all__ = ["Prepared", "prepare"]


@dataclass
class Prepared:
    """A call that was checked.

    Attributes
    ----------
    node : slangpy.FunctionNode
        What to call.
    converter : Converter
        What is left to do afterwards.
    values : dict of str to object
        The arguments by parameter.
    bound : Bound or None
        The same, as they were passed; None for a function whose parameters are not known.
    positional, named : tuple of object, dict of str to object
        For a function whose parameters are not known: what was passed.
    as_they_are : bool
        True when the next call with such arguments need not be prepared: these are the user's, but for whole numbers as floats.
    frozen : tuple of str
        Differentiable parameters whose arguments have no gradient.
    this : object
        The instance of a method, bound before or passed first; None for a function.
    remarks : tuple of str
        What the user is to be warned of.
    reads : bool
        True where the result is a tensor that is to be read as a numpy array.
    """

    node: Any
    converter: Converter
    values: dict[str, Any]
    bound: Bound | None = None
    positional: tuple[Any, ...] = ()
    named: dict[str, Any] = field(default_factory=dict)
    as_they_are: bool = False
    frozen: tuple[str, ...] = ()
    this: Any = None
    remarks: tuple[str, ...] = ()
    reads: bool = False

    @property
    def result(self) -> Any:
        """What `_result` is, or None."""
        return self.bound.options.get("_result") if self.bound is not None else self.named.get("_result")

    def arguments(
        self, target: Target, values: Mapping[str, Any] | None = None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments in slangpy's order, by position and by name.

        Parameters
        ----------
        target : Target
        values : dict of str to object, optional
            Values to pass in place of `self.values`.
        """
        if self.bound is None:
            return self.positional, self.named
        bound = self.bound
        return Bound(
            dict(values or self.values), bound.options, bound.result_last, bound.count, bound.this
        ).ordered(target)


def prepare(target: Target, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Prepared:
    """Bind, convert and check the arguments of one call.

    Raises
    ------
    CallError
        When the call cannot be made, or would leave wrong gradients behind.
    """
    converter = Converter(target.device, target.name, target.mapping)
    if not target.checked:
        given = (*args, *kwargs.values())
        return Prepared(
            node_for(target, given), converter, dict(kwargs), positional=tuple(args), named=dict(kwargs)
        )
    bound = bind(target, args, kwargs)
    values, options = bound.values, bound.options
    asked = len(options)
    result = options.get("_result")
    reads = target.reads(result if result is not None else target.returned)
    if reads:
        result = spy.Tensor
        options = {**options, "_result": result}
    before = (*values.values(), result)
    values = {name: converter.convert(value, target.by_name[name]) for name, value in values.items()}
    if result is not None and target.result is not None:
        converter.check_result(result, target.result)
    gradients.check_concrete(target.name, target.parameters, values)
    frozen: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    this = bound.this[0] if bound.this else target.this
    if target.backward:
        _check_differentiable(target)
        if this is None and _only_numbers((*values.values(), result)):
            remarks = (f"{target.name}.bwds got numbers only, which have no gradients: nothing was computed",)
        else:
            returns = bool(target.slang_function.have_return_value)
            gradients.check_backward(target.name, target.parameters, values, result, returns, this)
        frozen = gradients.frozen(target.parameters, values)
        function = f"{target.name}.bwds"
        values = {n: gradients.at_its_place(function, n, v) for n, v in values.items()}
        values = {
            n: apart.as_scalars(function, target.by_name[n], v, n in target.mapping)
            for n, v in values.items()
        }
        values = gradients.with_scratch(target.parameters, values)
        if result is not None:
            result = gradients.at_its_place(function, "_result", result)
            options = {**options, "_result": result}
    after = (*values.values(), result)
    bound = Bound(values, options, bound.result_last, bound.count, bound.this)
    specs = (*target.parameters, target.result)
    as_they_are = (
        not (converter.after or converter.notes or remarks or converter.empty or bound.this)
        and (target.this is None or not target.plans.binds_gradients)
        and len(args) + len(kwargs) == len(values) + asked  # no default took part
        and target.positional <= bound.count
        and may_plan(before, after, specs)
    )
    this_values = (*bound.this, target.this)
    return Prepared(
        node_for(target, (*this_values, *after)),
        converter,
        values,
        bound,
        as_they_are=as_they_are,
        frozen=frozen,
        this=this,
        remarks=remarks,
        reads=reads,
    )


def node_for(target: Target, values: Sequence[Any]) -> Any:
    """Return the node whose kernels are for such arguments."""
    key = gradients.kernel_key(values, target.plans.binds_gradients)
    return target.keyed(key) if key else target.node


def _only_numbers(values: Sequence[Any]) -> bool:
    return all(type(value) in (bool, float, int) for value in values)


def _check_differentiable(target: Target) -> None:
    if not target.slang_function.differentiable:
        error = CallError(
            f"{target.name} is not differentiable",
            function=f"{target.name}.bwds",
            hint="write [Differentiable] before the function, and before every function that it calls",
        )
        name = target.slang_function.name
        raise unresolved(error, f"Could not call function '{name}': Function is not differentiable")
