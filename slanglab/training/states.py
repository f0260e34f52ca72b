"""States of a run that are kept while it goes on: copies of parameters and gradients where they lie, spaced over the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slanglab.errors import ArgumentError
from slanglab.tensors import sources
from slanglab.training.measuring import Measure
from slanglab.training.moments import Moments

__all__ = ["Kept", "State", "copied", "put_back", "twin"]


@dataclass(frozen=True, eq=False)
class State:
    """Parameters as they were after a step.

    Attributes
    ----------
    step : int
        Steps done then.
    loss : float
        Of the last of these steps; NaN before the first.
    values, gradients : dict
        By parameter: copies on the parameter's own device. A parameter without a gradient is not among the gradients.
    measures : dict of str to Measure
    pictures : list
        What was shown then, as the view draws it.
    moments : Moments or None
        The optimizer's own state; None where there is no optimizer, or it has no `state_dict` and `load_state_dict`.
    """

    step: int
    loss: float
    values: dict[str, Any]
    gradients: dict[str, Any]
    measures: Mapping[str, Measure] = field(default_factory=dict)
    pictures: Sequence[Any] = ()
    moments: Moments | None = None

    def __repr__(self) -> str:
        return f"State(step={self.step}, loss={self.loss:.6g}, {', '.join(self.values)})"


class Kept(Sequence[State]):
    """At most `most` states, in order.

    When there is no room every second one goes and the spacing doubles, so that those that stay are spread over the whole run; the
    latest always stays.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._states: list[State] = []
        self._latest: State | None = None
        self._spacing = 1
        self._next = 0

    @property
    def wants(self) -> bool:
        """Whether states are kept at all."""
        return self._most > 0

    def add(self, state: State) -> None:
        """Keep a state that is known to be finite."""
        if not self.wants:
            return
        self._latest = state
        if state.step < self._next:
            return
        self._states.append(state)
        if len(self._states) > max(self._most - 1, 1):
            del self._states[1::2]
        count = len(self._states)
        if count > 1:
            self._spacing = max(1, (state.step - self._states[0].step) // max(1, self._most // 2))
        self._next = state.step + self._spacing

    def _all(self) -> list[State]:
        states = self._states
        if self._latest is not None and (not states or states[-1] is not self._latest):
            return [*states, self._latest][-self._most :]
        return states[-self._most :] if self._most else []

    def __len__(self) -> int:
        return len(self._all())

    def __getitem__(self, i: Any) -> Any:
        return self._all()[i]


def copied(params: Mapping[str, Any], *, gradients: bool = True) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return copies of values and, unless they are not wanted, of gradients, made where they lie."""
    values: dict[str, Any] = {}
    slopes: dict[str, Any] = {}
    for name, tensor in params.items():
        if sources.is_tensor(tensor):
            values[name] = twin(tensor)
            found = sources.gradient_of(tensor) if gradients else None
            if found is not None:
                slopes[name] = twin(found[0])
        else:
            both = sources.arrays(tensor)
            values[name] = np.array(both.value)
            if gradients and both.gradient is not None:
                slopes[name] = np.array(both.gradient)
    return values, slopes


def twin(tensor: Any) -> Any:
    """Return a tensor of the same numbers, in a buffer of its own that is laid out the same way."""
    import slangpy as spy

    if not tensor.element_count:
        return tensor  # there is nothing to copy, and no buffer of no size
    made = spy.Tensor.empty(tensor.device, tensor.shape.as_tuple(), tensor.dtype)
    _copy(made, tensor)
    return made


def _copy(target: Any, source: Any) -> None:
    size = source.element_count * source.storage.struct_size
    if not size:
        return
    if not (source.is_contiguous() and target.is_contiguous()):
        target.copy_from_numpy(source.to_numpy())
        return
    encoder = source.device.create_command_encoder()
    encoder.copy_buffer(
        target.storage,
        target.offset * target.storage.struct_size,
        source.storage,
        source.offset * source.storage.struct_size,
        size,
    )
    source.device.submit_command_buffer(encoder.finish())


def put_back(state: State, params: Mapping[str, Any]) -> None:
    """Write a state's values and gradients into parameters.

    Raises
    ------
    ArgumentError
        If a parameter is not one of the state's, or has another shape by now; then nothing is written.
    """
    for name, tensor in params.items():
        kept = state.values.get(name)
        if kept is None or _shape(kept) != _shape(tensor):
            raise ArgumentError(
                f"The state of step {state.step} does not fit the parameter {name!r}.",
                expected="no such parameter" if kept is None else str(_shape(kept)),
                given=str(_shape(tensor)),
            )
    for name, tensor in params.items():
        if sources.is_tensor(tensor):
            _copy(tensor, state.values[name])
            found = sources.gradient_of(tensor)
            if found is not None and name in state.gradients:
                _copy(found[0], state.gradients[name])
        else:
            both = sources.arrays(tensor)
            both.value[...] = state.values[name]
            if both.gradient is not None and name in state.gradients:
                both.gradient[...] = state.gradients[name]


def _shape(tensor: Any) -> tuple[int, ...]:
    if sources.is_tensor(tensor):
        return tuple(tensor.shape.as_tuple())
    return tuple(sources.arrays(tensor).value.shape)
