"""`slanglab.torch.Module`: a Slang function with its numbers, as a layer among torch's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import slangpy as spy
import torch

from slanglab.cells.function import SlangFunction
from slanglab.errors import ArgumentError
from slanglab.torch.functions import SlangOperator, function
from slanglab.torch.signature import Slot

__all__ = ["Module"]


class Module(torch.nn.Module):  # type: ignore[misc]
    """A function of a Slang cell as a `torch.nn.Module`, which owns some of the function's arguments.

    Parameters
    ----------
    f : SlangFunction or SlangOperator
        A function of a cell, or what `slanglab.torch.function` made of one.
    **values
        By parameter of `f`. Tensors and arrays (of torch, numpy, slangpy, or lists of lists) are copied into `nn.Parameter`s; an
        `nn.Parameter` is taken as it is. Whole numbers and bools, and what the function has no gradient for (`no_diff`, a function that
        is not `[Differentiable]`), become buffers. A plain number or a list of numbers for a vector stays a constant; a trainable number
        is `torch.tensor(0.5)`. A dict is for a struct.

        What is not given here is given at each call, in the order of the function or by name.

    Attributes
    ----------
    PARAMETER : nn.Parameter or Tensor
        Each of `values` under its own name, with "_" behind it where nn.Module has that name.

    Raises
    ------
    ArgumentError
        If `f` has no such parameter, or a value does not fit it.
    CallError
        If `f` cannot be an operator of torch; see `slanglab.torch.function`.

    Notes
    -----
    It runs what its cell says now. Optimizers, `state_dict`, `.to(...)`, `torch.compile`, `DistributedDataParallel` and `copy.deepcopy`
    take it as any module. Pickling is refused, since a cell's code does not travel with it: save the `state_dict()`.

    Examples
    --------
    ::

        layer = slanglab.torch.Module(net.unit, w=torch.randn(16, 2), b=torch.zeros(16))
        y = layer(x[:, None])                      # x: (n, 2), y: (n, 16)
    """

    def __init__(self, f: SlangFunction | SlangOperator, /, **values: Any) -> None:
        super().__init__()
        self._operator = f if isinstance(f, SlangOperator) else function(f)
        signature = self._operator.signature
        slots = {slot.where: slot for slot in signature.slots}
        self._owned: dict[str, str] = {}
        self._constants: dict[str, Any] = {}
        for name, value in values.items():
            if name not in signature.names:
                raise ArgumentError(
                    f"{signature.function} has no parameter {name}",
                    function=signature.function,
                    argument=name,
                    expected=", ".join(signature.names),
                )
            fields = signature.structs.get(name)
            if fields is None and _is_constant(value):
                self._constants[name] = value
                continue
            attribute = _free(self, name)
            self._owned[name] = attribute
            if fields is None:
                _own(self, attribute, value, slots[name], signature.function, signature.differentiable)
            else:
                struct = _Struct(value, fields, name, slots, signature.function, signature.differentiable)
                self.add_module(attribute, struct)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function with the arguments that the module does not own; see `SlangOperator`."""
        given: dict[str, Any] = dict(self._constants)
        for name, attribute in self._owned.items():
            value = getattr(self, attribute)
            given[name] = value.values() if isinstance(value, _Struct) else value
        left = [name for name in self._operator._names if name not in given]
        if len(args) > len(left):
            raise ArgumentError(
                f"{self._operator.signature.function}: a call takes {len(left)} arguments, and {len(args)} were given",
                function=self._operator.signature.function,
                expected=", ".join(left) or "no arguments",
            )
        for name, value in zip(left, args, strict=False):
            if name in kwargs:
                raise ArgumentError(
                    f"{self._operator.signature.function} got two values for {name}", argument=name
                )
            given[name] = value
        for name, value in kwargs.items():
            if name in self._owned or name in self._constants:
                raise ArgumentError(
                    f"{self._operator.signature.function}: {name} is the module's own",
                    function=self._operator.signature.function,
                    argument=name,
                    hint=f"set `module.{name}`, or leave {name} out when the module is made",
                )
            given[name] = value
        return self._operator(**given)

    def extra_repr(self) -> str:
        """Return the function's signature, and what the module owns of it."""
        lines = [_signature(self._operator)]
        for name, attribute in self._owned.items():
            value = getattr(self, attribute)
            if not isinstance(value, _Struct):
                lines.append(f"({name}): {_described(value)}")
        lines += [f"({name}): {value!r}" for name, value in self._constants.items()]
        return "\n".join(lines)


