"""What the user chose about calls, and the call that came last: one object for each lab."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from slanglab.engine.runs import Run, Trace

__all__ = ["Control", "Policy"]


class _Settings(Protocol):
    def __getitem__(self, name: str, /) -> str: ...


@dataclass(frozen=True)
class Policy:
    """How calls are made.

    Attributes
    ----------
    check : {"first", "always", "off"}
        Which backward calls are compared with difference quotients: the first of each plan, every one, or none.
    path : {"auto", "slangpy"}
        "slangpy" sends every call through slangpy's own generated kernel as it is, for comparison and for bug reports.
    gradients : {"accumulate", "zero"}
        Whether a backward call adds to the gradients that are there, as slangpy does, or clears them first.
    timing : bool
        Whether each call is put between two timestamps of the device.
    plain : bool
        Whether a planned call may go to slangpy with its arguments as they are.
    """

    check: Literal["first", "always", "off"] = "first"
    path: Literal["auto", "slangpy"] = "auto"
    gradients: Literal["accumulate", "zero"] = "accumulate"
    timing: bool = False
    plain: bool = field(init=False, default=True)

    def __post_init__(self) -> None:
        plain = not self.timing and self.gradients == "accumulate" and self.check != "always"
        object.__setattr__(self, "plain", plain)

    @classmethod
    def of(cls, settings: _Settings) -> Policy:
        """Return the policy that settings with the keys `check`, `path`, `gradients` and `timing` describe."""
        return cls(
            settings["check"],  # type: ignore[arg-type]  # settings hold only what their key allows
            settings["path"],  # type: ignore[arg-type]  # the same
            settings["gradients"],  # type: ignore[arg-type]  # the same
            settings["timing"] == "on",
        )


class Control:
    """The policy of one lab, and what its last call left behind.

    Attributes
    ----------
    policy : Policy
    plain : bool
        The policy's; read at every call.
    last : tuple or None
        (trace, seconds, args, kwargs) of the last call: it is set at every call, so it only holds references. The arguments are those
        of a call that went the short way, small ones; else there are none.
    foreign : callable or None
        Makes a call, given as (target, args, kwargs), that has torch tensors among its arguments.
    """

    __slots__ = ("__weakref__", "_policy", "foreign", "last", "plain")

    def __init__(self, policy: Policy | None = None) -> None:
        self.last: tuple[Trace, float, tuple[Any, ...], Mapping[str, Any]] | None = None
        self.foreign: Callable[[Any, tuple[Any, ...], Mapping[str, Any]], Any] | None = None
        self.policy = policy or Policy()
        _controls.add(self)

    @property
    def policy(self) -> Policy:
        """How calls are made."""
        return self._policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        self._policy = policy
        self.plain = policy.plain

    def change(self, **changes: Any) -> None:
        """Change the policy for the calls to come."""
        self.policy = replace(self._policy, **changes)

    def report(self) -> Run | None:
        """Return the report of the call that came last, or None before the first; waits for the device where time was taken."""
        if self.last is None:
            return None
        trace, seconds, args, kwargs = self.last
        return trace.report(seconds, (*args, *kwargs.values()))

    def forget(self) -> None:
        """Let go of the last call, before its device is closed."""
        self.last = None


_controls: weakref.WeakSet[Control] = weakref.WeakSet()


def _forked() -> None:
    """Send every call of a forked child the long way, where it is refused: it would block for ever on the parent's device."""
    for control in _controls:
        control.plain = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
