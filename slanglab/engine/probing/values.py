"""The arguments of a call, made anew for each evaluation of a probe.

For each parameter there is a maker: a function that returns what to pass, given the values of the inputs. What the function only reads
is passed as it is; what is perturbed, or might be written, is a tensor of the probe's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import slangpy as spy
from slangpy.types.diffpair import DiffPair

from slanglab.checks.problem import Array
from slanglab.engine.arrays import contiguous
from slanglab.engine.binding import Bound
from slanglab.engine.parameters import Parameter
from slanglab.engine.probing.parts import CannotProbeError, Leaf, Made, Output
from slanglab.engine.probing.tensors import FLOATS, copy_of, floats, host_shape, number, uploaded
from slanglab.engine.target import Target
from slanglab.tensors.create import from_array

__all__ = ["Arguments"]


Maker = Callable[[Made], Any]


class _This:
    """What slangpy asks of an instance: the data of a struct."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def get_this(self) -> Any:
        return self._data

    def update_this(self, value: Any) -> None:
        """Take what a mutating method left; the data are tensors of the probe, which nobody reads."""


class Arguments:
    """What a call is made with.

    Parameters
    ----------
    target : Target
        The forward one.
    bound : Bound
    wrt : sequence of str or None
        The inputs wanted, by path or by parameter; None for all.
    attached : bool
        Only take tensors that carry a gradient.

    Attributes
    ----------
    leaves : list of Leaf
    skipped : dict of str to str
        Why inputs that were wanted are not among the leaves.

    Raises
    ------
    CannotProbeError
    """

    def __init__(self, target: Target, bound: Bound, wrt: Sequence[str] | None, attached: bool) -> None:
        self._target, self._device = target, target.device
        self._wrt, self._attached = wrt, attached
        self.leaves: list[Leaf] = []
        self.skipped: dict[str, str] = {}
        self._written: dict[str, tuple[Parameter, Any]] = {}
        _check_uniforms(target)
        self._makers = {
            spec.name: self._maker(bound.values[spec.name], spec, spec.name) for spec in target.parameters
        }
        self._this = [self._instance(t) for t in bound.this]
        self._bound_this = self._instance(target.this) if target.this is not None else None
        self._bound = bound
        self._result = bound.options.get("_result")
        self._options = {k: v for k, v in bound.options.items() if k != "_result"}

    # ----- one value each -----

    def _maker(self, value: Any, spec: Parameter | None, path: str) -> Maker:
        """Return what makes the argument for a parameter, a field or an instance."""
        if hasattr(value, "get_this"):
            value = value.get_this()
        if isinstance(value, Mapping):
            fields = spec.fields if spec is not None else {}
            parts = {
                k: self._maker(v, fields.get(k), f"{path}.{k}") for k, v in value.items() if k != "_type"
            }
            fixed = {"_type": value["_type"]} if "_type" in value else {}
            return lambda made: {**fixed, **{k: part(made) for k, part in parts.items()}}
        leaf = self._leaf(value, spec, path)
        if (
            spec is not None
            and spec.writes
            and (written := self._output(value, spec, path, leaf)) is not None
        ):
            return written
        if leaf is not None:
            index = len(self.leaves)
            self.leaves.append(leaf)
            return lambda made: self._input(made, leaf, index)
        if isinstance(value, spy.Tensor):
            return lambda made: copy_of(value) if _may_be_written(spec) else value
        if spec is not None:
            _check_copyable(spec, value)
        if isinstance(value, np.ndarray) and spec is not None and spec.writes:
            return lambda made: value.copy()
        return lambda made: value

    def _instance(self, this: Any) -> Maker:
        data = this.get_this() if hasattr(this, "get_this") else this
        inner = self._maker(data, None, "this")
        return lambda made: _This(inner(made))

    def _leaf(self, value: Any, spec: Parameter | None, path: str) -> Leaf | None:
        """Return the input that a value is, or None for what cannot or need not be differentiated by."""
        name = path.split(".")[0]
        wanted = self._wrt is None or path in self._wrt or name in self._wrt
        if not wanted or not _receives(spec):
            return None
        rank = None if spec is None or spec.kind == "other" else len(spec.element_shape)
        is_tensor = spec is not None and spec.kind == "tensor"
        if isinstance(value, spy.Tensor):
            if self._attached and value.grad_out is None and value.grad_in is None:
                return None
            if value.dtype.shape.as_tuple() and spec is None:
                rank = len(value.dtype.shape.as_tuple())
            array = floats(value)
            return None if array is None else Leaf(path, name, array, rank, is_tensor, spec, value)
        if self._attached and not isinstance(value, DiffPair):
            return None
        if isinstance(value, DiffPair):
            value = value.primal
        given = number(value, spec)
        if given is None:
            return None
        if given.ndim == (rank or 0) and not is_tensor:
            if self._target.mapping:
                self.skipped[path] = "a number, where `.map` counts the axes of tensors"
                return None
            given = given.reshape(1, *given.shape)  # slangpy returns gradients in tensors only
        return Leaf(path, name, given, rank, is_tensor, spec)

    # ----- tensors for an evaluation -----

    def _new(self, array: Array, leaf: Leaf) -> Any:
        if leaf.like is not None:
            return uploaded(self._device, array, leaf.like)
        element = leaf.spec.type if leaf.spec is not None and leaf.spec.kind == "tensor" else ""
        kind = "half" if array.dtype == np.float16 else "float"
        # A parameter of vectors takes numbers whose last axis makes them, but a tensor of vectors wants elements.
        inner = element.partition("<")[2].rpartition(",")[0].strip()
        rank = len(leaf.spec.element_shape) if leaf.spec is not None and inner else 0
        return from_array(self._device, contiguous(array, array.dtype), inner or kind, rank)

    def _input(self, made: Made, leaf: Leaf, index: int) -> Any:
        tensor = self._new(made.point[index], leaf)
        if made.backward:
            start = made.start.get(leaf.path)
            gradient = self._new(np.zeros_like(leaf.value) if start is None else start, leaf)
            tensor = tensor.with_grads(gradient, gradient, zero=False)
        elif _needs_gradient(leaf):
            tensor = tensor.with_grads()
        made.tensors[leaf.path] = tensor
        return tensor

    def _output(self, value: Any, spec: Parameter, path: str, leaf: Leaf | None) -> Maker | None:
        """Return what makes an argument that the function writes, if that has a derivative; it may be an input as well."""
        if not _has_derivative(spec):
            return None
        if isinstance(value, spy.ValueRef):
            value = np.zeros((1, *spec.element_shape), spec.dtype)
        like = value if isinstance(value, spy.Tensor) else self._array_tensor(value, spec)
        if like is None:
            return None
        self._written[path] = spec, like
        index = len(self.leaves)
        if leaf is not None:
            leaf.like = like
            self.leaves.append(leaf)

        def make(made: Made) -> Any:
            tensor = copy_of(like) if leaf is None else uploaded(self._device, made.point[index], like)
            if made.backward:
                seed = uploaded(self._device, made.cotangent[path], like)
                start = made.start.get(path)
                zeros = np.zeros(host_shape(like), made.cotangent[path].dtype)
                out = uploaded(self._device, zeros if start is None else start, like)
                tensor = tensor.with_grads(seed, out, zero=False)
            elif like.grad_in is not None or _is_concrete(spec):
                tensor = tensor.with_grads()
            made.tensors[path] = tensor
            return tensor

        return make

    def _array_tensor(self, value: Any, spec: Parameter) -> Any:
        if not isinstance(value, np.ndarray) or spec.dtype is None:
            return None
        array = np.ascontiguousarray(value, dtype=spec.dtype)
        return from_array(self._device, array, "half" if array.dtype == np.float16 else "float")

    # ----- a whole call -----

    def make(
        self,
        point: Sequence[Array],
        outputs: Sequence[Output] = (),
        cotangent: Sequence[Array] = (),
        value: Sequence[Array] = (),
        start: Sequence[Array] | None = None,
    ) -> Made:
        """Return the arguments of a forward call, or with cotangents those of a backward one."""
        paths = [o.path for o in outputs]
        starts = {} if start is None else {leaf.path: s for leaf, s in zip(self.leaves, start, strict=True)}
        made = Made(point, bool(outputs), dict(zip(paths, cotangent, strict=True)), starts)
        values = {name: maker(made) for name, maker in self._makers.items()}
        this = tuple(maker(made) for maker in self._this)
        options = dict(self._options)
        if self._target.result is not None:
            options["_result"] = self._result_for(made, outputs, value)
        bound = Bound(values, options, False, self._bound.count, this)
        made.positional, made.named = bound.ordered(self._target)
        made.this = self._bound_this(made) if self._bound_this is not None else None
        return made

    def _result_for(self, made: Made, outputs: Sequence[Output], value: Sequence[Array]) -> Any:
        if made.backward:
            for output, primal in zip(outputs, value, strict=True):
                if output.path == "result":
                    seed = uploaded(self._device, made.cotangent["result"], output.like)
                    tensor = uploaded(self._device, primal, output.like)
                    return tensor.with_grads(seed, seed, zero=False)
        if isinstance(self._result, spy.Tensor):
            return spy.Tensor.empty(self._device, self._result.shape.as_tuple(), self._result.dtype)
        return "tensor"

    def seed(self) -> Any:
        """Return the cotangent in the `_result` that was passed, or None."""
        if isinstance(self._result, spy.Tensor) and self._result.grad_in is not None and not self._written:
            return self._result.grad_in
        return None

    def outputs(self, result: Any) -> list[Output]:
        """Return what has a derivative, given what a forward call returned."""
        found = []
        spec = self._target.result
        if spec is not None and isinstance(result, spy.Tensor):
            array_type = floats(result)
            if array_type is not None:
                rank = None if spec.kind == "other" or spec.dtype is None else len(spec.element_shape)
                found.append(Output("result", rank, False, result))
            elif spec.kind == "struct":
                raise CannotProbeError(
                    f"the result is a {spec.type}, and slangpy has no gradients for tensors of structs"
                )
        for path, (written, like) in self._written.items():
            found.append(Output(path, len(written.element_shape), written.kind == "tensor", like))
        return found


