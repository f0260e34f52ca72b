"""What the user chose about calls, and the call that came last: one object for each lab."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from slanglab.engine.runs import Details, Run, report

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
            settings["path"],  # type: ignore[arg-type]
            settings["gradients"],  # type: ignore[arg-type]
            settings["timing"] == "on",
        )


class Control:
    """The policy of one lab, and what its last call left behind.

    Attributes
    ----------
    policy : Policy
    last : tuple or None
        (function, backward, details, seconds, values, gradients, stopwatch) of the last call, see `slanglab.engine.runs.report`. It is
        set at every call, so it only holds references. `values` are the arguments of a call that went the short way: small ones,
        or the short way would not have been taken.
    printed : str
        What the last call printed.
    """

    __slots__ = ("last", "policy", "printed")

    def __init__(self, policy: Policy | None = None) -> None:
        self.policy = policy or Policy()
        self.last: tuple[str, bool, Details, float, tuple[Any, ...], str, Any] | None = None
        self.printed = ""

    def change(self, **changes: Any) -> None:
        """Change the policy for the calls to come."""
        self.policy = replace(self.policy, **changes)

    def report(self) -> Run | None:
        """Return the report of the call that came last, or None before the first; waits for the device where time was taken."""
        return report(*self.last, self.printed) if self.last is not None else None

    def forget(self) -> None:
        """Let go of the last call, before its device is closed."""
        self.last = None
