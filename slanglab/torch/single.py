"""One call with torch tensors: forward, and backward for what it kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import slangpy as spy
import torch

from slanglab import waiting
from slanglab.engine import dispatch, gradients
from slanglab.engine.dispatch import Said, ValueWarning
from slanglab.engine.plans import least
from slanglab.engine.target import Target
from slanglab.errors import CallError
from slanglab.tensors import mended
from slanglab.torch import graph
from slanglab.torch.convert import converted
from slanglab.torch.exchange import Exchange
from slanglab.torch.leaves import Arguments, Leaf, element_of, torch_dtype
from slanglab.torch.ready import Kind
from slanglab.torch.structs import fields_of

__all__ = ["Single"]

_with_grads = mended.own("with_grads")


class Single:
    """One call.

    Parameters
    ----------
    target : Target
        The forward one.
    arguments : Arguments
    exchange : Exchange
    kind : Kind, optional
        Takes note of what the engine was given, so that later calls like this one can do without.
    """

    def __init__(
        self, target: Target, arguments: Arguments, exchange: Exchange, kind: Kind | None = None
    ) -> None:
        self.target = target
        self.kind = kind
        self.leaves = arguments.leaves
        self._arguments = arguments
        self._exchange = exchange
        self._tensors: list[Any] = []
        self._before: dict[int, Any] = {}
        self._lent: list[Any] = []
        self._idle = True
        self._struct: Any = None
        self._shape: tuple[int, ...] = ()
        self._returned: tuple[str, Any] = ("float", torch.float32)
        self._where = self.leaves[0].tensor.device
        result = arguments.result if arguments.result is not None else target.returned
        self._into = result is not None and not _is_torch(result) and not _asks_for_tensor(result)
        self._returns = (
            bool(target.slang_function.have_return_value) if target.checked else True
        ) and not _is_torch(result)
        if self._into and (isinstance(result, (str, type)) or not _can_be_written(result)):
            raise CallError(
                f"{target.name}: with torch tensors the result is a torch tensor, and {result!r} was asked for",
                function=target.name,
                argument="_result",
                hint="ask for nothing; `.numpy()` of what comes back is the array",
            )

    def carries_gradient(self, said: list[Said]) -> bool:
        """Tell whether torch is to have the call in its graph; see `slanglab.torch.graph`."""
        into = self._arguments.result if self._into else None
        return graph.carries_gradient(self.target, self.leaves, into, self._is_struct, said)

    def keep(self, said: list[Said]) -> None:
        """Make sure that what the backward call reads is what the forward call read."""
        graph.hold(self.target, self._arguments, said)

    @property
    def _is_struct(self) -> bool:
        result = self.target.result
        return self._returns and result is not None and result.kind == "struct"

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Return what surrounds work on the device: calls come from any thread, torch's own too, and slangpy is for one at a time."""
        with self._exchange.lock:
            if (
                self.target.device.info.type == spy.DeviceType.cuda
            ):  # torch may have made another GPU's current since
                self.target.device.set_cuda_context_current()
            yield

    # ----- forward -----

    def forward(self, said: list[Said], kept: bool = False) -> list[Any]:
        """Make the call; return the result, where there is one for torch, and the tensors that were written.

        Parameters
        ----------
        said : list of Said
            Gets the warnings to give.
        kept : bool
            True where a backward call may follow.
        """
        with self._turn():
            return self._forward(said, kept)

    def _forward(self, said: list[Said], kept: bool) -> list[Any]:
        notes: list[str] = []
        tensors: list[Any] = []
        self._tensors = tensors
        for i, leaf in enumerate(self.leaves):
            tensor = self._upload(leaf, notes) if leaf.reads else self._room(leaf.placed, leaf.element)
            if kept and leaf.reads and leaf.writes and leaf.receives:
                self._before[i] = self._upload(leaf, [])
            if leaf.spec is not None and gradients.is_concrete(leaf.spec):
                tensor = tensor.with_grads()
            tensors.append(tensor)
        said += [(ValueWarning, note) for note in notes]
        args, kwargs = self._arguments.filled(tensors)
        wanted = self._result_room() if self._returns and not self._into else None
        if wanted is not None:
            kwargs["_result"] = wanted
        self._idle = False
        self._exchange.begin()
        result, more = dispatch.made(self.target, args, kwargs)
        self._exchange.end()
        said += more
        if self.kind is not None:
            self.kind.forward_made(args, kwargs, self._is_large)
        outputs: list[Any] = []
        if self._returns:
            if self._into or not isinstance(result, spy.Tensor):
                self._struct = result
            elif self._is_struct:
                self._struct = fields_of(result, self._where)
                self._idle = True
            else:
                found = self._exchange.download(result)
                self._returns_shape(found)
                outputs.append(self._shaped(found))
                self._idle = True
        for leaf, tensor in zip(self.leaves, tensors, strict=True):
            if leaf.writes:
                leaf.tensor.copy_(self._exchange.download(tensor).reshape(leaf.shape))
                outputs.append(leaf.tensor)
                self._idle = True
        return outputs

    def resume(self, shape: tuple[int, ...], dtype: Any) -> None:
        """Take up a call whose forward part was made elsewhere, for its backward part alone; its result has this shape on the device."""
        self._shape, self._returned = shape, (element_of(dtype), dtype)

    def _returns_shape(self, found: Any) -> None:
        """Note what the seed of a backward call will be like."""
        self._shape = tuple(found.shape) or (1,)
        self._returned = element_of(found.dtype), found.dtype

    def _upload(self, leaf: Leaf, notes: list[str]) -> Any:
        tensor = converted(self.target.name, leaf, notes)
        made = self._exchange.upload(tensor, leaf.element, leaf.placed)
        self._lent.append(made)
        return made

    def _room(self, shape: tuple[int, ...], element: str) -> Any:
        made = self._exchange.room(shape, element)
        self._lent.append(made)
        return made

    def _result_room(self) -> Any:
        """Return what to give as `_result`: a tensor in memory that is read quickly, where its shape is known before."""
        spec = self.target.result
        shape = self._call_shape
        if (
            shape is not None
            and 0 not in shape
            and spec is not None
            and spec.kind in ("scalar", "vector", "matrix")
            and spec.dtype is not None
        ):
            return self._room((*shape, *spec.element_shape), element_of(torch_dtype(spec.dtype)))
        return "tensor"

    @cached_property
    def _call_shape(self) -> tuple[int, ...] | None:
        """The shape of the call, where it follows from the torch tensors."""
        if not self._arguments.simple:
            return None
        if len(self.leaves) == 1:
            leaf = self.leaves[0]
            return leaf.shape[: leaf.outer] if leaf.shape else (1,)
        shapes = [leaf.placed[: leaf.outer] if leaf.shape else (1,) for leaf in self.leaves]
        try:
            return np.broadcast_shapes(*shapes)
        except ValueError:
            return None

    @property
    def _is_large(self) -> bool:
        shape = self._call_shape
        return shape is not None and prod(shape) >= least(self.target.device)

    def _shaped(self, result: Any) -> Any:
        """Return a result without the axis that a call of tensors without axes has on the device."""
        spec = self.target.result
        element = spec.element_shape if spec is not None else ()
        if not self._arguments.has_axes and result.ndim > len(element) and result.numel() == prod(element):
            return result.reshape(element)
        return result

    def finish(self) -> None:
        """Give back what the call lent; later calls may write it, so that the device has to be done with it."""
        lent, self._lent = self._lent, []
        self._tensors, self._before = [], {}
        if self._idle:
            self._exchange.free(lent)

    def let_go(self) -> None:
        """Let go of the user's tensors: torch's graph holds this object, and what this holds could hold the graph."""
        for leaf in self.leaves:
            leaf.tensor = None

    def answer(self, outputs: Sequence[Any]) -> Any:
        """Return what the call returns to the user."""
        if self._struct is not None:
            return self._struct
        if self._returns:
            return outputs[0]
        return outputs[-1] if _is_torch_given(self.leaves) else None

    @property
    def has_result(self) -> bool:
        """Whether the first output is the function's result."""
        return self._returns and self._struct is None

    # ----- backward -----

    def backward(
        self, saved: Sequence[Any], wanted: Sequence[bool], seeds: Sequence[Any], said: list[Said]
    ) -> list[Any]:
        """Make the backward call; return the gradient of each leaf, None for those that are not wanted.

        Parameters
        ----------
        saved : sequence of torch.Tensor
            The tensors that the function does not write, as the forward call had them.
        wanted : sequence of bool
            For each leaf.
        seeds : sequence of torch.Tensor or None
            The gradient of each output, in the order of `forward`; None for zero.
        said : list of Said
        """
        with self._turn():
            return self._backward(saved, wanted, seeds, said)

    def _backward(
        self, saved: Sequence[Any], wanted: Sequence[bool], seeds: Sequence[Any], said: list[Said]
    ) -> list[Any]:
        if not self._tensors:  # the forward call was made without
            self._tensors = [
                self._upload(replace(leaf, tensor=tensor), [])
                for leaf, tensor in zip(self.leaves, saved, strict=True)
            ]
        left, inputs = list(seeds), list(saved)
        spread = self._spread()
        lent_before = len(self._lent)
        result = left.pop(0) if self.has_result else None
        tensors: list[Any] = []
        rooms: dict[int, Any] = {}
        for i, leaf in enumerate(self.leaves):
            tensor = self._tensors[i]
            if gradients.has_gradient(tensor):
                tensor = tensor.detach()
            if leaf.writes:
                seed = left.pop(0)
                if leaf.dtype.is_floating_point:
                    if seed is None:
                        seed = torch.zeros(leaf.shape, dtype=leaf.dtype, device=self._where)
                    cotangent = self._seed(seed, leaf.placed, leaf.element, leaf.dtype)
                    if i in self._before:
                        rooms[i] = self._room(leaf.placed, leaf.element)
                        tensor = _paired(self._before[i], cotangent, rooms[i])
                    else:
                        tensor = _paired(self._room(leaf.placed, leaf.element), cotangent, None)
                tensors.append(tensor)
                continue
            own = inputs.pop(0)
            if i in spread:
                leaf = replace(leaf, tensor=own.detach().expand(spread[i]), shape=spread[i])
                tensor = self._upload(leaf, [])
            if wanted[i] and leaf.receives:
                rooms[i] = self._room(leaf.placed, leaf.element)
                tensor = _paired(tensor, None, rooms[i])
            tensors.append(tensor)
        args, kwargs = self._arguments.filled(tensors)
        kwargs.pop("_result", None) if self._returns else None
        if self.has_result:
            cotangent = self._seed(result, self._shape, *self._returned)
            # slangpy's kernel runs the function again and writes its result, so that seed and result cannot be one memory.
            own = self._room(self._shape, self._returned[0])
            kwargs["_result"] = _paired(own, cotangent, None)
        self._idle = False
        self._exchange.begin()
        _, more = dispatch.made(graph.backward_of(self.target), args, kwargs, tuple(rooms.values()))
        self._exchange.end()
        said += more
        if self.kind is not None and self.has_result:
            self.kind.backward_made(wanted, args, kwargs, self._is_large)
        found: list[Any] = [None] * len(self.leaves)
        for i, room in rooms.items():
            leaf = self.leaves[i]
            gradient = self._exchange.download(room)
            if i in spread:
                gradient = gradient.sum_to_size(leaf.placed)
            found[i] = gradient.reshape(leaf.shape).to(leaf.given)
        if not rooms:
            waiting.wait(self.target.device)
        self._idle = True
        self._exchange.free(self._lent[lent_before:])
        del self._lent[lent_before:]
        return found

    def _spread(self) -> dict[int, tuple[int, ...]]:
        """Return the doubles that the call is broadcast over, and the shape of each then.

        slangpy has no gradients of doubles. SlangLab's own kernel has, where each tensor has the shape of the call.
        """
        shape = self._call_shape
        if shape is None or not any(leaf.dtype == torch.float64 for leaf in self.leaves):
            return {}
        found = {}
        for i, leaf in enumerate(self.leaves):
            whole = (*shape, *leaf.placed[leaf.outer if leaf.shape else 1 :])
            taken = leaf.spec.dims if leaf.spec is not None else 1
            if not leaf.writes and not taken and whole != leaf.placed:
                found[i] = whole
        return found

    def _seed(self, seed: Any, shape: tuple[int, ...], element: str, dtype: Any) -> Any:
        if seed is None:
            made = self._exchange.upload(torch.zeros(shape, dtype=dtype, device=self._where), element, shape)
        else:
            made = self._exchange.upload(seed.detach(), element, shape)
        self._lent.append(made)
        return made

    def __del__(self) -> None:
        try:
            self.finish()
        except Exception:  # noqa: S110 - at the end of the process or of the device there is nothing left to give back to
            pass


def _paired(tensor: Any, grad_in: Any, grad_out: Any) -> Any:
    """Return a tensor with gradients of its own shape, as slangpy does: nothing has to be checked, or cleared."""
    return _with_grads(tensor, grad_in, grad_out, False)


def _is_torch(value: object) -> bool:
    return isinstance(value, torch.Tensor)


def _is_torch_given(leaves: Sequence[Leaf]) -> bool:
    return bool(leaves) and leaves[-1].where == "_result"


def _asks_for_tensor(value: object) -> bool:
    return value is spy.Tensor or value is torch.Tensor or (isinstance(value, str) and value == "tensor")


def _can_be_written(value: object) -> bool:
    return isinstance(value, (spy.Tensor, np.ndarray)) or hasattr(value, "storage")