def _receives(spec: Parameter | None) -> bool:
    """Tell whether a backward call writes gradients of what is passed for a parameter."""
    if spec is None or spec.kind in ("other", "struct"):
        return True
    if not spec.reads:
        return False
    return _has_derivative(spec)


def _has_derivative(spec: Parameter) -> bool:
    if spec.kind == "tensor":
        # Reflection calls every tensor `no_diff`, as the type itself is no differentiable value.
        return "DiffTensor" in spec.type.split("<", 1)[0] and spec.dtype in FLOATS
    return spec.differentiable and not spec.no_diff


def _is_concrete(spec: Parameter) -> bool:
    """Tell whether a parameter binds the gradient's buffer in a forward call too."""
    return spec.kind == "tensor" and spec.type.startswith(("DiffTensor", "WDiffTensor", "RWDiffTensor"))


def _needs_gradient(leaf: Leaf) -> bool:
    """Tell whether a forward call is to have a gradient: kernels follow the user's own, and concrete `DiffTensor`s want one."""
    concrete = leaf.spec is not None and _is_concrete(leaf.spec)
    return concrete or (leaf.like is not None and leaf.like.grad_in is not None)


def _may_be_written(spec: Parameter | None) -> bool:
    return spec is None or spec.writes or spec.kind in ("other", "struct")


def _check_copyable(spec: Parameter, value: Any) -> None:
    """Refuse what the function may write and nobody can copy."""
    written = spec.type.startswith(
        ("RW", "Ptr<", "AppendStructured", "ConsumeStructured", "RasterizerOrdered")
    )
    if (written and spec.kind != "tensor") or (spec.writes and isinstance(value, (spy.Texture, spy.Buffer))):
        raise CannotProbeError(
            f"{spec.name} is a {spec.type}, which the function may write and which is not copied"
        )


def _check_uniforms(target: Target) -> None:
    """Refuse globals that the function may write: those set with `.set` to tensors, textures or buffers."""
    node = target.node
    while node is not None:
        data = getattr(node, "_native_data", None)
        if isinstance(data, Mapping):
            for name, value in data.items():
                if isinstance(value, (spy.Tensor, spy.Buffer, spy.Texture)):
                    raise CannotProbeError(
                        f"the global {name} was set to a {type(value).__name__}, which is not copied"
                    )
        node = getattr(node, "_native_parent", None)
    if "write" in target.modifiers:
        raise CannotProbeError("what `.write(…)` sets is not known")
