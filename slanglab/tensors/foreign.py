"""Arrays of other libraries that speak DLPack (torch, cupy, jax, ...), brought here without importing any of them."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from slanglab.errors import ArgumentError
from slanglab.tensors import capsules
from slanglab.tensors.capsules import BFLOAT, CPU, CUDA, CUDA_HOST, CUDA_MANAGED, Opened
from slanglab.values import describe_value

__all__ = ["Place", "is_foreign", "on_host", "opened", "place"]

Place = tuple[int, int]
"""DLPack's kind of device, and which of them."""

_HOST = (CPU, CUDA_HOST)


def is_foreign(value: object) -> bool:
    """Tell whether a value is an array that hands itself over by DLPack, and is not numpy's own."""
    return not isinstance(value, np.ndarray) and hasattr(type(value), "__dlpack__")


def place(value: Any) -> Place:
    """Return where an array is."""
    kind, number = value.__dlpack_device__()
    return int(kind), int(number)


def _plain(value: Any) -> Any:
    """Return a tensor of torch without its place in a graph, which torch does not hand over."""
    detach = getattr(value, "detach", None)
    if detach is None:
        return value
    value = detach()
    return value.resolve_neg() if hasattr(value, "resolve_neg") else value


def opened(value: Any, stream: int | None = None) -> Opened:
    """Take an array over, with its memory.

    Parameters
    ----------
    value : object
        With `__dlpack__`.
    stream : int, optional
        The CUDA stream that its memory is going to be read in.

    Raises
    ------
    ArgumentError
        When the array is not handed over.
    """
    value = _plain(value)
    named = {} if stream is None else {"stream": stream}
    try:
        try:
            capsule = value.__dlpack__(**named, max_version=(1, 0))
        except TypeError:  # written before the standard knew versions
            capsule = value.__dlpack__(**named)
        return Opened(capsule)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise ArgumentError(
            f"this array cannot be taken over by DLPack: {str(error).splitlines()[0]}",
            argument="x",
            given=describe_value(value),
        ) from error


def on_host(value: Any) -> np.ndarray[Any, Any]:
    """Return an array of another library as one of numpy's; one that lies in the memory of the processor shares it where numpy can.

    Parameters
    ----------
    value : object
        With `__dlpack__`. bfloat16 becomes float32, which holds each of its numbers.

    Raises
    ------
    ArgumentError
        When the array cannot be brought to the host, or holds no real numbers.
    """
    value = _plain(value)
    if place(value)[0] not in _HOST:
        value = _brought(value)
        if isinstance(value, np.ndarray):
            return value
    held = opened(value)
    if held.code == BFLOAT and held.bits == 16:
        # The upper half of a float32's bits.
        wide = held.copy(np.dtype(np.uint16)).astype(np.uint32) << 16
        held.close()
        return wide.view(np.float32)
    if held.dtype is None:
        held.close()
        raise ArgumentError(
            "Slang has no type for the elements of this array",
            argument="x",
            given=describe_value(value),
            hint="pass real numbers of 8 to 64 bits; a complex array has .real and .imag",
        )
    return _shared(held)


def _shared(held: Opened) -> np.ndarray[Any, Any]:
    """Return an array over the memory of one that was taken over, which lives as long as any view of it."""
    assert held.dtype is not None
    if held.dtype.kind == "b":
        return held.copy(held.dtype)  # numpy before 2 takes no bools by DLPack
    capsule = capsules.make(
        held, held.address, held.shape, held.strides, held.dtype, (CPU, 0), versioned=False
    )
    array: np.ndarray[Any, Any] = np.from_dlpack(_Handed(capsule))
    if held.read_only:
        array.flags.writeable = False
    return array


class _Handed:
    """Hands over one capsule, as numpy wants it."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> Place:
        return CPU, 0


def _brought(value: Any) -> Any:
    """Return a copy on the host, by the array's own means."""
    for name in ("cpu", "get"):  # torch's, cupy's
        bring = getattr(value, name, None)
        if callable(bring):
            return bring()
    with contextlib.suppress(BufferError, TypeError, ValueError):
        return np.from_dlpack(value, device="cpu", copy=True)
    with contextlib.suppress(TypeError, ValueError):
        return np.asarray(value)
    kind = {CUDA: "CUDA", CUDA_MANAGED: "managed CUDA"}.get(
        place(value)[0], f"DLPack's kind {place(value)[0]}"
    )
    raise ArgumentError(
        f"this array is in the memory of a device ({kind}), and cannot be copied to the host from here",
        argument="x",
        given=describe_value(value),
        hint="copy it to the host with its own library first",
    )
