"""What all optimizers have in common: parameters, learning rate, the names of their state."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from slanglab.errors import ArgumentError
from slanglab.optim import states
from slanglab.optim.places import Place, collect, places
from slanglab.optim.schedules import Constant, Schedule
from slanglab.tensors import writes

__all__ = ["Optimizer", "checked"]

_LARGEST = 1e30


def checked(
    who: str, name: str, value: Any, low: float = 0.0, high: float = _LARGEST, open_end: bool = False
) -> float:
    """Return a hyper-parameter as a float.

    Raises
    ------
    ArgumentError
        If it is no number, or outside its range.
    """
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not low <= number <= high or (open_end and number == high):
        upper = "" if high == _LARGEST else f" and {'below' if open_end else 'at most'} {high:g}"
        raise ArgumentError(
            f"{who}: {name} is {value!r}.",
            function=who,
            argument=name,
            expected=f"a number, {low:g} at least{upper}",
            given=repr(value),
        )
    return number


class Optimizer(ABC):
    """Changes tensors so that a loss falls.

    Parameters
    ----------
    params : slangpy.Tensor, list or dict of them
        With gradients (`slanglab.tensor(…, grad=True)` or `t.with_grads()`), of half, float or double, or of vectors, matrices and arrays
        of them. A contiguous view is a parameter too. In a list they are called "0", "1", ….
    lr : float or callable
        The learning rate, or what returns it for the number of steps done before: one of the schedules, or a function.

    Raises
    ------
    ArgumentError
        For tensors without gradient, strided views, and memory that is given twice.
    DeviceGoneError
        If the tensors' device is lost or closed.
    """

    hyper: ClassVar[tuple[str, ...]] = ()
    """The hyper-parameters that are attributes, besides `lr`."""

    def __init__(self, params: Any, lr: float | Schedule) -> None:
        self._params = collect(params)
        self._places = places(self._params)
        self._lie = _lie(self._places)
        """Where each tensor and its gradient lay when it was looked up."""
        self._device = self._places[0].tensor.device
        self.steps = 0
        """Steps done so far."""
        self._schedule: Schedule = Constant(0.0)
        self.lr = lr

    @property
    def params(self) -> dict[str, Any]:
        """The tensors, by name."""
        return dict(self._params)

    # ----- learning rate -----

    @property
    def lr(self) -> float:
        """The learning rate of the next step; assign a number or a schedule to replace it."""
        return self._rate(self.steps)

    @lr.setter
    def lr(self, value: float | Schedule) -> None:
        before = self._schedule
        self._schedule = value if callable(value) else Constant(checked(type(self).__name__, "lr", value))
        try:
            self._rate(self.steps)
        except BaseException:
            self._schedule = before
            raise

    @property
    def schedule(self) -> Schedule | None:
        """What the learning rate follows; None where it is a number."""
        return None if type(self._schedule) is Constant else self._schedule

    def _rate(self, step: int) -> float:
        found = self._schedule(step)
        if type(found) is float and 0.0 <= found <= _LARGEST:
            return found
        return checked(type(self).__name__, f"lr({step})", found)

    # ----- gradients -----

    @abstractmethod
    def step(self) -> Any:
        """Change the parameters by what their gradients say."""

    @abstractmethod
    def zero_grad(self) -> None:
        """Fill the gradients of all parameters with zeros."""

    def _tell(self) -> None:
        """Tell views that follow a tensor."""
        if writes.watched:
            writes.wrote(*self._params.values())

    def _moved(self) -> bool:
        """Tell whether a tensor or a gradient lies elsewhere than at the last step, and find out where if so."""
        for tensor, storage, gradient, its in self._lie:
            if (
                tensor.storage is not storage
                or tensor.grad_out is not gradient
                or gradient.storage is not its
            ):
                break
        else:
            return False
        found = places(self._params)
        for old, new in zip(self._places, found, strict=True):
            if (old.shape, old.format) != (new.shape, new.format):
                raise ArgumentError(
                    f"The parameter {new.name!r} has become another tensor.",
                    argument=f"params[{new.name!r}]",
                    expected=f"{old.format}, shape {old.shape}",
                    given=f"{new.format}, shape {new.shape}",
                    hint="make a new optimizer",
                )
        self._places = found
        self._lie = _lie(found)
        return True

    # ----- state -----

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Return steps, hyper-parameters and state, as numbers and arrays."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` returned."""

    def save(self, path: str | Path) -> None:
        """Write `state_dict()` to a file of numpy's `.npz` form; parameters are not in it.

        Parameters
        ----------
        path : str or Path
            `.npz` is added where it has no ending.
        """
        states.save(path, self.state_dict())

    def load(self, path: str | Path) -> None:
        """Go on from a file that `save` wrote.

        Raises
        ------
        ArgumentError
            If it is no such file, or one of another optimizer or of other parameters.
        """
        self.load_state_dict(states.load(path))

    def _hyper(self) -> dict[str, Any]:
        found = {name: getattr(self, name) for name in self.hyper}
        if self.schedule is None:
            found["lr"] = self.lr
        return found

    def _load_hyper(self, given: Mapping[str, Any]) -> None:
        for name in self.hyper:
            self.__dict__[name] = states.like(getattr(self, name), given[name], name)
        if self.schedule is None and "lr" in given:
            self.lr = float(given["lr"])

    def __repr__(self) -> str:
        many = len(self._params)
        names = ", ".join(list(self._params)[:4]) + (", …" if many > 4 else "")
        numbers = sum(place.count for place in self._places)
        what = f"{many} tensor{'' if many == 1 else 's'} ({names}), {numbers} numbers"
        return f"{type(self).__name__}({what}, lr={self.lr:g}, steps={self.steps})"


def _lie(found: list[Place]) -> list[tuple[Any, Any, Any, Any]]:
    return [(one.tensor, one.value_storage, one.gradient, one.gradient_storage) for one in found]
