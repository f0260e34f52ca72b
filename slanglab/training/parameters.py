"""What a run is given: parameters and shown tensors, by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from slanglab.errors import ArgumentError
from slanglab.tensors import sources

__all__ = ["Optimizer", "named", "variables"]


class Optimizer(Protocol):
    """What a run needs of an optimizer; those of `slanglab.optim` have it."""

    lr: float

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters by name."""
        ...

    def zero_grad(self) -> None:
        """Set all gradients to zero."""
        ...

    def step(self) -> object:
        """Update all parameters from their gradients."""
        ...


def variables() -> Mapping[str, Any]:
    """Return the variables of the running notebook, from which names are taken; none outside of one."""
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    return {} if shell is None else dict(shell.user_ns)


def named(given: Any, what: str, word: str) -> dict[str, Any]:
    """Return tensors by name.

    Parameters
    ----------
    given : None, tensor, sequence of tensors, or mapping of str to tensor
        Tensors without a name get that of a variable of the notebook, else `word` and their place.
    what : str
        The argument, for errors.
    word : str
        Before the place of what has no name; "" for the place alone.

    Raises
    ------
    ArgumentError
        If a tensor is none.
    """
    if given is None:
        return {}
    if isinstance(given, Mapping):
        found = {str(name): one for name, one in given.items()}
    else:
        listed = list(given) if isinstance(given, (list, tuple, set)) or _is_iterator(given) else [given]
        held = variables()
        names: dict[str, Any] = {}
        for i, one in enumerate(listed):
            own = next((n for n, v in held.items() if v is one and not n.startswith("_")), "")
            name = own if own and own not in names else f"{word}{i}"
            names[name] = one
        found = names
    for name, one in found.items():
        if not (callable(one) and what == "show"):
            _check(name, one, what)
    return found


def _is_iterator(given: Any) -> bool:
    return isinstance(given, Iterable) and iter(given) is given


def _check(name: str, one: Any, what: str) -> None:
    if sources.is_tensor(one):
        if what == "params" and not one.is_contiguous():
            raise ArgumentError(
                f"The parameter {name!r} is a strided view.",
                argument=what,
                hint="train the tensor that it is a view of",
            )
        return
    if not isinstance(one, sources.Arrays) and not (hasattr(one, "shape") and hasattr(one, "dtype")):
        raise ArgumentError(
            f"{name!r} in {what} is no tensor.",
            argument=what,
            expected="tensors: one, a list, or a dict of name and tensor",
            given=type(one).__name__,
        )
