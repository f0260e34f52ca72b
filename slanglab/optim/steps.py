"""Optimizers whose step is a kernel: clipping, the step on the device, state in tensors."""

from __future__ import annotations

import contextlib
import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import slangpy as spy

from slanglab import waiting
from slanglab.errors import ArgumentError, CallError
from slanglab.optim import states
from slanglab.optim.optimizer import Optimizer, checked
from slanglab.optim.places import Place
from slanglab.optim.programs import NUMBERS, way
from slanglab.optim.schedules import Schedule
from slanglab.optim.sweeps import NORM, SKIPPED, Control, Sweep, Table
from slanglab.tensors import writes

__all__ = ["StepOptimizer"]


class StepOptimizer(Optimizer):
    """An optimizer whose step is a kernel: one dispatch over all tensors, and nothing comes to the host.

    Parameters
    ----------
    params, lr
        As for `Optimizer`.
    clip_norm : float, optional
        Scale the gradients so that their norm, that of all tensors together, is this at most. The gradients themselves stay as they are.
    clip_value : float, optional
        Clamp each gradient to between minus and plus this.
    skip_nonfinite : bool
        Leave parameters and state as they are in a step with a gradient that is NaN or infinite, and count it in `skipped`. Otherwise
        such a gradient makes its parameter NaN, as with torch.

    Notes
    -----
    State is float32 for half and float tensors, in which they are computed with as well, and float64 for double ones.
    """

    file: ClassVar[str] = ""
    """The rule in `shaders/`, without its ending."""
    corrected: ClassVar[int] = 0
    """What has to be worked out on the device where steps may be skipped; see `shaders/optim_control.slang`."""

    def __init__(
        self,
        params: Any,
        lr: float | Schedule,
        clip_norm: float | None,
        clip_value: float | None,
        skip_nonfinite: bool,
    ) -> None:
        super().__init__(params, lr)
        who = type(self).__name__
        if clip_norm is not None and clip_value is not None:
            raise ArgumentError(
                f"{who}: clip_norm and clip_value are both given.",
                function=who,
                argument="clip_value",
                hint="clip by one of them; `slanglab.optim.clip_grad_value` clamps the gradients before a step",
            )
        self._clip_norm = None if clip_norm is None else checked(who, "clip_norm", clip_norm)
        self._clip_value = None if clip_value is None else checked(who, "clip_value", clip_value)
        self._skip = bool(skip_nonfinite)
        self._way = way(self._device)
        self._state: dict[str, dict[str, Any]] = {place.name: self._made(place) for place in self._places}
        self._table: Table | None = None
        self._control: Control | None = None
        self._skipped = 0
        self._build()

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; a hyper-parameter may change between steps where the kernel and the state stay the same."""
        if name not in self.hyper or "_sweep" not in self.__dict__:
            object.__setattr__(self, name, value)
            return
        old, before = getattr(self, name), (self.buffers(), self.macros())
        object.__setattr__(self, name, value)
        try:
            self.numbers(0.0, 1)
            if (self.buffers(), self.macros()) == before:
                return
        except (TypeError, ValueError):
            pass
        object.__setattr__(self, name, old)
        who = type(self).__name__
        raise ArgumentError(
            f"{who}: {name} cannot become {value!r} after {who} was made with {old!r}.",
            function=who,
            argument=name,
            hint=f"make a new one: `slanglab.optim.{who}(params, {name}={value!r})`",
        )

    # ----- what a rule says -----

    @abstractmethod
    def buffers(self) -> tuple[str, ...]:
        """Return the names of the state that each parameter has."""

    @abstractmethod
    def macros(self) -> dict[str, int]:
        """Return the macros of the rule."""

    @abstractmethod
    def numbers(self, lr: float, step: int) -> tuple[float, ...]:
        """Return the hyper-parameters of a step, counted from 1, as the rule wants them."""

    def correction(self, lr: float) -> tuple[float, ...]:
        """Return what the kernel needs that works out the first two of `numbers` where steps may be skipped."""
        return ()

    # ----- building -----

    def _made(self, place: Place) -> dict[str, Any]:
        """Return the state of a parameter, all zeros."""
        element = "double" if place.format == "float64" else "float"
        shape = place.shape or (1,)
        return {name: _zeros(self._device, shape, element) for name in self.buffers()}

    def _build(self) -> None:
        """Make the table of tensors and the kernels over it."""
        own = [list(self._state[place.name].values()) for place in self._places]
        if self._table is not None:
            self._skipped = self.skipped
            self._hold()
        self._table = table = Table(self._places, own, self._way)
        controlled = self._skip or self._clip_norm is not None
        corrected = self.corrected if self._skip else 0
        self._control = Control(table, corrected, self._skipped) if controlled else None
        macros = {
            "STATES": len(self.buffers()),
            "CONTROLLED": int(controlled),
            "CORRECTED": int(corrected > 0),
            "CLAMPED": int(self._clip_value is not None),
            **self.macros(),
        }
        own_numbers = len(self.numbers(0.0, 1))
        self._rest = (0.0,) * (NUMBERS - 1 - own_numbers) + (self._clip_value or 0.0,)
        self._sweep = Sweep(table, (self.file, "optim_step"), **macros)
        self._clear: Sweep | None = None

    # ----- steps -----

    def step(self) -> None:
        """Change the parameters by what their gradients say: one dispatch, and two small ones before it where gradients are measured.

        Raises
        ------
        DeviceGoneError
            If the device is lost or closed.
        """
        device = self._device
        waiting.check(device)
        if self._moved():
            self._build()
        step = self.steps + 1
        lr = self._rate(self.steps)
        numbers = self.numbers(lr, step) + self._rest
        encoder = device.create_command_encoder()
        control = self._control
        if control is not None:
            correction = self.correction(lr) if self._skip else ()
            control.record(encoder, self._norm_limit, self._skip, step, *correction)
        self._sweep.record(encoder, numbers, control)
        waiting.told(device.submit_command_buffer, encoder.finish())
        self.steps = step
        if writes.watched:
            self._tell()

    @property
    def _norm_limit(self) -> float:
        """The largest norm as the kernel takes it: 0 is none, and the smallest number stands for a limit of 0."""
        return 0.0 if self._clip_norm is None else max(self._clip_norm, 1e-37)

    def zero_grad(self) -> None:
        """Fill the gradients of all parameters with zeros, in one dispatch."""
        device = self._device
        waiting.check(device)
        if self._moved():
            self._build()
        if self._clear is None:
            assert self._table is not None
            self._clear = Sweep(self._table, ("optim_gradient",), ACTION=0)
        encoder = device.create_command_encoder()
        self._clear.record(encoder, (0.0,) * NUMBERS)
        waiting.told(device.submit_command_buffer, encoder.finish())
        if writes.watched:
            self._tell()

    @property
    def state(self) -> dict[str, dict[str, Any]]:
        """The state, by parameter and then by torch's names: tensors of the parameter's shape, with the axes of its elements behind."""
        return {name: dict(own) for name, own in self._state.items()}

    @property
    def skipped(self) -> int:
        """Steps that were skipped for gradients that are not finite; reading it waits for the device."""
        if self._control is None or not self._skip:
            return self._skipped
        return int(self._control.read(SKIPPED))

    @property
    def grad_norm(self) -> float:
        """The norm of all gradients at the last step, before clipping; reading it waits for the device.

        Raises
        ------
        CallError
            If the optimizer does not measure it, or there was no step yet.
        """
        if self._control is None:
            raise CallError(
                f"{type(self).__name__} does not measure the gradients' norm.",
                hint="it does with `clip_norm=…` or `skip_nonfinite=True`",
            )
        if self.steps == 0:
            raise CallError("There was no step yet.", hint="the norm is that of the last step")
        return self._control.read(NORM)

    # ----- state -----

    def state_dict(self) -> dict[str, Any]:
        """Return what is needed to go on: numbers, and arrays on the host.

        Returns
        -------
        dict
            `steps` and `skipped`; `hyper`: the hyper-parameters by name, `lr` only where it is a number; `state`: by parameter and name an
            array.
        """
        arrays = {
            name: {key: tensor.to_numpy() for key, tensor in own.items()} for name, own in self._state.items()
        }
        shapes = {place.name: place.shape or (1,) for place in self._places}
        return {
            "steps": self.steps,
            "skipped": self.skipped,
            "hyper": self._hyper(),
            "state": {
                name: {key: array.reshape(shapes[name]) for key, array in own.items()}
                for name, own in arrays.items()
            },
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` returned; a schedule stays, a number is replaced by what was saved.

        Raises
        ------
        ArgumentError
            If it is the state of another optimizer or of other parameters; nothing has changed then.
        """
        waiting.check(self._device)
        shapes = {
            name: {key: tensor.shape.as_tuple() for key, tensor in own.items()}
            for name, own in self._state.items()
        }
        found = states.checked(state, self._hyper(), shapes)
        self._load_hyper(found.hyper)
        self.steps, self._skipped = found.steps, found.skipped
        for name, own in found.arrays.items():
            for key, array in own.items():
                tensor = self._state[name][key]
                if array.size:
                    kind = "float64" if tensor.dtype.full_name == "double" else "float32"
                    tensor.copy_from_numpy(array.astype(kind))
        self._hold()
        self._table = self._control = None
        self._build()

    def _hold(self) -> None:
        """Keep what a step uses until the device is idle: it may be at one, and knows only addresses."""
        waiting.until_idle(self._device, self._table, self._control)

    def __del__(self) -> None:
        """Keep what a step uses; see `_hold`."""
        with contextlib.suppress(Exception):  # never made, or the interpreter ends
            self._hold()


def _zeros(device: Any, shape: tuple[int, ...], element: str) -> Any:
    if math.prod(shape):
        return spy.Tensor.zeros(device, shape, element)
    # slangpy makes no buffer without bytes; one of a single number has room for none.
    return spy.Tensor.zeros(device, (1,), element).view(shape, (1,) * len(shape), 0)
