"""Recording which functions are called with which tensors, and how tensors lead from one call to the next."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from slanglab.cells import function as functions
from slanglab.cells.function import SlangFunction
from slanglab.tensors import sources

__all__ = ["Call", "Recording", "key", "recorded"]

_RESULT = "_result"


@dataclass(eq=False)
class Call:
    """A function that was called forward.

    Attributes
    ----------
    name : str
    inputs, outputs : list of (str, tensor)
        With the names of parameters; tensors of the device alone. A result's name is "".
    backward : int
        How often it was called backward with the same tensors.
    """

    name: str
    inputs: list[tuple[str, Any]]
    outputs: list[tuple[str, Any]]
    backward: int = 0


@dataclass(eq=False)
class Recording:
    """The calls, in order."""

    calls: list[Call] = field(default_factory=list)
    thread: int = field(default_factory=threading.get_ident)

    def add(
        self, function: SlangFunction, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
    ) -> None:
        """Note a call that has returned."""
        shown = function._applied()
        directions = {}
        declared = functions.declarations_of(function)
        names = [str(i) for i in range(len(args))]
        if len(declared) == 1:
            parameters = declared[0].parameters
            names = [p.name for p in parameters[: len(args)]] + names[len(parameters) :]
            directions = {p.name: p.direction for p in parameters}
        given = list(zip(names, args, strict=False)) + list(kwargs.items())
        tensors = [(name, one) for name, one in given if sources.is_tensor(one)]
        inputs = [(n, t) for n, t in tensors if n != _RESULT and directions.get(n, "in") != "out"]
        outputs = [(n, t) for n, t in tensors if n != _RESULT and directions.get(n, "in") == "out"]
        outputs += [("", t) for n, t in tensors if n == _RESULT]
        if ".bwds" in shown:
            same = [key(t) for _, t in inputs]
            for call in reversed(self.calls):
                if call.name == function.name and [key(t) for _, t in call.inputs] == same:
                    call.backward += 1
                    # Here the results carry gradients.
                    ours = {key(t): t for _, t in outputs}
                    call.outputs = [(n, ours.get(key(t), t)) for n, t in call.outputs]
                    return
            self.calls.append(Call(function.name, inputs, outputs, 1))
            return
        if sources.is_tensor(result) and not any(key(result) == key(t) for _, t in outputs):
            outputs.append(("", result))
        self.calls.append(Call(function.name, inputs, outputs))


def key(tensor: Any) -> tuple[int, int, tuple[int, ...]]:
    """Return what is the same for two objects that are the same numbers: where they lie."""
    return id(tensor.storage), tensor.offset, tuple(tensor.shape.as_tuple())


_open: list[Recording] = []
_lock = threading.Lock()


@contextmanager
def recorded() -> Iterator[Recording]:
    """Record the calls of this thread inside the `with`; outside of it a call costs what it did."""
    recording = Recording()
    with _lock:
        if not _open:
            _plain.append(SlangFunction.__call__)
            SlangFunction.__call__ = _recording(_plain[0])  # type: ignore[method-assign]
        _open.append(recording)
    try:
        yield recording
    finally:
        with _lock:
            _open.remove(recording)
            if not _open:
                SlangFunction.__call__ = _plain.pop()  # type: ignore[method-assign]


_plain: list[Callable[..., Any]] = []


def _recording(plain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def call(self: SlangFunction, /, *args: Any, **kwargs: Any) -> Any:
        result = plain(self, *args, **kwargs)
        for recording in list(_open):
            if recording.thread == threading.get_ident():
                recording.add(self, args, kwargs, result)
        return result

    return call
