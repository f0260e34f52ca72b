"""Values on the wire: Python's own, numpy's, slangpy's small ones by value; objects of the worker by a number.

Text, numbers, None and bools stand for themselves in JSON; everything else is a list that begins with a tag. What is decoded is built
by the functions of this module alone, from listed types.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import slangpy as spy
from slangpy.slangpy import Shape

from slanglab.remote.frames import SMALL, Bytes, FrameError, Segment

__all__ = ["Decoder", "Encoder", "NotSendableError"]


class NotSendableError(TypeError):
    """A value that the other process cannot be given."""


_VECTORS = {
    name: getattr(spy.math, name)
    for base in ("float", "int", "uint", "bool", "float16_t")
    for name in (f"{base}{n}" for n in (1, 2, 3, 4))
    if hasattr(spy.math, name)
} | {"quatf": spy.math.quatf}
_MATRICES = {
    name: getattr(spy.math, name)
    for name in (f"float{r}x{c}" for r in (2, 3, 4) for c in (2, 3, 4))
    if hasattr(spy.math, name)
}
_ARGUMENTS: dict[str, tuple[type, tuple[str, ...], Callable[..., Any]]] = {
    kind.__name__: (kind, names, make)
    for kind, names, make in (
        (
            type(spy.grid((1,))),
            ("shape", "offset", "stride"),
            lambda *a: spy.grid(tuple(a[0]), tuple(a[1]), tuple(a[2])),
        ),
        (type(spy.thread_id()), ("dims",), spy.thread_id),
        (type(spy.call_id()), ("dims",), spy.call_id),
        (type(spy.rand_float()), ("min", "max", "dims", "seed", "warmup", "hash_seed"), spy.rand_float),
        (type(spy.wang_hash()), ("dims", "seed", "warmup", "hash_seed"), spy.wang_hash),
        (type(spy.floatDiffPair()), ("primal", "grad", "needs_grad"), spy.diffPair),
        (type(spy.floatRef()), ("value",), lambda value: type(spy.floatRef())(value)),
    )
}
"""slangpy's descriptions of arguments: what they consist of, and what makes them of it."""
_TYPES: dict[str, Any] = {
    "slangpy.Tensor": spy.Tensor,
    "numpy.ndarray": np.ndarray,
    **{f"builtins.{t.__name__}": t for t in (bool, int, float, str, list, tuple, dict)},
    **{f"numpy.{t.__name__}": t for t in np.sctypeDict.values() if not issubclass(t, (np.void, np.object_))},
    **{f"slangpy.{name}": kind for name, kind in (_VECTORS | _MATRICES).items()},
}
_NAMES = {id(kind): name for name, kind in _TYPES.items()}
_VECTOR_NAMES = {kind: name for name, kind in _VECTORS.items()}
_MATRIX_NAMES = {kind: name for name, kind in _MATRICES.items()}
_ARGUMENT_NAMES = {kind: name for name, (kind, _, _) in _ARGUMENTS.items()}
_GENERATORS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64)
}
_ONE_OF_MANY = (float, str, int, bool, type(None))