class _Struct(torch.nn.Module):  # type: ignore[misc]
    """The fields of a struct that a module owns."""

    def __init__(
        self,
        value: Any,
        fields: tuple[Any, ...],
        where: str,
        slots: Mapping[str, Slot],
        function: str,
        differentiable: bool,
    ) -> None:
        super().__init__()
        names = [name for name, _ in fields]
        if not isinstance(value, Mapping) or set(value) != set(names):
            raise ArgumentError(
                f"{function}: {where} is a struct",
                function=function,
                argument=where,
                expected=f"a dict with the fields {', '.join(names)}",
                given=f"a dict with {', '.join(value)}"
                if isinstance(value, Mapping)
                else type(value).__name__,
            )
        self._places: dict[str, str] = {}
        self._constants: dict[str, Any] = {}
        for name, inner in fields:
            path, given = f"{where}.{name}", value[name]
            if inner is None and _is_constant(given):
                self._constants[name] = given
                continue
            attribute = self._places[name] = _free(self, name)
            if inner is None:
                _own(self, attribute, given, slots[path], function, differentiable)
            else:
                self.add_module(attribute, _Struct(given, inner, path, slots, function, differentiable))

    def values(self) -> dict[str, Any]:
        """Return the fields as a call takes them."""
        found = dict(self._constants)
        for name, attribute in self._places.items():
            value = getattr(self, attribute)
            found[name] = value.values() if isinstance(value, _Struct) else value
        return found

    def extra_repr(self) -> str:
        """Return what the fields are."""
        found = {name: getattr(self, attribute) for name, attribute in self._places.items()}
        lines = [f"({n}): {_described(v)}" for n, v in found.items() if not isinstance(v, _Struct)]
        return "\n".join([*lines, *(f"({name}): {value!r}" for name, value in self._constants.items())])


def _is_constant(value: Any) -> bool:
    """Tell whether a value stays as it is: a number, or a list of them."""
    if isinstance(value, (bool, int, float)):
        return True
    return isinstance(value, (list, tuple)) and all(isinstance(v, (bool, int, float)) for v in value)


def _free(module: torch.nn.Module, name: str) -> str:
    """Return the name of an attribute: the parameter's own unless the module has that already."""
    while hasattr(module, name):
        name += "_"
    return name


def _own(
    module: torch.nn.Module, attribute: str, value: Any, slot: Slot, function: str, differentiable: bool
) -> None:
    """Make a value a parameter or a buffer of a module."""
    tensor = _tensor(value, slot, function)
    slot.outer(function, tensor)
    if isinstance(tensor, torch.nn.Parameter):
        module.register_parameter(attribute, tensor)
    elif differentiable and slot.receives and tensor.is_floating_point():
        module.register_parameter(attribute, torch.nn.Parameter(tensor))
    else:
        module.register_buffer(attribute, tensor)


def _tensor(value: Any, slot: Slot, function: str) -> Any:
    if isinstance(value, torch.nn.Parameter):
        return value
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, spy.Tensor):
        return torch.from_numpy(np.array(value.to_numpy()))
    try:
        array = np.array(value)
        if array.dtype == np.float64 and not isinstance(value, np.ndarray):
            array = array.astype(np.float32)  # of lists, as torch.tensor does
        return torch.from_numpy(array)
    except (TypeError, ValueError):
        raise slot.refused(function, value) from None


def _described(value: Any) -> str:
    kind = "parameter" if isinstance(value, torch.nn.Parameter) else "buffer"
    dtype = str(value.dtype).removeprefix("torch.")
    return f"{kind} {dtype} {tuple(value.shape)}"


def _signature(operator: SlangOperator) -> str:
    """Return the declaration as it stands in the cell."""
    text = repr(operator.slang)
    return text.partition(": ")[2].removesuffix(">") or operator.signature.function
