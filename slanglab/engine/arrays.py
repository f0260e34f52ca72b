"""Values on their way to the device: checked, converted, contiguous.

slangpy uploads what it is given: a strided array is read past its end, float64 and int64 do not match their parameter, a read-only or
byte-swapped array ends in `std::bad_cast`. Here each value becomes what the parameter takes, or an `ArgumentError` says why not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import slangpy as spy

from slanglab import waiting
from slanglab.engine import short_rows
from slanglab.engine.parameters import Parameter
from slanglab.errors import ArgumentError
from slanglab.messages.slangpys import unresolved, unsupported
from slanglab.tensors.create import from_array
from slanglab.values import describe_value, is_torch

__all__ = ["Converter", "contiguous", "element_type"]

_AGAIN = "make it again on the current device: `slanglab.tensor(array)`"

_NUMERIC = "fiub"


def contiguous(array: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return an array of `dtype`, C-contiguous, writable and in native byte order; the same object when it is that already."""
    if array.dtype == dtype and array.dtype.isnative and array.flags.writeable and _has_c_strides(array):
        return array
    return np.array(array, dtype=dtype.newbyteorder("="), order="C", copy=True)


def _has_c_strides(array: np.ndarray[Any, Any]) -> bool:
    """Tell whether the strides are those of a fresh array; numpy's own flag ignores those of axes of length 1, slangpy does not."""
    expected = array.itemsize
    for length, stride in zip(reversed(array.shape), reversed(array.strides), strict=True):
        if stride != expected:
            return False
        expected *= length
    return True