class Encoder:
    """Turns the values of one message into JSON and arrays.

    Parameters
    ----------
    refer : callable
        Returns what stands for an object of the other side, or of this one; None for a value that is none.
    records : mapping of str to type
        Dataclasses that go by value.
    segment : Segment, optional
        Where large arrays go.
    start : int
        The first byte of it that is free.

    Attributes
    ----------
    buffers : list of bytes
        Arrays that go through the pipe.
    arrays : list of ndarray
        Every array, in the order of their numbers.
    cells : list of slangpy.ValueRef
        Every reference to a number, which a call may write.
    generators : list of numpy.random.Generator
    used : int
        Bytes used of the segment.
    wanted : int
        Bytes that it would have needed.
    """

    def __init__(
        self,
        refer: Callable[[Any], Any],
        records: dict[str, type] | None = None,
        segment: Segment | None = None,
        start: int = 0,
    ) -> None:
        self._refer = refer
        self._records = {kind: name for name, kind in (records or {}).items()}
        self._segment = segment
        self.used = start
        self.wanted = start
        self.buffers: list[Bytes] = []
        self.arrays: list[np.ndarray[Any, Any]] = []
        self.cells: list[Any] = []
        self.generators: list[np.random.Generator] = []

    def __call__(self, value: Any) -> Any:
        """Return what stands for a value.

        Raises
        ------
        NotSendableError
        """
        kind = type(value)
        if kind in _ONE_OF_MANY:
            return value
        found = self._refer(value)
        if found is not None:
            return found
        if isinstance(value, np.ndarray):
            return self.array(value)
        if kind is tuple:
            return ["t", *map(self, value)]
        if kind is list:
            return ["l", *map(self, value)]
        if isinstance(value, Mapping):
            return ["d", *([self(k), self(v)] for k, v in value.items())]
        return self._rare(value, kind)

    def array(self, value: np.ndarray[Any, Any]) -> Any:
        """Return what stands for an array, and take in its numbers."""
        if value.dtype.hasobject or value.dtype.names is not None or value.dtype.kind == "V":
            raise NotSendableError(f"an array of {value.dtype} cannot be sent to the worker process")
        self.arrays.append(value)
        ready = value if value.flags.c_contiguous else np.ascontiguousarray(value)
        place = self._place(ready.reshape(-1).view(np.uint8).data if ready.size else b"")
        return ["a", value.dtype.str, list(value.shape), place, bool(value.flags.writeable)]

    def _place(self, data: Bytes) -> list[int]:
        size = len(data)
        self.wanted += size
        segment = self._segment
        if size >= SMALL and segment is not None and self.used + size <= segment.size:
            at = self.used
            segment.memory[at : at + size] = data
            self.used = at + (size + 63 & ~63)
            return [at, size]
        self.buffers.append(data)
        return [len(self.buffers) - 1]

    def _rare(self, value: Any, kind: type) -> Any:
        if isinstance(value, np.generic):
            return ["s", self.array(np.asarray(value))]
        if (name := _VECTOR_NAMES.get(kind)) is not None:
            parts = (value.x, value.y, value.z, value.w) if name == "quatf" else value
            return [
                "v",
                name,
                *(
                    bool(x) if "bool" in name else float(x) if "float" in name or name == "quatf" else int(x)
                    for x in parts
                ),
            ]
        if (name := _MATRIX_NAMES.get(kind)) is not None:
            return ["m", name, *(float(x) for x in value.to_numpy().ravel())]
        if (name := _ARGUMENT_NAMES.get(kind)) is not None:
            if name == "ValueRef":
                self.cells.append(value)
            return ["x", name, *(self(getattr(value, n)) for n in _ARGUMENTS[name][1])]
        if isinstance(value, Shape):
            return ["t", *value.as_tuple()]
        if isinstance(value, np.dtype):
            return ["D", value.str]
        if isinstance(value, type) and (known := _NAMES.get(id(value))) is not None:
            return ["T", known]
        if isinstance(value, slice):
            return ["sl", self(value.start), self(value.stop), self(value.step)]
        if value is Ellipsis:
            return ["..."]
        if isinstance(value, (bytes, bytearray)):
            self.buffers.append(bytes(value))
            return ["b", len(self.buffers) - 1]
        if isinstance(value, complex):
            return ["z", value.real, value.imag]
        if isinstance(value, (set, frozenset)):
            return ["set", *map(self, value)]
        if isinstance(value, range):
            return ["r", value.start, value.stop, value.step]
        if isinstance(value, np.random.Generator) and type(value.bit_generator) in _GENERATORS.values():
            self.generators.append(value)
            return ["g", type(value.bit_generator).__name__, self(value.bit_generator.state)]
        if (record := self._records.get(kind)) is not None and is_dataclass(value):
            return ["c", record, *([f.name, self(getattr(value, f.name))] for f in fields(value))]
        if isinstance(
            value, (bool, int, float, str, tuple, list)
        ):  # a subclass, such as an enum or a named tuple
            plain: Any = next(t for t in (bool, int, float, str, tuple, list) if isinstance(value, t))
            return self(plain(value))
        if hasattr(value, "detach") and hasattr(value, "cpu"):
            raise NotSendableError(
                "a torch tensor cannot be sent to the worker process as it is: pass `t.detach().cpu().numpy()`"
            )
        raise NotSendableError(
            f"a value of type {kind.__module__}.{kind.__qualname__} cannot be sent to the worker process"
        )


