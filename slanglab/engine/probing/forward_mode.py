"""Derivatives along a direction by `fwd_diff`, from a small Slang function written around the user's.

Where slangpy has a backward call but no forward one, this text stands in: it takes each differentiable parameter with its tangent and
returns the tangent of the result. Tensors that a function indexes itself have no forward derivative in slangpy; they are passed as
constants.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np
import slangpy as spy

from slanglab import guard
from slanglab.checks.problem import Array
from slanglab.engine.building import count_kernel
from slanglab.engine.parameters import Parameter
from slanglab.engine.probing.probe import Probe
from slanglab.engine.target import Target

__all__ = ["NoForwardModeError", "tangent"]

_PLAIN = ("scalar", "vector", "matrix", "array")
_serial = itertools.count(1)
_made: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
"""By target: the function around its own, or why there is none."""


class NoForwardModeError(Exception):
    """Why a function has no forward derivative here."""


def tangent(probe: Probe, target: Target, index: int, direction: Array) -> list[Array]:
    """Return the tangents of the outputs, for a tangent of one input.

    Parameters
    ----------
    probe : Probe
    target : Target
        The forward one.
    index : int
        Of the input.
    direction : numpy.ndarray
        Its tangent, of its shape.

    Raises
    ------
    NoForwardModeError
    """
    leaf = probe.inputs[index]
    if leaf.is_tensor:
        raise NoForwardModeError("slangpy's tensors have no forward derivative")
    if leaf.parameter == "this" or target.this is not None or target.this_first:
        raise NoForwardModeError("methods are not called in forward mode")
    if target.modifiers or target.by_position:
        raise NoForwardModeError("a function with modifiers or overloads is not called in forward mode")
    function = _around(target)
    made = probe.arguments.make(probe.point)
    given = {**dict(zip(target.names, made.positional, strict=False)), **made.named}
    given.pop("_result", None)
    for spec in target.parameters:
        if _is_pair(spec):
            given[_name(spec)] = _tangent_of(
                spec, spec.name, leaf.path, made.tensors.get(leaf.path), direction
            )
    try:
        result = function(**given, _result="tensor") if target.result is not None else function(**given)
    except Exception as error:
        raise NoForwardModeError(f"fwd_diff({target.node.name}) does not run") from error
    if target.result is not None:
        made.result = result
    return [np.asarray(output.read(made), dtype=np.float64) for output in probe.outputs]


def _name(spec: Parameter) -> str:
    return f"slanglab_d_{spec.name}"


def _is_pair(spec: Parameter) -> bool:
    return spec.reads and spec.kind != "tensor" and spec.differentiable and not spec.no_diff


def _tangent_of(spec: Parameter, path: str, wanted: str, tensor: Any, direction: Array) -> Any:
    """Return the tangent of a parameter: zero but for the input that moves."""
    if spec.kind == "struct":
        return {
            "_type": spec.type,
            **{n: _tangent_of(f, f"{path}.{n}", wanted, tensor, direction) for n, f in spec.fields.items()},
        }
    if path != wanted:
        zero = np.zeros((1, *spec.element_shape), spec.dtype)
        return 0.0 if spec.kind == "scalar" else spy.Tensor.from_numpy(tensor.device, zero)
    moved = spy.Tensor.empty(tensor.device, tensor.shape.as_tuple(), tensor.dtype)
    shape = (*tensor.shape.as_tuple(), *tensor.dtype.shape.as_tuple())
    moved.copy_from_numpy(np.array(direction, dtype=spec.dtype, order="C").reshape(shape))
    return moved


def _around(target: Target) -> Any:
    if target not in _made:
        try:
            _made[target] = _compiled(target, _text(target))
        except NoForwardModeError as error:
            _made[target] = error
    found = _made[target]
    if isinstance(found, NoForwardModeError):
        raise found
    return found


def _compiled(target: Target, text: str) -> Any:
    name = f"slanglab_forward_{next(_serial)}"
    try:
        session = target.node.module.device_module.session
        module = spy.Module(guard.load(session, name, text))
        # What the session keeps for it is the cell's.
        module.loads = getattr(target.node.module, "loads", None)
        count_kernel(module)
        function = module.find_function("slanglab_tangent")
    except Exception as error:
        raise NoForwardModeError(f"fwd_diff({target.node.name}) does not compile") from error
    if function is None:
        raise NoForwardModeError(f"fwd_diff({target.node.name}) does not compile")
    return function


def _text(target: Target) -> str:
    """Return a Slang function that calls `fwd_diff` of the target's."""
    declared: list[str] = []
    before: list[str] = []
    passed: list[str] = []
    after: list[str] = []
    for spec in target.parameters:
        if spec.reads and spec.writes and spec.kind != "tensor":
            raise NoForwardModeError("an inout parameter is not called in forward mode")
        if spec.kind == "other" and spec.type.isidentifier() and spec.dtype is None:
            raise NoForwardModeError(f"the type {spec.type} of {spec.name} is open")
        if spec.writes and spec.kind == "tensor":
            raise NoForwardModeError("slangpy's tensors have no forward derivative")
        if spec.writes:
            _write_out(spec, declared, before, passed, after)
            continue
        declared.append(f"{spec.type} {spec.name}")
        if not _is_pair(spec):
            passed.append(spec.name)
            continue
        declared.append(f"{spec.type} {_name(spec)}")
        passed.append(_pair(spec, before))
    result = target.result
    returned = result.type if result is not None else "void"
    if result is not None and (result.kind not in _PLAIN or not result.differentiable):
        raise NoForwardModeError(f"a result of type {returned} is not called in forward mode")
    call = f"fwd_diff({target.node.name})({', '.join(passed)})"
    lines = [*before, f"let slanglab_pair = {call};" if result is not None else f"{call};", *after]
    if result is not None:
        lines.append("return slanglab_pair.d;")
    body = "\n    ".join(lines)
    module = target.node.module.device_module.name
    return f"import slangpy;\n__exported import {module};\n\n{returned} slanglab_tangent({', '.join(declared)})\n{{\n    {body}\n}}\n"


def _write_out(
    spec: Parameter, declared: list[str], before: list[str], passed: list[str], after: list[str]
) -> None:
    declared.append(f"out {spec.type} {spec.name}")
    if not spec.differentiable or spec.no_diff:
        passed.append(spec.name)
        return
    if spec.kind not in _PLAIN:
        raise NoForwardModeError(f"an output of type {spec.type} is not called in forward mode")
    before.append(f"DifferentialPair<{spec.type}> slanglab_p_{spec.name};")
    passed.append(f"slanglab_p_{spec.name}")
    after.append(f"{spec.name} = slanglab_p_{spec.name}.d;")


def _pair(spec: Parameter, before: list[str]) -> str:
    if spec.kind != "struct":
        return f"diffPair({spec.name}, {_name(spec)})"
    tangent = f"slanglab_t_{spec.name}"
    before.append(f"{spec.type}.Differential {tangent} = {spec.type}.dzero();")
    _assign(spec.fields, tangent, _name(spec), before)
    return f"diffPair({spec.name}, {tangent})"


def _assign(fields: Mapping[str, Parameter], to: str, source: str, before: list[str]) -> None:
    for name, part in fields.items():
        if part.kind == "struct":
            _assign(part.fields, f"{to}.{name}", f"{source}.{name}", before)
        elif part.differentiable and not part.no_diff:
            before.append(f"{to}.{name} = {source}.{name};")
