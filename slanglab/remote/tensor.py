"""A tensor in the worker, as the notebook has it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from slangpy.slangpy import Shape

from slanglab.errors import DeviceGoneError
from slanglab.remote.engine import Engine, Reference
from slanglab.scalars import type_name
from slanglab.tensors import capsules, dlpack

__all__ = ["ElementType", "RemoteTensor", "StaticView"]


@dataclass(frozen=True)
class ElementType:
    """The type of a tensor's elements.

    Attributes
    ----------
    full_name : str
        As slangpy has it: "float", "vector<float,3>".
    shape : tuple of int
        Of one element.
    """

    full_name: str
    shape: tuple[int, ...]

    @property
    def name(self) -> str:
        """As Slang writes it: "float3"."""
        return type_name(self.full_name)


class RemoteTensor:
    """A `slangpy.Tensor` in the worker.

    Its shape and element type are known here, its numbers are not: `to_numpy` brings them. It is gone with its worker.
    """

    slanglab_remade = False
    namespace: ClassVar[Callable[[], Mapping[str, Any]]] = dict
    """Returns the user's variables; a notebook sets it."""

    def __init__(self, engine: Engine, reference: Reference, facts: dict[str, Any]) -> None:
        self._engine = engine
        self._reference = reference
        self._shape = tuple(int(n) for n in facts["shape"])
        self._element = ElementType(str(facts["dtype"]), tuple(int(n) for n in facts["element"]))
        self._size = int(facts["bytes"]) * math.prod(self._shape)
        self._grads: dict[str, Any] = {}

    def slanglab_reference(self) -> Reference:
        """Return where the tensor is."""
        return self._reference

    def slanglab_there(self: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one of SlangLab's functions where its argument is."""
        raise NotImplementedError  # replaced by `slanglab.remote`, which knows the engine

    @property
    def is_gone(self) -> bool:
        """Whether the worker that had it is gone."""
        return self._reference.generation != self._engine.generation

    def _do(self, name: str, *args: Any, room: int = 0, **kwargs: Any) -> Any:
        return self._engine.ask(
            "call", name, args=args, kwargs=kwargs, object=self._reference, name=name, room=room
        )

    # ----- what is known here -----

    @property
    def shape(self) -> Shape:
        """The shape."""
        return Shape(self._shape)

    @property
    def dtype(self) -> ElementType:
        """The type of the elements."""
        return self._element

    @property
    def element_count(self) -> int:
        """How many elements it has."""
        return math.prod(self._shape)

    def __len__(self) -> int:
        if not self._shape:
            raise TypeError("a tensor without axes has no length")
        return self._shape[0]

    def __bool__(self) -> bool:
        return True  # as slangpy's, whatever its length

    def __iter__(self) -> Iterator[RemoteTensor]:
        return (self[i] for i in range(len(self)))

    # ----- numbers -----

    def to_numpy(self) -> np.ndarray[Any, Any]:
        """Return the numbers; waits for them."""
        found: np.ndarray[Any, Any] = self._do("to_numpy", room=self._size)
        return found

    numpy = to_numpy

    def copy_from_numpy(self, data: np.ndarray[Any, Any]) -> None:
        """Overwrite the numbers with an array of the same shape and type."""
        self._do("copy_from_numpy", data)

    def clear(self) -> None:
        """Fill it with zeros."""
        self._do("clear")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError("the numbers of a tensor in the worker process cannot be had without a copy")
        array = self.to_numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __dlpack_device__(self) -> tuple[int, int]:
        return capsules.CPU, 0

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        return dlpack.copied(
            "the worker process", self.to_numpy, max_version=max_version, dl_device=dl_device, copy=copy
        )

    # ----- gradients and views -----

    def _gradient(self, name: str) -> Any:
        found = self._grads.get(name)
        if found is None or found.is_gone:
            found = self._engine.ask("get", object=self._reference, name=name)
            if found is not None:
                self._grads[name] = found
        return found

    @property
    def grad(self) -> Any:
        """The gradient."""
        return self._gradient("grad")

    @property
    def grad_in(self) -> Any:
        """The gradient that a backward call reads."""
        return self._gradient("grad_in")

    @property
    def grad_out(self) -> Any:
        """The gradient that a backward call writes."""
        return self._gradient("grad_out")

    def with_grads(self, grad_in: Any = None, grad_out: Any = None, zero: bool | None = None) -> RemoteTensor:
        """Return the tensor with gradients; see slangpy."""
        given = {"grad_in": grad_in, "grad_out": grad_out, "zero": zero}
        found: RemoteTensor = self._do("with_grads", **{k: v for k, v in given.items() if v is not None})
        return found

    def __getitem__(self, key: Any) -> Any:
        return self._engine.ask("item", args=(key,), object=self._reference)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in _METHODS:
            return lambda *args, **kwargs: self._do(name, *args, **kwargs)
        return self._engine.ask("get", object=self._reference, name=name)

    # ----- showing -----

    def _shown(self, what: str) -> str:
        try:
            return str(self._engine.ask("text", object=self._reference, what=what))
        except DeviceGoneError as error:
            return (
                f"<tensor of {self._element.name}, shape {self._shape}; its values are gone: {error.message}>"
            )

    def __str__(self) -> str:
        return self._shown("str")

    def __repr__(self) -> str:
        return self._shown("repr")

    def _repr_mimebundle_(self, **_kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        names = [n for n, v in list(type(self).namespace().items()) if v is self and not n.startswith("_")]
        try:
            return StaticView(self, names[0] if names else "")._repr_mimebundle_()
        except DeviceGoneError:
            return {"text/plain": repr(self)}, {}


_METHODS = frozenset({"broadcast_to", "detach", "is_contiguous", "point_to", "view", "uniforms"})


class StaticView:
    """What a tensor holds at this moment, as a PNG and as text.

    Parameters
    ----------
    tensor : RemoteTensor
    name : str
        The variable's.
    """

    def __init__(self, tensor: RemoteTensor, name: str = "") -> None:
        self.text, self._image, *self._size = tensor._engine.ask(
            "picture", object=tensor.slanglab_reference(), title=name
        )

    def __repr__(self) -> str:
        return str(self.text)

    def _repr_mimebundle_(self, **_kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        data = {"text/plain": self.text}
        if self._image is None:
            return data, {}
        size = {"width": self._size[0], "height": self._size[1]}
        return data | {"image/png": self._image}, {"image/png": size}