class Decoder:
    """Builds the values of one message.

    Parameters
    ----------
    buffers : sequence of bytearray
        Arrays that came through the pipe.
    resolve : callable
        Returns the object that a reference stands for.
    records : mapping of str to type
        Dataclasses that go by value.
    segment : Segment, optional
        Where large arrays lie.
    copies : bool
        Whether arrays in the segment are copied out of it.

    Attributes
    ----------
    arrays : list of ndarray
        Every array, in the order of their numbers.
    cells : list of slangpy.ValueRef
    generators : list of numpy.random.Generator
    """

    def __init__(
        self,
        buffers: Sequence[bytearray],
        resolve: Callable[[list[Any]], Any],
        records: dict[str, type] | None = None,
        segment: Segment | None = None,
        *,
        copies: bool = True,
    ) -> None:
        self._buffers = buffers
        self._resolve = resolve
        self._records = records or {}
        self._segment = segment
        self._copies = copies
        self.arrays: list[np.ndarray[Any, Any]] = []
        self.cells: list[Any] = []
        self.generators: list[np.random.Generator] = []

    def __call__(self, coded: Any) -> Any:
        """Return the value that something stands for.

        Raises
        ------
        FrameError
            For what stands for nothing.
        """
        if type(coded) is not list:
            if isinstance(coded, dict):
                raise FrameError("a value is none")
            return coded
        try:
            return self._tagged(coded[0], coded)
        except (IndexError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise FrameError(f"a value is none: {error}") from error

    def _tagged(self, tag: str, coded: list[Any]) -> Any:
        if tag in ("o", "n"):
            return self._resolve(coded)
        if tag == "a":
            return self._array(coded)
        make = getattr(self, f"_make_{_TAGS[tag]}")
        return make(*coded[1:])

    def _array(self, coded: list[Any]) -> np.ndarray[Any, Any]:
        _, name, shape, place, writeable = coded
        dtype = np.dtype(str(name))
        if dtype.hasobject or dtype.names is not None:
            raise FrameError("an array of objects")
        data: Any
        if len(place) == 2:
            if self._segment is None:
                raise FrameError("there is no segment")
            at, size = place
            data = self._segment.memory[at : at + size]
        else:
            data = self._buffers[place[0]]
        if len(data) != dtype.itemsize * math.prod(shape):
            raise FrameError("an array of another size than it says")
        array: np.ndarray[Any, Any] = (
            np.frombuffer(data, dtype).reshape(shape) if len(data) else np.empty(shape, dtype)
        )
        if len(place) == 2 and self._copies:
            array = array.copy()
        if not writeable:
            array.flags.writeable = False
        self.arrays.append(array)
        return array

    def _make_tuple(self, *items: Any) -> Any:
        return tuple(map(self, items))

    def _make_list(self, *items: Any) -> Any:
        return list(map(self, items))

    def _make_set(self, *items: Any) -> Any:
        return set(map(self, items))

    def _make_dict(self, *items: Any) -> Any:
        return {self(k): self(v) for k, v in items}

    def _make_scalar(self, coded: Any) -> Any:
        return self._array(coded)[()]

    def _make_vector(self, name: str, *parts: Any) -> Any:
        return _VECTORS[name](*parts)

    def _make_matrix(self, name: str, *parts: Any) -> Any:
        rows, columns = (int(n) for n in name.removeprefix("float").split("x"))
        return _MATRICES[name](np.array(parts, np.float32).reshape(rows, columns))

    def _make_argument(self, name: str, *parts: Any) -> Any:
        made = _ARGUMENTS[name][2](*map(self, parts))
        if name == "ValueRef":
            self.cells.append(made)
        return made

    def _make_dtype(self, name: str) -> Any:
        return np.dtype(name)

    def _make_type(self, name: str) -> Any:
        return _TYPES[name]

    def _make_slice(self, *parts: Any) -> Any:
        return slice(*map(self, parts))

    def _make_ellipsis(self) -> Any:
        return ...

    def _make_bytes(self, index: int) -> Any:
        return bytes(self._buffers[index])

    def _make_complex(self, real: float, imaginary: float) -> Any:
        return complex(real, imaginary)

    def _make_range(self, *parts: int) -> Any:
        return range(*parts)

    def _make_generator(self, name: str, state: Any) -> Any:
        made = np.random.Generator(_GENERATORS[name]())
        made.bit_generator.state = self(state)
        self.generators.append(made)
        return made

    def _make_record(self, name: str, *parts: Any) -> Any:
        return self._records[name](**{key: self(value) for key, value in parts})


_TAGS = {
    "t": "tuple",
    "l": "list",
    "d": "dict",
    "s": "scalar",
    "v": "vector",
    "m": "matrix",
    "x": "argument",
    "D": "dtype",
    "T": "type",
    "sl": "slice",
    "...": "ellipsis",
    "b": "bytes",
    "z": "complex",
    "set": "set",
    "r": "range",
    "g": "generator",
    "c": "record",
}
