"""Functions that overwrite the tensor that they read (`IRWDiffTensor`), and their backward call.

slangpy's backward call runs the function again, stores and all, on what the tensor holds then: after a forward call those are the
results, so the derivative is taken at the wrong place, and the tensor ends up one step further. Here a forward call keeps what the tensor
held before it. A backward call for a tensor that still holds what that forward call left is given the earlier values; whatever the tensor
held, it holds again afterwards, so that a second backward call gives the same gradient.

What is kept is found again by the place in memory and a fingerprint of the contents: a `slangpy.Tensor` can be told apart by nothing else.
It is as large as the tensor, and stays until the function's next forward call or the device's end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import slangpy as spy

from slanglab.engine.gradients import is_in_place
from slanglab.engine.parameters import Parameter
from slanglab.tensors import kernels

__all__ = ["Restored", "Step", "forward", "tensors"]

_WORD = 4  # bytes
_MOST_GROUPS = 64


def tensors(specs: Sequence[Parameter], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tensors with a gradient that a call reads and overwrites, by parameter."""
    return {
        s.name: value
        for s in specs
        if is_in_place(s)
        and isinstance(value := values.get(s.name), spy.Tensor)
        and (value.grad_in is not None or value.grad_out is not None)
    }


@dataclass(frozen=True)
class _Span:
    """The bytes of a tensor in its buffer, in whole words."""

    buffer: Any
    first: int
    size: int

    @classmethod
    def of(cls, tensor: Any) -> _Span:
        stride = int(tensor.dtype.buffer_layout.stride)
        axes = list(zip(tensor.shape.as_tuple(), tensor.strides.as_tuple(), strict=True))
        low = tensor.offset + sum((n - 1) * s for n, s in axes if s < 0)
        high = tensor.offset + sum((n - 1) * s for n, s in axes if s > 0) + 1
        first = low * stride // _WORD * _WORD
        end = min(-(-high * stride // _WORD) * _WORD, tensor.storage.size)
        return cls(tensor.storage, first, end - first)

    @property
    def place(self) -> tuple[int, int, int]:
        return self.buffer.device_address, self.first, self.size

    def saved(self) -> _Span:
        """Return a copy of these bytes in a buffer of its own."""
        usage = spy.BufferUsage.unordered_access | spy.BufferUsage.shader_resource
        copy = _Span(self.buffer.device.create_buffer(size=self.size, usage=usage), 0, self.size)
        copy.write(self)
        return copy

    def write(self, other: _Span) -> None:
        """Copy another span's bytes here."""
        device = self.buffer.device
        encoder = device.create_command_encoder()
        encoder.copy_buffer(self.buffer, self.first, other.buffer, other.first, self.size)
        device.submit_command_buffer(encoder.finish())

    def digest(self) -> tuple[int, int]:
        """Return a fingerprint of the contents; waits for the device."""
        device = self.buffer.device
        group = kernels.group_size(device)
        text = f"#define GROUP {group}\n{kernels.source('digest.slang')}"
        kernel = kernels.kept(
            device, ("digest",), lambda: kernels.load(device, "slanglab/digest", text, "digest")
        )
        usage = spy.BufferUsage.unordered_access | spy.BufferUsage.shader_resource
        sums = device.create_buffer(size=2 * _WORD, usage=usage, data=np.zeros(2, np.uint32))
        count = self.size // _WORD
        groups = max(1, min(-(-count // group), _MOST_GROUPS))
        kernel.dispatch(
            [groups * group, 1, 1],
            first=self.first // _WORD,
            count=count,
            step=groups * group,
            words=self.buffer,
            sums=sums,
        )
        found = sums.to_numpy().view(np.uint32)
        return int(found[0]), int(found[1])


@dataclass(frozen=True)
class Step:
    """What a forward call found in a tensor, and a fingerprint of what it left there."""

    place: tuple[int, int, int]
    before: _Span
    after: tuple[int, int]


class forward:  # noqa: N801 - used as `with inplace.forward(…)`
    """Keep what some tensors hold, around a forward call that overwrites them.

    Parameters
    ----------
    kept : dict of str to Step
        Where to keep it, by parameter.
    found : dict of str to slangpy.Tensor
    """

    def __init__(self, kept: dict[str, Step], found: Mapping[str, Any]) -> None:
        self._kept = kept
        self._spans = {name: _Span.of(tensor) for name, tensor in found.items()}
        self._before: dict[str, _Span] = {}

    def __enter__(self) -> None:
        for name, span in self._spans.items():
            self._kept.pop(name, None)  # give its memory back before more is taken
            self._before[name] = span.saved()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            for name, span in self._spans.items():
                self._kept[name] = Step(span.place, self._before[name], span.digest())


class Restored:
    """Give tensors the values that the last forward call started from, for the time of a backward call.

    Parameters
    ----------
    kept : dict of str to Step
    found : dict of str to slangpy.Tensor
    """

    def __init__(self, kept: Mapping[str, Step], found: Mapping[str, Any]) -> None:
        self._kept = kept
        self._spans = {name: _Span.of(tensor) for name, tensor in found.items()}
        self._primal: dict[str, _Span] = {}
        self._held: dict[str, _Span] = {}

    def __enter__(self) -> Restored:
        for name, span in self._spans.items():
            self._held[name] = self._primal[name] = span.saved()
            step = self._kept.get(name)
            if step is not None and step.place == span.place and step.after == span.digest():
                self._primal[name] = step.before
        self.again()
        return self

    def again(self) -> None:
        """Write the values to start from once more: a backward call has overwritten them."""
        for name, span in self._spans.items():
            span.write(self._primal[name])

    def __exit__(self, *_: object) -> None:
        for name, span in self._spans.items():
            span.write(self._held[name])