@dataclass
class Converter:
    """Converts the arguments of one call.

    Parameters
    ----------
    device : slangpy.Device
    function : str
        The function as the user wrote it, for messages.
    mapping : mapping of str to object
        What `.map(...)` says about each parameter.

    Attributes
    ----------
    after : list of callable
        What is left to do after the call: copying results back into arrays that had to be converted.
    notes : list of str
        What the user may want to know: values that overflowed.
    empty : bool
        True when some array has no elements, so that nothing is to be dispatched.
    """

    device: spy.Device
    function: str
    mapping: Mapping[str, Any] = field(default_factory=dict)
    after: list[Callable[[], None]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    empty: bool = False

    def refuse(
        self, spec: Parameter, value: object, message: str, hint: str | None = None, where: str = ""
    ) -> ArgumentError:
        """Make the error for an argument that cannot be used."""
        name = where or spec.name
        return ArgumentError(
            f"{self.function}: argument {name} {message}",
            function=self.function,
            argument=name,
            expected=spec.expected,
            given=describe_value(value),
            hint=hint,
        )

    def convert(self, value: Any, spec: Parameter, where: str = "") -> Any:
        """Return what slangpy is to be given for `value`.

        Raises
        ------
        ArgumentError
            When the value cannot be used for this parameter.
        """
        kind = type(value)
        if kind is spy.Tensor:
            return self._tensor(value, spec, where)
        if kind is float:
            return self._float(value, spec, where)
        if kind is int or kind is bool:
            return self._integer(value, spec, where)
        if isinstance(value, np.ndarray):
            return self._array(value, spec, where)
        if isinstance(value, np.generic):
            return self._numpy_scalar(value, spec, where)
        if isinstance(value, (list, tuple)):
            return self._sequence(value, spec, where)
        if isinstance(value, dict):
            return self._dict(value, spec, where)
        if is_torch(value):
            raise self.refuse(
                spec,
                value,
                "is a torch tensor",
                "pass `t.detach().cpu().numpy()`, or `slanglab.tensor(t.detach().cpu().numpy(), grad=True)` for a gradient",
                where,
            )
        if value is None or isinstance(value, (str, bytes, complex, set, frozenset)):
            error = self.refuse(
                spec, value, "cannot be used", "pass a number, a list, a numpy array or a tensor", where
            )
            raise self._unusable(error, value, spec)
        if isinstance(value, spy.Tensor):
            return self._tensor(value, spec, where)
        return value  # grid, thread_id, float3, ValueRef, Texture, …: slangpy knows them

    def _unusable(self, error: ArgumentError, value: object, spec: Parameter) -> ArgumentError:
        if value is not None:
            return unsupported(error, value)
        if spec.name in self.mapping:
            # slangpy's own sentence, exception and all
            error.slangpys = "Explicit vectorization raised exception: NotImplementedError()"
            return error
        return unresolved(error, f"Argument {spec.position} could not be resolved")

    # ----- one kind each -----

    def _tensor(self, tensor: Any, spec: Parameter, where: str) -> Any:
        device = tensor.device
        if device is not self.device and device != self.device:
            if (gone := waiting.gone(device)) is not None:
                raise self.refuse(spec, tensor, f"is on a device that is no more ({gone})", _AGAIN, where)
            raise self.refuse(
                spec,
                tensor,
                f"lives on another device ({_device(device)}) than the function ({_device(self.device)})",
                f"{_AGAIN}; `%slang device list` shows which one is current",
                where,
            )
        shape = tensor.shape.as_tuple()
        if spec.element_shape and spec.kind != "tensor":
            if short_rows.fits(tensor, spec) and not self._is_mapped(shape, spec):
                self.notes.append(
                    f"{self.function}: argument {where or spec.name} has rows of 3 numbers for a {spec.type}; zeros were put "
                    "behind them"
                )
                return short_rows.lengthened(tensor, spec, self.after)
            # slangpy reads the numbers that a vector lacks from the next row, or from behind the buffer
            self._check_element((*shape, *tensor.dtype.shape.as_tuple()), spec, where, tensor)
        if 0 in shape:
            self.empty = True
        return tensor

    def check_result(self, result: Any, spec: Parameter) -> None:
        """Check what was given as `_result`, which slangpy fills or, in a backward call, reads the seed from.

        Raises
        ------
        ArgumentError
            For a tensor of another device, or one that cannot hold the results.
        """
        if isinstance(result, spy.Tensor):
            self._tensor(result, spec, "")

    def _float(self, value: float, spec: Parameter, where: str) -> Any:
        dtype = spec.dtype
        if dtype is None or spec.kind == "tensor":
            return value
        if dtype.kind in "iu":
            if not value.is_integer():
                raise self.refuse(spec, value, f"is not a whole number, and {spec.type} takes whole numbers")
            return self._integer(int(value), spec, where)
        if dtype.kind == "f" and math.isfinite(value) and abs(value) > float(np.finfo(dtype).max):
            self.notes.append(
                f"{where or spec.name}: {value!r} is too large for {spec.type} and became infinite"
            )
        return value

    def _integer(self, value: int, spec: Parameter, where: str) -> Any:
        dtype = spec.dtype
        if dtype is None or spec.kind == "tensor":
            return value
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            if not limits.min <= value <= limits.max:
                raise self.refuse(
                    spec,
                    value,
                    f"does not fit: {spec.type} holds {limits.min} to {limits.max}",
                    where=where,
                )
            return int(value)
        if dtype.kind == "f":
            try:
                return self._float(float(value), spec, where)  # one kernel for 2 and 2.0, not two
            except OverflowError:
                raise self.refuse(spec, value, f"is too large for {spec.type}", where=where) from None
        return value

    def _numpy_scalar(self, value: Any, spec: Parameter, where: str) -> Any:
        if value.dtype.kind not in _NUMERIC:
            raise self.refuse(
                spec, value, f"is a numpy {value.dtype.name}, which Slang has no type for", where=where
            )
        return self.convert(value.item(), spec, where)

    def _sequence(self, value: Any, spec: Parameter, where: str) -> Any:
        flat = all(isinstance(v, (int, float, np.number)) for v in value)
        if flat and spec.kind in ("vector", "array") and spec.element_shape == (len(value),):
            numbers = [v.item() if isinstance(v, np.generic) else v for v in value]
            return (
                [float(v) for v in numbers] if spec.dtype is not None and spec.dtype.kind == "f" else numbers
            )
        if spec.dtype is None or any(isinstance(v, dict) or _is_slangpys(v) for v in value):
            return list(value)
        try:
            array = np.array(value)
        except ValueError:
            raise self.refuse(spec, value, "is a list whose rows differ in length", where=where) from None
        if array.dtype.kind not in _NUMERIC:
            raise self.refuse(
                spec, value, "holds something else than numbers", "pass numbers, or a numpy array", where
            )
        return self._array(array, spec, where, given=value)

    def _dict(self, value: dict[str, Any], spec: Parameter, where: str) -> Any:
        if spec.kind != "struct" or not spec.fields:
            return value
        at = where or spec.name
        unknown = [k for k in value if k not in spec.fields and k != "_type"]
        missing = [k for k in spec.fields if k not in value]
        if unknown or missing:
            # slangpy fills a field that is missing with zero and says nothing
            what = (
                f"has no field {unknown[0]!r} in {spec.type}"
                if unknown
                else f"lacks the field {missing[0]!r}"
            )
            raise self.refuse(
                spec, value, what, f"{spec.type} has the fields {', '.join(spec.fields)}", where
            )
        return {
            k: self.convert(v, spec.fields[k], f"{at}.{k}") if k in spec.fields else v
            for k, v in value.items()
        }

    def _array(self, array: Any, spec: Parameter, where: str, given: object = None) -> Any:
        shown = array if given is None else given
        if array.dtype.kind == "V" and spec.dtype is None:
            return array  # a structured array, for a struct
        if array.dtype.kind not in _NUMERIC:
            raise self.refuse(
                spec,
                shown,
                f"has dtype {array.dtype.name}, which Slang has no type for",
                "convert it first, for example with `.astype(np.float32)`",
                where,
            )
        if spec.kind in ("struct", "other") or spec.dtype is None:
            return array if spec.writes else contiguous(array, array.dtype)
        if array.ndim == 0 and spec.kind == "scalar" and not spec.writes:
            return self.convert(array.item(), spec, where)
        self.check_shape(array, spec, where, shown)
        ready = self._as_dtype(array, spec, where, shown)
        if array.size == 0:
            self.empty = True
        if spec.kind == "tensor" or ready.dtype.kind == "b":
            return self._upload(array, ready, spec, where, given is None)
        if spec.writes and ready is not array:
            self._copy_back(array, lambda: ready, spec, where, shown, given is None)
        return ready

    def check_shape(self, array: Any, spec: Parameter, where: str, shown: object = None) -> None:
        """Check that the last axes of an array, numpy's or torch's, make what the parameter takes.

        Raises
        ------
        ArgumentError
        """
        given = array if shown is None else shown
        self._check_element(tuple(array.shape), spec, where, given)
        axes = array.ndim - len(spec.element_shape)
        if spec.kind == "tensor" and axes < spec.dims:
            raise self.refuse(
                spec, given, f"has {axes} dimensions, but {spec.type} has {spec.dims}", where=where
            )

    def _check_element(self, shape: tuple[int, ...], spec: Parameter, where: str, shown: object) -> None:
        """Check that the last axes make one element of the parameter: a row of 3 for a float3."""
        element = spec.element_shape
        rank = len(element)
        if not rank or shape[-rank:] == element or self._is_mapped(shape, spec):
            return
        axes = ", ".join(["…", *(str(n) for n in element)])
        error = self.refuse(
            spec, shown, f"has shape {shape}, which does not match the expected shape ({axes})", where=where
        )
        raise unresolved(error, f"Argument {spec.position} could not be resolved")

    def _is_mapped(self, shape: tuple[int, ...], spec: Parameter) -> bool:
        """Tell whether `.map(...)` says how these axes make elements: by a type, or by using up all axes."""
        mapped = self.mapping.get(spec.name)
        if mapped is None:
            return False
        if isinstance(mapped, (tuple, list)) and all(isinstance(axis, int) for axis in mapped):
            return len(shape) == len(mapped)
        return str(getattr(mapped, "full_name", mapped)) != spec.type

    def _as_dtype(self, array: Any, spec: Parameter, where: str, shown: object) -> Any:
        wanted = spec.dtype
        assert wanted is not None
        have = array.dtype.kind
        if wanted.kind in "iu" and have == "f":
            raise self.refuse(
                spec,
                shown,
                f"holds {array.dtype.name}, but {spec.type} takes whole numbers",
                f"convert it yourself, for example with `.astype(np.{wanted.name})`",
                where,
            )
        if wanted.kind in "iu" and array.size and have in "iu" and not np.can_cast(array.dtype, wanted):
            limits = np.iinfo(wanted)
            low, high = int(array.min()), int(array.max())
            if low < limits.min or high > limits.max:
                raise self.refuse(
                    spec,
                    shown,
                    f"holds {low} to {high}; {spec.type} holds {limits.min} to {limits.max}",
                    where=where,
                )
        if wanted.kind == "f" and have == "f" and array.dtype.itemsize > wanted.itemsize and array.size:
            with np.errstate(over="ignore"):
                ready = contiguous(array, wanted)
            lost = int(np.count_nonzero(np.isinf(ready))) - int(np.count_nonzero(np.isinf(array)))
            if lost:
                self.notes.append(
                    f"{where or spec.name}: {lost} values are too large for {wanted} and became infinite"
                )
            return ready
        return contiguous(array, wanted)

    def _upload(self, array: Any, ready: Any, spec: Parameter, where: str, is_users: bool) -> Any:
        """Make a tensor of an array, for parameters that take nothing else, and for bool, which slangpy stores in 4 bytes."""
        rank = len(spec.element_shape)
        element = spec.type if spec.kind != "tensor" else element_type(spec)
        tensor = from_array(self.device, ready, element, rank)
        if spec.writes:
            self._copy_back(array, tensor.to_numpy, spec, where, array, is_users)
        return tensor

    def _copy_back(
        self, array: Any, read: Callable[[], Any], spec: Parameter, where: str, shown: object, is_users: bool
    ) -> None:
        if not is_users:
            raise self.refuse(
                spec,
                shown,
                "is written by the function, and a list cannot receive that",
                "pass a numpy array",
                where,
            )
        if not array.flags.writeable:
            raise self.refuse(
                spec, shown, "is written by the function, but the array is read-only", where=where
            )

        def copy() -> None:
            array[...] = np.asarray(read()).reshape(array.shape)

        self.after.append(copy)


def _is_slangpys(value: object) -> bool:
    return type(value).__module__.split(".", 1)[0] == "slangpy"


def element_type(spec: Parameter) -> str:
    """Return the element type in `Tensor<T, n>` and its relatives."""
    inside = spec.type[spec.type.index("<") + 1 : spec.type.rindex(">")]
    return inside.rsplit(",", 1)[0].strip()


def _device(device: Any) -> str:
    try:
        return f"{device.info.type.name}, {device.info.adapter_name}"
    except RuntimeError:
        return "closed"
